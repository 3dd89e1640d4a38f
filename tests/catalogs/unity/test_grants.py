"""The least that plan and apply need of Unity, as the real server enforces it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.applier.report import Status
from reconciler.backends.unity import UnityBackend
from reconciler.manifest import Manifest
from reconciler.model.live import LiveTable
from tests.servers.unity import Grants, guarded_server, required_home
from tests.servers.unity_contract import API, lance_entry
from tests.writing import load_manifest

COLUMNS = [{"name": "id", "type": "int64"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grants]:
    with guarded_server(required_home(), tmp_path_factory.mktemp("guarded")) as server:
        yield server


def _wanting(server: Grants, folder: Path, token: str, schemas: object, catalog: str = "main") -> Manifest:
    config = {"endpoint": server.server.url, "catalog": catalog, "auth_token": token, "root": str(folder / "lake")}
    namespaces = {catalog: {"namespaces": schemas}}
    lake = {"impl": "unity", "config": config, "namespaces": namespaces}
    return load_manifest(folder, {"lake": lake}, name="shop")


def _catalog(server: Grants, name: str, folder: Path) -> None:
    """Make a catalog with a table of others."""
    server.ask("POST", f"{API}/catalogs", {"name": name})
    server.ask("POST", f"{API}/schemas", {"name": "a", "catalog_name": name})
    names = {"name": "theirs", "catalog_name": name, "schema_name": "a", "table_type": "EXTERNAL"}
    entry = {**lance_entry("a", "theirs"), "storage_location": (folder / "lake/theirs").as_uri()}
    server.ask("POST", f"{API}/tables", {"data_source_format": "TEXT", **names, **entry})


def _scan(server: Grants, token: str) -> list[LiveTable]:
    backend = UnityBackend(endpoint=server.server.url, catalog="main", auth_token=token)
    return sorted(backend.scan().tables.values(), key=lambda table: table.id)


def test_the_least_privileges(server: Grants, tmp_path: Path) -> None:
    """Those of the table in the documentation, and no more."""
    place = tmp_path / "lake/main/a/there.lance"
    lance.write_dataset(pa.table({"id": [1]}), str(place))
    _catalog(server, "main", tmp_path)
    planner, applier = server.user("planner@example.com"), server.user("applier@example.com")
    for who in ("planner@example.com", "applier@example.com"):
        server.grant(who, "catalog", "main", "USE CATALOG")
        server.grant(who, "schema", "main.a", "USE SCHEMA")
        server.grant(who, "table", "main.a.theirs", "SELECT")
    server.grant("applier@example.com", "catalog", "main", "CREATE SCHEMA", "USE SCHEMA")
    server.grant("applier@example.com", "schema", "main.a", "CREATE TABLE")

    tables = {"users": {"schema": COLUMNS}, "there": {}, "later": {}}
    wanted = {"a": {"tables": tables}, "b": {"properties": {"team": "ml"}, "tables": {"orders": {"schema": COLUMNS}}}}
    manifest = _wanting(server, tmp_path, planner, wanted)
    plan = reconciler.plan(manifest)
    assert len(plan.changes) == 5
    refused = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
    assert {result.status for result in refused.results} == {Status.FAILED, Status.SKIPPED}
    assert "403: PERMISSION_DENIED" in refused.results[0].message

    manifest = _wanting(server, tmp_path, applier, wanted)
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok
    assert reconciler.plan(manifest).is_empty
    changed: dict[str, object] = {"a": {"tables": {"there": {}}}, "b": {"properties": {"team": "ai"}, "tables": {}}}
    fewer: dict[str, object] = {"a": {"tables": {"there": {}}}}
    for namespaces in (changed, fewer):
        manifest = _wanting(server, tmp_path, applier, namespaces)
        assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok
        assert reconciler.plan(manifest).is_empty
    assert [table.id for table in _scan(server, applier)] == [("main", "a", "theirs"), ("main", "a", "there")]
    assert [table.id for table in _scan(server, planner)] == [("main", "a", "theirs")]


def test_a_schema_that_its_owner_may_not_use_is_not_taken_for_missing(server: Grants, tmp_path: Path) -> None:
    """The server lists it for nobody but who may use it; who made it only reads it by its name."""
    _catalog(server, "half", tmp_path)
    owner = server.user("owner@example.com")
    server.grant("owner@example.com", "catalog", "half", "USE CATALOG", "CREATE SCHEMA")
    manifest = _wanting(server, tmp_path, owner, {"b": {"properties": {"team": "ml"}}}, "half")
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok
    (again,) = reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").results
    assert again.status is Status.FAILED
    assert again.message.startswith("unity: namespace `half$b` is there, ")
    assert "grant `USE SCHEMA`" in again.message
    server.grant("owner@example.com", "schema", "half.b", "USE SCHEMA")
    assert reconciler.plan(manifest).is_empty
