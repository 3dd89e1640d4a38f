"""What the scans of one catalog may take in all, whatever each of their answers does: time, and bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from reconciler.backends.http.limits import MIB, AnswerLimits
from reconciler.model.errors import InternalError, ServiceUnavailableError
from reconciler.model.live import Traffic

_LESS = "and a narrower `scope` needs less"


@dataclass(slots=True)
class _Scan:
    ends: float
    bytes: int = 0


class Scans:
    """The scans that go on over the connections of one backend. Safe to use from several threads.

    Whose request one is cannot be told, so that of several scans at once the one with the most left counts.
    """

    def __init__(self, limits: AnswerLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._active: list[_Scan] = []
        self.traffic = Traffic()
        """What went over the connections, in scans and outside."""

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count what is asked for inside, by whichever thread, as one scan."""
        scan = _Scan(time.monotonic() + self._limits.scan_seconds)
        with self._lock:
            self._active.append(scan)
        try:
            yield
        finally:
            with self._lock:
                self._active = [other for other in self._active if other is not scan]

    def sends(self) -> None:
        """Count a request."""
        with self._lock:
            self.traffic = Traffic(self.traffic.calls + 1, self.traffic.bytes)

    def took(self, count: int) -> None:
        """Count ``count`` bytes of an answer."""
        with self._lock:
            self.traffic = Traffic(self.traffic.calls, self.traffic.bytes + count)
            for scan in self._active:
                scan.bytes += count

    def check(self, where: str) -> None:
        """Return where another request may be sent, which is so outside of scans; errors begin with ``where``.

        Raises:
            ServiceUnavailableError: the scan has taken longer than it may.
            InternalError: the answers to it hold more than they may.
        """
        limits = self._limits
        with self._lock:
            if not self._active:
                return
            is_late = time.monotonic() > max(scan.ends for scan in self._active)
            is_full = min(scan.bytes for scan in self._active) > limits.scan_bytes
        if is_late:
            raise ServiceUnavailableError(
                f"{where}: the scan takes longer than {limits.scan_seconds:g} s; `scan_seconds` allows more, {_LESS}"
            )
        if is_full:
            raise InternalError(
                f"{where}: the scan has read more than {limits.scan_bytes // MIB:,} MiB; `max_scan_mib` allows more, "
                f"{_LESS}"
            )
