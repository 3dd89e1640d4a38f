"""Entries for data that is somewhere, on a server that puts them elsewhere and is not known to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DescribeTableRequest,
    LanceNamespace,
    ListTablesRequest,
    RegisterTableRequest,
    errors,
)

import reconciler
from reconciler.backends.iceberg import IcebergBackend, routes
from reconciler.backends.rest import RestBackend
from reconciler.manifest import Manifest
from reconciler.model.errors import UnsupportedOperationError
from reconciler.model.live import LiveTable, PropertyChanges
from reconciler.model.names import Identifier
from reconciler.server.catalogs import OneCatalog
from tests.catalogs.iceberg.conftest import Catalog
from tests.servers.lance_rest import served
from tests.writing import load_manifest


@pytest.fixture
def unknown(on_nessie: Catalog, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Nessie, by whose answers nobody recognizes it."""
    monkeypatch.setattr(routes, "NESSIE", "not.what.it.says")
    return on_nessie


def _wanting(catalog: Catalog, tmp_path: Path, space: str, *, tables: object = None, mirror: object = None) -> Manifest:
    block = {"properties": {"team": "ml"}, "tables": tables or {}}
    ice: dict[str, object] = {
        "impl": "iceberg",
        "config": {**catalog.config, "root": catalog.root},
        "scope": [f"{catalog.warehouse}/{space}", f"{catalog.warehouse}/{space}/**"],
        "namespaces": {catalog.warehouse: {"namespaces": {space: block}}},
    }
    catalogs = {"ice": ice | ({"mirror": mirror} if mirror else {})}
    if mirror:
        catalogs["lake"] = {"impl": "dir", "config": {"root": str(tmp_path / "lake")}, "prune": "never"}
    return load_manifest(tmp_path, catalogs)


@pytest.mark.parametrize("through", ["a block", "a mirror"])
def test_an_entry_for_data_that_the_server_puts_elsewhere_is_taken_back(
    unknown: Catalog, tmp_path: Path, through: str
) -> None:
    space = f"s{tmp_path.name.replace('-', '_').lower()}"
    place = tmp_path / "lake/users.lance"
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), str(place))
    if through == "a block":
        manifest = _wanting(unknown, tmp_path, space, tables={"users": {"location": str(place)}})
    else:
        mirror = {"from": "lake", "into": [unknown.warehouse, space]}
        manifest = _wanting(unknown, tmp_path, space, mirror=mirror)
    plan = reconciler.plan(manifest)
    report = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
    (failed,) = [result for result in report.results if not result.status.satisfies]
    assert failed.change.address == f"ice/{unknown.warehouse}/{space}/users"
    assert failed.message.startswith("the service put it at s3://")
    assert f", not at {place}, " in failed.message
    assert "taken back" in failed.message
    assert unknown.call("GET", f"/namespaces/{space}/tables")["identifiers"] == []
    assert lance.dataset(str(place)).count_rows() == 3
    # The same again, and nothing heaps up.
    assert [change.address for change in reconciler.plan(manifest).changes] == [failed.change.address]


def _registered(catalog: Catalog, namespace: LanceNamespace, tmp_path: Path, place: str, mode: str) -> list[str]:
    """Ask to register ``place``, which is refused; return the names of the tables that there are then."""
    space = f"o{tmp_path.name.lower()}"
    identifier = [catalog.warehouse, space, "users"]
    namespace.create_namespace(CreateNamespaceRequest(id=identifier[:-1]))
    before = None
    if mode == "overwrite":
        before = namespace.declare_table(DeclareTableRequest(id=identifier, properties={"tier": "gold"}))
    with pytest.raises(errors.UnsupportedOperationError):
        namespace.register_table(RegisterTableRequest(id=identifier, location=place, mode=mode, properties={"k": "v"}))
    if before is not None:
        found = namespace.describe_table(DescribeTableRequest(id=identifier))
        kept = found.properties or {}
        assert (found.location, kept.get("k"), kept["tier"]) == (before.location, None, "gold")
    return namespace.list_tables(ListTablesRequest(id=identifier[:-1])).tables


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("mode", ["create", "overwrite"])
def test_no_entry_is_registered_for_other_data(
    on_nessie: Catalog,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_known: bool,
    mode: str,
) -> None:
    """Nothing is sent to a server that is known to choose places; what another one has entered is taken back."""
    catalog = on_nessie if is_known else request.getfixturevalue("unknown")
    asked: list[str] = []
    genuine = IcebergBackend.insert_table

    def insert_table(
        self: IcebergBackend, identifier: Identifier, location: str, properties: Mapping[str, str]
    ) -> LiveTable:
        asked.append(location)
        return genuine(self, identifier, location, properties)

    monkeypatch.setattr(IcebergBackend, "insert_table", insert_table)
    place = tmp_path / "users.lance"
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), place)
    namespace = reconciler.connect("iceberg", {**catalog.config, "root": catalog.root})
    assert _registered(catalog, namespace, tmp_path, str(place), mode) == ["users"] * (mode == "overwrite")
    assert (str(place) in asked) is not is_known
    assert lance.dataset(place).count_rows() == 3


def test_a_server_refuses_places_where_its_catalog_chooses_them(on_nessie: Catalog, tmp_path: Path) -> None:
    with served(OneCatalog(on_nessie.connect())) as url:
        namespace = lance_namespace.connect("rest", {"uri": url})
        place = f"{on_nessie.root}/users.lance"
        assert _registered(on_nessie, namespace, tmp_path, place, "overwrite") == ["users"]
        identifier = (on_nessie.warehouse, f"o{tmp_path.name.lower()}", "users")
        client = RestBackend(uri=url)
        before = client.load_table(identifier)
        with pytest.raises(UnsupportedOperationError):
            client.alter_table(identifier, PropertyChanges({"k": "v"}), place)
        after = client.load_table(identifier)
        assert (after.location, "k" in after.properties) == (before.location, False)
