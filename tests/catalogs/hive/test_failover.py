"""Several metastores of one installation: a real one behind others that only look as if they answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.catalogs.hive.conftest import Connect
from tests.servers.hive import Metastore


@contextmanager
def _accepting(*, closes: bool) -> Iterator[int]:
    """Give the port of something that takes connections and never answers: a load balancer with nothing behind it."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])
                    if closes:
                        kept.pop().close()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for connection in kept:
                connection.close()
            accepting.join()


@pytest.mark.parametrize("closes", [True, False], ids=["closes", "hangs"])
def test_the_metastore_that_answers_does_the_work(server: Metastore, connect: Connect, *, closes: bool) -> None:
    with _accepting(closes=closes) as port:
        backend = connect(uri=f"thrift://127.0.0.1:{port},{server.uri}", **{"client.connect-timeout": "3"})
        name = ("failover",) if server.impl == "hive2" else ("hive", "failover")
        backend.insert_namespace(name, {"owner": "ads"})  # a write, on the first connection of all
        assert backend.load_namespace(name).properties["owner"] == "ads"
        backend.remove_namespace(name)
        assert name not in backend.scan().namespaces
