"""Whether and when a failed request is sent again, and why no answer came."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from reconciler.backends.http.limits import SlowAnswerError, too_slow
from reconciler.backends.http.rate_limit import Clock, RateLimit
from reconciler.backends.http.refusals import excerpt

UNAVAILABLE = 503
THROTTLED = frozenset({429, UNAVAILABLE})
"""The service refuses for its load. 429 says that nothing was done, 503 only together with ``Retry-After``."""
_MAY_PASS = frozenset({502, 503, 504})
"""Failures that may pass, and that leave open whether anything was done."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a request is sent again; all times in seconds.

    ``max_retries``: how often a request is sent again after failures, with full jitter; 0 for never, throttled or not.
    ``max_wait``: how long a throttled request is sent again without progress; a longer ``Retry-After`` is an error.
    ``base``, ``cap``: the first and the longest backoff that a pause is drawn from.
    ``clock``: the time, pauses and random numbers.
    """

    max_retries: int = 3
    max_wait: float = 300.0
    base: float = 0.5
    cap: float = 20.0
    clock: Clock = field(default_factory=Clock)

    def wait(self, attempt: int) -> float | None:
        """Return the pause after failed attempt ``attempt`` (from 0); None to give up."""
        if attempt >= self.max_retries:
            return None
        return self.clock.uniform(0.0, min(self.cap, self.base * 2**attempt))

    def seconds(self, retry_after: str | None) -> float | None:
        """Return the pause that a ``Retry-After`` asks for in seconds or as a date; None for one that cannot be read.

        It gets a little jitter, so that clients that were given the same moment do not all come back at once.
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
        """How often the request is sent again by now."""

    def begin(self) -> None:
        """Wait until the next attempt may be sent."""
        self._sent_at = self._limit.wait()

    def accepted(self) -> None:
        """Note that the service took the request, whatever it answered."""
        self._limit.accepted(self._sent_at)

    def refused(self, retry_after: float | None = None) -> None:
        """Note that the service refused the request for its load."""
        self._limit.refused(self._sent_at, retry_after)

    def again_when_throttled(self, retry_after: float | None = None, *, is_progress_shared: bool = True) -> bool:
        """Return whether the refused request is sent again; the limit makes it wait.

        ``is_progress_shared``: other requests that the service accepts meanwhile count as progress. They say nothing
        where a refusal may be about the object alone.
        """
        now = self._policy.clock.monotonic()
        if self._refused_at is None:
            self._refused_at = now
        since = max(self._refused_at, self._limit.accepted_at) if is_progress_shared else self._refused_at
        if self._policy.max_retries == 0 or now + (retry_after or 0.0) - since > self._policy.max_wait:
            return False
        self.repeats += 1
        return True

    def again_after_failure(self) -> bool:
        """Wait after a failure that may pass; return whether the request is sent again."""
        pause = self._policy.wait(self._failures)
        if pause is None:
            return False
        self._failures += 1
        self.repeats += 1
        self._policy.clock.sleep(pause)
        return True

    def again_after(self, status: int, retry_after: str | None, *, repeatable: bool) -> bool:
        """Note the status of an answer other than success; return whether the request can be sent again safely.

        ``repeatable``: the request itself can be sent again whatever happened to it.
        """
        if status in THROTTLED:
            pause = self._policy.seconds(retry_after)
            self.refused(pause)
            was_not_begun = status != UNAVAILABLE or retry_after is not None
            return (was_not_begun or repeatable) and self.again_when_throttled(
                pause, is_progress_shared=status != UNAVAILABLE
            )
        if status not in _MAY_PASS:
            self.accepted()
        return status in _MAY_PASS and repeatable and self.again_after_failure()


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
