"""The tables of a manifest as a DataFrame."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from reconciler.names import join
from reconciler.state import DesiredCatalog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["wanted_tables"]

_COLUMNS = "catalog string, key string, block binary"
_BLOCKS_A_PACK = 1_000


def wanted_tables(spark: SparkSession, catalogs: Iterable[DesiredCatalog]) -> DataFrame:
    """Return each table block: its ``catalog``, the string identifier as ``key``, and the pickled ``block``.

    Blocks travel in packs that the executors open: a million of them take some ten megabytes of the driver's heap.
    """
    import pyarrow as pa

    blocks = ((catalog.name, table) for catalog in catalogs for table in catalog.tables.values())
    packs: list[bytes] = []
    while some := list(islice(blocks, _BLOCKS_A_PACK)):
        packs.append(zlib.compress(pickle.dumps(some), level=1))

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pack in batch.column("pack").to_pylist():
                found = pickle.loads(zlib.decompress(pack))  # noqa: S301 - our own
                yield pa.RecordBatch.from_pydict(
                    {
                        "catalog": pa.array([catalog for catalog, _ in found], pa.string()),
                        "key": pa.array([join(table.id) for _, table in found], pa.string()),
                        "block": pa.array([pickle.dumps(table) for _, table in found], pa.binary()),
                    }
                )

    packed = pa.table({"pack": pa.array(packs, pa.binary())})
    return spark.createDataFrame(packed).mapInArrow(unpack, _COLUMNS)
