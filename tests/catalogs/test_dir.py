"""The directory catalog's own rules."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    CountTableRowsRequest,
    CreateTableRequest,
    DescribeTableRequest,
    ListTablesRequest,
    TableExistsRequest,
    errors,
)

import reconciler
from reconciler import storage
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir import manifest as directory_manifest
from reconciler.backends.dir.contents import ManifestRows
from reconciler.backends.dir.manifest import DirManifest
from reconciler.backends.dir.rows import Row, StoredLocations
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import (
    BackendError,
    InternalError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.reasons import ReasonCode
from reconciler.namespace import CatalogNamespace
from tests.plans import assert_blocked
from tests.servers.process import HUNG_SECONDS
from tests.writing import blocks_of, load_manifest, write_dataset


def _opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the locations that are opened from now on."""
    opened: list[str] = []
    genuine = storage.open_dataset

    def counted(location: str, options: Mapping[str, str], **more: Any) -> Any:
        opened.append(location)
        return genuine(location, options, **more)

    monkeypatch.setattr(storage, "open_dataset", counted)
    return opened


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


@pytest.fixture
def backend(lake: Path) -> DirBackend:
    return DirBackend(root=str(lake))


def _files(lake: Path) -> dict[str, bytes]:
    """Return every data file under the root."""
    return {
        str(path.relative_to(lake)): path.read_bytes()
        for path in lake.rglob("*")
        if path.is_file() and "__manifest" not in path.parts and not path.name.startswith(".lance-")
    }


def _put(lake: Path, *rows: Row) -> None:
    DirManifest(StoredLocations(str(lake)), {}).update(lambda contents: (contents.put(*rows), None))


# ---- directories that are tables -------------------------------------------------------------------------------------


def test_a_directory_is_a_table_if_it_holds_a_dataset(lake: Path, backend: DirBackend) -> None:
    for name in ("empty", "empty.lance", "docs", "docs.lance", "team/prod"):
        (lake / name).mkdir(parents=True)
    for name in ("docs/notes.txt", "docs.lance/notes.txt", "file.lance"):
        (lake / name).write_text("mine")
    write_dataset(lake / "team/prod/clicks.lance")
    write_dataset(lake / "bare")
    write_dataset(lake / "suffixed.lance")
    (lake / "declared").mkdir()
    (lake / "declared" / storage.RESERVED_MARKER).touch()
    names = ["bare", "declared", "suffixed"]
    assert CatalogNamespace(backend).list_tables(ListTablesRequest(id=[])).tables == names
    assert sorted(identifier[0] for identifier in backend.scan().tables) == names
    for name in ("empty", "docs", "team"):
        with pytest.raises(TableNotFoundError):
            backend.load_table((name,))
    for name in names:
        CatalogNamespace(backend).table_exists(TableExistsRequest(id=[name]))
    assert backend.load_table(("bare",)).location == f"{lake}/bare"
    assert backend.load_table(("suffixed",)).location == f"{lake}/suffixed.lance"


@pytest.mark.parametrize("name", ["empty", "junk"])
def test_metadata_of_a_directory_without_a_dataset_is_an_error(lake: Path, backend: DirBackend, name: str) -> None:
    (lake / name).mkdir()
    if name == "junk":
        (lake / name / "notes.txt").write_text("mine")
    backend.insert_table((name,), name, {})
    CatalogNamespace(backend).describe_table(DescribeTableRequest(id=[name]))
    with pytest.raises(errors.InvalidTableStateError, match="is not a Lance dataset"):
        CatalogNamespace(backend).describe_table(DescribeTableRequest(id=[name], load_detailed_metadata=True))


def test_some_directories_are_no_tables(lake: Path, backend: DirBackend) -> None:
    for name in ("_private", ".hidden", "__manifest_old", "12345678_a$b", ".lance", "gone", "gone.lance"):
        (lake / name).mkdir()
    for name in ("gone", "gone.lance"):
        (lake / name / ".lance-deregistered").touch()
    write_dataset(lake / "group" / "member.lance")
    assert backend.scan().tables == {}
    assert backend.child_tables(()) == []
    for name in ("_private", "gone", "group", "__manifest_old"):
        with pytest.raises(TableNotFoundError):
            backend.load_table((name,))


