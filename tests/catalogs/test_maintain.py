"""`lancens maintain` on real datasets: what it does, what it leaves, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.indices import IndicesBuilder

from reconciler import storage
from reconciler.applier.report import Status
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InvalidTableStateError,
    PlanFileError,
    SelectionError,
    StalePlanError,
)
from reconciler.model.maintenance import IndexType, Maintain, Metric, Upkeep, WantedCompaction, WantedIndex
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.operations.apply import apply
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.operations.plan import plan
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan, WorkLimits
from reconciler.storage import segments
from tests.catalogs.conftest import Doomed
from tests.catalogs.maintained import (
    MAINTAIN,
    WIDTH,
    append,
    entered,
    files_of,
    fingerprint,
    found_by_index,
    managed,
    manifest_of,
    needy,
    recall,
    rows,
)
from tests.cli.running import lancens
from tests.soak import sampled
from tests.writing import load_manifest


def actions(found: Plan) -> list[Action]:
    return [change.action for change in found.changes]


def codes(found: Plan) -> list[ReasonCode]:
    return [one.code for one in found.blocked]


def test_jobs_are_planned_with_costs_and_carried_out_once(tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    before, kept = fingerprint(place), files_of(place)
    made = plan_maintenance(manifest)
    assert actions(made) == [Action.COMPACT, Action.BUILD_INDEX, Action.BUILD_INDEX]
    assert all(change.job is not None and change.job.reads and change.job.writes for change in made.changes)
    report = maintain(made, manifest, journal=tmp_path / "journal")
    assert [result.status for result in report.results] == [Status.DONE] * 3
    dataset = lance.dataset(place)
    assert len(dataset.get_fragments()) == 1
    assert {index.name: index.num_rows_indexed for index in dataset.describe_indices()} == {"id_idx": 620, "v_idx": 620}
    assert "ScalarIndexQuery" in dataset.scanner(filter="id = 5").explain_plan()
    assert fingerprint(place) == before
    assert kept <= files_of(place)
    assert plan_maintenance(manifest).is_empty
    assert plan(manifest).is_empty


def test_an_old_version_with_a_tag_is_in_the_way_of_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, dataset = managed(tmp_path, "a"), lance.dataset(str(tmp_path / "lake/a.lance"))
    dataset.tags.create("kept", 1)
    explain = partialmethod(lance.LanceDataset.explain_cleanup_old_versions, timedelta(microseconds=1))
    monkeypatch.setattr(lance.LanceDataset, "explain_cleanup_old_versions", explain)
    made = plan_maintenance(manifest)
    assert not made.blocked
    assert actions(made) == [Action.COMPACT, Action.BUILD_INDEX, Action.BUILD_INDEX]
    (note,) = (note for note in made.notes if note.code is NoteCode.CLEANABLE)
    monkeypatch.chdir(tmp_path)
    call = str(note.params["code"]).replace("versions(", "versions(timedelta(microseconds=1), ")
    eval(call, {"lance": lance, "timedelta": timedelta})  # noqa: S307 - a call that lancens printed
    assert [one["version"] for one in dataset.versions()] == [1, dataset.latest_version]


def test_a_dataset_whose_writer_recorded_no_sizes_is_compacted(tmp_path: Path) -> None:
    place = str(tmp_path / "lake/a.lance")
    fragments = [one for number in range(9) for one in lance.fragment.write_fragments(rows(20, 20 * number), place)]
    for file in (file for fragment in fragments for file in fragment.files):
        file.file_size_bytes = None
    lance.LanceDataset.commit(place, lance.LanceOperation.Overwrite(rows(1).schema, fragments))
    manifest, before = (
        load_manifest(tmp_path, manifest_of(["a"], {"compact": {"max_small_fragments": 5}})),
        fingerprint(place),
    )
    made = plan_maintenance(manifest)
    assert [change.job is not None and bool(change.job.reads) for change in made.changes] == [True]
    report = maintain(made, manifest, journal=tmp_path / "journal")
    assert [end.message for end in report.results] == [""]
    assert (len(lance.dataset(place).get_fragments()), fingerprint(place)) == (1, before)


def append_wide(place: str) -> None:
    """Append 1,000 rows of 1 kB."""
    wide = pa.table({"id": range(1000), "data": [os.urandom(1000) for _ in range(1000)]})
    lance.write_dataset(wide, place, mode="append")


def test_fragments_of_the_target_bytes_are_not_rewritten_by_every_run(tmp_path: Path) -> None:
    place = str(tmp_path / "lake/a.lance")
    for _ in range(20):
        append_wide(place)
    wanted = {"compact": {"max_small_fragments": 1, "target_bytes": 4_000_000}}
    manifest = load_manifest(tmp_path, manifest_of(["a"], wanted))
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").ok
    dataset = lance.dataset(place)
    assert 1 < len(dataset.get_fragments()) < 20
    assert plan_maintenance(manifest).is_empty
    dataset.delete("id = 7")
    assert plan_maintenance(manifest).is_empty
    dataset.delete("id < 500")
    assert actions(plan_maintenance(manifest)) == [Action.COMPACT]


@pytest.mark.parametrize("target_bytes", [6_000_000, 60_000_000])
def test_daily_appends_are_written_four_times_at_most(tmp_path: Path, target_bytes: int) -> None:
    place, wanted = str(tmp_path / "a.lance"), WantedCompaction(1, target_bytes=target_bytes)
    for _ in range(20):
        append_wide(place)
        storage.compact(place, {}, wanted, None)
        upkeep = storage.upkeep_of(place, {}, Maintain(wanted))
        assert isinstance(upkeep, Upkeep)
        assert upkeep.mergeable == 0
    dataset = lance.dataset(place)
    sizes = [file.file_size_bytes or 0 for one in dataset.get_fragments() for file in one.data_files()]
    assert (dataset.count_rows(), len(sizes) < 10) == (20_000, True)
    assert sum(path.stat().st_size for path in Path(place, "data").iterdir()) < 4 * sum(sizes)


@pytest.mark.parametrize(
    ("kind", "most", "sizes", "jobs"),
    [
        ("BTREE", 5, (400, 16, 16, 16, 16, 16), [Action.OPTIMIZE_INDEX, Action.COMPACT]),
        ("BTREE", 1, (400, 60, 60), [Action.COMPACT, Action.OPTIMIZE_INDEX, Action.COMPACT]),
        ("ZONEMAP", 5, (400, 16, 16, 16, 16, 16), [Action.OPTIMIZE_INDEX, Action.COMPACT, Action.OPTIMIZE_INDEX]),
    ],
)
def test_jobs_that_jobs_make_necessary_are_done_in_the_same_run(
    tmp_path: Path, kind: str, most: int, sizes: tuple[int, ...], jobs: list[Action]
) -> None:
    """An index that is brought up to date lets fragments be merged, and merging takes rows out of a zone map."""
    place = str(tmp_path / "lake/a.lance")
    lance.write_dataset(rows(sizes[0]), place)
    storage.build_index(place, {}, WantedIndex("id", IndexType(kind)))
    for number, size in enumerate(sizes[1:], 1):
        append(place, size, 1000 * number)
    asked = {"compact": {"max_small_fragments": most}, "optimize_indices": {"max_unindexed_rows": 50}}
    manifest, before = load_manifest(tmp_path, manifest_of(["a"], asked)), fingerprint(place)
    made = Plan.from_json(plan_maintenance(manifest).to_json())
    assert actions(made) == jobs
    assert all(change.job is not None and change.job.reads for change in made.changes)
    report = maintain(made, manifest, journal=tmp_path / "journal")
    assert [result.status for result in report.results] == [Status.DONE] * len(jobs)
    assert plan_maintenance(manifest).is_empty
    assert (len(lance.dataset(place).get_fragments()), fingerprint(place)) == (1, before)


def test_a_damaged_dataset_with_a_word_in_its_name_has_lost_no_race(tmp_path: Path) -> None:
    place = needy(tmp_path / "concurrent_users.lance")
    for path in (tmp_path / "concurrent_users.lance/data").iterdir():
        path.unlink()
    with pytest.raises(InvalidTableStateError):
        storage.build_index(place, {}, WantedIndex("id", IndexType.BTREE))


def test_an_index_finds_exactly_what_the_same_call_by_hand_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training begins at random vectors, so both indices are given the outcome of one training."""
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    hand = shutil.copytree(place, tmp_path / "hand.lance")
    builder = IndicesBuilder(lance.dataset(place), "v")
    partitions = builder.train_ivf(num_partitions=4, distance_type="cosine", sample_rate=64)
    codes = builder.train_pq(partitions, num_subvectors=8, sample_rate=2)
    trained = {"ivf_centroids": partitions.centroids, "pq_codebook": codes.codebook}
    create = partialmethod(lance.LanceDataset.create_index, **trained)
    monkeypatch.setattr(lance.LanceDataset, "create_index", create)
    lance.dataset(hand).create_index("v", "IVF_PQ", metric="cosine", num_partitions=4, num_sub_vectors=8)
    maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal")
    assert found_by_index(place) == found_by_index(str(hand))
    assert recall(place) == recall(str(hand))


