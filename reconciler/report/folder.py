"""Write the report of an audit in every format."""

from __future__ import annotations

from pathlib import Path

from reconciler.auditor.document import AuditDocument
from reconciler.model.errors import LancensError
from reconciler.model.files import write_file
from reconciler.report.html import render_html
from reconciler.report.json import render_json
from reconciler.report.junit import render_junit_findings
from reconciler.report.parquet import write_parquet
from reconciler.report.sarif import render_sarif


def write_report(document: AuditDocument, folder: Path) -> None:
    """Write the report into ``folder``, which exists.

    Raises:
        LancensError: a file cannot be written.
    """
    for name, text in (
        ("audit.json", render_json(document)),
        ("audit.sarif", render_sarif(document)),
        ("audit.junit.xml", render_junit_findings(document)),
        ("audit.html", render_html(document)),
    ):
        write_file(str(folder / name), text.encode("utf-8"))
    try:
        write_parquet(document, folder)
    except OSError as error:
        raise LancensError(f"{folder} cannot be written: {error.strerror or error}") from None
