"""Limit the rate of all requests to one service, adapting to its refusals."""

from __future__ import annotations

import random
import threading
import time
from weakref import WeakValueDictionary

_LEAST_CEILING = 20.0
"""Requests a second: the least rate after the first refusal, which can precede any measurement."""
_RECOVERING_REQUESTS, _RECOVERING_SECONDS = 15, 0.5
_PROBING_REQUESTS, _PROBING_SECONDS = 80, 2.0
"""Accepted requests, and seconds at least, until the rate is at the ceiling again; then until twice that."""
_LONGEST_HOLD = 5.0
_SLOWEST_CEILING = 2 / _LONGEST_HOLD


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

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._turn = threading.Lock()
        """Held by the request that is sent next."""
        self._lock = threading.Lock()
        self._ceiling: float | None = None
        self._accepted_since = 0
        """The requests accepted since the rate was halved."""
        self._halved_at = 0.0
        self._hold = 0.0
        self._next_at = 0.0
        self._second = 0
        self._in_second = self._in_last_second = 0
        self.accepted_at = float("-inf")
        """When the service last accepted a request, in monotonic seconds."""

    def wait(self) -> float:
        """Wait until a request may be sent; return that time in monotonic seconds."""
        if self._ceiling is None:
            return self._clock.monotonic()
        with self._turn:
            while (pause := self._next_at - self._clock.monotonic()) > 0:
                self._clock.sleep(pause)
            with self._lock:
                now, interval = self._clock.monotonic(), 1 / self._rate(self._ceiling)
                # A thread that wakes late may make up for one lost interval.
                self._next_at = max(self._next_at, now - interval) + interval
                return now

    def accepted(self, sent_at: float) -> None:
        """Record that the service accepted a request that was sent at ``sent_at``."""
        with self._lock:
            self.accepted_at = self._clock.monotonic()
            self._measure(self.accepted_at)
            self._in_second += 1
            self._accepted_since += sent_at >= self._halved_at

    def refused(self, sent_at: float, retry_after: float | None = None) -> None:
        """Record that the service refused a request because of its load.

        ``retry_after`` is the pause in seconds that it asks for.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._ceiling is None or sent_at >= self._halved_at:
                self._halve(now)
                self._next_at = now + self._clock.uniform(self._hold / 2, self._hold)
            self._next_at = max(self._next_at, now + (retry_after or 0))

    def _halve(self, now: float) -> None:
        measured = self._measure(now)
        if self._ceiling is not None and not self._accepted_since:
            self._hold = min(2 * self._hold, _LONGEST_HOLD)
        else:
            if self._ceiling is None:
                self._ceiling = max(measured, _LEAST_CEILING)
            else:
                # A caller that sends few requests measures a low rate: never drop below half.
                rate = self._rate(self._ceiling)
                self._ceiling = max(min(rate, max(measured, rate / 2)), _SLOWEST_CEILING)
            self._hold = 2 / self._ceiling
        self._accepted_since = 0
        self._halved_at = now

    def _rate(self, ceiling: float) -> float:
        recovering = max(_RECOVERING_REQUESTS, _RECOVERING_SECONDS * ceiling)
        above = self._accepted_since - recovering
        if above < 0:
            return ceiling * (1 - 0.5 * (-above / recovering) ** 5)
        return float(ceiling * (1 + (above / max(_PROBING_REQUESTS, _PROBING_SECONDS * ceiling)) ** 3))

    def _measure(self, now: float) -> float:
        """Return how many requests were accepted within the last second."""
        second = int(now)
        if second != self._second:
            self._in_last_second = self._in_second if second == self._second + 1 else 0
            self._second, self._in_second = second, 0
        return self._in_second + self._in_last_second * (1 - (now - second))


_limits: WeakValueDictionary[str, RateLimit] = WeakValueDictionary()
_lock = threading.Lock()


def rate_limit(service: str) -> RateLimit:
    """Return the rate limit of ``service``, shared by its clients in this process."""
    with _lock:
        limit = _limits.get(service)
        if limit is None:
            limit = _limits[service] = RateLimit()
        return limit