def test_new_rows_are_added_to_an_index_beyond_the_limit(tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal")
    append(place, 50, 10_000)
    assert plan_maintenance(manifest).is_empty
    append(place, 1, 20_000)
    made = plan_maintenance(manifest)
    assert actions(made) == [Action.OPTIMIZE_INDEX, Action.OPTIMIZE_INDEX]
    assert [change.job.rows for change in made.changes if change.job] == [51, 51]
    assert maintain(made, manifest, journal=tmp_path / "journal").ok
    assert {index.num_rows_indexed for index in lance.dataset(place).describe_indices()} == {671}
    assert plan_maintenance(manifest).is_empty


@pytest.mark.parametrize(
    ("column", "asked", "code"),
    [
        ("id", {"type": "BITMAP"}, ReasonCode.OTHER_INDEX),
        ("v", {"type": "IVF_PQ", "metric": "l2"}, ReasonCode.OTHER_INDEX),
        ("v", {"type": "IVF_PQ", "metric": "cosine", "num_sub_vectors": 4}, ReasonCode.OTHER_INDEX),
        ("nowhere", {"type": "BTREE"}, ReasonCode.NOT_INDEXABLE),
        ("text", {"type": "IVF_PQ"}, ReasonCode.NOT_INDEXABLE),
    ],
)
def test_what_cannot_be_built_is_blocked_and_nothing_is_dropped(
    tmp_path: Path, column: str, asked: dict[str, object], code: ReasonCode
) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal")
    before = lance.dataset(place).version
    other = load_manifest(tmp_path, manifest_of(["a"], {"indices": {column: asked}}))
    made = plan_maintenance(other)
    assert codes(made) == [code]
    assert made.is_empty
    assert (code is not ReasonCode.OTHER_INDEX) or "replace=True" in made.blocked[0].remedy
    assert lance.dataset(place).version == before


@pytest.mark.parametrize(
    ("column", "asked"),
    [
        ("v", {"type": "BTREE"}),
        ("v", {"type": "BLOOMFILTER"}),
        ("id", {"type": "NGRAM"}),
        ("text", {"type": "LABEL_LIST"}),
        ("v", {"type": "IVF_PQ", "num_sub_vectors": 5}),
        ("v", {"type": "IVF_FLAT", "metric": "hamming"}),
        ("bits", {"type": "IVF_FLAT"}),
        ("bits", {"type": "IVF_PQ", "metric": "hamming"}),
        ("pair.nowhere", {"type": "BTREE"}),
        ("a`number", {"type": "BTREE"}),
        ("a`vector", {"type": "IVF_FLAT"}),
    ],
)
def test_an_index_that_a_column_cannot_have_is_blocked_beside_one_that_it_can(
    tmp_path: Path, column: str, asked: dict[str, object]
) -> None:
    table, place = rows(300), str(tmp_path / "lake/a.lance")
    pair = pa.StructArray.from_arrays([table["id"].combine_chunks()], names=["x"])
    more = {"a`number": table["id"], "a`vector": table["v"], "pair": pair}
    more |= {"bits": table["v"].cast(pa.list_(pa.uint8(), 16), safe=False)}
    lance.write_dataset(pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **more}), place)
    fitting = {"text": {"type": "INVERTED"}, "id": {"type": "BTREE"}, "v": {"type": "IVF_FLAT"}}
    fitting |= {"pair.x": {"type": "BTREE"}}
    indices = {**fitting, "bits": {"type": "IVF_HNSW_FLAT", "metric": "hamming"}, column: asked}
    manifest = load_manifest(tmp_path, manifest_of(["a"], {"indices": indices}))
    made = plan_maintenance(manifest)
    assert [(one.code, one.params["name"]) for one in made.blocked] == [(ReasonCode.NOT_INDEXABLE, column)]
    assert maintain(made, manifest, journal=tmp_path / "journal").ok
    assert {index.field_names[0] for index in lance.dataset(place).describe_indices()} == {*indices} - {column}
    assert plan_maintenance(manifest).is_empty


