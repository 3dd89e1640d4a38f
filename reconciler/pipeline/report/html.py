"""An audit as one HTML page: no server, no network, nothing but itself.

Without its script the page shows everything but the findings and tables beyond the first few. The script searches,
filters and sorts those, and keeps what is chosen in the address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from reconciler import display
from reconciler.display import count
from reconciler.output.page import asset, render_page, sentence
from reconciler.pipeline.records import Severity
from reconciler.pipeline.report import charts, figures, overview
from reconciler.pipeline.report.data import PageData
from reconciler.pipeline.report.document import AuditDocument, Finding, ReportedTable

__all__ = ["render_html"]

_A_PAGE = 50
_COLUMNS = (
    ("Table", "name"),
    ("Owner", "owner"),
    ("Rows", "rows"),
    ("Size", "bytes"),
    ("Fragments", "fragments"),
    ("Version", "version"),
    ("Last commit", "committed"),
    ("Findings", "rules"),
)
_NUMBERS = frozenset({"rows", "bytes", "fragments", "version"})


def render_html(document: AuditDocument) -> str:
    """Return the page, ready to be written as UTF-8."""
    return render_page(
        f"Audit of {display.printable(document.manifest.name)}",
        _content(document),
        style=asset(__package__, "report.css"),
        script=asset(__package__, "report.js"),
    )


def _content(document: AuditDocument) -> Iterator[str]:
    data = PageData(document)
    yield from _header(document)
    yield "<main>"
    yield from overview.coverage(document)
    yield from overview.headline(document)
    yield from charts.breakdown(document, data)
    yield from charts.distributions(document)
    yield from charts.trend(document.history)
    yield from _findings(document)
    yield from _tables(document)
    yield from _rules(document)
    yield "</main>"
    yield from _footer(document)
    yield f'<script type="application/json" id="data">{data.to_json()}</script>'


def _header(document: AuditDocument) -> Iterator[str]:
    found = document.totals.findings
    tables = count(document.totals.tables, "table")
    if found.total:
        listed = ", ".join(
            count(getattr(found, severity.value), severity.value)
            for severity in Severity
            if getattr(found, severity.value)
        )
        closing = f"{count(found.total, 'finding')} in {tables}: {listed}."
    else:
        closing = f"Nothing was found in {tables}."
    took = figures.duration(document.finished - document.started)
    yield '<header class="page">'
    yield f'<p class="eyebrow">lancens audit</p><h1>{escape(display.printable(document.manifest.name))}</h1>'
    yield f'<p class="closing">{closing}</p>'
    yield f'<p class="quiet">Finished {figures.moment(document.finished)} after {took}.</p>'
    yield "</header>"


# ---- what can be searched --------------------------------------------------------------------------------------------


def _toolbar(what: str, document: AuditDocument) -> Iterator[str]:
    """Yield the controls of a list, which the script shows and fills."""
    yield '<form class="toolbar" role="search" hidden>'
    if what == "findings":
        yield '<div class="tiles" role="group" aria-label="Show only">'
        for severity in Severity:
            amount = sum(finding.severity is severity for finding in document.findings)
            yield (
                f'<button type="button" class="tile {severity.value}" data-severity="{severity.value}" '
                f'aria-pressed="false"><b>{amount:,}</b> {severity.value}{"" if amount == 1 else "s"}</button>'
            )
        yield "</div>"
    yield '<div class="controls">'
    yield (
        f'<input type="search" placeholder="Search {what}…" aria-label="Search {what}" '
        'autocomplete="off" spellcheck="false">'
    )
    for name, everything in (("catalog", "All catalogs"), ("rule", "All rules"), ("owner", "All owners")):
        yield f'<select data-filter="{name}" aria-label="{name.capitalize()}"><option value="">{everything}</select>'
    yield '<button type="button" class="within" aria-label="Show all namespaces" hidden></button>'
    yield '<output role="status"></output></div></form>'


def _pager(what: str) -> Iterator[str]:
    yield '<p class="nothing" hidden>Nothing matches. <button type="button" class="reset">Show everything</button></p>'
    yield f'<nav class="pager" aria-label="Pages of {what}" hidden>'
    yield '<button type="button" class="first">First</button> <button type="button" class="previous">Previous</button> '
    yield '<span class="page-number"></span> '
    yield '<button type="button" class="next">Next</button> <button type="button" class="last">Last</button></nav>'


def _left_out(number: int, what: str) -> Iterator[str]:
    if number:
        yield f'<p class="quiet">{number:,} more {what} are not in this report; they are in the counts above.</p>'


def _first(number: int, what: str) -> Iterator[str]:
    if number > _A_PAGE:
        yield f'<p class="quiet without-script">The first {_A_PAGE} of {number:,} {what}. The script of this page '
        yield "shows and searches all of them; where it may not run, <code>report.json</code> has them.</p>"


def _findings(document: AuditDocument) -> Iterator[str]:
    if not document.findings:
        return
    yield '<section class="listing" id="findings"><h2>Findings</h2>'
    yield from _toolbar("findings", document)
    yield from _first(len(document.findings), "findings")
    yield '<div class="rows">'
    yield from map(_finding, document.findings[:_A_PAGE])
    yield "</div>"
    yield from _pager("findings")
    yield from _left_out(document.findings_left_out, "findings")
    yield "</section>"


def _finding(finding: Finding) -> str:
    *above, name = map(display.name, (finding.catalog, *finding.identifier))
    path = "".join(f"{part}/" for part in above)
    where = "" if finding.source is None else display.printable(str(finding.source))
    facts = [("What to do", sentence(finding.remedy))]
    if finding.location is not None:
        facts.append(("Location", f"<code>{escape(display.value(finding.location))}</code>"))
    facts.append(("Owner", "no manifest" if finding.owner is None else escape(display.value(finding.owner))))
    facts.extend((escape(display.key(key)), escape(display.value(value))) for key, value in finding.details.items())
    return (
        f'<details class="finding {finding.severity.value}"><summary>'
        f'<span class="severity">{finding.severity.value}</span> '
        f'<span class="rule">{escape(display.printable(finding.rule))}</span> '
        f'<bdi class="name"><span class="path">{escape(path)}</span>{escape(name)}</bdi> '
        f'<span class="why">{sentence(finding.reason)}</span> <span class="where">{escape(where)}</span></summary>'
        '<div class="body"><dl>'
        + "".join(f"<dt>{label}</dt><dd><bdi>{value}</bdi></dd>" for label, value in facts)
        + "</dl></div></details>"
    )


def _tables(document: AuditDocument) -> Iterator[str]:
    if not document.tables:
        return
    yield '<section class="listing" id="tables"><h2>Tables</h2>'
    yield from _toolbar("tables", document)
    yield from _first(len(document.tables), "tables")
    yield '<div class="scrolls" role="region" aria-label="Tables" tabindex="0"><table class="tables"><thead><tr>'
    for title, column in _COLUMNS:
        style = ' class="number"' if column in _NUMBERS else ""
        yield f'<th scope="col" data-sort="{column}"{style}>{title}</th>'
    yield '</tr></thead><tbody class="rows">'
    yield from map(_table, document.tables[:_A_PAGE])
    yield "</tbody></table></div>"
    yield from _pager("tables")
    yield from _left_out(document.tables_left_out, "tables")
    yield "</section>"


def _table(table: ReportedTable) -> str:
    path = "".join(f"{display.name(part)}/" for part in (table.catalog, *table.namespace))
    name = escape(display.name(table.name))
    location = "" if table.location is None else escape(display.value(table.location))
    owner = "<i>no manifest</i>" if table.owner is None else f"<bdi>{escape(display.value(table.owner))}</bdi>"
    committed = (
        ""
        if table.committed is None
        else f'<time title="{figures.moment(table.committed)}">{table.committed:%Y-%m-%d}</time>'
    )
    amounts = (
        _amount(table.rows),
        "" if table.bytes is None else figures.size(table.bytes),
        _amount(table.fragments),
        _amount(table.version),
    )
    return (
        f'<tr><th scope="row"><bdi class="name"><span class="path">{escape(path)}</span>{name}</bdi>'
        f'<bdi class="location" title="{location}">{location}</bdi></th><td>{owner}</td>'
        + "".join(f'<td class="number">{amount}</td>' for amount in amounts)
        + f"<td>{committed}</td><td>{_pills(table.rules)}</td></tr>"
    )


def _amount(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _pills(rules: Sequence[str]) -> str:
    return " ".join(f'<span class="rule">{escape(display.printable(rule))}</span>' for rule in rules)


# ---- what is looked up -----------------------------------------------------------------------------------------------


def _rules(document: AuditDocument) -> Iterator[str]:
    if not document.settings.rules:
        return
    yield '<section id="rules"><h2>Rules</h2><dl class="rules">'
    for rule in document.settings.rules:
        yield f'<dt class="{rule.severity.value}"><span class="severity">{rule.severity.value}</span> '
        yield f"{escape(display.printable(rule.name))}</dt>"
        yield f"<dd><b>{sentence(rule.title)}.</b> {sentence(rule.help)}</dd>"
    yield "</dl></section>"


def _footer(document: AuditDocument) -> Iterator[str]:
    manifest = document.manifest
    files = ", ".join(map(display.printable, manifest.files))
    stale = document.settings.stale_after_days
    yield '<footer class="page"><dl>'
    yield f"<dt>Run</dt><dd><code>{escape(display.printable(document.run_id))}</code></dd>"
    yield f"<dt>Manifest</dt><dd><code>{escape(display.printable(manifest.digest))}</code> {escape(files)}</dd>"
    yield f"<dt>Stale after</dt><dd>{'never' if stale is None else count(stale, 'day')}</dd>"
    yield f"<dt>Format</dt><dd>{escape(document.format_version)}, lancens {escape(document.lancens_version)}</dd>"
    yield "</dl></footer>"
