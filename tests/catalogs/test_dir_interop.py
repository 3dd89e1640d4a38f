"""The directory catalog and pylance's own directory namespace see one catalog, written by either."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    LanceNamespace,
    ListNamespacesRequest,
    ListTablesRequest,
    RegisterTableRequest,
    errors,
)

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.manifest import DirManifest
from reconciler.backends.dir.rows import Row, StoredLocations
from reconciler.model.live import PropertyChanges
from reconciler.namespace import CatalogNamespace

ODD_NAMES = ["a b", "x+y", "with.dot", "x:y"]
ENCODED_NAMES = ["é", "x%20y", "東京"]
"""pylance does not find root tables of such names, its own neither, unless it declared them itself."""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def ours(lake: Path) -> DirBackend:
    return DirBackend(root=str(lake))


@pytest.fixture
def theirs(lake: Path) -> LanceNamespace:
    return lance_namespace.connect("dir", {"root": str(lake)})


def _tables(namespace: LanceNamespace, *identifier: str) -> list[str]:
    return sorted(namespace.list_tables(ListTablesRequest(id=list(identifier))).tables)


def _location(namespace: LanceNamespace, *identifier: str) -> Path:
    location = namespace.describe_table(DescribeTableRequest(id=list(identifier))).location or ""
    return Path(location.removeprefix("file://"))


def test_what_pylance_makes_we_see(lake: Path, ours: DirBackend, theirs: LanceNamespace) -> None:
    theirs.create_namespace(CreateNamespaceRequest(id=["eu"], properties={"owner": "größer"}))
    theirs.create_namespace(CreateNamespaceRequest(id=["eu", "west"]))
    theirs.declare_table(DeclareTableRequest(id=["eu", "west", "users"], properties={"tier": "gold"}))
    theirs.declare_table(DeclareTableRequest(id=["root"], properties={"tier": "silver"}))
    lance.write_dataset(pa.table({"id": [1]}), namespace_client=theirs, table_id=["eu", "written"])
    lance.write_dataset(pa.table({"id": [1]}), str(lake / "plain.lance"))
    seen = ours.scan()
    assert {space.id: dict(space.properties) for space in seen.namespaces.values()} == {
        ("eu",): {"owner": "größer"},
        ("eu", "west"): {},
    }
    assert {table.id: dict(table.properties) for table in seen.tables.values()} == {
        ("eu", "west", "users"): {"tier": "gold"},
        ("eu", "written"): {},
        ("root",): {"tier": "silver"},
        ("plain",): {},
    }
    assert seen.notes == ()
    for identifier, table in seen.tables.items():
        assert Path(table.location) == _location(theirs, *identifier)


def test_data_that_pylance_named_and_no_entry_has_is_not_passed_over(
    tmp_path: Path, ours: DirBackend, theirs: LanceNamespace
) -> None:
    """pylance draws the first part of a directory's name, so the data is not at our default location."""
    theirs.create_namespace(CreateNamespaceRequest(id=["eu"]))
    lance.write_dataset(pa.table({"id": [1]}), namespace_client=theirs, table_id=["eu", "users"])
    place = _location(theirs, "eu", "users")
    assert place != Path(ours.default_location(("eu", "users")))
    theirs.deregister_table(DeregisterTableRequest(id=["eu", "users"]))
    path = tmp_path / "lancens.yaml"
    for name, moved in (("users", ""), ("people", ", moved: [{from: eu/users, to: eu/people}]")):
        tables = f"{{eu: {{tables: {{{name}: {{}}}}}}}}"
        lake = f"{{impl: dir, config: {{root: ./lake}}, namespaces: {tables}{moved}}}"
        path.write_text(f"version: 1\nname: store\ncatalogs: {{lake: {lake}}}\n")
        plan = reconciler.plan(reconciler.load(path))
        assert (plan.changes, [one.identifier for one in plan.blocked]) == ((), [("eu", name)])
        assert plan.blocked[0].unreferenced == f"./lake/{place.name}"