def test_an_index_whose_name_is_taken_is_blocked(tmp_path: Path) -> None:
    place = needy(tmp_path / "lake/a.lance")
    lance.dataset(place).create_scalar_index("text", "BITMAP", name="id_idx")
    manifest = load_manifest(tmp_path, manifest_of(["a"], {"indices": {"id": {"type": "BTREE"}}}))
    made = plan_maintenance(manifest)
    assert made.is_empty
    assert codes(made) == [ReasonCode.NOT_INDEXABLE]


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_FLAT"])
def test_an_index_of_vectors_is_not_trained_on_nulls(tmp_path: Path, kind: str) -> None:
    place, table = str(tmp_path / "lake/a.lance"), rows(400)
    vectors = table["v"].combine_chunks().take(pa.array([*range(20), *[None] * 380]))
    lance.write_dataset(table.set_column(2, "v", vectors), place)
    asked = {"indices": {"v": {"type": kind}}, "optimize_indices": {"max_unindexed_rows": 0}}
    manifest = load_manifest(tmp_path, manifest_of(["a"], asked))
    made = plan_maintenance(manifest)
    assert made.is_empty
    assert [note.code for note in made.notes] == [NoteCode.TOO_FEW_ROWS]
    append(place, 300, 1000)
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").ok
    assert [index.num_rows_indexed for index in lance.dataset(place).describe_indices()] == [700]
    assert plan_maintenance(manifest).is_empty


