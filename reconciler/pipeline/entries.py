"""The entries that an audit checks: each table in the manifest or a catalog, and how much could be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler.display import count
from reconciler.names import Identifier
from reconciler.pipeline import rows
from reconciler.pipeline.batches import probe_tasks, row_tasks
from reconciler.pipeline.catalog_info import CatalogInfo
from reconciler.pipeline.desired import desired_tables
from reconciler.pipeline.foreign import FOREIGN_TABLES, foreign_rows
from reconciler.pipeline.progress import stage
from reconciler.pipeline.report.document import Failure
from reconciler.pipeline.schemas import STRING, STRING_MAP, spark_schema
from reconciler.pipeline.source import live_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reconciler.manifest import Manifest

__all__ = ["ENTRIES", "Coverage", "persisted", "read_entries"]

ENTRIES = pa.schema(
    [
        ("catalog", STRING),
        ("key", STRING),
        ("live_location", STRING),
        ("properties", STRING_MAP),
        ("foreign_location", STRING),
        ("foreign_format", STRING),
        ("block", pa.binary()),
    ]
)
"""What the manifest and the catalogs say of a table.

``key`` is its string identifier, ``block`` the manifest's pickled block. The location of a live table is in
``live_location`` and that of a table of another kind in ``foreign_location``; one that is marked as a Lance table and
is of the wrong type has both.
"""


@dataclass(slots=True)
class Coverage:
    """What could be read.

    Args:
        namespaces: how many were found in each catalog.
        unread: those that could not be read.
        failures: what else could not be.
        notes: sentences about the catalogs, and about what was not looked for.
        tables: how many were read, those of other kinds included.
    """

    namespaces: dict[str, int] = field(default_factory=dict)
    unread: list[Failure] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: int = 0

    def unread_in(self) -> Mapping[str, frozenset[Identifier]]:
        """Return the namespaces of each catalog that could not be read."""
        found: defaultdict[str, set[Identifier]] = defaultdict(set)
        for failure in self.unread:
            found[failure.catalog].add(failure.namespace)
        return {catalog: frozenset(namespaces) for catalog, namespaces in found.items()}


def persisted(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Return ``frame``, computed once and kept on the executors' disks until ``stack`` is closed."""
    from pyspark import StorageLevel

    found = frame.persist(StorageLevel.DISK_ONLY)
    stack.callback(found.unpersist)
    return found


def read_entries(
    spark: SparkSession, manifest: Manifest, catalogs: Mapping[str, CatalogInfo], stack: ExitStack
) -> tuple[DataFrame, Coverage]:
    """Read the catalogs, each once, and return what is said of each table, as ``ENTRIES``.

    Args:
        spark: the session to work in.
        manifest: whose blocks are joined with the entries.
        catalogs: its catalogs by name.
        stack: what is kept is given back when it is closed.

    Raises:
        LancensError: a catalog cannot be read by other processes.
    """
    from pyspark.sql import functions as f

    coverage = Coverage()
    live = _read(spark, catalogs, coverage, stack)
    tables = live.filter(f.col("kind") == rows.TABLE)
    tables = tables.select(
        "catalog", f.expr(rows.KEY).alias("key"), f.col("location").alias("live_location"), "properties"
    )
    desired = [catalog.desired for catalog in manifest.catalogs.values()]
    joined = desired_tables(spark, desired).join(tables, ["catalog", "key"], "full_outer")
    mixed = [catalog for catalog in catalogs.values() if catalog.has_foreign]
    if mixed:
        foreign = _read_foreign(spark, live, mixed, coverage, stack)
    else:
        foreign = spark.createDataFrame([], spark_schema(FOREIGN_TABLES))
    joined = joined.join(foreign, ["catalog", "key"], "full_outer")
    most = coverage.tables + sum(len(catalog.tables) for catalog in desired)
    # Said outright, as Spark does not put the many small parts of a join together where the result is kept.
    return joined.select(*ENTRIES.names).repartition(row_tasks(most)), coverage


def _read(spark: SparkSession, catalogs: Mapping[str, CatalogInfo], coverage: Coverage, stack: ExitStack) -> DataFrame:
    from pyspark.sql import functions as f

    with stage(spark, f"Reading {count(len(catalogs), 'catalog')}") as running:
        live = persisted(live_rows(spark, [catalog.spec for catalog in catalogs.values()]), stack)
        for row in live.groupBy("catalog", "kind").count().collect():
            if row["kind"] == rows.NAMESPACE:
                coverage.namespaces[row["catalog"]] = row["count"]
            elif row["kind"] == rows.TABLE:
                coverage.tables += row["count"]
        running.note(count(coverage.tables, "table"))
        unread = live.filter((f.col("kind") == rows.COVERAGE) & f.col("message").isNotNull())
        coverage.unread += _failures(unread.select("catalog", "namespace", "message"))
        notes = live.filter(f.col("kind") == rows.NOTE).select("catalog", "message").distinct()
        coverage.notes += sorted(f"{row['catalog']}: {row['message']}" for row in notes.collect())
    for catalog in catalogs.values():
        if catalog.problem is not None:
            coverage.failures.append(Failure(catalog=catalog.name, message=catalog.problem))
    return live


def _read_foreign(
    spark: SparkSession, live: DataFrame, catalogs: Collection[CatalogInfo], coverage: Coverage, stack: ExitStack
) -> DataFrame:
    """Return the tables of other kinds in the namespaces that were read."""
    from pyspark.sql import functions as f

    with stage(spark, f"Reading tables of other kinds in {count(len(catalogs), 'catalog')}") as running:
        is_read = (f.col("kind") == rows.COVERAGE) & f.col("message").isNull()
        namespaces = live.filter(is_read & f.col("catalog").isin([catalog.name for catalog in catalogs]))
        namespaces = namespaces.select("catalog", "namespace").distinct()
        asked = namespaces.repartition(probe_tasks(namespaces.count()))
        found = persisted(foreign_rows(spark, asked, [catalog.spec for catalog in catalogs]), stack)
        tables = found.filter(f.col("error").isNull())
        number = tables.count()
        coverage.tables += number
        running.note(count(number, "table"))
        unread = found.filter(f.col("error").isNotNull())
        coverage.unread += _failures(unread.select("catalog", "namespace", "error"))
    return tables.select(*FOREIGN_TABLES.names)


def _failures(unread: DataFrame) -> list[Failure]:
    """Return a failure for each namespace in ``unread``, which has its catalog, itself and the reason."""
    found = {(catalog, tuple(namespace)): message for catalog, namespace, message in unread.collect()}
    return [
        Failure(catalog=catalog, namespace=namespace, message=found[catalog, namespace])
        for catalog, namespace in sorted(found)
    ]
