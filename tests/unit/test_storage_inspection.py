"""The files of real datasets, beside those that their latest version names."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler.model.admission import Admission, StorageOptions
from reconciler.storage import Files, files_of, indices_of, listing, small_fragments_of


def rows(number: int) -> pa.Table:
    return pa.table({"id": pa.array(range(number), pa.int64())})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Write a dataset of five fragments with an index and deletions."""
    place = tmp_path / "a.lance"
    for _ in range(5):
        lance.write_dataset(rows(10), str(place), mode="append" if place.exists() else "create")
    dataset = lance.dataset(str(place))
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id = 3")
    return place


ANYWHERE = StorageOptions({}, Admission(outside=True))


def look(place: Path) -> Files:
    return files_of(lance.dataset(str(place)), str(place), ANYWHERE)


def size_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def first(place: Path, pattern: str) -> Path:
    return min(place.glob(pattern))


def test_a_sound_dataset_lacks_nothing(place: Path) -> None:
    found = look(place)
    assert (found.missing, found.short, found.problem) == ((), (), None)
    assert (found.bytes, found.versions) == (size_of(place), 7)


@pytest.mark.parametrize("pattern", ["data/*.lance", "_deletions/*"])
def test_a_file_that_is_gone_is_named(place: Path, pattern: str) -> None:
    gone = first(place, pattern)
    gone.unlink()
    assert look(place).missing == (str(gone.relative_to(place)),)


@pytest.mark.parametrize("foreign", [False, True])
def test_index_files_that_are_gone_are_named(place: Path, foreign: bool) -> None:
    gone = sorted(first(place, "_indices/*").iterdir())
    for path in gone:
        path.rename(path.with_suffix(".other")) if foreign else path.unlink()
    assert look(place).missing == tuple(str(path.relative_to(place)) for path in gone)


@pytest.mark.parametrize(
    "make",
    [
        lambda dataset: dataset.optimize.compact_files(defer_index_remap=True),
        lambda dataset: dataset.initialize_mem_wal(unsharded=True),
    ],
)
def test_an_index_of_the_system_has_its_content_in_the_manifest(place: Path, make: Callable[[Any], object]) -> None:
    before = len(lance.dataset(str(place)).describe_indices())
    make(lance.dataset(str(place)))
    dataset = lance.dataset(str(place))
    assert len(dataset.describe_indices()) == before + 1
    assert look(place).missing == ()
    assert [index.name for index in indices_of(dataset) or ()] == ["id_idx"]


@pytest.mark.parametrize("pattern", ["data/*.lance", "_indices/*/*"])
def test_a_file_that_was_cut_short_is_named(place: Path, pattern: str) -> None:
    short = first(place, pattern)
    os.truncate(short, short.stat().st_size - 1)
    assert look(place).short == (str(short.relative_to(place)),)


def test_a_file_that_is_empty_is_short_whatever_is_said_of_it(place: Path) -> None:
    short = first(place, "_deletions/*")
    os.truncate(short, 0)
    assert look(place).short == (str(short.relative_to(place)),)


def test_a_file_that_only_an_old_version_needs_may_be_gone(place: Path) -> None:
    lance.dataset(str(place)).optimize.compact_files()
    oldest = min(place.glob("data/*.lance"), key=lambda path: path.stat().st_mtime)
    oldest.unlink()
    assert look(place).missing == ()


@pytest.mark.parametrize("tagged", [False, True])
def test_what_a_clean_up_gives_back_is_what_was_said(place: Path, tagged: bool) -> None:
    dataset = lance.dataset(str(place))
    if tagged:
        dataset.tags.create("keep", 2)
    dataset.optimize.compact_files()
    found, before = look(place), size_of(place / "_transactions")
    cleaned = lance.dataset(str(place)).cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    # Transactions, of some hundred bytes each, are not counted.
    assert found.reclaimable == cleaned.bytes_removed - (before - size_of(place / "_transactions"))
    after = look(place)
    assert (after.reclaimable, after.missing, after.versions) == (0, (), 2 if tagged else 1)


