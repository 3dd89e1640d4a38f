"""Decide whether and when a failed request is retried."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from reconciler.backends.http.limits import SlowAnswerError, slow_answer_message
from reconciler.backends.http.rate_limit import Clock, RateLimit
from reconciler.backends.http.refusals import excerpt

UNAVAILABLE = 503
THROTTLED = frozenset({429, UNAVAILABLE})
"""Statuses of an overloaded service. 429 means that nothing was done, 503 only with ``Retry-After``."""
_TRANSIENT_STATUSES = frozenset({502, 503, 504})
"""Statuses of failures that may be transient, and after which the request may have been carried out."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The limits of retries; all times in seconds.

    ``max_retries``: how often a request is retried after failures, with full jitter; 0 also forbids the retries of
    throttled requests. ``max_wait``: how long a throttled request is retried while the service accepts no other; a
    longer ``Retry-After`` is an error. ``base``, ``cap``: the upper bounds of the first and of the longest pause.
    ``clock``: the time, pauses and random numbers.
    """

    max_retries: int = 3
    max_wait: float = 300.0
    base: float = 0.5
    cap: float = 20.0
    clock: Clock = field(default_factory=Clock)

    def backoff(self, attempt: int) -> float | None:
        """Return the backoff after failed attempt ``attempt`` (from 0); None to give up."""
        if attempt >= self.max_retries:
            return None
        return self.clock.uniform(0.0, min(self.cap, self.base * 2**attempt))

    def requested_pause(self, retry_after: str | None) -> float | None:
        """Parse a ``Retry-After``, seconds or a date; return the pause, or None.

        Jitter is added, so that clients with the same ``Retry-After`` do not return at the same moment.
        """
        text = (retry_after or "").strip()
        try:
            pause = float(text) if text.isascii() and text.isdigit() else self._until(text)
        except (ValueError, OverflowError):
            return None
        return pause + self.clock.uniform(0.0, self.base)

    def _until(self, date: str) -> float:
        return max(0.0, parsedate_to_datetime(date).timestamp() - self.clock.now())


class Attempts:
    """The attempts of one request, within a policy and the rate limit of its service."""

    def __init__(self, policy: RetryPolicy, limit: RateLimit) -> None:
        self._policy = policy
        self._limit = limit
        self._failures = 0
        self._sent_at = 0.0
        self._refused_at: float | None = None
        self.repeats = 0
        """How often the request has been retried."""

    def begin(self) -> None:
        """Wait until the rate limit lets the next attempt be sent."""
        self._sent_at = self._limit.wait()

    def accepted(self) -> None:
        """Record that the service was not overloaded, whatever its response."""
        self._limit.accepted(self._sent_at)

    def refused(self, retry_after: float | None = None) -> None:
        """Record that the service refused the request because of its load."""
        self._limit.refused(self._sent_at, retry_after)

    def may_retry_throttled(self, retry_after: float | None = None, *, is_progress_shared: bool = True) -> bool:
        """Return whether to retry a throttled request; :meth:`begin` then waits.

        ``is_progress_shared``: accepted requests of other callers extend the time for retries. They must not if the
        service may refuse this object alone.
        """
        now = self._policy.clock.monotonic()
        if self._refused_at is None:
            self._refused_at = now
        since = max(self._refused_at, self._limit.accepted_at) if is_progress_shared else self._refused_at
        if self._policy.max_retries == 0 or now + (retry_after or 0.0) - since > self._policy.max_wait:
            return False
        self.repeats += 1
        return True

    def wait_to_retry(self) -> bool:
        """Wait after a transient failure; return whether to retry the request."""
        pause = self._policy.backoff(self._failures)
        if pause is None:
            return False
        self._failures += 1
        self.repeats += 1
        self._policy.clock.sleep(pause)
        return True

    def may_retry(self, status: int, retry_after: str | None, *, repeatable: bool) -> bool:
        """Record an unsuccessful status, and wait; return whether to retry the request.

        ``repeatable``: the request is safe to send again even if it was carried out.
        """
        if status in THROTTLED:
            pause = self._policy.requested_pause(retry_after)
            self.refused(pause)
            was_not_begun = status != UNAVAILABLE or retry_after is not None
            return (was_not_begun or repeatable) and self.may_retry_throttled(
                pause, is_progress_shared=status != UNAVAILABLE
            )
        if status not in _TRANSIENT_STATUSES:
            self.accepted()
        return status in _TRANSIENT_STATUSES and repeatable and self.wait_to_retry()


class NoAnswer:
    """Classifies an error of requests, urllib3 or a socket: no response came.

    Args:
        error: the exception of requests, urllib3 or the socket.
        address: the URL of the service.
        timeouts: the limits of the connection and of each wait for data, in seconds.
        seconds: the limit of the whole response.
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
        """The request was not carried out, and a retry may succeed."""
        self.is_transient = isinstance(error, broken)
        """A retry may succeed; the request may have been carried out."""
        self._remedy = "check `{endpoint_key}` and that the service is up" if no_connection else ""
        if isinstance(error, exceptions.SSLError):
            self.was_never_sent = self.is_transient = False
            self.problem = f"no trusted TLS connection to {address}: {detail}"
            self._remedy = "check `{endpoint_key}` (https or http), or name your authority's file in REQUESTS_CA_BUNDLE"
        elif isinstance(error, exceptions.ProxyError):
            self.is_transient = False
            self.problem = f"the proxy on the way to {address} does not let it through: {detail}"
            self._remedy = "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
        elif no_name:
            self.is_transient = False
            self.problem = f"the host of {address} is not known: {detail}"
        elif no_connection and not refused:
            self.problem = f"no connection to {address} within {timeouts[0]:g} s"
        elif caused_by(SlowAnswerError):
            self.is_transient = False
            self.problem = slow_answer_message(address, seconds)
        elif isinstance(error, (exceptions.ReadTimeout, urllib3.ReadTimeoutError)):
            self.problem = f"no answer from {address} within {timeouts[1]:g} s"
        else:
            self.problem = f"no answer from {address}: {detail}"

    def remedy(self, endpoint_key: str, *, repeatable: bool) -> str:
        """Return what the user can do, as a clause of the error."""
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
