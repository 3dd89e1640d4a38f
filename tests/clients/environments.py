"""Python environments for what cannot share the tests' own: made from locked versions, kept between runs.

``NAME.in`` names what is wanted and ``NAME.lock`` every version with its hashes;
``python -m tests.clients.environments`` resolves the locks again.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.servers.jars import cache_directory
from tests.servers.require import missing

__all__ = ["environment"]

_HERE = Path(__file__).parent
_SECONDS = 900


def environment(name: str) -> Path:
    """Return the folder of the environment that ``NAME.lock`` describes, made once for each content of it."""
    lock = _HERE / f"{name}.lock"
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = cache_directory() / f"{name}-{digest}"
    if (folder / ".made").is_file():
        return folder
    uv = Path(sys.executable).with_name("uv")
    if not uv.is_file():
        missing("`uv` is not installed beside the Python of the tests")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        commands: list[list[str | Path]] = [
            [uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, made],
            [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", made / "bin/python", lock],
        ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode != 0:
                missing(f"uv could not make the environment {name}: {done.stderr[-1000:]}")
        (made / ".made").touch()
        try:
            made.rename(folder)
        except OSError:
            if not (folder / ".made").is_file():  # otherwise another run was faster
                shutil.rmtree(folder)
                made.rename(folder)
    return folder


def _lock() -> None:
    for wanted in sorted(_HERE.glob("*.in")):
        command = ["uv", "pip", "compile", "--quiet", "--python-version", "3.11", "--universal", "--generate-hashes"]
        command += [
            "--no-emit-index-url",
            "--no-header",
            "--output-file",
            str(wanted.with_suffix(".lock")),
            str(wanted),
        ]
        subprocess.run([Path(sys.executable).with_name(command[0]), *command[1:]], check=True)


if __name__ == "__main__":
    _lock()