@pytest.mark.parametrize("executors", [None, segments.here])
def test_few_vectors_among_many_rows_are_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executors: storage.Executors | None
) -> None:
    monkeypatch.setattr(segments, "_SEGMENT_ROWS", 500)
    place, table = str(tmp_path / "lake/a.lance"), rows(1000)
    vectors = table["v"].combine_chunks().take(pa.array([*range(300), *[None] * 700]))
    lance.write_dataset(table.set_column(2, "v", vectors), place, max_rows_per_file=500)
    asked = {"indices": {"v": {"type": "IVF_FLAT", "num_partitions": 400}}}
    manifest = load_manifest(tmp_path, manifest_of(["a"], asked))
    report = maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal", executors=executors)
    assert [end.message for end in report.results] == [""]
    nearest = {"column": "v", "q": vectors[7].values, "k": 1, "nprobes": 400}
    assert lance.dataset(place).to_table(nearest=nearest)["id"].to_pylist() == [7]


@pytest.mark.parametrize("kind", [IndexType.IVF_FLAT, IndexType.IVF_SQ, IndexType.IVF_HNSW_SQ])
def test_an_index_finds_vectors_whose_range_differs_between_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: IndexType
) -> None:
    monkeypatch.setattr(segments, "_SEGMENT_ROWS", 500)
    place = str(tmp_path / "a.lance")
    for number, shift in enumerate((0, 5, 20)):
        table = rows(500, 500 * number)
        moved = pa.FixedSizeListArray.from_arrays(pc.add(table["v"].combine_chunks().values, float(shift)), WIDTH)
        lance.write_dataset(table.set_column(2, "v", moved.cast(table["v"].type)), place, mode="append")
    storage.build_index(place, {}, WantedIndex("v", kind, num_partitions=1), segments.here)
    for number in (250, 750, 1250):
        (sought,) = lance.dataset(place).to_table(filter=f"id = {number}")["v"]
        nearest = {"column": "v", "q": sought.values, "k": 20}
        assert number in lance.dataset(place).to_table(nearest=nearest)["id"].to_pylist()


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        *((IndexType.IVF_PQ, metric) for metric in (Metric.L2, Metric.COSINE, Metric.DOT)),
        (IndexType.IVF_HNSW_PQ, Metric.DOT),
    ],
)
def test_an_index_in_segments_finds_most_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: IndexType, metric: Metric
) -> None:
    monkeypatch.setattr(segments, "_SEGMENT_ROWS", 500)
    place = str(tmp_path / "a.lance")
    dataset = lance.write_dataset(rows(1500), place, max_rows_per_file=500)
    nearest = {"column": "v", "q": rows(1)["v"][0].values, "k": 20, "metric": metric.value}
    exact = dataset.to_table(nearest={**nearest, "use_index": False})["id"].to_pylist()
    storage.build_index(place, {}, WantedIndex("v", kind, metric, 1, num_sub_vectors=WIDTH), segments.here)
    found = lance.dataset(place).to_table(nearest=nearest)["id"].to_pylist()
    assert len({*exact} & {*found}) > 15


