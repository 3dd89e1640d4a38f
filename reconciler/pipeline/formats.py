"""What ``spark.read.format`` takes of lancens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.pipeline.data_source import LancensDataSource
from reconciler.pipeline.history_source import HistoryDataSource
from reconciler.pipeline.session import task_attempts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats ``lancens`` and ``lancens-history`` known to a session."""
    spark.dataSource.register(type("LancensDataSource", (LancensDataSource,), {"attempts": task_attempts(spark)}))
    spark.dataSource.register(HistoryDataSource)
