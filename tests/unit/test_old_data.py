"""Datasets as old pylance releases left them (``tests/old_data/generate.py``): no row is lost, no figure made up."""

from __future__ import annotations

import json
import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler import storage
from reconciler.applier.report import Status
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.auditor.rules import RULES
from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.columns import Column
from reconciler.model.errors import InvalidTableStateError, UnsupportedOperationError
from reconciler.model.maintenance import IndexType, WantedCompaction, WantedIndex
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.operations.apply import apply
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.operations.plan import describe_removed, plan
from reconciler.planner.plan import WorkLimits
from reconciler.report.html import render_html
from reconciler.storage import commits
from reconciler.storage.reading import repair_of
from reconciler.storage.rewrites import expect_same_rows
from tests.catalogs.maintained import manifest_of
from tests.writing import load_manifest

OLD_DATA = Path(__file__).parents[1] / "old_data"
NAMES = sorted(path.stem for path in OLD_DATA.glob("*.lance"))
DAMAGED = {"duplicate_fields", "miscounted"}
COMPACT = {"compact": {"max_small_fragments": 1}}


def old_dataset(folder: Path, name: str) -> Path:
    """Return a copy of an old dataset."""
    place = folder / f"{name}.lance"
    shutil.copytree(OLD_DATA / place.name, place)
    return place


def releases(lake: Path) -> dict[str, Path]:
    """Unpack what each release wrote, and return the place of each by the name of its table."""
    places = {}
    for packed in sorted(OLD_DATA.glob("release-*.tar.xz")):
        name = packed.name.removesuffix(".tar.xz").replace(".", "_")
        with tarfile.open(packed) as content:
            content.extractall(lake.with_name("packed") / name, filter="data")
        places[name] = lake / f"{name}.lance"
        shutil.move(lake.with_name("packed") / name / "release.lance", places[name])
    return places


def values(place: Path) -> dict[str, list[Any]]:
    content: dict[str, list[Any]] = lance.dataset(str(place)).to_table().sort_by("id").to_pydict()
    return content


def test_maintain_keeps_every_row_of_old_datasets_or_is_blocked(tmp_path: Path) -> None:
    places = {name: old_dataset(tmp_path / "lake", name) for name in NAMES}
    before = {name: values(place) for name, place in places.items()}
    manifest = load_manifest(tmp_path, manifest_of(NAMES, {**COMPACT, "indices": {"id": {"type": "BTREE"}}}))
    plan = plan_maintenance(manifest)
    assert {one.identifier[-1]: one.code for one in plan.blocked} == dict.fromkeys(DAMAGED, ReasonCode.DATA_DAMAGED)
    report = maintain(plan, manifest, journal=tmp_path / "journal")
    assert {result.status for result in report.results} == {Status.DONE}, report.results
    assert {change.identifier[-1] for change in plan.changes} == {*NAMES} - DAMAGED
    assert {name: values(place) for name, place in places.items()} == before


OLDEST = "release-0_7_5"
"""A dataset with an index, whose rows were never counted; any commit counts them."""


def test_every_stage_works_on_the_datasets_of_old_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()
    places = releases(tmp_path / "lake")
    before = {name: values(place) for name, place in places.items()}
    maintained = {"maintain": {**COMPACT, "optimize_indices": {"max_unindexed_rows": 0}}, "properties": {"a": "b"}}
    lake = {"impl": "dir", "config": {"root": "./lake"}, "tables": dict.fromkeys(places, maintained)}
    manifest = load_manifest(tmp_path, {"lake": lake})
    assert apply(plan(manifest), manifest, journal=tmp_path / "journal").ok
    document = audit(None, manifest, AuditOptions(rules=[*{*RULES} - {"unmanaged", "stale"}]))
    assert ([one.rule for one in document.findings], document.totals.rows) == ([], 297 * len(places))

    made = plan_maintenance(manifest)
    blocked = {(one.identifier[-1], one.code) for one in made.blocked}
    ivf_is_old = {name for name in places if int(name.split("_")[1]) < 30 and name.startswith("release-0_")}
    unreadable = {(OLDEST, ReasonCode.STORAGE_UNREADABLE)}
    assert blocked == unreadable | {(name, ReasonCode.OLD_INDEX) for name in ivf_is_old - {OLDEST}}
    report = maintain(made, manifest, journal=tmp_path / "journal")
    assert [end.message for end in report.results if end.message] == []
    assert {change.identifier[-1] for change in plan_maintenance(manifest).changes} == set()
    lance.dataset(str(places[OLDEST])).update_config({"any": "commit"})
    for one in plan_maintenance(manifest).blocked:
        eval(str(one.params["code"]), {"lance": lance})  # noqa: S307 - a call that lancens printed
    again = plan_maintenance(manifest)
    assert not again.blocked
    assert maintain(again, manifest, journal=tmp_path / "journal").ok
    assert plan_maintenance(manifest).is_empty
    assert {name: values(place) for name, place in places.items()} == before


