"""Print what each run of pytest took, from the reports that it left: ``python -m tests.durations FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 15
MOST_CPU_SECONDS = 30
"""What a test may take, its servers and other children included."""


def durations(folder: Path) -> list[str]:
    """Return a line for each report in ``folder``, the dearest first, and one for each of the slowest tests.

    A line has the seconds by the clock, those of CPU, and how many tests there were. A test that an ended process was
    in has no name in the report.
    """
    suites: list[tuple[float, float, int, str]] = []
    tests: list[tuple[float, float, str]] = []
    for path in sorted(folder.glob("*.xml")):
        suite = ElementTree.parse(path).getroot()[0]  # noqa: S314 - pytest wrote it
        cases = [
            (_cpu(case), float(case.attrib["time"]), f"{case.get('classname', path.stem)}.{case.get('name', '?')[:60]}")
            for case in suite.iter("testcase")
        ]
        spent = sum(cpu for cpu, _, _ in cases)
        suites.append((spent, float(suite.attrib["time"]), int(suite.attrib["tests"]), path.stem))
        tests += cases
    slowest = sorted(tests, reverse=True)[:SLOWEST]
    over = [name for cpu, _, name in tests if cpu > MOST_CPU_SECONDS]
    return [
        "  CPU s  clock s  tests",
        *(f"{cpu:7.1f}  {clock:7.1f}  {count:5}  {name}" for cpu, clock, count, name in sorted(suites, reverse=True)),
        f"{sum(row[0] for row in suites):7.1f}           {sum(row[2] for row in suites):5}  in all",
        f"The {SLOWEST} dearest tests:",
        *(f"{cpu:7.1f}  {clock:7.1f}  {name}" for cpu, clock, name in slowest),
        *(f"{name} takes over {MOST_CPU_SECONDS} CPU seconds" for name in over),
    ]


def _cpu(case: ElementTree.Element) -> float:
    """Return the CPU seconds of a test, which `tests.cost` has noted."""
    return sum(float(noted.attrib["value"]) for noted in case.iter("property") if noted.attrib["name"] == "cpu")


if __name__ == "__main__":
    print("\n".join(durations(Path(sys.argv[1]))))
