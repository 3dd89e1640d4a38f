"""Shallow clones: equal to their base, apart from it, and written by one resumable step."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.clones import CloneBase, CloneProblem, CloneRefusal
from reconciler.model.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    PermissionDeniedError,
    TableAlreadyExistsError,
)
from reconciler.model.live import Storage, StorageKind
from reconciler.model.maintenance import Maintain, Upkeep, WantedCompaction
from reconciler.storage import cloning, commits, pins, tags

OLD_DATA = Path(__file__).parents[1] / "old_data"
CLEANUP = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
QUERY = [0.5] * 8


def rows(first: int, count: int) -> pa.Table:
    """Return rows with a key, a text and a vector."""
    vectors = np.random.default_rng(first).random(count * 8, dtype=np.float32)
    keys = range(first, first + count)
    texts = [f"word{key % 7} letter{key % 3}" for key in keys]
    return pa.table({"id": keys, "text": texts, "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8)})


def write(place: Path | str, **how: Any) -> Any:
    """Write a dataset with indices, with rows that no index has, with deleted rows, and with a fragment gone."""
    options = {"storage_options": how.pop("storage_options", None)}
    dataset = lance.write_dataset(rows(0, 300), place, **how, **options)
    for first in (300, 600):
        dataset = lance.write_dataset(rows(first, 300), place, mode="append", **options)
    dataset.create_index("v", "IVF_PQ", num_partitions=2, num_sub_vectors=2)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.delete("id % 5 = 1")
    dataset.delete("id >= 600")
    dataset = lance.write_dataset(rows(900, 50), place, mode="append", **options)
    dataset.tags.create("prod", dataset.version)
    return dataset


def answers(dataset: Any) -> list[Any]:
    """Return all rows with their ids, and what each index answers."""
    return [
        dataset.to_table(with_row_id=True).sort_by("id").to_pylist(),
        dataset.to_table(nearest={"column": "v", "q": QUERY, "k": 7}).to_pylist(),
        dataset.to_table(filter="id in (77, 905)").sort_by("id").to_pylist(),
        dataset.scanner(columns=["id", "_score"], full_text_query="word3").to_table().sort_by("id").to_pylist(),
        sorted((index.name, index.index_type, index.num_rows_indexed) for index in dataset.describe_indices()),
    ]


def files_below(folder: Path) -> Mapping[str, bytes]:
    """Return the content of each file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def based(source: Path | str, at: str | int | None = None, target: Path | str = "/nowhere") -> CloneBase:
    """Return the base for a clone."""
    base = storage.read_base(str(source), at, {}, str(target))
    assert isinstance(base, CloneBase), base
    return base


def reading(*sources: Path | str) -> StorageOptions:
    """Return the options that open clones of these datasets."""
    return StorageOptions({}, Admission(tuple(map(str, sources))))


def clone(source: Path | str, target: Path | str, at: str | int | None = None) -> Any:
    """Clone a version, and return the clone."""
    storage.write_clone(based(source, at, target), {}, str(target), {})
    return lance.dataset(str(target))


@pytest.mark.parametrize(
    "how", [{}, {"enable_stable_row_ids": True}, {"data_storage_version": "legacy"}, {"data_storage_version": "2.0"}]
)
def test_a_clone_answers_as_its_base_does_and_neither_sees_what_the_other_writes(
    tmp_path: Path, how: Mapping[str, Any]
) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "scratch" / "c.lance"
    dataset = write(source, **how)
    files, expected = files_below(source), answers(dataset)
    cloned = clone(source, target, "prod")
    assert answers(cloned) == expected
    assert cloned.version == dataset.version
    assert sum(map(len, files_below(target).values())) < 20_000
    lance.write_dataset(rows(2000, 5), target, mode="append").delete("id < 10")
    assert files_below(source) == files
    assert answers(lance.dataset(source)) == expected
    changed = answers(lance.dataset(target))
    lance.write_dataset(rows(3000, 5), source, mode="append")
    assert answers(lance.dataset(target)) == changed != expected
    assert storage.clone_of(str(target), reading(source)) == CloneBase(
        str(source), dataset.version, based(source, "prod").transaction
    )


def test_a_version_of_a_branch_and_a_clone_can_be_cloned(tmp_path: Path) -> None:
    source = tmp_path / "s.lance"
    dataset = write(source)
    branch = lance.write_dataset(rows(2000, 5), dataset.create_branch("dev/x"), mode="append")
    dataset.tags.create("trial", ("dev/x", branch.version))
    first = clone(source, tmp_path / "c.lance", "trial")
    assert answers(first) == answers(branch)
    lance.write_dataset(rows(3000, 5), first, mode="append")
    options = reading(source)
    base = storage.read_base(str(tmp_path / "c.lance"), None, options, str(tmp_path / "d.lance"))
    assert isinstance(base, CloneBase)
    storage.write_clone(base, options, str(tmp_path / "d.lance"), {})
    assert answers(lance.dataset(tmp_path / "d.lance")) == answers(lance.dataset(tmp_path / "c.lance"))
    found = storage.clone_of(str(tmp_path / "c.lance"), options)
    assert found is not None
    assert (found.branch, found.version) == ("dev/x", branch.version)


