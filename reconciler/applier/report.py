"""The results of a run, and their lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from reconciler.model import display, locations
from reconciler.model.display import count
from reconciler.model.rendering import Renderable
from reconciler.planner.entries import Change


class Status(StrEnum):
    """How a change ended.

    ``already``: an interrupted run or another client has done it. ``kept``: a namespace to be dropped is not empty and
    stays, which is not a failure.
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
class KeptTag:
    """A tag that kept the base of a clone whose entry is gone or released, and why it stays.

    ``source`` is the address of the table that was cloned, ``location`` that of its data; None if it is not known.
    """

    tag: str
    source: str
    location: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of one change.

    ``message`` tells why it failed, was skipped or was kept; ``note`` adds to any status, such as where the data is.
    Both are one line without secrets. ``seconds`` is how long the change took. ``kept_tag`` is the tag of a clone that
    it could not remove.
    """

    change: Change
    status: Status
    message: str = ""
    note: str = ""
    seconds: float = 0.0
    kept_tag: KeptTag | None = None


Event: TypeAlias = Change | ChangeResult
"""A change that starts, or the result of one that has ended."""


@dataclass(frozen=True, slots=True, repr=False)
class ApplyReport(Renderable):
    """The results of all changes, in the plan's order.

    ``journal`` is the path or URI of the journal, and ``journal_error`` why its end is missing.
    ``interrupted``: the run was told to stop. ``unreferenced`` are the locations of clones whose entries it removed and
    to which no other entry of the catalogs refers; their data stays. ``kept_tags`` are those of ``pin`` that stay too.
    """

    results: Sequence[ChangeResult]
    journal: str
    interrupted: bool = False
    journal_error: str = ""
    unreferenced: Sequence[str] = ()
    kept_tags: Sequence[KeptTag] = ()

    @property
    def counts(self) -> Mapping[Status, int]:
        """How many changes ended in each status."""
        return Counter(result.status for result in self.results)

    @property
    def ok(self) -> bool:
        """Whether nothing failed and nothing was skipped, which decides the exit code."""
        return all(result.status.satisfies for result in self.results)

    def _headline(self) -> tuple[str, Mapping[str, int]]:
        return locations.redact(self.journal), {status: self.counts[status] for status in Status}


MARKS: Mapping[Status, str] = {
    Status.DONE: "✓",
    Status.ALREADY: "✓",
    Status.KEPT: "!",
    Status.FAILED: "✗",
    Status.SKIPPED: "·",
}
_SUBJECT_WIDTH = 34
_MOST_LOCATIONS = 5


def result_line(result: ChangeResult) -> str:
    """Return the line of one result, such as ``  ✓ lake  + a/b     12 ms``."""
    subject = f"{display.name(result.change.catalog)}  {subject_of(result)}"
    return f"  {MARKS[result.status]} {display.padded(subject, _SUBJECT_WIDTH)}  {ending_of(result)}"


def subject_of(result: ChangeResult) -> str:
    """Return the symbol of the change, its object and its job, such as ``+ a/b``."""
    change = result.change
    subject = f"{change.symbol} {display.address(*change.identifier)}"
    if change.job is not None:
        subject += f"  {change.action} {display.printable(change.job.index or '')}".rstrip()
    return subject


def ending_of(result: ChangeResult) -> str:
    """Return how the change ended, and its note.

    That is the time it took, or why it was not carried out.
    """
    if result.status is Status.DONE:
        ending = _duration(result.seconds)
    elif result.status is Status.ALREADY:
        ending = "already done"
    elif result.status is Status.SKIPPED:
        ending = f"skipped: {display.message(result.message)}"
    else:
        ending = display.message(result.message)
    return f"{ending}  ({display.message(result.note)})" if result.note else ending


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def summary_line(report: ApplyReport, title: str = "") -> str:
    """Return the last line of apply: counts by status, and the path of the journal; ``title`` is the plan's."""
    counts, total = report.counts, len(report.results)
    applied = counts[Status.DONE] + counts[Status.ALREADY]
    parts = [f"{counts[Status.FAILED]:,} failed", f"{counts[Status.SKIPPED]:,} skipped"]
    if counts[Status.KEPT]:
        parts.append(f"{counts[Status.KEPT]:,} kept")
    if counts[Status.ALREADY]:
        parts.append(f"{counts[Status.ALREADY]:,} already done")
    stopped = "Stopped. " if report.interrupted else ""
    journal = display.message(locations.redact(report.journal))
    if report.journal_error:
        journal += f" (incomplete: {display.message(report.journal_error)})"
    changes = count(total, "change") + (f" of {title}" if title else "")
    return f"{stopped}Applied {applied:,} of {changes}: {', '.join(parts)}. Journal: {journal}"


def unreferenced_lines(report: ApplyReport) -> Iterator[str]:
    """Yield lines about the data of clones to which no entry refers any more, and about the tags that stay."""
    shown = [locations.redact(location) for location in report.unreferenced]
    if shown:
        yield from _clone_lines(shown)
    for kept in report.kept_tags:
        place = repr(locations.redact(kept.location)) if kept.location else "LOCATION"
        call = f"lance.dataset({place}).tags.delete({kept.tag!r})"
        yield display.message(f"the tag {kept.tag} of {kept.source} stays: {kept.reason}; `{call}` removes it")


def _clone_lines(shown: Sequence[str]) -> Iterator[str]:
    has, their = ("has", "its") if len(shown) == 1 else ("have", "their")
    yield f"{count(len(shown), 'clone')} {has} no entry any more, and {their} data stays:"
    yield from (f"  {display.message(location.rstrip('/'))}/" for location in shown[:_MOST_LOCATIONS])
    if len(shown) > _MOST_LOCATIONS:
        yield f"  and {len(shown) - _MOST_LOCATIONS:,} more; `lancens apply --format json` lists all"
