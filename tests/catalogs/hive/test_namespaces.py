"""Databases and catalogs: their properties, where they go, and the `default` that Hive makes itself."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

import lance_namespace
import pytest
from lance_namespace import CreateNamespaceRequest, ListNamespacesRequest, ListTablesRequest, errors

from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.hive3 import Hive3Backend
from reconciler.model import locations
from reconciler.model.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace, register_impls
from reconciler.server.served import ServedNamespace
from tests.catalogs.hive.conftest import Connect, oldest_and_newest
from tests.catalogs.hive.raw import drop, fetch_database, plain_table, put, raw
from tests.catalogs.placing import assert_tables_follow
from tests.servers.hive import Metastore
from tests.writing import blocks_of, load_manifest

FIELDS = {
    "database.description": "größer, 東京",
    "database.owner": "ml-platform",
    "database.owner-type": "GROUP",
}


def _sibling(database: Identifier) -> Identifier:
    return (*database[:-1], f"db_{uuid.uuid4().hex[:12]}")


def test_the_special_properties_are_fields_of_the_database(
    server: Metastore, backend: Hive2Backend, database: Identifier, tmp_path: Path
) -> None:
    other, place = _sibling(database), str(tmp_path / "its-own")
    made = backend.insert_namespace(other, {**FIELDS, "database.location-uri": place, "tier": "gold"})
    struct = fetch_database(server.uri, other)
    assert (struct.description, struct.ownerName, struct.ownerType) == ("größer, 東京", "ml-platform", 3)
    assert locations.same(struct.locationUri, place)
    assert struct.parameters["tier"] == "gold"
    assert made.properties == {**FIELDS, "database.location-uri": place, "tier": "gold"}
    assert backend.load_namespace(other) == made
    backend.remove_namespace(other)


@pytest.mark.parametrize("key", ["database.location-uri", "database.description"])
def test_a_field_that_is_altered_changes_or_is_said_not_to(
    server: Metastore, backend: Hive2Backend, database: Identifier, tmp_path: Path, key: str
) -> None:
    changes = PropertyChanges({key: str(tmp_path / "there"), "tier": "gold"})
    if server.version == "2.3":
        with pytest.raises(UnsupportedOperationError, match=f"cannot change `{key}` of namespace"):
            backend.alter_namespace(database, changes)
    else:
        backend.alter_namespace(database, changes)
        assert backend.load_namespace(database).properties[key] == str(tmp_path / "there")
    assert backend.load_namespace(database).properties["tier"] == "gold"


def test_a_description_is_not_forgotten_by_its_mark(backend: Hive2Backend, database: Identifier) -> None:
    """Every version answers that it took a description away, and keeps it."""
    other = _sibling(database)
    keys = '["database.description","database.owner","tier"]'
    given = {"database.description": "theirs", "database.owner": "ml", "tier": "gold", "lancens.keys": keys}
    backend.insert_namespace(other, given)
    changes = PropertyChanges({"tier": "iron", "lancens.keys": '["tier"]'}, frozenset({"database.description"}))
    with pytest.raises(UnsupportedOperationError, match=r"`database\.description`"):
        backend.alter_namespace(other, changes)
    assert given.items() <= backend.load_namespace(other).properties.items()
    kept = '["database.description","tier"]'
    altered = backend.alter_namespace(
        other, PropertyChanges({"lancens.keys": kept}, frozenset({"database.owner"}))
    ).properties
    assert ("database.owner" in altered, altered["lancens.keys"]) == (False, kept)
    backend.remove_namespace(other)


def test_databases_and_tables_go_under_the_root(backend: Hive2Backend, database: Identifier, lake: str) -> None:
    home = "/".join((lake, *database)) + ".db"
    assert locations.same(backend.load_namespace(database).properties["database.location-uri"], home)
    assert backend.default_location((*database, "events")) == f"{home}/events"


def test_tables_go_below_the_location_that_a_manifest_gave_their_database(
    backend: Hive2Backend, connect: Connect, database: Identifier, lake: str
) -> None:
    other, place = _sibling(database), f"{lake}/apart"
    backend.insert_namespace(other, {"database.location-uri": place, "lancens.keys": '["database.location-uri"]'})
    for _ in ("read", "scanned"):
        assert locations.same(backend.default_location((*other, "events")) or "", f"{place}/events")
        backend.scan()
    assert locations.same(connect().location_for_request((*other, "events")), f"{place}/events")
    backend.remove_namespace(other)


@oldest_and_newest
def test_tables_go_where_the_manifest_puts_their_database(
    server: Metastore, config: Mapping[str, str], backend: Hive2Backend, database: Identifier, tmp_path: Path
) -> None:
    if server.version == "2.3":  # which keeps the location of a database that is there
        database = _sibling(database)
    place = f"{tmp_path}/new"
    blocks = blocks_of({(*database, name): {} for name in "tu"})
    reduce(lambda node, name: node["namespaces"][name], database, blocks)["properties"] = {
        "database.location-uri": place
    }
    manifest = load_manifest(tmp_path, {"hms": {"impl": server.impl, "config": dict(config), **blocks}})
    places = assert_tables_follow(manifest, tmp_path)
    assert set(places.values()) == {f"{place}/{name}" for name in "tu"}
    for name in "tu":
        backend.remove_table((*database, name))
    backend.remove_namespace(database)


def test_without_a_root_the_server_places_databases_and_a_plan_has_no_place_for_tables(
    server: Metastore, connect: Connect, database: Identifier
) -> None:
    backend = connect()
    without = type(backend)(uri=server.uri)
    other = _sibling(database)
    made = without.insert_namespace(other, {})
    assert str(server.directory) in made.properties["database.location-uri"] or len(database) > 1
    assert without.default_location((*other, "events")) is None
    without.remove_namespace(other)
    without.close()


def test_an_unknown_owner_type_is_refused(backend: Hive2Backend, database: Identifier) -> None:
    with pytest.raises(InvalidInputError, match=r"`database.owner-type` is `user`"):
        backend.alter_namespace(database, PropertyChanges({"database.owner-type": "user"}))


def test_a_view_keeps_a_database(server: Metastore, backend: Hive2Backend, database: Identifier) -> None:
    put(server.uri, plain_table((*database, "a_view"), table_type="VIRTUAL_VIEW"))
    assert backend.foreign_objects(database) == ["a_view"]
    with pytest.raises(NamespaceNotEmptyError, match="a_view"):
        backend.remove_namespace(database)


# ---- the database `default` ------------------------------------------------------------------------------------------


@pytest.fixture
def default(server: Metastore) -> Identifier:
    return ("default",) if server.impl == "hive2" else ("hive", "default")


def test_the_empty_default_does_not_count(backend: Hive2Backend, default: Identifier) -> None:
    assert "default" not in backend.child_namespaces(default[:-1])
    assert default not in backend.scan().namespaces
    with pytest.raises(NamespaceNotFoundError):
        backend.load_namespace(default)
    with pytest.raises(NamespaceNotFoundError):
        backend.remove_namespace(default)
    for ask in (backend.child_tables, backend.child_namespaces, backend.foreign_tables):
        with pytest.raises(NamespaceNotFoundError):
            ask(default)


def test_default_is_made_by_giving_it_properties_and_removed_by_taking_them(
    backend: Hive2Backend, default: Identifier
) -> None:
    backend.insert_namespace(default, {"tier": "gold"})
    assert backend.load_namespace(default).properties["tier"] == "gold"
    assert "default" in backend.child_namespaces(default[:-1])
    with pytest.raises(NamespaceAlreadyExistsError):
        backend.insert_namespace(default, {})
    backend.remove_namespace(default)
    assert default not in backend.scan().namespaces


def test_default_counts_while_it_holds_something(
    server: Metastore, backend: Hive2Backend, default: Identifier, lake: str
) -> None:
    put(server.uri, plain_table((*default, "theirs"), lake))
    assert default in backend.scan().namespaces
    assert "default" in backend.child_namespaces(default[:-1])
    with pytest.raises(NamespaceNotEmptyError):
        backend.remove_namespace(default)
    drop(server.uri, (*default, "theirs"))
    assert default not in backend.scan().namespaces


# ---- catalogs --------------------------------------------------------------------------------------------------------


@pytest.fixture
def catalogs(backend: Hive2Backend) -> Hive3Backend:
    if not isinstance(backend, Hive3Backend):
        pytest.skip("2.x has no catalogs")
    return backend


def test_catalogs_are_really_made_described_altered_and_dropped(
    server: Metastore, catalogs: Hive3Backend, lake: str
) -> None:
    from reconciler.backends.hive.gen.ttypes import GetCatalogRequest

    name = f"cat_{uuid.uuid4().hex[:12]}"
    CatalogNamespace(catalogs).create_namespace(
        CreateNamespaceRequest(id=[name], properties={"catalog.description": "Two\nlines", "tier": "gold"})
    )
    with raw(server.uri) as client:
        assert name in client.get_catalogs().names
        struct = client.get_catalog(GetCatalogRequest(name)).catalog
    assert struct.description.startswith("Two\nlines\n")
    assert locations.same(struct.locationUri, f"{lake}/{name}")
    altered = catalogs.alter_namespace((name,), PropertyChanges({"tier": "silver", "a": "b"}))
    assert altered == catalogs.load_namespace((name,))
    assert altered.properties["catalog.description"] == "Two\nlines"
    assert (altered.properties["tier"], altered.properties["a"]) == ("silver", "b")
    catalogs.alter_namespace((name,), PropertyChanges({}, frozenset({"catalog.description", "tier", "a"})))
    assert catalogs.load_namespace((name,)).properties.keys() == {"catalog.location-uri"}
    catalogs.remove_namespace((name,))
    assert name not in catalogs.child_namespaces(())


def test_a_catalog_without_root_needs_a_location(server: Metastore, catalogs: Hive3Backend) -> None:
    without = Hive3Backend(uri=server.uri)
    with pytest.raises(InvalidInputError, match=r"set `catalog.location-uri`, or `root`"):
        without.insert_namespace(("no_place",), {})
    namespace = CatalogNamespace(without)
    there = {"catalog.location-uri": f"{server.directory}/with_place"}
    namespace.create_namespace(CreateNamespaceRequest(id=["with_place"], properties=there))
    with pytest.raises(errors.NamespaceAlreadyExistsError):
        namespace.create_namespace(CreateNamespaceRequest(id=["with_place"]))
    namespace.create_namespace(CreateNamespaceRequest(id=["with_place"], mode="exist_ok"))
    without.remove_namespace(("with_place",))
    without.close()


def test_without_a_root_a_catalog_made_directly_goes_under_the_working_directory(
    server: Metastore, catalogs: Hive3Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without = Hive3Backend(uri=server.uri)
    made = CatalogNamespace(without).create_namespace(CreateNamespaceRequest(id=["here"]))
    assert made.properties == {"catalog.location-uri": str(tmp_path / "here")}
    without.remove_namespace(("here",))
    with pytest.raises(errors.InvalidInputError, match=r"set `catalog.location-uri`, or `root`"):
        ServedNamespace(without).create_namespace(CreateNamespaceRequest(id=["here"]))
    without.close()


def test_missing_parents_are_named(catalogs: Hive3Backend) -> None:
    with pytest.raises(NamespaceNotFoundError, match="nowhere"):
        catalogs.insert_namespace(("nowhere", "db"), {})
    with pytest.raises(NamespaceNotFoundError, match="nowhere"):
        catalogs.child_namespaces(("nowhere",))
    with pytest.raises(errors.NamespaceNotFoundError, match="nowhere"):
        CatalogNamespace(catalogs).list_tables(ListTablesRequest(id=["nowhere", "db"]))


# ---- as Lance tools see it -------------------------------------------------------------------------------------------


def test_lance_namespace_connects_by_name(
    server: Metastore, config: Mapping[str, str], database: Identifier, backend: Hive2Backend
) -> None:
    register_impls()
    connected = lance_namespace.connect(server.impl, dict(config))
    assert database[-1] in (connected.list_namespaces(ListNamespacesRequest(id=list(database[:-1]))).namespaces or [])


def test_hive3_notices_a_2x_server_before_it_writes(server: Metastore, lake: str) -> None:
    if server.version != "2.3":
        pytest.skip("for a 2.x server")
    backend = Hive3Backend(uri=server.uri, root=lake)
    with raw(server.uri) as client:
        before = client.get_databases("*")
        for call in (
            backend.scan,
            lambda: backend.insert_namespace(("cat",), {}),
            lambda: backend.insert_namespace(("cat", "db"), {}),
            lambda: backend.insert_table(("cat", "default", "t"), lake, {}),
        ):
            with pytest.raises(InvalidInputError, match=r"it is a 2\.x one"):
                call()
        assert client.get_databases("*") == before
        assert client.get_all_tables("default") == []
    backend.close()


def test_hive2_shows_the_databases_of_the_catalog_hive_on_later_servers(server: Metastore, lake: str) -> None:
    from reconciler.backends.hive.hive2 import Hive2Backend

    if server.version == "2.3":
        pytest.skip("for later servers")
    backend = Hive2Backend(uri=server.uri, root=lake)
    above = Hive3Backend(uri=server.uri, root=lake)
    name = f"db_{uuid.uuid4().hex[:12]}"
    backend.insert_namespace((name,), {"tier": "gold"})
    backend.insert_table((name, "t"), f"{lake}/t", {})
    assert above.load_namespace(("hive", name)).properties["tier"] == "gold"
    assert above.load_table(("hive", name, "t")).location == backend.load_table((name, "t")).location
    assert above.default_location(("hive", name, "t")) == backend.default_location((name, "t"))
    backend.remove_table((name, "t"))
    backend.remove_namespace((name,))
    backend.close()
    above.close()
