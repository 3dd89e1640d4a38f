"""Read the entries that an audit checks, and relate their locations."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.records import OWNER
from reconciler.model import locations
from reconciler.model.desired import DesiredTable
from reconciler.model.display import count
from reconciler.model.live import LiveNamespace
from reconciler.model.names import Identifier, address, join
from reconciler.spark import rows
from reconciler.spark.progress import stage
from reconciler.spark.reading import read_unit
from reconciler.spark.schemas import STRING, STRINGS, Row, record_batch, record_batches, spark_schema
from reconciler.spark.tasks import batched, each_unit, row_tasks, unbatched
from reconciler.spark.units import Unit, list_units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        ("above", STRINGS),
        ("claimed", STRING),
    ]
)
"""A table in the manifest or a catalog.

``key`` is its string identifier, ``block`` the manifest's pickled block, ``live`` the fields ``rows.LIVE`` of a live
table. ``foreign_location`` and ``foreign_format`` are those of a table of another format; a table that is marked as a
Lance table and is of the wrong type has both. ``location`` is the live one, else the foreign one, else that of the
block; ``claimed`` is the same normalised and with symbolic links resolved. ``scheme``, ``place`` (like ``claimed``) and
``above``, the directories around the place, are null except for a live Lance table with a location.
"""

MOST_NAMED = 5
"""How many of the related tables of a table are named."""

_READ = pa.unify_schemas([rows.ROWS, ENTRIES])
"""An entry, whose kind is ``TABLE``, or one of the other ``rows.ROWS``."""


# ---- functions over Arrow batches, for any process -------------------------------------------------------------------


def unit_entries(unit: Unit, last_attempt: bool) -> Iterator[pa.RecordBatch]:
    """Yield the content of a unit as ``_READ``."""
    found = read_unit(unit, last_attempt=last_attempt, foreign=True)
    return record_batches(
        (_live_entry(row) if row["kind"] in (rows.TABLE, rows.FOREIGN) else row for row in found), _READ
    )


def block_entries(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield an entry for each pair of a catalog and a block in ``batches``."""
    for blocks in unbatched(batches):
        yield record_batch((_block_entry(catalog, block) for catalog, block in blocks), ENTRIES)


