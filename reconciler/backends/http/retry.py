"""How long to wait before a request is sent again, and whether to send it again at all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

_REPEATABLE_METHODS = frozenset({"GET", "HEAD"})
_UNAVAILABLE = 503
"""With a ``Retry-After`` it says that nothing was done, as 429 does without one."""
_MAY_PASS = frozenset({502, 503, 504})
"""The statuses of a failure that may pass, and that leaves open whether anything was done."""


def is_repeatable(method: str) -> bool:
    """Return whether a request changes nothing, so that it can be sent again whatever became of it."""
    return method in _REPEATABLE_METHODS


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter; all times in seconds.

    ``max_retries``: how often a request is sent again at most; 0 for never.
    ``base``, ``cap``: the first and the longest backoff a wait is drawn from.
    ``longest_retry_after``: a service that asks for a longer pause than this is reported instead of waited for.
    ``sleep``, ``uniform``, ``now``: the clock and the dice, replaced in tests. ``now`` is seconds since the epoch.
    """

    max_retries: int = 3
    base: float = 0.5
    cap: float = 20.0
    longest_retry_after: float = 120.0
    sleep: Callable[[float], None] = time.sleep
    uniform: Callable[[float, float], float] = random.uniform
    now: Callable[[], float] = time.time

    def may_repeat(self, status: int, retry_after: str | None, *, repeatable: bool) -> bool:
        """Return whether a request that was answered with ``status`` can be sent again with nothing done twice.

        ``repeatable`` is whether that holds for the request whatever became of it.
        """
        if status == 429 or (status == _UNAVAILABLE and retry_after is not None):
            return True
        return repeatable and status in _MAY_PASS

    def wait(self, attempt: int, retry_after: str | None = None) -> float | None:
        """Return the pause after failed attempt number ``attempt`` (from 0); None when it is time to give up.

        ``retry_after`` is the header's text: seconds or an HTTP date. One that cannot be read counts as absent. A
        little jitter is added to it, so that clients told the same moment do not all come back at once.
        """
        if attempt >= self.max_retries:
            return None
        asked = self._seconds(retry_after)
        if asked is None:
            return self.uniform(0.0, min(self.cap, self.base * 2**attempt))
        if asked > self.longest_retry_after:
            return None
        return asked + self.uniform(0.0, self.base)

    def _seconds(self, retry_after: str | None) -> float | None:
        if retry_after is None:
            return None
        text = retry_after.strip()
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self.now())
        except (ValueError, OverflowError):
            return None
