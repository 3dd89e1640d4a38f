"""What is planned for namespaces, and which of them can go."""

from __future__ import annotations

import pytest

from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import Prune
from reconciler.model.names import Scope
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.facts import PlanOptions
from tests.plans import assert_blocked, noted
from tests.unit.planner.building import (
    OTHER,
    OWNER,
    claim,
    desired,
    live,
    live_namespace,
    live_table,
    plan_of,
    steps,
    table,
)


class TestPaths:
    def test_a_path_is_created_and_marked(self) -> None:
        plan = plan_of(desired(table("a/b/t")), live())
        assert steps(plan) == ["create-namespace a", "create-namespace a/b", "declare-table a/b/t"]
        assert {change.code for change in plan.changes[:2]} == {ReasonCode.IN_MANIFEST}
        assert all(change.after and change.after.managed_by == OWNER for change in plan.changes)

    def test_a_path_that_is_there_is_never_adopted_or_updated(self) -> None:
        there = live(live_namespace("a", {"team": "x"}), live_table("a/t", owner=OWNER))
        assert plan_of(desired(table("a/t")), there, options=PlanOptions(adopt=True)).is_empty

    def test_a_path_of_another_manifest_is_shared(self) -> None:
        there = live(live_namespace("a", {"team": "x"}, owner=OTHER), live_table("a/t", owner=OWNER))
        assert plan_of(desired(table("a/t")), there).is_empty


class TestClaims:
    def test_a_differing_property_is_updated(self) -> None:
        plan = plan_of(desired(claim("a", {"team": "ml"})), live(live_namespace("a", {"team": "ads"}, owner=OWNER)))
        assert steps(plan) == ["update-namespace a"]

    def test_equal_and_unowned_is_a_note(self) -> None:
        plan = plan_of(desired(claim("a", {"team": "ml"})), live(live_namespace("a", {"team": "ml"})))
        assert plan.is_empty
        assert noted(plan, "where", "count") == [(NoteCode.ADOPTABLE, "lake", 1)]

    def test_what_another_manifest_owns_is_a_conflict(self) -> None:
        assert_blocked(
            plan_of(desired(claim("a", {"team": "ml"})), live(live_namespace("a", owner=OTHER))),
            "lake/a",
            ReasonCode.FOREIGN_OWNER,
            owner=OTHER,
        )

    def test_a_catalog_that_cannot_alter_a_namespace_is_a_conflict(self) -> None:
        assert_blocked(
            plan_of(
                desired(claim("a", {"team": "ml"})),
                live(live_namespace("a", owner=OWNER)),
                capabilities=Capabilities(alter_namespace=False),
            ),
            "lake/a",
            ReasonCode.CANNOT_ALTER_NAMESPACE,
        )


class TestKinds:
    glue = Capabilities(namespace_kinds=("catalog", "database"))

    def test_what_holds_namespaces_is_the_first_kind(self) -> None:
        plan = plan_of(desired(table("a/b/t")), live(), capabilities=self.glue)
        assert [change.after and change.after.kind for change in plan.changes[:2]] == ["catalog", "database"]

    def test_the_manifest_can_say_otherwise(self) -> None:
        plan = plan_of(desired(claim("a", kind="catalog")), live(), capabilities=self.glue)
        assert plan.changes[0].after
        assert plan.changes[0].after.kind == "catalog"

    def test_a_kind_does_not_change(self) -> None:
        assert_blocked(
            plan_of(
                desired(claim("a", kind="catalog")),
                live(live_namespace("a", kind="database")),
                capabilities=self.glue,
            ),
            "lake/a",
            ReasonCode.KIND_CHANGED,
            kind="database",
            other_kind="catalog",
        )

    def test_the_kind_that_holds_tables_holds_no_namespaces(self) -> None:
        for there in (live(), live(live_namespace("a", kind="database"))):
            wanted = claim("a", kind="database") if not there.namespaces else claim("a")
            assert_blocked(
                plan_of(desired(wanted, table("a/b/t")), there, capabilities=self.glue),
                "lake/a",
                ReasonCode.KIND_HOLDS_NO_NAMESPACES,
                kind="database",
            )

    def test_the_kind_that_holds_namespaces_holds_no_tables(self) -> None:
        for wanted in (desired(table("a/b/t"), table("a/t")), desired(claim("a", kind="catalog"), table("a/t"))):
            assert_blocked(
                plan_of(wanted, live(), capabilities=self.glue),
                "lake/a",
                ReasonCode.KIND_HOLDS_NO_TABLES,
                kind="catalog",
            )
        assert_blocked(
            plan_of(desired(table("a/t")), live(live_namespace("a", kind="catalog")), capabilities=self.glue),
            "lake/a",
            ReasonCode.KIND_HOLDS_NO_TABLES,
            kind="catalog",
        )

    def test_the_outer_kind_is_created_as_deep_as_the_service_can(self) -> None:
        shallow = Capabilities(namespace_kinds=("catalog", "database"), outer_kind_depth=1)
        assert steps(plan_of(desired(table("a/b/t")), live(), capabilities=shallow))[0] == "create-namespace a"
        assert_blocked(
            plan_of(desired(table("a/b/c/t")), live(), capabilities=shallow),
            "lake/a/b",
            ReasonCode.KIND_NOT_NESTABLE,
            kind="catalog",
        )
        there = live(live_namespace("a", kind="catalog"), live_namespace("a/b", kind="catalog"))
        wanted = desired(table("a/b/c/t"))
        assert steps(plan_of(wanted, there, capabilities=shallow))[0] == "create-namespace a/b/c"


