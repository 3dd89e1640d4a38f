"""What Prometheus is told: how many requests there were, how they ended, how long they took."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server, in a registry of its own. Labels hold names of operations, never of objects."""

    def __init__(self) -> None:
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
        self.in_flight = Gauge("lancens_requests_in_flight", "Requests being answered.", registry=self._registry)

    def observe(self, operation: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
