"""Lance tables in Apache Polaris: as marked Iceberg tables, and as generic tables, on the stand-in and a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler.backends.base import Backend
from reconciler.backends.iceberg import IcebergBackend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.manifest import Manifest
from reconciler.model.errors import (
    InvalidInputError,
    NotLanceTableError,
    PermissionDeniedError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from tests.catalogs.iceberg.scripted import scripted_catalog
from tests.catalogs.placing import assert_tables_follow
from tests.plans import assert_blocked
from tests.servers.polaris import FREE, Polaris, polaris_server, real_polaris
from tests.writing import load_manifest

SPACE = ("ware", "ads")


@pytest.fixture
def polaris(tmp_path: Path) -> Iterator[Polaris]:
    with polaris_server() as running:
        running.place(tmp_path / "base")
        running.namespaces[SPACE] = {"location": (tmp_path / "base/ads").as_uri()}
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polaris]:
    with polaris_server() as running:
        running.place(tmp_path_factory.mktemp("polaris"))
        yield running


def connect(polaris: Polaris, **config: str) -> IcebergBackend:
    return IcebergBackend(endpoint=polaris.url, warehouses="ware", **config)


def wanting(polaris: Polaris, folder: Path, blocks: dict[str, Any], **config: str) -> Manifest:
    config = {"endpoint": polaris.url, **config}
    namespaces = {"ware": {"namespaces": {"ads": {"tables": blocks}}}}
    return load_manifest(folder, {"lake": {"impl": "iceberg", "config": config, "namespaces": namespaces}})


def apply(manifest: Manifest, folder: Path) -> None:
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=folder / "journal")
    assert report.ok, report.results
    assert reconciler.plan(manifest).is_empty


@pytest.mark.parametrize("tables", ["iceberg", "generic"])
@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, tables: str, shared: Polaris, tmp_path: Path) -> None:
    def add_foreign(_backend: Backend, identifier: Identifier) -> Callable[[], None]:
        shared.views.add(identifier)
        return lambda: shared.views.discard(identifier)

    def connected() -> IcebergBackend:
        return connect(shared, tables=tables)

    verify(check, connected, namespace=("ware",), scratch=str(tmp_path), add_foreign=add_foreign)


@pytest.mark.parametrize("tables", ["iceberg", "generic"])
@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance_of_a_real_one(check: ConformanceCheck, tables: str, tmp_path: Path) -> None:
    config = real_polaris()
    namespace = [config["warehouses"]]
    verify(check, lambda: IcebergBackend(**config, tables=tables), namespace=namespace, scratch=str(tmp_path))


# ---- locations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tables", ["iceberg", "generic"])
def test_a_table_without_a_location_is_below_its_namespaces(polaris: Polaris, tmp_path: Path, tables: str) -> None:
    schema = [{"name": "id", "type": "int64"}]
    apply(wanting(polaris, tmp_path, {"t": {"schema": schema}, "u": {}}, tables=tables), tmp_path)
    backend = connect(polaris, tables=tables)
    live = backend.scan().tables
    assert {table.location for table in live.values()} == {f"{tmp_path.as_uri()}/base/ads/{name}" for name in "tu"}
    assert backend.default_location(("ware", "new", "deep", "t")) == f"{tmp_path.as_uri()}/base/new/deep/t"


def test_a_location_elsewhere_is_blocked_with_the_ways_out(polaris: Polaris, tmp_path: Path) -> None:
    elsewhere = {"t": {"location": str(tmp_path / "other/t")}, "in": {"location": str(tmp_path / "base/ads/x")}}
    plan = reconciler.plan(wanting(polaris, tmp_path, elsewhere))
    assert_blocked(plan, "lake/ware/ads/t", ReasonCode.BAD_LOCATION)
    assert "unstructured_table_location" in str(plan.blocked[0].params)
    assert [change.identifier[-1] for change in plan.changes] == ["in"]
    with pytest.raises(PermissionDeniedError, match=r"leave `location` out .*unstructured.table.location"):
        connect(polaris).insert_table((*SPACE, "t"), str(tmp_path / "other/t"), {})
    polaris.warehouses["ware"][FREE] = "true"
    apply(wanting(polaris, tmp_path, elsewhere, unstructured_table_location="true"), tmp_path)


def test_the_location_of_the_namespace_counts(polaris: Polaris, tmp_path: Path) -> None:
    polaris.namespaces[SPACE]["location"] = f"{tmp_path.as_uri()}/own"
    apply(wanting(polaris, tmp_path, {"t": {"location": str(tmp_path / "own/t")}, "u": {}}), tmp_path)
    assert connect(polaris).load_table((*SPACE, "u")).location == f"{tmp_path.as_uri()}/own/u"


@pytest.mark.parametrize("above", ["", "/deep"], ids=["directly", "below"])
def test_tables_go_where_the_manifest_puts_their_namespace(polaris: Polaris, tmp_path: Path, above: str) -> None:
    place = f"{tmp_path.as_uri()}/base/new"
    tables: dict[str, Any] = {"tables": {"t": {}, "u": {}}}
    inside = {"namespaces": {"deep": tables}} if above else tables
    namespaces = {"ware": {"namespaces": {"ads": {"properties": {"location": place}, **inside}}}}
    manifest = load_manifest(
        tmp_path, {"lake": {"impl": "iceberg", "config": {"endpoint": polaris.url}, "namespaces": namespaces}}
    )
    places = assert_tables_follow(manifest, tmp_path)
    assert places == {f"lake/ware/ads{above}/{name}": f"{place}{above}/{name}" for name in "tu"}


def test_a_services_own_location_stays(polaris: Polaris) -> None:
    polaris.namespaces[SPACE]["old"] = "1"
    changes = PropertyChanges({"new": "1"}, frozenset({"location", "old"}))
    kept = connect(polaris).alter_namespace(SPACE, changes).properties
    assert (set(kept), kept["new"]) == ({"location", "new"}, "1")


# ---- privileges ------------------------------------------------------------------------------------------------------


def test_only_a_plan_that_drops_a_namespace_lists_views(polaris: Polaris, tmp_path: Path) -> None:
    polaris.denied.add("LIST_VIEWS")
    apply(wanting(polaris, tmp_path, {"t": {}}), tmp_path)
    polaris.namespaces["ware", "gone"] = {"lancens.managed-by": "test/lake"}
    with pytest.raises(PermissionDeniedError, match="LIST_VIEWS"):
        connect(polaris).remove_namespace(("ware", "gone"))


def test_a_namespace_that_moved_places_the_next_table(polaris: Polaris, tmp_path: Path) -> None:
    backend = connect(polaris)
    assert backend.location_for_request((*SPACE, "t")) == f"{tmp_path.as_uri()}/base/ads/t"
    polaris.namespaces[SPACE] = {"location": (tmp_path / "base/moved").as_uri()}
    assert backend.location_for_request((*SPACE, "t")) == f"{tmp_path.as_uri()}/base/moved/t"


# ---- generic tables --------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(polaris: Polaris) -> IcebergBackend:
    """Generic tables of three formats, some without a location, and an Iceberg table."""
    place = polaris.namespaces[SPACE]["location"]
    for name, more in (
        ("t", {"format": "lance", "base-location": f"{place}/t", "doc": "d", "properties": {"k": "v"}}),
        ("nowhere", {"format": "lance", "base-location": None}),
        ("delta", {"format": "delta", "base-location": f"{place}/d"}),
        ("csv", {"format": "csv", "base-location": None}),
    ):
        path = "/api/catalog/polaris/v1/ware/namespaces/ads/generic-tables"
        assert polaris.answer("POST", path, {"name": name, **more})[0] == 200
    connect(polaris).insert_table((*SPACE, "berg"), f"{place}/berg", {})
    return connect(polaris, tables="generic")


def test_a_generic_table_of_the_format_lance_is_a_lance_table(polaris: Polaris, mixed: IcebergBackend) -> None:
    polaris.page = 1
    seen = mixed.scan()
    assert {found.id[-1]: found.properties["k"] for found in seen.tables.values()} == {"t": "v"}
    assert len(seen.notes) == 1
    assert "base-location" in seen.notes[0]
    foreign = {found.id[-1]: found for found in mixed.foreign_tables(SPACE)}
    assert foreign["csv"].location is None
    assert {name: found.format for name, found in foreign.items()} == {
        "csv": "csv",
        "nowhere": "one that names no `base-location`",
        "delta": "delta",
        "berg": "iceberg",
    }
    assert sorted(mixed.foreign_objects(SPACE)) == ["berg", "csv", "delta", "nowhere"]
    for name in ("nowhere", "delta", "csv"):
        with pytest.raises(NotLanceTableError):
            mixed.remove_table((*SPACE, name))


def test_the_other_interface_shows_generic_tables_as_foreign(polaris: Polaris, mixed: IcebergBackend) -> None:
    others = connect(polaris).foreign_tables(SPACE)
    assert {found.id[-1] for found in others} == {"nowhere", "delta", "csv", "t"}
    assert set(connect(polaris).scan().tables) == {(*SPACE, "berg")}


def test_names_of_iceberg_tables_are_taken(polaris: Polaris, mixed: IcebergBackend, tmp_path: Path) -> None:
    with pytest.raises(TableAlreadyExistsError):
        mixed.insert_table((*SPACE, "berg"), "file:///x", {})
    plan = reconciler.plan(wanting(polaris, tmp_path, {"berg": {}, "nowhere": {}, "new": {}}, tables="generic"))
    assert sorted(one.address for one in plan.blocked) == ["lake/ware/ads/berg", "lake/ware/ads/nowhere"]
    assert_blocked(plan, "lake/ware/ads/berg", ReasonCode.NAME_HELD)


def test_generic_tables_neither_change_nor_rename(polaris: Polaris, mixed: IcebergBackend, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperationError):
        mixed.rename_table((*SPACE, "t"), (*SPACE, "u"))
    with pytest.raises(UnsupportedOperationError):
        mixed.alter_table((*SPACE, "t"), PropertyChanges({"k": "w"}))
    plan = reconciler.plan(wanting(polaris, tmp_path, {"t": {"properties": {"k": "w"}}}, tables="generic"))
    assert_blocked(plan, "lake/ware/ads/t", ReasonCode.CANNOT_ALTER)


def test_a_server_without_generic_tables_is_told() -> None:
    with scripted_catalog() as script, pytest.raises(InvalidInputError, match="no generic tables"):
        IcebergBackend(endpoint=script.url, warehouses="ware", tables="generic").scan()
