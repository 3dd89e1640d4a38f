"""Listen on an address, serve an application with uvicorn, and stop gracefully."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from reconciler.model.collector import collector_of_server
from reconciler.model.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn


_LARGEST_HEAD = 64 * 1024
_BACKLOG = 128
"""How many connections are accepted at a time; asyncio 3.11 logs an error for each when files run out."""
_IDLE_SECONDS = 30
"""How long an idle connection stays open."""
_HEALTH_SECONDS = 10
"""How long one of several processes may take to say that it runs; then it is replaced."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address at which a server listens; port 0 is any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, port: int) -> str:
        """Return the address as a client writes it."""
        return f"http://[{self.host}]:{port}" if ":" in self.host else f"http://{self.host}:{port}"

    def own_names(self, names: Collection[str] = ()) -> frozenset[str] | None:
        """Return the names that a Host header may have; None for any.

        They are ``names``, and on loopback those of this machine. If there are none, the server cannot know under which
        names clients reach it, so any is accepted.
        """
        loopback = {"localhost", "127.0.0.1", "[::1]", self.host, f"[{self.host}]"} if self.is_loopback else set()
        return frozenset({*loopback, *(name.lower() for name in names)}) or None


def uvicorn_config(
    app: ASGIApp | Callable[[], ASGIApp], grace_seconds: float = 0, workers: int | None = None
) -> uvicorn.Config:
    """Return the configuration of uvicorn, which leaves limiting slow clients to a proxy.

    With ``workers``, ``app`` makes the application of each of that many processes.
    """
    import uvicorn

    return uvicorn.Config(
        app,
        http="h11",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(grace_seconds),
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        ws="none",
        factory=workers is not None,
        workers=workers,
        timeout_worker_healthcheck=_HEALTH_SECONDS,
    )


def run(app: ASGIApp, address: ListenAddress, *, grace_seconds: float, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; running requests get ``grace_seconds`` to end.

    ``started`` is called with the URL once the server listens. A second signal ends it at once.

    Raises:
        ConfigError: the server cannot listen on the address.
    """
    import uvicorn

    with open_listener(address) as listener:
        config = uvicorn_config(app, grace_seconds)
        started(address.url(listener.getsockname()[1]))
        with _ignore_repeated_signal(), collector_of_server():
            uvicorn.Server(config).run(sockets=[listener])


@contextlib.contextmanager
def open_listener(address: ListenAddress) -> Iterator[socket.socket]:
    """Yield a socket that listens on ``address``."""
    with contextlib.ExitStack() as stack:
        try:
            addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address_to_bind = addresses[0]
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address_to_bind)
            listener.listen(1024)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ConfigError(f"cannot listen on {address.host} port {address.port}: {reason}") from None
        yield listener


@contextlib.contextmanager
def _ignore_repeated_signal() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after it has stopped."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
