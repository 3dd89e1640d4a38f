"""Two entries of one catalog for one dataset: what both ask for is done once, and what only one can have is blocked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from reconciler.model import ownership
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, Evolve, ExtraColumns
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action
from tests.plans import blocked
from tests.unit.applier.world import World
from tests.unit.planner.building import OWNER, USERS, desired, live, live_table, table

PLACE = "/data/t.lance"
EMAIL: Schema = (*USERS, Column("email", "string"))
PHONE: Schema = (*USERS, Column("phone", "string"))
RENAMED: Schema = (replace(USERS[0], name="key", renamed_from="user_id"), USERS[1])
ONE: Schema = (replace(USERS[0], metadata={"comment": "one"}), USERS[1])
TWO: Schema = (replace(USERS[0], metadata={"comment": "two"}), USERS[1])


def block(
    name: str, schema: Schema | None, extra: ExtraColumns = ExtraColumns.KEEP, tags: Mapping[str, str] | None = None
) -> DesiredTable:
    wanted = table(name, location=PLACE, schema=schema, evolve=Evolve.ADDITIVE)
    return replace(wanted, extra_columns=extra, tags=tags or {})


def put(world: World, *names: str, data: Schema = USERS, tags: Mapping[str, str] | None = None) -> None:
    extra = {ownership.TAGS: ",".join(tags)} if tags else {}
    world.has(live(*(live_table(name, owner=OWNER, location=PLACE, extra=extra) for name in names)))
    world.storage.put(PLACE, data)
    world.storage.tags[PLACE] = dict(tags or {})


@pytest.mark.parametrize(
    ("one", "other", "data"),
    [
        (block("a", EMAIL), block("b", EMAIL), USERS),
        (block("a", EMAIL), block("b", USERS), USERS),
        (block("a", EMAIL), block("b", None), USERS),
        (block("a", EMAIL), block("b", ONE), ONE),
        (block("a", EMAIL, tags={"p": "1"}), block("b", EMAIL, tags={"p": "1"}), USERS),
        (block("a", None, tags={"p": "1"}), block("b", None, tags={"q": "1"}), USERS),
    ],
)
@pytest.mark.parametrize("there", ["ab", "a", "b"])
def test_what_both_can_have_is_done(
    world: World, one: DesiredTable, other: DesiredTable, data: Schema, there: str
) -> None:
    put(world, *there, data=data)
    wanted = desired(one, other)
    plan = world.plan(wanted)
    if not plan.blocked:  # a table whose data lacks columns is not registered before it has them
        assert world.apply(plan).ok
    again = world.plan(wanted)
    assert (again.changes == ()) or bool(plan.blocked)


@pytest.mark.parametrize(
    ("one", "other", "data", "expected"),
    [
        (block("a", ONE), block("b", TWO), USERS, "ab"),
        (block("a", ONE), block("b", TWO), TWO, "a"),
        (block("a", RENAMED), block("b", USERS), USERS, "a"),
        (block("a", EMAIL), block("b", USERS, ExtraColumns.CONFLICT), USERS, "a"),
        (block("a", EMAIL), block("b", PHONE), USERS, "b"),
    ],
)
def test_columns_that_only_one_can_have_are_blocked(
    world: World, one: DesiredTable, other: DesiredTable, data: Schema, expected: str
) -> None:
    put(world, "a", "b", data=data)
    wanted = desired(one, other)
    plan = world.plan(wanted)
    assert blocked(plan) == [(f"lake/{name}", ReasonCode.LOCATION_SHARED) for name in expected]
    assert world.apply(plan).ok
    again = world.plan(wanted)
    assert again.is_empty or expected == "b"


@pytest.mark.parametrize(
    ("one", "other", "tags", "expected"),
    [({"p": "1"}, {"p": "2"}, {}, "ab"), ({"p": "3"}, {"p": "2"}, {"p": "2"}, "a"), ({}, {"p": "2"}, {"p": "2"}, "a")],
)
def test_tags_that_only_one_can_have_are_blocked(
    world: World, one: Mapping[str, str], other: Mapping[str, str], tags: Mapping[str, str], expected: str
) -> None:
    put(world, "a", "b", tags=tags)
    plan = world.plan(desired(block("a", USERS, tags=one), block("b", None, tags=other)))
    assert blocked(plan) == [(f"lake/{name}", ReasonCode.LOCATION_SHARED) for name in expected]
    assert plan.changes == ()


@pytest.mark.parametrize(("altered", "new"), ["ab", "ba"])
def test_data_is_registered_before_its_columns_change(world: World, altered: str, new: str) -> None:
    put(world, altered)
    wanted = desired(block(altered, EMAIL), block(new, USERS))
    plan = world.plan(wanted)
    assert [change.action for change in plan.changes] == [Action.REGISTER_TABLE, Action.ALTER_TABLE]
    assert plan.changes[1].depends_on == (0,)
    assert world.apply(plan).ok
    assert world.plan(wanted).is_empty
