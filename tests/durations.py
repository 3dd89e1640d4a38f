"""Print how long each run of pytest took, from the reports that it left: ``python -m tests.durations FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 15


def durations(folder: Path) -> list[str]:
    """Return a line for each report in ``folder``, the longest first, and one for each of the slowest tests."""
    suites: list[tuple[float, int, str]] = []
    tests: list[tuple[float, str]] = []
    for path in sorted(folder.glob("*.xml")):
        suite = ElementTree.parse(path).getroot()[0]  # noqa: S314 - pytest wrote it
        suites.append((float(suite.attrib["time"]), int(suite.attrib["tests"]), path.stem))
        tests += [
            (float(case.attrib["time"]), f"{case.attrib['classname']}.{case.attrib['name'][:60]}")
            for case in suite.iter("testcase")
        ]
    return [
        *(f"{seconds:8.1f} s  {count:5}  {name}" for seconds, count, name in sorted(suites, reverse=True)),
        f"The {SLOWEST} slowest tests:",
        *(f"{seconds:8.1f} s  {name}" for seconds, name in sorted(tests, reverse=True)[:SLOWEST]),
    ]


if __name__ == "__main__":
    print("\n".join(durations(Path(sys.argv[1]))))
