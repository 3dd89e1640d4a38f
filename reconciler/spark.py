"""The public names for Spark: sessions, the data source, and plans for catalogs too large for one process."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconciler.pipeline.data_source import register
    from reconciler.pipeline.engine import plan_on_spark
    from reconciler.pipeline.session import SparkOptions, spark_session

__all__ = ["SparkOptions", "plan_on_spark", "register", "spark_session"]

# Imported on first use, so that an executor that only compares tables does not import the clients of catalogs.
_LAZY = {"SparkOptions": "session", "plan_on_spark": "engine", "register": "data_source", "spark_session": "session"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"reconciler.pipeline.{_LAZY[name]}"), name)
