"""Run the tests on servers, each folder in a process of its own: ``python -m tests.folders [NAME ...]``.

A queue feeds the workers the longest folder first, so that all end at about the same time. Each folder's output is
printed in one piece when it ends, and every folder runs, whichever fails. What failed is named at the very end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["FOLDERS", "command_of", "main"]

_TESTS = Path(__file__).parent
_CATALOGS = _TESTS / "catalogs"
REPORTS = Path("build/tests")
_SHOWN = 800
"""How many characters of a failed test's message stand at the end."""

_UNIT = {"applier", "cli", "unit"}
"""What `make unit` runs."""
_SECONDS = {
    "pipeline": 350,
    "catalogs": 320,
    "hive": 220,
    "torture": 180,
    "action": 175,
    "security": 170,
    "server": 125,
    "end-to-end": 120,
    "pages": 110,
    "glue": 105,
    "iceberg": 100,
    "rest": 75,
    "clients": 50,
    "mirrors": 45,
    "unity": 40,
}
"""About how long each folder takes on two cores, beside two others of them; one that is not named is short."""
_WORKERS = 4
"""A folder waits for a third of its time: three leave a sixth of two cores idle. The pipeline takes most, 4 GiB."""


def _arguments() -> dict[str, list[str]]:
    """Return what pytest is given for each run, by its name."""
    found = {
        folder.name: [str(folder.relative_to(_TESTS.parent))]
        for parent in (_TESTS, _CATALOGS)
        for folder in parent.iterdir()
        if any(folder.glob("test_*.py")) and folder.name not in _UNIT | {"catalogs", "servers"}
    }
    shared = sorted(str(path.relative_to(_TESTS.parent)) for path in _CATALOGS.glob("test_*.py"))
    return {
        **found,
        "catalogs": [*shared, "tests/servers"],
        "end-to-end": ["-m", "end_to_end", "tests/unit", "tests/cli"],
    }


FOLDERS = _arguments()


def command_of(name: str, *, counted: bool = False) -> list[str]:
    """Return the command that runs the tests of a folder and leaves a report of its name."""
    coverage = ["--cov", "--cov-report="] if counted else []
    return [sys.executable, "-m", "pytest", f"--junitxml={REPORTS / name}.xml", *coverage, *FOLDERS[name]]


def _run(name: str, counted: bool) -> tuple[str, int, float, str]:
    """Run the tests of one folder; return its name, its exit code, its seconds and its output."""
    (REPORTS / f"{name}.xml").unlink(missing_ok=True)
    began = time.monotonic()
    environment = os.environ | ({"COVERAGE_FILE": f".coverage-{name}"} if counted else {})
    ended = subprocess.run(
        command_of(name, counted=counted),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return name, ended.returncode, time.monotonic() - began, ended.stdout


def _failures(name: str) -> list[str]:
    """Return a line for each test of a folder that failed, or one that says that the report names none."""
    report = REPORTS / f"{name}.xml"
    cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()  # noqa: S314 - pytest wrote it
    failures = [
        f"{name}: {case.get('classname', '?')}::{case.get('name', '?')}: {reason.attrib.get('message', '')[:_SHOWN]}"
        for case in cases
        for reason in (*case.findall("failure"), *case.findall("error"))
    ]
    return failures or [f"{name}: no test is reported as failed; its output is above"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the folders that are named, or all; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", choices=[[], *FOLDERS], metavar="NAME", help=", ".join(sorted(FOLDERS)))
    parser.add_argument("--workers", type=int, default=_WORKERS, help="how many folders run at once")
    parser.add_argument("--counted", action="store_true", help="note which lines ran")
    parser.add_argument("--list", action="store_true", help="print the names as a JSON list")
    options = parser.parse_args(arguments)
    names = sorted(options.names or FOLDERS, key=lambda name: _SECONDS.get(name, 0), reverse=True)
    if options.list:
        print(json.dumps(names))
        return 0
    failed = []
    with ThreadPoolExecutor(options.workers) as workers:
        for run in as_completed(workers.submit(_run, name, options.counted) for name in names):
            name, code, seconds, output = run.result()
            failed += [name] if code else []
            print(f"== {name}: {'failed' if code else 'passed'} after {seconds:.0f} s\n{output}", flush=True)
    for name in failed:
        print("\n".join(_failures(name)))
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
