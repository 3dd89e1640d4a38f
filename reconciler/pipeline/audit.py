"""The audit: read what catalogs say, look at what storage holds, and let the rules judge each table where it is read.

Catalogs and manifest meet in a full outer join. Locations are related by grouping and joining, opened and judged on
the executors, and the roots are searched for what nobody registered. The driver gets counts, and as many findings and
tables as a report shows. Nothing is changed anywhere.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING

from reconciler.names import Identifier
from reconciler.pipeline import rows
from reconciler.pipeline.catalogs import CatalogSpec, catalog_specs
from reconciler.pipeline.foreign import foreign_rows
from reconciler.pipeline.grounds import Ground, grounds_of, searchable_roots
from reconciler.pipeline.judging import JUDGED, Judge, with_places
from reconciler.pipeline.orphans import DEEPEST, dataset_rows, find_unregistered
from reconciler.pipeline.packs import task_count
from reconciler.pipeline.progress import stage
from reconciler.pipeline.relations import with_relations
from reconciler.pipeline.report.document import (
    AuditDocument,
    AuditSettings,
    CatalogCoverage,
    Failure,
    FindingCounts,
    ReportedFinding,
    RuleInfo,
    SeverityCounts,
    Totals,
)
from reconciler.pipeline.rules import RULES, Times, unread_namespace
from reconciler.pipeline.source import live_rows
from reconciler.pipeline.storage_probe import with_stored
from reconciler.pipeline.totals import figures_of, findings_of, tables_of, tallies_of
from reconciler.pipeline.wanted import wanted_tables
from reconciler.planning import reference
from reconciler.state import DEFAULT_PARALLELISM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reconciler.manifest import Manifest

__all__ = ["AuditOptions", "audit"]

STALE_AFTER = timedelta(days=180)


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How to audit.

    Args:
        now: the present moment, with a time zone.
        stale_after: how old a table's last commit may be, None for any age.
        rules: the names of the rules to apply.
        parallelism: how many requests each task has in flight at a catalog.
        most_findings, most_tables: how many of them the document holds; all of them are counted.
    """

    now: datetime
    stale_after: timedelta | None = STALE_AFTER
    rules: Sequence[str] = tuple(RULES)
    parallelism: int = DEFAULT_PARALLELISM
    most_findings: int = 100_000
    most_tables: int = 100_000


@dataclass(slots=True)
class _Coverage:
    """What was read of the catalogs, and what was not."""

    namespaces: dict[str, int] = field(default_factory=dict)
    tables: int = 0
    unread: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def closed(self) -> dict[str, frozenset[Identifier]]:
        """The namespaces of each catalog that were not read."""
        found: defaultdict[str, set[Identifier]] = defaultdict(set)
        for failure in self.unread:
            found[failure.catalog].add(failure.namespace)
        return {catalog: frozenset(namespaces) for catalog, namespaces in found.items()}


def audit(spark: SparkSession, manifest: Manifest, options: AuditOptions) -> AuditDocument:
    """Return what is wrong with the tables in the scope of ``manifest``, and with the datasets under its roots.

    What cannot be read is in the document; ``complete`` says whether there is such a thing.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: a catalog cannot be used at all.
    """
    began = monotonic()
    specs = catalog_specs(manifest, options.parallelism)
    grounds = grounds_of(manifest, specs)
    with ExitStack() as stack:
        live, coverage = _read(spark, specs, grounds, stack)
        entries = _entries(spark, manifest, live, coverage, grounds, stack)
        judge = Judge(grounds, Times(options.now, options.stale_after), options.rules, coverage.closed)
        judged = _judged(spark, entries, judge, stack)
        if "orphan" in options.rules:
            judged = judged.union(_orphans(spark, judged, judge, coverage, stack))
        with stage(spark, "Adding up"):
            return _document(manifest, judged, coverage, grounds, options, timedelta(seconds=monotonic() - began))


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read(
    spark: SparkSession, specs: Collection[CatalogSpec], grounds: Mapping[str, Ground], stack: ExitStack
) -> tuple[DataFrame, _Coverage]:
    """Read the catalogs, each once."""
    from pyspark.sql import functions as f

    coverage = _Coverage()
    with stage(spark, f"Reading {_counted(len(specs), 'catalog')}") as running:
        live = _kept(live_rows(spark, specs), stack)
        for row in live.groupBy("catalog", "kind").count().collect():
            if row["kind"] == rows.NAMESPACE:
                coverage.namespaces[row["catalog"]] = row["count"]
            elif row["kind"] == rows.TABLE:
                coverage.tables += row["count"]
        unread = live.filter((f.col("kind") == rows.COVERAGE) & f.col("message").isNotNull())
        coverage.unread += _failures(unread.select("catalog", "namespace", "message"))
        notes = live.filter(f.col("kind") == rows.NOTE).select("catalog", "message").distinct()
        coverage.notes += [
            f"{row['catalog']}: {row['message']}" for row in notes.orderBy("catalog", "message").collect()
        ]
        running.note(_counted(coverage.tables, "table"))
    for ground in grounds.values():
        if ground.problem is not None:
            coverage.unread.append(Failure(catalog=ground.name, message=ground.problem))
    return live, coverage