def test_nothing_is_committed_with_which_pylance_would_repair_the_dataset(tmp_path: Path) -> None:
    place = str(old_dataset(tmp_path, "duplicate_fields"))
    before = values(Path(place))
    for commit in (
        lambda: storage.compact(place, {}, WantedCompaction(1), None),
        lambda: storage.build_index(place, {}, WantedIndex("id", IndexType.BTREE)),
        lambda: storage.annotate_columns(place, {"id": {"a": "b"}}, {}),
        lambda: storage.compute_columns(place, {"new": "id + 1"}, {}),
    ):
        with pytest.raises(InvalidTableStateError, match="fields of fragment 0 share an id"):
            commit()
    assert (lance.dataset(place).version, values(Path(place))) == (6, before)


def test_a_compaction_that_would_empty_columns_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(old_dataset(tmp_path, "duplicate_fields"))
    before = values(Path(place))
    monkeypatch.setattr(commits, "repair_of", lambda _: None)
    with pytest.raises(InvalidTableStateError):
        storage.compact(place, {}, WantedCompaction(1), None)
    assert (lance.dataset(place).version, values(Path(place))) == (6, before)


@pytest.mark.parametrize(
    ("rewritten", "difference"), [([1, 2, None], "4 rows would become 3"), ([1, 2, 3, None], r"nulls .* a \(0 to 1\)")]
)
def test_a_compaction_that_changes_rows_is_refused(tmp_path: Path, rewritten: list[int], difference: str) -> None:
    place = str(tmp_path / "t.lance")
    for mode in ("create", "append"):
        lance.write_dataset(pa.table({"a": [1, 2]}), place, mode=mode)
    new = lance.fragment.write_fragments(pa.table({"a": rewritten}), place)
    dataset = lance.dataset(place)
    old = [fragment.metadata for fragment in dataset.get_fragments()]
    named = {"original_fragments": [one.to_json() for one in old], "new_fragments": [one.to_json() for one in new]}
    result = SimpleNamespace(json=lambda: json.dumps(named))
    with pytest.raises(InvalidTableStateError, match=difference):
        expect_same_rows(place, {}, dataset, result)


def test_a_compaction_compares_columns_of_every_shape(tmp_path: Path) -> None:
    kinds = {
        "struct": pa.array([{"x": 1, "y": [1, None]}, None, {"x": None, "y": None}]),
        "list": pa.array([[{"q": 1}, None], None, []]),
        "vector": pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32(), 2)),
        "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
        "map": pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.string(), pa.int32())),
        "blob": lance.blob_array([b"x", None, b"y" * 70_000]),
    }
    place = str(tmp_path / "ä %20.lance")
    for mode in ("create", "append"):
        lance.write_dataset(pa.table(kinds), place, mode=mode, data_storage_version="2.2")
    clone = str(tmp_path / "clone.lance")
    lance.dataset(place).shallow_clone(clone, 2)
    for one in (clone, place):
        files = {path: path.read_bytes() for path in Path(place).glob("data/*.lance")}
        admitted = StorageOptions({}, Admission((str(tmp_path),)))
        assert storage.compact(one, admitted, WantedCompaction(1), None) == 2
        assert {path: path.read_bytes() for path in files} == files
        assert lance.dataset(one).count_rows() == 6


def test_unknown_bytes_are_not_0_and_are_over_every_limit(tmp_path: Path) -> None:
    old_dataset(tmp_path / "lake", "unsized")
    manifest = load_manifest(tmp_path, manifest_of(["unsized"], COMPACT))
    (change,) = plan_maintenance(manifest).changes
    assert change.job is not None
    assert (change.job.reads, change.job.writes, change.job.most_bytes) == (None, None, None)
    limited = plan_maintenance(manifest, limits=WorkLimits(max_bytes=1 << 60))
    assert ([*limited.changes], [note.code for note in limited.notes]) == ([], [NoteCode.JOBS_TOO_LARGE])


