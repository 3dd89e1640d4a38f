"""The server's log as JSON lines, without headers, queries or bodies, and metrics."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

_LEVELS = {"reconciler.server": logging.INFO, "uvicorn.error": logging.WARNING, "asyncio": logging.ERROR}

logger = logging.getLogger("reconciler.server")


class JsonLines(logging.Formatter):
    """Formats a record as JSON: ``event``, and ``extra={"fields": {…}}``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            # The text of an unexpected error may hold secrets; its position does not.
            line["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])[-1:]
            line["at"] = f"{frames[0].filename}:{frames[0].lineno}" if frames else ""
        return json.dumps(line)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Send the server's log, and uvicorn's, to stderr as JSON lines until the block ends."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    previous = []
    for name, level in _LEVELS.items():
        log = logging.getLogger(name)
        previous.append((log, log.handlers, log.level, log.propagate))
        log.handlers, log.propagate = [handler], False
        log.setLevel(level)
    try:
        yield
    finally:
        for log, handlers, level, propagate in previous:
            log.handlers, log.propagate = handlers, propagate
            log.setLevel(level)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server. Labels hold names of operations, never of objects.

    Those of all processes with ``folder`` are summed. It must be in prometheus_client's own environment variable, too.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "lancens_requests", "Requests answered.", ["operation", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "lancens_request_seconds",
            "Time from a request's first byte to its answer.",
            ["operation"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_flight = Gauge(
            "lancens_requests_in_flight",
            "Requests being answered.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def observe(self, operation: str, status: int, seconds: float) -> None:
        """Count a request that was answered with ``status`` after ``seconds``."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        if self._folder is None:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._folder))
        return generate_latest(registry)
