"""Tags of data: which are set, moved and removed, and by whom they were set."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.applier.report import Status
from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredMove, DesiredTable, Evolve, Thresholds
from reconciler.model.errors import SafetyError, StalePlanError
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.model.tags import FoundTags
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan, check_removals
from tests.plans import assert_blocked, noted
from tests.unit.applier.world import LATEST, Crash, World, capable
from tests.unit.planner.building import OTHER, OWNER, USERS, at, desired, live, live_table, plan_of, stored, table

PLACE = "/data/t.lance"

targets = st.dictionaries(st.sampled_from("abc"), st.integers(1, LATEST).map(str))


def tagged(tags: Mapping[str, str], name: str = "t") -> DesiredTable:
    return replace(table(name, schema=USERS), tags=tags)


def entry(*recorded: str, owner: str | None = OWNER, name: str = "t") -> LiveTable:
    return live_table(name, owner=owner, extra={ownership.TAGS: ",".join(recorded)} if recorded else {})


def put(world: World, there: Mapping[str, str], *recorded: str, owner: str | None = OWNER) -> World:
    world.has(live(entry(*recorded, owner=owner)))
    world.storage.put(PLACE, USERS)
    world.storage.tags[PLACE] = dict(there)
    return world


@given(
    targets,
    st.sets(st.sampled_from("abc")),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, LATEST + 1).map(str)),
    st.booleans(),
    st.integers(0, 5),
    st.booleans(),
)
def test_tags_become_what_the_block_says_and_those_of_others_stay(
    there: dict[str, str],
    recorded: set[str],
    wanted: dict[str, str],
    take_over: bool,
    lives: int,
    replan: bool,
) -> None:
    others = [name for name, target in wanted.items() if name not in recorded and there.get(name, target) != target]
    with tempfile.TemporaryDirectory() as folder:
        world = put(World(Path(folder)), there, *sorted(recorded))
        with world.storage.installed():
            manifest = desired(tagged(wanted))
            plan = world.plan(manifest, take_over=take_over)
            if (others and not take_over) or str(LATEST + 1) in wanted.values():
                assert plan.changes == ()
                [blocked] = plan.blocked
                assert blocked.code in (ReasonCode.TAG_TAKEN, ReasonCode.TAG_WITHOUT_VERSION)
                return
            assert {change.action for change in plan.changes} <= {Action.TAG}
            world.ledger.crash_after = lives
            with suppress(Crash):
                world.apply(plan)
            world.revive()
            again = world.plan(manifest, take_over=take_over) if replan else Plan.from_json(plan.to_json())
            assert world.apply(again).ok
            assert world.plan(manifest).is_empty
        kept = {name: target for name, target in there.items() if name not in recorded}
        assert world.storage.tags[PLACE] == {**kept, **wanted}
        assert ownership.recorded_tags(world.table("t").properties) == wanted.keys()


def planned(world: World, tags: Mapping[str, str]) -> Plan:
    return world.plan(desired(tagged(tags)))


@pytest.mark.parametrize(
    ("now", "status"), [({"prod": "3"}, Status.FAILED), ({}, Status.FAILED), ({"prod": "2"}, Status.DONE)]
)
def test_a_tag_that_somebody_moved_since_the_plan_stays(world: World, now: dict[str, str], status: Status) -> None:
    plan = planned(put(world, {"prod": "1"}, "prod"), {"prod": "2", "new": "4"})
    world.storage.tags[PLACE] = now
    [result] = world.apply(plan).results
    assert result.status is status
    assert world.storage.tags[PLACE] == (now if status is Status.FAILED else {"prod": "2", "new": "4"})


def test_a_new_entry_of_tagged_data_adopts_and_sets_tags(world: World) -> None:
    world.storage.put(PLACE, USERS)
    world.storage.tags[PLACE] = {"prod": "2", "theirs": "1"}
    wanted = replace(tagged({"prod": "2", "new": "3"}), location=PLACE)
    plan = world.plan(desired(wanted))
    assert [change.action for change in plan.changes] == [Action.REGISTER_TABLE]
    assert world.apply(Plan.from_json(plan.to_json())).ok
    assert world.storage.tags[PLACE] == {"prod": "2", "theirs": "1", "new": "3"}
    assert world.plan(desired(wanted)).is_empty


def test_a_stale_plan_names_the_tags_that_the_entry_lists_now(world: World) -> None:
    plan = planned(put(world, {"prod": "1"}, "prod"), {"prod": "2"})
    world.alter("t", **{ownership.TAGS: "other,prod"})
    with pytest.raises(StalePlanError, match=r"lake/t +tags +.* prod, now other, prod"):
        world.apply(plan)


@pytest.mark.parametrize(
    ("schema", "missing"),
    [(USERS, ("branch: trial:1", "second: 2")), (None, ("branch: trial:1", "first: 1", "second: 2"))],
)
def test_a_new_dataset_has_no_version_but_the_first(
    world: World, schema: Schema | None, missing: tuple[str, ...]
) -> None:
    wanted = replace(tagged({"first": "1", "second": "2", "branch": "trial:1"}), schema=schema)
    plan = world.plan(desired(wanted))
    assert plan.changes == ()
    assert_blocked(plan, "lake/t", ReasonCode.TAG_WITHOUT_VERSION, names=missing)


@given(st.integers(0, 8), st.booleans(), st.booleans(), st.sampled_from(["", "other", "first"]))
def test_the_first_version_of_a_new_dataset_is_tagged(lives: int, replan: bool, enters: bool, recorded: str) -> None:
    """``enters``: there is no entry yet; else there is one whose data was never written."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        if not enters:
            world.has(live(entry(*filter(None, [recorded]))))
        with world.storage.installed():
            manifest = desired(tagged({"first": "1"}))
            plan = world.plan(manifest)
            assert [change.action for change in plan.changes] == [Action.CREATE_TABLE]
            world.ledger.crash_after = lives
            with suppress(Crash):
                world.apply(plan)
            world.revive()
            again = world.plan(manifest) if replan else Plan.from_json(plan.to_json())
            assert world.apply(again).ok
            assert world.plan(manifest).is_empty
        assert [*world.storage.tags.values()] == [{"first": "1"}]
        assert ownership.recorded_tags(world.table("t").properties) == {"first"}


