"""No call deletes a file, nor makes the server delete one: with real datasets, on every version."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from lance_namespace import DropNamespaceRequest, errors

import reconciler
from reconciler.backends.hive.databases import Databases
from reconciler.backends.hive.entries import wire_name
from reconciler.backends.hive.gen.ttypes import AlterCatalogRequest, Catalog, CreateCatalogRequest, EnvironmentContext
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.hive3 import Hive3Backend
from reconciler.model import locations
from reconciler.model.errors import (
    ConcurrentModificationError,
    InternalError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace
from tests.catalogs.hive.conftest import Connect
from tests.catalogs.hive.files import digests
from tests.catalogs.hive.raw import entries, fetch, plain_table, put, raw
from tests.servers.fault_proxy import Call, fault_proxy
from tests.servers.hive import Metastore
from tests.soak import count
from tests.writing import write_dataset


def test_every_table_is_written_as_external(server: Metastore, backend: Hive2Backend, database: Identifier) -> None:
    table = (*database, "events")
    backend.insert_table(table, backend.default_location(table) or "", {"EXTERNAL": "false", "table_type": "iceberg"})
    for _ in range(2):
        struct = fetch(server.uri, table)
        assert struct.tableType == "EXTERNAL_TABLE"
        assert struct.parameters["EXTERNAL"] == "TRUE"
        assert struct.parameters["table_type"] == "lance"
        backend.alter_table(table, PropertyChanges({"a": "b"}, frozenset({"EXTERNAL", "table_type"})))


def _put_managed(
    server: Metastore, table: Identifier, place: Path, properties: Mapping[str, str] | None = None
) -> None:
    """Make the entry a peer makes that leaves out EXTERNAL=TRUE."""
    write_dataset(place)
    put(server.uri, plain_table(table, str(place), {"table_type": "LANCE", **(properties or {})}))
    assert fetch(server.uri, table).tableType == "MANAGED_TABLE"


def _manifest_of(
    server: Metastore, config: Mapping[str, str], database: Identifier, folder: Path, *tables: str
) -> reconciler.Manifest:
    """Return the manifest `store` with ``tables`` in a database."""
    blocks: Mapping[str, object] = {"tables": {name: {} for name in tables}}
    for name in reversed(database):
        blocks = {"namespaces": {name: blocks}}
    scope = ["/".join(database), f"{'/'.join(database)}/**"]
    catalog = {"impl": server.impl, "config": dict(config), "scope": scope, **blocks}
    path = folder / "lancens.yaml"
    path.write_text(json.dumps({"version": 1, "name": "store", "catalogs": {"lake": catalog}}), "utf-8")
    return reconciler.load(path)


def test_a_table_that_a_drop_would_purge_is_repaired_if_owned_and_else_noted(
    server: Metastore, backend: Hive2Backend, config: Mapping[str, str], database: Identifier, lake: str, tmp_path: Path
) -> None:
    places = {name: Path(lake, f"{name}.lance") for name in ("ours", "theirs")}
    for name, owner in (("ours", "store/lake"), ("theirs", "other/lake")):
        write_dataset(places[name])
        marks = {"lancens.managed-by": owner, "lancens.keys": "[]"}
        backend.insert_table((*database, name), str(places[name]), marks)
        _set_purge(server, (*database, name))
    before = {name: digests(place) for name, place in places.items()}
    manifest = _manifest_of(server, config, database, tmp_path, "ours")

    plan = reconciler.plan(manifest)
    [change] = plan.changes
    assert (change.identifier, change.action.value) == ((*database, "ours"), "update-table")
    assert [(field.path, field.before, field.after) for field in change.fields] == [
        ("safeguards.external.table.purge", "True", "false")
    ]
    [note] = [note.message for note in plan.notes if "external.table.purge" in note.message]
    assert note.startswith("1 table in ")

    assert reconciler.apply(plan, manifest, journal=tmp_path).ok
    assert reconciler.plan(manifest).is_empty
    with raw(server.uri) as client:  # what an engine's DROP TABLE sends
        for name in places:
            client.drop_table(wire_name(database), name, True)
    assert digests(places["ours"]) == before["ours"]
    assert places["theirs"].exists() is (server.version != "4.1")  # what "ours" would have lost as well


def _set_purge(server: Metastore, table: Identifier) -> None:
    """Let Hive 4 delete a table's data when it is dropped, as a client of its own does."""
    struct = fetch(server.uri, table)
    struct.parameters["external.table.purge"] = "True"
    with raw(server.uri) as client:
        client.alter_table_with_environment_context(wire_name(table[:-1]), table[-1], struct, EnvironmentContext())


def test_no_write_leaves_a_table_that_a_drop_would_purge(
    server: Metastore, backend: Hive2Backend, database: Identifier
) -> None:
    table, renamed = (*database, "events"), (*database, "later")
    backend.insert_table(table, backend.default_location(table) or "", {"external.table.purge": "TRUE"})
    assert fetch(server.uri, table).parameters["external.table.purge"] == "false"
    _set_purge(server, table)
    backend.alter_table(table, PropertyChanges({"a": "b"}))
    assert fetch(server.uri, table).parameters["external.table.purge"] == "false"
    _set_purge(server, table)
    backend.rename_table(table, renamed)
    assert fetch(server.uri, renamed).parameters["external.table.purge"] == "false"


