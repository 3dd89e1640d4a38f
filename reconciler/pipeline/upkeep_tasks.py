"""Share the jobs of `maintain` among Spark's executors.

The driver plans each job, keeps the journal and commits; the executors read and write data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reconciler.model.errors import BackendError, LancensError, ServiceUnavailableError
from reconciler.pipeline.failures import spark_errors
from reconciler.pipeline.schemas import record_batch
from reconciler.pipeline.session import SparkOptions, spark_session
from reconciler.pipeline.tasks import LOADS, answers_in, each_unit, packed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from reconciler.storage import Executors


@contextmanager
def executors_of(options: SparkOptions) -> Iterator[Executors]:
    """Yield the executors of a session that ends with the block.

    Raises:
        LancensError: as for :func:`spark_session`.
    """
    with spark_session(options) as spark:
        yield on_executors(spark)


def on_executors(spark: SparkSession) -> Executors:
    """Return a function that calls another one with each item in a task of its own.

    Several threads may call it. Spark retries the tasks of an executor or a Python that ended. An error that a task
    returns is raised here, without a retry.

    Raises:
        BackendError: the first that a task raised; or a ServiceUnavailableError if Spark failed.
    """

    def run(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
        def answers(item: tuple[int, Any], _: bool) -> Iterator[pa.RecordBatch]:
            position, payload = item
            try:
                answer = act(payload)
            except BackendError as error:
                answer = error
            yield record_batch([{"position": position, "load": packed(answer)}], LOADS)

        if not work:
            return []
        try:
            with spark_errors():
                rows = each_unit(spark, [*enumerate(work)], answers, LOADS).collect()
        except LancensError as error:
            raise ServiceUnavailableError(str(error)) from None
        return answers_in(rows, BackendError)

    return run
