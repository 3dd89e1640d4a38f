from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.applier.report import ChangeResult, Status
from reconciler.backends.memory import MemoryBackend
from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, Evolve
from reconciler.model.errors import PermissionDeniedError, ThrottlingError
from reconciler.model.live import Storage, StorageKind
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.unit.applier.world import Crash, World, capable
from tests.unit.planner.building import OWNER, USERS, desired, live, live_table, marks, table

PLACE = "/data/t.lance"
WIDER = (*USERS, Column("email", "string"))

MakeWorld = Callable[[Capabilities], World]


def planned(world: World, *blocks: DesiredTable) -> Plan:
    return world.plan(desired(*blocks))


def only_result(world: World, plan: Plan) -> ChangeResult:
    """Carry out a plan of one change, past the check of the whole."""
    [result] = world.apply(plan, check=False).results
    return result


# ---- new tables


def test_a_created_table_has_its_dataset_before_its_entry(world: World) -> None:
    result = only_result(world, planned(world, table("t", {"tier": "gold"}, schema=USERS)))
    assert result.status is Status.DONE
    assert world.writes == [f"create_empty {PLACE}", "insert_table t"]
    assert world.storage.datasets == {PLACE: USERS}
    assert world.table("t").properties == {**marks({"tier": "gold"}, OWNER), ownership.DATA: "true"}


def test_a_dataset_that_an_interrupted_run_wrote_is_registered_and_not_written_again(world: World) -> None:
    plan = planned(world, table("t", schema=USERS))
    world.storage.datasets[PLACE] = USERS
    assert only_result(world, plan).status is Status.DONE
    assert world.writes == ["insert_table t"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Storage(StorageKind.DATASET, USERS), "/data/t.lance planned on nothing, now a Lance dataset"),
        (
            Storage(StorageKind.NOT_LANCE),
            "/data/t.lance planned on nothing, now files",
        ),
        (Storage(StorageKind.DENIED, detail="no s3:GetObject"), "now not accessible (no s3:GetObject)"),
    ],
)
def test_a_table_is_not_created_where_something_came_since(world: World, found: Storage, said: str) -> None:
    plan = planned(world, table("t", schema=USERS))
    world.storage.other[PLACE] = found
    result = only_result(world, plan)
    assert result.status is Status.FAILED
    assert said in result.message
    assert world.writes == []


def test_a_declared_table_gets_the_dataset_its_block_now_describes(world: World) -> None:
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER)))
    result = only_result(world, planned(world, table("t", {"tier": "silver"}, schema=USERS)))
    assert result.status is Status.DONE
    assert world.writes == ["alter_table t", f"create_empty {PLACE}"]
    assert world.table("t").properties == marks({"tier": "silver"}, OWNER)


def test_killed_between_mark_and_dataset_the_next_plan_goes_on(world: World) -> None:
    world.has(live(live_table("t")))
    block = table("t", schema=USERS)
    lost_second_write(world, planned(world, block))
    assert only_result(world, planned(world, block)).status is Status.DONE
    assert world.table("t").properties[ownership.MANAGED_BY] == OWNER
    assert planned(world, block).is_empty


def test_rows_that_came_after_the_creation_are_no_reason_to_fail_the_second_time(world: World) -> None:
    plan = planned(world, table("t", schema=USERS))
    world.apply(plan)
    world.storage.put(PLACE, USERS)
    assert world.apply(plan).results[0].status is Status.ALREADY
    assert len(world.writes) == 2


def test_a_table_is_declared_where_there_is_nothing(world: World) -> None:
    assert only_result(world, planned(world, table("t", location="/data/here.lance"))).status is Status.DONE
    assert world.table("t").location == "/data/here.lance"
    assert world.writes == ["insert_table t"]


def test_a_table_is_not_declared_over_data_that_came_since(world: World) -> None:
    plan = planned(world, table("t"))
    world.storage.put(PLACE, USERS)
    result = only_result(world, plan)
    assert (result.status, world.writes) == (Status.FAILED, [])
    assert f"{PLACE} planned on nothing, now" in result.message


def test_a_table_with_probe_off_is_declared_whatever_is_there(world: World) -> None:
    world.storage.put(PLACE, USERS)
    plan = Plan.from_json(planned(world, table("t", probe=False)).to_json())
    assert only_result(world, plan).status is Status.DONE


