"""Run stages on frames of rows: on the executors of Spark, or in this process without it.

A stage is a function over Arrow batches. What surrounds it (selecting, grouping, joining, sorting) is here, once for
each of the two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import CatalogError
from reconciler.pipeline.schemas import Row, spark_schema
from reconciler.pipeline.tasks import each_unit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reconciler.pipeline.units import Unit


BatchFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
ReadUnit: TypeAlias = Callable[["Unit", bool], Iterator[pa.RecordBatch]]
Aggregates: TypeAlias = Mapping[str, Literal["count", "max", "sum"]]

_SERIALISED = pa.schema([("batch", pa.binary())])
_ATTEMPTS = 4
_UNITS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows of one schema, as an Arrow table in this process.

    Each operation returns another frame.
    """

    content: Any

    def select(self, *columns: str) -> Self:
        """Return the rows with these columns only."""
        return type(self)(self.content.select([*columns]))

    def where(self, column: str, *values: Any) -> Self:
        """Return the rows in which ``column`` has one of ``values``."""
        accepted = pa.array(values, self.content.schema.field(column).type)
        return type(self)(self.content.filter(pc.is_in(self.content[column], accepted)))

    def union(self, other: Self) -> Self:
        """Return the rows of both; they have the same columns."""
        return type(self)(pa.concat_tables([self.content, other.content]))

    def map(self, act: BatchFunction, schema: pa.Schema, tasks: int | None = None, keys: Collection[str] = ()) -> Self:
        """Return the rows that ``act`` yields, called once for each of about ``tasks`` shares of the rows.

        Rows with the same values of ``keys`` are in one share.
        """
        number = self.content.num_rows
        size = number if keys or tasks is None else -(-number // tasks)
        shares = (self.content.slice(start, size).to_batches() for start in range(0, number, size or 1))
        results = in_parallel(lambda share: list(act(share)), shares, os.cpu_count() or 1)
        return type(self)(_table(results, schema))

    def joined(self, other: Self, key: str) -> Self:
        """Return the rows with the columns of ``other`` for the same ``key``.

        They are null where it has no row. ``other`` has at most one row for each value of ``key``.
        """
        right, joined = other.content.combine_chunks(), self.content
        matches = right.drop_columns([key]).take(pc.index_in(joined[key], right[key], skip_nulls=True))
        for name in matches.column_names:
            joined = joined.append_column(matches.schema.field(name), matches[name])
        return type(self)(joined)

    def aggregated(self, keys: Sequence[str], aggregates: Aggregates) -> Self:
        """Return a row of ``aggregates`` for each combination of ``keys``."""
        groups = self.content.group_by(keys).aggregate([*aggregates.items()])
        ordered = groups.select([*keys, *(f"{column}_{name}" for column, name in aggregates.items())])
        return type(self)(ordered.rename_columns([*keys, *aggregates]))

    def first(self, number: int, *order: str) -> Self:
        """Return the first ``number`` rows in ascending order of the columns ``order``."""
        return type(self)(self.content.sort_by([(column, "ascending") for column in order]).slice(0, number))

    def persisted(self, _stack: ExitStack) -> Self:
        """Return the frame, computed once and kept until the stack closes; lost shares are computed again."""
        return self

    def cut(self, tasks: int | None = None) -> Self:
        """Return the frame, computed once, without the plan that led to it, in ``tasks`` shares if given.

        Use it for frames that build on each other: lost shares cannot be computed again.
        """
        return self

    def rows(self) -> list[Row]:
        """Return the rows in this process, as ``to_pylist`` gives them."""
        return list(self.content.to_pylist())


class _SparkFrame(Frame):
    """A frame of Spark's; nothing is computed before the rows are needed."""

    __slots__ = ()
    content: DataFrame

    def where(self, column: str, *values: Any) -> Self:
        return type(self)(self.content.filter(self.content[column].isin(*values)))

    def union(self, other: Self) -> Self:
        return type(self)(self.content.union(other.content))

    def map(self, act: BatchFunction, schema: pa.Schema, tasks: int | None = None, keys: Collection[str] = ()) -> Self:
        shares: list[Any] = [*([] if tasks is None else [tasks]), *keys]
        frame = self.content.repartition(*shares) if shares else self.content
        return type(self)(frame.mapInArrow(act, spark_schema(schema)))

    def joined(self, other: Self, key: str) -> Self:
        return type(self)(self.content.join(other.content, key, "left"))

    def aggregated(self, keys: Sequence[str], aggregates: Aggregates) -> Self:
        from pyspark.sql import functions as f

        columns = (getattr(f, name)(column).alias(column) for column, name in aggregates.items())
        return type(self)(self.content.groupBy(*keys).agg(*columns))

    def first(self, number: int, *order: str) -> Self:
        return type(self)(self.content.orderBy(*order).limit(number))

    def persisted(self, stack: ExitStack) -> Self:
        from pyspark import StorageLevel

        frame = self.content.persist(StorageLevel.DISK_ONLY)
        stack.callback(frame.unpersist)
        return type(self)(frame)

    def cut(self, tasks: int | None = None) -> Self:
        frame = self.content if tasks is None else self.content.repartition(tasks)
        # Spark writes the plan of a persisted frame as text, twice: each level of a chain doubles it (PySpark 4.3).
        return type(self)(frame.localCheckpoint(eager=False))

    def rows(self) -> list[Row]:
        if _knows_arrow():
            return list(self.content.toArrow().to_pylist())
        serialised = self.content.mapInArrow(_serialised, spark_schema(_SERIALISED)).collect()
        return list(chain.from_iterable(pa.ipc.open_stream(row["batch"]).read_all().to_pylist() for row in serialised))


def frame_of(spark: SparkSession | None, table: pa.Table) -> Frame:
    """Return the rows of ``table``, on Spark if there is a session."""
    if spark is None:
        return Frame(table)
    if _knows_arrow():
        return _SparkFrame(spark.createDataFrame(table))
    serialised = [(batch["batch"][0].as_py(),) for batch in _serialised(table.to_batches())]
    frame = spark.createDataFrame(serialised, spark_schema(_SERIALISED))
    return _SparkFrame(frame.mapInArrow(_deserialised, spark_schema(table.schema)))


def frame_of_units(spark: SparkSession | None, units: Collection[Unit], read: ReadUnit, schema: pa.Schema) -> Frame:
    """Return the rows that ``read`` yields for each unit.

    ``read`` is called again for a unit that fails; its flag says whether that is the last attempt.
    """
    if spark is not None:
        return _SparkFrame(each_unit(spark, units, read, schema))

    def attempt(unit: Unit, left: int = _ATTEMPTS - 1) -> list[pa.RecordBatch]:
        try:
            return list(read(unit, not left))
        except CatalogError:
            if not left:
                raise
            return attempt(unit, left - 1)

    return Frame(_table(in_parallel(attempt, units, _UNITS_AT_ONCE), schema))


def _knows_arrow() -> bool:
    """Return whether PySpark hands tables of Arrow's to and from the driver, which it does from 4.0 on."""
    from pyspark.sql import DataFrame

    return hasattr(DataFrame, "toArrow")


def _serialised(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch in Arrow's stream format, as one value."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([[sink.getvalue().to_pybytes()]], schema=_SERIALISED)


def _deserialised(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches that :func:`_serialised` has put into ``batches``."""
    for value in (value for batch in batches for value in batch["batch"]):
        yield from pa.ipc.open_stream(value.as_py())


def _table(batches: Iterable[Iterable[pa.RecordBatch]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(chain.from_iterable(batches), schema)