def test_a_managed_table_of_a_peer_is_deregistered_without_its_data(
    server: Metastore, backend: Hive2Backend, database: Identifier, lake: str
) -> None:
    table = (*database, "theirs")
    _put_managed(server, table, Path(lake, "theirs.lance"))
    before = digests(Path(lake))
    backend.remove_table(table)
    assert digests(Path(lake)) == before


def test_a_managed_table_of_a_peer_becomes_external_where_it_is(
    server: Metastore, backend: Hive2Backend, database: Identifier, lake: str
) -> None:
    table = (*database, "theirs")
    _put_managed(server, table, Path(lake, "theirs.lance"))
    before = digests(Path(lake))
    backend.alter_table(table, PropertyChanges({"a": "b"}))
    assert fetch(server.uri, table).tableType == "EXTERNAL_TABLE"
    with raw(server.uri) as client:  # what an engine's DROP TABLE sends
        text = database[0] if server.impl == "hive2" else f"@{database[0]}#{database[1]}"
        client.drop_table(text, "theirs", True)
    assert digests(Path(lake)) == before


# ---- catalogs --------------------------------------------------------------------------------------------------------


@pytest.fixture
def catalogs(connect: Connect) -> Hive3Backend:
    backend = connect()
    if not isinstance(backend, Hive3Backend):
        pytest.skip("2.x has no catalogs")
    return backend


def test_dropping_a_catalog_keeps_every_file_under_its_directory(catalogs: Hive3Backend, tmp_path: Path) -> None:
    name = f"cat_{uuid.uuid4().hex[:12]}"
    home = tmp_path / "home"
    catalogs.insert_namespace((name,), {"catalog.location-uri": str(home)})
    catalogs.insert_namespace((name, "db"), {"database.location-uri": str(home / "db")})
    write_dataset(home / "db" / "events.lance")
    write_dataset(home / "stray.lance")
    catalogs.insert_table((name, "db", "events"), str(home / "db" / "events.lance"), {})
    before = digests(home)
    with pytest.raises(NamespaceNotEmptyError, match="it holds db"):
        catalogs.remove_namespace((name,))
    CatalogNamespace(catalogs).drop_namespace(DropNamespaceRequest(id=[name], behavior="cascade"))
    assert name not in catalogs.child_namespaces(())
    assert len(before) > 4
    assert digests(home) == before  # the directory that `default` had stays as well, and is empty


