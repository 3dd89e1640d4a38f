"""Read the entries that an audit checks, and relate their locations."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.probe_cache import LOOK, ProbeCache
from reconciler.auditor.records import FEW_TABLES, OWNER
from reconciler.model import locations
from reconciler.model.desired import DesiredTable
from reconciler.model.display import count
from reconciler.model.live import LiveNamespace
from reconciler.model.names import Identifier, address, join
from reconciler.pipeline import rows
from reconciler.pipeline.frames import frame_of, frame_of_units
from reconciler.pipeline.progress import stage
from reconciler.pipeline.reading import read_unit
from reconciler.pipeline.schemas import STRING, STRINGS, Row, chunks, record_batch, record_batches
from reconciler.pipeline.session import SparkOptions, spark_session, starts_jvm
from reconciler.pipeline.tasks import batched, row_tasks, unbatched
from reconciler.pipeline.units import Unit, list_units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest
    from reconciler.pipeline.frames import Frame


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
        ("directory", STRING),
        ("data_place", STRING),
        LOOK,
    ]
)
"""The schema of an entry: a table in the manifest, a catalog or both.

- ``key`` is its identifier as text, ``block`` the manifest's pickled block, ``look`` an earlier probe result.
- ``live`` holds the fields ``rows.LIVE`` of a live table. ``foreign_location`` and ``foreign_format`` are those of a
  table of another format; a table that is marked as a Lance table and is of the wrong type has all three.
- ``location`` is the live one, else the foreign one, else that of the block. ``data_place`` is its place: the location
  normalised and with symbolic links followed.
- ``scheme``, ``place`` and ``directory``, the parent of the place, are null except for a live Lance table with a
  location. With ``s3+ddb``, ``place`` names the lock as well, and ``data_place`` does not.
"""

_FEW_UNITS = 32
"""The most units that this process reads before it knows how many tables they hold."""

_ROWS_AT_ONCE = 4_096

MOST_NAMED = 5
"""The most tables to name: those around a table, and those of each catalog at its place."""

_CATALOG_CONTENT = pa.unify_schemas([rows.ROWS, ENTRIES])
"""The schema of an entry, whose kind is ``TABLE``, or of one of the other ``rows.ROWS``."""

_PLACED = pa.schema([(name, STRING) for name in ("place", "address", "scheme", "table_directory")])
"""The schema of a table at ``place``, or of a ``table_directory``, which holds tables, at or below ``place``."""

_AT_PLACE = pa.schema([("place", STRING), ("sharing", STRINGS), ("schemes", STRINGS), ("table_directory", STRING)])
"""The schema of the tables at ``place``.

If ``table_directory`` is empty, they share the place; else the tables in that directory are inside of them.
"""

_INSIDE = pa.schema([("directory", STRING), ("inside", STRINGS)])
"""The schema of the tables that all tables of ``directory`` are inside of."""


# ---- functions over Arrow batches, for any process -------------------------------------------------------------------


def unit_entries(unit: Unit, last_attempt: bool) -> Iterator[pa.RecordBatch]:
    """Read a unit of a catalog, and yield its content as ``_CATALOG_CONTENT``."""
    for chunk in chunks(read_unit(unit, last_attempt=last_attempt, foreign=True), _ROWS_AT_ONCE):
        tables = [row for row in chunk if row["kind"] in (rows.TABLE, rows.FOREIGN)]
        other_rows = (row for row in chunk if row["kind"] not in (rows.TABLE, rows.FOREIGN))
        places = storage.resolve_locations([row["location"] or "" for row in tables])
        yield record_batch(chain(map(_live_entry, tables, places), other_rows), _CATALOG_CONTENT)


def block_entries(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield an entry for each pair of a catalog's name and a block in ``batches``."""
    for blocks in unbatched(batches):
        yield record_batch((_block_entry(catalog, block) for catalog, block in blocks), ENTRIES)


