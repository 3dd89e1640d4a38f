"""Columns that are renamed, added and annotated: against every way to read their names, and killed anywhere."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.applier.report import Status
from reconciler.model.columns import PRIMARY_KEY, Column, Schema
from reconciler.model.desired import Evolve
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.entries import Action, Blocked
from reconciler.planner.plan import Plan
from tests.plans import noted
from tests.unit.applier.world import Crash, World
from tests.unit.planner.building import OWNER, USERS, desired, live, live_table, table

PLACE = "/data/t.lance"
WHO = "who"
"""The key of the metadata by which a column is known whatever its name is."""


def readings(wanted: Mapping[str, str], there: Sequence[str]) -> list[dict[str, bool]]:
    """Return every way to say which columns that take part in a rename have their new name already."""
    parts = [name for name in there if name in wanted or name in wanted.values()]
    found = (dict(zip(parts, flags, strict=True)) for flags in product((False, True), repeat=len(parts)))
    return [
        one
        for one in found
        if all(name in wanted if is_new else name in wanted.values() for name, is_new in one.items())
        and all(one[old] == one[new] for new, old in wanted.items() if old in one and new in one)
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, Schema]:
    """Return columns as a block wants them, and those of the data."""
    names = draw(st.permutations("abcdef"))
    chains, plain = [names[:3], names[3:5]], names[5:]
    if draw(st.booleans()):
        chains, plain = [names[:4]], names[4:]
    wanted = {new: old for chain in chains for old, new in pairwise(chain)}
    comments = st.sampled_from([{}, {}, {"comment": "one"}, {"comment": "two"}])
    block = [Column(new, "int8", metadata=draw(comments), renamed_from=old) for new, old in wanted.items()]
    block += [Column(name, "int8", metadata=draw(comments)) for name in draw(st.sets(st.sampled_from(plain)))]
    there = sorted(draw(st.sets(st.sampled_from(names))))
    data = [Column(name, "int8", draw(st.booleans()), {WHO: name, **draw(comments)}) for name in there]
    return tuple(draw(st.permutations(block))), tuple(data)


@given(cases(), st.integers(0, 4), st.booleans())
def test_columns_become_what_the_only_reading_of_their_names_says(
    case: tuple[Schema, Schema], lives: int, is_planned_again: bool
) -> None:
    block, data = case
    wanted = {one.name: one.renamed_from for one in block if one.renamed_from is not None}
    found = readings(wanted, [one.name for one in data])
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder)).has(live(live_table("t", owner=OWNER)))
        world.storage.put(PLACE, data)
        manifest = desired(table("t", schema=block, evolve=Evolve.ADDITIVE))
        with world.storage.installed():
            plan = world.plan(manifest)
            assert bool(plan.blocked) == (len(found) != 1)
            if plan.blocked:
                assert plan.changes == ()
                return
            world.ledger.crash_after = lives
            with suppress(Crash):
                world.apply(plan)
            world.revive()
            again = world.plan(manifest) if is_planned_again else Plan.from_json(plan.to_json())
            assert not again.blocked
            assert world.apply(again).ok
            assert world.plan(manifest).is_empty
        after = {one.name: one for one in world.storage.datasets[PLACE]}
    [reading] = found
    to_do = {old: new for new, old in wanted.items() if reading.get(old) is False}
    who = {to_do.get(one.name, one.name): one.name for one in data}
    assert {name: one.metadata.get(WHO) for name, one in after.items()} == {
        **dict.fromkeys(one.name for one in block),
        **who,
    }
    before = {one.name: one for one in data}
    for one in block:
        origin = before.get(who.get(one.name, ""))
        assert after[one.name].nullable
        assert after[one.name].metadata == {**(origin.metadata if origin else {}), **one.metadata}


def planned(world: World, *columns: Column, data: Schema = USERS, evolve: Evolve = Evolve.ADDITIVE) -> Plan:
    world.has(live(live_table("t", owner=OWNER)))
    world.storage.put(PLACE, data)
    return world.plan(desired(table("t", schema=columns, evolve=evolve)))


def blocked(plan: Plan) -> Blocked:
    [one] = plan.blocked
    assert plan.changes == ()
    return one


KEY = Column("key", "int64", nullable=False, renamed_from="user_id")


def test_a_rename_is_metadata_only_and_needs_evolve(world: World) -> None:
    [change] = planned(world, KEY, USERS[1]).changes
    assert (change.action, change.code) == (Action.ALTER_TABLE, ReasonCode.COLUMNS)
    assert change.params == {"renamed": ("key",)}
    assert change.reason.startswith("metadata only")
    one = blocked(world.plan(desired(table("t", schema=(KEY, USERS[1])))))
    assert one.params["evolves"]
    assert 'alter_columns({"path": "user_id", "name": "key"})' in one.remedy


def test_a_rename_with_another_type_is_blocked_and_says_what_is_rewritten(world: World) -> None:
    one = blocked(planned(world, replace(KEY, type="int32"), USERS[1]))
    assert one.params["rewritten"] == ("user_id",)


def test_a_rename_that_is_done_is_a_note(world: World) -> None:
    plan = planned(world, KEY, USERS[1], data=(replace(KEY, renamed_from=None), USERS[1]))
    assert plan.is_empty
    assert noted(plan, "columns") == [(NoteCode.COLUMNS_RENAMED, ("key",))]


def test_both_names_block(world: World) -> None:
    one = blocked(planned(world, KEY, USERS[1], data=(*USERS, Column("key", "int64"))))
    assert one.params["unclear"] == ("key",)
    assert one.remedy == "remove `renamed_from` of `key`"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"comment": "theirs"}, "with metadata comment=theirs"),
        ({"comment": "ours"}, ""),
    ],
)
def test_metadata_that_somebody_else_changed_is_not_overwritten(
    world: World, now: Mapping[str, str], said: str
) -> None:
    plan = planned(world, USERS[0], replace(USERS[1], metadata={"comment": "ours"}))
    world.storage.put(PLACE, (USERS[0], replace(USERS[1], metadata=now)))
    [result] = world.apply(plan).results
    assert result.status is (Status.FAILED if said else Status.ALREADY)
    assert said in result.message
    assert world.writes == []


def test_a_secret_in_metadata_is_set_and_not_shown(world: World) -> None:
    plan = planned(
        world,
        USERS[0],
        replace(USERS[1], metadata={"api_token": "new-secret"}),
        data=(USERS[0], replace(USERS[1], metadata={"api_token": "old-secret"})),
    )
    assert "secret" not in plan.to_json()
    assert world.apply(plan).ok
    assert world.storage.datasets[PLACE][1].metadata == {"api_token": "new-secret"}


def test_a_primary_key_is_set_once(world: World) -> None:
    key = {PRIMARY_KEY: "true"}
    wanted = (replace(KEY, metadata=key), USERS[1])
    assert planned(world, *wanted).changes[0].params == {"renamed": ("key",), "annotated": ("key",)}
    for one, metadata in (
        (wanted[0], {PRIMARY_KEY: "false"}),
        (wanted[0], {f"{PRIMARY_KEY}:position": "1"}),
        (replace(KEY, nullable=True), key),
    ):
        world.storage.put(PLACE, (replace(USERS[0], metadata=metadata), USERS[1]))
        found = blocked(world.plan(desired(table("t", schema=(one, USERS[1]), evolve=Evolve.ADDITIVE))))
        assert found.params["impossible"] == ("key",)
    world.storage.put(PLACE, (replace(USERS[0], metadata=key), USERS[1]))
    [change] = world.plan(desired(table("t", schema=wanted, evolve=Evolve.ADDITIVE))).changes
    assert change.params == {"renamed": ("key",)}
