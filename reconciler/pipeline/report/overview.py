"""The part of the page that is read first: how far to trust it, and the headline figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from reconciler import display
from reconciler.display import count
from reconciler.output.page import sentence
from reconciler.pipeline.records import Severity
from reconciler.pipeline.report import figures
from reconciler.pipeline.report.document import AuditDocument, CatalogCoverage, RunSummary

__all__ = ["coverage", "headline"]

_NOTES_SHOWN = 20
_FAILURES_SHOWN = 100


def coverage(document: AuditDocument) -> Iterator[str]:
    """Yield what was read and what was not, catalog by catalog."""
    totals = document.totals
    found = f"{count(totals.namespaces, 'namespace')} and {count(totals.tables, 'table')}"
    catalogs = count(totals.catalogs, "catalog")
    yield '<section id="coverage"><h2>Coverage</h2>'
    if document.complete:
        yield f'<p class="banner complete"><b>Everything was read:</b> {found} in {catalogs}.</p>'
    else:
        unread = sum(catalog.namespaces_unread for catalog in document.coverage)
        what = count(unread, "namespace") if unread else count(len(document.failures), "part")
        yield '<div class="banner incomplete">'
        yield f"<p><b>This audit is incomplete:</b> {what} could not be read, and nothing is known of what is in "
        yield f"there. Found were {found} in {catalogs}.</p><ul>"
        for failure in document.failures[:_FAILURES_SHOWN]:
            address = escape(display.address(failure.catalog, *failure.namespace))
            yield f'<li><bdi class="name">{address}</bdi> {sentence(failure.message)}</li>'
        left = len(document.failures) - _FAILURES_SHOWN
        if left > 0:
            yield f"<li>and {left:,} more</li>"
        yield "</ul></div>"
    yield '<div class="scrolls" role="region" aria-label="Coverage of each catalog" tabindex="0">'
    yield '<table class="coverage"><thead><tr>'
    for title in ("Catalog", "Kind", "Namespaces read", "Tables", "Looked at in storage", "Unreadable"):
        yield f'<th scope="col">{title}</th>'
    yield "</tr></thead><tbody>"
    failed = {failure.catalog for failure in document.failures}
    for catalog in document.coverage:
        yield "".join(_catalog(catalog, complete=catalog.name not in failed and not catalog.namespaces_unread))
    yield "</tbody></table></div>"
    yield from _notes(document)
    yield "</section>"


def _notes(document: AuditDocument) -> Iterator[str]:
    if not document.notes:
        return
    yield '<ul class="remarks">'
    for note in document.notes[:_NOTES_SHOWN]:
        yield f"<li>{sentence(note)}</li>"
    left = len(document.notes) - _NOTES_SHOWN
    if left > 0:
        yield f"<li>and {left:,} more, which are in <code>report.json</code></li>"
    yield "</ul>"


def _catalog(catalog: CatalogCoverage, *, complete: bool) -> Iterator[str]:
    lacking = "" if complete else ' <span class="bad">incomplete</span>'
    yield f'<tr><th scope="row"><bdi class="name">{escape(display.name(catalog.name))}</bdi>{lacking}</th>'
    yield f'<td><span class="impl">{escape(display.name(catalog.impl))}</span></td>'
    yield f"<td>{_share(catalog.namespaces - catalog.namespaces_unread, catalog.namespaces)}</td>"
    yield f'<td class="number">{catalog.tables:,}</td>'
    yield f"<td>{_share(catalog.tables_looked_at, catalog.tables)}</td>"
    style = ' class="number bad"' if catalog.tables_unreadable else ' class="number"'
    yield f"<td{style}>{catalog.tables_unreadable:,}</td></tr>"


def _share(part: int, whole: int) -> str:
    """Return ``part`` of ``whole`` as a number and a meter."""
    if not whole:
        return "none"
    part = max(part, 0)  # what could not be read may not have been found either
    width = min(100 * part / whole, 100)
    style = "full" if part >= whole else "lacking"
    return (
        f'<span class="share"><svg class="meter {style}" aria-hidden="true"><rect class="room" width="100%" '
        f'height="100%"/><rect width="{width:.1f}%" height="100%"/></svg> {part:,} of {whole:,}</span>'
    )


def headline(document: AuditDocument) -> Iterator[str]:
    """Yield the figures, with how they changed since the last run that can be compared."""
    totals = document.totals
    before = _comparable(document)
    yield '<section id="figures"><h2>Headline figures</h2>'
    yield '<dl class="figures">'
    for name in (severity.value for severity in Severity):
        amount = getattr(totals.findings, name)
        earlier = getattr(before.totals.findings, name) if before else None
        yield _figure(f"{name.capitalize()}s", amount, earlier, figures.number, style=name if amount else "none")
    for label, name, written in (
        ("Tables", "tables", figures.number),
        ("Rows", "rows", figures.number),
        ("Data", "bytes", figures.size),
        ("Fragments", "fragments", figures.number),
    ):
        earlier = getattr(before.totals, name) if before else None
        yield _figure(label, getattr(totals, name), earlier, written)
    yield "</dl>"
    if before:
        yield f'<p class="quiet">Changes are since the run of {figures.moment(before.finished)}.</p>'
    yield "</section>"


def _comparable(document: AuditDocument) -> RunSummary | None:
    """Return the run before this one, where both saw everything."""
    before = next((run for run in reversed(document.history) if run.run_id != document.run_id), None)
    return before if before is not None and before.complete and document.complete else None


def _figure(label: str, amount: int, before: int | None, written: Callable[[int], str], *, style: str = "") -> str:
    since = ""
    if before is not None:
        moved = amount - before
        text = figures.change(moved, written(abs(moved))) if moved else "no change"
        since = f'<dd class="since">{text}</dd>'
    return f'<div class="figure {style}"><dt>{label}</dt><dd class="amount">{written(amount)}</dd>{since}</div>'
