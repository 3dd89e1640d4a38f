"""Handing work out to Spark's tasks: plain objects go to the executors, and what comes of them comes back.

They travel pickled and compressed, in the data of their own task and no other. A million table blocks then take some
ten megabytes, and Spark need not know what they are. What is secret travels in the function (see ``act``): no plan, log
or page of Spark's shows what is in a function.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from reconciler.spark.schemas import LONG, record_batch, spark_schema
from reconciler.spark.session import task_attempts
from reconciler.spark.source import is_last_attempt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_LOADS = pa.schema([("position", LONG), ("load", pa.binary())])
_SLICES = "spark.sql.leafNodeDefaultParallelism"
_IN_THE_PLAN = "spark.sql.execution.arrow.localRelationThreshold"
_CORES_ELSEWHERE = 32


def in_tasks(
    spark: SparkSession, work: Sequence[ItemT], act: Callable[[ItemT, bool], ResultT], *, tasks: int | None = None
) -> list[ResultT]:
    """Return what ``act`` makes of each of ``work`` on the executors, in the order of ``work``.

    Args:
        spark: the session to work in.
        work: what each task gets some of; neighbours stay together.
        act: is called with one of ``work``, and whether Spark gives up when it fails once more.
        tasks: how many there are at most; one for each of ``work``, unless given.
    """
    if not work:
        return []
    attempts = task_attempts(spark)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last = is_last_attempt(attempts)
        for batch in batches:
            for row in batch.to_pylist():
                answer = act(unpacked(row["load"]), last)
                yield record_batch([{"position": row["position"], "load": packed(answer)}], _LOADS)

    loads = pa.table({"position": range(len(work)), "load": [packed(item) for item in work]}, schema=_LOADS)
    # Rows in the plan are the only data that Spark parts as it is told to and nobody has to shuffle.
    with _settings(spark, {_SLICES: str(min(tasks or len(work), len(work))), _IN_THE_PLAN: str(2**31 - 1)}):
        rows = spark.createDataFrame(loads).mapInArrow(run, spark_schema(_LOADS)).collect()
    return [unpacked(row["load"]) for row in sorted(rows, key=lambda row: row["position"])]


def packed(item: object) -> bytes:
    """Return ``item`` as it travels."""
    return zlib.compress(pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL), level=1)


def unpacked(load: bytes) -> Any:
    """Return what :func:`packed` made ``load`` of."""
    return pickle.loads(zlib.decompress(load))  # noqa: S301 - our own


def tasks_at_once(spark: SparkSession) -> int:
    """Return how many tasks run at the same time, as far as this process can know."""
    from pyspark.errors import PySparkException

    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except PySparkException:  # a client of Spark Connect is not told
        return _CORES_ELSEWHERE


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Have the session plan with ``settings`` in the block."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
