"""Saved jobs of `lancens maintain` are checked as saved changes are: against the manifest and the live entries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.applier.report import Status
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.manifest import Manifest
from reconciler.model.errors import ConcurrentModificationError, PlanFileError, StalePlanError
from reconciler.model.live import PropertyChanges
from reconciler.model.ownership import MANAGED_BY
from reconciler.model.reasons import ReasonCode
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.operations.plan import plan
from reconciler.planner.entries import Fingerprint
from reconciler.planner.plan import Plan, WorkLimits
from reconciler.storage import upkeep
from tests.plans import blocked, resealed
from tests.writing import load_manifest

COMPACT = {"compact": {"max_small_fragments": 1}}


def fragments(place: Path, number: int = 3, first: int = 0) -> Path:
    """Write a dataset of fragments with one row each."""
    for one in range(number):
        lance.write_dataset(pa.table({"id": [first + one]}), str(place), mode="append" if one else "create")
    return place


class Bench:
    """A catalog in memory with two tables that need compaction, and another table that nobody maintains."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tables = {name: {"maintain": COMPACT, "location": str(folder / name)} for name in ("t", "u")}
        catalog = {"impl": "memory", "config": {"name": str(folder)}, "tables": tables}
        self.manifest: Manifest = load_manifest(folder, {"lake": catalog})
        self.backend: Backend = registry.connect("memory", {"name": str(folder)})
        for name in ("t", "u", "other"):
            self.backend.insert_table((name,), str(fragments(folder / name)), {MANAGED_BY: "store/lake"})

    def saved(self, **options: Any) -> Plan:
        return Plan.from_json(plan_maintenance(self.manifest, **options).to_json())

    def versions(self) -> dict[str, int]:
        return {name: lance.dataset(str(self.folder / name)).version for name in ("t", "u", "other")}

    def run(self, plan: Plan) -> list[Status]:
        return [end.status for end in maintain(plan, self.manifest, journal=self.folder / "journal").results]

    def point_elsewhere(self) -> None:
        self.backend.remove_table(("u",))
        self.backend.insert_table(("u",), str(self.folder / "other"), {MANAGED_BY: "store/lake"})

    def take(self) -> None:
        self.backend.alter_table(("u",), PropertyChanges({MANAGED_BY: "another/lake"}))

    def deregister(self) -> None:
        self.backend.remove_table(("u",))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_saved_jobs_of_unchanged_entries_are_carried_out_and_again(bench: Bench) -> None:
    saved = bench.saved()
    assert bench.run(saved) == [Status.DONE, Status.DONE]
    assert bench.run(saved) == [Status.ALREADY, Status.ALREADY]


MOVES = (
    (Bench.point_elsewhere, "location"),
    (Bench.take, "managed-by"),
    (Bench.deregister, "existence"),
)


@pytest.mark.parametrize(("happens", "field"), MOVES)
def test_an_entry_that_moved_is_named_before_the_first_job(
    bench: Bench, happens: Callable[[Bench], None], field: str
) -> None:
    saved, before = bench.saved(), bench.versions()
    happens(bench)
    with pytest.raises(StalePlanError, match=rf"1 of 2 objects(?s:.*)lake/u +{field}"):
        bench.run(saved)
    assert bench.versions() == before


@pytest.mark.parametrize(("happens", "field"), MOVES)
def test_an_entry_that_moves_while_jobs_run_fails_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Bench], None], field: str
) -> None:
    compact, saved, before = storage.compact, bench.saved(), bench.versions()

    def first(*given: Any) -> int:
        happens(bench)
        return compact(*given)

    monkeypatch.setattr(storage, "compact", first)
    report = maintain(saved, bench.manifest, journal=bench.folder / "journal", parallelism=1)
    assert [end.status for end in report.results] == [Status.DONE, Status.FAILED]
    assert field in report.results[1].message
    assert {**bench.versions(), "t": before["t"]} == before


def test_an_entry_that_moves_while_its_job_loses_a_race_is_left_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beaten(*_: object) -> int:
        bench.take()
        raise ConcurrentModificationError("another writer")

    saved, before = bench.saved(select=["lake/u"]), bench.versions()
    monkeypatch.setattr(storage, "compact", beaten)
    assert bench.run(saved) == [Status.FAILED]
    assert bench.versions() == before


Document = dict[str, Any]


def _other_table(plan: Document) -> None:
    for one in (plan["changes"][0], plan["fingerprints"][0]):
        one["identifier"] = ["other"]


def _other_location(plan: Document) -> None:
    for view in ("before", "after"):
        plan["changes"][0][view]["location"] = plan["changes"][1][view]["location"]


FORGERIES: dict[str, Callable[[Document], object]] = {
    "name": lambda plan: plan["changes"][0].update(identifier=["other"]),
    "table": _other_table,
    "location": _other_location,
    "work": lambda plan: plan["changes"][0]["job"].update(reads=12_345),
    "block": lambda plan: plan["changes"][0]["job"]["wanted"]["compact"].update(max_small_fragments=0),
    "configuration": lambda plan: plan["changes"][0]["job"].update(config="0" * 16),
    "no state": lambda plan: plan["fingerprints"].pop(0),
    "more limits": lambda plan: plan["options"]["limits"].update(max_bytes=1),
}


