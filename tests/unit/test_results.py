"""The page that `make bench` writes."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from benchmarks.__main__ import PARTS, page
from benchmarks.page import Goal, Section, run_measured, spread
from benchmarks.peers import CATALOGS


def test_goals_come_first_and_what_is_missed_is_explained() -> None:
    goals = [Goal("scan against bare", 1.1, 1.15), Goal("apply against bare", 1.4, 1.2, "0.2 s are the journal's")]
    text = page([Section("Reading", "python -m benchmarks.peers", "a table", goals)], "a machine.", 61)
    assert text.index("## Goals") < text.index("## Reading")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert ["scan against bare", "1.10", "1.15", "met"] in rows
    assert ["apply against bare", "1.40", "1.20", "**missed**"] in rows
    assert "bare: 0.2 s are the journal's.\n" in text
    assert "in 1 minutes: a machine." in text


def test_a_figure_is_a_median_with_the_least_and_the_most() -> None:
    assert spread([3.0, 1.0, 2.0]) == "2.00 (1.00 to 3.00)"
    assert spread([1234.4], 0) == "1,234"


def test_a_whole_process_is_measured_with_what_it_starts() -> None:
    busy = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'bytearray(80_000_000)']); print('done')"
    used = run_measured([sys.executable, "-c", busy])
    assert used.output == "done\n"
    assert used.memory > 70
    assert used.cpu > 0
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        run_measured([sys.executable, "-c", "raise SystemExit(3)"])


def test_every_part_can_be_imported_and_asked_for_its_section() -> None:
    modules = {*PARTS} - {*CATALOGS} | {"peers"}
    assert all(callable(import_module(f"benchmarks.{name}").section) for name in modules)
