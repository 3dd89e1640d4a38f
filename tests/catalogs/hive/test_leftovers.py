"""What interrupted runs of earlier versions left is shown by a plan and taken away by an apply, and no file with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import reconciler
from reconciler.backends.hive.backend import HiveBackend
from reconciler.backends.hive.databases import Databases
from reconciler.backends.hive.entries import DatabaseName, catalog_of, unique_name
from reconciler.backends.hive.entries import plain_table as helper_table
from reconciler.backends.hive.tables import Tables
from reconciler.model import locations
from reconciler.model.errors import LancensError, NamespaceNotFoundError, TableNotFoundError
from reconciler.model.live import PropertyChanges
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.planner.plan import Plan
from tests.catalogs.hive.files import digests, write_dataset
from tests.catalogs.hive.raw import database_name, entries, plain_table, put, raw
from tests.servers.fault_proxy import fault_proxy
from tests.servers.hive import Metastore


@pytest.fixture
def data(lake: str) -> Path:
    """The directory of somebody's database, with a dataset in it."""
    write_dataset(Path(lake, "data", "users"))
    return Path(lake, "data")


@pytest.fixture
def helper_in(server: Metastore, above: Identifier, data: Path) -> Iterator[Identifier]:
    """A table as an earlier version left it, in somebody's database at somebody's data."""
    database = (*above, f"their_{uuid.uuid4().hex[:12]}")
    _put_database(server, database, data)
    name = (*database, unique_name())
    put(server.uri, helper_table(name[-1], database_name(database), str(data / "users")))
    yield name
    _drop(server, database)


@pytest.fixture
def helper(server: Metastore, above: Identifier, data: Path) -> Iterator[Identifier]:
    """A database as an earlier version left it, at the directory of somebody's."""
    name = (*above, unique_name())
    _put_database(server, name, data)
    yield name
    _drop(server, name)


def _put_database(server: Metastore, name: Identifier, place: Path, **more: str) -> None:
    from reconciler.backends.hive.gen.ttypes import Database

    wire = database_name(name)
    with raw(server.uri) as client:
        client.create_database(
            Database(name=wire.name, catalogName=wire.catalog, locationUri=str(place), parameters=more or None)
        )


def _drop(server: Metastore, name: Identifier) -> None:
    if name in entries(server.uri):
        with raw(server.uri) as client:
            client.drop_database(database_name(name).wire, False, True)