@pytest.mark.parametrize("edit", FORGERIES.values(), ids=FORGERIES)
def test_forged_jobs_are_refused_as_edited(bench: Bench, edit: Callable[[Document], object]) -> None:
    document, before = json.loads(bench.saved(limits=WorkLimits(max_bytes=10**9)).to_json()), bench.versions()
    edit(document)
    with pytest.raises(PlanFileError, match="edited"):
        bench.run(Plan.from_json(resealed(document)))
    assert bench.versions() == before


def test_jobs_whose_recorded_states_are_forged_too_are_stale(bench: Bench) -> None:
    saved, before = bench.saved(select=["lake/t"]), bench.versions()
    [change], [state] = saved.changes, saved.fingerprints
    assert state.view is not None
    view = state.view.model_copy(update={"location": str(bench.folder / "other")})
    states = (Fingerprint.of("lake", "table", ("t",), view, (), upkeep=state.upkeep),)
    changes = (change.model_copy(update={"before": view, "after": view}),)
    with pytest.raises(StalePlanError, match="location"):
        bench.run(saved.model_copy(update={"changes": changes, "fingerprints": states}))
    assert bench.versions() == before


def test_a_limit_on_work_that_is_forged_everywhere_is_not_the_data_of_the_dataset(bench: Bench) -> None:
    saved, before = bench.saved(select=["lake/t"]), bench.versions()
    [change], [state] = saved.changes, saved.fingerprints
    assert change.job is not None
    assert change.job.reads is not None
    assert change.job.writes is not None
    assert state.upkeep is not None
    assert state.upkeep.mergeable_bytes is not None
    figures = replace(state.upkeep, mergeable_bytes=100 * state.upkeep.mergeable_bytes)
    job = change.job.model_copy(update={"reads": 100 * change.job.reads, "writes": 100 * change.job.writes})
    forged = {
        "changes": (change.model_copy(update={"job": job}),),
        "fingerprints": (state.model_copy(update={"upkeep": figures}),),
    }
    assert bench.run(saved.model_copy(update=forged)) == [Status.FAILED]
    assert bench.versions() == before


def test_jobs_that_limits_left_out_are_no_edit(bench: Bench) -> None:
    saved = bench.saved(limits=WorkLimits(max_tables=1))
    assert bench.run(saved) == [Status.DONE]


def test_jobs_of_a_damaged_dataset_follow_a_copy_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        for table in ("t", "u"):
            fragments(tmp_path / name / "lake" / f"{table}.lance")
    tables = {name: {"maintain": COMPACT} for name in ("t", "u")}
    catalogs = {"lake": {"impl": "dir", "config": {"root": "./lake"}, "tables": tables}}
    first, second = (load_manifest(tmp_path / name, catalogs) for name in ("first", "second"))

    def damage(dataset: Any, location: str, _: object) -> str | None:
        return f"{location}/data/1.lance is empty" if location.endswith("lake/t.lance") else None

    monkeypatch.setattr(upkeep, "damage_of", damage)
    made = plan_maintenance(first)
    assert [one.address for one in made.blocked] == ["lake/t"]
    assert str(tmp_path) not in json.dumps(json.loads(made.to_json())["fingerprints"])
    saved = Plan.from_json(made.to_json())
    report = maintain(saved, second, journal=tmp_path / "journal")
    assert [end.change.address for end in report.results] == ["lake/u"]


def test_a_table_of_another_manifest_is_blocked_and_stays_so(bench: Bench) -> None:
    bench.take()
    saved, before = bench.saved(), bench.versions()
    assert blocked(saved) == [("lake/u", ReasonCode.FOREIGN_OWNER)]
    assert bench.run(saved) == [Status.DONE]
    assert bench.versions()["u"] == before["u"]


@pytest.mark.parametrize("copies", [False, True], ids=["blocked", "copied"])
def test_places_elsewhere_are_shown_as_the_manifest_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOT", str(tmp_path / "lake"))
    fragments(tmp_path / "lake/origin.lance")
    place = tmp_path / "lake/t.lance"
    lance.dataset(tmp_path / "lake/origin.lance").shallow_clone(str(place), 3)
    block = {"maintain": {**COMPACT, "copy_elsewhere": copies}, "tags": {"first": 3}}
    manifest = load_manifest(
        tmp_path, {"lake": {"impl": "dir", "config": {"root": "${env:ROOT}"}, "tables": {"t": block}}}
    )
    made = plan_maintenance(manifest)
    saved = [each.to_json() for each in (made, plan(manifest))]
    assert [("${env:ROOT}/origin.lance" in text, str(tmp_path) in text) for text in saved] == [(True, False)] * 2
    report = maintain(Plan.from_json(saved[0]), manifest, journal=tmp_path / "journal")
    assert (len(report.results), len(made.blocked)) == ((1, 0) if copies else (0, 1))


def test_a_blocked_dataset_stops_no_job_of_another(bench: Bench) -> None:
    shutil.rmtree(bench.folder / "u")
    saved = bench.saved()
    assert len(saved.blocked) == 1
    assert bench.run(saved) == [Status.DONE]
