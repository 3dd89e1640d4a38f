"""A metastore in this process, for what a real one does too rarely: breaking off, hanging, answering over TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Stub", "stub"]


@dataclass
class Stub:
    """Answers ``get_databases`` and ``drop_table``, and remembers what it was asked.

    ``behave`` is called before each answer; a TTransportException it raises breaks the connection off.
    """

    name: str = "stub"
    asked: list[str] = field(default_factory=list)
    connections: int = 0
    most_at_once: int = 0
    behave: Callable[[str], object] = lambda _: None
    port: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get_databases(self, pattern: str) -> list[str]:
        self._ask("get_databases")
        return [self.name, pattern]

    def drop_table(self, dbname: str, name: str, delete_data: bool) -> None:
        self._ask("drop_table")

    def set_ugi(self, user_name: str, group_names: list[str]) -> list[str]:
        self._ask(f"set_ugi {user_name} {','.join(group_names)}")
        return group_names

    def _ask(self, call: str) -> None:
        with self._lock:
            self.asked.append(call)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            self.behave(call)
        finally:
            with self._lock:
                self._now -= 1


@contextmanager
def stub(served: Stub, *, framed: bool = False, tls: ssl.SSLContext | None = None) -> Iterator[Stub]:
    """Serve until the block ends; ``served.port`` says where."""
    with socket.create_server(("127.0.0.1", served.port)) as listener:
        served.port = listener.getsockname()[1]
        open_connections: list[socket.socket] = []
        accepting = threading.Thread(target=_accept, args=(listener, served, framed, tls, open_connections))
        accepting.start()
        try:
            yield served
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            for connection in open_connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
            accepting.join()


def _accept(
    listener: socket.socket, served: Stub, framed: bool, tls: ssl.SSLContext | None, kept: list[socket.socket]
) -> None:
    threads = []
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        with suppress(OSError):
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            kept.append(connection)
            served.connections += 1
            threads.append(threading.Thread(target=_serve, args=(connection, served, framed)))
            threads[-1].start()
    for thread in threads:
        thread.join()


def _serve(connection: socket.socket, served: Stub, framed: bool) -> None:
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

    from reconciler.backends.hive.gen.ThriftHiveMetastore import Processor

    carrier = TSocket()
    carrier.setHandle(connection)
    transport: Any = TFramedTransport(carrier) if framed else TBufferedTransport(carrier)
    protocol = TBinaryProtocol(transport)
    processor = Processor(served)
    with suppress(TException, OSError, EOFError):
        while True:
            processor.process(protocol, protocol)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
