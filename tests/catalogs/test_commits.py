"""Commits on datasets of others: no version and no file goes, whatever the dataset's own auto clean-up is set to."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lance_namespace.errors
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance_namespace import AlterTableAddColumnsRequest

import reconciler
from reconciler import storage
from reconciler.backends.dir import DirBackend
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.columns import Column
from reconciler.model.errors import ConcurrentModificationError, InvalidTableStateError, TableVersionNotFoundError
from reconciler.model.maintenance import IndexType, WantedIndex
from reconciler.namespace.catalog import CatalogNamespace
from reconciler.planner.plan import Plan
from reconciler.storage import commits
from tests.servers.s3 import BUCKET, GuardedS3
from tests.soak import count, seeded
from tests.writing import load_manifest

INTERVAL, AGE, RETAIN = (f"lance.auto_cleanup.{key}" for key in ("interval", "older_than", "retain_versions"))
ALTERS: tuple[Callable[[str, Mapping[str, str]], object], ...] = (
    lambda place, options: storage.add_columns(place, [Column("added", "int64")], options),
    lambda place, options: storage.evolve_columns(place, [Column("id", "int64")], options),
    lambda place, options: storage.evolve_columns(place, [Column("key", "int64", renamed_from="id")], options),
    lambda place, options: storage.annotate_columns(place, {"id": {"comment": "the key"}}, options),
    lambda place, options: storage.compute_columns(place, {"twice": "id * 2"}, options),
    lambda place, options: storage.alter_columns(place, options, [{"path": "id", "name": "key"}]),
    lambda place, options: storage.update_field_metadata(place, options, [storage.FieldMetadata("id", {"a": "b"})]),
    lambda place, options: storage.replace_schema_metadata(place, options, {"a": "b"}),
    lambda place, options: storage.restore(place, options, 1),
)


class Disk:
    """A folder of files; what happens to them in between is called where pylance is."""

    options: Mapping[str, str] = {}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch

    def place(self, name: str) -> str:
        return str(self.folder / name)

    def files(self, name: str) -> dict[str, bytes]:
        found = (path for path in (self.folder / name).rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder / name)): path.read_bytes() for path in found}

    def drop(self, name: str) -> None:
        shutil.rmtree(self.folder / name)

    def meanwhile(self, act: Callable[[], None], source: random.Random) -> None:
        """Call ``act`` once, before one of pylance's steps."""
        steps: list[tuple[Any, str]] = [
            (lance, "dataset"),
            (lance.LanceDataset, "add_columns"),
            (lance.LanceDataset, "alter_columns"),
            (lance.LanceDataset, "restore"),
            (lance.LanceDataset, "update_field_metadata"),
            (lance.LanceDataset, "update_schema_metadata"),
            (os, "link"),
        ]
        owner, name = source.choice(steps)
        genuine, left = getattr(owner, name), source.randrange(1, 3)

        def step(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                act()
            return genuine(*given, **named)

        self._patch.setattr(owner, name, step)

    def done(self) -> None:
        self._patch.undo()


class Bucket:
    """A prefix in moto's S3; what happens in between is called before one of the requests."""

    def __init__(self, server: GuardedS3) -> None:
        self._server = server
        self.options: Mapping[str, str] = {**server.where, **server.vended}
        self.client = server.client

    def place(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    def files(self, name: str) -> dict[str, bytes]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{name}/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        try:
            objects = {key: self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}
        except self.client.exceptions.NoSuchKey:  # a commit of the test's own still cleans up
            return self.files(name)
        return {key.removeprefix(f"{name}/"): content for key, content in objects.items()}

    def drop(self, name: str) -> None:
        for path in self.files(name):
            self.client.delete_object(Bucket=BUCKET, Key=f"{name}/{path}")

    def meanwhile(self, act: Callable[[], None], source: random.Random) -> None:
        left = source.randrange(1, 15)

        def before() -> bool:
            nonlocal left
            left -= 1
            if left == 0:
                act()
            return left > 0

        self._server.before = before

    def done(self) -> None:
        self._server.before = None


@pytest.fixture(params=["disk", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk | Bucket:
    return Disk(tmp_path, monkeypatch) if request.param == "disk" else Bucket(request.getfixturevalue("guarded"))


def _dataset(store: Disk | Bucket, name: str, versions: int = 4) -> str:
    place, options = store.place(name), dict(store.options)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    for number in range(versions):
        rows = pa.table([[number]], schema=schema)
        lance.write_dataset(rows, place, mode="append" if number else "create", storage_options=options)
    return place


def _set(store: Disk | Bucket, place: str, config: Mapping[str, str], *, due_next: bool = False) -> None:
    """Write ``config``; ``due_next``: not this commit cleans up, but the one that comes right after it."""
    dataset = lance.dataset(place, storage_options=dict(store.options))
    dataset.update_config({**config, **({INTERVAL: f"{dataset.version + 2}"} if due_next else {})})


def _is_kept(store: Disk | Bucket, name: str, before: Mapping[str, bytes]) -> None:
    """Check that each file is as it was, and each version it belonged to opens and reads."""
    after = store.files(name)
    # The hint is no part of any version: every commit writes it.
    assert {path: after.get(path) for path in before if not path.endswith("hint.json")} == {
        path: content for path, content in before.items() if not path.endswith("hint.json")
    }
    options = dict(store.options)
    latest = lance.dataset(store.place(name), storage_options=options)
    for known in latest.versions():
        lance.dataset(store.place(name), version=known["version"], storage_options=options).to_table()


HOSTILE = ("0", "1", "2", "3", "5", "6", "7", "+6", "006", " 6", "x", "", "-1", "6.0", "9" * 25, "9" * 5_000)
LIMITS: tuple[Mapping[str, str], ...] = ({AGE: "0s"}, {RETAIN: "1"}, {AGE: "0s", RETAIN: "2"}, {}, {AGE: "x"})


def _hostile(store: Disk | Bucket, name: str, source: random.Random, ends: dict[str, int]) -> Mapping[str, bytes]:
    """Write a dataset that cleans itself up, or is told to meanwhile; return its files before that."""
    place = _dataset(store, name, source.randrange(2, 7))
    limits = source.choice(LIMITS)
    before = store.files(name)
    if source.random() < 0.5:

        def meanwhile() -> None:
            ends["late"] += 1
            _set(store, place, limits, due_next=True)

        store.meanwhile(meanwhile, source)
        return before
    _set(store, place, {INTERVAL: source.choice(HOSTILE), **limits})
    return store.files(name)


def test_no_restored_configuration_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of an earlier version cleans up by that version's configuration, which the latest may not have."""
    store = Disk(tmp_path, monkeypatch)
    place = _dataset(store, "t")
    _set(store, place, {INTERVAL: "1000", AGE: "0s"})
    dataset = lance.dataset(place)
    dataset.update_config({INTERVAL: f"{dataset.version + 4}"})  # that of the commit by which it would be in force
    dirty = dataset.version
    dataset.delete_config_keys([INTERVAL, AGE])
    lance.write_dataset(dataset.to_table(), place, mode="append")
    before = store.files("t")
    with pytest.raises(InvalidTableStateError, match=r"auto_cleanup|clean"):
        storage.restore(place, {}, dirty)
    assert storage.restore(place, {}, 2) == dirty + 3
    storage.create_branch(place, {}, "trial", storage.Reference(dirty))
    _is_kept(store, "t", before)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_alter_cleans_up_whatever_the_dataset_is_set_to(store: Disk | Bucket) -> None:
    """Half of the datasets have the keys before, and somebody sets them for the others at any moment."""
    source = seeded("alters")
    ends = {"late": 0, "made": 0, "refused": 0, "beaten": 0}
    for number in itertools.count():
        if number >= count(12 if isinstance(store, Disk) else 6, 500) and ends["made"] and ends["refused"]:
            break
        name = f"t{number}{source.choice(('.lance', ''))}"
        before = _hostile(store, name, source, ends)
        try:
            source.choice(ALTERS)(store.place(name), store.options)
            ends["made"] += 1
        except InvalidTableStateError:
            ends["refused"] += 1
        except (ConcurrentModificationError, TableVersionNotFoundError):  # another client has cleaned up version 1
            ends["beaten"] += 1
        finally:
            store.done()
        _is_kept(store, name, before)
    print(ends)
    assert ends["made"]
    assert ends["refused"]


@pytest.mark.parametrize("interval", HOSTILE)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_pylance_cleans_up_only_where_it_is_expected(tmp_path: Path, interval: str, limits: Mapping[str, str]) -> None:
    """What a later pylance reads in the configuration may be more; then this fails."""
    disk = Disk(tmp_path, pytest.MonkeyPatch())
    place = _dataset(disk, "t", 4)
    _set(disk, place, {INTERVAL: interval, **limits})
    before = disk.files("t")
    cleanup = storage.probe(place, {}).cleanup
    assert cleanup is not None
    lance.dataset(place).add_columns(pa.schema([pa.field("added", pa.int64())]))
    if cleanup.reason(1) is None:
        _is_kept(disk, "t", before)


@pytest.mark.parametrize("name", ["t.lance", "t", "events/t=1 é$"])
def test_keys_that_are_set_right_before_the_commit_set_nothing_off(
    store: Disk | Bucket, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place = _dataset(store, f"late/{name}")
    before = store.files(f"late/{name}")

    def meanwhile() -> None:
        _set(store, place, {AGE: "0s"}, due_next=True)

    _Meanwhile(monkeypatch, lance.LanceDataset, "add_columns", meanwhile)
    with pytest.raises(InvalidTableStateError, match=INTERVAL):
        storage.add_columns(place, [Column("added", "int64")], store.options)
    assert before
    _is_kept(store, f"late/{name}", before)


REFUSED: Mapping[str, Callable[[str, Mapping[str, str]], object]] = {
    "create_scalar_index": lambda place, given: storage.build_index(place, given, WantedIndex("id", IndexType.BTREE)),
    "alter_columns": lambda place, given: storage.alter_columns(place, given, [{"path": "id", "name": "key"}]),
}


@pytest.mark.parametrize("commit", REFUSED)
def test_a_refused_commit_names_the_file_that_it_leaves(
    store: Disk | Bucket, monkeypatch: pytest.MonkeyPatch, commit: str
) -> None:
    name = f"refused_{commit}"
    place = _dataset(store, name)
    before = store.files(name)
    _Meanwhile(monkeypatch, lance.LanceDataset, commit, lambda: _set(store, place, {AGE: "0s"}, due_next=True))
    with pytest.raises((InvalidTableStateError, ConcurrentModificationError)) as raised:
        REFUSED[commit](place, store.options)
    left = [path for path in store.files(name) if ".manifest-" in path]
    assert [path in str(raised.value) for path in left] == [True]
    _is_kept(store, name, before)
    assert len(lance.dataset(place, storage_options=dict(store.options)).versions()) == 5


@pytest.mark.parametrize("commit", REFUSED)
def test_a_dataset_that_is_dropped_before_a_commit_stays_dropped(
    store: Disk | Bucket, monkeypatch: pytest.MonkeyPatch, commit: str
) -> None:
    place = _dataset(store, "dropped")
    _Meanwhile(monkeypatch, commits._VersionNamespace, "create_table_version", lambda: store.drop("dropped"))
    with pytest.raises(ConcurrentModificationError):
        REFUSED[commit](place, store.options)
    assert store.files("dropped") == {}


def test_a_version_is_encrypted_as_the_options_say(guarded: GuardedS3) -> None:
    store = Bucket(guarded)
    place = _dataset(store, "encrypted")
    options = {**store.options, "aws_server_side_encryption": "AES256"}
    storage.add_columns(place, [Column("added", "int64")], options)
    made = store.client.head_object(Bucket=BUCKET, Key=storage.manifests(place, store.options)[5])
    assert made["ServerSideEncryption"] == "AES256"
    assert not [name for name in store.files("encrypted") if ".manifest-" in name]


def test_a_commit_that_is_in_no_history_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others take the next version, and a clean-up frees its number, right before pylance writes it."""
    place = _dataset(Disk(tmp_path, monkeypatch), "t.lance")

    def meanwhile() -> None:
        for number in range(2):
            lance.write_dataset(pa.table({"id": [number]}, schema=lance.dataset(place).schema), place, mode="append")
        lance.dataset(place).cleanup_old_versions(timedelta(0))

    _Meanwhile(monkeypatch, os, "link", meanwhile)
    storage.add_columns(place, [Column("added", "int64")], {})
    assert lance.dataset(place).schema.names == ["id", "added"]
    assert lance.dataset(place).count_rows() == 6


def _of_two_columns(folder: Path, *, nullable: bool) -> reconciler.Manifest:
    columns = [{"name": "id", "type": "int64", "nullable": nullable}, {"name": "added", "type": "int64"}]
    tables = {"t": {"evolve": "additive", "schema": columns}}
    return load_manifest(folder, {"lake": {"impl": "dir", "config": {"root": "./lake"}, "tables": tables}})


@pytest.mark.parametrize(("interval", "nullable"), [("6", False), ("7", True)])
def test_a_table_that_would_clean_itself_up_is_blocked_until_the_key_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: str, nullable: bool
) -> None:
    """Version 6 adds a column, 7 lets the other one be null."""
    disk = Disk(tmp_path / "lake", monkeypatch)
    place = _dataset(disk, "t.lance")
    _set(disk, place, {INTERVAL: interval, AGE: "0s"})
    before = disk.files("t.lance")
    manifest = _of_two_columns(tmp_path, nullable=nullable)
    plan = reconciler.plan(manifest)
    [blocked] = plan.blocked
    assert blocked.cleanup == AutoCleanup(interval, 5, "0s")
    assert f"version {interval}" in blocked.reason
    assert reconciler.apply(Plan.from_json(plan.to_json()), manifest, skip_blocked=True, journal=tmp_path / "j").ok
    _is_kept(disk, "t.lance", before)
    lance.dataset(place).delete_config_keys([INTERVAL])
    plan = reconciler.plan(manifest)
    assert reconciler.apply(plan, manifest, journal=tmp_path / "j").ok
    _is_kept(disk, "t.lance", before)
    assert lance.dataset(place).schema.names == ["id", "added"]


def test_keys_that_are_set_after_the_plan_was_made_fail_its_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path / "lake", monkeypatch)
    place = _dataset(disk, "t.lance")
    manifest = _of_two_columns(tmp_path, nullable=False)
    plan = reconciler.plan(manifest)
    _set(disk, place, {AGE: "0s"}, due_next=True)
    before = disk.files("t.lance")
    report = reconciler.apply(plan, manifest, journal=tmp_path / "j")
    assert [INTERVAL in result.message for result in report.results] == [True]
    _is_kept(disk, "t.lance", before)


def test_a_client_that_adds_a_column_is_told_that_the_table_would_clean_itself_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    place = _dataset(disk, "t.lance")
    _set(disk, place, {AGE: "0s"}, due_next=True)
    before = disk.files("t.lance")
    namespace = CatalogNamespace(DirBackend(root=str(tmp_path)))
    column: Any = {"name": "twice", "expression": "id * 2"}
    with pytest.raises(lance_namespace.errors.InvalidTableStateError, match=INTERVAL):
        namespace.alter_table_add_columns(AlterTableAddColumnsRequest(id=["t"], new_columns=[column]))
    _is_kept(disk, "t.lance", before)


def test_the_list_of_tables_is_not_cleaned_up_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, monkeypatch)
    backend = DirBackend(root=str(tmp_path))
    for number in range(3):
        backend.insert_namespace((f"a{number}",), {})
    _set(disk, str(tmp_path / "__manifest"), {AGE: "0s"}, due_next=True)
    before = disk.files("__manifest")
    with pytest.raises(InvalidTableStateError, match=INTERVAL):
        backend.insert_namespace(("b",), {})
    _is_kept(disk, "__manifest", before)
    lance.dataset(str(tmp_path / "__manifest")).delete_config_keys([INTERVAL])
    backend.insert_namespace(("b",), {})
    assert len(backend.scan().namespaces) == 4


class _Meanwhile:
    """Lets others do something once, right before pylance does what is patched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[], object]) -> None:
        genuine = getattr(owner, name)

        def step(*given: Any, **named: Any) -> Any:
            monkeypatch.setattr(owner, name, genuine)
            act()
            return genuine(*given, **named)

        monkeypatch.setattr(owner, name, step)


def test_the_first_entries_of_two_that_make_the_list_at_once_are_both_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = DirBackend(root=str(tmp_path)), DirBackend(root=str(tmp_path))
    theirs._manifest._lock = threading.Lock()
    for owner, name in ((lance, "write_dataset"), (lance.fragment, "write_fragments")):
        _Meanwhile(monkeypatch, owner, name, lambda: theirs.insert_namespace(("theirs",), {}))
    ours.insert_namespace(("ours",), {})
    assert sorted(ours.scan().namespaces) == [("ours",), ("theirs",)]


def test_an_entry_whose_commit_is_in_no_history_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = DirBackend(root=str(tmp_path)), DirBackend(root=str(tmp_path))
    theirs._manifest._lock = threading.Lock()
    ours.insert_namespace(("a",), {})

    def meanwhile() -> None:
        for name in ("b", "c"):
            theirs.insert_namespace((name,), {})
        lance.dataset(str(tmp_path / "__manifest")).cleanup_old_versions(timedelta(0))

    _Meanwhile(monkeypatch, lance.LanceDataset, "commit", meanwhile)
    ours.insert_namespace(("ours",), {})
    assert sorted(ours.scan().namespaces) == [("a",), ("b",), ("c",), ("ours",)]


def test_a_list_that_is_cleaned_up_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = DirBackend(root=str(tmp_path))
    theirs.insert_namespace(("a",), {})

    def meanwhile() -> None:
        theirs.insert_namespace(("b",), {})
        lance.dataset(str(tmp_path / "__manifest")).cleanup_old_versions(timedelta(0), delete_unverified=True)

    _Meanwhile(monkeypatch, lance.LanceDataset, "to_table", meanwhile)
    assert sorted(DirBackend(root=str(tmp_path)).scan().namespaces) == [("a",), ("b",)]


@pytest.mark.parametrize(
    "place", ["/rustc/4eb16/library/core/src/ops.rs:250:5", "/root/.cargo/registry/src/x-1.2/a.rs:7:9"]
)
def test_no_place_in_pylances_source_is_shown(place: str) -> None:
    with pytest.raises(InvalidTableStateError) as raised, storage.translated("/lake", {}):
        raise OSError(f"LanceError(IO): it broke, {place}")
    assert str(raised.value) == "/lake: LanceError(IO): it broke"


def test_what_pylance_calls_a_conflict_is_one() -> None:
    with pytest.raises(ConcurrentModificationError, match="it was preempted"), storage.translated("/lake", {}):
        raise CommitConflictError("it was preempted")
