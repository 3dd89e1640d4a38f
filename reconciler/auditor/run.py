"""Run an audit from its manifest to its document, and compare it with the earlier runs of a history."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.auditor import history
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.auditor.probe_cache import ProbeCache
from reconciler.auditor.records import ROUNDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.auditor.document import AuditDocument
    from reconciler.manifest import Manifest
    from reconciler.pipeline.session import SparkOptions


def run_audit(
    spark: SparkSession | SparkOptions | None,
    manifest: Manifest,
    options: AuditOptions,
    report: Callable[[AuditDocument], None] = lambda _: None,
) -> AuditDocument:
    """Audit ``manifest``, and append the run to the history of ``options``.

    Args:
        spark: the session to work in, or where Spark runs; None to work in this process.
        manifest: the catalogs to audit.
        options: what to check, and the history.
        report: receives the document before the history does, so that no run in it lacks its report.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: the history cannot be used, a catalog refuses its configuration, or cannot be reached by Spark.
    """
    uri = options.history
    if uri is None:
        document = audit(spark, manifest, options)
        report(document)
        return document
    earlier = history.read(uri, {})
    series, rounds = (manifest.name, options.settings().text), ROUNDS if options.since_last else 1
    cache = ProbeCache.of(uri, earlier, series, options.now, rounds)
    document = audit(spark, manifest, options, cache)
    document = history.with_past_findings(history.with_trend(document, earlier), uri, {})
    report(document)
    history.append(uri, document, {})
    cache.prune()
    return document
