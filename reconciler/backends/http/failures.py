"""Why no answer came, in words, and whether the request can be sent again."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from reconciler.backends.http.limits import SlowAnswerError, too_slow
from reconciler.backends.http.refusals import excerpt


class NoAnswer:
    """Why no answer came: what requests, urllib3 and the socket say about it, put in order."""

    def __init__(self, error: Exception) -> None:
        from requests import exceptions
        from urllib3 import exceptions as urllib3
        from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

        chain = list(causes(error))
        self._innermost = chain[-1]
        self._no_name = any(isinstance(cause, NameResolutionError) for cause in chain)
        name_may_pass = any(isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN for cause in chain)
        refused = any(isinstance(cause, NewConnectionError) for cause in chain)
        no_connection = refused or any(isinstance(cause, ConnectTimeoutError) for cause in chain)
        self._connect_timeout = no_connection and not refused
        self._tls = isinstance(error, exceptions.SSLError)
        self._proxy = isinstance(error, exceptions.ProxyError)
        self._slow = any(isinstance(cause, SlowAnswerError) for cause in chain)
        self._read_timeout = isinstance(error, (exceptions.ReadTimeout, urllib3.ReadTimeoutError))
        broken = (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError, urllib3.HTTPError)
        self.was_never_sent = no_connection and not self._tls and (not self._no_name or name_may_pass)
        self.may_pass = isinstance(error, broken) and not (self._tls or self._proxy or self._no_name or self._slow)

    def explain(self, endpoint: str, timeouts: tuple[float, float], whole: float) -> str:
        """Return what happened."""
        detail = excerpt(str(self._innermost))
        if self._tls:
            return f"no trusted TLS connection to {endpoint}: {detail}"
        if self._proxy:
            return f"the proxy on the way to {endpoint} does not let it through: {detail}"
        if self._no_name:
            return f"the host of {endpoint} is not known: {detail}"
        if self._connect_timeout:
            return f"no connection to {endpoint} within {timeouts[0]:g} s"
        if self._slow:
            return too_slow(endpoint, whole)
        if self._read_timeout:
            return f"no answer from {endpoint} within {timeouts[1]:g} s"
        return f"no answer from {endpoint}: {detail}"

    def remedy(self, endpoint_key: str, repeatable: bool) -> str:
        """Return what to do about it."""
        if self._tls:
            return f"check `{endpoint_key}` (https or http), or name your authority's file in REQUESTS_CA_BUNDLE"
        if self._proxy:
            return "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
        if self._no_name or self.was_never_sent:
            return f"check `{endpoint_key}` and that the service is up"
        if repeatable:
            return "check that the service is up, and run again"
        return "whether it was carried out is not known: run again, which goes on from what is there"


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and what led to it, outermost first; each once."""
    seen: set[int] = set()
    todo: BaseException | None = error
    while todo is not None and id(todo) not in seen:
        seen.add(id(todo))
        yield todo
        nested = [getattr(todo, "reason", None), *todo.args, todo.__cause__, todo.__context__]
        todo = next((cause for cause in nested if isinstance(cause, BaseException) and id(cause) not in seen), None)
