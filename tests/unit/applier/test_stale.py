"""What changed since a plan was made is called stale, not edited, and is named."""

from __future__ import annotations

import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.applier.report import ChangeResult, Status
from reconciler.backends import registry
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import StalePlanError
from reconciler.model.names import Identifier
from reconciler.model.ownership import MANAGED_BY
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.writing import load_manifest


def _elsewhere(_: MemoryBackend, identifier: Identifier) -> str:
    return f"/elsewhere/{identifier[-1]}"


@pytest.mark.parametrize("block", [{}, {"schema": [{"name": "id", "type": "int64"}]}], ids=["declared", "created"])
def test_a_default_location_that_changed_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: dict[str, object]
) -> None:
    monkeypatch.setenv("ROOT", str(tmp_path))
    catalog = {"impl": "memory", "config": {"name": tmp_path.name, "root": "${env:ROOT}"}, "tables": {"t": block}}
    manifest = load_manifest(tmp_path, {"lake": catalog})
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    monkeypatch.setattr(MemoryBackend, "default_location", _elsewhere)
    planned = re.escape("planned on ${env:ROOT}/t.lance, now /elsewhere/t")
    with pytest.raises(StalePlanError, match=f"default location +{planned}"):
        reconciler.apply(saved, manifest, journal=tmp_path / "journal")
    assert not (tmp_path / "t.lance").exists()


def test_a_location_that_the_catalog_refuses_by_now_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = {"location": str(tmp_path / "t.lance")}
    catalog = {"impl": "memory", "config": {"name": str(tmp_path)}, "tables": {"t": block}}
    manifest = load_manifest(tmp_path, {"lake": catalog})
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    monkeypatch.setattr(MemoryBackend, "location_problem", lambda *_: "taped")
    with pytest.raises(StalePlanError, match=r"lake/t +location +.*t\.lance .*: taped"):
        reconciler.apply(saved, manifest, journal=tmp_path / "journal")


# ---- data that another dataset has replaced


def write(place: Path, versions: int = 2) -> None:
    """Write a dataset of one row in each version, in place of what is there."""
    shutil.rmtree(place, ignore_errors=True)
    for one in range(versions):
        lance.write_dataset(pa.table({"id": [one]}), str(place), mode="append" if one else "create")


def append(place: Path) -> None:
    lance.write_dataset(pa.table({"id": [9]}), str(place), mode="append")


COLUMNS = [{"name": "id", "type": "int64"}]
NEEDS_DATA: dict[Action, dict[str, Any]] = {
    Action.REGISTER_TABLE: {},
    Action.TAG: {"tags": {"prod": 2}},
    Action.ALTER_TABLE: {"schema": [*COLUMNS, {"name": "more", "type": "string"}], "evolve": "additive"},
    Action.RELOCATE_TABLE: {},
    Action.COMPACT: {"maintain": {"compact": {"max_small_fragments": 1}}},
}


class Case:
    """A saved plan of one change that depends on the data of a table."""

    def __init__(self, folder: Path, action: Action) -> None:
        self.folder, self.place = folder, folder / "t"
        write(self.place)
        block = {"location": str(self.place), **NEEDS_DATA[action]}
        config = {"name": str(folder), "root": str(folder)}
        self.manifest = load_manifest(folder, {"lake": {"impl": "memory", "config": config, "tables": {"t": block}}})
        self.backend = registry.connect("memory", config)
        if action is not Action.REGISTER_TABLE:
            at = folder / "old" if action is Action.RELOCATE_TABLE else self.place
            self.backend.insert_table(("t",), str(at), {MANAGED_BY: "store/lake"})
        self.is_job = action is Action.COMPACT
        self.saved = Plan.from_json(self.plan().to_json())
        assert [change.action for change in self.saved.changes] == [action]

    def plan(self) -> Plan:
        return plan_maintenance(self.manifest) if self.is_job else reconciler.plan(self.manifest)

    def apply(self, plan: Plan | None = None) -> ChangeResult:
        run = maintain if self.is_job else reconciler.apply
        [result] = run(plan or self.saved, self.manifest, journal=self.folder / "journal").results
        return result

    def state(self) -> object:
        tags = {name: tag["version"] for name, tag in lance.dataset(str(self.place)).tags.list().items()}
        dataset = lance.dataset(str(self.place))
        return self.backend.scan(), dataset.schema, tags, dataset.latest_version


@pytest.fixture(params=NEEDS_DATA, ids=str)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(tmp_path, request.param)


@pytest.mark.parametrize("versions", [2, 3], ids=["as many versions", "more versions"])
def test_data_that_another_dataset_replaced_is_stale_and_left_alone(case: Case, versions: int) -> None:
    write(case.place, versions)
    before, result = case.state(), case.apply()
    assert (result.status, result.message.partition(" ")[0]) == (Status.FAILED, "stale:")
    assert "version 2 of " in result.message
    assert case.state() == before


def test_data_of_fewer_versions_is_stale(tmp_path: Path) -> None:
    case = Case(tmp_path, Action.REGISTER_TABLE)
    write(case.place, 1)
    assert case.apply().status is Status.FAILED


def test_data_that_writers_appended_to_is_the_same(case: Case) -> None:
    append(case.place)
    if not case.is_job:
        assert case.plan().digest() == case.saved.digest()
    assert case.apply().status is Status.DONE


def test_data_whose_planned_version_was_cleaned_up_is_the_same(case: Case) -> None:
    append(case.place)
    lance.dataset(str(case.place)).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    is_tag = case.saved.changes[0].action is Action.TAG  # whose version is gone
    assert case.apply().status is (Status.FAILED if is_tag else Status.DONE)


def test_a_change_of_replaced_data_is_planned_again_and_done(case: Case) -> None:
    write(case.place)
    assert case.apply(case.plan()).status is Status.DONE
