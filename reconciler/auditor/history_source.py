"""The data source ``lancens-history``: the history of audits as a table.

Spark reads Lance only with a jar of its own, so pylance reads the history, in one task.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from reconciler.auditor import history
from reconciler.model import locations
from reconciler.model.errors import LancensError
from reconciler.pipeline.data_source import BatchSource, requested_columns, require_known
from reconciler.pipeline.schemas import record_batches, spark_schema

_FORMAT = "lancens-history"


class HistoryDataSource(BatchSource):
    """The format ``lancens-history``; see docs/pipeline.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return _FORMAT

    def schema(self) -> StructType:
        """Return the schema of a row, which is a run."""
        return spark_schema(history.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the columns of ``schema``."""
        for option in self.options:
            require_known("option", option, ("path",), _FORMAT)
        path = self.options.get("path")
        if path is None:
            raise LancensError(f'no history is given: spark.read.format("{_FORMAT}").load("audits.lance")')
        columns = requested_columns(history.schema(), schema, _FORMAT)
        return _Reader(locations.absolute(path, Path.cwd().as_posix()), columns)


class _Reader(DataSourceReader):
    """Read all runs of the latest version, without filters.

    PySpark uses one reader for several queries.
    """

    def __init__(self, location: str, schema: pa.Schema) -> None:
        self._location = location
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield all runs; there is one partition.

        Raises:
            LancensError: there is no history, or it cannot be used.
        """
        yield from record_batches(history.rows(self._location, {}, self._schema.names), self._schema)


def register_history(spark: SparkSession) -> None:
    """Make the format ``lancens-history`` known to a session."""
    spark.dataSource.register(HistoryDataSource)
