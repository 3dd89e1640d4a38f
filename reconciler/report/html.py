"""Render an audit as one HTML page that needs no server and no network.

Without its script the page shows everything but the findings and tables beyond the first few. The script searches,
filters and sorts them, and keeps the filters in the address. The markup is in ``templates/report.html``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from reconciler.auditor.document import AuditDocument, RunSummary
from reconciler.auditor.records import Severity
from reconciler.model import figures
from reconciler.model.display import count
from reconciler.output.omissions import Omissions
from reconciler.output.templating import render_page
from reconciler.output.wording import where_line
from reconciler.report import charts
from reconciler.report.data import PageData

_ROWS_SHOWN = 50
_NAMES_SHOWN = 20


def render_html(document: AuditDocument) -> str:
    """Return the page, to be written as UTF-8."""
    data = PageData(document)
    return render_page(
        __package__,
        "report",
        document=document,
        where=where_line(
            document.manifest, document.coverage, Omissions(may_cut=False), exclude=document.settings.exclude
        ),
        severities=[severity.value for severity in Severity],
        rule_titles={rule.name: rule.title for rule in document.settings.rules},
        figures=figures,
        unread=_unread_count(document),
        incomplete=document.incomplete_catalogs,
        counts_of={counts.catalog: counts for counts in document.counts.by_catalog},
        previous=_comparable_run(document),
        headline=_headline_figures(document),
        cards=charts.finding_cards(document, data),
        histogram=charts.histogram,
        plots=charts.trend_plots(document.history),
        rows_shown=_ROWS_SHOWN,
        names_shown=_NAMES_SHOWN,
        data=data,
    )


def _unread_count(document: AuditDocument) -> str:
    """Return, in words, how many namespaces or other parts could not be read."""
    namespaces = sum(catalog.namespaces_unread for catalog in document.coverage)
    return count(namespaces, "namespace") if namespaces else count(len(document.failures), "part")


def _comparable_run(document: AuditDocument) -> RunSummary | None:
    """Return the previous run if its figures can be compared: both must be complete."""
    previous = next((run for run in reversed(document.history) if run.run_id != document.run_id), None)
    return previous if previous is not None and previous.complete and document.complete else None


@dataclass(frozen=True, slots=True)
class Figure:
    """A headline figure; ``since`` is its change in words, None without a run to compare with."""

    label: str
    amount: str
    since: str | None
    style: str = ""


def _headline_figures(document: AuditDocument) -> Iterator[Figure]:
    """Yield the headline figures, with their change since the last comparable run."""
    totals, previous = document.totals, _comparable_run(document)
    for name in (severity.value for severity in Severity):
        amount = getattr(totals.findings, name)
        earlier = getattr(previous.totals.findings, name) if previous else None
        if amount or earlier:
            yield _figure(f"{name.capitalize()}s", amount, earlier, figures.number, style=name if amount else "none")
    for label, name, format_amount in (
        ("Tables", "tables", figures.number),
        ("Rows", "rows", figures.number),
        ("Data", "bytes", figures.size),
        ("Fragments", "fragments", figures.number),
        ("On disk", "bytes_on_disk", figures.size),
        ("Reclaimable", "reclaimable", figures.size),
    ):
        amount = getattr(totals, name)
        if amount is not None:
            figure = _figure(label, amount, getattr(previous.totals, name) if previous else None, format_amount)
            yield replace(figure, amount=figures.with_unknown(figure.amount, getattr(totals, f"{name}_unknown", 0)))


def _figure(
    label: str, amount: int, earlier: int | None, format_amount: Callable[[int], str], *, style: str = ""
) -> Figure:
    since = None
    if earlier is not None:
        difference = amount - earlier
        since = figures.change(difference, format_amount(abs(difference))) if difference else "no change"
    return Figure(label, format_amount(amount), since, style)
