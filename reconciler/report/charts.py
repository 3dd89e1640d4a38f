"""The plots of the page: where the findings are, how large and old the tables are, and how all that changes.

Here is where the marks are that the page draws in HTML and SVG, and its style colours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from reconciler.auditor import figures
from reconciler.auditor.document import AuditDocument, Distribution, RunSummary, SeverityCounts
from reconciler.auditor.records import Severity
from reconciler.report.data import PageData

_BARS_SHOWN = 8
_NAMESPACES_LISTED = 100
_MOST_DOTS = 60
_SEVERITIES = tuple(severity.value for severity in Severity)

CountsT = TypeVar("CountsT", bound=SeverityCounts)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of findings, stacked by severity: what it counts, and the choice of findings that it leads to."""

    of: SeverityCounts
    choice: str

    def parts(self, most: int) -> Iterator[tuple[str, float, float]]:
        """Yield style, beginning and width in percent of each part, where a bar of ``most`` is as wide as can be."""
        at = 0.0
        for name in _SEVERITIES:
            width = 100 * getattr(self.of, name) / max(most, 1)
            if width:
                yield name, at, width
                at += width


@dataclass(frozen=True, slots=True)
class Card:
    """Bars on one scale: those in sight, those folded away, and how many more there are."""

    shown: Sequence[Bar]
    folded: Sequence[Bar]
    left_out: int

    @property
    def most(self) -> int:
        """What the longest bar comes to."""
        return max((bar.of.total for bar in (*self.shown, *self.folded)), default=0)


def breakdown(document: AuditDocument, data: PageData) -> dict[str, Card]:
    """Return the findings by rule, owner, catalog and namespace; each bar leads to what it counts."""
    counts = document.counts
    return {
        "rules": _card(counts.by_rule, lambda of: f"rule={data.rule(of.rule)}", in_sight=None),
        "owners": _card(counts.by_owner, lambda of: f"owner={data.owner(of.owner)}"),
        "catalogs": _card(counts.by_catalog, lambda of: f"catalog={data.catalog(of.catalog)}"),
        "namespaces": _card(
            counts.by_namespace,
            lambda of: f"namespace={data.namespace(of.catalog, of.namespace)}",
            listed=_NAMESPACES_LISTED,
        ),
    }


def _card(
    found: Sequence[CountsT],
    choice: Callable[[CountsT], str],
    *,
    in_sight: int | None = _BARS_SHOWN,
    listed: int | None = None,
) -> Card:
    bars = [Bar(of, choice(of)) for of in found[:listed]]
    return Card(bars[:in_sight], bars[len(bars) if in_sight is None else in_sight :], len(found) - len(bars))


def columns(found: Distribution) -> Iterator[tuple[str, int, float]]:
    """Yield the label, number and height in percent of a column for each class; the tallest is as high as can be."""
    most = max((each.tables for each in found.bins), default=0) or 1
    for each in found.bins:
        yield each.label, each.tables, 100 * each.tables / most


# ---- over time -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a line: how much it was, what is said of it, and whether it can be compared with the others."""

    at: datetime
    amount: int
    says: str
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """What is followed over time, and by what its line is styled."""

    label: str
    style: str
    points: Sequence[Point]

    @property
    def crowded(self) -> bool:
        """Whether it has too many points to show each of them."""
        return len(self.points) > _MOST_DOTS


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over time on one scale that begins at nothing.

    Args:
        title: what they are about.
        lines: the lines; each has a point or more.
        written: how an amount is written at the scale.
        unit_of: the unit in which the scale has round numbers, for the greatest amount.
    """

    title: str
    lines: Sequence[Line]
    written: Callable[[int], str]
    unit_of: Callable[[int], int] = lambda _: 1

    @property
    def top(self) -> int:
        """The amount at the upper end of the scale."""
        most = max(point.amount for line in self.lines for point in line.points)
        return _round_up(most, self.unit_of(most))

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The first moment and the last."""
        moments = [point.at for line in self.lines for point in line.points]
        return min(moments), max(moments)

    @property
    def says(self) -> str:
        """What the lines come to, for who cannot see them."""
        return "; ".join(f"{line.label}: {self.written(line.points[-1].amount)} now" for line in self.lines)

    def places(self, line: Line) -> list[str]:
        """Return where the points of a line are, in a field of 1000 by 100."""
        (first, last), top = self.span, self.top

        def place(point: Point) -> str:
            along = (point.at - first) / (last - first) if last > first else 0.5
            return f"{1000 * along:.1f},{100 - 100 * point.amount / top:.2f}"

        return [place(point) for point in line.points]


def _round_up(amount: int, unit: int) -> int:
    """Return the next amount that is easy to read off a scale, and to halve, in whole ``unit``s."""
    while True:
        for factor in (2, 4, 6, 8, 10):
            if unit * factor >= amount:
                return unit * factor
        unit *= 10


def trend(runs: Sequence[RunSummary]) -> Sequence[Plot]:
    """Return how findings, tables and bytes changed from run to run, the newest last; nothing for a first run.

    What a clean-up would give back is of the runs that listed files, where this one did.
    """
    if len(runs) < 2:
        return ()
    found = [
        _line(f"{name}s", name, runs, (getattr(run.totals.findings, name) for run in runs)) for name in _SEVERITIES
    ]
    tables = _line("tables", "whole", runs, (run.totals.tables for run in runs))
    data = _line("data", "whole", runs, (run.totals.bytes for run in runs), figures.size)
    plots = [
        Plot("Findings", found, figures.number),
        Plot("Tables", [tables], figures.number),
        Plot("Data", [data], figures.size, figures.size_unit),
    ]
    listed = [run for run in runs if run.totals.reclaimable is not None]
    if len(listed) > 1 and listed[-1] is runs[-1]:
        amounts = (run.totals.reclaimable or 0 for run in listed)
        reclaimable = _line("reclaimable", "whole", listed, amounts, figures.size)
        plots.append(Plot("Reclaimable", [reclaimable], figures.size, figures.size_unit))
    return plots


def _line(
    label: str,
    style: str,
    runs: Sequence[RunSummary],
    amounts: Iterable[int],
    written: Callable[[int], str] = figures.number,
) -> Line:
    points = []
    for run, amount in zip(runs, amounts, strict=True):
        note = "" if run.complete else ", incomplete"
        says = f"{figures.moment(run.finished)}: {written(amount)} {label}{note}"
        points.append(Point(run.finished, amount, says, firm=run.complete))
    return Line(label, style, points)
