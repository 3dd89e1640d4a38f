"""How much a plan may remove."""

from __future__ import annotations

import pytest

from reconciler.model.desired import Prune, Thresholds
from reconciler.model.errors import SafetyError
from reconciler.planner.plan import check_removals
from tests.unit.planner.building import OWNER, desired, live, live_namespace, live_table, plan_of, table

TEN = [f"t{number}" for number in range(10)]


def test_thirty_percent_is_allowed_and_more_is_not() -> None:
    there = live(*(live_table(path, owner=OWNER) for path in TEN))
    check_removals(plan_of(desired(*map(table, TEN[3:])), there))
    with pytest.raises(SafetyError) as error:
        check_removals(plan_of(desired(*map(table, TEN[4:])), there))
    assert "deregister 4 of 10 tables (40%)" in str(error.value)
    assert "--allow-mass-removal" in str(error.value)


def test_the_error_ends_with_the_line_that_keeps_the_data() -> None:
    there = live(live_namespace("old", owner=OWNER), *(live_table(f"old/{path}", owner=OWNER) for path in TEN))
    with pytest.raises(SafetyError) as error:
        check_removals(plan_of(desired(*(table(f"new/{path}") for path in TEN)), there))
    assert str(error.value).endswith("write in the catalog's block: moved: [{from: old, to: new}]")


def test_a_share_just_over_the_limit_also_reads_so() -> None:
    names = [f"t{number}" for number in range(13)]
    there = live(*(live_table(path, owner=OWNER) for path in names))
    with pytest.raises(SafetyError, match=r"4 of 13 tables \(30\.8%\); the limit is 30%"):
        check_removals(plan_of(desired(*map(table, names[4:])), there))


def test_few_tables_have_no_limit_but_an_empty_manifest_has() -> None:
    there = live(*(live_table(path, owner=OWNER) for path in TEN[:9]))
    check_removals(plan_of(desired(table("t0")), there))
    with pytest.raises(SafetyError, match="names no object of this catalog"):
        check_removals(plan_of(desired(), there))


def test_unmanaged_tables_do_not_dilute_the_share() -> None:
    unmanaged = [live_table(f"u{number}") for number in range(1000)]
    there = live(*(live_table(path, owner=OWNER) for path in TEN), *unmanaged)
    with pytest.raises(SafetyError, match="4 of 10 tables"):
        check_removals(plan_of(desired(*map(table, TEN[4:])), there))


def test_under_prune_all_they_do_count() -> None:
    there = live(*(live_table(path) for path in TEN))
    check_removals(plan_of(desired(*map(table, TEN[3:]), prune=Prune.ALL), there))


def test_unmanaged_tables_that_the_manifest_calls_absent_do_not_count() -> None:
    there = live(*(live_table(path) for path in TEN))
    plan = plan_of(desired(*(table(path, absent=True) for path in TEN)), there)
    assert len(plan.changes) == len(TEN)
    check_removals(plan)


def test_the_manifest_sets_the_limits() -> None:
    there = live(*(live_table(path, owner=OWNER) for path in TEN))
    wanted = desired(*map(table, TEN[6:]))
    check_removals(plan_of(wanted, there, thresholds=Thresholds(max_removal_percent=60)))
    check_removals(plan_of(wanted, there, thresholds=Thresholds(min_tables=11)))
    with pytest.raises(SafetyError):
        check_removals(plan_of(desired(*map(table, TEN[1:])), there, thresholds=Thresholds(max_removal_percent=0)))
