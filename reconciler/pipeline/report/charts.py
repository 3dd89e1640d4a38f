"""The plots of the page: where the findings are, how large and old the tables are, and how all that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from reconciler import display
from reconciler.display import count
from reconciler.output.page import sentence
from reconciler.pipeline.records import Severity
from reconciler.pipeline.report import figures
from reconciler.pipeline.report.data import PageData
from reconciler.pipeline.report.document import AuditDocument, Distribution, RunSummary, SeverityCounts
from reconciler.pipeline.report.plots import Bar, Line, Point, bars, columns, lines

__all__ = ["breakdown", "distributions", "trend"]

_BARS_SHOWN = 8
_NAMESPACES_LISTED = 100
_SEVERITIES = tuple(severity.value for severity in Severity)
_SWATCH = '<svg class="swatch" aria-hidden="true"><rect width="100%" height="100%"/></svg>'
_KEY = f'<span class="key">{"".join(f"<span class={name}>{_SWATCH} {name}s</span>" for name in _SEVERITIES)}</span>'


def breakdown(document: AuditDocument, data: PageData) -> Iterator[str]:
    """Yield the findings by rule, owner, catalog and namespace; each bar leads to what it counts."""
    counts = document.counts
    titles = {rule.name: rule.title for rule in document.settings.rules}
    by_rule = [
        _bar(
            f"{escape(found.rule)} <i>{sentence(titles.get(found.rule, ''))}</i>",
            found,
            f"rule={data.rule(found.rule)}",
        )
        for found in counts.by_rule
    ]
    by_owner = [
        _bar(
            "<i>no manifest</i>" if found.owner is None else f"<bdi>{escape(display.value(found.owner))}</bdi>",
            found,
            f"owner={data.owner(found.owner)}",
        )
        for found in counts.by_owner
    ]
    by_catalog = [
        _bar(f"<bdi>{escape(display.name(found.catalog))}</bdi>", found, f"catalog={data.catalog(found.catalog)}")
        for found in counts.by_catalog
    ]
    by_namespace = [
        _bar(
            f"<bdi>{escape(display.address(found.catalog, *found.namespace))}</bdi>",
            found,
            f"namespace={data.namespace(found.catalog, found.namespace)}",
        )
        for found in counts.by_namespace[:_NAMESPACES_LISTED]
    ]
    yield f'<section id="where"><h2>Where the findings are {_KEY}</h2>'
    if not document.totals.findings.total:
        yield '<p class="nothing">Nothing was found.</p></section>'
        return
    yield '<div class="cards">'
    yield '<div class="stack">'
    yield from _card("By rule", by_rule, len(by_rule))
    yield from _card("By catalog", by_catalog)
    yield '</div><div class="stack">'
    yield from _card("By owner", by_owner)
    yield from _card("By namespace", by_namespace, left_out=len(counts.by_namespace) - len(by_namespace))
    yield "</div></div></section>"


def _bar(label: str, found: SeverityCounts, choice: str) -> Bar:
    parts = [(name, getattr(found, name)) for name in _SEVERITIES]
    says = ", ".join(count(amount, name) for name, amount in parts if amount)
    return Bar(label, parts, says, f"#findings.{choice}")


def _card(title: str, found: Sequence[Bar], unfolded: int = _BARS_SHOWN, *, left_out: int = 0) -> Iterator[str]:
    most = max((bar.total for bar in found), default=0)
    yield f'<section class="card"><h3>{title}</h3><ol class="bars">'
    yield from bars(found[:unfolded], most)
    yield "</ol>"
    folded = found[unfolded:]
    if folded:
        yield f'<details class="more"><summary>{len(folded) + left_out:,} more</summary><ol class="bars">'
        yield from bars(folded, most)
        yield "</ol>"
        if left_out:
            yield f'<p class="quiet">and {left_out:,} that are not shown</p>'
        yield "</details>"
    yield "</section>"


def distributions(document: AuditDocument) -> Iterator[str]:
    """Yield how many tables there are of each size and age."""
    yield '<section id="distributions"><h2>Sizes and ages of tables</h2><div class="cards">'
    yield from _distribution("Size", "data files of the latest version", document.sizes)
    yield from _distribution("Age", "since the last commit", document.ages)
    yield "</div></section>"


def _distribution(title: str, about: str, found: Distribution) -> Iterator[str]:
    yield f'<section class="card"><h3>{title} <i>{about}</i></h3><ol class="columns">'
    yield from columns([(each.label, each.tables) for each in found.bins])
    yield "</ol>"
    if found.unknown:
        yield f'<p class="quiet">Not known for {count(found.unknown, "table")}.</p>'
    yield "</section>"


def trend(runs: Sequence[RunSummary]) -> Iterator[str]:
    """Yield how findings, tables and data changed from run to run, the newest last."""
    yield '<section id="trend"><h2>Trend</h2>'
    if len(runs) < 2:
        yield '<p class="quiet">There is no earlier run to compare with; <code>--history</code> keeps them.</p>'
        yield "</section>"
        return
    found = [
        _line(f"{name}s", name, runs, [getattr(run.totals.findings, name) for run in runs]) for name in _SEVERITIES
    ]
    tables = _line("tables", "whole", runs, [run.totals.tables for run in runs])
    data = _line("data", "whole", runs, [run.totals.bytes for run in runs], figures.size)
    yield '<div class="cards three">'
    yield from _plot(f"Findings {_KEY}", found, figures.number, lambda _: 1)
    yield from _plot("Tables", [tables], figures.number, lambda _: 1)
    yield from _plot("Data", [data], figures.size, figures.size_unit)
    yield "</div>"
    if not all(run.complete for run in runs):
        yield '<p class="quiet">A hollow point is a run that could not read everything.</p>'
    yield from _runs(runs)
    yield "</section>"


def _line(
    label: str,
    style: str,
    runs: Sequence[RunSummary],
    amounts: Sequence[int],
    written: Callable[[int], str] = figures.number,
) -> Line:
    points = []
    for run, amount in zip(runs, amounts, strict=True):
        note = "" if run.complete else ", incomplete"
        says = f"{figures.moment(run.finished)}: {written(amount)} {label}{note}"
        points.append(Point(run.finished, amount, says, firm=run.complete))
    return Line(label, style, points)


def _plot(
    title: str, found: Sequence[Line], written: Callable[[int], str], unit_of: Callable[[int], int]
) -> Iterator[str]:
    yield f'<section class="card"><h3>{title}</h3>'
    yield from lines(found, written, unit_of)
    yield "</section>"


def _runs(runs: Sequence[RunSummary]) -> Iterator[str]:
    yield f'<details class="more"><summary>All {len(runs):,} runs as a table</summary>'
    yield '<div class="scrolls" role="region" aria-label="Runs" tabindex="0"><table><thead><tr>'
    for title in ("Run", "Finished", "Errors", "Warnings", "Notes", "Tables", "Rows", "Data", "Coverage"):
        yield f'<th scope="col">{title}'
    yield "</tr></thead><tbody>"
    for run in reversed(runs):
        totals, found = run.totals, run.totals.findings
        amounts = (found.error, found.warning, found.note, totals.tables, totals.rows)
        yield f'<tr><th scope="row">{escape(display.printable(run.run_id))}</th><td>{figures.moment(run.finished)}</td>'
        yield "".join(f'<td class="number">{figures.number(amount)}</td>' for amount in amounts)
        yield f'<td class="number">{figures.size(totals.bytes)}</td>'
        yield f"<td>{'complete' if run.complete else 'incomplete'}</td></tr>"
    yield "</tbody></table></div></details>"
