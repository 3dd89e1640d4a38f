"""Write the findings and the tables of an audit as typed Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reconciler.auditor.document import AuditDocument, Finding, ReportedTable
from reconciler.auditor.evaluate import ABOUT, AMOUNTS
from reconciler.spark.schemas import LONG, MOMENT, STRING, STRING_MAP, STRINGS

_ABOUT = [("run_id", STRING), ("finished", MOMENT), *ABOUT]
FINDINGS = pa.schema(
    [
        *_ABOUT,
        ("rule", STRING),
        ("severity", STRING),
        ("reason", STRING),
        ("remedy", STRING),
        ("details", STRING_MAP),
        ("file", STRING),
        ("line", LONG),
    ]
)
"""The columns of ``findings.parquet``; ``file`` and ``line`` are the block's."""

TABLES = pa.schema([*_ABOUT, *((name, LONG) for name in AMOUNTS), ("committed", MOMENT), ("rules", STRINGS)])
"""The columns of ``tables.parquet``."""


def write_parquet(document: AuditDocument, folder: Path) -> None:
    """Write ``findings.parquet`` and ``tables.parquet`` into ``folder``.

    Raises:
        OSError: a file cannot be written.
    """
    run = {"run_id": document.run_id, "finished": document.finished}
    found = [{**run, **_finding(finding)} for finding in document.findings]
    pq.write_table(pa.Table.from_pylist(found, schema=FINDINGS), folder / "findings.parquet")
    tables = [{**run, **_row(table)} for table in document.tables]
    pq.write_table(pa.Table.from_pylist(tables, schema=TABLES), folder / "tables.parquet")


def _finding(finding: Finding) -> dict[str, Any]:
    source = finding.source
    place = {"file": None, "line": None} if source is None else {"file": source.file, "line": source.line}
    return {**_row(finding), "severity": finding.severity.value, "details": [*finding.details.items()], **place}


def _row(one: Finding | ReportedTable) -> dict[str, Any]:
    return {**one.model_dump(), "namespace": list(one.namespace), "address": one.address}
