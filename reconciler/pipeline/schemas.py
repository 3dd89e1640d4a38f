"""Types and batches of the rows that tasks exchange."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


ItemT = TypeVar("ItemT")

Row: TypeAlias = dict[str, Any]

STRING, LONG, INT = pa.string(), pa.int64(), pa.int32()
MOMENT = pa.timestamp("us", tz="UTC")
STRINGS, STRING_MAP = pa.list_(STRING), pa.map_(STRING, STRING)

_ROWS_IN_A_BATCH = 4096


def spark_schema(schema: pa.Schema) -> StructType:
    """Return ``schema`` as a schema of Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def chunks(items: Iterable[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield ``items`` in lists of ``size``, the last of which may be shorter."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def record_batch(rows: Iterable[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Return ``rows`` as one Arrow batch; a column that a row lacks is null."""
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def record_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield ``rows`` as Arrow batches of a few thousand; no batch for no rows."""
    return (record_batch(chunk, schema) for chunk in chunks(rows, _ROWS_IN_A_BATCH))
