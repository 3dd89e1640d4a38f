"""Define the parts of the page of results: sections, goals and tables.

``python -m benchmarks`` writes the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

__all__ = ["Goal", "ProcessUsage", "Section", "about", "run_measured", "spread", "table"]


@dataclass(frozen=True)
class Goal:
    """A limit for a measured ratio or number."""

    name: str
    value: float
    limit: float
    cause: str = ""
    """Measured numbers that explain a missed goal."""

    @property
    def is_met(self) -> bool:
        """Whether the value is within the limit."""
        return self.value <= self.limit


@dataclass(frozen=True)
class Section:
    """One part of the page; ``command`` runs it alone."""

    title: str
    command: str
    text: str
    goals: Sequence[Goal] = ()
    cost: str = ""
    """The seconds that it took to measure."""


class ProcessUsage(NamedTuple):
    """The seconds, CPU seconds with children, peak MiB and stdout of a process."""

    seconds: float
    cpu: float
    memory: float
    output: str


_MEASURING_SCRIPT = """
import ctypes, json, os, resource, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: processes that lose their parent count as well
began = time.perf_counter()
process = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
seconds = time.perf_counter() - began
try:
    while time.perf_counter() < began + seconds + 10:
        if os.waitpid(-1, os.WNOHANG)[0] == 0:
            time.sleep(0.05)
except ChildProcessError:  # all have ended
    pass
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
sys.stderr.write(json.dumps([seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
sys.stdout.buffer.write(process.stdout)
sys.exit(process.returncode)
"""


def run_measured(
    command: Sequence[str], environment: Mapping[str, str] | None = None, directory: Path | None = None
) -> ProcessUsage:
    """Run a command to its end and return its usage; discard its stderr.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    measuring = [sys.executable, "-c", _MEASURING_SCRIPT, *command]
    process = subprocess.run(measuring, env=environment, cwd=directory, capture_output=True, text=True, check=False)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command), process.stdout, process.stderr)
    seconds, cpu, memory = json.loads(process.stderr[process.stderr.rindex("[") :])
    return ProcessUsage(seconds, cpu, memory, process.stdout)


def about(text: str | None) -> str:
    """Return the docstring of a module without its first line."""
    return (text or "").partition("\n\n")[2].strip()


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Return the median of ``values`` and, if there are several, their range."""
    ordered = sorted(values)
    shown = f"{median(ordered):,.{digits}f}"
    return shown if len(ordered) == 1 else f"{shown} ({ordered[0]:,.{digits}f} to {ordered[-1]:,.{digits}f})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; columns after the first are right-aligned."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