def test_an_entry_that_nobody_manages_is_tagged_or_adoptable(world: World) -> None:
    put(world, {"prod": "2"}, owner=None)
    plan = planned(world, {"prod": "2"})
    assert plan.is_empty
    assert (NoteCode.ADOPTABLE,) in noted(plan)
    assert world.apply(planned(world, {"prod": "2", "new": "3"})).ok
    assert world.table("t").properties[ownership.TAGS] == "new,prod"


def test_an_entry_of_another_manifest_keeps_its_tags(world: World) -> None:
    assert_blocked(planned(put(world, {}, owner=OTHER), {"prod": "1"}), "lake/t", ReasonCode.FOREIGN_OWNER)


@pytest.mark.parametrize("able", [capable(alter_table=False, relocate_table=False), capable(table_markers=False)])
def test_a_catalog_that_cannot_record_tags_sets_none(
    make_world: Callable[[Capabilities], World], able: Capabilities
) -> None:
    world = make_world(able)
    put(world, {"same": "1"}, owner=None)
    assert_blocked(planned(world, {"prod": "1"}), "lake/t", ReasonCode.CANNOT_TAG)
    assert planned(world, {"same": "1"}).changes == ()


def test_tags_that_a_service_keeps_are_not_set_in_storage() -> None:
    facts = replace(stored(StorageKind.DATASET, PLACE, USERS), tags=FoundTags())
    plan = plan_of(
        desired(tagged({"prod": "1"})), live(replace(entry(), managed_versioning=True)), storage={"t": facts}
    )
    assert_blocked(plan, "lake/t", ReasonCode.SERVICE_KEEPS_TAGS)


def test_tags_that_leave_the_manifest_count_as_removals(world: World) -> None:
    names = [f"t{number}" for number in range(10)]
    world.has(live(*(entry("prod", name=name) for name in names)))
    for name in names:
        world.storage.put(f"/data/{name}.lance", USERS)
        world.storage.tags[f"/data/{name}.lance"] = {"prod": "1"}

    def without(number: int) -> Plan:
        tables = [tagged({} if at < number else {"prod": "1"}, name) for at, name in enumerate(names)]
        return world.plan(desired(*tables)).model_copy(update={"thresholds": Thresholds()})

    with pytest.raises(SafetyError, match="remove tags of 4 of 10 tables"):
        check_removals(without(4))
    plan = without(3)
    check_removals(plan)
    assert [change.removes for change in plan.changes] == [True] * 3
    assert world.apply(plan).ok
    assert [world.storage.tags[f"/data/{name}.lance"] for name in names] == [{}] * 3 + [{"prod": "1"}] * 7


