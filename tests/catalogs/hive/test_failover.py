"""Several metastores of one installation: a real one behind others that only look as if they answered."""

from __future__ import annotations

import pytest

from tests.catalogs.hive.conftest import Connect
from tests.servers.hive import Metastore
from tests.servers.listening import silent, socket_server


@pytest.mark.parametrize("closes", [True, False], ids=["closes", "hangs"])
def test_the_metastore_that_answers_does_the_work(server: Metastore, connect: Connect, *, closes: bool) -> None:
    with socket_server((lambda _: None) if closes else silent) as port:
        backend = connect(uri=f"thrift://127.0.0.1:{port},{server.uri}", **{"client.connect-timeout": "3"})
        name = ("failover",) if server.impl == "hive2" else ("hive", "failover")
        backend.insert_namespace(name, {"owner": "ads"})  # a write, on the first connection of all
        assert backend.load_namespace(name).properties["owner"] == "ads"
        backend.remove_namespace(name)
        assert name not in backend.scan().namespaces
