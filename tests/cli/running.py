"""Running the command line the way a shell does, in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.cli import main

__all__ = ["Ran", "lancens", "shell"]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def lancens(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ran:
    """Run a command in this process and return what it printed."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    code = ended.value.code
    return Ran(code if isinstance(code, int) else 1, out, err)


def shell(*arguments: str | Path, folder: Path | None = None, stdin: str = "", **environment: str) -> Ran:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "from reconciler.cli import main; main()", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
