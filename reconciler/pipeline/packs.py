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

__all__ = ["opened", "packed", "task_count"]

_COLUMN = "pack"
_ITEMS_A_TASK = 500
_FEWEST_ITEMS_A_TASK = 16
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


def task_count(items: int) -> int:
    """Return into how many tasks to part ``items`` that take some milliseconds each.

    There are enough of them to keep many cores busy to the end, and none is too small to be worth its start.
    """
    return max(1, min(_FEW_TASKS, -(-items // _FEWEST_ITEMS_A_TASK)), -(-items // _ITEMS_A_TASK))
