"""Connections with an end to every wait: for a request's head, for its body, for a client that reads its answer."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.server.settings import MOST_REQUESTS

__all__ = ["BACKLOG", "Waits", "protocol", "room"]

BACKLOG = 128
"""How many connections are taken at a time, before the oldest of those there are can be closed for them."""

_OWN_FILES = 64 + BACKLOG
_LATE = b'{"error":"the request did not come in time","code":17}'
_TIMED_OUT = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_LATE), _LATE)
)
"""What a request gets that stops before its end, on the wire: there is no request yet that could be answered."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long is waited, in seconds.

    ``head``: for the whole head of a request, from the connection or the end of the last one; ``idle``: for a next
    request; ``whole``: for a request from the end of its head until all of its answer has been taken, its body
    included.
    """

    head: float = 10.0
    idle: float = 30.0
    whole: float = 90.0


def room() -> int:
    """Return how many connections there can be: each takes a file of those this process may open."""
    with contextlib.suppress(ImportError):  # not on Windows, where files are not counted so
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if allowed != resource.RLIM_INFINITY:
            return max(16, min(MOST_REQUESTS, allowed - _OWN_FILES))
    return MOST_REQUESTS


def protocol(waits: Waits, most: int) -> type[H11Protocol]:
    """Return the protocol of a server; of more than ``most`` connections, those go first that wait for a request."""
    waiting: dict[_Timed, None] = {}

    class Bound(_Timed):
        """A connection of this server."""

        _waits, _most, _waiting = waits, most, waiting

    return Bound


class _Timed(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, which times nothing but the pause between an answer and the next request."""

    _waits: Waits
    _most: int
    _waiting: dict[_Timed, None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._in_request = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most and self._waiting:
            next(iter(self._waiting)).drop()
        self._waiting[self] = None
        self._wait(self._waits.head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Set the clock for what is waited for now; a clock that runs is not set again by a little more of it."""
        if self.transport.is_closing():
            self._stop()
        elif self.conn.their_state is not h11.IDLE:
            if not self._in_request:
                self._in_request = True
                self._waiting.pop(self, None)
                self._wait(self._waits.whole)
        elif self._in_request:  # all of it was read and answered: uvicorn's own clock runs until a next one begins
            self._in_request = False
            self._waiting[self] = None
            self._stop()
        elif self._timer is None:
            self._wait(self._waits.head)

    def _wait(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._over)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        if not self._in_request and not self.transport.is_closing():
            self.transport.write(_TIMED_OUT)
            self.transport.close()
        else:
            self.drop()

    def drop(self) -> None:
        """Close the connection at once."""
        self._waiting.pop(self, None)
        self.transport.abort()
