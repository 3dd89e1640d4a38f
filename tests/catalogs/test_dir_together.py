"""Changes of a directory that come at once share a commit: each is checked on its own, and all are made or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import ListTablesRequest

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.contents import ManifestRows
from reconciler.backends.dir.manifest import DirManifest
from reconciler.backends.dir.rows import NAMESPACE, Row
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import NamespaceNotFoundError, TableAlreadyExistsError, TableNotFoundError
from reconciler.model.live import LiveTable, PropertyChanges
from tests.soak import count


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


@pytest.fixture
def backend(lake: Path) -> DirBackend:
    made = DirBackend(root=str(lake))
    made.insert_namespace(("a",), {})
    made.insert_table(("a", "old"), "old", {"tier": "x"})
    return made


IN_FLIGHT = 32 * DEFAULT_PARALLELISM


class _Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def one_after_the_other(backend: DirBackend, changes: Sequence[Callable[[], object]]) -> Iterator[list[Future[object]]]:
    """Send ``changes`` while a commit is under way; it goes on when the block is left."""
    manifest = backend._manifest
    with ThreadPoolExecutor(len(changes)) as pool, manifest._lock:
        sent = []
        for number, change in enumerate(changes, start=1):
            sent.append(pool.submit(change))
            while len(manifest._waiting) < number:
                threading.Event().wait(0.001)
        yield sent


def versions(lake: Path) -> int:
    return len(lance.dataset(str(lake / "__manifest")).versions())


def insertion(backend: DirBackend, *names: str) -> Callable[[], LiveTable]:
    return lambda: backend.insert_table(names, "_".join(names), {"tier": names[-1]})


def test_they_are_one_commit_and_each_is_checked_on_what_the_one_before_left(lake: Path, backend: DirBackend) -> None:
    before = versions(lake)
    changes: list[Callable[[], object]] = [
        insertion(backend, "a", "t"),
        insertion(backend, "a", "t"),
        insertion(backend, "missing", "t"),
        lambda: backend.alter_table(("a", "old"), PropertyChanges({"owner": "me"})),
        lambda: backend.rename_table(("a", "old"), ("a", "new")),
        lambda: backend.alter_table(("a", "new"), PropertyChanges({"tier": "y"})),
        insertion(backend, "a", "old"),
    ]
    with one_after_the_other(backend, changes) as sent:
        pass
    first, again, nowhere, *rest = sent
    assert first.result() == LiveTable(("a", "t"), f"{lake}/a_t", {"tier": "t"})
    assert isinstance(again.exception(), TableAlreadyExistsError)
    assert isinstance(nowhere.exception(), NamespaceNotFoundError)
    assert [one.exception() for one in rest] == [None] * 4
    assert versions(lake) == before + 1
    tables = DirBackend(root=str(lake)).scan().tables
    assert {table.id[-1]: table.properties for table in tables.values()} == {
        "t": {"tier": "t"},
        "new": {"tier": "y", "owner": "me"},
        "old": {"tier": "old"},
    }


def test_a_directory_is_no_table_once_a_change_before_makes_a_namespace_of_its_name(
    lake: Path, backend: DirBackend
) -> None:
    for name in ("users", "users.lance", "events"):
        lance.write_dataset(pa.table({"id": [1]}), lake / name)
        assert backend.load_table((name.removesuffix(".lance"),)).location == str(lake / name)

    def entered(name: str) -> Callable[[], object]:
        """As other clients do, which ask nothing."""
        return lambda: backend._manifest.update(lambda contents: (contents.put(Row(name, NAMESPACE)), None))

    tagged = [partial(backend.alter_table, (name,), PropertyChanges({"tier": "x"})) for name in ("users", "events")]
    with one_after_the_other(backend, [entered("users"), *tagged]) as (_, users, events):
        pass
    with pytest.raises(TableNotFoundError, match="`users` does not exist"):
        users.result()
    assert isinstance(events.result(), LiveTable)
    entered("events")()
    with pytest.raises(TableNotFoundError, match="`events` does not exist"):
        backend.load_table(("events",))


def test_an_entry_at_the_root_needs_no_list_of_all_namespaces(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[str] = []
    of_type = ManifestRows.of_type

    def listed(rows: ManifestRows, object_type: str) -> ManifestRows:
        lists.append(object_type)
        return of_type(rows, object_type)

    monkeypatch.setattr(ManifestRows, "of_type", listed)
    names = [f"t{number}" for number in range(10)]
    for name in names[::2]:
        lance.write_dataset(pa.table({"id": [1]}), lake / f"{name}.lance")
    changes = [partial(backend.insert_table, (name,), f"{name}.lance", {}) for name in names]
    with one_after_the_other(backend, changes) as sent:
        pass
    inserted = [LiveTable((name,), str(lake / f"{name}.lance")) for name in names]
    assert ([change.result() for change in sent], lists) == (inserted, [])


def test_where_all_are_refused_nothing_is_written(lake: Path, backend: DirBackend) -> None:
    before = versions(lake)
    with one_after_the_other(backend, [insertion(backend, "a", "old"), insertion(backend, "b", "t")]) as sent:
        pass
    assert all(one.exception() for one in sent)
    assert versions(lake) == before


def test_a_commit_of_somebody_else_in_between_has_them_all_made_again(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = DirManifest.commit
    other = DirBackend(root=str(lake))

    def commit(manifest: DirManifest, before: ManifestRows, rows: pa.Table) -> bool:
        monkeypatch.setattr(DirManifest, "commit", genuine)
        other._manifest._lock = threading.Lock()
        other.insert_table(("a", "t1"), "theirs", {})
        return genuine(manifest, before, rows)

    with one_after_the_other(backend, [insertion(backend, "a", f"t{number}") for number in range(3)]) as sent:
        monkeypatch.setattr(DirManifest, "commit", commit)
    assert [type(one.exception()) for one in sent] == [type(None), TableAlreadyExistsError, type(None)]
    assert sorted(name for _, name in backend.scan().tables) == ["old", "t0", "t1", "t2"]
    assert backend.load_table(("a", "t1")).location == f"{lake}/theirs"


@pytest.mark.parametrize("committed", [False, True])
def test_one_that_is_cut_off_is_there_whole_or_not_at_all(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    genuine = DirManifest.commit

    def commit(manifest: DirManifest, before: ManifestRows, rows: pa.Table) -> bool:
        if committed:
            genuine(manifest, before, rows)
        raise _Killed

    with one_after_the_other(backend, [insertion(backend, "a", f"t{number}") for number in range(3)]) as sent:
        monkeypatch.setattr(DirManifest, "commit", commit)
    assert {type(one.exception()) for one in sent} == {_Killed}
    monkeypatch.setattr(DirManifest, "commit", genuine)
    there = {name for _, name in DirBackend(root=str(lake)).scan().tables}
    assert there == ({"old", "t0", "t1", "t2"} if committed else {"old"})


def test_nobody_waits_for_the_commit_after_their_own(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that arrives during a commit is committed next, while the callers of the first go on."""
    genuine = DirManifest.commit

    def commit(manifest: DirManifest, before: ManifestRows, rows: ManifestRows) -> bool:
        if not later:
            later.append(pool.submit(insertion(backend, "a", "later")))
            while not manifest._waiting:
                threading.Event().wait(0.001)
        else:
            pending.extend(wait(sent, timeout=10).not_done)
        return genuine(manifest, before, rows)

    later: list[Future[LiveTable]] = []
    pending: list[Future[object]] = []
    with ThreadPoolExecutor(1) as pool:
        with one_after_the_other(backend, [insertion(backend, "a", f"t{number}") for number in range(3)]) as sent:
            monkeypatch.setattr(DirManifest, "commit", commit)
        assert later[0].result().id == ("a", "later")
    assert pending == []


