"""Render the findings of an audit as JUnit XML."""

from __future__ import annotations

from reconciler.auditor.document import AuditDocument
from reconciler.auditor.records import Severity
from reconciler.output.junit import JunitCase, junit_xml


def render_junit_findings(document: AuditDocument) -> str:
    """Return the findings as test suites, one a rule: errors and warnings fail, notes pass.

    Each read failure is a failed case of the suite ``coverage``.
    """
    cases = [JunitCase("coverage", failure.address, failure.message, failure.message) for failure in document.failures]
    cases += [
        JunitCase(
            finding.rule,
            "/".join((finding.catalog, *finding.namespace, finding.name or "")).rstrip("/"),
            f"{finding.reason}\n{finding.remedy}",
            None if finding.severity is Severity.NOTE else finding.reason,
        )
        for finding in document.findings
    ]
    return junit_xml("lancens audit", dict.fromkeys(case.suite for case in cases), cases)
