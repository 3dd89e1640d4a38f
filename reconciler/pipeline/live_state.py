"""The live state of catalogs, kept on the executors; the driver fetches what it needs of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler import storage
from reconciler.display import count
from reconciler.errors import CatalogError
from reconciler.names import Identifier, Scope, folded, join
from reconciler.pipeline import rows
from reconciler.pipeline.progress import stage
from reconciler.pipeline.schemas import STRINGS, Row, spark_schema, with_columns
from reconciler.pipeline.source import live_rows
from reconciler.planner.live_tables import TablesInMemory
from reconciler.state import LiveTable, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import Row as SparkRow

    from reconciler.operations.connections import CatalogSpec

__all__ = ["LiveState", "Lookup", "TablesOnSpark"]

_KEYS = pa.schema([("keys", STRINGS)])


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which live tables the driver has to know: by identifier, by place, or by folded identifier."""

    names: frozenset[Identifier]
    places: frozenset[str]
    folded: frozenset[Identifier]


class LiveState:
    """The live state of several catalogs: namespaces and notes here, tables on the executors' disks.

    A context manager; the tables are given up at the end of the block.
    """

    def __init__(self, spark: SparkSession, specs: Sequence[CatalogSpec]) -> None:
        from pyspark import StorageLevel

        self._spark = spark
        self._rows = live_rows(spark, specs).persist(StorageLevel.DISK_ONLY)
        self._others: list[SparkRow] = []
        self.table_count = 0

    def __enter__(self) -> LiveState:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.unpersist()

    @property
    def tables(self) -> DataFrame:
        """The rows of the tables."""
        return self._rows.filter(self._rows.kind == rows.TABLE)

    def read(self, what: str) -> None:
        """Read everything; ``what`` says on the terminal what that is.

        Raises:
            CatalogError: something could not be read.
        """
        with stage(self._spark, f"Reading {what}") as progress:
            self._others = self._rows.filter(self._rows.kind != rows.TABLE).collect()
            coverage = [row for row in self._others if row["kind"] == rows.COVERAGE]
            self.table_count = sum(row["tables"] for row in coverage)
            progress.note(count(self.table_count, "table"))
        failed = [row for row in coverage if row["message"] is not None]
        if failed:
            first = min(failed, key=lambda row: (row["catalog"], row["namespace"]))
            raise CatalogError(first["message"], first["code"])

    def snapshot(self, catalog: str) -> Snapshot:
        """Return the namespaces and notes of a catalog; its tables are not in it."""
        own = [row for row in self._others if row["catalog"] == catalog]
        namespaces = [rows.namespace_of(row.asDict()) for row in own if row["kind"] == rows.NAMESPACE]
        notes = {row["message"] for row in own if row["kind"] == rows.NOTE}
        return Snapshot({found.id: found for found in namespaces}, notes=tuple(sorted(notes)))

    def tables_of(self, catalog: str) -> Mapping[Identifier, LiveTable]:
        """Return all tables of a catalog."""
        own = self.tables.filter(self._rows.catalog == catalog).toLocalIterator()
        return {table.id: table for table in (rows.table_of(row.asDict()) for row in own)}

    def any_in(self, catalog: str, scope: Scope) -> bool:
        """Return whether ``scope`` contains a table of the catalog."""

        def inside(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.filter(pa.array([scope.contains(rows.table_of(row).id) for row in batch.to_pylist()]))

        own = self.tables.filter(self._rows.catalog == catalog)
        return not own.mapInArrow(inside, spark_schema(rows.ROWS)).limit(1).isEmpty()

    def find(self, lookups: Mapping[str, Lookup]) -> Mapping[str, list[LiveTable]]:
        """Return, for each catalog, the tables that ``lookups`` asks for."""
        from pyspark.sql import functions as f

        keys = [
            (catalog, key)
            for catalog, asked in lookups.items()
            for key in sorted(
                {*map(join, asked.names), *map(_place_key, asked.places), *map(_folded_key, asked.folded)}
            )
        ]
        found: dict[str, list[LiveTable]] = {catalog: [] for catalog in lookups}
        if keys:
            columns = {"catalog": [catalog for catalog, _ in keys], "key": [key for _, key in keys]}
            asked_for = self._spark.createDataFrame(pa.table(columns))
            tables = with_columns(self.tables, _KEYS, _keys).withColumn("key", f.explode("keys"))
            for row in tables.join(asked_for, ["catalog", "key"], "left_semi").collect():
                found[row["catalog"]].append(rows.table_of(row.asDict()))
        return found


@dataclass(frozen=True, slots=True)
class TablesOnSpark:
    """The live tables of one catalog (see ``planner.live_tables``).

    ``counts`` says how many there are in each namespace; ``found`` are those of them the driver has to know.
    """

    live: LiveState
    catalog: str
    counts: Mapping[Identifier, int]
    found: TablesInMemory

    def count_in(self, namespaces: Collection[Identifier]) -> Mapping[Identifier, int]:
        """Return how many tables are directly in each of ``namespaces``."""
        return {namespace: self.counts.get(namespace, 0) for namespace in namespaces}

    def named(self, identifiers: Collection[Identifier]) -> Iterable[LiveTable]:
        """Return the tables among ``identifiers``."""
        return self.found.named(identifiers)

    def at(self, places: Collection[str]) -> Iterable[LiveTable]:
        """Return the tables whose location is one of ``places``."""
        return self.found.at(places)

    def any_in(self, scope: Scope) -> bool:
        """Return whether ``scope`` contains a table."""
        return self.live.any_in(self.catalog, scope)


def _place_key(place: str) -> str:
    # No identifier begins like this, as no name is empty.
    return join(("", place))


def _folded_key(identifier: Identifier) -> str:
    return join(("", "", *identifier))


def _keys(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the keys of each table: those of its name, as it is and folded, and that of its place."""
    for table in map(rows.table_of, batch.to_pylist()):
        place = _place_key(storage.place_of(table.location))
        yield {"keys": [join(table.id), place, _folded_key(folded(table.id))]}
