"""Limit the rate of all requests to one service, adapting to its refusals."""

from __future__ import annotations

import ctypes
import mmap
import random
import threading
import time
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from pathlib import Path
from weakref import WeakValueDictionary

_LEAST_CEILING = 20.0
"""Requests a second: the least rate after the first refusal, which can precede any measurement."""
_RECOVERING_REQUESTS, _RECOVERING_SECONDS = 15, 0.5
_PROBING_REQUESTS, _PROBING_SECONDS = 80, 2.0
"""Accepted requests, and seconds at least, until the rate is at the ceiling again; then until twice that."""
_LONGEST_HOLD = 5.0
_SLOWEST_CEILING = 2 / _LONGEST_HOLD


class _State(ctypes.Structure):
    """What is known of a service; all zero before its first refusal."""

    ceiling: float
    accepted_since: float
    """The requests accepted since the rate was halved."""
    halved_at: float
    hold: float
    next_at: float
    second: float
    in_second: float
    in_last_second: float
    accepted_at: float
    _fields_ = [(name, ctypes.c_double) for name in __annotations__]


class Clock:
    """The time, pauses and random numbers of retries. Tests replace it."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def uniform(self, least: float, most: float) -> float:
        """Return a random number between two."""
        return random.uniform(least, most)  # noqa: S311 - jitter


class RateLimit:
    """Paces the requests to one service by its refusals. Thread-safe.

    There is no limit before the first refusal. A refusal halves the rate. Each accepted request raises it again: soon
    to the ceiling, which is the rate that the service last accepted, then slowly, then faster. A straight line up to a
    limit without bursts would use three quarters of it. Refusals of requests sent before the last halving do not count,
    and until a request is accepted, further refusals only double the pause.
    """

    def __init__(self, clock: Clock | None = None, path: Path | None = None) -> None:
        """Make a limit of this process, or one of all processes that name the same file."""
        self._clock = clock or Clock()
        self._lock: AbstractContextManager[object] = threading.Lock()
        self._turn: AbstractContextManager[object] = threading.Lock()
        """Held by the request that is sent next."""
        self._state = _State()
        if path is not None:
            self._lock, self._turn = _FileLock(path), _FileLock(path.with_suffix(".turn"))
            self._state = _shared_state(path)

    @property
    def accepted_at(self) -> float:
        """When the service last accepted a request, in monotonic seconds; 0 for never."""
        return self._state.accepted_at

    def wait(self) -> float:
        """Wait until a request may be sent; return that time in monotonic seconds."""
        if not self._state.ceiling:
            return self._clock.monotonic()
        with self._turn:
            while (pause := self._state.next_at - self._clock.monotonic()) > 0:
                self._clock.sleep(pause)
            with self._lock:
                now, interval = self._clock.monotonic(), 1 / self._rate(self._state.ceiling)
                # A thread that wakes late may make up for one lost interval.
                self._state.next_at = max(self._state.next_at, now - interval) + interval
                return now

    def accepted(self, sent_at: float) -> None:
        """Record that the service accepted a request that was sent at ``sent_at``."""
        with self._lock:
            self._state.accepted_at = self._clock.monotonic()
            self._measure(self._state.accepted_at)
            self._state.in_second += 1
            self._state.accepted_since += sent_at >= self._state.halved_at

    def refused(self, sent_at: float, retry_after: float | None = None) -> None:
        """Record that the service refused a request because of its load.

        ``retry_after`` is the pause in seconds that it asks for.
        """
        with self._lock:
            now = self._clock.monotonic()
            if not self._state.ceiling or sent_at >= self._state.halved_at:
                self._halve(now)
                self._state.next_at = now + self._clock.uniform(self._state.hold / 2, self._state.hold)
            self._state.next_at = max(self._state.next_at, now + (retry_after or 0))

    def _halve(self, now: float) -> None:
        measured = self._measure(now)
        if self._state.ceiling and not self._state.accepted_since:
            self._state.hold = min(2 * self._state.hold, _LONGEST_HOLD)
        else:
            if not self._state.ceiling:
                self._state.ceiling = max(measured, _LEAST_CEILING)
            else:
                # A caller that sends few requests measures a low rate: never drop below half.
                rate = self._rate(self._state.ceiling)
                self._state.ceiling = max(min(rate, max(measured, rate / 2)), _SLOWEST_CEILING)
            self._state.hold = 2 / self._state.ceiling
        self._state.accepted_since = 0
        self._state.halved_at = now

    def _rate(self, ceiling: float) -> float:
        recovering = max(_RECOVERING_REQUESTS, _RECOVERING_SECONDS * ceiling)
        above = self._state.accepted_since - recovering
        if above < 0:
            return ceiling * (1 - 0.5 * (-above / recovering) ** 5)
        return float(ceiling * (1 + (above / max(_PROBING_REQUESTS, _PROBING_SECONDS * ceiling)) ** 3))

    def _measure(self, now: float) -> float:
        """Return how many requests were accepted within the last second."""
        second = int(now)
        if second != self._state.second:
            self._state.in_last_second = self._state.in_second if second == self._state.second + 1 else 0
            self._state.second, self._state.in_second = second, 0
        return self._state.in_second + self._state.in_last_second * (1 - (now - second))


class _FileLock:
    """A lock of threads and processes. A process that dies releases it."""

    def __init__(self, path: Path) -> None:
        import fcntl  # Windows has none

        self._thread = threading.Lock()
        flock, self._file = fcntl.flock, path.open("ab")
        self._acquire, self._release = (partial(flock, self._file, how) for how in (fcntl.LOCK_EX, fcntl.LOCK_UN))

    def __enter__(self) -> None:
        self._thread.acquire()
        self._acquire()

    def __exit__(self, *_: object) -> None:
        self._release()
        self._thread.release()


def _shared_state(path: Path) -> _State:
    """Return the state in a file, which is made if it is missing."""
    with path.open("ab") as file:
        file.truncate(ctypes.sizeof(_State))
    with path.open("r+b") as file:
        return _State.from_buffer(mmap.mmap(file.fileno(), 0))


_limits: WeakValueDictionary[str, RateLimit] = WeakValueDictionary()
_lock = threading.Lock()
_folder: Path | None = None


def share_limits(folder: Path) -> None:
    """Share the limits that are made from now on with all processes that name ``folder``."""
    global _folder  # noqa: PLW0603 - for the whole process
    _folder = folder


def rate_limit(service: str) -> RateLimit:
    """Return the rate limit of ``service``, shared by its clients in this process; see :func:`share_limits`."""
    with _lock:
        limit = _limits.get(service)
        if limit is None:
            limit = _limits[service] = RateLimit(
                path=None if _folder is None else _folder / sha256(service.encode()).hexdigest()
            )
        return limit
