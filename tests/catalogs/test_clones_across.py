"""Shallow clones of datasets in S3, in the bucket of their base and in other stores: moto's S3 and real pylance."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.model import locations
from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.clones import CloneBase, CloneProblem, CloneRefusal
from reconciler.model.columns import Column
from reconciler.model.errors import BackendError, ConcurrentModificationError, UnsupportedOperationError
from reconciler.storage import cloning, commits
from tests.catalogs.dying import Death, dying
from tests.servers.s3 import BUCKET, GuardedS3
from tests.soak import count, sampled, seeded
from tests.unit.test_cloning import CLEANUP, OLD_DATA, answers, rows, write

SCRATCH = "scratch"
WRITES = [(cloning, name) for name in ("commit_clone", "commit_step", "end_cleanup")]


class Buckets:
    """Two buckets of one S3, and the files in them."""

    def __init__(self, server: GuardedS3) -> None:
        self.server, self.options = server, {**server.where, **server.vended}
        self._client = server.client
        self._client.create_bucket(Bucket=SCRATCH)
        for bucket in (BUCKET, SCRATCH):  # moto keeps what earlier tests wrote
            self.empty(bucket)

    def upload(self, folder: Path) -> str:
        """Upload a dataset, and return its location."""
        for path in folder.rglob("*"):
            if path.is_file():
                self._client.upload_file(str(path), BUCKET, f"{folder.name}/{path.relative_to(folder)}")
        return locations.join_names(f"s3://{BUCKET}", folder.name)

    def files(self, bucket: str, below: str = "") -> dict[str, tuple[str, int, str]]:
        """Return entity tag, size and time of each object."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=below)
        listed = (entry for page in pages for entry in page.get("Contents", ()))
        return {entry["Key"]: (entry["ETag"], entry["Size"], str(entry["LastModified"])) for entry in listed}

    def empty(self, bucket: str, below: str = "") -> None:
        """Remove all objects."""
        for key in self.files(bucket, below):
            self._client.delete_object(Bucket=bucket, Key=key)

    def open(self, place: str) -> Any:
        return lance.dataset(place, storage_options=self.options)

    def read(self, source: str, at: str | int | None, target: str) -> Any:
        """Read a base; return its problem if it is refused."""
        base = storage.read_base(source, at, self.options, target)
        return base.problem if isinstance(base, CloneRefusal) else base

    def based(self, source: str, target: str, at: str | int | None = None) -> CloneBase:
        base = self.read(source, at, target)
        assert isinstance(base, CloneBase), base
        return base

    def clone(self, source: str, target: str, at: str | int | None = None) -> Any:
        """Clone a version, and return the clone."""
        storage.write_clone(self.based(source, target, at), self.options, target, self.options)
        return self.open(target)


