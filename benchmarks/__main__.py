"""Run benchmarks and write one page: `python -m benchmarks [NAME ...]`.

Names are those of the parts, which it prints, or all of them; `make bench` runs it.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from benchmarks import peers
from benchmarks.environments import peer_version
from benchmarks.page import Section, table
from benchmarks.peers import CATALOGS

UPKEEP = ("maintain", "appends", "compaction", "small")
PLANNING = ("start", "planning", "octodns", "scale")
OTHERS = ("script", "throttled", "declares", "evidence", "since_last", "serve", "clones", *UPKEEP)
PARTS = (*PLANNING, *CATALOGS, *OTHERS)
PAGE = Path(__file__).parent / "RESULTS.md"
PACKAGES = ("pylance", "lance-namespace", "pydantic", "pyarrow", "boto3", "moto")


def machine() -> str:
    """Describe the machine and the versions, in one paragraph."""
    processors = [
        line.partition(":")[2].strip() for line in _lines_of("/proc/cpuinfo") if line.startswith("model name")
    ]
    memory = next((int(line.split()[1]) for line in _lines_of("/proc/meminfo") if line.startswith("MemTotal")), 0)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    name = processors[0] if processors else platform.processor()
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    peers = ", ".join(map(peer_version, ("lance-namespace-impls", "lance-ray", "lancedb", "octodns")))
    return (
        f"lancens at {commit.stdout.strip() or 'no commit'}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, "
        f"{os.cpu_count()} cores ({name}), {memory / 2**20:.1f} GiB, load {os.getloadavg()[0]:.1f} at the start, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {versions}; beside {peers}."
    )


def page(sections: Sequence[Section], about: str, seconds: float) -> str:
    """Return the page in Markdown: the goals, then the sections."""
    goals = [goal for section in sections for goal in section.goals]
    rows = [
        [goal.name, f"{goal.value:.2f}", f"{goal.limit:.2f}", "met" if goal.is_met else "**missed**"] for goal in goals
    ]
    missed = "".join(f"- {goal.name}: {goal.cause}.\n" for goal in goals if not goal.is_met and goal.cause)
    parts = "\n\n".join(
        f"## {section.title}\n\n`{section.command}`{section.cost}: {section.text}".rstrip() for section in sections
    )
    return (
        "# Results\n\n"
        f"`make bench` wrote this page in {seconds / 60:.0f} minutes: {about} Everything is measured side by side, in "
        "turns; a figure is the median of its rounds, with the least and the most in brackets. Ratios hold elsewhere, "
        "seconds do not.\n\n"
        f"## Goals\n\n{table(['what', 'measured', 'at most', ''], rows)}\n\n"
        f"{f'Where a goal is missed, what was measured:{chr(10)}{chr(10)}{missed}{chr(10)}' if missed else ''}"
        f"{parts}\n"
    )


def measure_part(name: str) -> Section:
    """Measure a part; a catalog is a part of ``peers``."""
    began, used = perf_counter(), _cpu_seconds()
    section: Section = peers.section((name,)) if name in CATALOGS else import_module(f"benchmarks.{name}").section()
    cost = f" ({perf_counter() - began:.0f} s, {_cpu_seconds() - used:.0f} of CPU)"
    print(f"{section.command}{cost}", file=sys.stderr, flush=True)
    return replace(section, cost=cost)


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main(names: Sequence[str]) -> None:
    """Run the parts and write the page."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    about, began = machine(), perf_counter()
    sections = [measure_part(name) for name in names]
    text = page(sections, about, perf_counter() - began)
    if tuple(names) == PARTS:
        PAGE.write_text(text)
        print(f"written: {PAGE}")
    else:
        print(text)


def _lines_of(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or PARTS)
