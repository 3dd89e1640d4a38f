"""Share the jobs of `maintain` among Spark's executors.

The driver plans each job, keeps the journal and commits; the executors read and write data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reconciler.model.errors import BackendError, LancensError, ServiceUnavailableError
from reconciler.pipeline.failures import spark_errors
from reconciler.pipeline.schemas import record_batch
from reconciler.pipeline.session import SparkOptions, spark_session, starts_jvm
from reconciler.pipeline.tasks import LOADS, each_unit, packed, results_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from reconciler.planner.entries import UpkeepJob
    from reconciler.storage import Executors


_FEW_BYTES = 4 * 2**30
"""This process has compacted so many bytes, as a plan counts them, before Spark has started (`benchmarks/small.py`)."""

_INDEX_WEIGHT = 64
"""Indexing takes at most as long as compacting this many times the bytes."""


def pays_start(jobs: Iterable[UpkeepJob], options: SparkOptions) -> bool:
    """Return whether Spark runs already, or ``jobs`` take longer than starting it."""
    costs = [job.bytes and job.bytes * (1 if job.index is None else _INDEX_WEIGHT) for job in jobs]
    return not starts_jvm(options) or None in costs or sum(filter(None, costs)) > _FEW_BYTES


@contextmanager
def executors_of(options: SparkOptions) -> Iterator[Executors]:
    """Yield the executors of a session that ends with the block.

    Raises:
        LancensError: as for :func:`spark_session`.
    """
    with spark_session(options) as spark:
        yield on_executors(spark)


def on_executors(spark: SparkSession) -> Executors:
    """Return a function that calls ``act`` with each item of ``work``.

    Each call is a task of its own. It returns the results in order, and raises the first BackendError of a task, or a
    ServiceUnavailableError if Spark failed. Several threads may call it. Spark retries the tasks of an executor or a
    Python process that ended, but no task that raised a BackendError.
    """

    def run(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
        def attempt(numbered: tuple[int, Any], _: bool) -> Iterator[pa.RecordBatch]:
            position, item = numbered
            try:
                result = act(item)
            except BackendError as error:
                result = error
            yield record_batch([{"position": position, "load": packed(result)}], LOADS)

        if not work:
            return []
        try:
            with spark_errors():
                rows = each_unit(spark, [*enumerate(work)], attempt, LOADS).collect()
        except LancensError as error:
            raise ServiceUnavailableError(str(error)) from None
        return results_in(rows, BackendError)

    return run