def test_what_we_make_pylance_sees(ours: DirBackend, theirs: LanceNamespace) -> None:
    CatalogNamespace(ours).create_namespace(CreateNamespaceRequest(id=["eu"], properties={"owner": "größer"}))
    CatalogNamespace(ours).create_namespace(CreateNamespaceRequest(id=["eu", "west"]))
    CatalogNamespace(ours).declare_table(DeclareTableRequest(id=["eu", "west", "users"], properties={"tier": "gold"}))
    CatalogNamespace(ours).declare_table(DeclareTableRequest(id=["root"]))
    lance.write_dataset(pa.table({"id": [1, 2]}), namespace_client=CatalogNamespace(ours), table_id=["eu", "written"])
    assert theirs.list_namespaces(ListNamespacesRequest(id=[])).namespaces == ["eu"]
    assert theirs.list_namespaces(ListNamespacesRequest(id=["eu"])).namespaces == ["west"]
    described = theirs.describe_namespace(DescribeNamespaceRequest(id=["eu"]))
    assert described.properties == {"owner": "größer"}
    assert (_tables(theirs), _tables(theirs, "eu"), _tables(theirs, "eu", "west")) == (["root"], ["written"], ["users"])
    users = theirs.describe_table(DescribeTableRequest(id=["eu", "west", "users"], check_declared=True))
    assert (users.properties, users.is_only_declared) == ({"tier": "gold"}, True)
    assert lance.dataset(namespace_client=theirs, table_id=["eu", "written"]).count_rows() == 2
    lance.write_dataset(pa.table({"id": [3]}), namespace_client=theirs, table_id=["eu", "written"], mode="append")
    assert lance.dataset(namespace_client=CatalogNamespace(ours), table_id=["eu", "written"]).count_rows() == 3


def test_changes_of_either_side_are_the_others_state(ours: DirBackend, theirs: LanceNamespace) -> None:
    theirs.create_namespace(CreateNamespaceRequest(id=["eu"]))
    theirs.declare_table(DeclareTableRequest(id=["eu", "users"], properties={"tier": "gold", "left": "alone"}))
    ours.alter_table(("eu", "users"), PropertyChanges({"tier": "silver"}))
    ours.alter_namespace(("eu",), PropertyChanges({"owner": "me"}))
    described = theirs.describe_table(DescribeTableRequest(id=["eu", "users"]))
    assert described.properties == {"tier": "silver", "left": "alone"}
    assert theirs.describe_namespace(DescribeNamespaceRequest(id=["eu"])).properties == {"owner": "me"}
    theirs.deregister_table(DeregisterTableRequest(id=["eu", "users"]))
    assert ours.scan().tables == {}
    theirs.drop_namespace(DropNamespaceRequest(id=["eu"]))
    assert ours.scan().namespaces == {}


def test_a_table_we_deregister_comes_back_to_neither(lake: Path, ours: DirBackend, theirs: LanceNamespace) -> None:
    for name in ("entered", "plain"):
        lance.write_dataset(pa.table({"id": [1]}), str(lake / f"{name}.lance"))
    CatalogNamespace(ours).register_table(RegisterTableRequest(id=["entered"], location="entered.lance"))
    for name in ("entered", "plain"):
        CatalogNamespace(ours).deregister_table(DeregisterTableRequest(id=[name]))
        with pytest.raises(errors.TableNotFoundError):
            theirs.describe_table(DescribeTableRequest(id=[name]))
    assert (_tables(CatalogNamespace(ours)), _tables(theirs)) == ([], [])
    CatalogNamespace(ours).register_table(RegisterTableRequest(id=["plain"], location=str(lake / "plain.lance")))
    assert (_tables(CatalogNamespace(ours)), _tables(theirs)) == (["plain"], ["plain"])
    assert lance.dataset(namespace_client=theirs, table_id=["plain"]).count_rows() == 1


def test_a_table_under_the_root_is_not_made_again_over_old_rows(
    lake: Path, ours: DirBackend, theirs: LanceNamespace
) -> None:
    catalog = CatalogNamespace(ours)
    lance.write_dataset(pa.table({"id": [1, 2]}), namespace_client=catalog, table_id=["users"])
    catalog.deregister_table(DeregisterTableRequest(id=["users"]))
    with pytest.raises(errors.TableAlreadyExistsError, match="data of an earlier table `users`"):
        lance.write_dataset(pa.table({"id": [9]}), namespace_client=catalog, table_id=["users"])
    assert (_tables(catalog), _tables(theirs)) == ([], [])
    assert lance.dataset(str(lake / "users.lance")).count_rows() == 2


