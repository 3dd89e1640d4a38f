"""Audit from Python: the findings and the tables as data, for notebooks and jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from reconciler.auditor.audit import AuditOptions
from reconciler.auditor.document import AuditDocument
from reconciler.auditor.rules import RULES, rules_to_apply
from reconciler.auditor.run import run_audit
from reconciler.model import display
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.rendering import Renderable
from reconciler.output.templating import in_frame
from reconciler.pipeline.frames import frame_of
from reconciler.report.html import render_html
from reconciler.report.parquet import findings_table, tables_table
from reconciler.report.text import remark_lines, summary_lines, worst_lines
from reconciler.storage import Depth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest


@dataclass(frozen=True, slots=True, repr=False)
class AuditResult(Renderable):
    """The result of an audit from Python.

    Args:
        findings: the findings, a DataFrame with Spark and an Arrow table without.
        tables: the tables with their figures, in the same form.
        document: the counts and the coverage; ``document.complete`` says whether everything was read.
    """

    findings: Any
    tables: Any
    document: AuditDocument

    def _headline(self) -> tuple[str, Mapping[str, int]]:
        return self.document.manifest.name, self.document.totals.findings.model_dump()

    def __str__(self) -> str:
        lines = (*summary_lines(self.document), *worst_lines(self.document), *remark_lines(self.document))
        return "\n".join(map(display.message, lines))

    def _repr_html_(self) -> str:
        return in_frame(render_html(self.document), "audit")


def audit(
    manifest: Manifest,
    *,
    spark: SparkSession | None = None,
    rules: Sequence[str] = tuple(RULES),
    depth: str = "files",
    limits: Mapping[str, int] | None = None,
    stale_after: timedelta | None = timedelta(days=180),
    parallelism: int = DEFAULT_PARALLELISM,
    history: str | None = None,
    since_last: bool = False,
    exclude: Sequence[str] = (),
) -> AuditResult:
    """Return what ``lancens audit`` finds; nothing but ``history`` is written.

    Args:
        manifest: from :func:`reconciler.load`.
        spark: the session to work in; None for this process.
        rules: the names of the rules to apply.
        depth: ``quick`` reads the latest version of each dataset, ``files`` also lists its files, ``footers`` also
            reads the ends of data and index files, ``rows`` also reads all rows, in other processes: in a script, call
            this below ``if __name__ == "__main__":``.
        limits: thresholds of the rules by name, such as ``small_fragments``.
        stale_after: the age from which a table's last commit is stale, None for no age.
        parallelism: how many requests each task has in flight at a catalog.
        history: the Lance dataset to append the run to; ``document.history`` is then the trend.
        since_last: whether to look only at datasets with a new version since the last run, and a share of the others.
        exclude: globs over ``catalog/namespace/table``; their matches are not opened and have no findings.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: there is no such rule, the history cannot be used, or a catalog refuses its configuration or
            cannot be reached by Spark.
    """
    options = AuditOptions(
        stale_after=stale_after,
        depth=Depth(depth),
        limits=limits or {},
        rules=rules_to_apply(rules),
        parallelism=parallelism,
        history=history,
        since_last=since_last,
        exclude=exclude,
    )
    document = run_audit(spark, manifest, options)
    findings, tables = findings_table(document), tables_table(document)
    return AuditResult(frame_of(spark, findings).content, frame_of(spark, tables).content, document)