def test_rows_beside_a_removal_are_counted(tmp_path: Path) -> None:
    counted = {}
    for name in ("deletions", "miscounted", "uncounted"):
        place = old_dataset(tmp_path / "lake", name)
        counted[name] = f"{lance.dataset(str(place)).count_rows()} rows, last written"
    lake = {"impl": "dir", "config": {"root": "./lake"}, "tables": {name: {"absent": True} for name in counted}}
    manifest = load_manifest(tmp_path, {"lake": lake})
    shown = describe_removed(plan(manifest), manifest)
    assert {key[-1][-1]: text.partition(" 20")[0] for key, text in shown.items()} == counted


def test_an_audit_says_which_figures_are_unknown(tmp_path: Path) -> None:
    for name in NAMES:
        old_dataset(tmp_path / "lake", name)
    lost = next((old_dataset(tmp_path / "lost", "uncounted") / "data").iterdir())
    lost.unlink()
    shutil.move(lost.parents[1], tmp_path / "lake/lost.lance")
    manifest = load_manifest(tmp_path, {"lake": {"impl": "dir", "config": {"root": "./lake"}}})
    document = audit(None, manifest, AuditOptions(datetime.now(UTC)))
    rows = {table.name: table.rows for table in document.tables}
    assert rows == {
        "deletions": 43,
        "duplicate_fields": 5,
        "miscounted": 44,
        "uncounted": 300,
        "unsized": 300,
        "lost": None,
    }
    assert {table.bytes for table in document.tables} == {None}
    assert (document.totals.rows, document.totals.rows_unknown, document.totals.bytes_unknown) == (692, 1, 6)
    page = render_html(document)
    assert "692 + 1 unknown" in page


def test_statistics_of_old_datasets_are_served(tmp_path: Path) -> None:
    from lance_namespace import GetTableStatsRequest

    places = {name: old_dataset(tmp_path, name) for name in NAMES}
    namespace = reconciler.connect("dir", {"root": str(tmp_path)})
    for name, place in places.items():
        stats = namespace.get_table_stats(GetTableStatsRequest(id=[name]))
        assert stats.num_rows == lance.dataset(str(place)).count_rows()
        assert stats.total_bytes == sum(path.stat().st_size for path in (place / "data").iterdir())


@pytest.mark.parametrize(
    ("version", "kind", "name"),
    [("0.1", "int32", None), ("2.0", "struct<a: int32>", None), ("2.1", "map<string, int32>", None)]
    + [(None, "int32", name) for name in ("unsized", "duplicate_fields")],
)
def test_a_plan_blocks_the_columns_that_apply_would_refuse(
    tmp_path: Path, version: Literal["0.1", "2.0", "2.1"] | None, kind: str, name: str | None
) -> None:
    place = tmp_path / "lake/t.lance"
    if name is None:
        lance.write_dataset(pa.table({"id": [1, 2]}), str(place), data_storage_version=version)
    else:
        shutil.copytree(OLD_DATA / f"{name}.lance", place)
    there = [{"name": field.name, "type": str(field.type)} for field in lance.dataset(str(place)).schema]
    block = {"schema": [*there, {"name": "new", "type": kind}], "evolve": "additive"}
    lake = {"impl": "dir", "config": {"root": "./lake"}, "tables": {"t": block}}
    planned = plan(load_manifest(tmp_path, {"lake": lake}))
    assert ([one.code for one in planned.blocked], planned.changes) == ([ReasonCode.CANNOT_COMMIT], ())
    with pytest.raises((UnsupportedOperationError, InvalidTableStateError)):
        storage.add_columns(str(place), [Column("new", kind)], {})


@pytest.mark.parametrize(("said", "formats"), [("0.1", [(0, 2), (0, 3)]), ("0.1", [(0, 3)]), ("2.0", [(0, 2), (2, 0)])])
def test_no_commit_is_made_to_files_of_formats_that_pylance_cannot_mix(
    said: str, formats: list[tuple[int, int]]
) -> None:
    """pylance 14 makes no such dataset; 0.16 did."""
    files = [SimpleNamespace(file_major_version=one, file_minor_version=other, fields=[0]) for one, other in formats]
    fragments = [SimpleNamespace(fragment_id=0, data_files=lambda file=file: [file]) for file in files]
    dataset = SimpleNamespace(get_fragments=lambda: fragments, data_storage_version=said)
    assert "format 0.1" in (repair_of(dataset) or "")
