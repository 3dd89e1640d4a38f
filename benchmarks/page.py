"""What a benchmark says: tables, and goals that are met or not. ``python -m benchmarks`` puts them on one page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

__all__ = ["Goal", "Section", "Used", "spread", "table", "used_by"]


@dataclass(frozen=True)
class Goal:
    """Something to reach: ``value`` is the ratio or figure that was measured, ``most`` what it may be."""

    what: str
    value: float
    most: float
    why: str = ""
    """Where it is missed, what was measured that shows the reason."""

    @property
    def is_met(self) -> bool:
        """Whether it is reached."""
        return self.value <= self.most


@dataclass(frozen=True)
class Section:
    """One part of the page; ``command`` runs it alone."""

    title: str
    command: str
    text: str
    goals: Sequence[Goal] = ()


class Used(NamedTuple):
    """What a whole process used: seconds, CPU seconds of it and its children, and its peak memory in MiB."""

    seconds: float
    cpu: float
    memory: float
    output: str


_WAITER = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
took = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
sys.stderr.write(json.dumps([took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
sys.stdout.buffer.write(done.stdout)
sys.exit(done.returncode)
"""


def used_by(
    command: Sequence[str], environment: Mapping[str, str] | None = None, directory: Path | None = None
) -> Used:
    """Run a command to its end and return what it used; what it says on stderr is thrown away.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    waiter = [sys.executable, "-c", _WAITER, *command]
    done = subprocess.run(waiter, env=environment, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, list(command), done.stdout, done.stderr)
    took, cpu, memory = json.loads(done.stderr[done.stderr.rindex("[") :])
    return Used(took, cpu, memory, done.stdout)


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Return the median of ``values``, and the smallest and largest where there are several."""
    found = sorted(values)
    shown = f"{median(found):,.{digits}f}"
    return shown if len(found) == 1 else f"{shown} ({found[0]:,.{digits}f} to {found[-1]:,.{digits}f})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; the columns after the first are to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
