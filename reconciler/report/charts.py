"""Lay out the charts of the page: findings, distributions and trends.

The template draws the marks in HTML and SVG; the style sheet colours them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from reconciler.auditor.document import AuditDocument, Distribution, RunSummary, SeverityCounts
from reconciler.auditor.records import Severity
from reconciler.model import figures
from reconciler.report.data import PageData

_BARS_SHOWN = 8
_NAMESPACES_LISTED = 100
_MOST_DOTS = 60
_SEVERITIES = tuple(severity.value for severity in Severity)

CountsT = TypeVar("CountsT", bound=SeverityCounts)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of findings, stacked by severity.

    It links to the findings under ``filter`` of the page, such as ``rule=3``.
    """

    counts: SeverityCounts
    filter: str

    def segments(self, longest: int) -> Iterator[tuple[str, float, float]]:
        """Yield the style, start and width of each segment, in percent of the longest bar.

        ``longest`` is the number of findings of that bar.
        """
        start = 0.0
        for name in _SEVERITIES:
            width = 100 * getattr(self.counts, name) / max(longest, 1)
            if width:
                yield name, start, width
                start += width


@dataclass(frozen=True, slots=True)
class Card:
    """A card of bars on one scale; ``left_out`` more bars are not on the page."""

    visible: Sequence[Bar]
    folded: Sequence[Bar]
    left_out: int

    @property
    def longest(self) -> int:
        """The number of findings of the longest bar."""
        return max((bar.counts.total for bar in (*self.visible, *self.folded)), default=0)


def finding_cards(document: AuditDocument, data: PageData) -> dict[str, Card]:
    """Return the cards of findings by rule, owner and namespace."""
    counts = document.counts
    return {
        "rules": _card(counts.by_rule, lambda group: f"rule={data.rule(group.rule)}", visible=None),
        "owners": _card(counts.by_owner, lambda group: f"owner={data.owner(group.owner)}"),
        "namespaces": _card(
            counts.by_namespace,
            lambda group: f"namespace={data.namespace(group.catalog, group.namespace)}",
            listed=_NAMESPACES_LISTED,
        ),
    }


def _card(
    counts: Sequence[CountsT],
    filter_of: Callable[[CountsT], str],
    *,
    visible: int | None = _BARS_SHOWN,
    listed: int | None = None,
) -> Card:
    bars = [Bar(each, filter_of(each)) for each in counts[:listed]]
    return Card(bars[:visible], bars[len(bars) if visible is None else visible :], len(counts) - len(bars))


def histogram(distribution: Distribution) -> Iterator[tuple[str, int, float]]:
    """Yield the label, number of tables and height of each column, in percent of the highest."""
    greatest = max((bucket.tables for bucket in distribution.bins), default=0) or 1
    for bucket in distribution.bins:
        yield bucket.label, bucket.tables, 100 * bucket.tables / greatest


# ---- over time -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """The figure of one run; ``complete`` is false if the run could not read everything."""

    at: datetime
    amount: int
    label: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """A figure over time, and the style of its line."""

    label: str
    style: str
    points: Sequence[Point]

    @property
    def is_crowded(self) -> bool:
        """Whether it has too many points to draw each of them."""
        return len(self.points) > _MOST_DOTS


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over time on one scale that begins at zero.

    Args:
        title: the heading.
        lines: the lines; each has at least one point.
        format_amount: formats an amount for the scale.
        unit_of: the unit of the scale's round numbers, for the greatest amount.
    """

    title: str
    lines: Sequence[Line]
    format_amount: Callable[[int], str]
    unit_of: Callable[[int], int] = lambda _: 1

    @property
    def top(self) -> int:
        """The amount at the upper end of the scale."""
        greatest = max(point.amount for line in self.lines for point in line.points)
        return _round_up(greatest, self.unit_of(greatest))

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The first moment and the last."""
        moments = [point.at for line in self.lines for point in line.points]
        return min(moments), max(moments)

    @property
    def summary(self) -> str:
        """The latest amounts in words, for screen readers."""
        return "; ".join(f"{line.label}: {self.format_amount(line.points[-1].amount)} now" for line in self.lines)

    def coordinates(self, line: Line) -> list[str]:
        """Return the coordinates of a line's points, each as ``x,y`` in a field of 1000 by 100."""
        (first, last), top = self.span, self.top

        def position(point: Point) -> str:
            time_share = (point.at - first) / (last - first) if last > first else 0.5
            return f"{1000 * time_share:.1f},{100 - 100 * point.amount / top:.2f}"

        return [position(point) for point in line.points]


def _round_up(amount: int, unit: int) -> int:
    """Return the least round number of ``unit`` from ``amount`` up whose half is round too."""
    while True:
        for factor in (2, 4, 6, 8, 10):
            if unit * factor >= amount:
                return unit * factor
        unit *= 10


def trend_plots(runs: Sequence[RunSummary]) -> Sequence[Plot]:
    """Return the plots over ``runs``, oldest run first; none for a single run.

    The plot of reclaimable storage has only the runs that listed files, if this one did.
    """
    if len(runs) < 2:
        return ()
    severities = [
        _line(f"{name}s", name, runs, (getattr(run.totals.findings, name) for run in runs)) for name in _SEVERITIES
    ]
    tables = _line("tables", "whole", runs, (run.totals.tables for run in runs))
    data = _line("data", "whole", runs, (run.totals.bytes for run in runs), figures.size)
    plots = [
        Plot("Findings", severities, figures.number),
        Plot("Tables", [tables], figures.number),
        Plot("Data", [data], figures.size, figures.size_unit),
    ]
    with_files = [run for run in runs if run.totals.reclaimable is not None]
    if len(with_files) > 1 and with_files[-1] is runs[-1]:
        amounts = (run.totals.reclaimable or 0 for run in with_files)
        reclaimable = _line("reclaimable", "whole", with_files, amounts, figures.size)
        plots.append(Plot("Reclaimable", [reclaimable], figures.size, figures.size_unit))
    return plots


def _line(
    label: str,
    style: str,
    runs: Sequence[RunSummary],
    amounts: Iterable[int],
    format_amount: Callable[[int], str] = figures.number,
) -> Line:
    points = []
    for run, amount in zip(runs, amounts, strict=True):
        note = "" if run.complete else ", incomplete"
        text = f"{figures.moment(run.finished)}: {format_amount(amount)} {label}{note}"
        points.append(Point(run.finished, amount, text, complete=run.complete))
    return Line(label, style, points)
