"""Run functions on plain objects in Spark's tasks.

Objects travel pickled and compressed, as the data of their own task. A million table blocks then take some ten
megabytes of the JVM's heap, and Spark's plans stay small. Secrets travel in the function instead: no plan, log or page
of Spark's shows what a function holds.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from reconciler.model.errors import CatalogError
from reconciler.pipeline.schemas import LONG, chunks, record_batch, spark_schema
from reconciler.pipeline.session import task_attempts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

LOADS = pa.schema([("position", LONG), ("load", pa.binary())])
"""The schema of the rows that tasks take and return: the position of an object, and the packed object (``load``)."""

_DEFAULT_PARALLELISM = "spark.sql.leafNodeDefaultParallelism"
_LARGEST_LOCAL_RELATION = "spark.sql.execution.arrow.localRelationThreshold"
_UNKNOWN_CORES = 32
_FEW_TASKS = 64


def in_tasks(
    spark: SparkSession, work: Sequence[ItemT], act: Callable[[ItemT, bool], ResultT | CatalogError]
) -> list[ResultT]:
    """Return the result of ``act`` for each item of ``work``, in order.

    Each is computed in a task of its own.

    Args:
        spark: the session to work in.
        work: the input of each task.
        act: is called with an item, and whether this is the last attempt of its task.

    Raises:
        CatalogError: the first that ``act`` returns.
    """
    if not work:
        return []
    attempts = task_attempts(spark)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last = is_last_attempt(attempts)
        for batch in batches:
            for row in batch.to_pylist():
                result = act(unpacked(row["load"]), last)
                yield record_batch([{"position": row["position"], "load": packed(result)}], LOADS)

    loads = pa.table({"position": range(len(work)), "load": [packed(item) for item in work]}, schema=LOADS)
    # Only rows in the plan are partitioned as requested without a shuffle.
    with _settings(spark, {_DEFAULT_PARALLELISM: str(len(work)), _LARGEST_LOCAL_RELATION: str(2**31 - 1)}):
        rows = spark.createDataFrame(loads).mapInArrow(run, spark_schema(LOADS)).collect()
    return results_in(rows, CatalogError)


def results_in(rows: Iterable[Any], error_class: type[Exception]) -> list[Any]:
    """Return the results of tasks in ``rows`` of ``LOADS``, in order of position.

    Raises:
        Exception: the first result that is an error of ``error_class``.
    """
    results = [unpacked(row["load"]) for row in sorted(rows, key=lambda row: row["position"])]
    for result in results:
        if isinstance(result, error_class):
            raise result
    return results


def each_unit(
    spark: SparkSession,
    units: Collection[ItemT],
    read: Callable[[ItemT, bool], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Return a data frame of what ``read`` yields for each unit.

    Each unit has a task of its own.

    Args:
        spark: the session to work in.
        units: the input of each task, such as the units of a catalog.
        read: is called with a unit, and whether this is the last attempt of its task.
        schema: the schema of the batches.
    """
    work = [pickle.dumps(unit) for unit in units]
    attempts = task_attempts(spark)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last = is_last_attempt(attempts)
        for batch in batches:
            for position in batch.column(0).to_pylist():
                yield from read(pickle.loads(work[position]), last)  # noqa: S301 - our own

    # The units hold credentials, so they travel in the function.
    return spark.range(0, len(work), 1, max(len(work), 1)).mapInArrow(run, spark_schema(schema))


def batched(objects: Iterable[object], size: int = 1_000) -> pa.Table:
    """Return an Arrow table of ``objects``, packed, with ``size`` of them in a row.

    :func:`unbatched` reads it.
    """
    return pa.table({"load": pa.array(map(packed, chunks(objects, size)), pa.binary())})


def unbatched(frame: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    """Yield the objects of each row in batches of a table that :func:`batched` made."""
    for records in frame:
        yield from map(unpacked, records.column("load").to_pylist())


def packed(item: object) -> bytes:
    """Return ``item`` pickled and compressed."""
    return zlib.compress(pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL), level=1)


def unpacked(load: bytes) -> Any:
    """Return the object that :func:`packed` packed."""
    return pickle.loads(zlib.decompress(load))  # noqa: S301 - our own


def is_last_attempt(attempts: int) -> bool:
    """Return whether Spark runs the last of ``attempts`` at the current task.

    True outside of a task.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is None or task.attemptNumber() >= attempts - 1


def tasks_at_once(spark: SparkSession) -> int:
    """Return how many tasks run at the same time, as far as this process can know."""
    from pyspark.errors import PySparkException

    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except PySparkException:  # a client of Spark Connect does not know
        return _UNKNOWN_CORES


def probe_tasks(locations: int) -> int:
    """Return the number of tasks for ``locations`` that each take milliseconds."""
    return _tasks(locations, fewest=128, most=4_000)


def row_tasks(rows: int) -> int:
    """Return the number of tasks for ``rows`` that take some microseconds each."""
    return _tasks(rows, fewest=10_000, most=50_000)


def _tasks(items: int, *, fewest: int, most: int) -> int:
    """Return the number of tasks for ``items``.

    There are enough for many cores, with at least ``fewest`` items each if possible. No task has more than ``most``
    items.

    The start of a task in Python takes some fifty milliseconds, as long as probing a hundred local datasets.
    """
    return max(1, min(_FEW_TASKS, -(-items // fewest)), -(-items // most))


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set ``settings`` of the session for the block."""
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
