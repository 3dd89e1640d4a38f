"""What the harness counts, and the table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["DRAWN", "KINDS", "Tally", "Violation", "again", "difference", "table"]


DRAWN = (
    *("second catalog", "second catalog dies", "mirror", "moved", "defaults", "evolve", "blocked", "policies", "tags"),
    *("prune never", "prune all", "maintain", "own edited amid", "gone entry", "broken entry", "old entry"),
)
"""What a scenario may hold; the table says which of it no run had, such as what a server cannot do."""
KINDS = ("runs", "kills", "races")
"""What is counted: runs under faults, kills, races."""


class Violation(Exception):  # noqa: N818 - it is what it is called
    """A promise that was not kept; the text says which, where and what was there instead."""


@dataclass
class Tally:
    """Of one server. ``seeds`` are those of every run, by what was done; ``violations`` begin with theirs."""

    server: str
    runs: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """How many writes the server carried out without lancens being told."""
    acts: int = 0
    """How often somebody else changed an entry or a dataset."""
    refused: int = 0
    """How many stale plans were refused."""
    applies: int = 0
    racers: int = 0
    converged: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    """How many runs had each of what a scenario may hold."""
    limits: Counter[str] = field(default_factory=Counter)
    skipped: str = ""
    """Why the server did not run, empty where it did."""
    interrupted: bool = False
    violations: list[str] = field(default_factory=list)


def again(server: str, what: str, seed: int) -> str:
    """Return the command that plays one seed again; ``what`` is ``runs``, ``kills`` or ``races``."""
    counts = " ".join(f"--{one} {int(one == what)}" for one in KINDS)
    return f"python -m tests.torture {server} {counts} --seed {seed}"


_HEADS = (
    "server",
    "runs",
    "kills",
    "races",
    "racing",
    "faults",
    "replies lost",
    "acts of others",
    "stale refused",
    "applies",
    "converged",
    "named limits",
    "violations",
)


def _row(tally: Tally) -> Sequence[str]:
    numbers = (
        *(tally.runs[what] for what in KINDS),
        tally.racers,
        sum(tally.faults.values()),
        tally.lost,
        tally.acts,
        tally.refused,
        tally.applies,
        tally.converged,
        sum(tally.limits.values()),
        len(tally.violations),
    )
    return (tally.server, *("-" if tally.skipped else f"{number:,}" for number in numbers))


def table(tallies: Sequence[Tally]) -> str:
    """Return what was counted as a table in Markdown, and what it leaves out below it."""
    rows = [_HEADS, *(_row(tally) for tally in tallies)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(
        1, "|" + "|".join("-" * (width + 1) + (":" if column else "-") for column, width in enumerate(widths)) + "|"
    )
    every: Counter[str] = Counter()
    for tally in tallies:
        every.update(tally.faults)
    lines += ["", "Faults: " + ", ".join(f"{name} {number:,}" for name, number in sorted(every.items()))]
    lines += [
        f"Limit of {one.server}, {number} times: {name}" for one in tallies for name, number in one.limits.items()
    ]
    lines += [
        f"Never drawn on {one.server}: {', '.join(never)}"
        for one in tallies
        if one.runs.total() and (never := [what for what in DRAWN if not one.drawn[what]])
    ]
    lines += [f"Skipped {one.server}: {one.skipped}" for one in tallies if one.skipped]
    lines += [f"VIOLATION on {one.server}: {text}" for one in tallies for text in one.violations]
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        f"{cell:<{width}}" if column == 0 else f"{cell:>{width}}"
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "| " + " | ".join(cells) + " |"


def difference(expected: Mapping[str, object], found: Mapping[str, object]) -> str:
    """Return what differs between two states."""
    lines = [
        f"  {key}: {_shown(expected, key)} -> {_shown(found, key)}"
        for key in sorted({*expected, *found})
        if expected.get(key, _NOTHING) != found.get(key, _NOTHING)
    ]
    return "\n".join(lines)


_NOTHING = object()


def _shown(state: Mapping[str, object], key: str) -> str:
    return str(state[key]) if key in state else "nothing"