def merge_entries(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one entry for each table; ``batches`` must hold all entries of it.

    A live Lance table takes precedence over a table of another format, and that over the block.
    """
    said = [row for batch in batches for row in batch.to_pylist()]
    said.sort(key=lambda row: (row["live"] is not None, row["foreign_format"] is not None))
    entries: defaultdict[tuple[str, str], Row] = defaultdict(dict)
    for row in said:
        entries[row["catalog"], row["key"]] |= {name: value for name, value in row.items() if value is not None}
    return record_batches(entries.values(), ENTRIES)


def _live_entry(row: Row) -> Row:
    location, identifier = row["location"], (*row["namespace"], row["name"])
    place = storage.place_of(location) if location else None
    entry = {**_named(row["catalog"], identifier), "kind": rows.TABLE, "location": location, "claimed": place}
    if row["kind"] == rows.FOREIGN:
        return {**entry, "foreign_location": location, "foreign_format": row["format"]}
    if place is not None:
        entry |= {"scheme": locations.scheme(location), "place": place, "above": directories_above(place)}
    return {**entry, "live": {name: row[name] for name in rows.LIVE.names}}


def _block_entry(catalog: str, block: DesiredTable) -> Row:
    place = None if block.location is None else storage.place_of(block.location)
    named = _named(catalog, block.id)
    return {**named, "block": pickle.dumps(block), "location": block.location, "claimed": place}


def _named(catalog: str, identifier: Identifier) -> Row:
    return {"catalog": catalog, "key": join(identifier), "address": address(catalog, identifier)}


def directories_above(place: str) -> list[str]:
    """Return the directories around a normalised location, the outermost first."""
    names = place.split("/")
    return ["/".join(names[:depth]) or "/" for depth in range(1, len(names))] if place != "/" else []


# ---- on Spark --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Coverage:
    """How much could be read.

    Args:
        namespaces: the number of namespaces in each catalog.
        unread: the namespaces that could not be read.
        failures: other parts of catalogs that could not be read.
        notes: the notes of the catalogs, and on what was not searched.
        tables: the number of tables of any format.
        teams: the owners of each catalog's namespaces, where they name one.
        places: the directories of each catalog's namespaces, where they name one.
    """

    namespaces: dict[str, int] = field(default_factory=dict)
    unread: list[rows.ReadFailure] = field(default_factory=list)
    failures: list[rows.ReadFailure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: int = 0
    teams: dict[str, dict[Identifier, str]] = field(default_factory=dict)
    places: dict[str, dict[Identifier, str]] = field(default_factory=dict)

    def add_namespace(self, catalog: CatalogInfo, namespace: LiveNamespace) -> None:
        """Count a namespace, and keep its owner and its directory."""
        name = catalog.name
        self.namespaces[name] = self.namespaces.get(name, 0) + 1
        if owner := namespace.properties.get(OWNER):
            self.teams.setdefault(name, {})[namespace.id] = owner
        for place in filter(None, (namespace.root, *map(namespace.properties.get, catalog.root_keys))):
            self.places.setdefault(name, {})[namespace.id] = place

    def unread_in(self) -> Mapping[str, frozenset[Identifier]]:
        """Return the namespaces of each catalog that could not be read."""
        found: defaultdict[str, set[Identifier]] = defaultdict(set)
        for failure in self.unread:
            found[failure.catalog].add(failure.namespace)
        return {catalog: frozenset(namespaces) for catalog, namespaces in found.items()}


def persisted(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Return ``frame``, kept on the executors' disks until ``stack`` closes."""
    from pyspark import StorageLevel

    found = frame.persist(StorageLevel.DISK_ONLY)
    stack.callback(found.unpersist)
    return found


def read_entries(
    spark: SparkSession, manifest: Manifest, catalogs: Mapping[str, CatalogInfo], stack: ExitStack
) -> tuple[DataFrame, Coverage]:
    """Read each catalog once, and return ``ENTRIES`` and the coverage.

    Args:
        spark: the session to work in.
        manifest: its blocks are merged with the entries.
        catalogs: its catalogs by name.
        stack: frames are released when it closes.

    Raises:
        LancensError: a catalog cannot be read by other processes.
    """
    coverage = Coverage()
    read = _read(spark, catalogs, coverage, stack)
    blocks = [(name, block) for name, catalog in manifest.catalogs.items() for block in catalog.desired.tables.values()]
    wanted = batched(spark, blocks).mapInArrow(block_entries, spark_schema(ENTRIES))
    said = read.filter(read["kind"] == rows.TABLE).select(*ENTRIES.names).union(wanted)
    together = said.repartition(row_tasks(coverage.tables + len(blocks)), "catalog", "key")
    return together.mapInArrow(merge_entries, spark_schema(ENTRIES)), coverage


def _read(spark: SparkSession, catalogs: Mapping[str, CatalogInfo], coverage: Coverage, stack: ExitStack) -> DataFrame:
    """Return the content of the catalogs as ``_READ``, and add to ``coverage``."""
    with stage(spark, f"Reading {count(len(catalogs), 'catalog')}") as running:
        units = list_units([catalog.spec for catalog in catalogs.values()])
        read = persisted(each_unit(spark, units, unit_entries, _READ), stack)
        others = read.filter(read["kind"] != rows.TABLE).select(*rows.ROWS.names).collect()
        for row in others:
            if row["kind"] == rows.NAMESPACE:
                coverage.add_namespace(catalogs[row["catalog"]], rows.namespace_of(row.asDict()))
        covered = [row.asDict() for row in others if row["kind"] == rows.COVERAGE]
        coverage.tables = sum(row["tables"] for row in covered)
        coverage.unread = rows.failures_in(covered)
        coverage.notes += sorted({f"{row['catalog']}: {row['message']}" for row in others if row["kind"] == rows.NOTE})
        running.note(count(coverage.tables, "table"))
    for catalog in catalogs.values():
        if catalog.problem is not None:
            coverage.failures.append(rows.ReadFailure(catalog=catalog.name, message=catalog.problem))
    return read


def with_relations(tables: DataFrame) -> DataFrame:
    """Return ``tables`` with the tables at the same place and around it.

    It adds ``sharing``, ``schemes`` and ``inside`` as in a ``TableRecord``, null for none; ``sharing`` may also name
    the table itself. It needs ``address``, ``scheme``, ``place`` and ``above`` of ``ENTRIES``.

    A table is inside another one whose place is one of the directories above it. Tables in one directory have the same
    directories above, so these are joined once for each directory.
    """
    from pyspark.sql import functions as f

    placed = tables.filter(f.col("place").isNotNull())
    places = placed.groupBy("place").agg(
        f.count("*").alias("number"),
        f.slice(f.array_sort(f.collect_list("address")), 1, MOST_NAMED + 1).alias("sharing"),
        f.array_sort(f.collect_set("scheme")).alias("schemes"),
    )
    shared = places.filter(f.col("number") > 1).select("place", "sharing", "schemes")
    outer = placed.select("above").distinct().select("above", f.explode("above").alias("place"))
    found = outer.join(places.select("place", f.col("sharing").alias("found")), "place")
    inside = found.groupBy("above").agg(
        f.slice(f.array_sort(f.flatten(f.collect_list("found"))), 1, MOST_NAMED).alias("inside")
    )
    return tables.join(shared, "place", "left").join(inside, "above", "left").drop("above")
