"""The entries that an audit checks: each table in the manifest or a catalog, and how much could be read."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.desired import DESIRED_TABLES, desired_tables
from reconciler.auditor.records import OWNER
from reconciler.model import locations
from reconciler.model.desired import DesiredCatalog, DesiredTable
from reconciler.model.display import count
from reconciler.model.live import LiveNamespace
from reconciler.model.names import DELIMITER, Identifier
from reconciler.spark import rows
from reconciler.spark.batches import probe_tasks, row_tasks
from reconciler.spark.foreign import FOREIGN_TABLES, foreign_rows
from reconciler.spark.progress import stage
from reconciler.spark.read_failure import ReadFailure
from reconciler.spark.schemas import STRING, Row, record_batches, spark_type, with_columns
from reconciler.spark.source import each_unit
from reconciler.spark.units import list_units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import Row as SparkRow

    from reconciler.manifest import Manifest


ENTRIES = pa.schema(
    [
        ("catalog", STRING),
        ("key", STRING),
        ("address", STRING),
        ("live", pa.struct(list(rows.LIVE))),
        ("foreign_location", STRING),
        ("foreign_format", STRING),
        ("block", pa.binary()),
        ("location", STRING),
        ("scheme", STRING),
        ("place", STRING),
        ("claimed", STRING),
    ]
)
"""What the manifest and the catalogs say of a table.