def test_a_file_that_no_version_needs_can_be_given_back(place: Path) -> None:
    before = look(place).reclaimable
    (place / "data/left.lance").write_bytes(b"x" * 1000)
    assert look(place).reclaimable == (before or 0) + 1000


def test_blobs_count_and_are_kept_with_their_data(tmp_path: Path) -> None:
    place = str(tmp_path / "b.lance")
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    blobs = lance.blob_array([b"x" * 200_000, b"y" * 5_000_000])
    lance.write_dataset(pa.table([pa.array([1, 2]), blobs], schema=schema), place, data_storage_version="2.2")
    found = look(tmp_path / "b.lance")
    assert found.bytes > 5_200_000
    assert (found.reclaimable, found.missing, found.short) == (0, (), ())


def test_what_a_clean_up_would_free_is_split_and_what_it_would_not_is_named(place: Path) -> None:
    dataset = lance.dataset(str(place))
    dataset.tags.create("keep", 3)
    branch = dataset.create_branch("trial")
    dataset.optimize.compact_files()
    lance.write_dataset(rows(1), str(place), mode="overwrite")
    lance.dataset(branch.uri).delete("id = 5")
    (place / "data/left.lance").write_bytes(b"x" * 1000)
    assert look(place).cleanup is None
    found = files_of(lance.dataset(str(place)), str(place), ANYWHERE, explained=0)
    assert found.cleanup is not None
    cleaned = lance.dataset(str(place)).cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    assert (found.cleanup.old, found.cleanup.unneeded) == (cleaned.bytes_removed - 1000, 1000)
    (branched, held_by_branch), (tagged, held_by_tag) = found.held
    sizes = [path.stat().st_size for path in sorted((place / "data").iterdir(), key=lambda path: path.stat().st_mtime)]
    assert (branched, tagged, held_by_tag) == ("branch `trial`", "tag `keep`", sum(sizes[:3]))
    assert held_by_branch > sum(sizes[:5])  # with deletions and an index
    assert found.reclaimable is not None
    assert found.reclaimable >= cleaned.bytes_removed - sum(path.stat().st_size for path in place.glob("_trans*/*"))


def _version_file(place: Path, version: int) -> Path:
    return place / "_versions" / f"{2**64 - 1 - version}.manifest"


def _lose_version(place: Path) -> None:
    _version_file(place, 2).unlink()


def _damage_version(place: Path) -> None:
    os.truncate(_version_file(place, 2), 5)


def _damage_tag(place: Path) -> None:
    (place / "_refs/tags/keep.json").write_text("{}")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_lose_version, "keep (version 2)"),
        (_damage_version, "keep (version 2)"),
        (_damage_tag, "keep"),
    ],
)
@pytest.mark.parametrize("branched", [False, True])
def test_a_tag_that_leads_nowhere_hides_nothing_else(
    place: Path, damage: Callable[[Path], None], named: str, branched: bool
) -> None:
    dataset = lance.dataset(str(place))
    dataset.tags.create("keep", 2)
    dataset.tags.create("größe", dataset.version)
    if branched:
        dataset.create_branch("trial")
    sound = look(place)
    assert sound.broken_tags == ()
    damage(place)
    gone = max(place.glob("data/*.lance"), key=lambda path: path.stat().st_mtime)
    gone.unlink()
    found = look(place)
    assert ([str(tag) for tag in found.broken_tags], found.missing) == ([named], (str(gone.relative_to(place)),))
    assert (found.problem, found.reclaimable is None, found.bytes > 0) == (None, False, True)


def test_a_tag_whose_version_lacks_files_leads_nowhere(place: Path) -> None:
    lance.dataset(str(place)).tags.create("keep", 2)
    lance.dataset(str(place)).optimize.compact_files()
    assert look(place).broken_tags == ()
    min(place.glob("data/*.lance"), key=lambda path: path.stat().st_mtime).unlink()
    found = look(place)
    assert ([str(tag) for tag in found.broken_tags], found.missing) == (["keep (version 2)"], ())


