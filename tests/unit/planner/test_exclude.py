"""``--exclude``: what it names stays as it is, and everything else is planned as if it were selected."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import hypothesis
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredCatalog, DesiredMove, Thresholds
from reconciler.model.live import Snapshot
from reconciler.model.names import Identifier, Only, Scope
from reconciler.model.reasons import ReasonCode
from reconciler.planner.catalog import plan_catalog
from reconciler.planner.entries import Action
from reconciler.planner.facts import Answers, CatalogInput, PlanOptions
from reconciler.planner.moves import moves_of
from reconciler.planner.plan import ManifestRef, Plan
from reconciler.planner.planning import Planning
from tests.plans import blocked
from tests.soak import count, seeded
from tests.states import identifiers, mirrors, option_sets, situations
from tests.unit.planner.building import (
    OWNER,
    at,
    desired,
    expected,
    live,
    live_table,
    plan_of,
    questions_on,
    steps,
    table,
)

_State: TypeAlias = tuple[DesiredCatalog, Snapshot]

_GLOBS = st.sampled_from(["a/**", "**/b", "a", "b/*", "*/c", "?"]) | identifiers.map("/".join)


def _matches(globs: list[str], name: Identifier) -> bool:
    """Match names as the documentation says, and not with the code of lancens."""
    forms = {"**": "(/[^/]+)*", "*": "/[^/]+", "?": "/[^/]"}
    return any(
        re.fullmatch("".join(forms.get(part, f"/{part}") for part in glob.split("/")), f"/{'/'.join(name)}")
        for glob in globs
    )


def _is_half_of_a_move(globs: list[str], wanted: DesiredCatalog, there: Snapshot) -> bool:
    moves = moves_of(wanted)
    pairs = [(name, moves.target_of(name)) for name in there.tables]
    pairs += [(name, moves.namespace_target_of(name)) for name in there.namespaces]
    return any(to is not None and _matches(globs, name) != _matches(globs, to) for name, to in pairs)


def test_all_but_what_is_excluded_is_planned() -> None:
    @hypothesis.seed(seeded("all but what is excluded").randrange(2**32))
    @settings(max_examples=count(60, 1_000), deadline=None)
    @given(situations(), st.lists(_GLOBS, min_size=1, max_size=2), option_sets)
    def planned(situation: _State, globs: list[str], options: PlanOptions) -> None:
        wanted, there = situation
        plan = plan_of(wanted, there, options=replace(options, select=Scope(("**",), tuple(globs))))
        for change in plan.changes:
            touched = {change.identifier, change.moved_from or change.identifier}
            assert change.action is Action.CREATE_NAMESPACE or not any(_matches(globs, name) for name in touched)
        whole = plan_of(wanted, there, options=options)
        assert [catalog.removable_tables for catalog in plan.catalogs] == [
            catalog.removable_tables for catalog in whole.catalogs
        ]
        if _is_half_of_a_move(globs, wanted, there):
            return
        ends = [name for line in wanted.moves for name in (line.origin, line.to)]
        known = {*wanted.tables, *wanted.namespaces, *there.tables, *there.namespaces, *ends}
        selected = replace(options, select=Only(name for name in known if not _matches(globs, name)))
        assert plan == plan_of(wanted, there, options=selected)

    planned()


def _plan_with_mirror(situation: tuple[_State, _State], select: Callable[[CatalogInput], Scope]) -> Plan:
    planning = Planning()
    for wanted, there in situation:
        source = planning.with_mirror(CatalogInput(wanted, there, Capabilities(), "memory"))
        source = planning.with_planned_data(replace(source, options=PlanOptions(select=select(source))))
        tables = {question.table.id: expected(question) for question in questions_on(source.desired, there).storage}
        planning.add(source, plan_catalog(source, Answers(tables)))
    return planning.plan(ManifestRef(name="store", digest="d" * 64, files=()), Thresholds())


@st.composite
def _mirrored_situations(draw: st.DrawFn) -> tuple[_State, _State]:
    lake, (wanted, there) = draw(situations()), draw(situations())
    of_prod = replace(wanted, name="prod", owner="store/prod", moves=())
    return lake, draw(mirrors(of_prod, there, "lake"))


def test_a_mirror_follows_what_is_left() -> None:
    @hypothesis.seed(seeded("a mirror of what is left").randrange(2**32))
    @settings(max_examples=count(30, 1_000), deadline=None)
    @given(_mirrored_situations(), st.lists(_GLOBS, max_size=2), st.lists(_GLOBS, max_size=2))
    def planned(situation: tuple[_State, _State], lake: list[str], prod: list[str]) -> None:
        globs = {"lake": lake, "prod": prod}
        (wanted, there), _ = situation
        assume(not _is_half_of_a_move(lake, wanted, there))

        def selected(source: CatalogInput) -> Scope:
            """Select what no glob matches, by name."""
            desired, live = source.desired, source.live
            names = {*desired.tables, *desired.namespaces, *live.tables, *live.namespaces}
            names |= {name for line in desired.moves for name in (line.origin, line.to)}
            return Only(name for name in names if not _matches(globs[desired.name], name))

        plan = _plan_with_mirror(situation, lambda source: Scope(("**",), tuple(globs[source.desired.name])))
        assert plan == _plan_with_mirror(situation, selected)

    planned()


@pytest.mark.parametrize(
    ("excluded", "planned", "refused"),
    [
        (["a/old"], [], [("lake/a/new", ReasonCode.MOVE_HALF_EXCLUDED)]),
        (["a/new"], [], [("lake/a/new", ReasonCode.MOVE_HALF_EXCLUDED)]),
        (["a/**"], [], []),
        (["b"], ["move-table a/new"], []),
    ],
)
def test_half_of_a_move_is_blocked(excluded: list[str], planned: list[str], refused: list[object]) -> None:
    line = DesiredMove(("a", "old"), ("a", "new"), at(), is_table=True)
    wanted = replace(desired(table("a/new")), moves=(line,))
    select = Scope(("**",), tuple(excluded))
    plan = plan_of(wanted, live(live_table("a/old", owner=OWNER)), options=PlanOptions(select=select))
    assert (steps(plan), blocked(plan)) == (planned, refused)
