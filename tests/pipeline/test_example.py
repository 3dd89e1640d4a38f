"""The example of the pipeline runs, and finds what it damages."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.cli import main
from tests.soak import in_full

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline" / "demo.py"


def check(out: str, err: str) -> None:
    assert "inventory.parquet: 2 namespaces, 4 tab" in err
    assert "  dangling   1 error, 1 warning" in out
    assert "  orphan     1 warning" in out
    assert "! features/sessions  blocked" in out
    assert "|lake   |features |0         |2     |NULL |" in out
    assert "|ml-platform|error   |1       |" in out
    assert "|orphan   |lake   |1       |lake/scratch/copy_of_clicks.lance|" in out
    assert out.count("?\n+--") == 5


def test_the_demo_finds_the_damage(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run its commands in this process: three of them would start Spark."""
    demo = runpy.run_path(str(EXAMPLE))

    def run(*command: str, folder: Path, code: int = 0) -> None:
        program, *arguments = command
        monkeypatch.chdir(folder)
        if program == "python":
            script = Path(*arguments)  # a session's workers stay in the folder where it began
            script.write_text(script.read_text().replace("lancens.yaml", str(folder / "lancens.yaml")))
            monkeypatch.setattr(sys, "argv", arguments)
            runpy.run_path(arguments[0])
            return
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert (ended.value.code or 0) == code

    steps: Callable[..., Any] = demo["main"]
    monkeypatch.setitem(steps.__globals__, "run", run)
    monkeypatch.chdir(EXAMPLE.parent)
    steps()
    check(*capsys.readouterr())


@pytest.mark.soak
@in_full
def test_the_demo_ends_well_by_itself() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    check(done.stdout, done.stderr)