class TestFixedLevels:
    unity = Capabilities(fixed_levels=1)

    def test_one_that_is_missing_is_a_conflict(self) -> None:
        assert_blocked(
            plan_of(desired(table("main/s/t")), live(), capabilities=self.unity),
            "lake/main",
            ReasonCode.MADE_OUTSIDE,
        )

    def test_one_that_is_there_is_never_touched(self) -> None:
        there = live(live_namespace("main", owner=OWNER), live_namespace("old", owner=OWNER))
        plan = plan_of(desired(table("main/s/t"), prune=Prune.ALL), there, capabilities=self.unity)
        assert steps(plan) == ["create-namespace main/s", "declare-table main/s/t"]


class TestDrops:
    def test_an_owned_one_that_will_be_empty_goes_after_its_tables(self) -> None:
        there = live(
            live_namespace("a", owner=OWNER), live_namespace("a/b", owner=OWNER), live_table("a/b/t", owner=OWNER)
        )
        plan = plan_of(desired(claim("keep", {"x": "y"})), there)
        assert steps(plan)[1:] == ["deregister-table a/b/t", "drop-namespace a/b", "drop-namespace a"]
        assert [change.depends_on for change in plan.changes] == [(), (), (1,), (2,)]

    @pytest.mark.parametrize("owner", [None, OTHER])
    def test_what_is_not_owned_stays(self, owner: str | None) -> None:
        assert plan_of(desired(claim("k", {"x": "y"})), live(live_namespace("a", owner=owner))).changes[0].after

    def test_one_that_keeps_something_stays_with_a_note(self) -> None:
        there = live(live_namespace("a", owner=OWNER), live_table("a/unmanaged"))
        plan = plan_of(desired(claim("k", {"x": "y"})), there)
        assert steps(plan) == ["create-namespace k"]
        assert (NoteCode.KEPT_NAMESPACE, "lake/a", 1) in noted(plan, "where", "count")

    def test_foreign_objects_keep_it(self) -> None:
        there = live(live_namespace("a", owner=OWNER))
        plan = plan_of(desired(claim("a", absent=True)), there, occupants={"a": ["a_view", "parquet"]})
        assert plan.is_empty
        assert noted(plan, "where", "count", "names") == [(NoteCode.KEPT_NAMESPACE, "lake/a", 2, ("a_view", "parquet"))]

    def test_a_protected_one_is_guarded(self) -> None:
        plan = plan_of(desired(claim("k", {"x": "y"})), live(live_namespace("a", owner=OWNER, protect=True)))
        assert [(guard.address, guard.would) for guard in plan.guards] == [("lake/a", "drop-namespace")]

    def test_a_protected_table_keeps_its_namespace(self) -> None:
        there = live(live_namespace("a", owner=OWNER), live_table("a/t", owner=OWNER, protect=True))
        assert plan_of(desired(claim("a", absent=True)), there).is_empty

    def test_absent_takes_an_unowned_empty_one(self) -> None:
        assert steps(plan_of(desired(claim("a", absent=True)), live(live_namespace("a")))) == ["drop-namespace a"]


class TestScopeAndSelection:
    def test_what_is_out_of_scope_is_not_pruned(self) -> None:
        there = live(
            live_table("in/t", owner=OWNER), live_table("out/t", owner=OWNER), live_namespace("out", owner=OWNER)
        )
        plan = plan_of(desired(claim("in", {"x": "y"}), scope=Scope(("in/**",))), there)
        assert steps(plan) == ["update-namespace in", "deregister-table in/t"]

    def test_selection_pulls_in_missing_ancestors_and_removes_nothing_else(self) -> None:
        wanted = desired(table("a/b/t"), table("a/b/u"), table("c/t"))
        there = live(live_table("gone/t", owner=OWNER))
        plan = plan_of(wanted, there, options=PlanOptions(select=Scope(("a/b/t",))))
        assert steps(plan) == ["create-namespace a", "create-namespace a/b", "declare-table a/b/t"]