def _manifest(server: Metastore, folder: Path, lake: str, scope: Identifier, port: int = 0) -> Path:
    file = folder / "lancens.yaml"
    file.write_text(f"""
version: 1
name: tidy
catalogs:
  lake:
    impl: {server.impl}
    config: {{uri: "thrift://127.0.0.1:{port or server.port}", root: {lake}, client.pool-size: "1"}}
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


def test_both_are_planned_and_taken_away_without_a_file(
    server: Metastore, helper: Identifier, helper_in: Identifier, lake: str, tmp_path: Path
) -> None:
    """Whatever `prune` says, and a database beside what is in scope as well."""
    before = digests(Path(lake))
    file = _manifest(server, tmp_path, lake, helper_in[:-1])
    plan = _plan(file)
    assert _planned(plan) == [("deregister-table", helper_in), ("drop-namespace", helper)]
    assert all(change.reason.startswith("left by an earlier or interrupted run of lancens") for change in plan.changes)
    assert plan.catalogs[0].removed_tables == plan.catalogs[0].tables == 0
    assert _apply(plan, file).ok
    assert not {helper, helper_in} & set(entries(server.uri))
    assert helper_in[:-1] in entries(server.uri)
    assert _plan(file).is_empty
    assert digests(Path(lake)) == before


def test_they_are_nobodys(backend: HiveBackend, helper: Identifier, helper_in: Identifier) -> None:
    above, database = helper[:-1], helper_in[:-1]
    assert helper[-1] not in backend.child_namespaces(above)
    assert helper not in backend.scan().namespaces
    assert backend.foreign_objects(database) == []
    assert backend.foreign_tables(database) == []
    assert {live.id for live in backend.leftovers(EVERYTHING)} == {helper, helper_in}


def test_a_namespace_goes_whatever_was_left_in_it(
    server: Metastore, backend: HiveBackend, helper_in: Identifier, lake: str
) -> None:
    before = digests(Path(lake))
    backend.remove_namespace(helper_in[:-1])
    assert helper_in[:-1] not in entries(server.uri)
    assert digests(Path(lake)) == before


def test_a_catalog_goes_whatever_was_left_in_it(server: Metastore, backend: HiveBackend, tmp_path: Path) -> None:
    if server.impl == "hive2":
        pytest.skip("2.x has no catalogs")
    name, home = f"cat_{uuid.uuid4().hex[:12]}", tmp_path / "home"
    backend.insert_namespace((name,), {"catalog.location-uri": str(home)})
    write_dataset(home / "db.db" / "users")
    before = digests(home)
    _put_database(server, (name, unique_name()), home / "db.db")
    backend.remove_namespace((name,))
    assert (name,) not in entries(server.uri)
    assert digests(home) == before


def test_what_somebody_else_made_is_not_taken_for_one(
    server: Metastore, backend: HiveBackend, above: Identifier, data: Path
) -> None:
    described, used, reports = unique_name(), unique_name(), f"lancens_reports_{uuid.uuid4().hex[:8]}"
    _put_database(server, (*above, described), data, owner="somebody")
    for name in (used, reports):
        _put_database(server, (*above, name), data)
    theirs = (*above, used, unique_name())
    put(server.uri, plain_table(theirs, str(data / "users"), {"EXTERNAL": "TRUE"}))
    put(server.uri, helper_table("lancens_events", database_name((*above, reports)), str(data / "users")))
    try:
        assert list(backend.leftovers(EVERYTHING)) == []
        assert {described, used, reports} <= set(backend.child_namespaces(above))
        assert backend.foreign_objects((*above, used)) == [theirs[-1]]
        assert backend.foreign_objects((*above, reports)) == ["lancens_events"]
    finally:
        for name in (described, used, reports):
            _drop(server, (*above, name))


def test_an_apply_cut_off_at_any_call_goes_on_with_the_same_plan(
    server: Metastore, helper: Identifier, helper_in: Identifier, lake: str, tmp_path: Path
) -> None:
    """And whatever of it is left by then can be dropped with its data, where the metastore moves databases."""
    before = digests(Path(lake))
    with fault_proxy(server.port, "thrift") as proxy:
        file = _manifest(server, tmp_path, lake, helper_in[:-1], port=proxy.port)
        plan = _plan(file)
        cut_at = 0
        while {helper, helper_in} & set(entries(server.uri)):
            proxy.cut_at(cut_at, reply_lost=True)
            with suppress(LancensError):
                _apply(plan, file)
            cut_at += 1
        proxy.reset()
        assert _apply(plan, file).ok
        assert _plan(file).is_empty
    assert digests(Path(lake)) == before


def test_one_is_dropped_from_a_place_where_nothing_is(
    server: Metastore,
    backend: HiveBackend,
    helper: Identifier,
    helper_in: Identifier,
    lake: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The moment before the drop is when somebody else may drop it, and have its data deleted."""
    before = digests(Path(lake))
    drop_table, drop_database = Tables.drop, Databases.drop

    def others_drop_the_table(tables: Tables, database: DatabaseName, name: str) -> None:
        assert locations.is_new_place(entries(server.uri)[*database.identifier, name].rpartition("/")[2])
        with raw(server.uri) as client:
            client.drop_table(database.wire, name, True)
        drop_table(tables, database, name)

    def others_drop_the_database(databases: Databases, name: DatabaseName) -> None:
        if server.version != "2.3":  # which leaves it where it is, whatever it is told
            assert locations.is_new_place(entries(server.uri)[name.identifier].rpartition("/")[2])
            with raw(server.uri) as client:
                client.drop_database(name.wire, True, False)
        drop_database(databases, name)

    monkeypatch.setattr(Tables, "drop", others_drop_the_table)
    monkeypatch.setattr(Databases, "drop", others_drop_the_database)
    with suppress(TableNotFoundError):
        backend.remove_table(helper_in)
    with suppress(NamespaceNotFoundError):
        backend.remove_namespace(helper)
    assert not {helper, helper_in} & set(entries(server.uri))
    assert digests(Path(lake)) == before


# ---- the `default` at a catalog's place ------------------------------------------------------------------------------


@pytest.fixture
def catalog(server: Metastore, lake: str, data: Path) -> Iterator[str]:
    """A catalog as an earlier version made it, with the database `default` that points at all its data."""
    from reconciler.backends.hive.gen.ttypes import CreateCatalogRequest, DropCatalogRequest

    if server.impl == "hive2":
        pytest.skip("2.x has no catalogs")
    name = f"cat_{uuid.uuid4().hex[:12]}"
    made = catalog_of(name, {"lancens.managed-by": "tidy/lake", "catalog.location-uri": lake})
    with raw(server.uri) as client:
        client.create_catalog(CreateCatalogRequest(made))
        assert locations.same(client.get_database(f"@{name}#default").locationUri, lake)
        yield name
        if "default" in client.get_databases(f"@{name}#*"):
            client.drop_database(f"@{name}#default", False, True)
        client.drop_catalog(DropCatalogRequest(name))


def test_a_default_at_its_catalogs_place_is_planned_and_pointed_elsewhere(
    server: Metastore, catalog: str, lake: str, tmp_path: Path
) -> None:
    before = digests(Path(lake))
    file = _manifest(server, tmp_path, lake, (catalog,))
    plan = _plan(file)
    assert _planned(plan) == [("drop-namespace", (catalog, "default"))]
    assert plan.changes[0].reason.startswith("left by an earlier or interrupted run of lancens")
    assert _apply(plan, file).ok
    assert _apply(plan, file).ok  # again
    assert _plan(file).is_empty
    with raw(server.uri) as client:
        client.drop_database(f"@{catalog}#default", True, True)
    assert digests(Path(lake)) == before


def test_it_is_nobodys(backend: HiveBackend, catalog: str) -> None:
    assert [live.id for live in backend.leftovers(EVERYTHING)] == [(catalog, "default")]
    assert backend.child_namespaces((catalog,)) == []
    assert (catalog, "default") not in backend.scan().namespaces
    assert list(backend.leftovers(Scope(("other", "other/**")))) == []


def test_a_change_of_its_catalog_points_it_elsewhere(
    server: Metastore, backend: HiveBackend, catalog: str, lake: str
) -> None:
    """As when the catalog gets its mark, or is pointed somewhere else."""
    backend.alter_namespace((catalog,), PropertyChanges({"catalog.location-uri": f"{lake}/moved"}))
    there = entries(server.uri)
    assert locations.home_of(there[catalog, "default"]) != there[catalog, "default"]
    assert list(backend.leftovers(EVERYTHING)) == []


def test_the_default_of_a_catalog_without_a_mark_is_left_alone(
    server: Metastore, backend: HiveBackend, catalog: str, lake: str
) -> None:
    backend.alter_namespace((catalog,), PropertyChanges(remove=frozenset({"lancens.managed-by"})))
    backend.alter_namespace((catalog,), PropertyChanges({"tier": "gold"}))
    assert list(backend.leftovers(EVERYTHING)) == []
    assert locations.same(entries(server.uri)[catalog, "default"], lake)


def test_one_that_somebody_uses_is_told_in_a_note(
    server: Metastore, backend: HiveBackend, catalog: str, lake: str
) -> None:
    theirs = (catalog, "default", "theirs")
    put(server.uri, plain_table(theirs, f"{lake}/theirs", {"EXTERNAL": "TRUE"}))
    assert list(backend.leftovers(EVERYTHING)) == []
    assert any(f"`{catalog}$default` is at the place of its catalog" in note for note in backend.scan().notes)
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
