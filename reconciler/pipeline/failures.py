"""Spark's failures in one line a person can use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.errors import LancensError

__all__ = ["spark_errors"]

_CAUSE = re.compile(r"^(?:[\w$]+\.)*([A-Z]\w*(?:Error|Exception|Exit|Interrupt)): *(\S.*)$", re.MULTILINE)
_LONGEST = 500


@contextmanager
def spark_errors(log: str | None = None) -> Iterator[None]:
    """Turn what Spark raises in the block into one error that says what went wrong, and where Spark's log is.

    Raises:
        LancensError: for every error of Spark's, and of the connection to its JVM.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        where = "" if log is None else f"; its log is {log}"
        raise LancensError(f"Spark failed: {_cause(str(error))}{where}") from error


def _cause(text: str) -> str:
    """Return the line of ``text`` that says most: that of the innermost Python error, or else the first."""
    worker = text.rpartition("Traceback (most recent call last):")[2]
    found = _CAUSE.search(worker)
    line = found[2] if found else next((line for line in text.splitlines() if line.strip()), "no reason given")
    return line.strip().removesuffix(".")[:_LONGEST]