def test_a_table_is_registered_where_its_data_is(world: World) -> None:
    world.storage.put(PLACE, USERS)
    assert only_result(world, planned(world, table("t"))).status is Status.DONE
    assert world.writes == ["insert_table t"]


def test_a_table_is_not_registered_once_its_data_is_gone(world: World) -> None:
    world.storage.put(PLACE, USERS)
    plan = planned(world, table("t"))
    world.storage.datasets.clear()
    result = only_result(world, plan)
    assert (result.status, world.writes) == (Status.FAILED, [])
    assert f"{PLACE} planned on a Lance dataset, now" in result.message


def test_a_name_taken_by_a_foreign_table_is_an_error_of_the_catalog(world: World) -> None:
    plan = planned(world, table("t"))
    world.backend.add_foreign(("t",))
    result = only_result(world, plan)
    assert (result.status, result.message) == (Status.FAILED, "memory: table `t` already exists")


# ---- a service that chooses locations itself


def ignoring(make_world: MakeWorld) -> World:
    return make_world(capable(ignores_location=True))


def test_a_location_the_service_chose_is_said_and_what_was_asked_for_is_kept(make_world: MakeWorld) -> None:
    world = ignoring(make_world)
    plan = planned(world, table("t", location="/asked/t.lance"))
    result = only_result(world, plan)
    assert result.status is Status.DONE
    assert result.note.endswith("at /elsewhere/t, not at /asked/t.lance")
    assert world.table("t").properties[ownership.REQUESTED_LOCATION] == "/asked/t.lance"
    assert world.table("t").properties[ownership.CHOSEN_LOCATION] == "/elsewhere/t"
    assert planned(world, table("t", location="/asked/t.lance")).is_empty


def test_a_request_is_not_kept_where_the_service_honoured_it(make_world: MakeWorld) -> None:
    world = ignoring(make_world)
    result = only_result(world, planned(world, table("t", location="/honoured/t.lance")))
    assert (result.status, result.note) == (Status.DONE, "")
    assert ownership.REQUESTED_LOCATION not in world.table("t").properties


def test_a_relocation_the_service_ignores_fails_and_leaves_the_entry_as_it_was(make_world: MakeWorld) -> None:
    world = ignoring(make_world)
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER)))
    before = world.table("t")
    plan = planned(world, table("t", {"tier": "silver"}, location="/asked/t.lance", probe=False))
    result = only_result(world, plan)
    assert result.status is Status.FAILED
    assert "at /data/t.lance, not at /asked/t.lance" in result.message
    assert result.message.endswith("; the entry is as it was")
    assert world.table("t") == before


def test_an_entry_for_data_that_the_service_puts_elsewhere_is_taken_back(make_world: MakeWorld) -> None:
    world = ignoring(make_world)
    world.storage.put("/asked/t.lance", USERS)
    plan = planned(world, table("t", location="/asked/t.lance"))
    assert [change.action for change in plan.changes] == [Action.REGISTER_TABLE]
    result = only_result(world, plan)
    assert result.status is Status.FAILED
    assert "at /elsewhere/t, not at /asked/t.lance" in result.message
    assert result.message.endswith("; that entry is taken back")
    assert world.writes == ["insert_table t", "remove_table t"]
    assert world.state().tables == {}


def test_an_entry_that_cannot_be_taken_back_is_named_with_the_reason(make_world: MakeWorld) -> None:
    world = ignoring(make_world)
    world.storage.put("/asked/t.lance", USERS)
    plan = planned(world, table("t", location="/asked/t.lance"))
    world.refuse("remove_table t", PermissionDeniedError("memory: no right to drop"))
    result = only_result(world, plan)
    assert result.status is Status.FAILED
    assert "could not be taken back" in result.message
    assert "memory: no right to drop" in result.message


@pytest.mark.parametrize("written", [True, False])
def test_an_entry_that_a_killed_run_left_is_taken_back_unless_it_has_data(make_world: MakeWorld, written: bool) -> None:
    world = ignoring(make_world)
    world.storage.put("/asked/t.lance", USERS)
    plan = planned(world, table("t", location="/asked/t.lance"))
    lost_second_write(world, plan)
    if written:
        world.storage.put("/elsewhere/t", WIDER)
    [result] = world.apply(plan).results
    assert result.status is Status.FAILED
    assert ("could not be taken back" in result.message, set(world.state().tables)) == (
        (True, {("t",)}) if written else (False, set())
    )