def test_a_table_in_a_namespace_that_was_never_made(ours: DirBackend, theirs: LanceNamespace) -> None:
    theirs.declare_table(DeclareTableRequest(id=["never", "made", "users"]))
    seen = ours.scan()
    assert set(seen.namespaces) == {("never",), ("never", "made")}
    said = [note.partition(" of its own")[0] for note in seen.notes]
    assert said == [f"namespace `{name}` has no entry" for name in ("never", "never$made")]
    assert ours.child_namespaces(()) == ["never"]
    ours.remove_table(("never", "made", "users"))
    assert set(ours.scan().namespaces) == set(seen.namespaces)
    ours.remove_namespace(("never", "made"))
    ours.remove_namespace(("never",))
    assert ours.scan().namespaces == {}


@pytest.mark.parametrize("name", [*ODD_NAMES, *ENCODED_NAMES])
def test_odd_names_are_the_same_to_both(ours: DirBackend, theirs: LanceNamespace, name: str) -> None:
    CatalogNamespace(ours).create_namespace(CreateNamespaceRequest(id=["eu"]))
    lance.write_dataset(pa.table({"id": [1]}), namespace_client=CatalogNamespace(ours), table_id=["eu", name])
    assert lance.dataset(namespace_client=theirs, table_id=["eu", name]).to_table().to_pydict() == {"id": [1]}
    lance.write_dataset(pa.table({"id": [2]}), namespace_client=theirs, table_id=["eu", name + "2"])
    assert lance.dataset(
        namespace_client=CatalogNamespace(ours), table_id=["eu", name + "2"]
    ).to_table().to_pydict() == {"id": [2]}
    assert _tables(CatalogNamespace(ours), "eu") == _tables(theirs, "eu") == sorted([name, name + "2"])


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_under_the_root_are_the_same_to_both(ours: DirBackend, theirs: LanceNamespace, name: str) -> None:
    lance.write_dataset(pa.table({"id": [1]}), namespace_client=CatalogNamespace(ours), table_id=[name])
    assert lance.dataset(namespace_client=theirs, table_id=[name]).to_table().to_pydict() == {"id": [1]}
    assert _tables(CatalogNamespace(ours)) == _tables(theirs) == [name]


def test_declared_with_an_odd_name_by_pylance_is_one_table_to_us(ours: DirBackend, theirs: LanceNamespace) -> None:
    lance.write_dataset(pa.table({"id": [1]}), namespace_client=theirs, table_id=["größe"])
    assert set(ours.scan().tables) == {("größe",)}


def test_what_others_keep_in_the_manifest_stays(lake: Path, ours: DirBackend) -> None:
    ours.insert_namespace(("eu",), {})
    manifest = DirManifest(StoredLocations(str(lake)), {})
    row = Row("eu$users", "table", "users.lance", json.dumps({"n": 5, "list": [1], "tier": "gold"}))
    manifest.update(lambda contents: (contents.put(row), None))
    path = lake / "__manifest"
    lance.dataset(str(path)).add_columns(pa.schema([pa.field("added_by_a_later_version", pa.string())]))
    lance.dataset(str(path)).update({"added_by_a_later_version": "'kept'"})
    ours.alter_table(("eu", "users"), PropertyChanges({"tier": "silver"}))
    ours.insert_table(("eu", "other"), ours.default_location(("eu", "other")), {})
    rows = {row["object_id"]: row for row in lance.dataset(str(path)).to_table().to_pylist()}
    assert json.loads(rows["eu$users"]["metadata"]) == {"n": 5, "list": [1], "tier": "silver"}
    assert rows["eu"]["added_by_a_later_version"] == "kept"
    assert rows["eu$users"]["added_by_a_later_version"] == "kept"
    assert rows["eu$other"]["added_by_a_later_version"] is None
    assert ours.load_table(("eu", "users")).properties == {"n": "5", "list": "[1]", "tier": "silver"}


def test_tables_outside_the_root_are_where_their_entries_say(lake: Path, ours: DirBackend) -> None:
    ours.insert_namespace(("eu",), {})
    rows = [
        Row("eu$uri", "table", "s3://bucket/a.lance"),
        Row("eu$path", "table", "/elsewhere/a.lance"),
        Row("eu$deep", "table", "teams/ads/a.lance"),
    ]
    DirManifest(StoredLocations(str(lake)), {}).update(lambda contents: (contents.put(*rows), None))
    assert {table.id[1]: table.location for table in ours.scan().tables.values()} == {
        "uri": "s3://bucket/a.lance",
        "path": "/elsewhere/a.lance",
        "deep": f"{lake}/teams/ads/a.lance",
    }
