"""Audit from Python: the findings and the tables as data, for notebooks and jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reconciler.auditor import audit as auditing
from reconciler.auditor.document import AuditDocument
from reconciler.auditor.records import Depth
from reconciler.auditor.rules import RULES
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import LancensError
from reconciler.report.parquet import findings_table, tables_table
from reconciler.spark.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit from Python.

    Args:
        findings: the findings, a DataFrame with Spark and an Arrow table without.
        tables: the tables with their figures, in the same form.
        document: the counts and the coverage; ``document.complete`` says whether everything was read.
    """

    findings: Any
    tables: Any
    document: AuditDocument


def audit(
    manifest: Manifest,
    *,
    spark: SparkSession | None = None,
    rules: Sequence[str] = tuple(RULES),
    depth: str = "files",
    limits: Mapping[str, int] | None = None,
    stale_after: timedelta | None = timedelta(days=180),
    parallelism: int = DEFAULT_PARALLELISM,
) -> AuditResult:
    """Return what ``lancens audit`` finds; change nothing.

    Args:
        manifest: from :func:`reconciler.load`.
        spark: the session to work in; None for this process.
        rules: the names of the rules to apply.
        depth: ``files`` lists the files of each dataset, ``quick`` reads its latest version only.
        limits: thresholds of the rules by name, such as ``small_fragments``.
        stale_after: the age from which a table's last commit is stale, None for no age.
        parallelism: how many requests each task has in flight at a catalog.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: there is no such rule, a catalog refuses its configuration, or cannot be reached by Spark.
    """
    if unknown := sorted(set(rules) - RULES.keys()):
        raise LancensError(f"there is no rule {unknown[0]}; the rules are {', '.join(RULES)}")
    options = auditing.AuditOptions(
        datetime.now(UTC), stale_after, Depth(depth), limits or {}, rules, parallelism=parallelism
    )
    document = auditing.audit(spark, manifest, options)
    findings, tables = findings_table(document), tables_table(document)
    return AuditResult(frame_of(spark, findings).content, frame_of(spark, tables).content, document)
