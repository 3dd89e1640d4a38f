"""A table that gets another name: by a new entry, on a service that puts it elsewhere, and beside another run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.applier.report import Status
from reconciler.backends.memory import MemoryBackend
from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredMove
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.unit.applier.world import World
from tests.unit.planner.building import OWNER, at, desired, live, live_table, table

OLD, NEW = ("users",), ("customers",)


@pytest.fixture
def world(make_world: Callable[[Capabilities], World]) -> World:
    world = make_world(Capabilities(ignores_location=True))
    return world.has(live(live_table("users", owner=OWNER, location="/data/users.lance")))


def planned(world: World) -> Plan:
    plan = world.plan(replace(desired(table("customers")), moves=(DesiredMove(OLD, NEW, at(), is_table=True),)))
    assert [change.action for change in plan.changes] == [Action.MOVE_TABLE]
    return plan


def test_a_new_entry_at_another_place_is_taken_back_and_the_old_one_stays(world: World) -> None:
    before = world.state()
    [result] = world.apply(planned(world)).results
    assert result.status is Status.FAILED
    assert world.writes == ["insert_table customers", "remove_table customers"]
    assert world.state() == before


def test_the_old_entry_stays_while_the_new_one_shows_other_data(world: World) -> None:
    """It says of itself that the service chose its place, which other changes take for what was asked for."""
    plan = planned(world)
    place = "/elsewhere/customers"
    request = {ownership.REQUESTED_LOCATION: "/data/users.lance", ownership.CHOSEN_LOCATION: place}
    world.has(live(live_table("customers", owner=OWNER, location=place, extra=request)))
    before = world.state()
    [result] = world.apply(plan, check=False).results
    assert result.status is Status.FAILED
    assert (world.writes, world.state()) == ([], before)


def test_a_table_that_another_run_renames_first_is_moved(make_world: Callable[[Capabilities], World]) -> None:
    world = make_world(Capabilities(rename_within=0))
    world.has(live(live_table("users", owner=OWNER, location="/data/users.lance")))
    plan = planned(world)

    def first(write: str) -> None:
        if write.startswith("rename_table"):
            MemoryBackend.rename_table(world.backend, OLD, NEW)

    world.ledger.before = first
    [result] = world.apply(plan).results
    assert (result.status, set(world.state().tables)) == (Status.DONE, {NEW})


def test_a_table_that_another_client_removes_first_is_not_moved(make_world: Callable[[Capabilities], World]) -> None:
    world = make_world(Capabilities(rename_within=0))
    world.has(live(live_table("users", owner=OWNER, location="/data/users.lance")))
    plan = planned(world)

    def first(write: str) -> None:
        if write.startswith("rename_table"):
            MemoryBackend.remove_table(world.backend, OLD)

    world.ledger.before = first
    [result] = world.apply(plan).results
    assert (result.status, result.message.partition(":")[0]) == (Status.FAILED, "stale")
