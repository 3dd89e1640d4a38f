"""A metastore in this process, for what a real one does too rarely: breaking off, hanging, answering over TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.servers.listening import socket_server

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


StubT = TypeVar("StubT", bound=Stub)


@contextmanager
def stub(served: StubT, *, framed: bool = False, tls: ssl.SSLContext | None = None) -> Iterator[StubT]:
    """Serve until the block ends; ``served.port`` says where."""

    def one(connection: socket.socket) -> None:
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        with served._lock:
            served.connections += 1
        with connection:
            _serve(connection, served, framed)

    with socket_server(one, served.port) as served.port:
        yield served


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
