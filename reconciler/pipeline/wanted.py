"""The tables of a manifest as a DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from reconciler.names import join
from reconciler.pipeline.packs import opened, packed
from reconciler.state import DesiredCatalog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["wanted_tables"]


def wanted_tables(spark: SparkSession, catalogs: Iterable[DesiredCatalog]) -> DataFrame:
    """Return each table block: its ``catalog``, the string identifier as ``key``, and the pickled ``block``."""
    blocks = ((catalog.name, table) for catalog in catalogs for table in catalog.tables.values())
    return packed(spark, blocks).mapInArrow(_rows, "catalog string, key string, block binary")


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for blocks in opened(batches):
        yield pa.RecordBatch.from_pydict(
            {
                "catalog": pa.array([catalog for catalog, _ in blocks], pa.string()),
                "key": pa.array([join(table.id) for _, table in blocks], pa.string()),
                "block": pa.array([pickle.dumps(table) for _, table in blocks], pa.binary()),
            }
        )