``key`` is its string identifier, ``block`` the manifest's pickled block, ``live`` what the entry of a live table says,
with the columns of ``rows.LIVE``. The location of a table of another kind is in ``foreign_location``; one that is
marked as a Lance table and is of the wrong type has both. ``location`` is that as far as anybody says, and ``claimed``
the same normalised, wherever symbolic links lead; ``scheme`` and ``place`` (like ``claimed``) are null for what is not
a live Lance table at a place.
"""

_PLACE = [("scheme", STRING), ("place", STRING)]
_LIVE = pa.schema([*rows.ROWS, *_PLACE])
_BLOCKS = pa.schema([*DESIRED_TABLES, ("wanted", STRING), ("wanted_place", STRING)])


@dataclass(slots=True)
class Coverage:
    """What could be read.

    Args:
        namespaces: how many were found in each catalog.
        unread: those that could not be read.
        failures: what else could not be.
        notes: sentences about the catalogs, and about what was not looked for.
        tables: how many were read, those of other kinds included.
        teams: who answers for a catalog's namespaces, of those that say so.
        places: the catalog and the identifier of each namespace that says where its tables go, and that place.
    """

    namespaces: dict[str, int] = field(default_factory=dict)
    unread: list[ReadFailure] = field(default_factory=list)
    failures: list[ReadFailure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: int = 0
    teams: dict[str, dict[Identifier, str]] = field(default_factory=dict)
    places: list[tuple[str, Identifier, str]] = field(default_factory=list)

    def add_namespace(self, catalog: CatalogInfo, namespace: LiveNamespace) -> None:
        """Count a namespace, and keep what it says of those in it."""
        name = catalog.name
        self.namespaces[name] = self.namespaces.get(name, 0) + 1
        if owner := namespace.properties.get(OWNER):
            self.teams.setdefault(name, {})[namespace.id] = owner
        said = (namespace.root, *map(namespace.properties.get, catalog.root_keys))
        self.places += [(name, namespace.id, place) for place in said if place]

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
    entries = live.filter(f.col("kind") == rows.TABLE)
    named = [f.expr(rows.KEY).alias("key"), f.struct(*rows.LIVE.names).alias("live")]
    entries = entries.select("catalog", *named, *_names(_PLACE))
    desired = [catalog.desired for catalog in manifest.catalogs.values()]
    number = sum(len(catalog.tables) for catalog in desired)
    # What there is none of is not joined: a join costs more than a handful of tables.
    entries = _joined(entries, _blocks(spark, desired) if number else None, _BLOCKS)
    mixed = [catalog for catalog in catalogs.values() if catalog.has_foreign]
    foreign = _read_foreign(spark, live, mixed, coverage, stack) if mixed else None
    entries = _joined(entries, foreign, FOREIGN_TABLES)
    entries = entries.withColumn("address", f.concat_ws("/", "catalog", f.expr(f"replace(key, '{DELIMITER}', '/')")))
    entries = entries.withColumn("location", f.coalesce("live.location", "foreign_location", "wanted"))
    entries = entries.withColumn("claimed", f.coalesce("place", "foreign_place", "wanted_place"))
    # Said outright, as Spark does not put the many small parts of a join together where the result is kept.
    return entries.select(*ENTRIES.names).repartition(row_tasks(coverage.tables + number)), coverage


def _joined(entries: DataFrame, more: DataFrame | None, schema: pa.Schema) -> DataFrame:
    """Return ``entries`` with the columns of ``more``, matched by catalog and key; null where there is none."""
    from pyspark.sql import functions as f

    if more is not None:
        return entries.join(more, ["catalog", "key"], "full_outer")
    added = pa.schema([one for one in schema if one.name not in ("catalog", "key")])
    return entries.withColumns({one.name: f.lit(None).cast(spark_type(one.type)) for one in added})


def _names(columns: Iterable[tuple[str, pa.DataType]]) -> list[str]:
    return [name for name, _ in columns]


def _blocks(spark: SparkSession, desired: Iterable[DesiredCatalog]) -> DataFrame:
    """Return the blocks of the manifest with where they say their tables are."""

    def places(batch: pa.RecordBatch) -> Iterator[Row]:
        for pickled in batch.column("block").to_pylist():
            block: DesiredTable = pickle.loads(pickled)  # noqa: S301 - our own
            place = None if block.location is None else storage.place_of(block.location)
            yield {"wanted": block.location, "wanted_place": place}

    return with_columns(desired_tables(spark, desired), pa.schema([_BLOCKS.field(-2), _BLOCKS.field(-1)]), places)


def _placed(found: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """Yield what was read of a unit, with the place of each table."""
    return record_batches(({**row, **_place(row)} if row["kind"] == rows.TABLE else row for row in found), _LIVE)


def _place(row: Row) -> Row:
    location = row["location"]
    return {"scheme": locations.scheme(location), "place": storage.place_of(location)} if location else {}


def _read(spark: SparkSession, catalogs: Mapping[str, CatalogInfo], coverage: Coverage, stack: ExitStack) -> DataFrame:
    from pyspark.sql import functions as f

    with stage(spark, f"Reading {count(len(catalogs), 'catalog')}") as running:
        units = list_units([catalog.spec for catalog in catalogs.values()])
        live = persisted(each_unit(spark, units, _placed, _LIVE), stack)
        others = live.filter(f.col("kind") != rows.TABLE).drop(*_names(_PLACE)).collect() if units else []
        for row in others:
            catalog = row["catalog"]
            if row["kind"] == rows.NAMESPACE:
                coverage.add_namespace(catalogs[catalog], rows.namespace_of(row.asDict()))
            elif row["kind"] == rows.COVERAGE and row["message"] is None:
                coverage.tables += row["tables"]
        coverage.unread += _failures(row for row in others if row["kind"] == rows.COVERAGE and row["message"])
        coverage.notes += sorted({f"{row['catalog']}: {row['message']}" for row in others if row["kind"] == rows.NOTE})
        running.note(count(coverage.tables, "table"))
    for catalog in catalogs.values():
        if catalog.problem is not None:
            coverage.failures.append(ReadFailure(catalog=catalog.name, message=catalog.problem))
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
        coverage.unread += _failures(unread.selectExpr("catalog", "namespace", "error as message").collect())
    return tables.select(*FOREIGN_TABLES.names)


def _failures(unread: Iterable[SparkRow]) -> list[ReadFailure]:
    """Return a failure for each namespace in ``unread``, which have its catalog, itself and the reason."""
    found = {(row["catalog"], tuple(row["namespace"])): row["message"] for row in unread}
    return [
        ReadFailure(catalog=catalog, namespace=namespace, message=found[catalog, namespace])
        for catalog, namespace in sorted(found)
    ]
