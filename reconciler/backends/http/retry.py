"""Whether and when a failed request is sent again, and why no answer came."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from reconciler.backends.http.limits import SlowAnswerError, too_slow
from reconciler.backends.http.refusals import excerpt

_UNAVAILABLE = 503
"""With ``Retry-After`` it says that nothing was done, as 429 does without."""
_MAY_PASS = frozenset({502, 503, 504})
"""Failures that may pass, and that leave open whether anything was done."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter; all times in seconds.

    ``max_retries``: how often a request is sent again at most; 0 for never.
    ``base``, ``cap``: the first and the longest backoff that a pause is drawn from.
    ``longest_retry_after``: a service that asks for a longer pause is reported instead of waited for.
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
        """Return whether a request with this answer can be sent again safely.

        ``repeatable``: the request itself can be sent again whatever happened to it.
        """
        if status == 429 or (status == _UNAVAILABLE and retry_after is not None):
            return True
        return repeatable and status in _MAY_PASS

    def wait(self, attempt: int, retry_after: str | None = None) -> float | None:
        """Return the pause after failed attempt ``attempt`` (from 0); None to give up.

        ``retry_after`` is the header's text: seconds or an HTTP date. One that cannot be read counts as absent. It gets
        a little jitter, so that clients that were given the same moment do not all come back at once.
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
        text = (retry_after or "").strip()
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self.now())
        except (ValueError, OverflowError):
            return None


class NoAnswer:
    """Why no answer came, by what requests, urllib3 and the socket raised.

    Args:
        error: what was raised.
        address: where the request went.
        timeouts: the seconds that a connection and a wait for data could take.
        seconds: those that the whole answer could take.
    """

    def __init__(self, error: Exception, address: str, timeouts: tuple[float, float], seconds: float) -> None:
        from requests import exceptions
        from urllib3 import exceptions as urllib3

        chain = list(_causes(error))

        def caused_by(*kinds: type[BaseException]) -> bool:
            return any(isinstance(cause, kinds) for cause in chain)

        no_name = caused_by(urllib3.NameResolutionError)
        resolver_busy = any(isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN for cause in chain)
        refused = caused_by(urllib3.NewConnectionError)
        no_connection = refused or caused_by(urllib3.ConnectTimeoutError)
        broken = (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError, urllib3.HTTPError)
        detail = excerpt(str(chain[-1]))

        self.was_never_sent = no_connection and (resolver_busy or not no_name)
        """Nothing was done, and another attempt may be."""
        self.may_pass = isinstance(error, broken)
        """Another attempt may be answered, and something may have been done."""
        self._remedy = "check `{endpoint_key}` and that the service is up" if no_connection else ""
        if isinstance(error, exceptions.SSLError):
            self.was_never_sent = self.may_pass = False
            self.problem = f"no trusted TLS connection to {address}: {detail}"
            self._remedy = "check `{endpoint_key}` (https or http), or name your authority's file in REQUESTS_CA_BUNDLE"
        elif isinstance(error, exceptions.ProxyError):
            self.may_pass = False
            self.problem = f"the proxy on the way to {address} does not let it through: {detail}"
            self._remedy = "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
        elif no_name:
            self.may_pass = False
            self.problem = f"the host of {address} is not known: {detail}"
        elif no_connection and not refused:
            self.problem = f"no connection to {address} within {timeouts[0]:g} s"
        elif caused_by(SlowAnswerError):
            self.may_pass = False
            self.problem = too_slow(address, seconds)
        elif isinstance(error, (exceptions.ReadTimeout, urllib3.ReadTimeoutError)):
            self.problem = f"no answer from {address} within {timeouts[1]:g} s"
        else:
            self.problem = f"no answer from {address}: {detail}"

    def remedy(self, endpoint_key: str, *, repeatable: bool) -> str:
        """Return what to do about it."""
        if self._remedy:
            return self._remedy.format(endpoint_key=endpoint_key)
        if repeatable:
            return "check that the service is up, and run again"
        return "whether it was carried out is not known: run again, which goes on from what is there"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and its causes, outermost first; each once."""
    seen: set[int] = set()
    todo: BaseException | None = error
    while todo is not None and id(todo) not in seen:
        seen.add(id(todo))
        yield todo
        nested = [getattr(todo, "reason", None), *todo.args, todo.__cause__, todo.__context__]
        todo = next((cause for cause in nested if isinstance(cause, BaseException) and id(cause) not in seen), None)
