"""The tables of a manifest as a DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler.model.desired import DesiredCatalog
from reconciler.model.names import join
from reconciler.spark.batches import batched, unbatched
from reconciler.spark.schemas import STRING, record_batch, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


DESIRED_TABLES = pa.schema([("catalog", STRING), ("key", STRING), ("block", pa.binary())])
"""A table block: its catalog, its string identifier and the pickled ``DesiredTable``."""


def desired_tables(spark: SparkSession, catalogs: Iterable[DesiredCatalog]) -> DataFrame:
    """Return the table blocks of ``catalogs``, as ``DESIRED_TABLES``."""
    blocks = ((catalog.name, table) for catalog in catalogs for table in catalog.tables.values())
    return batched(spark, blocks).mapInArrow(_rows, spark_schema(DESIRED_TABLES))


def _rows(frame: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for blocks in unbatched(frame):
        yield record_batch(
            ({"catalog": catalog, "key": join(table.id), "block": pickle.dumps(table)} for catalog, table in blocks),
            DESIRED_TABLES,
        )
