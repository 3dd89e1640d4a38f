"""The plots of the page: where the findings are, how large and old the tables are, and how all that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.auditor import figures
from reconciler.auditor.document import AuditDocument, Distribution, RunSummary, SeverityCounts
from reconciler.auditor.records import Severity
from reconciler.model.display import count
from reconciler.report.data import PageData
from reconciler.report.plots import Line, Plot, Point

_BARS_SHOWN = 8
_NAMESPACES_LISTED = 100
_SEVERITIES = tuple(severity.value for severity in Severity)

CountsT = TypeVar("CountsT", bound=SeverityCounts)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of findings, stacked by severity: what it counts, and the choice of findings that it leads to."""

    of: SeverityCounts
    choice: str

    @property
    def says(self) -> str:
        """The amounts in words."""
        amounts = ((getattr(self.of, name), name) for name in _SEVERITIES)
        return ", ".join(count(*each) for each in amounts if each[0])

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
