"""Schemas of the rows that tasks exchange: one Arrow schema for each kind, and Spark's schema derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Row: TypeAlias = dict[str, Any]

STRING, LONG, INT = pa.string(), pa.int64(), pa.int32()
MOMENT = pa.timestamp("us", tz="UTC")
STRINGS, STRING_MAP = pa.list_(STRING), pa.map_(STRING, STRING)

_SPARK_TYPES: Mapping[pa.DataType, str] = {
    STRING: "string",
    LONG: "bigint",
    INT: "int",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    MOMENT: "timestamp",
}
_ROWS_IN_A_BATCH = 4096


def spark_schema(schema: pa.Schema) -> str:
    """Return the columns of ``schema`` in Spark's DDL."""
    return ", ".join(f"{field.name} {spark_type(field.type)}" for field in schema)


def spark_type(kind: pa.DataType) -> str:
    """Return an Arrow type in Spark's DDL."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    return _SPARK_TYPES[kind]


def record_batch(rows: Iterable[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Return ``rows`` as one Arrow batch; a row without a column has null there."""
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def record_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield ``rows`` as Arrow batches of a few thousand; none for no rows."""
    remaining = iter(rows)
    while some := list(islice(remaining, _ROWS_IN_A_BATCH)):
        yield record_batch(some, schema)


def with_columns(frame: DataFrame, columns: pa.Schema, compute: Callable[[pa.RecordBatch], Iterable[Row]]) -> DataFrame:
    """Return ``frame`` with ``columns`` added, which ``compute`` makes on the executors: a row for each of a batch."""

    def extended(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            added = record_batch(compute(batch), columns)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *added.columns], names=[*batch.schema.names, *added.schema.names]
            )

    before = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields)
    return frame.mapInArrow(extended, f"{before}, {spark_schema(columns)}")