def test_columns_that_others_keep_of_a_row_outlive_changes_of_it(lake: Path, backend: DirBackend) -> None:
    place = str(lake / "__manifest")
    rows = lance.dataset(place).to_table()
    pinned = pa.array([f"{name}!" for name in rows.column("object_id").to_pylist()])
    lance.write_dataset(rows.append_column("pinned", pinned), place, mode="overwrite")
    changes: list[Callable[[], object]] = [
        lambda: backend.alter_table(("a", "old"), PropertyChanges({"tier": "y"})),
        insertion(backend, "a", "t"),
    ]
    with one_after_the_other(backend, changes) as sent:
        pass
    assert [one.exception() for one in sent] == [None, None]
    kept = lance.dataset(place).to_table().to_pylist()
    assert {row["object_id"]: row["pinned"] for row in kept} == {"a": "a!", "a$old": "a$old!", "a$t": None}


@pytest.mark.parametrize("size", [3_000, *([100_000] if count(0, 1) else [])])
@pytest.mark.soak
def test_an_apply_of_many_tables_takes_few_commits_and_leaves_little(
    tmp_path: Path, lake: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a commit for each 256 wrote every row again, 100,000 tables would leave some 500 MB.

    Each commit waits for the changes that can be in flight with it, so that their number hangs on no machine's speed.
    """
    genuine, left = DirManifest.gather_changes, [size, 1]  # the namespace comes first

    def gather_changes(manifest: DirManifest) -> Sequence[object]:
        wanted = min(IN_FLIGHT, left.pop() if len(left) > 1 else left[0])
        while len(manifest._waiting) < wanted:
            threading.Event().wait(0.001)
        batch = genuine(manifest)
        left[0] -= len(batch) if wanted > 1 else 0
        return batch

    monkeypatch.setattr(DirManifest, "gather_changes", gather_changes)
    tables = "".join(f"          t{number}: {{properties: {{tier: gold}}}}\n" for number in range(size))
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(
        "version: 1\nname: many\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        f"    namespaces:\n      a:\n        tables:\n{tables}"
    )
    loaded = reconciler.load(manifest)
    report = reconciler.apply(reconciler.plan(loaded), loaded, journal=tmp_path / "journal")
    assert (report.ok, len(report.results)) == (True, size + 1)
    assert versions(lake) <= 4 + size / IN_FLIGHT
    assert sum(file.stat().st_size for file in (lake / "__manifest").rglob("*") if file.is_file()) < 500 * size
    assert reconciler.plan(loaded).changes == ()


def _many(lake: Path, number: int) -> lance.LanceDataset:
    """Add rows that others have made, in a fragment of their own."""
    place = str(lake / "__manifest")
    schema = lance.dataset(place).schema
    rows = [{"object_id": f"b${one:05}", "object_type": "table", "location": "x"} for one in range(number)]
    return lance.write_dataset(pa.Table.from_pylist(rows, schema), place, mode="append")


def _files(lake: Path) -> list[tuple[str, int]]:
    fragments = lance.dataset(str(lake / "__manifest")).get_fragments()
    return [(fragment.metadata.files[0].path, fragment.count_rows()) for fragment in fragments]


def test_a_commit_writes_what_is_new_and_not_the_rest(lake: Path, backend: DirBackend) -> None:
    _many(lake, 5_000)
    many = _files(lake)[1]
    for number in range(3):
        backend.insert_table(("a", f"t{number}"), f"t{number}", {"tier": "x"})
    assert _files(lake)[0] == many
    assert [size for _, size in _files(lake)] == [5_000, 5]
    pylance = lance_namespace.connect("dir", {"root": str(lake)})
    assert len(pylance.list_tables(ListTablesRequest(id=["b"])).tables) == 5_000
    assert sorted(pylance.list_tables(ListTablesRequest(id=["a"])).tables) == ["old", "t0", "t1", "t2"]
    lance.dataset(str(lake / "__manifest")).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert (versions(lake), len(DirBackend(root=str(lake)).scan().tables)) == (1, 5_004)


def test_rows_that_go_or_change_are_written_anew_with_what_is_beside_them(lake: Path, backend: DirBackend) -> None:
    _many(lake, 5_000)
    backend.alter_table(("b", "00007"), PropertyChanges({"tier": "y"}))
    backend.remove_table(("b", "00008"))
    assert [size for _, size in _files(lake)] == [5_002]
    assert DirBackend(root=str(lake)).load_table(("b", "00007")).properties == {"tier": "y"}


def test_rows_that_others_have_deleted_stay_deleted(lake: Path, backend: DirBackend) -> None:
    """Lance names the file of a fragment's deleted rows by the fragment's number, which changes."""
    _many(lake, 5_000).delete("object_id < 'b$00100' AND object_type = 'table' AND object_id > 'b'")
    backend.insert_table(("a", "t"), "t", {})
    tables = DirBackend(root=str(lake)).scan().tables
    assert len(tables) == 4_902
    assert ("b", "00099") not in tables
    assert lance.dataset(str(lake / "__manifest")).count_rows() == 4_903


def test_a_column_that_others_have_added_and_dropped_does_not_shift_the_others(lake: Path, backend: DirBackend) -> None:
    _many(lake, 5_000)
    dataset = lance.dataset(str(lake / "__manifest"))
    dataset.add_columns({"pinned": "concat(object_id, '!')", "other": "concat(object_id, '?')"})
    dataset.drop_columns(["pinned"])
    for number in range(2):
        backend.insert_table(("a", f"t{number}"), f"t{number}", {"tier": "x"})
    rows = {row["object_id"]: row for row in lance.dataset(str(lake / "__manifest")).to_table().to_pylist()}
    assert (rows["b$00042"]["other"], rows["a$old"]["other"], rows["a$t1"]["other"]) == ("b$00042?", "a$old?", None)
    assert (rows["a$t0"]["location"], rows["b$00042"]["location"], len(rows)) == ("t0", "x", 5_004)


def test_many_commits_of_one_leave_few_files_to_read(lake: Path, backend: DirBackend) -> None:
    _many(lake, 3_000)
    _many(lake, 2_000)
    _many(lake, 1_500)
    for number in range(20):
        backend.insert_table(("a", f"t{number}"), f"t{number}", {})
    assert [size for _, size in _files(lake)] == [3_000, 2_000, 1_500, 22]


def test_a_commit_of_several_takes_along_what_comes_a_moment_later(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = versions(lake)
    later = [insertion(backend, "a", "t2"), insertion(backend, "a", "t3")]
    with ThreadPoolExecutor(2) as pool:

        def pause(_: float) -> None:
            if later:
                pool.submit(later.pop())
                while len(backend._manifest._waiting) < 4 - len(later):
                    threading.Event().wait(0.001)

        with one_after_the_other(backend, [insertion(backend, "a", f"t{number}") for number in range(2)]):
            monkeypatch.setattr("reconciler.backends.dir.manifest.time.sleep", pause)
    assert sorted(name for _, name in backend.scan().tables) == ["old", "t0", "t1", "t2", "t3"]
    assert versions(lake) == before + 1
