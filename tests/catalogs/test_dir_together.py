"""Changes of a directory that come at once share a commit: each is checked on its own, and all are made or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.contents import Contents
from reconciler.backends.dir.manifest import Manifest
from reconciler.errors import NamespaceNotFoundError, TableAlreadyExistsError
from reconciler.state import LiveTable, PropertyChanges


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


class _Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def one_after_the_other(backend: DirBackend, changes: list[Callable[[], object]]) -> Iterator[list[Future[object]]]:
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


def test_where_all_are_refused_nothing_is_written(lake: Path, backend: DirBackend) -> None:
    before = versions(lake)
    with one_after_the_other(backend, [insertion(backend, "a", "old"), insertion(backend, "b", "t")]) as sent:
        pass
    assert all(one.exception() for one in sent)
    assert versions(lake) == before


def test_a_commit_of_somebody_else_in_between_has_them_all_made_again(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = Manifest._commit
    other = DirBackend(root=str(lake))

    def commit(manifest: Manifest, before: Contents, rows: pa.Table) -> bool:
        monkeypatch.setattr(Manifest, "_commit", genuine)
        other._manifest._lock = threading.Lock()
        other.insert_table(("a", "t1"), "theirs", {})
        return genuine(manifest, before, rows)

    with one_after_the_other(backend, [insertion(backend, "a", f"t{number}") for number in range(3)]) as sent:
        monkeypatch.setattr(Manifest, "_commit", commit)
    assert [type(one.exception()) for one in sent] == [type(None), TableAlreadyExistsError, type(None)]
    assert sorted(name for _, name in backend.scan().tables) == ["old", "t0", "t1", "t2"]
    assert backend.load_table(("a", "t1")).location == f"{lake}/theirs"


@pytest.mark.parametrize("committed", [False, True])
def test_one_that_is_cut_off_is_there_whole_or_not_at_all(
    lake: Path, backend: DirBackend, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    genuine = Manifest._commit

    def commit(manifest: Manifest, before: Contents, rows: pa.Table) -> bool:
        if committed:
            genuine(manifest, before, rows)
        raise _Killed

    with one_after_the_other(backend, [insertion(backend, "a", f"t{number}") for number in range(3)]) as sent:
        monkeypatch.setattr(Manifest, "_commit", commit)
    assert {type(one.exception()) for one in sent} == {_Killed}
    monkeypatch.setattr(Manifest, "_commit", genuine)
    there = {name for _, name in DirBackend(root=str(lake)).scan().tables}
    assert there == ({"old", "t0", "t1", "t2"} if committed else {"old"})


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


def test_an_apply_of_many_tables_takes_few_commits(tmp_path: Path, lake: Path) -> None:
    tables = "".join(f"          t{number}: {{properties: {{tier: gold}}}}\n" for number in range(200))
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(
        "version: 1\nname: many\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        f"    namespaces:\n      a:\n        tables:\n{tables}"
    )
    loaded = reconciler.load(manifest)
    report = reconciler.apply(reconciler.plan(loaded), loaded, journal=tmp_path / "journal")
    assert (report.ok, len(report.results)) == (True, 201)
    assert versions(lake) < 60
    assert reconciler.plan(loaded).changes == ()


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
