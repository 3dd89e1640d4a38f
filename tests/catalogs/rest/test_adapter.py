"""What pylance's RestAdapter does otherwise than the specification says, row by row, and what becomes of it here."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest, errors

from reconciler.backends.rest import RestBackend
from reconciler.model.errors import (
    InternalError,
    UnsupportedOperationError,
)
from reconciler.model.live import PropertyChanges
from reconciler.namespace import CatalogNamespace
from tests.catalogs.rest.conftest import Server

DATA = pa.table({"id": [1, 2, 3]})


def test_overwriting_a_namespace_is_unsupported_and_changes_nothing(pylance_adapter: Server) -> None:
    backend = pylance_adapter.connect()
    backend.insert_namespace(("a",), {"owner": "me"})
    with pytest.raises(errors.UnsupportedOperationError, match="cannot be changed"):
        CatalogNamespace(backend).create_namespace(
            CreateNamespaceRequest(id=["a"], mode="overwrite", properties={"owner": "you"})
        )
    with pytest.raises(UnsupportedOperationError, match="cannot be changed"):
        backend.alter_namespace(("a",), PropertyChanges({"owner": "you"}))
    assert backend.load_namespace(("a",)).properties == {"owner": "me"}


def test_properties_that_it_loses_are_an_error_unless_that_is_known(pylance_adapter: Server) -> None:
    backend = pylance_adapter.connect()
    backend.insert_namespace(("a",), {})
    place = f"{pylance_adapter.root}/a/t.lance"
    with pytest.raises(UnsupportedOperationError, match=r"`tier` of table `a\$t`; .*`table_properties`"):
        pylance_adapter.connect(table_properties="true").insert_table(("a", "t"), place, {"tier": "gold"})
    assert backend.child_tables(("a",)) == []
    assert backend.insert_table(("a", "t"), place, {"tier": "gold"}).properties == {}


def test_the_server_chooses_the_place_where_no_root_is_known(pylance_adapter: Server) -> None:
    backend = pylance_adapter.connect(table_properties="true")
    backend.insert_namespace(("a",), {})
    rootless = RestBackend(uri=pylance_adapter.config["uri"])
    answer = CatalogNamespace(rootless).declare_table(DeclareTableRequest(id=["a", "t"], properties={"tier": "gold"}))
    assert Path((answer.location or "").removeprefix("file://")).parent == pylance_adapter.root
    assert rootless.load_table(("a", "t")).properties == {"tier": "gold"}
    lance.write_dataset(DATA, namespace_client=CatalogNamespace(rootless), table_id=["a", "written"])
    assert lance.dataset(namespace_client=CatalogNamespace(rootless), table_id=["a", "written"]).count_rows() == 3


def test_a_root_table_that_comes_back_is_reported(pylance_adapter: Server) -> None:
    backend = RestBackend(uri=pylance_adapter.config["uri"])
    CatalogNamespace(backend).declare_table(DeclareTableRequest(id=["t"]))
    with pytest.raises(InternalError, match="table `t` is deregistered, and still"):
        backend.remove_table(("t",))


def test_an_entry_it_takes_and_does_not_show_is_an_error(pylance_adapter: Server) -> None:
    with pytest.raises(InternalError, match="entry of table `t`"):
        pylance_adapter.connect().insert_table(("t",), str(pylance_adapter.root / "t.lance"), {})