@pytest.mark.parametrize("executors", [None, segments.here])
def test_vectors_in_a_struct_are_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executors: storage.Executors | None
) -> None:
    monkeypatch.setattr(segments, "_SEGMENT_ROWS", 500)
    place, table = str(tmp_path / "lake/a.lance"), rows(1200)
    nested = pa.StructArray.from_arrays([table["v"].combine_chunks()], ["v"])
    lance.write_dataset(table.set_column(2, "s", nested), place, max_rows_per_file=500)
    asked = {"indices": {"s.v": {"type": "IVF_PQ", "num_partitions": 1}}}
    manifest = load_manifest(tmp_path, manifest_of(["a"], asked))
    report = maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal", executors=executors)
    assert [end.message for end in report.results] == [""]
    (index,) = lance.dataset(place).describe_indices()
    assert (index.field_names, index.num_rows_indexed) == (["s.v"], 1200)
    assert plan_maintenance(manifest).is_empty


def test_an_index_without_vectors_to_train_on_is_left_alone(tmp_path: Path) -> None:
    place, table = str(tmp_path / "lake/a.lance"), rows(400)
    vectors = table["v"].combine_chunks().take(pa.array([*range(20), *[None] * 380]))
    dataset = lance.write_dataset(table.set_column(2, "v", vectors), place)
    dataset.create_index("v", "IVF_PQ", num_partitions=1, num_sub_vectors=1)
    manifest = load_manifest(tmp_path, manifest_of(["a"], {"optimize_indices": {"max_unindexed_rows": 0}}))
    assert plan_maintenance(manifest).is_empty
    append(place, 300, 1000)
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").ok
    assert plan_maintenance(manifest).is_empty


def test_a_policy_asks_for_tables_without_a_block_that_nobody_manages(tmp_path: Path) -> None:
    for name in ("a", "b"):
        needy(tmp_path / f"lake/{name}.lance")
    policies = [{"match": "*", "maintain": {"compact": {}}}, {"match": "a", "maintain": MAINTAIN}]
    lake = {"impl": "dir", "config": {"root": "./lake"}, "policies": policies, "tables": {"b": {}}}
    manifest = load_manifest(tmp_path, {"lake": lake})
    made = plan_maintenance(manifest)
    assert {change.address: change.job.wanted for change in made.changes if change.job}.keys() == {"lake/a"}
    assert maintain(made, manifest, journal=tmp_path / "journal").ok
    assert plan_maintenance(manifest).is_empty


# ---- saved jobs


