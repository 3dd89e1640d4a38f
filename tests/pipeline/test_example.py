"""The example of the pipeline runs, and finds what it damages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline" / "demo.py"


def test_the_demo_finds_the_damage() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    assert "inventory.parquet: 2 namespaces, 4 tab" in done.stderr
    assert "  dangling   1 error, 1 warning" in done.stdout
    assert "  orphan     1 warning" in done.stdout
    assert "! features/sessions  blocked" in done.stdout
    assert "|lake   |features |0         |2     |NULL |" in done.stdout
    assert "|ml-platform|error   |1       |" in done.stdout
    assert "|orphan   |lake   |1       |lake/scratch/copy_of_clicks.lance|" in done.stdout
    assert done.stdout.count("?\n+--") == 5
