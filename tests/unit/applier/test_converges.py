"""Apply converges: killed after any write and run again, it reaches the same state, and nothing is done twice."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import (
    DesiredCatalog,
    DesiredMove,
    DesiredNamespace,
    DesiredTable,
    Evolve,
    Prune,
)
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import EVERYTHING, NOTHING, Identifier, Scope
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.states import SAFEGUARD, moves
from tests.unit.applier.world import Crash, World, capable
from tests.unit.planner.building import CATALOG, OWNER, USERS, at, marks

RELOCATE = Action.RELOCATE_TABLE
WIDER: Schema = (*USERS, Column("email", "string"))
RELAXED: Schema = (replace(USERS[0], nullable=True), Column("email", "string"), Column("phone", "string"))
RENAMED: Schema = (
    replace(USERS[0], name="key", renamed_from="user_id"),
    Column("user_id", "string", metadata={"comment": "was the name"}, renamed_from="name"),
)
CAPABILITIES = (
    Capabilities(),
    capable(ignores_location=True, relocate_table=False, rename_within=0),
    capable(ignores_location=True, rename_within=0),
    Capabilities(safeguard=SAFEGUARD),
    Capabilities(safeguard=SAFEGUARD, rename_within=0),
    capable(rename_within=0, alter_table=False, relocate_table=False),
    capable(rename_within=1),
    capable(alter_table=False, relocate_table=False),
)

names = st.sampled_from("abc")
namespace_ids = st.lists(names, min_size=1, max_size=2).map(tuple)
table_ids = st.tuples(st.lists(names, max_size=2).map(tuple), st.sampled_from(["t1", "t2", "t3"])).map(
    lambda parts: (*parts[0], parts[1])
)
properties = st.dictionaries(st.sampled_from(["tier", "team", "api_token"]), st.sampled_from("xyz"), max_size=2)
protections = st.sampled_from([None, None, None, True, False])
places = st.sampled_from([f"/lake/{number}.lance" for number in range(6)])


def parents(identifiers: list[Identifier]) -> set[Identifier]:
    return {one[:depth] for one in identifiers for depth in range(1, len(one))}


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    def kept() -> dict[str, str]:
        owner = draw(st.sampled_from([OWNER, OWNER, None]))
        extra = draw(
            st.sampled_from(
                [
                    {},
                    {"numFiles": "1"},
                    {"gc.enabled": "true"},
                    {"gc.enabled": "false"},
                    {"lancens.tags": "old,prod"},
                    {"lancens.data": "true"},
                ]
            )
        )
        return {**marks(draw(properties), owner, protect=draw(st.booleans()) and draw(st.booleans())), **extra}

    tables = {
        one: LiveTable(one, draw(places) if draw(st.booleans()) else f"/data/{'$'.join(one)}.lance", kept())
        for one in draw(st.lists(table_ids, max_size=4, unique=True))
    }
    named = draw(st.lists(namespace_ids, max_size=3, unique=True))
    namespaces = {one: LiveNamespace(one, kept()) for one in sorted({*named, *parents([*tables, *named])})}
    return Snapshot(namespaces, tables)


@st.composite
def manifests(draw: st.DrawFn) -> DesiredCatalog:
    tables = {
        one: DesiredTable(
            one,
            at(),
            draw(properties),
            draw(st.none() | places),
            draw(st.sampled_from([None, USERS, WIDER, RELAXED, RENAMED])),
            draw(st.sampled_from(Evolve)),
            probe := draw(st.sampled_from([True, True, False])),
            absent=draw(st.integers(0, 3)) == 0,
            protect=draw(protections),
            tags=draw(st.sampled_from([{}, {}, {"prod": "2"}, {"prod": "1", "new": "3"}])) if probe else {},
        )
        for one in draw(st.lists(table_ids, max_size=4, unique=True))
    }
    named = draw(st.lists(namespace_ids, max_size=3, unique=True))
    above = parents([*tables, *named])
    namespaces = {
        one: DesiredNamespace(
            one,
            at(),
            draw(properties) if one in named else {},
            is_claimed=one in named,
            absent=one in named and one not in above and draw(st.integers(0, 3)) == 0,
            protect=draw(protections) if one in named else None,
        )
        for one in sorted({*named, *above})
    }
    prune = draw(st.sampled_from(Prune))
    return DesiredCatalog(CATALOG, OWNER, at(), prune, namespaces=namespaces, tables=tables)


@dataclass(frozen=True)
class Case:
    """Everything a run depends on; each world made of it is the same."""

    capabilities: Capabilities
    live: Snapshot
    wanted: DesiredCatalog
    datasets: dict[str, Schema]
    adopt: bool
    recreate_lost: Scope = NOTHING

    @contextmanager
    def world(self) -> Iterator[World]:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), self.capabilities).has(self.live)
            # Where a service ignores locations, data at the one asked for could not be registered.
            for place, schema in () if self.capabilities.ignores_location else self.datasets.items():
                world.storage.put(place, schema)
                world.storage.tags[place] = {"old": "1", "theirs": "1"}
            with world.storage.installed():
                yield world

    def plan(self, world: World) -> Plan:
        return world.plan(self.wanted, adopt=self.adopt, recreate_lost=self.recreate_lost)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    live = draw(snapshots())
    wanted = draw(moves(draw(manifests()), live))
    datasets = draw(st.dictionaries(places, st.sampled_from([USERS, WIDER, RELAXED]), max_size=3))
    recreate_lost = draw(st.sampled_from([NOTHING, EVERYTHING]))
    return Case(draw(st.sampled_from(CAPABILITIES)), live, wanted, datasets, draw(st.booleans()), recreate_lost)


thorough = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def made_plan(case: Case, world: World) -> Plan:
    """Return the plan of a case in which no relocation is ignored."""
    plan = case.plan(world)
    assume(not case.capabilities.ignores_location or all(one.action is not RELOCATE for one in plan.changes))
    return plan


@thorough
@given(cases(), st.data())
def test_killed_after_any_write_and_run_again_the_end_is_the_same(case: Case, data: st.DataObject) -> None:
    with case.world() as world:
        plan = made_plan(case, world)
        world.apply(plan)
        end, writes, datasets = world.state(), list(world.writes), dict(world.storage.datasets)
    assume(writes)
    parallelism = data.draw(st.sampled_from([1, 3]), label="parallelism")
    with case.world() as world:
        assert case.plan(world) == plan
        world.ledger.crash_after = data.draw(st.integers(1, len(writes)), label="killed after")
        with pytest.raises(Crash):
            world.apply(plan, parallelism=parallelism)
        world.revive()
        again = plan if data.draw(st.booleans(), label="the same plan") else made_plan(case, world)
        report = world.apply(again, parallelism=parallelism)
        assert report.ok, [result for result in report.results if not result.status.satisfies]
        assert world.state() == end
        assert world.storage.datasets == datasets
        assert Counter(world.writes) == Counter(writes)
        assert case.plan(world).is_empty


def test_a_table_carried_by_its_namespace_gets_nothing_that_the_next_plan_would_not_give_it() -> None:
    """Cut off right after its move, it is a table without a block, which `prune: never` leaves alone."""
    live = Snapshot(
        {("c",): LiveNamespace(("c",), marks({}, OWNER))},
        {("c", "t1"): LiveTable(("c", "t1"), "/data/t1.lance", {**marks({}, OWNER), "purge": "TRUE"})},
    )
    namespaces: dict[Identifier, DesiredNamespace] = {("a",): DesiredNamespace(("a",), at(), is_claimed=True)}
    moved = (DesiredMove(("c",), ("a",), at(), is_table=False),)
    wanted = DesiredCatalog(CATALOG, OWNER, at(), Prune.NEVER, namespaces=namespaces, moves=moved)
    guarded = Capabilities(safeguard=SAFEGUARD, rename_within=0)
    case = Case(guarded, live, wanted, {}, adopt=False)
    with case.world() as world:
        assert world.apply(case.plan(world)).ok
        end, writes = world.state(), len(world.writes)
    for cut in range(1, writes + 1):
        with case.world() as world:
            world.ledger.crash_after = cut
            with pytest.raises(Crash):
                world.apply(case.plan(world), parallelism=1)
            world.revive()
            assert world.apply(case.plan(world)).ok
            assert world.state() == end


def test_a_rename_cut_off_after_its_marks_writes_them_once() -> None:
    live = Snapshot({}, {("t1",): LiveTable(("t1",), "/data/t1.lance", marks({}, OWNER))})
    tables: dict[Identifier, DesiredTable] = {("t2",): DesiredTable(("t2",), at())}
    moved = (DesiredMove(("t1",), ("t2",), at(), is_table=True),)
    wanted = DesiredCatalog(CATALOG, OWNER, at(), tables=tables, moves=moved)
    case = Case(Capabilities(safeguard=SAFEGUARD, rename_within=0), live, wanted, {}, adopt=False)
    with case.world() as world:
        plan = case.plan(world)
        assert world.apply(plan).ok
        once = list(world.writes)
    assert once[:2] == ["alter_table t1", "rename_table t1 t2"]
    for cut in range(1, len(once) + 1):
        with case.world() as world:
            world.ledger.crash_after = cut
            with pytest.raises(Crash):
                world.apply(plan, parallelism=1)
            world.revive()
            assert world.apply(plan).ok
            assert world.writes == once