def _failures(unread: DataFrame) -> list[Failure]:
    """Return the rows of ``unread``, one for each namespace."""
    found = {(row[0], tuple(row[1])): row[2] for row in unread.collect()}
    return [
        Failure(catalog=catalog, namespace=namespace, message=found[catalog, namespace])
        for catalog, namespace in sorted(found)
    ]


def _entries(
    spark: SparkSession,
    manifest: Manifest,
    live: DataFrame,
    coverage: _Coverage,
    grounds: Mapping[str, Ground],
    stack: ExitStack,
) -> DataFrame:
    """Return what manifest and catalogs say of each table, with where it is."""
    from pyspark.sql import functions as f

    desired = [catalog.desired for catalog in manifest.catalogs.values()]
    key = f.array_join(f.concat("namespace", f.array("name")), "$").alias("key")
    tables = live.filter(f.col("kind") == rows.TABLE).select(
        "catalog", key, f.col("location").alias("live_location"), "properties"
    )
    foreign = _foreign(spark, live, coverage, grounds, stack)
    joined = (
        wanted_tables(spark, desired)
        .join(tables, ["catalog", "key"], "full_outer")
        .join(foreign, ["catalog", "key"], "full_outer")
    )
    return with_places(
        joined.select("catalog", "key", "live_location", "properties", "foreign_location", "foreign_format", "block")
    )


def _foreign(
    spark: SparkSession, live: DataFrame, coverage: _Coverage, grounds: Mapping[str, Ground], stack: ExitStack
) -> DataFrame:
    """Return the tables of other kinds, and note what could not be read of them."""
    from pyspark.sql import functions as f

    mixed = [ground.spec for ground in grounds.values() if ground.has_foreign]
    read = (f.col("kind") == rows.COVERAGE) & f.col("message").isNull()
    namespaces = live.filter(read & f.col("catalog").isin([spec.name for spec in mixed]))
    namespaces = namespaces.select("catalog", "namespace").distinct()
    if not mixed:
        return spark.createDataFrame([], "catalog string, key string, foreign_location string, foreign_format string")
    with stage(spark, f"Reading tables of other kinds in {_counted(len(mixed), 'catalog')}") as running:
        number = namespaces.count()
        found = _kept(foreign_rows(spark, namespaces.repartition(task_count(number)), mixed), stack)
        running.note(_counted(found.filter(f.col("error").isNull()).count(), "table"))
        coverage.unread += _failures(found.filter(f.col("error").isNotNull()).select("catalog", "namespace", "error"))
    tables = found.filter(f.col("error").isNull())
    return tables.select("catalog", "key", "foreign_location", "foreign_format")


# ---- looking and judging ---------------------------------------------------------------------------------------------


def _judged(spark: SparkSession, entries: DataFrame, judge: Judge, stack: ExitStack) -> DataFrame:
    with stage(spark, "Comparing locations") as running:
        placed = _kept(entries, stack)
        number = placed.count()
        running.note(_counted(number, "entry", "entries"))
    with stage(spark, f"Looking at {_counted(number, 'location')}"):
        related = with_relations(placed).repartition(task_count(number))
        judged = _kept(_looked_at(related, judge), stack)
        judged.count()
    return judged


def _looked_at(tables: DataFrame, judge: Judge) -> DataFrame:
    options = {name: ground.options for name, ground in judge.grounds.items()}
    return with_stored(tables, options).mapInArrow(judge, JUDGED)