def test_directories_of_entries_and_namespaces_are_no_tables_of_their_own(lake: Path, backend: DirBackend) -> None:
    for place in ("teams/ads/clicks.lance", "used.lance"):
        write_dataset(lake / place)
    for name in ("eu", "us"):
        backend.insert_namespace((name,), {})
    for name in ("eu", "us.lance", "free"):
        write_dataset(lake / name)
    backend.insert_table(("eu", "clicks"), f"{lake}/teams/ads/clicks.lance", {})
    backend.insert_table(("eu", "used"), f"{lake}/used.lance", {})
    assert set(backend.scan().tables) == {("eu", "clicks"), ("eu", "used"), ("free",)}
    with pytest.raises(TableNotFoundError):
        backend.load_table(("teams",))


def test_the_name_of_a_directory_is_not_another_name_of_its_table(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "users.lance")
    with pytest.raises(TableNotFoundError):
        backend.load_table(("users.lance",))
    assert backend.default_location(("users.lance",)) == f"{lake}/users.lance.lance"
    backend.insert_table(("users.lance",), f"{lake}/users.lance.lance", {})
    assert set(backend.scan().tables) == {("users",), ("users.lance",)}


def test_two_directories_of_one_name_give_one_answer_and_a_note(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "users")
    write_dataset(lake / "users.lance")
    seen = backend.scan()
    assert {table.id: table.location for table in seen.tables.values()} == {("users",): f"{lake}/users.lance"}
    [note] = seen.notes
    assert note.startswith("`users.lance` and `users` are both")
    assert backend.load_table(("users",)).location == f"{lake}/users.lance"


def test_a_directory_hidden_by_an_entry_of_its_name_is_noted(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "new.lance")
    backend.insert_table(("users",), f"{lake}/new.lance", {})
    write_dataset(lake / "users")
    seen = backend.scan()
    assert {table.id: table.location for table in seen.tables.values()} == {("users",): f"{lake}/new.lance"}
    [note] = seen.notes
    assert note.startswith("the directory `users` is hidden")


def test_directories_that_cannot_be_names_are_noted(lake: Path, backend: DirBackend) -> None:
    (lake / "tab\tbed/_versions").mkdir(parents=True)
    _put(lake, Row("a$$b", "table", "x"))
    seen = backend.scan()
    assert seen.tables == {}
    assert list(seen.namespaces) == [("a",)]
    assert backend.child_namespaces(()) == ["a"]
    assert [note.partition(":")[0].partition(" of its own")[0] for note in seen.notes] == [
        "`a$$b` in __manifest cannot be shown",
        "namespace `a` has no entry",
        "the directory `tab\tbed` cannot be a table",
    ]


# ---- the root --------------------------------------------------------------------------------------------------------


def test_a_root_that_does_not_exist_is_empty_until_something_is_written(tmp_path: Path) -> None:
    backend = DirBackend(root=str(tmp_path / "deep" / "lake"))
    assert backend.scan().tables == {}
    assert CatalogNamespace(backend).list_tables(ListTablesRequest(id=[])).tables == []
    with pytest.raises(NamespaceNotFoundError):
        backend.child_tables(("eu",))
    assert not (tmp_path / "deep").exists()
    backend.insert_namespace(("eu",), {})
    assert set(DirBackend(root=str(tmp_path / "deep" / "lake")).scan().namespaces) == {("eu",)}


def test_a_root_in_every_spelling_is_one_catalog(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake.parent)
    DirBackend(root=str(lake)).insert_namespace(("eu",), {})
    up = f"../{lake.parent.name}/lake"
    for root in ("lake", "./lake/", f"file://{lake}", f"{lake}/", up, "none/../lake", f"file://{lake}/../lake"):
        backend = DirBackend(root=root)
        assert backend.child_namespaces(()) == ["eu"]
        assert backend.default_location(("users",)) == f"{lake}/users.lance"
        assert backend.location_problem(("users",), f"{lake}/users.lance") is None
        assert backend.namespace_id() == f"dir: {lake}"


