"""The time of retries without waiting: a clock that only pauses move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock
from weakref import WeakValueDictionary

from reconciler.backends.http import rate_limit
from reconciler.backends.http.rate_limit import Clock

__all__ = ["SimulatedClock", "simulated_time"]


class SimulatedClock(Clock):
    """Time that moves by its pauses alone; jitter is always the longest. Thread-safe."""

    def __init__(self, epoch: float = 1_700_000_000.0) -> None:
        self._epoch = epoch
        self._lock = threading.Lock()
        self.elapsed = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.elapsed

    def now(self) -> float:
        return self._epoch + self.elapsed

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.elapsed += seconds
            self.pauses.append(seconds)

    def uniform(self, least: float, most: float) -> float:
        return most


@contextmanager
def simulated_time() -> Iterator[SimulatedClock]:
    """Give all retries of this process a simulated clock within the block.

    Limits of services are new in the block and forgotten after it: one that lives on would take simulated moments for
    real ones, and wait for them.
    """
    clock = SimulatedClock()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(rate_limit, "_limits", WeakValueDictionary()))
        for name in ("monotonic", "now", "sleep", "uniform"):
            stack.enter_context(mock.patch.object(Clock, name, getattr(clock, name)))
        yield clock