@pytest.mark.parametrize("rows", [True, False])
def test_an_entry_that_another_run_made_in_the_meantime_stays(make_world: MakeWorld, rows: bool) -> None:
    world = ignoring(make_world)
    plan = planned(world, table("t", location="/asked/t.lance", schema=USERS))

    def race(_: str) -> None:
        world.ledger.before = lambda _: None
        [change] = plan.changes
        assert change.after is not None
        request = {ownership.REQUESTED_LOCATION: "/asked/t.lance", ownership.CHOSEN_LOCATION: "/elsewhere/t"}
        MemoryBackend.insert_table(world.backend, ("t",), "/elsewhere/t", marks({}, OWNER) | request)
        if rows:
            world.storage.put("/elsewhere/t", USERS)
        else:
            world.storage.other["/elsewhere/t"] = Storage(StorageKind.NOT_LANCE)

    world.ledger.before = race
    assert only_result(world, plan).status is (Status.ALREADY if rows else Status.FAILED)
    assert set(world.state().tables) == {("t",)}


def test_an_entry_whose_storage_cannot_be_read_stays_for_the_next_apply(make_world: MakeWorld) -> None:
    world, block = ignoring(make_world), table("t", location="/asked/t.lance", schema=USERS)
    plan = planned(world, block)
    world.storage.other["/elsewhere/t"] = Storage(StorageKind.UNKNOWN, detail="503 Slow Down")
    result = only_result(world, plan)
    assert result.status is Status.FAILED
    assert "cannot be opened (503 Slow Down)" in result.message
    assert set(world.state().tables) == {("t",)}
    world.storage.other.clear()
    assert only_result(world, plan).status is Status.DONE
    assert planned(world, block).is_empty


def test_an_entry_that_a_run_of_another_manifest_has_filled_stays(make_world: MakeWorld) -> None:
    """That run found the entry, and wrote the columns of its own block: without the entry, nobody would list them."""
    world, block = ignoring(make_world), table("t", location="/asked/t.lance", schema=WIDER, evolve=Evolve.ADDITIVE)
    plan = planned(world, block)

    def fill(name: str) -> None:
        if name == "create_empty /elsewhere/t":
            world.storage.datasets["/elsewhere/t"] = USERS

    world.ledger.before = fill
    assert only_result(world, plan).status is Status.FAILED
    assert set(world.state().tables) == {("t",)}
    assert only_result(world, planned(world, block)).status is Status.DONE
    assert world.storage.datasets["/elsewhere/t"] == WIDER
    assert planned(world, block).is_empty


def lost_second_write(world: World, plan: Plan) -> None:
    """Have a run killed after the entry was made, before the answer was looked at."""
    world.ledger.crash_after = len(world.writes) + 1
    with pytest.raises(Crash):
        world.apply(plan)
    world.revive()


@pytest.mark.parametrize("again", ["the same plan", "a new plan"])
@pytest.mark.parametrize("asked", ["/honoured/t.lance", "/asked/t.lance"])
@pytest.mark.parametrize("schema", [None, USERS])
def test_a_run_killed_before_it_knew_the_location_is_finished_by_the_next(
    make_world: MakeWorld, asked: str, again: str, schema: Schema | None
) -> None:
    world, wanted = ignoring(make_world), table("t", location=asked, schema=schema)
    plan = planned(world, wanted)
    lost_second_write(world, plan)
    assert world.table("t").properties[ownership.REQUESTED_LOCATION] == asked
    following = planned(world, wanted)
    assert not following.is_empty
    [result] = world.apply(plan if again == "the same plan" else following).results
    assert result.status is Status.DONE
    live, properties = world.table("t").location, world.table("t").properties
    if asked.startswith("/honoured"):
        assert (live, ownership.REQUESTED_LOCATION in properties) == (asked, False)
    else:
        assert (live, properties[ownership.CHOSEN_LOCATION]) == ("/elsewhere/t", "/elsewhere/t")
    assert world.storage.datasets == ({} if schema is None else {live: schema})
    assert planned(world, wanted).is_empty


