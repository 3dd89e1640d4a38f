"""Changes to a directory catalog that are cut off halfway, and changes that others make at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import ListTablesRequest

import reconciler
from reconciler.applier import steps
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.contents import ManifestRows
from reconciler.backends.dir.listing import Directory
from reconciler.backends.dir.manifest import DirManifest
from reconciler.backends.dir.rows import Row, StoredLocations
from reconciler.model.errors import LancensError
from reconciler.model.live import PropertyChanges
from reconciler.model.names import EVERYTHING, Scope
from reconciler.server.catalogs import OneCatalog
from tests.servers.lance_rest import served
from tests.writing import blocks_of, load_manifest, write_dataset


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


@pytest.fixture
def backend(lake: Path) -> DirBackend:
    return DirBackend(root=str(lake))


class _Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def dying(owner: object, step: str, *, done: bool) -> Iterator[None]:
    """Let the process end at a step of ``owner`` in the block: before it, or once it is ``done``."""
    genuine, reached = getattr(owner, step), threading.Event()

    def die(*arguments: Any, **more: Any) -> None:
        reached.set()
        if done:
            genuine(*arguments, **more)
        raise _Killed

    with pytest.MonkeyPatch.context() as patch, suppress(_Killed):
        patch.setattr(owner, step, die)
        yield
    assert reached.is_set()


def test_an_insert_cut_off_after_its_commit_can_be_made_again(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.insert_table(("users",), "users.lance", {"tier": "first"})
    backend.remove_table(("users",))
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "unmark", _die)
        with pytest.raises(_Killed):
            backend.insert_table(("users",), "users.lance", {"tier": "second"})
    assert backend.scan().tables == {}
    backend.insert_table(("users",), "users.lance", {"tier": "third"})
    assert backend.load_table(("users",)).properties == {"tier": "third"}


@pytest.mark.parametrize("apply_saved", [False, True])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(("owner", "step"), [(steps, "ensure_dataset"), (DirBackend, "insert_table")])
@pytest.mark.parametrize("impl", ["dir", "rest"])
def test_a_create_of_a_root_table_cut_off_at_any_step_goes_on_and_is_marked(
    lake: Path, monkeypatch: pytest.MonkeyPatch, impl: str, owner: object, step: str, done: bool, apply_saved: bool
) -> None:
    """A dataset directly under the root is a table without an entry, and without a mark it would be nobody's."""
    monkeypatch.chdir(lake.parent)
    with served(OneCatalog(DirBackend(root=str(lake)))) as url:
        uri = f"uri: {url}, " if impl == "rest" else ""
        (lake.parent / "lancens.yaml").write_text(
            f"{{version: 1, name: store, catalogs: {{lake: {{impl: {impl}, config: {{{uri}root: {lake}}}, "
            "tables: {users: {schema: [{name: id, type: int64}]}}}}}"
        )
        manifest = reconciler.load("lancens.yaml")
        plan = reconciler.plan(manifest)
        with dying(owner, step, done=done), suppress(LancensError):
            assert not reconciler.apply(plan, manifest).ok
        assert reconciler.apply(plan if apply_saved else reconciler.plan(manifest), manifest).ok
        assert reconciler.plan(manifest).is_empty
    live = DirBackend(root=str(lake)).load_table(("users",))
    assert live.properties["lancens.managed-by"] == "store/lake"
    assert lance.dataset(live.location).version == 1


@pytest.mark.parametrize(("owner", "step"), [(steps, "ensure_dataset"), (DirBackend, "insert_table")])
def test_a_create_beside_the_root_tables_cut_off_leaves_no_table_without_an_entry(
    lake: Path, owner: object, step: str
) -> None:
    """The data alone would be a table directly under the root, which the entry of its own block would hide."""
    block = {"location": f"{lake}/users.lance", "schema": [{"name": "id", "type": "int64"}]}
    catalog = {"impl": "dir", "config": {"root": str(lake)}, **blocks_of({("eu", "people"): block})}
    manifest = load_manifest(lake.parent, {"lake": catalog})
    with dying(owner, step, done=True):
        reconciler.apply(reconciler.plan(manifest), manifest)
    assert reconciler.apply(reconciler.plan(manifest), manifest).ok
    assert {*DirBackend(root=str(lake)).scan().tables} == {("eu", "people")}


