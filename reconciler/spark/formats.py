"""What ``spark.read.format`` takes of lancens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.spark.data_source import LancensDataSource
from reconciler.spark.session import task_attempts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the format ``lancens`` known to a session."""
    spark.dataSource.register(type("LancensDataSource", (LancensDataSource,), {"attempts": task_attempts(spark)}))
