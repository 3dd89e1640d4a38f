"""Every loss of data that storage shows is an error, and a sound dataset of the same shape has no finding."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler.auditor.document import Finding
from reconciler.auditor.rules import check
from reconciler.auditor.storage_probe import probe
from reconciler.model.admission import Admission, StorageOptions
from reconciler.storage import Depth, scanning
from tests.unit.pipeline.lossy import (
    ANYWHERE,
    LIMITS,
    SHAPES,
    branch,
    commit_in_future,
    committed,
    end_process,
    findings,
    follow,
    follow_all,
    found,
    halve,
    lose_latest_and_hint,
    manifest,
    mix_formats,
    one,
    overlap_segments,
    overwrite,
    patch,
    record,
    remedies,
    rows,
    segmented,
    share_fragment_id,
    swap_fragment_ids,
)
from tests.unit.test_old_data import OLD_DATA

MISSING, SHORT, DAMAGED = "missing-files", "short-files", "damaged-files"
TAG, BRANCH, VERSION = "broken-tag", "broken-branch", "lost-version"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sound_dataset_has_no_finding(shape: str, tmp_path: Path) -> None:
    place = SHAPES[shape](tmp_path)
    assert [found(place, depth) for depth in (Depth.FILES, Depth.FOOTERS, Depth.ROWS)] == [[], [], []]


def _old(name: str) -> Callable[[Path], Path]:
    """Return the making of a copy of an old dataset."""
    return lambda folder: Path(shutil.copytree(OLD_DATA / f"{name}.lance", folder / "a.lance"))


def _unlink(pattern: str) -> Callable[[Path], None]:
    """Remove the first file that fits; from the folder around the dataset."""
    return lambda folder: min(folder.glob(pattern)).unlink()


def _halve(pattern: str) -> Callable[[Path], None]:
    return lambda folder: halve(max(folder.glob(pattern), key=lambda path: path.stat().st_size))


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: shutil.rmtree(folder / name)


def _lose_latest(folder: Path) -> None:
    manifest(folder / "a.lance", 3).unlink()


def _lose_latest_and_hint(folder: Path) -> None:
    for version in (3, 2):
        manifest(folder / "a.lance", version).unlink()
    (folder / "a.lance/_versions/latest_version_hint.json").unlink()


def _lose_latest_of_branch(folder: Path) -> None:
    min((folder / "a.lance/tree/trial/_versions").glob("*.manifest")).unlink()


@pytest.mark.parametrize(
    ("shape", "damage", "rules"),
    [
        ("multi_base", _remove("base"), [MISSING]),
        ("multi_base", _unlink("base/*.lance"), [MISSING]),
        ("multi_base", _halve("base/*.lance"), [SHORT]),
        ("branched", _unlink("a.lance/tree/trial/data/*"), [BRANCH]),
        ("branched", _halve("a.lance/tree/trial/data/*"), [BRANCH]),
        ("branched", _unlink("a.lance/tree/trial/_deletions/*"), [BRANCH]),
        ("branched", _remove("a.lance/tree/trial/_versions"), [BRANCH]),
        ("branched", _lose_latest_of_branch, [BRANCH]),
        ("branched", _remove("a.lance/tree/trial/next"), [BRANCH]),
        ("cloned", _remove("source.lance"), [MISSING]),
        ("cloned", _unlink("source.lance/data/*.lance"), [MISSING]),
        ("cloned", _halve("source.lance/data/*.lance"), [SHORT]),
        ("cloned", _unlink("source.lance/_deletions/*"), [MISSING]),
        ("cloned", _halve("source.lance/_deletions/*"), [SHORT]),
        ("cloned", _remove("source.lance/_indices"), [MISSING]),
        ("with_blobs", _unlink("a.lance/data/*/1*.blob"), [MISSING]),
        ("with_blobs", _unlink("a.lance/data/*/01*.blob"), [MISSING]),
        ("with_blobs", _halve("a.lance/data/*/*.blob"), [SHORT]),
        ("tagged", _unlink("a.lance/tree/trial/data/*"), [TAG, BRANCH]),
        ("deleted", _halve("a.lance/_deletions/*.arrow"), [SHORT]),
        ("deleted", _halve("a.lance/_deletions/*.bin"), [SHORT]),
        ("committed", _lose_latest, [VERSION]),
        ("committed", _lose_latest_and_hint, [VERSION]),
    ],
)
def test_a_loss_is_an_error(shape: str, damage: Callable[[Path], None], rules: list[str], tmp_path: Path) -> None:
    place = SHAPES[shape](tmp_path)
    damage(tmp_path)
    assert found(place) == rules


@pytest.mark.parametrize("column", ["blob", "in"])
def test_every_blob_counts(column: str, tmp_path: Path) -> None:
    for number, gone in enumerate(sorted(SHAPES["with_blobs"](tmp_path).glob("data/*/*.blob"))):
        kept = gone.rename(gone.with_suffix(f".{number}"))
        assert found(tmp_path / "a.lance") == [MISSING]
        kept.rename(gone)
    assert found(tmp_path / "a.lance") == []


def test_a_file_that_only_a_tag_needs_breaks_the_tag(tmp_path: Path) -> None:
    place = SHAPES["tagged"](tmp_path)
    (fragment,) = lance.dataset(str(place), version=1).get_fragments()
    (place / "data" / fragment.data_files()[0].path).unlink()
    assert found(place) == [TAG]


def test_files_that_a_branch_took_from_main_are_missed_on_both(tmp_path: Path) -> None:
    place = SHAPES["branched"](tmp_path)
    min(place.glob("data/*.lance")).unlink()
    assert found(place) == [MISSING]


def test_files_that_only_a_branch_needs_of_main_break_the_branch(tmp_path: Path) -> None:
    place = SHAPES["branched"](tmp_path)
    shared = min(place.glob("data/*.lance"))
    lance.write_dataset(rows(7), str(place), mode="overwrite")
    assert found(place) == []
    shared.unlink()
    assert found(place) == [BRANCH]


def test_a_branched_dataset_that_was_moved_needs_its_old_place(tmp_path: Path) -> None:
    """Branches name the files of main by their full path, and so does a clone."""
    place = SHAPES["branched"](tmp_path)
    copy = Path(shutil.copytree(place, tmp_path / "copy.lance"))
    assert found(copy) == []
    place.rename(tmp_path / "elsewhere.lance")
    assert found(copy) == [BRANCH]


def test_a_dataset_at_the_end_of_a_link_has_its_own_files(tmp_path: Path) -> None:
    place = SHAPES["branched"](tmp_path)
    (tmp_path / "link").symlink_to(place)
    assert found(tmp_path / "link") == []


def test_a_commit_that_was_interrupted_lost_no_version(tmp_path: Path) -> None:
    """A transaction without a manifest: the writer died, or is about to commit."""
    place = SHAPES["committed"](tmp_path)
    shutil.copy(one(place, "_transactions/2-*"), place / "_transactions/3-0.txn")
    assert found(place) == []


def test_a_lost_version_is_no_finding_once_the_next_commit_took_its_number(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    manifest(place, 3).unlink()
    lance.write_dataset(rows(1), str(place), mode="append")
    assert found(place) == []


def _overwrite(pattern: str, first: int, new: bytes) -> Callable[[Path], None]:
    """Overwrite bytes of the last file that fits, counted from its end."""
    return lambda folder: overwrite(max(folder.glob(pattern)), first, new)


@pytest.mark.parametrize(
    ("shape", "damage", "rules"),
    [
        ("committed", _overwrite("a.lance/data/*", -4, bytes(4)), [DAMAGED]),
        ("committed", _overwrite("a.lance/data/*", -40, bytes(40)), [DAMAGED]),
        ("committed", _overwrite("a.lance/data/*", -12, b"\xff"), [DAMAGED]),  # pylance would allocate gigabytes
        ("committed", _overwrite("a.lance/data/*", -41, b"\xff"), [DAMAGED]),
        ("multi_base", _overwrite("base/*.lance", -40, bytes(40)), [DAMAGED]),
        ("cloned", _overwrite("source.lance/_indices/*/*", -8, bytes(8)), [DAMAGED]),
        ("segmented", _overwrite("a.lance/_indices/*/page_data.lance", -500, bytes(500)), [DAMAGED]),
        ("tagged", _overwrite("a.lance/tree/trial/data/*", -40, bytes(40)), [TAG, BRANCH]),
        (_old("uncounted"), _overwrite("a.lance/data/*", -16, b"\xff" * 8), [DAMAGED]),
    ],
)
def test_damage_that_leaves_the_bytes_is_found_by_footers(
    shape: str | Callable[[Path], Path], damage: Callable[[Path], None], rules: list[str], tmp_path: Path
) -> None:
    place = SHAPES[shape](tmp_path) if isinstance(shape, str) else shape(tmp_path)
    damage(tmp_path)
    assert (found(place), found(place, Depth.FOOTERS)) == ([], rules)


@pytest.mark.parametrize("is_in_footer", [True, False])
def test_descriptors_of_blobs_are_read_from_no_damaged_file(is_in_footer: bool, tmp_path: Path) -> None:
    place = SHAPES["with_blobs"](tmp_path)
    data = one(place, "data/*.lance")
    overwrite(data, *((-12, b"\xff") if is_in_footer else (-data.stat().st_size, b"\xff" * 300)))
    assert [found(place, depth) for depth in (Depth.FILES, Depth.FOOTERS)] == [[DAMAGED], [DAMAGED]]


def test_a_table_with_many_columns_has_a_long_footer(tmp_path: Path) -> None:
    place = tmp_path / "a.lance"
    lance.write_dataset(pa.table({f"c{number}": [number] for number in range(400)}), str(place))
    assert found(place, Depth.FOOTERS) == []
    overwrite(one(place, "data/*"), -41, b"\xff")
    assert found(place, Depth.FOOTERS) == [DAMAGED]


def test_rows_that_cannot_be_decoded_are_found(tmp_path: Path) -> None:
    place = tmp_path / "a.lance"
    texts = pa.table({"text": [f"text {number}" for number in range(1000)]})
    for mode in ("create", "append", "append"):
        lance.write_dataset(texts, str(place), mode=mode, data_storage_version="2.0")
    assert found(place, Depth.ROWS) == []
    paths = [place / "data" / fragment.data_files()[0].path for fragment in lance.dataset(str(place)).get_fragments()]
    overwrite(paths[1], -paths[1].stat().st_size, b"\xff" * 4000)
    assert found(place, Depth.FOOTERS) == []
    [finding] = findings(place, Depth.ROWS)
    assert (finding.rule, paths[1].name in finding.reason) == (DAMAGED, True)
    [command] = remedies(finding)
    assert command.endswith("version=1).restore()")


def test_a_fragment_that_ends_the_process_is_not_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_is_readable", end_process)
    assert list(scanning.unreadable_fragments("", {}, 1, 1)) == [0]


@pytest.mark.parametrize(("lost", "admits"), [("base/1.bin", True), ("2 ö%.bin", True), ("2 ö%.bin", False)])
def test_external_blobs_are_missed_where_the_dataset_may_refer_to(lost: str, admits: bool, tmp_path: Path) -> None:
    place = SHAPES["with_external_blobs"](tmp_path)
    (tmp_path / lost).unlink()
    options = ANYWHERE if admits else StorageOptions({}, Admission((str(tmp_path / "base"),)))
    files = {depth: probe(str(place), options, depth).files for depth in (Depth.FOOTERS, Depth.ROWS)}
    missing = {depth: None if found is None else found.missing for depth, found in files.items()}
    assert missing == {Depth.FOOTERS: (), Depth.ROWS: (str(tmp_path / lost),) * admits}


def test_a_damaged_index_of_the_right_size_is_dropped(tmp_path: Path) -> None:
    place = SHAPES["segmented"](tmp_path)
    for path in place.glob("_indices/*/page_lookup.lance"):
        overwrite(path, -40, bytes(40))
    [finding] = findings(place, Depth.FOOTERS)
    [command] = remedies(finding)
    follow(command)
    assert found(place, Depth.FOOTERS) == []


def test_what_validate_alone_finds_is_quoted(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    patch(place, b" \x14\x12", b" \x13\x12")  # a fragment of 20 rows, before the next one
    [finding] = findings(place, Depth.FOOTERS)
    assert (finding.rule, "incorrect physical_rows" in finding.reason) == (DAMAGED, True)


# ---- versions that contradict themselves -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "damage", "rule"),
    [
        (_old("duplicate_fields"), None, "shared-field-ids"),
        (_old("miscounted"), None, "wrong-row-counts"),
        (committed, share_fragment_id, "fragment-ids"),
        (committed, swap_fragment_ids, "fragment-ids"),
        (segmented, overlap_segments, "overlapping-index"),
    ],
)
def test_a_version_that_contradicts_itself_is_repaired_without_a_change_of_rows(
    shape: Callable[[Path], Path], damage: Callable[[Path], None] | None, rule: str, tmp_path: Path
) -> None:
    place = shape(tmp_path)
    if damage is not None:
        damage(place)
    before: Any = lance.dataset(str(place))
    with pytest.raises(OSError, match="corrupt"):
        before.validate()
    [finding] = findings(place)
    assert finding.rule == rule
    [command] = remedies(finding)
    follow(command)
    after: Any = lance.dataset(str(place))
    after.validate()
    assert (found(place), after.version) == ([], before.version + 1)
    assert after.to_table().sort_by("id").equals(before.to_table().sort_by("id"))


def test_a_commit_in_the_future_is_found_until_the_next(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    commit_in_future(place)
    [finding] = findings(place)
    assert finding.rule == "future-commit"
    [command] = remedies(finding)
    follow(command)
    assert (found(place), lance.dataset(str(place)).count_rows()) == ([], 60)


def test_without_a_hint_no_commit_is_missed_that_none_began(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    (place / "_versions/latest_version_hint.json").unlink()
    assert found(place) == []


def test_formats_that_are_mixed_are_found(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    mix_formats(place)
    assert found(place) == ["mixed-formats"]


# ---- remedies, typed as they stand there -----------------------------------------------------------------------------


def _one(place: Path, rule: str) -> Finding:
    [finding] = [one for one in findings(place) if one.rule == rule]
    return finding


@pytest.mark.parametrize(
    ("shape", "damage", "rule", "rows_left"),
    [
        ("committed", lambda folder: _newest(folder, "a.lance/data/*").unlink(), MISSING, 40),
        ("committed", lambda folder: halve(_newest(folder, "a.lance/data/*")), SHORT, 40),
        ("committed", _lose_latest, VERSION, 40),
        ("committed", lambda folder: lose_latest_and_hint(folder / "a.lance"), VERSION, 40),
        ("deleted", _halve("a.lance/_deletions/*.arrow"), SHORT, 100_020),
    ],
)
def test_going_back_to_the_version_that_is_named_ends_the_finding(
    shape: str, damage: Callable[[Path], None], rule: str, rows_left: int, tmp_path: Path
) -> None:
    place = SHAPES[shape](tmp_path)
    damage(tmp_path)
    [command] = remedies(_one(place, rule))
    follow(command)
    assert found(place) == []
    assert lance.dataset(str(place)).count_rows() == rows_left


def test_a_remedy_turns_no_column_into_nulls(tmp_path: Path) -> None:
    place = _old("duplicate_fields")(tmp_path)
    before: Any = lance.dataset(str(place), version=5)
    lost = {file.path for file in lance.dataset(str(place)).get_fragments()[0].data_files()}
    lost -= {file.path for file in before.get_fragments()[0].data_files()}
    (place / "data" / min(lost)).unlink()
    [command] = remedies(_one(place, MISSING))
    follow(command)
    assert found(place) == []
    assert lance.dataset(str(place)).to_table().sort_by("id").equals(before.to_table().sort_by("id"))


def test_no_fragment_is_saved_by_a_commit_that_empties_columns(tmp_path: Path) -> None:
    place = _old("duplicate_fields")(tmp_path)
    (place / "data" / lance.dataset(str(place), version=1).get_fragments()[0].data_files()[0].path).unlink()
    assert remedies(_one(place, MISSING)) == []


def _newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def test_where_no_version_is_whole_the_remedy_says_so(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    for path in place.glob("data/*"):
        path.unlink()
    finding = _one(place, MISSING)
    assert remedies(finding) == []
    assert "none of the last" in finding.remedy


@pytest.mark.parametrize(
    ("lost", "rule", "cleans_up"),
    [((1,), MISSING, False), ((0, 2, 3, 4), SHORT, True), ((0, 1), "unreadable", False)],
)
def test_whole_fragments_are_saved_where_no_version_is_whole(
    lost: tuple[int, ...], rule: str, cleans_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place, deleted = tmp_path / "a.lance", {0, 15, 55}
    dataset = lance.write_dataset(rows(60), str(place), max_rows_per_file=10)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id in (0, 15, 55)")
    if cleans_up:
        dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    for number in lost:
        path = place / "data" / dataset.get_fragments()[number].data_files()[0].path
        halve(path) if rule == SHORT else path.unlink()
    if rule == "unreadable":
        halve(manifest(place, 3))
        deleted = set()
    files = {path for path in place.rglob("*") if path != manifest(place, 3)}
    finding = _one(place, rule)
    for command in remedies(finding):
        follow(command)
    left = [number for number in range(60) if number // 10 not in lost and number not in deleted]
    assert lance.dataset(str(place)).to_table(filter="id >= 0")["id"].to_pylist() == left
    assert f"(rows kept: {len(left)}, lost: " in finding.remedy
    assert files <= {*place.rglob("*")}
    assert found(place) == []


def test_a_damaged_index_is_dropped_and_no_row_is_lost(tmp_path: Path) -> None:
    place = tmp_path / "a.lance"
    lance.write_dataset(rows(20), str(place)).create_scalar_index("id", "BTREE")
    shutil.rmtree(one(place, "_indices/*"))
    [command] = remedies(_one(place, MISSING))
    follow(command)
    assert found(place) == []
    assert lance.dataset(str(place)).count_rows() == 20


def test_a_broken_tag_and_a_broken_branch_can_be_deleted_as_they_say(tmp_path: Path) -> None:
    place = SHAPES["tagged"](tmp_path)
    for path in place.glob("tree/trial/data/*"):
        path.unlink()
    for rule in (TAG, BRANCH):
        follow(remedies(_one(place, rule))[-1])
    assert found(place) == []


def _garble(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text("{")


@pytest.mark.parametrize(
    ("shape", "damage", "audits"),
    [
        ("branched_from_main", _garble("a.lance/_refs/branches/trial.json"), 1),
        ("branched_from_main", _remove("a.lance/_refs"), 1),
        ("branched", _remove("a.lance/_refs"), 2),  # what the branch of the branch needs depends on its file
        ("branched", _unlink("a.lance/_refs/branches/trial.json"), 1),
        ("branched", _garble("a.lance/_refs/branches/trial.json"), 1),
        ("branched", _unlink("a.lance/_refs/branches/trial%2Fnext.json"), 1),
        ("branched", _garble("a.lance/_refs/branches/trial%2Fnext.json"), 1),
        ("branched_by_team", _unlink("a.lance/_refs/branches/team%2F*.json"), 1),
        ("branched_by_team", _garble("a.lance/_refs/branches/team%2Fj%C3%BCrgen.json"), 1),
        ("branched_by_team", _garble("a.lance/_refs/branches/next.json"), 1),
    ],
)
@pytest.mark.parametrize("as_uri", [False, True])
def test_the_file_of_a_branch_is_written_again_before_a_clean_up(
    shape: str,
    damage: Callable[[Path], object],
    audits: int,
    as_uri: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = SHAPES[shape](tmp_path)
    names = lance.dataset(str(place)).branches.list()
    branches = {name: branch(place, name).to_table() for name in names}
    damage(tmp_path)
    (tmp_path / "typed").mkdir()
    monkeypatch.chdir(tmp_path / "typed")
    location = place.as_uri() if as_uri else place
    for _ in range(audits):
        assert follow_all(location) == [BRANCH]
    assert found(location) == []
    for name in names:
        lance.write_dataset(rows(3), branch(place, name), mode="overwrite")
        branch(place, name).cleanup_old_versions(timedelta(0), delete_unverified=True)
        for other, table in branches.items():
            assert other == name or branch(place, other).to_table().equals(table)
        branches[name] = rows(3)
    lance.dataset(str(place)).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert [branch(place, name).count_rows() for name in names] == [3] * len(names)


@pytest.mark.parametrize("lineage", [7, [7], None])
def test_a_lineage_of_another_form_is_not_taken(lineage: object, tmp_path: Path) -> None:
    place = SHAPES["branched"](tmp_path)
    file = place / "_refs/branches/trial%2Fnext.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "identifier": {"version_mapping": lineage}}))
    (place / "_refs/branches/trial.json").write_text("{")
    written, _ = remedies(_one(place, BRANCH))
    assert "'parentBranch': None" in str(json.loads(eval(written.partition("write_text")[2])))  # noqa: S307


def test_the_folder_of_a_deleted_branch_is_no_branch(tmp_path: Path) -> None:
    place = SHAPES["branched_from_main"](tmp_path)
    lance.dataset(str(place)).create_branch("trial/inside")
    lance.dataset(str(place)).branches.delete("trial")
    assert (place / "tree/trial/_versions").exists()
    assert found(place) == []


def test_a_branch_goes_back_to_its_own_version(tmp_path: Path) -> None:
    place = SHAPES["branched"](tmp_path)
    lance.write_dataset(rows(5, 900), lance.dataset(str(place)).checkout_version(("trial/next", None)), mode="append")
    for path in place.glob("tree/trial/next/data/*"):
        path.unlink()
    follow(remedies(_one(place, BRANCH))[0])
    assert found(place) == []


@pytest.mark.parametrize("versions", [(3,), (2, 3)])
def test_a_damaged_manifest_is_kept_elsewhere(
    versions: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = SHAPES["committed"](tmp_path)
    for version in versions:
        halve(manifest(place, version))
    damaged = {manifest(place, version).name: manifest(place, version).read_bytes() for version in versions}
    for command in remedies(_one(place, "unreadable")):
        follow(command)
    assert found(place) == []
    assert lance.dataset(str(place)).version == versions[0]
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.manifest")} == damaged


def test_manifests_of_two_naming_schemes_are_renamed(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    manifest(place, 2).rename(place / "_versions/2.manifest")
    [command] = remedies(_one(place, "unreadable"))
    follow(command)
    assert found(place) == []
    assert lance.dataset(str(place)).count_rows() == 60


def test_a_command_opens_what_pylance_opens_and_quotes_what_python_reads(tmp_path: Path) -> None:
    place = SHAPES["committed"](tmp_path)
    _lose_latest(tmp_path)
    stored = probe(str(place), {})
    for location, typed in (("s3a://lake/t.lance", '"s3://lake/t.lance"'), ('/a "b".lance', r'"/a \"b\".lance"')):
        finding = next(iter(check(record(location, stored), LIMITS, ["lost-version"])))
        assert remedies(finding) == [f"lance.dataset({typed}, version=2).restore()"]