def test_a_base_that_cannot_be_cloned_is_told(tmp_path: Path) -> None:
    source = tmp_path / "s.lance"
    dataset = lance.write_dataset(rows(0, 5), source)
    dataset.tags.create("old", 1)
    (tmp_path / "s.lance" / "_refs" / "tags" / "old.json").write_text(
        (tmp_path / "s.lance" / "_refs" / "tags" / "old.json").read_text().replace('"version": 1', '"version": 9')
    )
    damaged = tmp_path / "duplicate_fields.lance"
    shutil.copytree(OLD_DATA / damaged.name, damaged)

    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    blobs = pa.table([pa.StructArray.from_arrays([pa.array([b"x"], blob.type)], fields=[blob])], names=["outer"])
    lance.write_dataset(blobs, tmp_path / "blobs.lance", data_storage_version="2.1")

    def refused(location: Path, at: str | int | None, target: Path | str = tmp_path / "c.lance") -> Any:
        base = storage.read_base(str(location), at, {}, str(target))
        return base.problem if isinstance(base, CloneRefusal) else base

    assert refused(source, "prod") is CloneProblem.MISSING_TAG
    assert refused(source, "old") is CloneProblem.MISSING_VERSION
    assert refused(source, 2) is CloneProblem.MISSING_VERSION
    assert refused(damaged, None) is CloneProblem.DAMAGED
    assert refused(tmp_path / "blobs.lance", None) is CloneProblem.BLOBS
    assert refused(source, None, source) is CloneProblem.INSIDE
    assert refused(source, None, source / "c.lance") is CloneProblem.INSIDE
    assert refused(source, None, "s3://bucket/c.lance") is CloneProblem.LOCAL_BASE
    assert refused(tmp_path / "none.lance", None) == Storage(StorageKind.NOTHING)


def test_what_lies_at_the_place_of_a_clone_is_left_alone(tmp_path: Path) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    lance.write_dataset(rows(0, 5), source)
    base = based(source)
    for held in (lambda: lance.write_dataset(rows(0, 1), target), lambda: clone(source, target, 1)):
        shutil.rmtree(target, ignore_errors=True)
        held()
        lance.write_dataset(rows(5, 5), source, mode="append")
        base, files = based(source), files_below(target)
        with pytest.raises(TableAlreadyExistsError):
            storage.write_clone(base, {}, str(target), {})
        assert files_below(target) == files
    shutil.rmtree(target)
    target.mkdir()
    (target / "report.csv").touch()
    with pytest.raises(InvalidTableStateError):
        storage.write_clone(base, {}, str(target), {})


def test_another_version_than_the_one_planned_is_never_cloned(tmp_path: Path) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    lance.write_dataset(rows(0, 5), source)
    base = based(source)
    shutil.rmtree(source)
    with pytest.raises(ConcurrentModificationError):
        storage.write_clone(base, {}, str(target), {})
    lance.write_dataset(rows(0, 5), source)
    with pytest.raises(ConcurrentModificationError):
        storage.write_clone(base, {}, str(target), {})
    assert not target.exists()


def test_a_base_replaced_during_the_commit_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    lance.write_dataset(rows(0, 5), source)
    base, commit = based(source), commits.commit_clone

    def beaten(*args: Any) -> Any:
        shutil.rmtree(source)
        lance.write_dataset(rows(0, 9), source)
        return commit(*args)

    monkeypatch.setattr(cloning, "commit_clone", beaten)
    with pytest.raises(ConcurrentModificationError):
        storage.write_clone(base, {}, str(target), {})


def test_a_clone_does_not_clean_up_and_one_stopped_halfway_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    dataset = write(source)
    dataset.update_config({**CLEANUP, "lance.auto_cleanup.delete_rate_limit": "3000", "team": "ads"})
    files, base = files_below(source), based(source)

    def killed(_dataset: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cloning, "end_cleanup", killed)
        with pytest.raises(KeyboardInterrupt):
            storage.write_clone(base, {}, str(target), {})
    begun = storage.find_clone(str(target), reading(source))
    assert isinstance(begun, storage.FoundClone)
    assert (begun.base.is_same_version(base), begun.is_finished) == (True, False)
    assert storage.clone_of(str(target), reading(source)) is None
    for _ in range(2):
        storage.write_clone(base, {}, str(target), {})
        assert lance.dataset(target).config() == {"team": "ads"}
        assert lance.dataset(target).version == base.version + 1
    assert base.is_same_version(storage.clone_of(str(target), reading(source)))
    assert files_below(source) == files


def test_another_run_that_wrote_the_clone_first_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    lance.write_dataset(rows(0, 5), source)
    base, commit = based(source), commits.commit_clone

    def beaten(*args: Any) -> Any:
        commit(*args)
        return commit(*args)

    monkeypatch.setattr(cloning, "commit_clone", beaten)
    storage.write_clone(base, {}, str(target), {})
    assert base.is_same_version(storage.clone_of(str(target), reading(source)))


