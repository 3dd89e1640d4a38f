"""Sending many small Python objects from the driver to the executors, in compressed, pickled batches.

A million of them then take some ten megabytes of the JVM's heap, and Spark's plans stay small.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_COLUMN = "batch"
_FEW_TASKS = 64


def batched(spark: SparkSession, objects: Iterable[object], size: int = 1_000) -> DataFrame:
    """Return a frame of batches, ``size`` objects each, for a ``mapInArrow`` that opens them with :func:`unbatched`."""
    remaining = iter(objects)
    batches: list[bytes] = []
    while some := list(islice(remaining, size)):
        batches.append(zlib.compress(pickle.dumps(some), level=1))
    return spark.createDataFrame(pa.table({_COLUMN: pa.array(batches, pa.binary())}))


def unbatched(frame: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    """Yield the objects of each batch in a frame that :func:`batched` made."""
    for records in frame:
        for batch in records.column(_COLUMN).to_pylist():
            yield pickle.loads(zlib.decompress(batch))  # noqa: S301 - our own


def probe_tasks(places: int) -> int:
    """Return how many tasks should open or list ``places`` in storage, each of which takes a millisecond or many."""
    return _tasks(places, fewest=128, most=4_000)


def row_tasks(rows: int) -> int:
    """Return how many tasks should share ``rows`` that take some microseconds each."""
    return _tasks(rows, fewest=10_000, most=50_000)


def _tasks(items: int, *, fewest: int, most: int) -> int:
    """Return enough tasks to keep many cores busy to the end, none of them too small to be worth its start.

    The start of a task in Python takes some fifty milliseconds, as long as probing a hundred local datasets.
    """
    return max(1, min(_FEW_TASKS, -(-items // fewest)), -(-items // most))
