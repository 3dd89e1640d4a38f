"""What lancens made for a moment and an interruption left is nobody's: it goes, whatever is said about the rest."""

from __future__ import annotations

import pytest

from reconciler.model.desired import Prune, Thresholds
from reconciler.model.names import Scope
from reconciler.model.reasons import ReasonCode
from reconciler.planner.facts import PlanOptions
from reconciler.planner.plan import check_removals
from tests.unit.planner.building import OWNER, claim, desired, live, live_namespace, live_table, plan_of, steps, table

LEFT = (live_namespace("lancens_1"), live_table("a/lancens_2"))


@pytest.mark.parametrize("prune", list(Prune))
def test_they_go_under_any_prune(prune: Prune) -> None:
    plan = plan_of(desired(prune=prune), live(), leftovers=LEFT)
    assert steps(plan) == ["deregister-table a/lancens_2", "drop-namespace lancens_1"]
    assert {change.code for change in plan.changes} == {ReasonCode.LEFTOVER}


def test_their_parents_need_not_have_been_read() -> None:
    plan = plan_of(desired(scope=Scope(("b/**",))), live(), leftovers=LEFT)
    assert len(plan.changes) == 2
    assert {print_.identifier for print_ in plan.fingerprints} == {("lancens_1",), ("a", "lancens_2")}


def test_they_count_for_no_limit() -> None:
    there = live(*(live_table(f"a/t{number}", owner=OWNER) for number in range(10)))
    many = [live_table(f"a/lancens_{number}") for number in range(20)]
    plan = plan_of(
        desired(*(table(f"a/t{number}") for number in range(10))),
        there,
        leftovers=many,
        thresholds=Thresholds(max_removal_percent=0),
    )
    check_removals(plan)
    assert len(plan.changes) == 20
    assert (plan.catalogs[0].tables, plan.catalogs[0].removed_tables) == (10, 0)


def test_one_goes_before_its_namespace() -> None:
    there = live(live_namespace("a", owner=OWNER))
    plan = plan_of(desired(claim("a", absent=True)), there, leftovers=LEFT[1:])
    assert steps(plan) == ["deregister-table a/lancens_2", "drop-namespace a"]
    assert plan.changes[1].depends_on == (0,)


def test_one_goes_whose_block_is_absent_or_of_the_other_kind() -> None:
    left = live_table("users")
    gone = plan_of(desired(table("users", absent=True)), live(), leftovers=[left])
    assert steps(gone) == ["deregister-table users"]
    renamed = plan_of(desired(claim("users")), live(), leftovers=[left])
    assert steps(renamed) == ["deregister-table users", "create-namespace users"]
    assert renamed.changes[1].depends_on == (0,)


def test_what_is_not_selected_or_is_in_the_manifest_stays() -> None:
    assert plan_of(desired(), live(), leftovers=LEFT, options=PlanOptions(select=Scope(("b/**",)))).is_empty
    assert "drop-namespace lancens_1" not in steps(plan_of(desired(claim("lancens_1")), live(), leftovers=LEFT))