def test_a_lost_transaction_is_replaced_by_a_digest_of_the_manifest(tmp_path: Path) -> None:
    source = tmp_path / "uncounted.lance"
    shutil.copytree(OLD_DATA / source.name, source)
    for path in (source / "_transactions").iterdir():
        path.unlink()
    base = based(source, None, tmp_path / "c.lance")
    assert len(base.transaction) == 64
    assert clone(source, tmp_path / "c.lance").count_rows() == lance.dataset(source).count_rows()


def test_a_base_that_no_tag_keeps_is_found_for_the_clones_of_any_client(tmp_path: Path) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    dataset = lance.write_dataset(rows(0, 5), source)
    clones = [clone(source, target), dataset.shallow_clone(tmp_path / "d.lance", 1)]
    branch = lance.write_dataset(rows(5, 5), dataset.create_branch("dev/x"), mode="append")
    clones.append(dataset.shallow_clone(tmp_path / "e.lance", ("dev/x", branch.version)))
    for opened in clones:
        lance.write_dataset(rows(9, 5), opened, mode="append")

    def untagged() -> list[tuple[str, int, str] | None]:
        known = [storage.tagged_base(opened, reading(tmp_path)) for opened in clones]
        bases = [None if found is None or found.is_kept else found.base for found in known]
        return [None if base is None else (base.location, base.version, base.branch) for base in bases]

    kept = (str(source), 1, "main")
    assert untagged() == [kept, kept, (str(source), 2, "dev/x")]
    dataset.tags.create("trial", ("dev/x", branch.version))
    assert untagged() == [kept, kept, None]
    dataset.tags.create("prod", 1)
    assert untagged() == [None, None, None]
    storage.pin_base(based(source), str(tmp_path / "d.lance"), {})
    found = storage.tagged_base(clones[0], reading(tmp_path))
    assert found is not None
    assert found.tags == {"prod": "1", "trial": f"dev/x:{branch.version}"}
    dataset.tags.delete("prod")
    shutil.rmtree(source)
    assert untagged() == [None, None, None]
    assert storage.tagged_base(lance.write_dataset(rows(0, 5), tmp_path / "f.lance"), {}) is None


def test_a_pin_keeps_the_files_of_a_clone_until_it_is_removed(tmp_path: Path) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    dataset = lance.write_dataset(rows(0, 5), source)
    base, expected = based(source), clone(source, target).to_table()
    dataset.tags.create("prod", 1)
    for _ in range(2):
        storage.pin_base(base, f"file://{target}/", {})
    assert {name: tag["version"] for name, tag in dataset.tags.list().items()} == {
        "prod": 1,
        storage.pin_of(str(target)): 1,
    }
    dataset.tags.delete("prod")
    lance.write_dataset(rows(5, 5), source, mode="overwrite").cleanup_old_versions(
        older_than=timedelta(0), error_if_tagged_old_versions=False
    )
    assert lance.dataset(target).to_table() == expected
    for _ in range(2):
        storage.unpin_base(str(source), str(target), {})
    assert lance.dataset(source).tags.list() == {}
    shutil.rmtree(source)
    storage.unpin_base(str(source), str(target), {})
    with pytest.raises(PermissionDeniedError):
        storage.unpin_base(str(target), str(target), {})  # its base is not admitted
    lance.write_dataset(rows(0, 5), source)
    with pytest.raises(ConcurrentModificationError):
        storage.pin_base(base, str(target), {})
    assert lance.dataset(source).tags.list() == {}


def test_a_base_that_is_replaced_while_it_is_pinned_has_no_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "s.lance"
    lance.write_dataset(rows(0, 5), source)
    base, write_tags = based(source), tags.write_tags

    def beaten(location: str, targets: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        if any(targets.values()):
            shutil.rmtree(source)
            lance.write_dataset(rows(0, 5), source)
        write_tags(location, targets, options)

    monkeypatch.setattr(pins, "write_tags", beaten)
    with pytest.raises(ConcurrentModificationError):
        storage.pin_base(base, str(tmp_path / "c.lance"), {})
    assert lance.dataset(source).tags.list() == {}


def test_a_clone_is_not_compacted_while_its_indices_are_in_its_base(tmp_path: Path) -> None:
    source, target = tmp_path / "s.lance", tmp_path / "c.lance"
    write(source)
    clone(source, target)
    options, wanted = reading(source), WantedCompaction(1)
    expected, maintain = answers(lance.dataset(target)), Maintain(compact=wanted, copy_elsewhere=True)
    upkeep = storage.upkeep_of(str(target), options, maintain)
    assert isinstance(upkeep, Upkeep)
    assert upkeep.obstacle is not None
    with pytest.raises(InvalidTableStateError, match=r"optimize_indices\(retrain=True\)"):
        storage.compact(str(target), options, wanted, None)
    assert answers(lance.dataset(target)) == expected
    lance.dataset(target).optimize.optimize_indices(retrain=True)
    upkeep = storage.upkeep_of(str(target), options, maintain)
    assert isinstance(upkeep, Upkeep)
    assert upkeep.obstacle is None
    assert storage.compact(str(target), options, wanted, None) > 0
    assert [row["id"] for row in answers(lance.dataset(target))[2]] == [77, 905]
