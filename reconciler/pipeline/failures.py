"""Shorten Spark's errors to the one line that says what went wrong."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.model.errors import LancensError

_TRACEBACK = "Traceback (most recent call last):"
_PYTHON = re.compile(r"^(?:\w+\.)*\w+: *(\S.*)$", re.MULTILINE)
_JAVA = re.compile(
    r"^(?:: |Caused by: |Exception in thread \"[^\"]*\" )?(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): *(\S.*)$",
    re.MULTILINE,
)
_GRPC = re.compile(r'^\s*details = "(.*\S)"$', re.MULTILINE)
_MISSING = re.compile(r"No module named '([\w.]+)'$")
_PROGRAM = re.compile(r'Cannot run program "([^"]*)"')
_NO_PROGRAM = (
    "the Python `{}` does not run on an executor; name one that has lancens with its extras with --spark-conf "
    "spark.pyspark.python=PATH, or PYSPARK_PYTHON=PATH where a Spark Connect server starts"
)
_NO_MODULE = (
    "the Python of an executor has no module `{}`; name one that has lancens with its extras, there and on every other "
    "machine, with --spark-conf spark.pyspark.python=PATH, or PYSPARK_PYTHON=PATH where a Spark Connect server starts"
)
_MOST_CHARACTERS = 500
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_JVM_ENDED = "its JVM has ended, mostly for want of memory (--spark-conf spark.driver.memory=4g)"


@contextmanager
def spark_errors(log: str | None = None) -> Iterator[None]:
    """Raise Spark's errors in the block as one line with the cause and the log.

    Raises:
        LancensError: for every error of Spark's, and of the connection to its JVM.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    log_note = "" if log is None else f"; its log is {log}"
    try:
        yield
    except (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError) as error:
        raise LancensError(f"Spark failed: {_JVM_ENDED}{log_note}") from error
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if log is not None and "JAVA_GATEWAY_EXITED" in text:  # the cause is in the log only
            text = f"{Path(log).read_text('utf-8', 'replace')}\n{text}"
        raise LancensError(f"Spark failed: {_cause(text)}{log_note}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark's own logs and warnings of errors in the block off the terminal."""
    from pyspark.logger import PySparkLogger

    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    root.addFilter(_is_not_py4j)
    propagated, py4j.propagate = py4j.propagate, False  # an interrupted call is logged with a traceback
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown", RuntimeWarning)
            yield
    finally:
        root.removeFilter(_is_not_py4j)
        py4j.propagate = propagated
        for logger in loggers:
            logger.disabled = False


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Drop records of py4j, which logs the end of the JVM to the root logger."""
    return record.module not in ("java_gateway", "clientserver")


def _cause(text: str) -> str:
    """Return the innermost error of Python in ``text`` or, without one, of Java."""
    if program := _PROGRAM.search(text):
        return _NO_PROGRAM.format(program[1])
    before, traceback, worker = text.rpartition(_TRACEBACK)
    errors: list[str] = _PYTHON.findall(worker)[:1] if traceback else [*_GRPC.findall(text), *_JAVA.findall(text)][-1:]
    lines = [*errors, *(line for line in (before or text).splitlines() if line.strip()), "it gave no reason"]
    line = lines[0].strip().removesuffix(".")[:_MOST_CHARACTERS]
    missing = _MISSING.match(line) if traceback else None
    return _NO_MODULE.format(missing[1]) if missing else line
