"""Servers in the threads of a test: one that gets bare connections, and one that speaks HTTP."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["HttpServer", "http_server", "silent", "socket_server"]

_BACKLOG = 128
_POLL_SECONDS = 0.01


@contextmanager
def socket_server(each: Callable[[socket.socket], None], port: int = 0) -> Iterator[int]:
    """Call ``each`` with every connection, in a thread of its own, and close it after that; yields the port.

    Connections that are still open at the end of the block are shut down.
    """
    opened: set[socket.socket] = set()

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            each(connection)
        opened.discard(connection)

    with socket.create_server(("127.0.0.1", port), backlog=_BACKLOG) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    opened.add(connection)
                    threading.Thread(target=one, args=(connection,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in list(opened):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def silent(connection: socket.socket) -> None:
    """Say nothing for as long as the other side keeps the connection."""
    while connection.recv(65536):
        pass


class HttpServer(ThreadingHTTPServer):
    """A server in the threads of a test, which says nothing of clients that hang up.

    What it printed would stand among the output of the command that runs in the same process.
    """

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what a handler raised, unless the client hung up or refused the certificate."""
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)


@contextmanager
def http_server(
    handler: type[BaseHTTPRequestHandler], *, tls: ssl.SSLContext | None = None, **attributes: object
) -> Iterator[str]:
    """Serve HTTP with ``handler``, which gets ``attributes`` and prints no log; yields the address.

    With Nagle's algorithm, the content of an answer would wait 40 ms for the client to confirm its headers.
    """
    quiet = {"log_message": lambda *_: None, "disable_nagle_algorithm": True, **attributes}
    server = HttpServer(("127.0.0.1", 0), type("Handler", (handler,), quiet))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
