"""Reading catalogs on Spark: one unit a task, with the credentials inside the function that Spark sends to it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from reconciler.spark.reading import read_unit
from reconciler.spark.rows import ROWS
from reconciler.spark.schemas import record_batches, spark_schema
from reconciler.spark.session import task_attempts
from reconciler.spark.tasks import is_last_attempt
from reconciler.spark.units import DEFAULT_PARTITIONS, DEFAULT_SPLIT, Unit, list_units

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from reconciler.operations.connections import CatalogSpec


def live_rows(
    spark: SparkSession,
    specs: Collection[CatalogSpec],
    *,
    partitions: int = DEFAULT_PARTITIONS,
    split: int = DEFAULT_SPLIT,
) -> DataFrame:
    """Return what is in the catalogs, as rows of :mod:`reconciler.spark.rows`; nothing is redacted.

    The namespaces are listed now; what is in them is read whenever the frame is. What could not be read after all
    attempts of Spark is an error in its row of coverage. A namespace read in parts has such a row for each, and a note
    may come more than once.

    Raises:
        LancensError: a catalog cannot be reached from other processes, or does not take its configuration.
    """

    def read(unit: Unit, last_attempt: bool) -> Iterator[pa.RecordBatch]:
        return record_batches(read_unit(unit, last_attempt=last_attempt), ROWS)

    return each_unit(spark, list_units(specs, partitions=partitions, split=split), read, ROWS)


def each_unit(
    spark: SparkSession,
    units: Collection[Unit],
    read: Callable[[Unit, bool], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Return what ``read`` yields of each unit, in a task of its own; ``schema`` is that of its batches.

    ``read`` is called with a unit, and whether this is the last attempt of its task.
    """
    work = [pickle.dumps(unit) for unit in units]
    attempts = task_attempts(spark)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last = is_last_attempt(attempts)
        for batch in batches:
            for position in batch.column(0).to_pylist():
                yield from read(pickle.loads(work[position]), last)  # noqa: S301 - our own

    # The units are in the function, not in the data: no plan, log or page of Spark's shows what is in a function.
    return spark.range(0, len(work), 1, max(len(work), 1)).mapInArrow(run, spark_schema(schema))
