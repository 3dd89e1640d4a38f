"""What manifest and catalogs say of each table, and how much of the catalogs could be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.display import count
from reconciler.names import Identifier
from reconciler.pipeline import rows
from reconciler.pipeline.catalog_info import Ground
from reconciler.pipeline.foreign import foreign_rows
from reconciler.pipeline.packs import look_tasks, row_tasks
from reconciler.pipeline.progress import stage
from reconciler.pipeline.report.document import Failure
from reconciler.pipeline.source import live_rows
from reconciler.pipeline.wanted import wanted_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reconciler.manifest import Manifest

__all__ = ["ENTRY_COLUMNS", "Coverage", "kept", "read_entries"]

_FOREIGN_COLUMNS = "catalog string, key string, foreign_location string, foreign_format string"

ENTRY_COLUMNS = (
    "catalog string, key string, live_location string, properties map<string,string>, foreign_location string, "
    "foreign_format string, block binary"
)
"""What is said of a table.

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


def kept(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Return ``frame``, computed once and kept on the executors' disks until ``stack`` is closed."""
    from pyspark import StorageLevel

    persisted = frame.persist(StorageLevel.DISK_ONLY)
    stack.callback(persisted.unpersist)
    return persisted


def read_entries(
    spark: SparkSession, manifest: Manifest, grounds: Mapping[str, Ground], stack: ExitStack
) -> tuple[DataFrame, Coverage]:
    """Read the catalogs, each once, and return what is said of each table: a frame of ``ENTRY_COLUMNS``.

    Args:
        spark: the session to work in.
        manifest: whose blocks are joined with the entries.
        grounds: its catalogs by name.
        stack: what is kept is given back when it is closed.

    Raises:
        LancensError: a catalog cannot be read by other processes.
    """
    from pyspark.sql import functions as f

    coverage = Coverage()
    live = _read(spark, grounds, coverage, stack)
    tables = live.filter(f.col("kind") == rows.TABLE)
    tables = tables.select(
        "catalog", f.expr(rows.KEY).alias("key"), f.col("location").alias("live_location"), "properties"
    )
    desired = [catalog.desired for catalog in manifest.catalogs.values()]
    joined = wanted_tables(spark, desired).join(tables, ["catalog", "key"], "full_outer")
    mixed = [ground for ground in grounds.values() if ground.has_foreign]
    foreign = (
        _read_foreign(spark, live, mixed, coverage, stack) if mixed else spark.createDataFrame([], _FOREIGN_COLUMNS)
    )
    joined = joined.join(foreign, ["catalog", "key"], "full_outer")
    columns = [column.split()[0] for column in ENTRY_COLUMNS.split(", ")]
    most = coverage.tables + sum(len(catalog.tables) for catalog in desired)
    # Said outright, as Spark does not put the many small parts of a join together where the result is kept.
    return joined.select(*columns).repartition(row_tasks(most)), coverage


def _read(spark: SparkSession, grounds: Mapping[str, Ground], coverage: Coverage, stack: ExitStack) -> DataFrame:
    from pyspark.sql import functions as f

    with stage(spark, f"Reading {count(len(grounds), 'catalog')}") as running:
        live = kept(live_rows(spark, [ground.spec for ground in grounds.values()]), stack)
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
    for ground in grounds.values():
        if ground.problem is not None:
            coverage.failures.append(Failure(catalog=ground.name, message=ground.problem))
    return live


def _read_foreign(
    spark: SparkSession, live: DataFrame, grounds: Collection[Ground], coverage: Coverage, stack: ExitStack
) -> DataFrame:
    """Return the tables of other kinds in the namespaces that were read."""
    from pyspark.sql import functions as f

    with stage(spark, f"Reading tables of other kinds in {count(len(grounds), 'catalog')}") as running:
        is_read = (f.col("kind") == rows.COVERAGE) & f.col("message").isNull()
        namespaces = live.filter(is_read & f.col("catalog").isin([ground.name for ground in grounds]))
        namespaces = namespaces.select("catalog", "namespace").distinct()
        asked = namespaces.repartition(look_tasks(namespaces.count()))
        found = kept(foreign_rows(spark, asked, [ground.spec for ground in grounds]), stack)
        tables = found.filter(f.col("error").isNull())
        number = tables.count()
        coverage.tables += number
        running.note(count(number, "table"))
        unread = found.filter(f.col("error").isNotNull())
        coverage.unread += _failures(unread.select("catalog", "namespace", "error"))
    return tables.select("catalog", "key", "foreign_location", "foreign_format")


def _failures(unread: DataFrame) -> list[Failure]:
    """Return a failure for each namespace in ``unread``, which has its catalog, itself and the reason."""
    found = {(catalog, tuple(namespace)): message for catalog, namespace, message in unread.collect()}
    return [
        Failure(catalog=catalog, namespace=namespace, message=found[catalog, namespace])
        for catalog, namespace in sorted(found)
    ]
