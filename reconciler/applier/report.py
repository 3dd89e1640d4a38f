"""The results of a run, and their lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from reconciler.model import display
from reconciler.model.display import count
from reconciler.planner.entries import Change


class Status(StrEnum):
    """How a change ended.

    ``already``: an interrupted run or someone else has done it. ``kept``: a namespace to be dropped still holds
    something and stays, which is not a failure.
    """

    DONE = "done"
    ALREADY = "already"
    KEPT = "kept"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def satisfies(self) -> bool:
        """Whether what depends on the change may go on."""
        return self not in (Status.FAILED, Status.SKIPPED)


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of one change.

    ``message`` tells why it failed, was skipped or was kept, and ``note`` what else is worth knowing. Both are one line
    without secrets.
    """

    change: Change
    status: Status
    message: str = ""
    note: str = ""
    seconds: float = 0.0


Event: TypeAlias = Change | ChangeResult
"""A change that starts, or the result of one that has ended."""


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """The results of all changes, in the plan's order.

    ``journal`` is the path or URI of the journal, and ``journal_error`` why its end is missing.
    ``interrupted``: the run was told to stop.
    """

    results: Sequence[ChangeResult]
    journal: str
    interrupted: bool = False
    journal_error: str = ""

    @property
    def counts(self) -> Mapping[Status, int]:
        """How many changes ended in each status."""
        return Counter(result.status for result in self.results)

    @property
    def ok(self) -> bool:
        """Whether nothing failed and nothing was skipped, which decides the exit code."""
        return all(result.status.satisfies for result in self.results)


MARKS: Mapping[Status, str] = {
    Status.DONE: "✓",
    Status.ALREADY: "✓",
    Status.KEPT: "!",
    Status.FAILED: "✗",
    Status.SKIPPED: "·",
}
_SUBJECT_WIDTH = 34


def result_line(result: ChangeResult) -> str:
    """Return the line of one result, such as ``  ✓ lake  + a/b     12 ms``."""
    change = result.change
    subject = f"{display.name(change.catalog)}  {change.symbol} {display.address(*change.identifier)}"
    if change.job is not None:
        subject += f"  {change.action} {display.printable(change.job.index or '')}".rstrip()
    if result.status is Status.DONE:
        ending = _duration(result.seconds)
    elif result.status is Status.ALREADY:
        ending = "already done"
    elif result.status is Status.SKIPPED:
        ending = f"skipped: {display.message(result.message)}"
    else:
        ending = display.message(result.message)
    remark = f"  ({display.message(result.note)})" if result.note else ""
    return f"  {MARKS[result.status]} {subject:<{_SUBJECT_WIDTH}}  {ending}{remark}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def summary_line(report: ApplyReport) -> str:
    """Return the last line of apply: counts by status, and the path of the journal."""
    counts, total = report.counts, len(report.results)
    applied = counts[Status.DONE] + counts[Status.ALREADY]
    parts = [f"{counts[Status.FAILED]:,} failed", f"{counts[Status.SKIPPED]:,} skipped"]
    if counts[Status.KEPT]:
        parts.append(f"{counts[Status.KEPT]:,} kept")
    if counts[Status.ALREADY]:
        parts.append(f"{counts[Status.ALREADY]:,} already done")
    stopped = "Stopped. " if report.interrupted else ""
    journal = display.message(report.journal)
    if report.journal_error:
        journal += f" (incomplete: {display.message(report.journal_error)})"
    return f"{stopped}Applied {applied:,} of {count(total, 'change')}: {', '.join(parts)}. Journal: {journal}"