def test_a_symbolic_link_to_a_root_is_the_same_service(lake: Path) -> None:
    link = lake.parent / "link"
    link.symlink_to(lake, target_is_directory=True)
    assert DirBackend(root=str(link)).namespace_id() == DirBackend(root=str(lake)).namespace_id()


@pytest.mark.parametrize("root", ["s3://bucket/../other", "s3://bucket/a/%2E%2E/b", "gs://bucket/.."])
def test_a_uri_with_a_way_out_of_itself_is_no_root(root: str) -> None:
    with pytest.raises(InvalidInputError, match=r"`root`: expected a URI without `\.\.`"):
        DirBackend(root=root)


@pytest.mark.parametrize("damage", ["versions", "another dataset", "metadata"])
def test_a_list_that_cannot_be_read_is_an_error_that_names_it(lake: Path, backend: DirBackend, damage: str) -> None:
    if damage == "another dataset":
        write_dataset(lake / "__manifest")
    elif damage == "versions":
        backend.insert_namespace(("eu",), {})
        for version in (lake / "__manifest" / "_versions").iterdir():
            version.write_text("damaged")
    else:
        _put(lake, Row("eu", "namespace", None, "[1, 2]"))
    with pytest.raises(BackendError, match="__manifest"):
        DirBackend(root=str(lake)).scan()


def test_data_without_versions_in_the_lists_place_is_not_an_empty_catalog(lake: Path, backend: DirBackend) -> None:
    backend.insert_namespace(("eu",), {})
    for version in (lake / "__manifest" / "_versions").iterdir():
        version.unlink()
    with pytest.raises(BackendError, match="__manifest"):
        DirBackend(root=str(lake)).scan()


def test_a_file_in_the_lists_place_is_no_dataset_that_is_being_created(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake / "__manifest").write_text("no dataset")
    opened = _opened(monkeypatch)
    with pytest.raises(BackendError, match="__manifest"):
        DirBackend(root=str(lake)).scan()
    assert len(opened) == 1