def test_a_tag_of_a_branch_leads_there(place: Path) -> None:
    branch = lance.dataset(str(place)).create_branch("trial")
    lance.write_dataset(rows(1), branch, mode="append")
    lance.dataset(str(place)).tags.create("tried", ("trial", branch.latest_version))
    assert look(place).broken_tags == ()
    first(place, "tree/trial/_versions/*.manifest").unlink()
    assert look(place).broken_tags != ()


def test_a_tag_that_is_taken_away_meanwhile_leads_nowhere_wrong(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = lance.dataset(str(place))
    dataset.tags.create("keep", 2)
    real = listing.sizes_by_path

    def listed(one: Any) -> dict[str, int]:
        found = real(one)
        if "_refs/tags/keep.json" in found:
            lance.dataset(str(place)).tags.delete("keep")
        return found

    monkeypatch.setattr(listing, "sizes_by_path", listed)
    assert look(place).broken_tags == ()


def test_a_clone_has_its_files_elsewhere(place: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone.lance"
    lance.dataset(str(place)).shallow_clone(str(clone), lance.dataset(str(place)).version)
    assert look(clone).missing == ()


def test_what_lies_in_a_directory_of_its_own_is_not_the_datasets(place: Path) -> None:
    before = look(place).bytes
    lance.write_dataset(rows(5), str(place / "inner.lance"))
    assert look(place).bytes == before


def test_a_version_that_was_cleaned_up_meanwhile_is_looked_at_anew(place: Path) -> None:
    before = lance.dataset(str(place))
    lance.dataset(str(place)).optimize.compact_files()
    lance.dataset(str(place)).cleanup_old_versions(timedelta(0), delete_unverified=True)
    found = files_of(before, str(place), {})
    assert (found.missing, found.short, found.versions) == ((), (), 1)


def test_a_table_that_never_stands_still_has_no_file_missing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that it is listed, the version that was read is gone."""
    listed: Callable[[Any], dict[str, int]] = listing.sizes_by_path

    def moving(dataset: Any) -> dict[str, int]:
        lance.write_dataset(rows(1), str(place), mode="overwrite")
        lance.dataset(str(place)).cleanup_old_versions(timedelta(0), delete_unverified=True)
        return listed(dataset)

    monkeypatch.setattr(listing, "sizes_by_path", moving)
    found = look(place)
    assert (found.missing, found.short, found.problem) == ((), (), None)


def test_files_that_cannot_be_listed_are_a_problem(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(dataset: Any) -> dict[str, int]:
        raise OSError("AccessDenied: s3:ListBucket")

    monkeypatch.setattr(listing, "sizes_by_path", denied)
    assert look(place) == Files(problem="AccessDenied: s3:ListBucket")


def test_indices_say_what_they_cover(place: Path) -> None:
    lance.write_dataset(rows(7), str(place), mode="append")
    (index,) = indices_of(lance.dataset(str(place))) or ()
    assert (index.name, index.columns, index.rows) == ("id_idx", ("id",), 45)


def test_fragments_with_little_data_are_small(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    lance.write_dataset(pa.table({"data": [os.urandom(1000) for _ in range(2_000)]}), place)
    for _ in range(2):
        lance.write_dataset(pa.table({"data": [b"x"]}), place, mode="append")
    assert small_fragments_of(lance.dataset(place), lists_files=False) == 2


def test_fragments_whose_writer_recorded_no_size_are_measured_where_files_are_listed(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    fragments = lance.fragment.write_fragments(rows(5), place) + lance.fragment.write_fragments(rows(5), place)
    for file in (file for fragment in fragments for file in fragment.files):
        file.file_size_bytes = None
    dataset = lance.LanceDataset.commit(place, lance.LanceOperation.Overwrite(rows(1).schema, fragments))
    assert small_fragments_of(dataset, lists_files=True) == 2
    assert small_fragments_of(dataset, lists_files=False) is None