def merge_entries(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one entry for each table, merged from its rows.

    ``batches`` must hold all rows of it. A live Lance table takes precedence over a table of another format, and that
    over the block. Of several looks the latest counts. A table that has nothing but looks is gone and has no entry.
    """
    parts = [row for batch in batches for row in batch.to_pylist()]
    parts.sort(key=lambda row: row["look"]["at"].timestamp() if row["look"] else 0)
    parts.sort(key=lambda row: (row["live"] is not None, row["foreign_format"] is not None))
    entries: defaultdict[tuple[str, str], Row] = defaultdict(dict)
    for row in parts:
        entries[row["catalog"], row["key"]] |= {name: value for name, value in row.items() if value is not None}
    return record_batches((entry for entry in entries.values() if "address" in entry), ENTRIES)


def _live_entry(row: Row, place: str) -> Row:
    location, identifier = row["location"], (*row["namespace"], row["name"])
    data_place = locations.objects_of(place) if location else None
    entry = {**_identity(row["catalog"], identifier), "kind": rows.TABLE, "location": location}
    entry["data_place"] = data_place
    if row["kind"] == rows.FOREIGN:
        return {**entry, "foreign_location": location, "foreign_format": row["format"]}
    if data_place is not None:
        entry |= {"scheme": locations.scheme(location), "place": place, "directory": directory_of(place)}
    return {**entry, "live": {name: row[name] for name in rows.LIVE.names}}


def _block_entry(catalog: str, block: DesiredTable) -> Row:
    data_place = None if block.location is None else locations.objects_of(storage.resolve_location(block.location))
    identity = _identity(catalog, block.id)
    return {**identity, "block": pickle.dumps(block), "location": block.location, "data_place": data_place}


def _identity(catalog: str, identifier: Identifier) -> Row:
    return {"catalog": catalog, "key": join(identifier), "address": address(catalog, identifier)}


def directory_of(place: str) -> str | None:
    """Return the parent directory of a normalised location.

    None for an outermost one.
    """
    parent, slash, name = place.rpartition("/")
    return (parent or "/") if slash and name else None


def placed_tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield ``_PLACED`` for each table and each directory above it.

    Tables without a ``place`` are left out. A directory is looked at once in ``batches``, however many tables it holds.
    """
    directories: set[str] = set()
    for batch in batches:
        placed: list[Row] = []
        for row in batch.to_pylist():
            if row["place"] is None:
                continue
            placed.append({name: row[name] for name in ("place", "address", "scheme")})
            table_directory = directory = row["directory"]
            if table_directory not in directories:
                directories.add(table_directory)
                while directory is not None:
                    placed.append({"place": directory, "table_directory": table_directory})
                    directory = directory_of(directory)
        yield record_batch(placed, _PLACED)


def tables_at_places(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield ``_AT_PLACE`` for tables that share a place or are inside others.

    ``batches`` must hold all ``_PLACED`` of a place.
    """
    tables: defaultdict[str, list[Row]] = defaultdict(list)
    pairs: set[tuple[str, str]] = set()
    for row in (row for batch in batches for row in batch.to_pylist()):
        if row["table_directory"] is None:
            tables[row["place"]].append(row)
        else:
            pairs.add((row["place"], row["table_directory"]))
    shared = {
        place: {
            "sharing": [*chain.from_iterable(_first_of_each_catalog(row["address"] for row in rows_at))],
            "schemes": sorted({row["scheme"] for row in rows_at}),
        }
        for place, rows_at in tables.items()
    }
    pairs |= {(place, "") for place, rows_at in tables.items() if len(rows_at) > 1}
    related = (
        {"place": place, "table_directory": directory, **shared[place]} for place, directory in pairs if place in shared
    )
    return record_batches(related, _AT_PLACE)


def _first_of_each_catalog(addresses: Iterable[str]) -> Iterator[Iterable[str]]:
    """Yield the first ``addresses`` of each catalog.

    The evaluator leaves out those of mirrors later.
    """
    for _, group in groupby(sorted(addresses), lambda address: address.partition("/")[0]):
        yield islice(group, MOST_NAMED + 1)


def tables_around(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield ``_INSIDE`` for each ``table_directory``.

    ``batches`` must hold all ``_AT_PLACE`` of it.
    """
    addresses: defaultdict[str, list[str]] = defaultdict(list)
    for row in (row for batch in batches for row in batch.to_pylist()):
        if row["table_directory"]:
            addresses[row["table_directory"]] += row["sharing"]
    inside = ({"directory": name, "inside": sorted(tables)[:MOST_NAMED]} for name, tables in addresses.items())
    return record_batches(inside, _INSIDE)


# ---- on frames -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Coverage:
    """What an audit has read of the catalogs, and what it could not read.

    Args:
        namespaces: the number of namespaces in each catalog.
        unread: the namespaces that could not be read.
        failures: other parts of catalogs, and directories, that could not be read.
        notes: the notes of the catalogs, and on where no orphans were searched for.
        tables: the number of tables of any format.
        teams: the owner of each namespace that names one, by catalog.
        directories: the directory of each namespace that names one, by catalog.
    """

    namespaces: dict[str, int] = field(default_factory=dict)
    unread: list[rows.ReadFailure] = field(default_factory=list)
    failures: list[rows.ReadFailure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: int = 0
    teams: dict[str, dict[Identifier, str]] = field(default_factory=dict)
    directories: dict[str, dict[Identifier, str]] = field(default_factory=dict)

    def add_namespace(self, catalog: CatalogInfo, namespace: LiveNamespace) -> None:
        """Count a namespace, and keep its owner and its directory."""
        name = catalog.name
        self.namespaces[name] = self.namespaces.get(name, 0) + 1
        if owner := namespace.properties.get(OWNER):
            self.teams.setdefault(name, {})[namespace.id] = owner
        for directory in filter(None, (namespace.root, *map(namespace.properties.get, catalog.root_keys))):
            self.directories.setdefault(name, {})[namespace.id] = directory

    def unread_in(self) -> Mapping[str, frozenset[Identifier]]:
        """Return the namespaces of each catalog that could not be read."""
        unread: defaultdict[str, set[Identifier]] = defaultdict(set)
        for failure in self.unread:
            unread[failure.catalog].add(failure.namespace)
        return {catalog: frozenset(namespaces) for catalog, namespaces in unread.items()}


def read_entries(
    engine: SparkSession | SparkOptions | None,
    manifest: Manifest,
    catalogs: Mapping[str, CatalogInfo],
    stack: ExitStack,
    cache: ProbeCache | None = None,
) -> tuple[SparkSession | None, Frame, Coverage]:
    """Read each catalog once, and return the session for the rest of the audit, the entries and the coverage.

    The frame has one row of ``ENTRIES`` for each table. The session is None if this process does the rest.

    Args:
        engine: the session to work in, or where to start Spark if the catalogs are not small; None for this process.
        manifest: its blocks are merged with the catalogs' entries.
        catalogs: its catalogs by name.
        stack: frames are released when it closes.
        cache: its probe results are merged with the entries, too.

    Raises:
        LancensError: a catalog cannot be read by other processes, or the cache cannot be read.
    """
    coverage = Coverage()
    blocks = [(name, block) for name, catalog in manifest.catalogs.items() for block in catalog.desired.tables.values()]
    spark, content = _read_catalogs(engine, catalogs, coverage, len(blocks), stack)
    block_rows = frame_of(spark, batched(blocks)).map(block_entries, ENTRIES)
    entries = content.where("kind", rows.TABLE).select(*ENTRIES.names).union(block_rows)
    if cache is not None:
        entries = entries.union(cache.entries(spark, ENTRIES))
    tasks = row_tasks(coverage.tables + len(blocks))
    return spark, entries.map(merge_entries, ENTRIES, tasks, ("catalog", "key")), coverage


def _read_catalogs(
    engine: SparkSession | SparkOptions | None,
    catalogs: Mapping[str, CatalogInfo],
    coverage: Coverage,
    declared: int,
    stack: ExitStack,
) -> tuple[SparkSession | None, Frame]:
    """Return the session to work in and the content of the catalogs, and add what was read to ``coverage``.

    Starting Spark takes longer than checking a few tables here, live or ``declared``, so it is started once there are
    more.
    """
    options = engine if isinstance(engine, SparkOptions) else None
    spark = None if isinstance(engine, SparkOptions) else engine
    if options is not None and not starts_jvm(options, local=True):
        spark = stack.enter_context(spark_session(options))
    with stage(spark, f"Reading {count(len(catalogs), 'catalog')}") as note:
        units = list_units([catalog.spec for catalog in catalogs.values()], in_process=engine is None)
        if options is not None and spark is None and (len(units) > _FEW_UNITS or declared > FEW_TABLES):
            spark = stack.enter_context(spark_session(options))
        content = frame_of_units(spark, units, unit_entries, _CATALOG_CONTENT).persisted(stack)
        other_rows = content.where("kind", rows.NAMESPACE, rows.COVERAGE, rows.NOTE).select(*rows.ROWS.names).rows()
        for row in other_rows:
            if row["kind"] == rows.NAMESPACE:
                coverage.add_namespace(catalogs[row["catalog"]], rows.namespace_of(row))
        covered = [row for row in other_rows if row["kind"] == rows.COVERAGE]
        coverage.tables = sum(row["tables"] for row in covered)
        coverage.unread = rows.failures_in(covered)
        coverage.notes += sorted(
            {f"{row['catalog']}: {row['message']}" for row in other_rows if row["kind"] == rows.NOTE}
        )
        note(count(coverage.tables, "table"))
        if options is not None and spark is None and coverage.tables <= FEW_TABLES:
            note("few enough to check without Spark")
    for catalog in catalogs.values():
        if catalog.problem is not None:
            coverage.failures.append(rows.ReadFailure(catalog=catalog.name, message=catalog.problem))
    if options is not None and spark is None and coverage.tables > FEW_TABLES:
        spark = stack.enter_context(spark_session(options))
        content = frame_of(spark, content.content).persisted(stack)
    return spark, content


def with_relations(tables: Frame, number: int) -> Frame:
    """Return ``tables`` with the tables at the same place and around it.

    The columns are ``sharing``, ``schemes`` and ``inside`` as in a ``TableRecord``, null for none; ``sharing`` may also
    name the table itself. They are computed from ``address``, ``scheme``, ``place`` and ``directory`` of ``ENTRIES``.

    A table is inside another one if that one's place is a directory above it. Tables in one directory have the same
    directories above, so these are looked up once for each directory.

    Args:
        tables: rows of ``ENTRIES``.
        number: about how many rows there are.
    """
    placed = tables.select("address", "scheme", "place", "directory").map(placed_tables, _PLACED)
    tasks = row_tasks(number)  # left to Spark, they are as few as its compressed rows allow
    related = placed.map(tables_at_places, _AT_PLACE, tasks, ("place",))
    shared = related.where("table_directory", "").select("place", "sharing", "schemes")
    inside = related.map(tables_around, _INSIDE, tasks, ("table_directory",))
    return tables.joined(shared, "place").joined(inside, "directory")
