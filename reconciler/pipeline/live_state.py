"""What was read of the catalogs, kept where it was read; what the driver needs of it comes when it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler import locations
from reconciler.display import count
from reconciler.errors import CatalogError
from reconciler.names import Identifier, Scope, join
from reconciler.pipeline import rows
from reconciler.pipeline.progress import stage
from reconciler.pipeline.source import live_rows
from reconciler.planner.live_tables import TablesInMemory
from reconciler.state import LiveTable, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from reconciler.pipeline.catalogs import CatalogSpec

__all__ = ["LiveState", "TablesOnSpark", "Wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which live tables the driver has to know: by identifier, or by where they are, normalised."""

    names: frozenset[Identifier]
    places: frozenset[str]


class LiveState:
    """The live state of several catalogs: namespaces and notes here, tables on the executors' disks.

    A context manager; the tables are given up at the end of the block.
    """

    def __init__(self, spark: SparkSession, specs: Sequence[CatalogSpec]) -> None:
        from pyspark import StorageLevel

        self._spark = spark
        self._rows = live_rows(spark, specs).persist(StorageLevel.DISK_ONLY)
        self._others: list[Row] = []
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

    def any_in(self, catalog: str, scope: Scope) -> bool:
        """Return whether ``scope`` contains a table of the catalog."""

        def inside(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            for batch in batches:
                yield batch.filter(pa.array([scope.contains(rows.table_of(row).id) for row in batch.to_pylist()]))

        own = self.tables.filter(self._rows.catalog == catalog)
        return not own.mapInArrow(inside, rows.spark_schema()).limit(1).isEmpty()

    def find(self, wanted: Mapping[str, Wanted]) -> Mapping[str, list[LiveTable]]:
        """Return, for each catalog, the tables that are ``wanted``."""
        import pyarrow as pa

        keys = [
            (catalog, key)
            for catalog, asked in wanted.items()
            for key in sorted({*map(join, asked.names), *map(_place_key, asked.places)})
        ]
        found: dict[str, list[LiveTable]] = {catalog: [] for catalog in wanted}
        if keys:
            columns = {"catalog": [catalog for catalog, _ in keys], "key": [key for _, key in keys]}
            asked_for = self._spark.createDataFrame(pa.table(columns))
            keyed = self.tables.mapInArrow(_keyed, f"{rows.spark_schema()}, key string")
            for row in keyed.join(asked_for, ["catalog", "key"], "left_semi").collect():
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

    def named(self, identifiers: Collection[Identifier]) -> Collection[Identifier]:
        """Return those of ``identifiers`` that are tables."""
        return self.found.named(identifiers)

    def at(self, places: Collection[str]) -> Iterable[LiveTable]:
        """Return the tables whose location, normalised, is one of ``places``."""
        return self.found.at(places)

    def any_in(self, scope: Scope) -> bool:
        """Return whether ``scope`` contains a table."""
        return self.live.any_in(self.catalog, scope)


def _place_key(place: str) -> str:
    # No identifier begins like this, as no name is empty.
    return join(("", place))


def _keyed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each table twice: with the key of its name, and with that of its place."""
    import pyarrow as pa

    for batch in batches:
        tables = [rows.table_of(row) for row in batch.to_pylist()]
        names = [join(table.id) for table in tables]
        places = [_place_key(locations.normalise(table.location)) for table in tables]
        for keys in (names, places):
            columns = [*batch.columns, pa.array(keys, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "key"])