def test_a_relocation_leaves_the_tags_of_the_data_that_it_finds(world: World) -> None:
    """The entry lists a tag of the data that it leaves, and somebody has set one of this name on the new data."""
    put(world, {"prod": "1"}, "prod")
    world.storage.put("/lake/new.lance", USERS)
    world.storage.tags["/lake/new.lance"] = {"prod": "5"}
    wanted = desired(replace(tagged({"mine": "2"}), location="/lake/new.lance"))
    plan = world.plan(wanted)
    assert not any(change.removes for change in plan.changes)
    assert world.apply(plan).ok
    assert world.storage.tags["/lake/new.lance"] == {"prod": "5", "mine": "2"}
    assert world.plan(wanted).is_empty


def test_a_tag_that_an_edited_plan_names_as_found_stays(world: World) -> None:
    plan = planned(put(world, {"theirs": "1"}), {"prod": "2"})
    [change] = plan.changes
    edited = change.model_copy(update={"tags": FoundTags({"theirs": "1"})})
    world.apply(plan.model_copy(update={"changes": (edited,)}))
    assert world.storage.tags[PLACE]["theirs"] == "1"


@pytest.mark.parametrize("lives", range(1, 4))
@pytest.mark.parametrize("replan", [True, False])
@pytest.mark.parametrize("able", [Capabilities(), Capabilities(rename_within=0)])
def test_a_move_that_is_cut_off_is_tagged(
    make_world: Callable[[Capabilities], World], able: Capabilities, lives: int, replan: bool
) -> None:
    world = make_world(able)
    put(world, {"theirs": "1", "old": "1"}, "old")
    moved = (DesiredMove(("t",), ("new",), at(), is_table=True),)
    wanted = replace(desired(replace(tagged({"prod": "2"}, "new"), location=PLACE)), moves=moved)
    plan = world.plan(wanted)
    world.ledger.crash_after = lives
    with suppress(Crash):
        world.apply(plan)
    world.revive()
    assert world.apply(world.plan(wanted) if replan else plan).ok
    assert world.storage.tags[PLACE] == {"theirs": "1", "prod": "2"}
    assert world.plan(wanted).is_empty


@pytest.mark.parametrize("lives", range(6))
@pytest.mark.parametrize(("is_there", "tags"), [(True, {"prod": "2"}), (False, {"first": "1"})])
def test_a_moved_entry_that_cannot_be_altered_is_tagged(
    make_world: Callable[[Capabilities], World], lives: int, is_there: bool, tags: dict[str, str]
) -> None:
    world = make_world(capable(alter_table=False, relocate_table=False))
    if is_there:
        put(world, {})
    else:
        world.has(live(entry()))
    moved = (DesiredMove(("t",), ("new",), at(), is_table=True),)
    wanted = replace(desired(replace(tagged(tags, "new"), location=PLACE)), moves=moved)
    world.ledger.crash_after = lives
    with suppress(Crash):
        world.apply(world.plan(wanted))
    world.revive()
    assert world.apply(world.plan(wanted)).ok
    again = world.plan(wanted)
    assert (again.changes, again.blocked) == ((), ())
    assert (list(world.state().tables), world.storage.tags[PLACE]) == ([("new",)], tags)


def test_a_table_that_was_registered_and_tagged_may_have_more_columns_since(world: World) -> None:
    world.storage.put(PLACE, USERS)
    plan = world.plan(desired(replace(tagged({"prod": "2"}), location=PLACE)))
    assert world.apply(plan).ok
    world.storage.put(PLACE, (*USERS, Column("email", "string")))
    assert [result.status for result in world.apply(plan).results] == [Status.ALREADY]


@pytest.mark.parametrize("listed", ["", "old"])
@pytest.mark.parametrize("schema", [USERS, (*USERS, Column("email", "string"))])
@pytest.mark.parametrize("lives", range(1, 4))
def test_an_entry_that_nobody_manages_is_adopted_after_an_interruption(
    world: World, listed: str, schema: Schema, lives: int
) -> None:
    put(world, {"old": "1"}, *filter(None, [listed]), owner=None)
    wanted = desired(replace(tagged({"prod": "2"}), schema=schema, evolve=Evolve.ADDITIVE))
    world.ledger.crash_after = lives
    with suppress(Crash):
        world.apply(world.plan(wanted))
    world.revive()
    assert world.apply(world.plan(wanted)).ok
    assert world.storage.tags[PLACE] == {"old": "1", "prod": "2"}
    assert world.table("t").properties[ownership.MANAGED_BY] == OWNER
    assert world.table("t").properties[ownership.TAGS] == "prod"
    assert world.plan(wanted).is_empty
