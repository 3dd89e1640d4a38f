"""Note which lines each test runs, and its CPU seconds: ``python -m tests.covered [NAME ...]``, in ``build/covered``.

NAME is a folder of ``tests.folders`` or ``unit``. Lines that a process of its own runs, such as the command line, count
for the test that started it: each test hands its name to the processes it starts. Those forked from a server that an
earlier test started (``tests/pages``, ``multiprocessing``) count for none, like session fixtures for all but one test.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
from collections import defaultdict
from functools import cached_property
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.folders import FOLDERS

__all__ = ["Covered", "main"]

ROOT = Path(__file__).parents[1]
COVERED = ROOT / "build/covered"
UNIT = ["-m", "not end_to_end", "tests/unit", "tests/cli", "tests/applier"]
_CONFIG = "COVERAGE_PROCESS_CONFIG"
_COSTS = "LANCENS_COSTS"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the processes that a test starts note their lines under its name."""
    if config := os.environ.get(_CONFIG):
        child = {**json.loads(base64.b64decode(config)), "context": item.nodeid}
        os.environ[_CONFIG] = base64.b64encode(json.dumps(child).encode()).decode()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what a passed test cost, where no worker of xdist but its controller sees it."""
    costs = [float(str(value)) for name, value in report.user_properties if name == "cpu"]
    if "PYTEST_XDIST_WORKER" not in os.environ and report.when == "teardown" and costs:
        with Path(os.environ[_COSTS]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, costs[-1]]) + "\n")


class Covered:
    """The tests that ran each line of a version, with their costs."""

    def __init__(self, folder: Path = COVERED) -> None:
        self._folder = folder
        self._noted: list[CoverageData] = []
        self._costs: list[Path] = []
        for path in sorted(folder.glob("*.coverage")):
            data = CoverageData(str(path))
            data.read()
            self._noted.append(data)
            self._costs.append(path.with_suffix(".costs"))

    @cached_property
    def version(self) -> str:
        """Return the commit whose lines were noted."""
        return (self._folder / "version").read_text("utf-8").strip()

    @cached_property
    def costs(self) -> dict[str, float]:
        """Return the CPU seconds of each test."""
        noted = [path.read_text("utf-8").splitlines() for path in self._costs]
        return {test: seconds for lines in noted for test, seconds in map(json.loads, lines)}

    def tests(self, path: Path) -> dict[int, set[str]]:
        """Return the tests that ran each line of a module, by its number."""
        tests: dict[int, set[str]] = defaultdict(set)
        for data in self._noted:
            for file in data.measured_files():
                if file.endswith(f"/{path}"):
                    for line, contexts in data.contexts_by_lineno(file).items():
                        tests[line] |= {context.partition("|")[0] for context in contexts if context}
        return tests

    def paths(self) -> set[Path]:
        """Return the modules of which lines ran."""
        files = {file for data in self._noted for file in data.measured_files()}
        return {Path(file[file.rindex("/reconciler/") + 1 :]) for file in files}

    def repeated(self) -> list[tuple[float, str]]:
        """Return the tests of whose lines a cheaper test runs each, with their costs, the dearest first.

        They may still check more than others do about the same lines: `tests.mutants` tells.
        """
        costs = self.costs
        needed = {
            min(known, key=lambda test: (costs[test], test))
            for path in self.paths()
            for tests in self.tests(path).values()
            if (known := tests & costs.keys())
        }
        return sorted(((costs[test], test) for test in costs.keys() - needed), reverse=True)


def _note(name: str) -> int:
    """Run the tests of a folder and note their lines; return pytest's exit code."""
    data, costs = COVERED / f"{name}.coverage", COVERED / f"{name}.costs"
    data.unlink(missing_ok=True)
    costs.unlink(missing_ok=True)
    command = ["-m", "pytest", "-p", "tests.covered", "--cov", "--cov-context=test", "--cov-report="]
    tests = ["-n", "2", "--dist", "worksteal", *UNIT] if name == "unit" else FOLDERS[name]
    environment = {**os.environ, "COVERAGE_FILE": str(data), _COSTS: str(costs)}
    return subprocess.run([sys.executable, *command, *tests], cwd=ROOT, env=environment, check=False).returncode


def main() -> int:
    """Note the lines of the folders that are named, or of all; return 1 if tests failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.covered")
    names = ["unit", *FOLDERS]
    parser.add_argument("names", nargs="*", choices=[[], *names], metavar="NAME")
    parser.add_argument("--repeated", action="store_true", help="print tests that run only lines of cheaper tests")
    options = parser.parse_args()
    if options.repeated:
        print("\n".join(f"{seconds:7.2f} {test}" for seconds, test in Covered().repeated()))
        return 0
    COVERED.mkdir(parents=True, exist_ok=True)
    command = ["git", "rev-parse", "HEAD"]
    version = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    failed = [name for name in options.names or names if _note(name)]
    (COVERED / "version").write_text(version, "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