def test_saved_jobs_follow_a_dataset_that_moves_on(tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    saved = Plan.from_json(plan_maintenance(manifest).to_json())
    append(place, 10, 10_000)
    lance.dataset(place).delete("id = 3")
    before = fingerprint(place)
    assert maintain(saved, manifest, journal=tmp_path / "journal").ok
    assert fingerprint(place) == before
    again = maintain(saved, manifest, journal=tmp_path / "journal")
    assert {result.status for result in again.results} == {Status.ALREADY}


def _configured(place: str) -> None:
    lance.dataset(place).update_config({"lance.auto_cleanup.interval": "1000"})


def _another_index(place: str) -> None:
    lance.dataset(place).create_scalar_index("text", "BITMAP")


def _grown(place: str) -> None:
    append(place, 5_000, 10_000)


@pytest.mark.parametrize("changed", [_configured, _another_index, _grown])
def test_saved_jobs_are_bound_to_configuration_indices_and_work(tmp_path: Path, changed: Any) -> None:
    manifest = managed(tmp_path, "a", asked={"indices": {"id": {"type": "BTREE"}}})
    made, place = plan_maintenance(manifest), str(tmp_path / "lake/a.lance")
    changed(place)
    before = lance.dataset(place).version
    report = maintain(made, manifest, journal=tmp_path / "journal")
    assert [result.status for result in report.results] == [Status.FAILED]
    assert lance.dataset(place).version == before


def test_edited_jobs_and_jobs_of_another_manifest_are_refused(tmp_path: Path) -> None:
    manifest = managed(tmp_path, "a")
    made = plan_maintenance(manifest)
    job = made.changes[0].job
    assert job is not None
    other = job.model_copy(update={"wanted": manifest.catalogs["lake"].desired.tables[("a",)].maintain.__class__()})
    edited = made.model_copy(update={"changes": (made.changes[0].model_copy(update={"job": other}),)})
    with pytest.raises(PlanFileError):
        maintain(edited, manifest, journal=tmp_path / "journal")
    with pytest.raises(PlanFileError):
        apply(made, manifest, journal=tmp_path / "journal")
    with pytest.raises(PlanFileError):
        maintain(plan(manifest), manifest, journal=tmp_path / "journal")
    changed = load_manifest(tmp_path, manifest_of(["a"], {"compact": {}}))
    with pytest.raises(StalePlanError):
        maintain(made, changed, journal=tmp_path / "journal")


# ---- limits


def test_limits_leave_jobs_for_later_with_a_note(tmp_path: Path) -> None:
    manifest = managed(tmp_path, "a", "b")
    one_table = plan_maintenance(manifest, limits=WorkLimits(max_tables=1))
    assert {change.address for change in one_table.changes} == {"lake/a"}
    assert [note.code for note in one_table.notes] == [NoteCode.JOBS_LEFT]
    few_bytes = plan_maintenance(manifest, limits=WorkLimits(max_bytes=1))
    assert few_bytes.is_empty
    assert [note.code for note in few_bytes.notes] == [NoteCode.JOBS_TOO_LARGE]
    assert {change.address for change in plan_maintenance(manifest, select=["lake/b"]).changes} == {"lake/b"}
    assert {change.address for change in plan_maintenance(manifest, exclude=["lake/b"]).changes} == {"lake/a"}
    with pytest.raises(SelectionError):
        plan_maintenance(manifest, select=["lake/c"])
    with pytest.raises(SelectionError):
        plan_maintenance(manifest, exclude=["prod/b"])


def test_globs_of_jobs_are_checked_as_those_of_plans_are(tmp_path: Path) -> None:
    manifest = managed(tmp_path, "a", "b")
    some = plan_maintenance(manifest, select=["lake/a", "lake/b"], exclude=["lake/a"])
    assert {change.address for change in some.changes} == {"lake/b"}, "what is excluded was there to be selected"
    with pytest.raises(SelectionError, match="`lake/aa` matches no live table with `maintain`"):
        plan_maintenance(manifest, exclude=["lake/aa"])
    with pytest.raises(SelectionError, match="leaves nothing of what `--select` names"):
        plan_maintenance(manifest, select=["lake/a"], exclude=["lake/*"])


def test_globs_are_folded_where_the_catalog_folds_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    able = replace(MemoryBackend.known_capabilities, folds_case=True)
    monkeypatch.setattr(MemoryBackend, "known_capabilities", able)
    monkeypatch.chdir(tmp_path)
    needy(tmp_path / "x.lance")
    Path("lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: memory\n    config: {name: folded}\n"
        f"    namespaces: {{Ads: {{tables: {{Clicks: {{location: ./x.lance, maintain: {MAINTAIN}}}}}}}}}\n"
    )
    assert lancens(capsys, "apply", "--select", "lake/Ads/**", "--auto-approve").code == 0
    for limit, shown in (("--select", "ads/clicks"), ("--exclude", "No jobs. 0 datasets")):
        ran = lancens(capsys, "maintain", "--dry-run", limit, "lake/Ads/Clicks")
        assert (ran.code, shown in ran.out) == (0, True), ran.err
    released = lancens(capsys, "release", "lake/Ads/*", "--auto-approve")
    assert (released.code, "Applied 1 of 1 change" in released.out) == (0, True), released.err


@pytest.mark.parametrize(("given", "shown"), [("1KB", "1,000 B"), ("1KiB", "1 KiB"), ("1k", "1 KiB"), ("2 B", "2 B")])
def test_a_unit_of_bytes_is_decimal_unless_it_is_binary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str, shown: str
) -> None:
    managed(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    assert f" {shown}" in lancens(capsys, "maintain", "--dry-run", "--max-bytes", given).out


def test_as_many_datasets_are_maintained_at_once_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = managed(tmp_path, *"abcdefgh", asked={"compact": {"max_small_fragments": 5}})
    compact, at_once, most = storage.compact, threading.Semaphore(2), list[bool]()

    def counted(*given: Any) -> int:
        most.append(at_once.acquire(blocking=False))
        try:
            return compact(*given)
        finally:
            at_once.release()

    monkeypatch.setattr(storage, "compact", counted)
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal", parallelism=2).ok
    assert most == [True] * 8


def test_no_job_starts_after_the_time_is_up_or_after_a_stop(tmp_path: Path) -> None:
    manifest = managed(tmp_path, "a")
    made = plan_maintenance(manifest)
    late = maintain(made, manifest, journal=tmp_path / "journal", until=datetime.now(UTC) - timedelta(hours=1))
    assert (late.results, late.ok, late.interrupted) == ((), True, False)
    stop = threading.Event()
    report = maintain(made, manifest, journal=tmp_path / "journal", on_event=lambda _: stop.set(), stop=stop)
    assert [result.status for result in report.results] == [Status.DONE, Status.SKIPPED, Status.SKIPPED]


# ---- what must never happen


@pytest.mark.parametrize("interval", ["1", "13", "14"])
def test_no_commit_is_made_that_would_clean_up(tmp_path: Path, interval: str) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    older: dict[str, str | None] = {"lance.auto_cleanup.older_than": "0s", "lance.auto_cleanup.interval": interval}
    lance.dataset(place).update_config(older)
    kept = files_of(place)
    made = plan_maintenance(manifest)
    assert lance.dataset(place).version == 13
    assert (codes(made) == [ReasonCode.CLEANUP_DUE]) is (interval in ("1", "14"))
    maintain(made, manifest, journal=tmp_path / "journal")
    assert kept <= files_of(place)


def test_a_job_that_loses_every_race_says_which_command_to_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beaten(*_: object) -> int:
        raise ConcurrentModificationError("another writer")

    manifest = managed(tmp_path, "a", asked={"compact": {"max_small_fragments": 1}})
    made = plan_maintenance(manifest)
    monkeypatch.setattr(storage, "compact", beaten)
    (result,) = maintain(made, manifest, journal=tmp_path / "journal").results
    assert (result.status, result.message) == (Status.FAILED, "another writer; run maintain again")


def test_an_index_that_is_dropped_is_not_up_to_date(tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a", asked={"optimize_indices": {"max_unindexed_rows": 10}}), "lake/a.lance"
    dataset = lance.dataset(str(tmp_path / place))
    dataset.create_scalar_index("id", "BTREE")
    append(str(tmp_path / place), 100, 10_000)
    made = plan_maintenance(manifest)
    assert actions(made) == [Action.OPTIMIZE_INDEX]
    lance.dataset(str(tmp_path / place)).drop_index("id_idx")
    (result,) = maintain(made, manifest, journal=tmp_path / "journal").results
    assert (result.status, "id_idx" in result.message) == (Status.FAILED, True)


def test_an_index_whose_files_are_lost_is_not_called_up_to_date(tmp_path: Path) -> None:
    place = needy(tmp_path / "lake/a.lance", 1)
    storage.build_index(place, {}, WantedIndex("id", IndexType.BTREE))
    shutil.rmtree(Path(place) / "_indices")
    append(place, 100, 1000)
    manifest = load_manifest(tmp_path, manifest_of(["a"], {"optimize_indices": {"max_unindexed_rows": 50}}))
    (end,) = maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").results
    assert end.status is Status.FAILED
    assert "index id_idx, which lacks 100 rows" in end.message
    assert "replace=True" in end.message


def test_an_index_that_another_run_builds_meanwhile_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = storage.build_index

    def meanwhile(*given: Any) -> None:
        build(*given)
        build(*given)

    manifest = managed(tmp_path, "a", asked={"indices": {"id": {"type": "BTREE"}}})
    made = plan_maintenance(manifest)
    monkeypatch.setattr(storage, "build_index", meanwhile)
    (result,) = maintain(made, manifest, journal=tmp_path / "journal").results
    assert (result.status, result.message) == (Status.ALREADY, "")


def test_a_job_that_fails_stops_no_other_job_of_its_dataset(tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    made = plan_maintenance(manifest)
    lance.dataset(place).create_scalar_index("id", "BITMAP")
    report = maintain(made, manifest, journal=tmp_path / "journal")
    assert [result.status for result in report.results] == [Status.DONE, Status.FAILED, Status.DONE]


class _VendorError(BackendError):
    """An error with a constructor of its own, as a backend of another package may have."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")


def test_an_executor_may_raise_an_error_of_another_package(tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a"), tmp_path / "lake/a.lance"

    def fail(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
        (place / "data/left.lance").write_bytes(b"")
        raise _VendorError(507)

    report = maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal", executors=fail)
    message = report.results[0].message
    assert message == "status 507; new files that the latest version does not need: data/left.lance"


def test_a_dataset_that_vanishes_fails_its_own_job_alone(tmp_path: Path) -> None:
    managed(tmp_path, "a", "b")
    manifest = entered(tmp_path, ["a", "b"], MAINTAIN)
    made = plan_maintenance(manifest)
    shutil.rmtree(tmp_path / "lake/a.lance")
    report = maintain(made, manifest, journal=tmp_path / "journal")
    ends = {result.change.address: result.status for result in report.results if result.change.action is Action.COMPACT}
    assert ends == {"lake/n/a": Status.FAILED, "lake/n/b": Status.DONE}
    assert not (tmp_path / "lake/a.lance").exists()


def test_files_of_earlier_versions_are_not_called_new(tmp_path: Path) -> None:
    place = tmp_path / "lake/a.lance"
    needy(place)
    lance.dataset(str(place)).optimize.compact_files()
    hidden = (place / "_versions").rename(tmp_path / "hidden")
    files = storage.NewFiles(str(place), {})  # as if storage had not answered
    hidden.rename(place / "_versions")
    assert files.unneeded() == []


@pytest.mark.parametrize("largest", sampled(range(500, 60_500, 5_000), 4))
def test_a_disk_that_fills_up_commits_nothing_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doomed: Doomed, largest: int
) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    before = fingerprint(place)
    monkeypatch.chdir(tmp_path)
    code, printed = doomed("with_full_disk", "maintain", "--auto-approve", "--journal", "journal", largest=largest)
    assert code in (0, 1), printed
    assert "Traceback" not in printed
    assert fingerprint(place) == before
    assert recall(place) > 0
    assert lance.dataset(place).to_table(filter="id = 5").num_rows == 1
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").ok
    assert fingerprint(place) == before


def run_in(folder: Path, *given: str, **variables: str) -> subprocess.CompletedProcess[str]:
    called = [sys.executable, "-c", "from reconciler.cli import main; main()", "maintain", *given]
    environment = {**{name: text for name, text in os.environ.items() if name != "LANCE_LOG"}, **variables}
    return subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("given", "variables", "is_shown"), [((), {}, False), (("--debug",), {}, True), ((), {"LANCE_LOG": "warn"}, True)]
)
def test_the_log_of_pylance_is_shown_where_it_is_asked_for(
    tmp_path: Path, given: tuple[str, ...], variables: dict[str, str], is_shown: bool
) -> None:
    managed(tmp_path, "a", asked={"indices": {"v": {"type": "IVF_PQ", "num_partitions": 8}}})
    done = run_in(tmp_path, "--auto-approve", *given, **variables)
    assert (done.returncode, "WARN " in done.stderr) == (0, is_shown), done.stderr


def test_the_command_plans_saves_and_carries_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    managed(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    run = partial(lancens, capsys)
    assert run("maintain", "--dry-run", "--detailed-exitcode").code == 2
    assert run("maintain", "-o", "jobs.json").code == 0
    assert json.loads((tmp_path / "jobs.json").read_text())["summary"]["build"] == 2
    assert run("apply", "jobs.json").code == 1
    assert run("maintain", "-o", "lancens.yaml").code == 1
    assert run("maintain", "jobs.json").code == 1  # nobody is there to confirm
    assert run("maintain", "jobs.json", "--auto-approve", "--max-bytes", "0").code == 1
    done = run("maintain", "jobs.json", "--auto-approve", "--format", "json")
    assert (done.code, done.err.count("✓"), json.loads(done.out)["summary"]["build"]) == (0, 3, 2)
    assert run("maintain", "--dry-run", "--detailed-exitcode").code == 0
    assert run("maintain", "--max-bytes", "lots").code == 1
    for form in ("markdown", "html", "json"):
        assert run("maintain", "--dry-run", "--format", form).code == 0
