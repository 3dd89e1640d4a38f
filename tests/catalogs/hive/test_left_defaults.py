"""The `default` that others make with a catalog, at the catalog's place and so above all its data."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconciler
from reconciler.backends.hive.entries import new_catalog
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model import locations
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.planner.plan import Plan
from tests.catalogs.hive.raw import entries, plain_table, put, raw
from tests.servers.hive import Metastore
from tests.writing import write_dataset


@pytest.fixture
def data(lake: str) -> Path:
    """The directory of somebody's database, with a dataset in it."""
    write_dataset(Path(lake, "data", "users"))
    return Path(lake, "data")


def _manifest(server: Metastore, folder: Path, lake: str, scope: Identifier) -> Path:
    file = folder / "lancens.yaml"
    file.write_text(f"""
version: 1
name: tidy
catalogs:
  lake:
    impl: {server.impl}
    config: {{uri: "thrift://127.0.0.1:{server.port}", root: {lake}, client.pool-size: "1"}}
    scope: ["{"/".join(scope)}", "{"/".join(scope)}/**"]
    prune: never
""")
    return file


def _plan(file: Path) -> Plan:
    return reconciler.plan(reconciler.load(file))


def _apply(plan: Plan, file: Path) -> reconciler.ApplyReport:
    return reconciler.apply(plan, reconciler.load(file), journal=file.parent / "journal", parallelism=1)


def _planned(plan: Plan) -> list[tuple[str, Identifier]]:
    return [(change.action.value, change.identifier) for change in plan.changes]


@pytest.fixture
def catalog(server: Metastore, lake: str, data: Path) -> Iterator[str]:
    """A catalog as other tools make it, with the database `default` that points at all its data."""
    from reconciler.backends.hive.gen.ttypes import CreateCatalogRequest, DropCatalogRequest

    if server.impl == "hive2":
        pytest.skip("2.x has no catalogs")
    name = f"cat_{uuid.uuid4().hex[:12]}"
    made = new_catalog(name, {"lancens.managed-by": "tidy/lake", "catalog.location-uri": lake})
    with raw(server.uri) as client:
        client.create_catalog(CreateCatalogRequest(made))
        assert locations.same(client.get_database(f"@{name}#default").locationUri, lake)
        yield name
        if "default" in client.get_databases(f"@{name}#*"):
            client.drop_database(f"@{name}#default", False, True)
        client.drop_catalog(DropCatalogRequest(name))


def test_it_is_nobodys(backend: Hive2Backend, catalog: str) -> None:
    assert backend.child_namespaces((catalog,)) == []
    assert (catalog, "default") not in backend.scan().namespaces


def test_a_change_of_its_catalog_points_it_elsewhere(
    server: Metastore, backend: Hive2Backend, catalog: str, lake: str
) -> None:
    """As when the catalog gets its mark, or is pointed somewhere else."""
    backend.alter_namespace((catalog,), PropertyChanges({"catalog.location-uri": f"{lake}/moved"}))
    there = entries(server.uri)
    assert locations.home_of(there[catalog, "default"]) != there[catalog, "default"]


def test_the_default_of_a_catalog_without_a_mark_is_left_alone(
    server: Metastore, backend: Hive2Backend, catalog: str, lake: str
) -> None:
    backend.alter_namespace((catalog,), PropertyChanges(remove=frozenset({"lancens.managed-by"})))
    backend.alter_namespace((catalog,), PropertyChanges({"tier": "gold"}))
    assert locations.same(entries(server.uri)[catalog, "default"], lake)


def test_one_that_somebody_uses_is_told_in_a_note(
    server: Metastore, backend: Hive2Backend, catalog: str, lake: str
) -> None:
    theirs = (catalog, "default", "theirs")
    put(server.uri, plain_table(theirs, f"{lake}/theirs", {"EXTERNAL": "TRUE"}))
    assert any(f"`{catalog}$default`" in note for note in backend.scan().notes)
    backend.alter_namespace((catalog, "default"), PropertyChanges({"database.location-uri": f"{lake}/default.db"}))
    assert not any("is at the place of its catalog" in note for note in backend.scan().notes)


def test_one_that_is_wanted_goes_where_databases_go(server: Metastore, catalog: str, lake: str, tmp_path: Path) -> None:
    file = _manifest(server, tmp_path, lake, (catalog,))
    file.write_text(f"{file.read_text()}    namespaces: {{{catalog}: {{namespaces: {{default: {{}}}}}}}}\n")
    plan = _plan(file)
    assert _planned(plan) == [("create-namespace", (catalog, "default"))]
    assert _apply(plan, file).ok
    assert locations.same(entries(server.uri)[catalog, "default"], f"{lake}/{catalog}/default.db")
    assert _plan(file).is_empty