def test_a_first_commit_that_fails_leaves_a_catalog_that_can_be_read_and_written(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> NoReturn:
        raise OSError("connection reset by peer")

    with monkeypatch.context() as patch:
        patch.setattr("reconciler.storage.commits.commit_whole", cut_off)
        with pytest.raises(BackendError):
            backend.insert_namespace(("eu",), {})
    again = DirBackend(root=str(lake))
    assert not again.scan().namespaces
    again.insert_namespace(("eu",), {})
    assert [*DirBackend(root=str(lake)).scan().namespaces] == [("eu",)]


def test_a_list_that_somebody_is_making_right_now_is_waited_for(
    lake: Path, backend: DirBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DirBackend(root=str(tmp_path / "other"))
    other.insert_namespace(("eu",), {})
    made = tmp_path / "other" / "__manifest"
    shutil.copytree(made / "data", lake / "__manifest" / "data")

    def finish(attempt: int) -> None:
        shutil.copytree(made, lake / "__manifest", dirs_exist_ok=True)

    monkeypatch.setattr(directory_manifest, "pause", finish)
    assert backend.child_namespaces(()) == ["eu"]


def test_a_list_that_is_finished_between_two_looks_is_read(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.insert_namespace(("eu",), {})
    opened, looks = storage.open_dataset, []

    def first_too_early(location: str, options: Mapping[str, str], **more: Any) -> Any:
        looks.append(location)
        if len(looks) == 1:
            raise ValueError("no version yet")
        return opened(location, options, **more)

    monkeypatch.setattr(storage, "open_dataset", first_too_early)
    assert DirBackend(root=str(lake)).child_namespaces(()) == ["eu"]


def test_a_scan_reads_the_list_once(lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    backend.insert_namespace(("eu",), {})
    for name in ("a", "b", "c"):
        backend.insert_table(("eu", name), backend.default_location(("eu", name)), {})
    opened = _opened(monkeypatch)
    assert len(DirBackend(root=str(lake)).scan().tables) == 3
    assert opened == [f"{lake}/__manifest"]


def test_names_are_listed_without_an_object_for_each(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.insert_namespace(("eu",), {})
    _put(lake, *(Row(f"eu${name}", "table", "x") for name in ("users", "clicks", "")), Row("eu$seen", "view"))
    monkeypatch.setattr(ManifestRows, "__iter__", None)
    for _ in range(2):
        assert backend.child_tables(("eu",)) == ["clicks", "users"]
    assert sorted(backend.large_namespaces(2)["eu",]) == ["", "clicks", "users"]
    assert backend.foreign_objects(("eu",)) == ["seen"]
    backend.remove_table(("eu", "users"))
    assert backend.child_tables(("eu",)) == ["clicks"]


def test_a_list_that_replaces_another_at_the_same_version_is_read(lake: Path, backend: DirBackend) -> None:
    backend.insert_namespace(("eu",), {})
    assert backend.child_namespaces(()) == ["eu"]
    shutil.rmtree(lake / "__manifest")
    DirBackend(root=str(lake)).insert_namespace(("us",), {})
    assert backend.child_namespaces(()) == ["us"]


# ---- locations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["__manifest", "__manifest/data", "../out.lance", "", "s3://bucket/a.lance", "/"])
def test_locations_that_cannot_be_are_refused(lake: Path, backend: DirBackend, location: str) -> None:
    problem = backend.location_problem(("users",), location)
    assert problem
    with pytest.raises(InvalidInputError, match=f"^{re.escape(f'dir: {problem}')}$"):
        backend.insert_table(("users",), location, {})
    assert _files(lake) == {}
    assert backend.scan().tables == {}


def test_a_location_relative_to_the_root_is_taken(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "teams" / "users.lance")
    assert backend.location_problem(("users",), "teams/users.lance") is None
    made = backend.insert_table(("users",), "teams/users.lance", {})
    assert made.location == backend.load_table(("users",)).location == f"{lake}/teams/users.lance"


def test_the_default_of_a_bare_directory_is_itself(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "bare")
    assert backend.default_location(("bare",)) == f"{lake}/bare"
    backend.insert_table(("bare",), f"{lake}/bare", {"tier": "gold"})
    assert backend.load_table(("bare",)).properties == {"tier": "gold"}
    with pytest.raises(TableAlreadyExistsError):
        backend.insert_table(("bare",), f"{lake}/bare", {})


def test_a_directory_of_another_place_takes_the_name(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "users.lance")
    with pytest.raises(TableAlreadyExistsError):
        backend.insert_table(("users",), f"{lake}/elsewhere.lance", {})


def test_a_table_and_a_namespace_share_one_name_space_as_the_capabilities_say(backend: DirBackend) -> None:
    assert backend.capabilities().one_name_space
    backend.insert_namespace(("eu",), {})
    with pytest.raises(TableAlreadyExistsError, match="`eu` is the name of a namespace"):
        backend.insert_table(("eu",), "eu.lance", {})
    backend.insert_table(("eu", "users"), "users", {})
    with pytest.raises(NamespaceAlreadyExistsError):
        backend.insert_namespace(("eu", "users"), {})


@pytest.mark.parametrize("directory", ["users", "users.lance"])
def test_a_namespace_hides_no_table_known_by_its_directory(lake: Path, backend: DirBackend, directory: str) -> None:
    write_dataset(lake / directory)
    with pytest.raises(NamespaceAlreadyExistsError):
        backend.insert_namespace(("users",), {})
    backend.remove_table(("users",))
    assert backend.insert_namespace(("users",), {}).id == ("users",)


def test_a_namespace_may_have_the_name_of_a_directory_of_other_files(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "raw/2024/clicks.lance")
    (lake / "docs").mkdir()
    (lake / "docs/notes.md").touch()
    for name in ("raw", "docs"):
        assert backend.insert_namespace((name,), {}).id == (name,)
    (lake / "declared").mkdir()
    (lake / "declared" / storage.RESERVED_MARKER).touch()
    with pytest.raises(NamespaceAlreadyExistsError):
        backend.insert_namespace(("declared",), {})


def test_changing_a_table_known_by_its_directory_gives_it_an_entry(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "users.lance")
    backend.alter_table(("users",), PropertyChanges({"tier": "gold"}))
    assert DirBackend(root=str(lake)).load_table(("users",)).properties == {"tier": "gold"}


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("stored", "directory"),
    [
        ("users.lance", "users.lance"),
        ("./users.lance", "users.lance"),
        ("teams/ads/users.lance", "teams"),
        ("./teams/users.lance", "teams"),
        ("/lake/users.lance", "users.lance"),
        ("file:///lake/teams/users.lance", "teams"),
        ("a_b%.lance", "a_b%.lance"),
    ],
)
def test_a_place_is_occupied_in_every_form_of_a_location(counted: bool, stored: str, directory: str) -> None:
    empty = ManifestRows(
        StoredLocations("/lake"), pa.table({name: pa.array([], pa.string()) for name in Row.__slots__})
    )
    contents = empty.put(Row("eu", "namespace"), Row("users", "table", stored), Row("far", "table", "s3://other/far"))
    if counted:
        assert contents.occupied_directories == {directory}
    assert contents.is_occupied(directory)
    for free in ("user", "users", "users.lance.old", "ads", "a_bc.lance", "axb%.lance", "far", "lake", "s3:", "."):
        assert not contents.is_occupied(free), free


@pytest.mark.parametrize("stored", ["users.lance", "./users.lance", "users.lance/deep", "/lake/users.lance"])
def test_a_place_is_occupied_by_the_rows_after_the_changes(stored: str) -> None:
    schema = pa.schema([(name, pa.string()) for name in Row.__slots__])
    rows = [{"object_id": "eu", "object_type": "namespace"}]
    rows += [{"object_id": name, "object_type": "table", "location": stored} for name in ("users", "same")]
    read = ManifestRows(StoredLocations("/lake"), pa.Table.from_pylist(rows, schema))
    one_left = read.without("users")
    moved = one_left.put(Row("same", "table", "elsewhere.lance"))
    for contents, occupied in (
        (read, {"users.lance"}),
        (one_left, {"users.lance"}),
        (moved, {"elsewhere.lance"}),
        (moved.put(Row("late", "table", stored)), {"users.lance", "elsewhere.lance"}),
        (one_left.without("same"), set()),
    ):
        directories = ("users.lance", "elsewhere.lance", "users", "eu")
        assert {directory for directory in directories if contents.is_occupied(directory)} == occupied
        assert contents.occupied_directories == occupied


def test_a_table_that_another_client_fills_first_stays(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace, sink, write = (
        reconciler.connect("dir", {"root": str(lake)}),
        pa.BufferOutputStream(),
        storage.write_stream,
    )
    with pa.ipc.new_stream(sink, pa.schema([("id", pa.int64())])):
        pass

    def written(location: str, *given: Any) -> int:
        write_dataset(Path(location))
        return write(location, *given)

    monkeypatch.setattr(storage, "write_stream", written)
    with pytest.raises(errors.TableAlreadyExistsError):
        namespace.create_table(CreateTableRequest(id=["users"]), sink.getvalue().to_pybytes())
    monkeypatch.undo()
    assert (
        namespace.count_table_rows(CountTableRowsRequest(id=["users"])).count
        == lance.dataset(lake / "users.lance").count_rows()
    )


# ---- leaving and moving ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["users.lance", "users", "teams/ads/users.lance", "teams/users.lance"])
def test_what_a_deregistered_table_leaves_is_no_table(lake: Path, backend: DirBackend, place: str) -> None:
    write_dataset(lake / place)
    before = _files(lake)
    backend.insert_table(("users",), place, {"tier": "gold"})
    backend.remove_table(("users",))
    assert backend.scan().tables == {}
    assert _files(lake) == before
    backend.insert_table(("users",), place, {"tier": "new"})
    assert {table.id: dict(table.properties) for table in backend.scan().tables.values()} == {
        ("users",): {"tier": "new"}
    }
    assert _files(lake) == before


def test_a_first_write_under_way_brings_no_deregistered_table_back(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "users.lance")
    versions = (lake / "users.lance/_versions").rename(lake / "uncommitted")
    backend.insert_table(("users",), "users.lance", {})
    backend.remove_table(("users",))
    versions.rename(lake / "users.lance/_versions")
    assert backend.scan().tables == {}


def test_neighbours_of_a_deregistered_table_stay(lake: Path, backend: DirBackend) -> None:
    for name in ("a", "b"):
        write_dataset(lake / "teams" / f"{name}.lance")
        backend.insert_table((name,), f"teams/{name}.lance", {})
    backend.remove_table(("a",))
    assert set(backend.scan().tables) == {("b",)}
    assert not (lake / "teams" / ".lance-deregistered").exists()


def test_a_directory_that_groups_tables_is_not_marked(lake: Path, backend: DirBackend) -> None:
    write_dataset(lake / "teams/a.lance")
    backend.insert_table(("a",), "teams/a.lance", {})
    backend.remove_table(("a",))
    assert [path.name for path in (lake / "teams").iterdir()] == ["a.lance"]


def test_tables_that_leave_a_directory_together_leave_no_table(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a", "b")
    for name in names:
        write_dataset(lake / f"teams/ads/{name}.lance")
        backend.insert_table((name,), f"teams/ads/{name}.lance", {})
    together, update = threading.Barrier(len(names), timeout=HUNG_SECONDS), DirManifest.update

    def committed(manifest: DirManifest, *given: Any) -> Any:
        together.wait()  # both have looked at who else is in the directory
        return update(manifest, *given)

    monkeypatch.setattr(DirManifest, "update", committed)
    in_parallel(lambda name: backend.remove_table((name,)), names, len(names))
    assert backend.scan().tables == {}


def test_a_root_table_moves_and_leaves_no_table_behind(lake: Path, backend: DirBackend) -> None:
    for name in ("old", "new"):
        write_dataset(lake / f"{name}.lance")
    before = _files(lake)
    backend.alter_table(("old",), PropertyChanges({"tier": "gold"}), f"{lake}/new.lance")
    seen = backend.scan()
    assert {table.id: table.location for table in seen.tables.values()} == {("old",): f"{lake}/new.lance"}
    assert seen.notes == ()
    assert _files(lake) == before


def test_a_root_table_whose_directory_is_gone_is_gone(lake: Path, backend: DirBackend) -> None:
    backend.insert_table(("users",), "users.lance", {})
    (lake / "users.lance" / ".lance-reserved").unlink()
    (lake / "users.lance").rmdir()
    assert backend.scan().tables == {}
    with pytest.raises(TableNotFoundError):
        backend.load_table(("users",))
    backend.insert_table(("users",), "users.lance", {"tier": "gold"})
    assert backend.load_table(("users",)).properties == {"tier": "gold"}


# ---- errors ----------------------------------------------------------------------------------------------------------


class PanicException(BaseException):
    """Stands for what a panic inside pylance raises."""


def test_a_list_that_makes_pylance_panic_is_an_error_that_names_it(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.insert_namespace(("eu",), {})

    def panic(*_: object, **__: object) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(lance.LanceDataset, "to_table", panic)
    with pytest.raises(InternalError, match=f"^{lake}/__manifest: pylance panicked: "):
        DirBackend(root=str(lake)).scan()


def test_two_tables_at_one_dataset_by_different_ways_are_blocked(
    lake: Path, backend: DirBackend, tmp_path: Path
) -> None:
    (lake / "real").mkdir(parents=True)
    (lake / "link").symlink_to(lake / "real")
    blocks = "{location: lake/%s/t.lance, schema: [{name: id, type: int64}]}"
    path = tmp_path / "lancens.yaml"

    def planned(**places: str) -> reconciler.Plan:
        tables = ", ".join(f"{name}: {blocks % place}" for name, place in places.items())
        path.write_text(
            f"version: 1\nname: store\ncatalogs: {{lake: {{impl: dir, config: {{root: {lake}}}, "
            f"namespaces: {{a: {{tables: {{{tables}}}}}}}}}}}\n"
        )
        return reconciler.plan(reconciler.load(path))

    both = planned(one="real", two="link")
    assert_blocked(both, "lake/a/one", ReasonCode.LOCATION_SHARED, name="lake/a/two", location=f"{lake}/real/t.lance")
    assert [change.action.value for change in both.changes] == ["create-namespace"]
    backend.insert_namespace(("theirs",), {})
    backend.insert_table(("theirs", "declared"), f"{lake}/link/t.lance", {})
    saved = planned(one="real", other="real/x")
    assert_blocked(saved, "lake/a/one", ReasonCode.LOCATION_TAKEN, name="lake/theirs/declared")
    journal = tmp_path / "journal"
    kept = reconciler.Plan.from_json(saved.to_json())
    assert reconciler.apply(kept, reconciler.load(path), skip_blocked=True, journal=journal).ok
    assert not (lake / "real/t.lance").exists()
    assert (lake / "real/x/t.lance").is_dir()


@pytest.mark.parametrize("suffix", ["", ".lance"])
@pytest.mark.parametrize("name", ["é", "x%20y"])
def test_tags_that_pylance_writes_beside_a_dataset_are_no_table(tmp_path: Path, name: str, suffix: str) -> None:
    """pylance 14 keeps those of a path that needs percent-encoding in a directory with the encoded name."""
    catalog, location = DirBackend(root=str(tmp_path)), tmp_path / f"{name}{suffix}"
    write_dataset(location)
    lance.dataset(location).tags.create("prod", 1)
    assert {*catalog.scan().tables} == {(name,)}
    catalog.remove_table((name,))
    assert not catalog.scan().tables
    assert catalog.child_tables(()) == []


@pytest.mark.parametrize("place", ["users.lance", "users.lance/inner.lance"])
def test_an_entry_that_would_hide_a_table_by_its_directory_is_blocked(tmp_path: Path, lake: Path, place: str) -> None:
    """The next plan would miss that table: it would block its block, and remove it from a mirror."""
    for one in {"users.lance", place}:
        write_dataset(lake / one)

    def manifest(users: object) -> reconciler.Manifest:
        blocks = blocks_of({("users",): users, ("eu", "people"): {"location": f"{lake}/{place}"}})
        return load_manifest(tmp_path, {"lake": {"impl": "dir", "config": {"root": str(lake)}, **blocks}})

    both, gone = manifest({}), manifest({"absent": True})
    assert_blocked(
        reconciler.plan(both),
        "lake/eu/people",
        ReasonCode.HIDES_TABLE,
        name="lake/users",
        location=f"{lake}/users.lance",
    )
    assert reconciler.apply(reconciler.plan(both, adopt=True), both, skip_blocked=True).ok
    assert reconciler.apply(reconciler.plan(both), both).ok
    assert reconciler.plan(both).is_empty
    assert {*DirBackend(root=str(lake)).scan().tables} == {("users",), ("eu", "people")}
    DirBackend(root=str(lake)).remove_table(("eu", "people"))
    assert reconciler.apply(reconciler.plan(gone, allow_mass_removal=True), gone, allow_mass_removal=True).ok
    assert reconciler.plan(gone).is_empty


@pytest.mark.parametrize("is_followed", [False, True])
def test_an_entry_hides_a_table_that_nobody_wants_unless_a_mirror_follows_it(
    tmp_path: Path, lake: Path, is_followed: bool
) -> None:
    write_dataset(lake / "users.lance")
    blocks = blocks_of({("eu", "people"): {"location": f"{lake}/users.lance"}})
    copy = {"impl": "memory", "config": {"name": str(tmp_path)}, "mirror": {"from": "lake"}}
    catalogs = {"lake": {"impl": "dir", "config": {"root": str(lake)}, **blocks}}
    manifest = load_manifest(tmp_path, catalogs | ({"copy": copy} if is_followed else {}))
    plan = reconciler.plan(manifest)
    assert [one.code for one in plan.blocked if one.catalog == "lake"] == [ReasonCode.HIDES_TABLE] * is_followed
    assert reconciler.apply(plan, manifest, skip_blocked=True).ok
    if not is_followed:
        assert reconciler.plan(manifest).is_empty
        assert {*DirBackend(root=str(lake)).scan().tables} == {("eu", "people")}