def test_a_removal_cut_off_before_its_commit_is_a_removal(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.insert_table(("users",), "users.lance", {})
    with monkeypatch.context() as patch:
        patch.setattr(DirManifest, "update", _die)
        with pytest.raises(_Killed):
            backend.remove_table(("users",))
    assert backend.scan().tables == {}
    backend.insert_table(("users",), "users.lance", {"tier": "new"})
    assert backend.load_table(("users",)).properties == {"tier": "new"}


@pytest.mark.parametrize("apply_saved", [False, True])
@pytest.mark.parametrize("removed", ["", "users: {absent: true}"], ids=["no block", "absent"])
def test_what_a_removal_cut_off_before_its_commit_left_goes_with_the_next_apply(
    lake: Path, monkeypatch: pytest.MonkeyPatch, removed: str, apply_saved: bool
) -> None:
    """It is gone to all who look at its directory; to pylance that does not, and to who wants its name, it is not."""
    monkeypatch.chdir(lake.parent)
    text = f"{{version: 1, name: store, catalogs: {{lake: {{impl: dir, config: {{root: {lake}}}, tables: {{%s}}}}}}}}"
    (lake.parent / "lancens.yaml").write_text(text % "users: {schema: [{name: id, type: int64}]}")
    manifest = reconciler.load("lancens.yaml")
    assert reconciler.apply(reconciler.plan(manifest), manifest).ok
    (lake.parent / "lancens.yaml").write_text(text % removed)
    manifest = reconciler.load("lancens.yaml")
    plan = reconciler.plan(manifest, allow_mass_removal=True)
    with monkeypatch.context() as patch:
        patch.setattr(DirManifest, "update", _die)
        with pytest.raises(_Killed):
            reconciler.apply(plan, manifest, allow_mass_removal=True)
    namespace = lance_namespace.connect("dir", {"root": str(lake), "dir_listing_enabled": "false"})
    assert namespace.list_tables(ListTablesRequest(id=[])).tables == ["users"]
    again = plan if apply_saved else reconciler.plan(manifest)
    assert [change.action.value for change in again.changes] == ["deregister-table"]
    assert reconciler.apply(again, manifest, allow_mass_removal=True).ok
    assert namespace.list_tables(ListTablesRequest(id=[])).tables == []
    assert DirManifest(StoredLocations(str(lake)), {}).read().find("users") is None
    assert lance.dataset(str(lake / "users.lance")).count_rows() == 0
    assert reconciler.plan(manifest).is_empty


def test_a_plan_is_stale_whose_leftover_is_in_use_again(lake: Path, backend: DirBackend) -> None:
    backend.insert_table(("users",), "users.lance", {})
    Directory(str(lake), {}).mark("users.lance")
    manifest = load_manifest(lake.parent, {"lake": {"impl": "dir", "config": {"root": str(lake)}}})
    saved = reconciler.plan(manifest)
    assert [change.address for change in saved.changes] == ["lake/users"]
    backend.insert_table(("users",), "users.lance", {})
    with pytest.raises(reconciler.StalePlanError, match=r"lake/users +planned on .* in use"):
        reconciler.apply(saved, manifest)
    assert backend.scan().tables.keys() == {("users",)}


def test_what_a_removal_left_goes_before_a_namespace_of_its_name(lake: Path) -> None:
    DirBackend(root=str(lake)).insert_table(("users",), "users.lance", {})
    Directory(str(lake), {}).mark("users.lance")
    manifest = load_manifest(
        lake.parent, {"lake": {"impl": "dir", "config": {"root": str(lake)}, "namespaces": {"users": {}}}}
    )
    assert reconciler.apply(reconciler.plan(manifest), manifest).ok
    assert reconciler.plan(manifest).is_empty


def test_what_a_removal_left_is_not_in_the_way_of_a_new_table(lake: Path, backend: DirBackend) -> None:
    backend.insert_table(("users",), "users.lance", {"tier": "first"})
    Directory(str(lake), {}).mark("users.lance")
    assert backend.scan().tables == {}
    assert [left.id for left in backend.leftovers(EVERYTHING)] == [("users",)]
    assert backend.leftovers(Scope(("a/**",))) == []
    backend.insert_table(("users",), "users.lance", {"tier": "second"})
    assert backend.leftovers(EVERYTHING) == []
    assert backend.load_table(("users",)).properties == {"tier": "second"}


@pytest.mark.parametrize("target", ["new.lance", "retired.lance"])
@pytest.mark.parametrize(
    ("owner", "step"), [(Directory, "unmark"), (Directory, "reserve"), (DirManifest, "commit"), (Directory, "mark")]
)
@pytest.mark.parametrize("done", [False, True])
def test_a_move_cut_off_at_any_step_keeps_the_table_and_can_be_made_again(
    lake: Path, backend: DirBackend, target: str, owner: type, step: str, done: bool
) -> None:
    for name in ("users", "retired"):
        write_dataset(lake / f"{name}.lance")
    backend.insert_table(("users",), "users.lance", {"engine-key": "precious"})
    backend.remove_table(("retired",))
    with dying(owner, step, done=done):
        backend.alter_table(("users",), PropertyChanges({"tier": "gold"}), target)
    seen = backend.scan().tables["users",]
    assert seen.properties["engine-key"] == "precious"
    assert seen.location in (f"{lake}/users.lance", f"{lake}/{target}")
    moved = backend.alter_table(("users",), PropertyChanges({"tier": "gold"}), target)
    assert backend.scan().tables["users",] == moved
    assert (moved.location, moved.properties) == (f"{lake}/{target}", {"engine-key": "precious", "tier": "gold"})


@pytest.mark.parametrize("apply_saved", [False, True])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(("owner", "step"), [(Directory, "mark"), (DirManifest, "commit")])
def test_a_move_out_of_the_root_cut_off_at_any_step_leaves_no_second_table(
    lake: Path, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, done: bool, apply_saved: bool
) -> None:
    """A directory that a table in a namespace leaves would become a table directly under the root."""
    monkeypatch.chdir(lake.parent)

    def manifest(place: str) -> reconciler.Manifest:
        blocks = blocks_of({("eu", "users"): {"location": f"{lake}/{place}"}})
        return load_manifest(lake.parent, {"lake": {"impl": "dir", "config": {"root": str(lake)}, **blocks}})

    for name in ("first", "second"):
        write_dataset(lake / f"{name}.lance")
    first = manifest("first.lance")
    assert reconciler.apply(reconciler.plan(first), first).ok
    moved = manifest("second.lance")
    plan = reconciler.plan(moved)
    with dying(owner, step, done=done):
        reconciler.apply(plan, moved)
    namespace = lance_namespace.connect("dir", {"root": str(lake)})
    assert namespace.list_tables(ListTablesRequest(id=["eu"])).tables == ["users"]
    assert reconciler.apply(plan if apply_saved else reconciler.plan(moved), moved).ok
    assert reconciler.plan(moved).is_empty
    assert {table.id: table.location for table in DirBackend(root=str(lake)).scan().tables.values()} == {
        ("eu", "users"): f"{lake}/second.lance"
    }
    assert "first" not in namespace.list_tables(ListTablesRequest(id=[])).tables


@pytest.mark.parametrize("moves", [False, True], ids=["all removed", "one moves"])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(("owner", "step"), [(Directory, "mark"), (DirManifest, "commit")])
def test_tables_that_leave_one_directory_together_cut_off_at_any_step_leave_no_table(
    lake: Path, owner: type, step: str, done: bool, moves: bool
) -> None:
    write_dataset(lake / "users.lance")
    write_dataset(lake / "elsewhere.lance")
    leaves = {"location": f"{lake}/elsewhere.lance"} if moves else None
    places = {"location": f"{lake}/users.lance"}

    def manifest(leaves: object, **block: Any) -> reconciler.Manifest:
        blocks = blocks_of({("root",): block, ("eu", "first"): block, ("eu", "second"): leaves or block})
        return load_manifest(lake.parent, {"lake": {"impl": "dir", "config": {"root": str(lake)}, **blocks}})

    there, gone = manifest(None, **places), manifest(leaves, absent=True)
    assert reconciler.apply(reconciler.plan(there), there).ok
    plan = reconciler.plan(gone, allow_mass_removal=True)
    with dying(owner, step, done=done):
        reconciler.apply(plan, gone, allow_mass_removal=True)
    assert reconciler.apply(reconciler.plan(gone), gone, allow_mass_removal=True).ok
    assert set(DirBackend(root=str(lake)).scan().tables) == ({("eu", "second")} if moves else {("elsewhere",)})


def _die(*_: object) -> None:
    raise _Killed


@pytest.mark.parametrize(("leaves", "comes"), [("moving", "another"), ("moving", "itself"), ("removed", "another")])
def test_who_takes_a_place_while_a_table_leaves_it_stays(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch, leaves: str, comes: str
) -> None:
    write_dataset(lake / "users.lance")
    backend.insert_table(("old",), "users.lance", {})
    genuine = Directory.mark

    def mark(directory: Directory, place: str) -> None:
        monkeypatch.setattr(Directory, "mark", genuine)
        other = DirBackend(root=str(lake))
        if comes == "itself":
            other.alter_table(("old",), PropertyChanges(), "users.lance")
        else:
            other.insert_table(("new",), "users.lance", {})
        genuine(directory, place)

    monkeypatch.setattr(Directory, "mark", mark)
    if leaves == "moving":
        backend.alter_table(("old",), PropertyChanges(), "old.lance")
    else:
        backend.remove_table(("old",))
    name = "old" if comes == "itself" else "new"
    assert backend.scan().tables[name,].location == f"{lake}/users.lance"


def test_a_table_that_moves_to_a_place_while_another_leaves_it_stays(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(lake / "users.lance")
    backend.insert_table(("new",), "new.lance", {})
    genuine = DirManifest.commit

    def commit(manifest: DirManifest, before: ManifestRows, rows: pa.Table) -> bool:
        Directory(str(lake), {}).mark("users.lance")
        return genuine(manifest, before, rows)

    monkeypatch.setattr(DirManifest, "commit", commit)
    backend.alter_table(("new",), PropertyChanges(), "users.lance")
    assert backend.scan().tables["new",].location == f"{lake}/users.lance"


def test_what_others_write_in_between_is_seen_and_kept(lake: Path, backend: DirBackend) -> None:
    backend.insert_namespace(("eu",), {})
    mine, theirs = (DirManifest(StoredLocations(str(lake)), {}) for _ in range(2))
    theirs._lock = threading.Lock()
    attempts = 0

    def change(contents: ManifestRows) -> tuple[ManifestRows, None]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            theirs.update(lambda seen: (seen.put(Row("theirs", "namespace")), None))
        return contents.put(Row("mine", "namespace")), None

    mine.update(change)
    assert attempts == 2
    assert sorted(backend.child_namespaces(())) == ["eu", "mine", "theirs"]
