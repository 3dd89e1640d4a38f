"""Write the findings and the tables of an audit as typed Parquet files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from reconciler.auditor.document import AuditDocument, Finding, ReportedTable
from reconciler.auditor.evaluate import ABOUT, AMOUNTS
from reconciler.pipeline.schemas import LONG, MOMENT, STRING, STRING_MAP, STRINGS, Row

_COMMON_COLUMNS = [("run_id", STRING), ("finished", MOMENT), *ABOUT]
FINDINGS = pa.schema(
    [
        *_COMMON_COLUMNS,
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

TABLES = pa.schema([*_COMMON_COLUMNS, *((name, LONG) for name in AMOUNTS), ("committed", MOMENT), ("rules", STRINGS)])
"""The columns of ``tables.parquet``."""


def write_parquet(document: AuditDocument, folder: Path) -> None:
    """Write ``findings.parquet`` and ``tables.parquet`` into ``folder``.

    Raises:
        OSError: a file cannot be written.
    """
    pq.write_table(findings_table(document), folder / "findings.parquet")
    pq.write_table(tables_table(document), folder / "tables.parquet")


def findings_table(document: AuditDocument) -> pa.Table:
    """Return the findings as an Arrow table of ``FINDINGS``."""
    return _table(document, map(_finding_row, document.findings), FINDINGS)


def tables_table(document: AuditDocument) -> pa.Table:
    """Return the tables as an Arrow table of ``TABLES``."""
    return _table(document, map(_object_row, document.tables), TABLES)


def _table(document: AuditDocument, rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    run = {"run_id": document.run_id, "finished": document.finished}
    return pa.Table.from_pylist([{**run, **row} for row in rows], schema)


def _finding_row(finding: Finding) -> Row:
    source = finding.source
    source_columns = {"file": None, "line": None} if source is None else {"file": source.file, "line": source.line}
    return {
        **_object_row(finding),
        "severity": finding.severity.value,
        "details": [*finding.details.items()],
        **source_columns,
    }


def _object_row(item: Finding | ReportedTable) -> Row:
    """Return the values of columns that findings and tables share, and more keys."""
    return {**item.model_dump(), "namespace": list(item.namespace), "address": item.address}