@pytest.mark.parametrize("asked", ["/honoured/t.lance", "/asked/t.lance"])
@pytest.mark.parametrize("finished", [True, False])
def test_a_table_that_is_moved_after_it_was_made_is_drift(make_world: MakeWorld, asked: str, finished: bool) -> None:
    world, wanted = ignoring(make_world), table("t", location=asked)
    plan = planned(world, wanted)
    if finished:
        world.apply(plan)
    else:
        lost_second_write(world, plan)
    world.storage.put(asked, USERS)
    world.storage.put("/moved", WIDER)
    world.alter("t", location="/moved")
    drift = planned(world, wanted)
    assert [(change.action, change.after and change.after.location) for change in drift.changes] == [
        (Action.RELOCATE_TABLE, asked)
    ]
    is_honoured = asked.startswith("/honoured")
    assert world.apply(drift).ok is is_honoured
    assert planned(world, wanted).is_empty is is_honoured
    assert world.table("t").location == (asked if is_honoured else "/moved")


def test_the_same_plan_takes_a_table_back_that_was_moved_before_it_was_finished(make_world: MakeWorld) -> None:
    world, wanted = ignoring(make_world), table("t", location="/honoured/t.lance")
    plan = planned(world, wanted)
    lost_second_write(world, plan)
    world.alter("t", location="/moved")
    assert world.apply(plan).results[0].status is Status.DONE
    assert world.table("t").location == "/honoured/t.lance"
    assert planned(world, wanted).is_empty


@pytest.mark.parametrize("asked", ["/honoured/t.lance", "/asked/t.lance"])
def test_of_two_runs_the_one_that_is_second_settles_what_the_first_has_made(make_world: MakeWorld, asked: str) -> None:
    world, wanted = ignoring(make_world), table("t", location=asked)
    plan = planned(world, wanted)

    def first(name: str) -> None:
        if name == "insert_table t":
            world.ledger.before = lambda _: None
            lost_second_write(world, plan)

    world.ledger.before = first
    [result] = world.apply(plan).results
    assert result.status.satisfies
    assert planned(world, wanted).is_empty


def test_such_a_service_is_asked_first_and_the_dataset_written_where_it_says(make_world: MakeWorld) -> None:
    world = ignoring(make_world)
    assert only_result(world, planned(world, table("t", schema=USERS))).status is Status.DONE
    assert world.storage.datasets == {"/elsewhere/t": USERS}
    assert world.writes[-1] == "create_empty /elsewhere/t"


# ---- existing tables


def test_an_update_leaves_what_it_does_not_know(world: World) -> None:
    there = live_table("t", {"tier": "gold", "old": "1"}, owner=OWNER, protect=True, extra={"numFiles": "3"})
    world.has(live(there))
    result = only_result(world, planned(world, table("t", {"tier": "silver"}, protect=False)))
    assert result.status is Status.DONE
    assert world.table("t").properties == {**marks({"tier": "silver"}, OWNER), "numFiles": "3"}


def test_adoption_writes_only_the_marks(world: World) -> None:
    world.has(live(live_table("t", {"tier": "gold"})))
    plan = world.plan(desired(table("t", {"tier": "gold"})), adopt=True)
    assert only_result(world, plan).status is Status.DONE
    assert world.table("t").properties == marks({"tier": "gold"}, OWNER)


def test_an_update_of_a_table_that_moved_names_the_fields_and_writes_nothing(world: World) -> None:
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER)))
    plan = planned(world, table("t", {"tier": "silver"}))
    world.alter("t", location="/data/b.lance", tier="bronze")
    result = only_result(world, plan)
    assert (result.status, world.writes) == (Status.FAILED, [])
    place, tier = result.message.removeprefix("stale: ").split("; ")
    assert place.startswith("location ")
    assert place.endswith(f"{PLACE}, now /data/b.lance")
    assert tier.startswith("properties.tier ")
    assert tier.endswith("gold, now bronze")


def test_an_update_of_a_table_that_is_gone_fails(world: World) -> None:
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER)))
    plan = planned(world, table("t", {"tier": "silver"}))
    MemoryBackend.remove_table(world.backend, ("t",))
    message = only_result(world, plan).message
    assert message.startswith("stale: existence ")
    assert message.endswith("now nothing")


def test_a_table_someone_brought_to_the_wanted_state_is_already_done(world: World) -> None:
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER)))
    plan = planned(world, table("t", {"tier": "silver"}))
    world.alter("t", tier="silver")
    assert only_result(world, plan).status is Status.ALREADY
    assert world.writes == []


