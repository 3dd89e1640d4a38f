"""Handing many small objects of the driver to the executors, in compressed packs that only Python opens.

So a million of them take some ten megabytes of the JVM's heap, and Spark's plans stay small however they came about.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["look_tasks", "opened", "packed", "row_tasks"]

_COLUMN = "pack"
_FEW_TASKS = 64


def packed(spark: SparkSession, objects: Iterable[object], size: int = 1_000) -> DataFrame:
    """Return a frame of packs, ``size`` objects each, for a ``mapInArrow`` that opens them with :func:`opened`."""
    import pyarrow as pa

    remaining = iter(objects)
    packs: list[bytes] = []
    while some := list(islice(remaining, size)):
        packs.append(zlib.compress(pickle.dumps(some), level=1))
    return spark.createDataFrame(pa.table({_COLUMN: pa.array(packs, pa.binary())}))


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    """Yield the objects of each pack."""
    for batch in batches:
        for pack in batch.column(_COLUMN).to_pylist():
            yield pickle.loads(zlib.decompress(pack))  # noqa: S301 - our own


def look_tasks(places: int) -> int:
    """Return into how many tasks to part ``places`` to be looked at or listed, which takes a millisecond or many."""
    return _tasks(places, fewest=128, most=4_000)


def row_tasks(rows: int) -> int:
    """Return into how many tasks to part ``rows`` that take some microseconds each."""
    return _tasks(rows, fewest=10_000, most=50_000)


def _tasks(items: int, *, fewest: int, most: int) -> int:
    """Return enough tasks to keep many cores busy to the end, none of them too small to be worth its start.

    The start of a task in Python takes some fifty milliseconds, as long as a hundred looks at local datasets.
    """
    return max(1, min(_FEW_TASKS, -(-items // fewest)), -(-items // most))
