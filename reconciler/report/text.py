"""Render an audit as the lines of a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from reconciler.auditor.document import AuditDocument
from reconciler.auditor.records import Severity
from reconciler.auditor.rules.rule import first_few
from reconciler.model import figures
from reconciler.model.display import count
from reconciler.output.omissions import Omissions
from reconciler.output.wording import where_line
from reconciler.report.grouping import group_findings

_MAX_LISTED = 10


def summary_lines(document: AuditDocument) -> Iterator[str]:
    """Yield what could not be read, where the tables are, the coverage, and the findings by rule."""
    totals, findings = document.totals, document.totals.findings
    if not document.complete:
        missing = count(len(document.failures), "part")
        yield f"NOT COMPLETE: {missing} could not be read, so their content is unknown."
    yield where_line(document.manifest, document.coverage, Omissions(), exclude=document.settings.exclude)
    scope = f"{count(totals.namespaces, 'namespace')} of {count(totals.catalogs, 'catalog')}"
    data = figures.with_unknown(figures.size(totals.bytes), totals.bytes_unknown)
    yield f"Checked {count(totals.tables, 'table')} in {scope}, {data} of data."
    if document.tables_unreadable:
        yield f"{count(document.tables_unreadable, 'table')} could not be opened."
    if document.carried_since is not None:
        yield f"Carried over since {figures.moment(document.carried_since)}: {document.carried_over}."
    if document.suppressed:
        suppressed = sum(suppression.findings for suppression in document.suppressed)
        yield f"{count(suppressed, 'finding')} suppressed by the manifest."
    if gone_count := sum(finding.gone for finding in document.past):
        yield f"{count(gone_count, 'finding')} gone since {figures.moment(document.history[-2].finished)}."
    if not findings.total:
        yield "No findings."
        return
    yield f"{findings.text}:"
    width = max(len(counted.rule) for counted in document.counts.by_rule)
    for counted in sorted(document.counts.by_rule, key=lambda rule: (-rule.error, -rule.warning, -rule.note)):
        yield f"  {counted.rule:<{width}}  {counted.text}"


def worst_lines(document: AuditDocument) -> Iterator[str]:
    """Yield the most severe findings with their remedies, equal ones once, as many as fit a terminal."""
    groups = group_findings(finding for finding in document.findings if finding.severity is not Severity.NOTE)
    for group in groups[:_MAX_LISTED]:
        addresses = first_few([finding.address for finding in group.findings])
        yield ""
        yield f"{group.first.severity.value}: {group.first.rule}: {addresses}"
        yield f"  {group.reason}"
        yield f"  {group.remedy}"
    if more := sum(len(group.findings) for group in groups[_MAX_LISTED:]):
        yield ""
        yield f"and {more:,} more errors and warnings, which --out DIR writes to a report"


def remark_lines(document: AuditDocument) -> Iterator[str]:
    """Yield the notes and the failures, equal ones once, as many as fit a terminal."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for failure in document.failures:
        places[failure.message].append(failure.address)
    failures = [f"{first_few(addresses)}: {message}" for message, addresses in places.items()]
    for lines in (document.notes, failures):
        yield from lines[:_MAX_LISTED]
        if len(lines) > _MAX_LISTED:
            yield f"and {len(lines) - _MAX_LISTED:,} more, which are in the report"