def test_a_relocation_in_place_keeps_properties_and_forgets_an_earlier_request(world: World) -> None:
    kept = {ownership.REQUESTED_LOCATION: "/asked/before", "numFiles": "3"}
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER, extra=kept)))
    plan = planned(world, table("t", {"tier": "gold"}, location="/data/b.lance", probe=False))
    assert only_result(world, plan).status is Status.DONE
    assert world.table("t").location == "/data/b.lance"
    assert world.table("t").properties == {**marks({"tier": "gold"}, OWNER), "numFiles": "3"}
    assert world.writes == ["alter_table t"]


def test_columns_are_added_and_properties_with_them(world: World) -> None:
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER)))
    world.storage.put(PLACE, USERS)
    plan = planned(world, table("t", {"tier": "silver"}, schema=WIDER, evolve=Evolve.ADDITIVE))
    assert only_result(world, plan).status is Status.DONE
    assert world.storage.datasets[PLACE] == WIDER
    assert world.table("t").properties["tier"] == "silver"


def test_columns_that_are_there_already_are_done(world: World) -> None:
    world.has(live(live_table("t", owner=OWNER)))
    world.storage.put(PLACE, USERS)
    plan = planned(world, table("t", schema=WIDER, evolve=Evolve.ADDITIVE))
    world.storage.put(PLACE, WIDER)
    assert only_result(world, plan).status is Status.ALREADY
    assert world.writes == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ((*USERS, Column("email", "int64")), "`email` is int64 in the data, string in the plan"),
        ((*USERS, Column("phone", "string")), "`phone` (string) is not in the plan"),
        (USERS[:1], "`name` (string) is not in the data"),
    ],
)
def test_columns_are_not_added_to_a_schema_that_moved(world: World, now: tuple[Column, ...], said: str) -> None:
    world.has(live(live_table("t", owner=OWNER)))
    world.storage.put(PLACE, USERS)
    plan = planned(world, table("t", schema=WIDER, evolve=Evolve.ADDITIVE))
    world.storage.put(PLACE, now)
    result = only_result(world, plan)
    assert (result.status, world.writes) == (Status.FAILED, [])
    assert said in result.message


# ---- removal


def removal(world: World) -> Plan:
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER)))
    return planned(world)


def test_deregistering_says_where_the_data_stays(world: World) -> None:
    result = only_result(world, removal(world))
    assert (result.status, result.note) == (Status.DONE, "data stays at /data/t.lance")
    assert world.state().tables == {}


def test_a_table_that_is_gone_is_deregistered_already(world: World) -> None:
    plan = removal(world)
    MemoryBackend.remove_table(world.backend, ("t",))
    assert only_result(world, plan).status is Status.ALREADY


def test_a_table_that_vanishes_during_its_own_removal_is_done(world: World) -> None:
    plan = removal(world)

    def race(name: str) -> None:
        world.ledger.before = lambda _: None
        MemoryBackend.remove_table(world.backend, ("t",))

    world.ledger.before = race
    assert only_result(world, plan).status is Status.ALREADY


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (ownership.PROTECT, "true", "stale: protect planned on false, now true"),
        (ownership.MANAGED_BY, "web/lake", "stale: managed-by planned on store/lake, now web/lake"),
    ],
)
def test_a_table_protected_or_claimed_since_the_plan_is_not_removed(
    world: World, key: str, value: str, said: str
) -> None:
    plan = removal(world)
    world.alter("t", **{key: value})
    result = only_result(world, plan)
    assert (result.status, result.message) == (Status.FAILED, said)
    assert ("t",) in world.state().tables


def test_an_error_worth_repeating_says_so(world: World) -> None:
    plan = removal(world)
    world.refuse("remove_table t", ThrottlingError("memory: throttled"))
    assert only_result(world, plan).message == "memory: throttled; run apply again"


def test_a_relocation_to_where_the_data_went_away_is_moved(world: World) -> None:
    world.has(live(live_table("t", owner=OWNER)))
    world.storage.put("/data/b.lance", USERS)
    plan = planned(world, table("t", location="/data/b.lance"))
    world.storage.datasets.clear()
    result = only_result(world, plan)
    assert result.status is Status.FAILED
    assert "/data/b.lance planned on a Lance" in result.message
    assert world.table("t").location == "/data/t.lance"
