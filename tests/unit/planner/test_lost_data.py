"""Tables whose data was there and is gone: blocked, unless an empty dataset is asked for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler.manifest import Manifest
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredMove, Thresholds
from reconciler.model.errors import PlanFileError, SafetyError, SelectionError, StalePlanError
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import EVERYTHING, Scope
from reconciler.model.ownership import DATA
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.entries import Action, Change
from reconciler.planner.facts import PlanOptions
from reconciler.planner.plan import Plan, check_removals
from tests.plans import assert_blocked, noted, resealed
from tests.unit.planner.building import OWNER, USERS, at, desired, live, live_table, plan_of, steps, stored, table
from tests.writing import load_manifest

PLACE = "/data/t.lance"
GONE = {"t": stored(StorageKind.NOTHING, PLACE)}
SEEN = {"t": stored(StorageKind.DATASET, PLACE, USERS)}
RECREATE = PlanOptions(recreate_lost=EVERYTHING)


def entry(*, seen: bool = True) -> LiveTable:
    return live_table("t", owner=OWNER, extra={DATA: "true"} if seen else {})


def only(plan: Plan) -> Change:
    [change] = plan.changes
    return change


def is_marked(change: Change) -> bool:
    return change.after is not None and change.after.data


class TestMark:
    @pytest.mark.parametrize("facts", [SEEN, {"t": stored(StorageKind.NOTHING)}], ids=["registered", "created"])
    def test_it_goes_with_a_new_entry_whose_data_is_there(self, facts: dict[str, Any]) -> None:
        assert is_marked(only(plan_of(desired(table("t", schema=USERS)), live(), storage=facts)))

    def test_it_does_not_come_before_the_data(self) -> None:
        """An apply that is killed in between would look like a loss."""
        early = Capabilities(ignores_location=True)
        wanted, gone = desired(table("t", schema=USERS)), {"t": stored(StorageKind.NOTHING)}
        assert not is_marked(only(plan_of(wanted, live(), storage=gone, capabilities=early)))
        assert not is_marked(only(plan_of(wanted, live(entry(seen=False)), storage=GONE)))
        assert not is_marked(only(plan_of(desired(table("t")), live(), storage=gone)))

    def test_data_that_others_wrote_is_marked_with_the_next_change_and_is_no_reason_for_one(self) -> None:
        there = live(entry(seen=False))
        assert plan_of(desired(table("t", schema=USERS)), there, storage=SEEN).is_empty
        wanted = desired(table("t", {"tier": "gold"}, schema=USERS))
        assert is_marked(only(plan_of(wanted, there, storage=SEEN)))
        assert not is_marked(only(plan_of(desired(table("t", {"tier": "gold"})), there)))

    def test_it_stays_with_other_changes_but_not_with_another_location_unseen(self) -> None:
        there = live(entry())
        assert is_marked(only(plan_of(desired(table("t", {"tier": "gold"})), there)))
        elsewhere = desired(table("t", location="/data/other.lance", probe=False))
        assert not is_marked(only(plan_of(elsewhere, there)))


class TestLost:
    def test_it_is_blocked_with_both_ways_out(self) -> None:
        plan = plan_of(desired(table("t", schema=USERS)), live(entry()), storage=GONE)
        assert_blocked(plan, "lake/t", ReasonCode.DATA_LOST)
        assert plan.is_empty
        assert plan.blocked[0].params == {"location": PLACE, "name": "lake/t"}

    def test_a_move_does_not_hide_it(self) -> None:
        wanted = replace(desired(table("u", schema=USERS)), moves=(DesiredMove(("t",), ("u",), at(), True),))
        plan = plan_of(wanted, live(entry()), storage={"u": GONE["t"]})
        assert_blocked(plan, "lake/u", ReasonCode.DATA_LOST)

    def test_an_empty_dataset_counts_as_a_removal(self) -> None:
        plan = plan_of(desired(table("t", schema=USERS)), live(entry()), storage=GONE, options=RECREATE)
        change = only(plan)
        assert (change.action, change.code) == (Action.CREATE_TABLE, ReasonCode.DATA_RECREATED)
        assert change.removes
        assert is_marked(change)
        assert plan.catalogs[0].recreated_tables == 1
        with pytest.raises(SafetyError, match="lost data of 1 "):
            check_removals(plan.model_copy(update={"thresholds": Thresholds(max_removal_percent=0, min_tables=1)}))

    def test_the_glob_says_which(self) -> None:
        others = PlanOptions(recreate_lost=Scope(("a/**",)))
        plan = plan_of(desired(table("t", schema=USERS)), live(entry()), storage=GONE, options=others)
        assert_blocked(plan, "lake/t", ReasonCode.DATA_LOST)

    def test_without_a_mark_a_note_says_that_nobody_knows(self) -> None:
        wanted = desired(table("t", schema=USERS))
        plan = plan_of(wanted, live(entry(seen=False)), storage=GONE)
        assert steps(plan) == ["create-table t"]
        assert noted(plan, "where", "count") == [(NoteCode.DATA_UNRECORDED, "lake", 1)]
        new = {"t": stored(StorageKind.NOTHING)}
        assert plan_of(wanted, live(), storage=new).notes == ()
        vanishing = plan_of(wanted, live(), storage=new, capabilities=Capabilities(lists_root=True))
        assert noted(vanishing, "where", "count") == [(NoteCode.DATA_UNRECORDED, "lake", 1)]


# ---- on a directory --------------------------------------------------------------------------------------------------


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """A manifest whose one table has lost its data."""
    block = {"schema": [{"name": "id", "type": "int64"}]}
    blocks = {"impl": "dir", "config": {"root": "./lake"}, "namespaces": {"a": {"tables": {"t": block}}}}
    wanted = load_manifest(tmp_path, {"lake": blocks})
    assert reconciler.apply(reconciler.plan(wanted), wanted, journal=tmp_path / "journal").ok
    shutil.rmtree(place(tmp_path))
    return wanted


def place(folder: Path) -> Path:
    [found] = (folder / "lake").glob("*a$t")
    return found


def test_a_saved_plan_makes_an_empty_dataset_once(manifest: Manifest, tmp_path: Path) -> None:
    assert_blocked(reconciler.plan(manifest), "lake/a/t", ReasonCode.DATA_LOST)
    saved = Plan.from_json(reconciler.plan(manifest, recreate_lost=["lake/a/*"]).to_json())
    assert saved.options.recreate_lost == ("lake/a/*",)
    for _ in range(2):
        assert reconciler.apply(saved, manifest, journal=tmp_path / "journal").ok
    assert place(tmp_path).is_dir()
    assert reconciler.plan(manifest).is_empty
    shutil.rmtree(place(tmp_path))
    assert_blocked(reconciler.plan(manifest), "lake/a/t", ReasonCode.DATA_LOST)


def test_a_plan_without_the_option_or_without_the_mark_is_refused(manifest: Manifest, tmp_path: Path) -> None:
    document = json.loads(reconciler.plan(manifest, recreate_lost=["lake/**"]).to_json())
    without = {**document, "options": {}}
    unmarked = json.loads(json.dumps(document), object_hook=lambda node: {k: node[k] for k in node if k != "data"})
    for edited in (without, unmarked):
        with pytest.raises((PlanFileError, StalePlanError)):
            reconciler.apply(Plan.from_json(resealed(edited)), manifest, journal=tmp_path / "journal")
    assert not list((tmp_path / "lake").glob("*a$t"))


def test_a_glob_that_names_no_table_is_an_error(manifest: Manifest) -> None:
    with pytest.raises(SelectionError):
        reconciler.plan(manifest, recreate_lost=["lake/b/**"])