def test_a_catalog_that_cannot_be_dropped_is_what_it_was(
    catalogs: Hive3Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"cat_{uuid.uuid4().hex[:12]}"
    catalogs.insert_namespace((name,), {"catalog.location-uri": str(tmp_path / "home"), "tier": "gold"})
    before = catalogs.load_namespace((name,))
    catalogs.insert_namespace((name, "late"), {})
    with monkeypatch.context() as patch:
        # As when the database is made after the catalog was found empty.
        patch.setattr(Databases, "load_significant", lambda *_: ())
        with pytest.raises(NamespaceNotEmptyError):
            catalogs.remove_namespace((name,))
    assert catalogs.load_namespace((name,)) == before
    assert sorted(catalogs._databases.names(name)) == ["default", "late"]
    catalogs.remove_namespace((name, "late"))
    catalogs.remove_namespace((name,))


def test_anybody_can_drop_the_default_of_a_new_catalog_with_its_data(
    server: Metastore, catalogs: Hive3Backend, tmp_path: Path
) -> None:
    name, home = f"cat_{uuid.uuid4().hex[:12]}", tmp_path / "home"
    write_dataset(home / "stray.lance")
    before = digests(home)
    catalogs.insert_namespace((name,), {"catalog.location-uri": str(home)})
    assert entries(server.uri)[name,] == str(home)
    with raw(server.uri) as client:
        client.drop_database(f"@{name}#default", True, True)
    assert digests(home) == before
    catalogs.remove_namespace((name,))
    assert digests(home) == before


def test_a_catalog_that_is_dropped_while_it_is_made_is_not_pointed_back(
    server: Metastore, connect: Connect, catalogs: Hive3Backend, tmp_path: Path
) -> None:
    """The one that drops it has looked already, and has only the drop left to do."""
    name, home = f"cat_{uuid.uuid4().hex[:12]}", tmp_path / "home"
    parked = f"{home}/.lancens_{'0' * 32}"

    def somebody_parks_it(call: Call) -> None:
        if call.name == "get_catalog":
            with raw(server.uri) as client:
                client.alter_catalog(AlterCatalogRequest(name, Catalog(name=name, locationUri=parked)))

    with fault_proxy(server.port, "thrift") as proxy:
        proxy.reset(somebody_parks_it)
        connect(uri=f"thrift://127.0.0.1:{proxy.port}").insert_namespace((name,), {"catalog.location-uri": str(home)})
    catalogs.alter_namespace((name,), PropertyChanges({"tier": "gold"}))
    assert entries(server.uri)[name,] == parked
    assert catalogs.load_namespace((name,)).properties == {"catalog.location-uri": str(home), "tier": "gold"}
    catalogs.remove_namespace((name,))


def test_a_catalog_whose_making_was_cut_off_is_at_home_and_is_pointed_there(
    server: Metastore, catalogs: Hive3Backend, tmp_path: Path
) -> None:
    name, home = f"cat_{uuid.uuid4().hex[:12]}", str(tmp_path / "home")
    with raw(server.uri) as client:
        client.create_catalog(CreateCatalogRequest(Catalog(name, "", locations.new_place_in(home))))
    assert catalogs.load_namespace((name,)).properties == {"catalog.location-uri": home}
    catalogs.insert_namespace((name, "db"), {})
    assert entries(server.uri)[name,] == home
    catalogs.remove_namespace((name, "db"))
    catalogs.remove_namespace((name,))


def test_many_that_drop_one_catalog_lose_no_file(connect: Connect, catalogs: Hive3Backend, tmp_path: Path) -> None:
    name, home = f"cat_{uuid.uuid4().hex[:12]}", tmp_path / "home"
    catalogs.insert_namespace((name,), {"catalog.location-uri": str(home)})
    write_dataset(home / "stray.lance")
    before = digests(home)
    backends = [connect() for _ in range(4)]
    together = threading.Barrier(len(backends), timeout=60)

    def drop(backend: Hive2Backend) -> None:
        together.wait()
        # The slower ones see it gone or changed, or the metastore breaks down over two drops at once.
        with suppress(NamespaceNotFoundError, ConcurrentModificationError, InternalError, ServiceUnavailableError):
            backend.remove_namespace((name,))

    with ThreadPoolExecutor(len(backends)) as pool:
        list(pool.map(drop, backends))
    assert digests(home) == before
    if name in catalogs.child_namespaces(()):  # none of them could: then one alone can, and still loses nothing
        catalogs.remove_namespace((name,))
    assert name not in catalogs.child_namespaces(())
    assert digests(home) == before


def test_a_catalog_pointed_back_while_it_is_dropped_is_not_dropped(
    catalogs: Hive3Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, home = f"cat_{uuid.uuid4().hex[:12]}", tmp_path / "home"
    before = catalogs.insert_namespace((name,), {"catalog.location-uri": str(home)})
    drop_database = type(catalogs._databases).drop

    def point_back(databases: Databases, database: Identifier) -> None:
        drop_database(databases, database)
        catalogs.alter_namespace((name,), PropertyChanges({"catalog.location-uri": str(home)}))

    with monkeypatch.context() as patch:
        patch.setattr(Databases, "drop", point_back)
        with pytest.raises(ConcurrentModificationError):
            catalogs.remove_namespace((name,))
    assert catalogs.load_namespace((name,)) == before
    assert home.is_dir()
    catalogs.remove_namespace((name,))


def test_the_catalog_hive_is_never_dropped(catalogs: Hive3Backend) -> None:
    before = catalogs.load_namespace(("hive",))
    assert catalogs.foreign_objects(("hive",)) == ["default"]
    for behavior in ("restrict", "cascade"):
        with pytest.raises(errors.NamespaceNotEmptyError):
            CatalogNamespace(catalogs).drop_namespace(DropNamespaceRequest(id=["hive"], behavior=behavior))
    assert catalogs.load_namespace(("hive",)) == before


# ---- races -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("round_", range(count(1, 30)))
def test_the_slower_of_many_creators_takes_no_file_with_it(
    connect: Connect, database: Identifier, tmp_path: Path, round_: int
) -> None:
    """A server that fails to create a namespace or a table deletes the directory it made for it."""
    above, race = database[:-1], f"race_{uuid.uuid4().hex[:12]}"
    identifiers = {"database": (*above, race)} | ({"catalog": (race,)} if above else {})
    backends = [connect() for _ in range(4)]
    together = threading.Barrier(len(backends), timeout=60)

    def create(backend: Hive2Backend, kind: str) -> None:
        place = tmp_path / kind
        together.wait()
        if kind == "table":
            backend.insert_table((*database, "contended"), str(place), {})
        else:
            backend.insert_namespace(identifiers[kind], {f"{kind}.location-uri": str(place)})
        (place / "written").write_text("at once")

    def attempt(backend: Hive2Backend, kind: str) -> bool:
        try:
            create(backend, kind)
        except (NamespaceAlreadyExistsError, TableAlreadyExistsError):
            return False
        return True

    with ThreadPoolExecutor(len(backends)) as pool:
        for kind in ("table", *identifiers):
            won = list(pool.map(attempt, backends, [kind] * len(backends)))
            assert won.count(True) == 1
            assert (tmp_path / kind / "written").read_text() == "at once"
    for identifier in identifiers.values():
        backends[0].remove_namespace(identifier)
