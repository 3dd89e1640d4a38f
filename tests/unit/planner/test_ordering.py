"""The order of a plan, and what each change waits for."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import Thresholds
from reconciler.planner.catalog import plan_catalog
from reconciler.planner.facts import Answers, CatalogInput
from reconciler.planner.plan import ManifestRef, Plan
from reconciler.planner.planning import Planning
from tests.unit.planner.building import (
    OWNER,
    claim,
    desired,
    expected,
    live,
    live_namespace,
    live_table,
    plan_of,
    questions_on,
    steps,
    table,
)


def test_creations_come_before_removals() -> None:
    there = live(live_table("old", owner=OWNER), live_table("same", {"a": "1"}, owner=OWNER))
    plan = plan_of(desired(table("same", {"a": "2"}), table("new/t")), there)
    assert steps(plan) == [
        "create-namespace new",
        "declare-table new/t",
        "update-table same",
        "deregister-table old",
    ]


def test_a_removal_that_frees_the_location_comes_first() -> None:
    there = live(live_table("old", owner=OWNER, location="/data/x"))
    plan = plan_of(desired(table("new", location="file:/data/x/")), there)
    assert steps(plan) == ["deregister-table old", "declare-table new"]
    assert plan.changes[1].depends_on == (0,)


def test_every_table_that_leaves_a_location_goes_first() -> None:
    there = live(
        live_table("a", owner=OWNER, location="/data/x"),
        live_table("b", owner=OWNER, location="/data/x"),
        live_table("moves", owner=OWNER, location="/data/x"),
    )
    plan = plan_of(desired(table("new", location="/data/x"), table("moves", location="/data/y")), there)
    assert steps(plan) == ["relocate-table moves", "deregister-table a", "deregister-table b", "declare-table new"]
    assert plan.changes[3].depends_on == (0, 1, 2)


def test_a_relocation_waits_for_the_removal_at_its_place() -> None:
    there = live(live_table("old", owner=OWNER, location="/data/x"), live_table("a", owner=OWNER, location="/data/y"))
    plan = plan_of(desired(table("a", location="/data/x")), there)
    assert steps(plan) == ["deregister-table old", "relocate-table a"]
    assert plan.changes[1].depends_on == (0,)


def test_two_tables_swap_their_places() -> None:
    there = live(live_table("a", owner=OWNER, location="/x"), live_table("b", owner=OWNER, location="/y"))
    plan = plan_of(desired(table("a", location="/y"), table("b", location="/x")), there)
    assert steps(plan) == ["relocate-table a", "relocate-table b"]


def test_a_removal_that_frees_the_name_comes_first() -> None:
    there = live(live_table("x", owner=OWNER))
    plan = plan_of(desired(table("x/t")), there)
    assert steps(plan) == ["deregister-table x", "create-namespace x", "declare-table x/t"]


def test_names_freed_the_other_way_round() -> None:
    there = live(live_namespace("x", owner=OWNER), live_table("x/t", owner=OWNER))
    plan = plan_of(desired(table("x"), claim("k", {"a": "b"})), there)
    assert steps(plan) == ["create-namespace k", "deregister-table x/t", "drop-namespace x", "declare-table x"]


names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    wanted = draw(st.lists(paths, max_size=8, unique=True))
    there = draw(st.lists(paths, max_size=8, unique=True))
    kept = {path[:end] for path in there for end in range(1, len(path)) if path[end] == "/"}
    namespaces = [live_namespace(path, owner=OWNER) for path in sorted(kept)]
    tables = [live_table(path, owner=OWNER) for path in there if path not in kept]
    return plan_of(desired(*map(table, wanted)), live(*namespaces, *tables))


@given(plans())
def test_every_order_can_be_carried_out(plan: Plan) -> None:
    at = {(change.kind, change.identifier, change.action.removes): place for place, change in enumerate(plan.changes)}
    for place, change in enumerate(plan.changes):
        assert all(dependency < place for dependency in change.depends_on)
        parent = change.identifier[:-1]
        if change.action.removes:
            dropped = at.get(("namespace", parent, True))
            assert dropped is None or place in plan.changes[dropped].depends_on
        else:
            created = at.get(("namespace", parent, False))
            if created is not None and plan.changes[created].action == "create-namespace":
                assert created in change.depends_on


@given(plans())
def test_the_same_states_give_the_same_bytes(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert again.digest() == plan.digest()


def test_the_final_form_of_an_entry_replaces_the_one_before() -> None:
    """Otherwise a plan of a million changes would hold each of them twice for a moment."""
    wanted, there = desired(table("a/new"), table("a/old", {"tier": "x"})), live(live_table("a/old", owner=OWNER))
    answers = Answers({question.table.id: expected(question) for question in questions_on(wanted, there).storage})
    source = CatalogInput(wanted, there, Capabilities(), "memory")
    planning, unordered = Planning(), plan_catalog(source, answers)
    planning.add(source, unordered)
    entries = [*unordered.outcomes.changes, *(state for state in unordered.fingerprints if state.view)]
    first_forms = [weakref.ref(entry) for entry in entries if entry.kind == "table"]
    del entries
    places = {"/data": "${env:ROOT}"}
    plan = planning.plan(ManifestRef(name="store", digest="", files=()), Thresholds(), places=places)
    assert [change.destination for change in plan.changes] == ["${env:ROOT}/a/new.lance", "${env:ROOT}/a/old.lance"]
    assert {first_form() for first_form in first_forms} == {None}
