"""A TCP proxy for Thrift that goes away at one call, as a client that is killed or a network that fails does."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

__all__ = ["CuttingProxy", "cutting_proxy"]

_STRICT_CALL = b"\x80\x01"
_MOST = 1 << 20


@dataclass
class CuttingProxy:
    """Passes calls on until the one with the number ``cut_at``, and none from then on.

    ``reply_lost``: that call still reaches the server, which carries it out; only the answer is lost. ``calls`` are
    the names of the calls that came since the last ``reset``.
    """

    target: int
    port: int = 0
    cut_at: int | None = None
    reply_lost: bool = False
    calls: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self, cut_at: int | None = None, *, reply_lost: bool = False) -> None:
        """Count from the start again, and go away at call number ``cut_at``, the first being 0."""
        with self._lock:
            self.cut_at, self.reply_lost, self.calls = cut_at, reply_lost, []

    def came(self, message: bytes) -> tuple[bool, bool]:
        """Note a call; return whether it is passed on, and whether its answer is."""
        with self._lock:
            number = len(self.calls)
            self.calls.append(_name(message))
            if self.cut_at is None or number < self.cut_at:
                return True, True
            return number == self.cut_at and self.reply_lost, False


def _name(message: bytes) -> str:
    if not message.startswith(_STRICT_CALL):
        return "?"
    length = int.from_bytes(message[4:8], "big")
    return message[8 : 8 + length].decode()


def _relay(client: socket.socket, proxy: CuttingProxy) -> None:
    """Pass on calls one after the other: all that the client sends before the server answers is one call.

    The rest of a long answer comes with nothing asked in between, so it is passed on before the next call.
    """
    with suppress(OSError), client, socket.create_connection(("127.0.0.1", proxy.target)) as server:
        asking, answered = False, True
        while True:
            ready, _, _ = select.select([client, server], [], [])
            if server in ready:
                piece = server.recv(_MOST)
                if not piece or not answered:
                    return
                client.sendall(piece)
                asking = False
            elif client in ready:
                piece = client.recv(_MOST)
                if not piece:
                    return
                if not asking:
                    passed_on, answered = proxy.came(piece)
                    if not passed_on:
                        return
                    asking = True
                server.sendall(piece)


@contextmanager
def cutting_proxy(target: int) -> Iterator[CuttingProxy]:
    """Run a proxy in front of the server on port ``target``; it passes all on unless ``reset`` says otherwise."""
    proxy = CuttingProxy(target)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy.port = listener.getsockname()[1]
        accepting = threading.Thread(target=_accept, args=(listener, proxy), daemon=True)
        accepting.start()
        try:
            yield proxy
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(listener: socket.socket, proxy: CuttingProxy) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_relay, args=(client, proxy), daemon=True).start()