def _orphans(spark: SparkSession, judged: DataFrame, judge: Judge, coverage: _Coverage, stack: ExitStack) -> DataFrame:
    """Return the datasets that nobody registered, as rows like those of ``judged``."""
    from pyspark.sql import functions as f

    unread: dict[str, str] = {}
    for failure in coverage.unread:
        unread.setdefault(failure.catalog, failure.address)
    search = searchable_roots(tuple(judge.grounds.values()), unread)
    coverage.notes += search.reasons
    with stage(spark, f"Searching {_counted(len(search.roots), 'root')} for orphans") as running:
        places = judged.filter(f.col("claimed").isNotNull()).groupBy("claimed")
        claims = _kept(places.agg(f.max("closed").alias("closed")), stack)
        found = find_unregistered(spark, search, judge.grounds, claims)
        coverage.unread += [Failure(catalog=catalog, message=message) for catalog, message in found.failures]
        if found.is_cut_short:
            coverage.notes.append(f"orphans were not looked for more than {DEEPEST} directories below a root")
        orphans = _kept(_looked_at(dataset_rows(spark, found.datasets, judge.grounds), judge), stack)
        running.note(_counted(orphans.count(), "dataset that nobody registered", "datasets that nobody registered"))
    return orphans


def _kept(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Return ``frame``, computed once and kept on the executors' disks until ``stack`` is closed."""
    from pyspark import StorageLevel

    kept = frame.persist(StorageLevel.DISK_ONLY)
    stack.callback(kept.unpersist)
    return kept


# ---- the document ----------------------------------------------------------------------------------------------------


def _document(
    manifest: Manifest,
    judged: DataFrame,
    coverage: _Coverage,
    grounds: Mapping[str, Ground],
    options: AuditOptions,
    taken: timedelta,
) -> AuditDocument:
    figures = figures_of(judged)
    tallies = dict(tallies_of(judged))
    unread = _unread_findings(coverage, options)
    for finding in unread:
        group = (finding.rule, finding.severity, finding.catalog, finding.namespace, None)
        tallies[group] = tallies.get(group, 0) + 1
    counts = FindingCounts.of(tallies)
    findings = sorted([*unread, *findings_of(judged, options.most_findings)], key=lambda finding: finding.rank)
    tables = tables_of(judged, options.most_tables)
    totals = Totals(
        catalogs=len(grounds),
        namespaces=sum(coverage.namespaces.values()),
        tables=figures.tables.total(),
        rows=figures.rows,
        bytes=figures.bytes,
        fragments=figures.fragments,
        findings=SeverityCounts(
            error=sum(rule.error for rule in counts.by_rule),
            warning=sum(rule.warning for rule in counts.by_rule),
            note=sum(rule.note for rule in counts.by_rule),
        ),
    )
    return AuditDocument(
        lancens_version=version("lancens"),
        run_id=uuid.uuid4().hex,
        started=options.now,
        finished=options.now + taken,
        manifest=reference(manifest),
        settings=AuditSettings(
            stale_after_days=None if options.stale_after is None else options.stale_after.days,
            rules=tuple(
                RuleInfo(name=rule.name, severity=rule.severity, title=rule.title, help=rule.help)
                for rule in (RULES[name] for name in options.rules)
            ),
        ),
        coverage=tuple(
            CatalogCoverage(
                name=name,
                impl=ground.spec.impl,
                namespaces=coverage.namespaces.get(name, 0),
                namespaces_unread=len(coverage.closed.get(name, frozenset()) - {()}),
                tables=figures.tables[name],
                tables_looked_at=figures.tables[name],
                tables_unreadable=figures.unreadable[name],
            )
            for name, ground in grounds.items()
        ),
        failures=tuple(coverage.unread),
        totals=totals,
        counts=counts,
        findings=tuple(findings[: options.most_findings]),
        findings_left_out=max(0, totals.findings.total - options.most_findings),
        tables=tuple(tables),
        tables_left_out=totals.tables - len(tables),
        sizes=figures.size_distribution,
        ages=figures.age_distribution,
    )


def _unread_findings(coverage: _Coverage, options: AuditOptions) -> list[ReportedFinding]:
    """Return the findings of namespaces that could not be read; that of a whole catalog is no namespace's."""
    if "unreadable" not in options.rules:
        return []
    return [
        ReportedFinding.of(unread_namespace(failure.catalog, failure.namespace, failure.message))
        for failure in coverage.unread
        if failure.namespace
    ]


def _counted(number: int, one: str, several: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"
