"""An audit as one HTML page: no server, no network, nothing but itself.

Without its script the page shows everything but the findings and tables beyond the first few. The script searches,
filters and sorts those, and keeps what is chosen in the address. The markup is in ``templates/report.html``.
"""

from __future__ import annotations

from reconciler.auditor import figures
from reconciler.auditor.document import AuditDocument
from reconciler.auditor.records import Severity
from reconciler.model.display import count
from reconciler.output.templating import render_page
from reconciler.report import charts, overview
from reconciler.report.data import PageData

_A_PAGE = 50


def render_html(document: AuditDocument) -> str:
    """Return the page, ready to be written as UTF-8."""
    data = PageData(document)
    return render_page(
        __package__,
        "report",
        document=document,
        closing=_closing(document),
        severities=[severity.value for severity in Severity],
        rule_titles={rule.name: rule.title for rule in document.settings.rules},
        figures=figures,
        overview=overview,
        cards=charts.breakdown(document, data),
        columns=charts.columns,
        plots=charts.trend(document.history),
        a_page=_A_PAGE,
        data=data,
    )


def _closing(document: AuditDocument) -> str:
    found, tables = document.totals.findings, count(document.totals.tables, "table")
    if not found.total:
        return f"Nothing was found in {tables}."
    amounts = ((getattr(found, severity.value), severity.value) for severity in Severity)
    return f"{count(found.total, 'finding')} in {tables}: {', '.join(count(*each) for each in amounts if each[0])}."