@pytest.fixture
def buckets(guarded: GuardedS3) -> Buckets:
    return Buckets(guarded)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with indices that name a fragment that is gone, dropped and renamed columns, and configuration."""
    place = tmp_path_factory.mktemp("written") / "s.lance"
    dataset = write(place)
    dataset.add_columns({"twice": "id * 2"})
    dataset.drop_columns(["twice"])
    dataset.add_columns({"half": "id / 2"})
    dataset.alter_columns({"path": "half", "name": "fraction"})
    dataset.delete("id >= 900")
    dataset.update_config({**CLEANUP, "team": "ads"})
    dataset.update_metadata({"origin": "web"})
    dataset.tags.create("now", dataset.version)
    return place


@pytest.mark.parametrize("place", ["other bucket", "same bucket", "disk"])
def test_a_clone_in_any_store_answers_as_its_base_does_and_is_apart_from_it(
    buckets: Buckets, written: Path, tmp_path: Path, place: str
) -> None:
    source = buckets.upload(written)
    target = {"other bucket": f"s3://{SCRATCH}/pr/c.lance", "same bucket": f"s3://{BUCKET}/pr/c.lance"}.get(
        place, str(tmp_path / "c.lance")
    )
    files, base = buckets.files(BUCKET, "s.lance/"), buckets.open(source)
    expected = answers(base)
    clone = buckets.clone(source, target, "now")
    assert answers(clone) == expected
    assert str(clone.lance_schema) == str(base.lance_schema)
    assert (clone.config(), clone.metadata) == ({"team": "ads"}, {"origin": "web"})
    assert clone.data_storage_version == base.data_storage_version
    options = StorageOptions(buckets.options, Admission((source,)))
    found = storage.clone_of(target, options)
    version = buckets.based(source, target, "now")
    assert version.is_same_version(found)
    first = storage.first_version(version, buckets.options, target)
    assert answers(clone.checkout_version(first)) == expected
    if target.startswith("s3"):
        written_files = buckets.files(*target.removeprefix("s3://").split("/", 1))
        assert sum(size for _, size, _ in written_files.values()) < 20_000
    storage.add_columns(target, [Column("note", "string")], options)
    storage.evolve_columns(target, [Column("note", "string"), Column("part", "int64", True, {}, "fraction")], options)
    assert buckets.open(target).count_rows(filter="note IS NULL") == base.count_rows()
    # The fragment with the rows of the index that are gone has another id than these.
    fresh = rows(600, 300).append_column("part", pa.array([1.0] * 300, clone.schema.field("fraction").type))
    changed = lance.write_dataset(fresh, target, mode="append", storage_options=buckets.options)
    assert changed.to_table(filter="id = 700").num_rows == 1
    changed.optimize.optimize_indices()
    changed.optimize.compact_files()
    changed = buckets.open(target)
    assert changed.to_table(filter="id = 700").num_rows == 1
    assert changed.count_rows() == base.count_rows() + 300
    assert storage.clone_of(target, options) == found
    assert buckets.files(BUCKET, "s.lance/") == files
    assert answers(buckets.open(source)) == expected


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.3"])
def test_data_of_every_format_can_be_cloned_with_rows_and_without(
    buckets: Buckets, tmp_path: Path, version: Any
) -> None:
    full, gone, empty = (tmp_path / name for name in ("full.lance", "gone.lance", "empty.lance"))
    write(full, data_storage_version=version)
    lance.write_dataset(rows(0, 9), gone, data_storage_version=version).create_scalar_index("id", "BTREE")
    lance.dataset(gone).delete("true")
    lance.write_dataset(rows(0, 0), empty, data_storage_version=version)
    for folder in (full, gone, empty):
        source = buckets.upload(folder)
        base, clone = buckets.open(source), buckets.clone(source, f"s3://{SCRATCH}/{folder.name}")
        assert clone.data_storage_version == base.data_storage_version
        assert str(clone.lance_schema) == str(base.lance_schema)
        assert clone.to_table(with_row_id=True) == base.to_table(with_row_id=True)
    assert answers(buckets.open(f"s3://{SCRATCH}/full.lance")) == answers(lance.dataset(full))


def test_clones_branches_and_blobs_can_be_cloned_across_stores(buckets: Buckets, tmp_path: Path) -> None:
    source, first = tmp_path / "s 50%.lance", f"s3://{BUCKET}/first.lance"
    write(source)
    place = buckets.upload(source)
    buckets.clone(place, first)
    options = StorageOptions(buckets.options, Admission((place,)))
    branch = buckets.open(first).create_branch("dev/x")
    branch = lance.write_dataset(rows(2000, 5), branch, mode="append", storage_options=buckets.options)
    buckets.open(first).tags.create("trial", ("dev/x", branch.version))
    base = storage.read_base(first, "trial", options, f"s3://{SCRATCH}/c.lance")
    assert isinstance(base, CloneBase)
    storage.write_clone(base, options, f"s3://{SCRATCH}/c.lance", buckets.options)
    assert answers(buckets.open(f"s3://{SCRATCH}/c.lance")) == answers(branch)
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    blobs = lance.blob_array([b"x", b"y" * 100_000, b"z" * 5_000_000])
    lance.write_dataset(pa.table({"id": [1, 2, 3], "blob": blobs}, schema), tmp_path / "b.lance")
    buckets.clone(place, f"s3://{SCRATCH}/d%25.lance")
    assert answers(buckets.open(f"s3://{SCRATCH}/d%25.lance")) == answers(lance.dataset(source))
    clone = buckets.clone(buckets.upload(tmp_path / "b.lance"), f"s3://{SCRATCH}/b.lance")
    assert [len(blob.read()) for blob in clone.take_blobs("blob", indices=[0, 1, 2])] == [1, 100_000, 5_000_000]


def test_a_base_that_cannot_be_cloned_across_stores_is_refused_before_anything_is_written(
    buckets: Buckets, tmp_path: Path
) -> None:
    def refused(folder: Path, target: str = f"s3://{SCRATCH}/c.lance") -> Any:
        return buckets.read(buckets.upload(folder), None, target)

    rowed, old = tmp_path / "rowed.lance", tmp_path / "old"
    lance.write_dataset(rows(0, 9), rowed, enable_stable_row_ids=True)
    for name in ("uncounted", "deletions"):
        shutil.copytree(OLD_DATA / f"{name}.lance", tmp_path / f"{name}.lance")
    with tarfile.open(OLD_DATA / "release-4.0.0.tar.xz") as packed:
        packed.extractall(old, filter="data")
    assert refused(rowed) is CloneProblem.STABLE_ROW_IDS
    assert refused(tmp_path / "uncounted.lance") is CloneProblem.UNCOUNTED
    assert refused(tmp_path / "deletions.lance") is CloneProblem.UNCOUNTED
    assert refused(old / "release.lance") is CloneProblem.OLD_INDEX
    assert refused(rowed, "oss://scratch/c.lance") is CloneProblem.OTHER_STORE
    base = storage.read_base(str(rowed), None, {}, str(tmp_path / "c.lance"))
    assert isinstance(base, CloneBase)
    with pytest.raises(UnsupportedOperationError):
        storage.write_clone(base, {}, f"s3://{SCRATCH}/c.lance", buckets.options)
    assert buckets.files(SCRATCH) == {}


@pytest.mark.parametrize("bucket", [SCRATCH, BUCKET])
def test_a_clone_stopped_or_refused_at_any_write_is_finished_by_the_next_run(
    buckets: Buckets, written: Path, bucket: str
) -> None:
    source, target = buckets.upload(written), f"s3://{bucket}/pr/c.lance"
    files, expected, base = buckets.files(BUCKET), answers(buckets.open(source)), buckets.based(source, target)
    options = StorageOptions(buckets.options, Admission((source,)))

    def write_again() -> None:
        found = storage.find_clone(target, options)
        assert not (isinstance(found, storage.FoundClone) and not base.is_same_version(found.base))
        for _ in range(2):
            storage.write_clone(base, buckets.options, target, buckets.options)
        assert answers(buckets.open(target)) == expected
        assert {key: what for key, what in buckets.files(BUCKET).items() if key in files} == files
        assert {key for key in buckets.files(BUCKET) if not key.startswith("pr/")} == files.keys()
        buckets.empty(bucket, "pr/")

    for cut in range(0, 40, count(8, 1)):
        with dying(WRITES, cut) as deaths, suppress(Death):
            storage.write_clone(base, buckets.options, target, buckets.options)
        write_again()
        if not deaths.happened:
            break
    for number in range(0, 99, count(8, 1)):
        denial = Denial(number)
        buckets.server.denies = denial
        with suppress(BackendError):
            storage.write_clone(base, buckets.options, target, buckets.options)
        buckets.server.denies = lambda _method, _path: False
        write_again()
        if denial.writes <= number:
            break


@dataclass
class Denial:
    """Denies the write of a number, and counts all."""

    number: int
    writes: int = 0

    def __call__(self, method: str, _path: str) -> bool:
        self.writes += method in ("PUT", "POST", "DELETE")
        return method in ("PUT", "POST", "DELETE") and self.writes - 1 == self.number


def test_a_base_that_is_replaced_meanwhile_is_noticed(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance.write_dataset(rows(0, 9), tmp_path / "s.lance")
    source, target = buckets.upload(tmp_path / "s.lance"), f"s3://{SCRATCH}/c.lance"
    base, commit_step = buckets.based(source, target), commits.commit_step

    def beaten(*given: Any) -> None:
        buckets.empty(BUCKET)
        lance.write_dataset(rows(0, 5), source, storage_options=buckets.options)
        commit_step(*given)

    monkeypatch.setattr(cloning, "commit_step", beaten)
    for _ in range(2):
        with pytest.raises(ConcurrentModificationError):
            storage.write_clone(base, buckets.options, target, buckets.options)
    assert not buckets.based(source, target).is_same_version(base)


def test_every_version_that_an_old_release_wrote_is_cloned_or_refused(buckets: Buckets, tmp_path: Path) -> None:
    cloned = 0
    for packed in sampled(sorted(OLD_DATA.glob("release-*.tar.xz")), 4):
        with tarfile.open(packed) as content:
            content.extractall(tmp_path / packed.name, filter="data")
        folder = (tmp_path / packed.name / "release.lance").rename(tmp_path / f"{packed.name}.lance")
        source = buckets.upload(folder)
        for known in sampled(buckets.open(source).versions(), 3):
            number = known["version"]
            place = buckets.read(source, number, f"s3://{SCRATCH}/{packed.name}-{number}.lance")
            if not isinstance(place, CloneBase):
                assert place in (CloneProblem.UNCOUNTED, CloneProblem.OLD_INDEX)
                continue
            clone = buckets.clone(source, f"s3://{SCRATCH}/{packed.name}-{number}.lance", number)
            assert _answers(clone) == _answers(lance.dataset(folder, version=number))
            cloned += 1
    assert cloned > 0


def _answers(dataset: Any) -> list[Any]:
    """Return the rows, and what the indices of an old dataset answer."""
    names = sorted(index.name for index in dataset.describe_indices())
    rows = dataset.to_table(with_row_id=True).sort_by("_rowid")
    query = [0.1] * dataset.schema.field("v").type.list_size
    nearest = dataset.to_table(nearest={"column": "v", "q": query, "k": 5})["_distance"]
    return [names, rows, dataset.to_table(filter="id = 7"), nearest]


def test_data_of_any_history_is_cloned_as_it_is(buckets: Buckets, tmp_path: Path) -> None:
    dice = seeded("clones of any history")
    for number in range(count(2, 60)):
        folder = tmp_path / f"{number}.lance"
        dataset = lance.write_dataset(rows(0, 60), folder, data_storage_version=dice.choice(["2.0", "2.1", "2.2"]))
        done = [dice.choice(STEPS) for _ in range(dice.randrange(3, 14))]
        for step in done:
            with suppress(OSError, ValueError, KeyError):  # a column is gone, or there is nothing to index
                step(lance.dataset(folder), dice.randrange(60, 10_000))
        dataset = lance.dataset(folder)
        source, target = buckets.upload(folder), f"s3://{SCRATCH}/{number}.lance"
        clone = buckets.clone(source, target)
        for column, value in (("id", dice.randrange(60)), ("id", dice.randrange(10_000))):
            assert _selected(clone, column, value) == _selected(dataset, column, value)
        assert clone.to_table(with_row_id=True) == dataset.to_table(with_row_id=True)
        more = dataset.to_table().slice(0, 1)
        for changed, options in ((folder, None), (target, buckets.options)):
            for _ in range(2):
                lance.write_dataset(more, changed, mode="append", storage_options=options)
        for value in more["id"].to_pylist():
            left, right = lance.dataset(folder), buckets.open(target)
            assert _selected(left, "id", value) == _selected(right, "id", value) != []


def _selected(dataset: Any, column: str, value: int) -> list[Any]:
    table = dataset.to_table(filter=f"{column} = {value}", with_row_id=True)
    return sorted(map(str, table.to_pylist()))


STEPS: tuple[Callable[[Any, int], object], ...] = (
    lambda dataset, _: dataset.insert(dataset.to_table().slice(0, 20)),
    lambda dataset, first: dataset.delete(f"id % 7 = {first % 7}"),
    lambda dataset, first: dataset.delete(f"_rowid >= {(first % 4) << 32}"),
    lambda dataset, first: dataset.update({"id": f"id + {first}"}, where=f"id % 5 = {first % 5}"),
    lambda dataset, first: dataset.add_columns({f"c{first}": "id + 1"}),
    lambda dataset, _: dataset.drop_columns(dataset.schema.names[2:]),
    lambda dataset, _: dataset.create_scalar_index("id", "BTREE", replace=True),
    lambda dataset, _: dataset.create_scalar_index("text", "INVERTED", replace=True),
    lambda dataset, _: dataset.create_index("v", "IVF_FLAT", num_partitions=1, replace=True),
    lambda dataset, _: dataset.optimize.compact_files(),
    lambda dataset, _: dataset.optimize.optimize_indices(),
    lambda dataset, first: dataset.update_config({"team": str(first)}),
)
