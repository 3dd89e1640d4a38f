"""Tables and namespaces that get another name: what is planned, what is blocked, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import (
    DesiredCatalog,
    DesiredMove,
    DesiredNamespace,
    DesiredTable,
    Prune,
    Thresholds,
)
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot, StorageKind
from reconciler.model.names import Scope
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.model.tags import FoundTags
from reconciler.planner.comparison import TableComparison
from reconciler.planner.facts import CatalogInput, PlanOptions
from reconciler.planner.moves import NO_MOVES, pairs
from reconciler.planner.outcome import CatalogContext
from tests.plans import assert_blocked, blocked, noted
from tests.unit.planner.building import (
    OTHER,
    OWNER,
    USERS,
    at,
    claim,
    desired,
    identifier,
    live,
    live_namespace,
    live_table,
    plan_of,
    steps,
    stored,
    table,
)

IN_PLACE = Capabilities(rename_within=0)
ANEW = Capabilities(lost_on_move="its grants")
PLACE = "/data/features/users.lance"
CUSTOMERS = "lake/features/customers"


def moving(
    *blocks: DesiredTable | DesiredNamespace,
    prune: Prune = Prune.OWNED,
    lines: Mapping[str, str] | None = None,
    **more: str,
) -> DesiredCatalog:
    """Want ``blocks``; lines are written ``features_users="features/customers"``."""
    wanted = desired(*blocks, prune=prune)
    return replace(
        wanted,
        moves=tuple(
            DesiredMove(tuple(old.split("_")), identifier(new), at(9 + number), identifier(new) in wanted.tables)
            for number, (old, new) in enumerate({**(lines or {}), **more}.items())
        ),
    )


RENAMED = moving(table("features/customers", {"tier": "gold"}), features_users="features/customers")
USERS_THERE = live(live_table("features/users", {"tier": "gold"}, owner=OWNER))


@pytest.mark.parametrize("able", [IN_PLACE, ANEW])
def test_a_table_gets_its_new_name_and_nothing_is_made_or_removed(able: Capabilities) -> None:
    plan = plan_of(RENAMED, USERS_THERE, capabilities=able)
    assert steps(plan) == ["move-table features/customers"]
    [change] = plan.changes
    assert (change.moved_from, change.symbol, change.fields) == (("features", "users"), ">", ())
    assert change.before == change.after
    assert str(change.source) == "lancens.yaml:9"
    assert change.reason == "was features/users" + ("; re-created, which loses its grants" if able is ANEW else "")
    states = {one.identifier: one.view for one in plan.fingerprints if one.kind == "table"}
    assert states == {("features", "customers"): None, ("features", "users"): change.before}


def test_what_its_block_says_otherwise_is_done_in_the_same_change() -> None:
    wanted = moving(table("features/customers", {"tier": "silver"}, protect=True), features_users="features/customers")
    [change] = plan_of(wanted, USERS_THERE, capabilities=IN_PLACE).changes
    assert [(field.path, field.before, field.after) for field in change.fields] == [
        ("properties.tier", "gold", "silver"),
        ("protect", "false", "true"),
    ]


def test_what_nobody_owns_is_marked_as_it_moves() -> None:
    there = live(live_table("features/users", {"tier": "gold"}))
    [change] = plan_of(RENAMED, there, capabilities=IN_PLACE).changes
    assert change.after is not None
    assert change.after.managed_by == OWNER


def test_a_catalog_that_cannot_alter_takes_changes_by_re_creating_the_entry() -> None:
    wanted = moving(table("features/customers", {"tier": "silver"}), features_users="features/customers")
    rigid = replace(ANEW, alter_table=False, relocate_table=False)
    assert steps(plan_of(wanted, USERS_THERE, capabilities=rigid)) == ["move-table features/customers"]
    in_place = plan_of(wanted, USERS_THERE, capabilities=replace(rigid, rename_within=0))
    assert_blocked(in_place, CUSTOMERS, ReasonCode.CANNOT_ALTER)


def test_a_move_that_takes_a_new_entry_is_blocked_where_none_can_be_made() -> None:
    """Databricks makes no Lance tables; an unfinished move is finished all the same, which makes none."""
    able = replace(ANEW, makes_no_tables="DELTA only")
    plan = plan_of(RENAMED, USERS_THERE, capabilities=able)
    assert_blocked(plan, CUSTOMERS, ReasonCode.MAKES_NO_TABLES, name="features/users", detail="DELTA only")
    assert steps(plan) == []
    made = live_table("features/customers", {"tier": "gold"}, owner=OWNER, location=PLACE)
    assert steps(plan_of(RENAMED, live(*USERS_THERE.tables.values(), made), capabilities=able)) == [
        "move-table features/customers"
    ]
    assert steps(plan_of(RENAMED, USERS_THERE, capabilities=replace(able, rename_within=0))) == [
        "move-table features/customers"
    ]


def test_neither_there_is_any_table_and_a_note() -> None:
    plan = plan_of(RENAMED, live(live_namespace("features")))
    assert steps(plan) == ["declare-table features/customers"]
    assert noted(plan, "name", "other", "line") == [
        (NoteCode.MOVE_MATCHES_NOTHING, "features/users", "features/customers", "lancens.yaml:9")
    ]
    elsewhere = plan_of(RENAMED, live(live_namespace("features")), options=PlanOptions(select=Scope(("other/**",))))
    assert noted(elsewhere) == []


def test_moved_already_is_no_change_and_a_note() -> None:
    plan = plan_of(RENAMED, live(live_table("features/customers", {"tier": "gold"}, owner=OWNER)))
    assert plan.is_empty
    assert noted(plan, "name", "other", "line") == [
        (NoteCode.MOVE_DONE, "features/users", "features/customers", "lancens.yaml:9")
    ]


def test_a_mass_of_lines_that_can_go_is_one_note() -> None:
    names = [f"t{number}" for number in range(5)]
    wanted = moving(*(table(f"a/{name}") for name in names), lines={f"b_{name}": f"a/{name}" for name in names})
    plan = plan_of(wanted, live(*(live_table(f"a/{name}", owner=OWNER) for name in names)))
    assert noted(plan, "count") == [(NoteCode.MOVE_DONE, 5)]


def test_an_unfinished_move_is_finished() -> None:
    there = live(
        live_table("features/users", {"tier": "gold"}, owner=OWNER),
        live_table("features/customers", {"tier": "gold"}, owner=OWNER, location=PLACE),
    )
    plan = plan_of(RENAMED, there, capabilities=ANEW)
    assert steps(plan) == ["move-table features/customers"]
    [change] = plan.changes
    assert (change.code, change.params["name"]) == (ReasonCode.MOVE_RESUMED, "features/users")
    assert change.found is not None
    states = {one.identifier: one.view for one in plan.fingerprints if one.kind == "table"}
    assert states == {("features", "customers"): change.found, ("features", "users"): change.before}


@pytest.mark.parametrize(
    ("place", "owner"),
    [("/data/other.lance", OWNER), (PLACE, None), (PLACE, OTHER)],
    ids=["elsewhere", "nobody", "other"],
)
def test_both_there_otherwise_is_blocked_and_neither_is_pruned(place: str, owner: str | None) -> None:
    there = live(
        live_table("features/users", {"tier": "gold"}, owner=OWNER),
        live_table("features/customers", {"tier": "gold"}, owner=owner, location=place),
    )
    plan = plan_of(RENAMED, there, options=PlanOptions(take_over=True))
    assert plan.changes == ()
    both = {"name": "features/users", "location": PLACE, "other_location": place}
    assert_blocked(plan, CUSTOMERS, ReasonCode.BOTH_NAMES_THERE, **both)


def test_anothers_needs_take_over() -> None:
    there = live(live_table("features/users", {"tier": "gold"}, owner=OTHER))
    plan = plan_of(RENAMED, there)
    assert plan.changes == ()
    assert_blocked(plan, CUSTOMERS, ReasonCode.FOREIGN_OWNER, name="features/users", owner=OTHER)
    [change] = plan_of(RENAMED, there, options=PlanOptions(take_over=True)).changes
    assert change.after is not None
    assert change.after.managed_by == OWNER


def test_what_is_protected_is_blocked_until_its_block_says_otherwise() -> None:
    there = live(live_table("features/users", owner=OWNER, protect=True))
    for protect in (None, True):
        wanted = moving(table("features/customers", protect=protect), features_users="features/customers")
        plan = plan_of(wanted, there)
        assert plan.changes == ()
        assert_blocked(plan, CUSTOMERS, ReasonCode.PROTECTED, name="features/users")
    wanted = moving(table("features/customers", protect=False), features_users="features/customers")
    assert steps(plan_of(wanted, there)) == ["move-table features/customers"]


def test_a_root_table_that_is_named_by_its_directory_is_blocked() -> None:
    pinned = Capabilities(rename_within=0, pinned_root_tables=True)
    for wanted, there in (
        (moving(table("new"), old="new"), live(live_table("old", owner=OWNER))),
        (moving(table("a/new"), old="a/new"), live(live_table("old", owner=OWNER))),
        (moving(table("new"), a_old="new"), live(live_table("a/old", owner=OWNER))),
    ):
        plan = plan_of(wanted, there, capabilities=pinned)
        assert [change.kind for change in plan.changes if change.kind == "table"] == []
        assert ReasonCode.NAMED_BY_DIRECTORY in {code for _, code in blocked(plan)}


def test_without_marks_a_table_is_renamed_in_place_or_not_at_all() -> None:
    there = live(live_table("features/users"))
    wanted = moving(table("features/customers"), features_users="features/customers")
    markless = plan_of(wanted, there, capabilities=Capabilities(table_markers=False))
    assert_blocked(markless, CUSTOMERS, ReasonCode.CANNOT_RENAME)
    in_place = replace(IN_PLACE, table_markers=False)
    assert steps(plan_of(wanted, there, capabilities=in_place)) == ["move-table features/customers"]


def test_another_location_waits_for_the_next_plan() -> None:
    wanted = moving(table("features/customers", location="/data/new.lance"), features_users="features/customers")
    there = live(live_table("features/users", owner=OWNER))
    found = {"features/customers": stored(StorageKind.DATASET, "/data/new.lance", USERS)}
    plan = plan_of(wanted, there, storage=found)
    assert_blocked(plan, CUSTOMERS, ReasonCode.MOVED_AND_RELOCATED)
    assert plan.changes == ()


def test_a_move_is_no_removal() -> None:
    names = [f"t{number}" for number in range(10)]
    wanted = moving(*(table(f"b/{name}") for name in names), lines={f"a_{name}": f"b/{name}" for name in names})
    there = live(live_namespace("a", owner=OWNER), *(live_table(f"a/{name}", owner=OWNER) for name in names))
    plan = plan_of(wanted, there, capabilities=IN_PLACE, thresholds=Thresholds(0, 1))
    assert (plan.catalogs[0].removed_tables, plan.options.mass_removal) == (0, False)
    assert plan.summary().move == 10


def test_a_namespace_takes_its_tables_and_goes_when_it_is_empty() -> None:
    wanted = moving(table("new/a"), table("new/sub/b"), claim("new", {"team": "x"}), old="new")
    there = live(
        live_namespace("old", owner=OWNER),
        live_namespace("old/sub", owner=OWNER),
        live_table("old/a", owner=OWNER),
        live_table("old/sub/b"),
    )
    plan = plan_of(wanted, there, capabilities=IN_PLACE)
    assert steps(plan) == [
        "create-namespace new",
        "create-namespace new/sub",
        "move-table new/a",
        "move-table new/sub/b",
        "drop-namespace old/sub",
        "drop-namespace old",
    ]
    assert plan.changes[4].depends_on == (1, 3)
    assert [change.takes_from for change in plan.changes[:2]] == [("old",), ("old", "sub")]


@pytest.mark.parametrize("lost", ["", "its grants"])
def test_a_moved_namespace_names_what_its_service_does_not_carry_over(lost: str) -> None:
    there = live(live_namespace("old", owner=OWNER), live_table("old/a", owner=OWNER))
    able = Capabilities(rename_within=0, lost_with_namespace=lost)
    change = plan_of(moving(table("new/a"), claim("new"), old="new"), there, capabilities=able).changes[0]
    assert change.code == ReasonCode.NAMESPACE_MOVED
    assert change.params == {"name": "old", **({"lost": lost} if lost else {})}


def test_what_a_namespace_does_not_take_stays_with_it() -> None:
    wanted = moving(table("new/a"), old="new", prune=Prune.NEVER)
    there = live(live_namespace("old", owner=OWNER), live_table("old/a", owner=OWNER), live_table("old/theirs"))
    plan = plan_of(wanted, there, capabilities=IN_PLACE)
    assert steps(plan) == ["create-namespace new", "move-table new/a"]
    assert noted(plan, "where", "count") == [(NoteCode.KEPT_NAMESPACE, "lake/old", 1)]
    unmarked = live(live_namespace("old"), live_table("old/a", owner=OWNER))
    plan = plan_of(wanted, unmarked, capabilities=IN_PLACE)
    assert steps(plan) == ["create-namespace new", "move-table new/a"]
    assert noted(plan, "name") == [(NoteCode.MOVE_LEAVES_NAMESPACE, "lake/old")]


def test_what_is_owned_and_kept_goes_with_its_namespace_and_is_not_named_again() -> None:
    """Where nothing is pruned, a table that the manifest names no more would stay alone under the old name."""
    wanted = moving(table("new/a"), old="new", prune=Prune.NEVER)
    old = live_table("old/b", {"tier": "gold"}, owner=OWNER)
    there = live(live_namespace("old", owner=OWNER), live_table("old/a", owner=OWNER), old, live_table("old/theirs"))
    plan = plan_of(wanted, there, capabilities=IN_PLACE)
    assert steps(plan) == ["create-namespace new", "move-table new/a", "move-table new/b"]
    assert plan.changes[2].fields == ()
    done = live(live_namespace("new", owner=OWNER), live_table("new/a", owner=OWNER), replace(old, id=("new", "b")))
    assert steps(plan_of(wanted, done, capabilities=IN_PLACE)) == []
    half = live(
        live_namespace("new", owner=OWNER), live_table("new/a", owner=OWNER), old, replace(old, id=("new", "b"))
    )
    [finished] = plan_of(wanted, half, capabilities=ANEW).changes
    assert (finished.identifier, finished.moved_from) == (("new", "b"), ("old", "b"))
    assert finished.found is not None
    assert steps(plan_of(replace(wanted, prune=Prune.OWNED), there, capabilities=IN_PLACE)) == [
        "create-namespace new",
        "move-table new/a",
        "deregister-table old/b",
    ]


def test_a_protected_namespace_is_blocked_until_its_block_says_otherwise() -> None:
    there = live(live_namespace("old", owner=OWNER, protect=True), live_table("old/a", owner=OWNER))
    plan = plan_of(moving(table("new/a"), claim("new"), old="new"), there, capabilities=IN_PLACE)
    assert_blocked(plan, "lake/new", ReasonCode.PROTECTED, name="old")
    assert steps(plan) == []
    plan = plan_of(moving(table("new/a"), claim("new", protect=False), old="new"), there, capabilities=IN_PLACE)
    assert steps(plan) == ["create-namespace new", "move-table new/a", "drop-namespace old"]


@pytest.mark.parametrize(
    ("blocks", "there"),
    [
        ([claim("new", {"team": "x"})], live_table("new", owner=OTHER)),
        ([claim("up", {"team": "x"}), claim("up/new")], live_namespace("up", owner=OTHER)),
    ],
)
def test_a_namespace_stays_while_its_new_name_cannot_take_its_properties(
    blocks: list[DesiredNamespace], there: LiveNamespace | LiveTable
) -> None:
    wanted = moving(*blocks, old="/".join(blocks[-1].id))
    plan = plan_of(
        wanted, live(live_namespace("old", owner=OWNER), there), capabilities=Capabilities(one_name_space=True)
    )
    assert (len(plan.blocked), steps(plan)) == (1, [])
    assert "lake/old" in [change.address for change in plan.waiting]


def test_properties_that_a_namespace_of_the_new_name_does_not_get_are_told() -> None:
    origin = live_namespace("old", {"tier": "x"}, owner=OWNER)
    origin = replace(origin, properties={**origin.properties, "owner": "ml", "comment": "raw"})
    there = live(origin, live_namespace("new", {"owner": "ml"}), live_table("old/a", owner=OWNER))
    plan = plan_of(moving(table("new/a"), old="new"), there, capabilities=IN_PLACE)
    assert noted(plan, "name", "other", "names") == [
        (NoteCode.MOVE_LEAVES_PROPERTIES, "lake/old", "lake/new", ("comment",))
    ]


@pytest.mark.parametrize("pattern", ["features/users", "features/customers"])
def test_either_name_selects_the_move(pattern: str) -> None:
    options = PlanOptions(select=Scope((pattern,)))
    assert steps(plan_of(RENAMED, USERS_THERE, options=options)) == ["move-table features/customers"]
    other = PlanOptions(select=Scope(("features/other",)))
    assert steps(plan_of(RENAMED, USERS_THERE, options=other)) == []


def test_a_namespace_that_is_blocked_keeps_the_move_waiting() -> None:
    wanted = moving(table("b/t"), claim("b", {"team": "x"}), a_t="b/t")
    there = live(live_namespace("a", owner=OWNER), live_namespace("b", owner=OTHER), live_table("a/t", owner=OWNER))
    plan = plan_of(wanted, there, capabilities=IN_PLACE)
    assert plan.changes == ()
    assert [change.address for change in plan.waiting] == ["lake/b/t"]


# ---- what looks like a rename ----------------------------------------------------------------------------------------


def hints(
    wanted: DesiredCatalog, there: Snapshot, able: Capabilities = IN_PLACE, **options: Any
) -> list[tuple[object, ...]]:
    """Return what each hint at a rename is about: what goes and what comes, and what happens to either."""
    found = noted(plan_of(wanted, there, capabilities=able, **options), "name", "does", "other", "other_does")
    return [said[1:] for said in found if said[0] is NoteCode.RENAME_LIKELY]


def undecided(wanted: DesiredCatalog, there: Snapshot, **options: Any) -> list[tuple[object, ...]]:
    """Return what a note names of tables that nobody can tell apart: new ones, those that go, and the line to add."""
    found = noted(plan_of(wanted, there, **options), "added", "count", "names", "more", "name", "other")
    return [said[1:] for said in found if said[0] is NoteCode.RENAME_UNDECIDED]


def test_a_create_beside_a_deregister_is_told_with_the_line_to_add() -> None:
    wanted = desired(table("features/clients", schema=USERS))
    found = hints(wanted, live(live_table("features/people", owner=OWNER)))
    assert found == [("features/people", "deregister", "features/clients", "create")]


def test_a_namespace_under_another_name_is_one_hint() -> None:
    wanted = desired(table("new/a"), table("new/b"), table("new/c"))
    there = live(live_namespace("old", owner=OWNER), *(live_table(f"old/{name}", owner=OWNER) for name in "abc"))
    assert hints(wanted, there) == [("old", "drop", "new", "create")]


def test_data_that_is_registered_again_is_told_whatever_else_goes() -> None:
    wanted = desired(table("a/x", location="/data/a/old.lance"), table("a/y"))
    there = live(live_table("a/old", owner=OWNER), live_table("a/other", owner=OWNER))
    found = {"a/x": stored(StorageKind.DATASET, "/data/a/old.lance", USERS)}
    assert hints(wanted, there, storage=found) == [("a/old", "deregister", "a/x", "register")]


def test_what_cannot_be_told_apart_is_told_together() -> None:
    two = live(live_table("a/x", owner=OWNER), live_table("a/y", owner=OWNER))
    found = undecided(desired(table("a/new")), two, capabilities=IN_PLACE)
    assert found == [(("a/new",), 1, ("a/x", "a/y"), 2, "a/OLD", "a/new")]
    five = live(*(live_table(f"a/{name}", owner=OWNER) for name in "vwxyz"))
    [(added, count, names, more, old, new)] = undecided(desired(table("a/p"), table("a/q")), five)
    assert (added, count) == (("a/p", "a/q"), 2)
    assert (names, more, old, new) == (("a/v", "a/w", "a/x"), 5, "a/OLD", "a/NEW")
    data = {"a/new": stored(StorageKind.DATASET, "/data/a/new.lance", USERS)}
    assert undecided(desired(table("a/new", location="/data/a/new.lance")), two, storage=data) == []


def test_a_protected_table_that_leaves_the_manifest_is_a_hint_as_well() -> None:
    """It stays, and an empty table would be made beside it."""
    there = live(live_table("features/people", owner=OWNER, protect=True))
    plan = plan_of(desired(table("features/clients", schema=USERS)), there, capabilities=IN_PLACE)
    assert steps(plan) == ["create-table features/clients"]
    found = noted(plan, "name", "other")
    assert found == [(NoteCode.PROTECTED_RENAME_LIKELY, "features/people", "features/clients")]
    two = live(*(live_table(f"a/{name}", owner=OWNER, protect=name == "x") for name in "xy"))
    assert undecided(desired(table("a/new")), two)[0][2:] == (("a/x", "a/y"), 2, "a/OLD", "a/new")
    absent = desired(table("features/clients"), table("features/people", absent=True))
    assert noted(plan_of(absent, there, capabilities=IN_PLACE), "name") == []


@pytest.mark.parametrize(
    ("prune", "select"),
    [
        (Prune.OWNED, Scope(("**",), ("a/people",))),
        (Prune.OWNED, Scope(("**",), ("a/p*",))),
        (Prune.OWNED, Scope(("a/clients",))),
        (Prune.NEVER, Scope(("**",))),
    ],
)
def test_a_table_that_stays_without_a_block_is_a_hint_as_well(prune: Prune, select: Scope) -> None:
    """Nothing removes it, and an empty table would be made beside it."""
    options = PlanOptions(select=select)
    wanted = replace(desired(table("a/clients", schema=USERS)), prune=prune)
    there = live(live_table("a/people", owner=OWNER), live_table("a/theirs", owner=OTHER), live_table("a/free"))
    plan = plan_of(wanted, there, capabilities=IN_PLACE, options=options)
    assert steps(plan) == ["create-table a/clients"]
    found = [said for said in noted(plan, "name", "other", "write") if said[0] is not NoteCode.UNMANAGED]
    line = "moved: [{from: a/people, to: a/clients}]"
    assert found == [(NoteCode.KEPT_RENAME_LIKELY, "a/people", "a/clients", line)]
    moved = replace(wanted, moves=(DesiredMove(("a", "people"), ("a", "clients"), at(), is_table=True),))
    found = noted(plan_of(moved, there, capabilities=IN_PLACE, options=options), "name")
    assert NoteCode.KEPT_RENAME_LIKELY not in {code for code, *_ in found}
    both = replace(desired(table("a/clients"), table("a/people")), prune=prune)
    found = noted(plan_of(both, there, capabilities=IN_PLACE, options=options), "name")
    assert NoteCode.KEPT_RENAME_LIKELY not in {code for code, *_ in found}


@pytest.mark.parametrize(
    ("blocks", "whole", "in_parts"),
    [
        ([], [], []),
        (["a/people"], [], ["a/old"]),  # another part may have a block whose table is new
        (["a/people", "a/clients"], ["a/old"], ["a/old"]),
    ],
)
def test_tables_that_stay_are_collected_only_where_a_new_one_may_be_one_of_them(
    blocks: Sequence[str], whole: Sequence[str], in_parts: Sequence[str]
) -> None:
    wanted = replace(desired(*map(table, blocks)), prune=Prune.NEVER)
    there = live(live_table("a/people", owner=OWNER), live_table("a/old", owner=OWNER))
    context = CatalogContext.of(CatalogInput(wanted, there, IN_PLACE, "memory"))
    for is_whole, kept in ((True, whole), (False, in_parts)):
        compared = TableComparison(is_whole=is_whole)
        compared.compare(context, pairs(NO_MOVES, wanted.tables, there.tables))
        assert ["/".join(name) for name in compared.outcomes.kept] == kept


def test_nothing_is_told_of_what_cannot_be_moved_or_is_absent() -> None:
    said = desired(table("a/new"), table("a/x", absent=True))
    assert hints(said, live(live_table("a/x", owner=OWNER))) == []
    pinned = Capabilities(rename_within=0, pinned_root_tables=True)
    assert hints(desired(table("new")), live(live_table("old", owner=OWNER)), pinned) == []


# ---- the name of a namespace that goes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines", [{"a_c_t": "a/c"}, {"a_x": "b", "b_y": "a"}], ids=["into the name it is below", "into each other's"]
)
def test_a_namespace_has_its_name_until_its_tables_have_moved(lines: Mapping[str, str]) -> None:
    """Where tables and namespaces share names, neither can come first; elsewhere both are planned."""
    wanted = moving(*(table(to) for to in lines.values()), lines=lines)
    spaces = {identifier(old.replace("_", "/"))[:-1] for old in lines}
    there = live(
        *(live_namespace("/".join(one), owner=OWNER) for one in spaces),
        *(live_table(old.replace("_", "/"), owner=OWNER) for old in lines),
    )
    shared = plan_of(wanted, there, capabilities=replace(IN_PLACE, one_name_space=True))
    assert steps(shared) == []
    assert ReasonCode.NAME_TAKEN_UNTIL_MOVED in {code for _, code in blocked(shared)}
    apart = steps(plan_of(wanted, there, capabilities=IN_PLACE))
    assert apart[: len(lines)] == sorted(f"move-table {to}" for to in lines.values())
    assert apart[len(lines) :] == sorted(f"drop-namespace {'/'.join(one)}" for one in spaces)


# ---- a new table under the old name ----------------------------------------------------------------------------------


def test_a_new_table_under_the_old_name_does_not_show_the_data_of_the_one_that_moved() -> None:
    wanted = desired(table("features/users"), table("features/customers"))
    there = live(live_table("features/customers", owner=OWNER, location=PLACE))
    found = {"features/users": stored(StorageKind.DATASET, PLACE, USERS)}
    plan = plan_of(wanted, there, storage=found)
    assert plan.changes == ()
    assert_blocked(
        plan, "lake/features/users", ReasonCode.DEFAULT_LOCATION_TAKEN, location=PLACE, name="lake/features/customers"
    )
    said = desired(table("features/users", location=PLACE), table("features/customers"))
    assert steps(plan_of(said, there, storage=found)) == ["register-table features/users"]
    gone = desired(table("features/users"))
    assert steps(plan_of(gone, there, storage=found)) == [
        "deregister-table features/customers",
        "register-table features/users",
    ]


def test_of_two_lines_about_a_table_its_own_alone_moves_it() -> None:
    wanted = moving(table("b/x"), table("b/z"), table("c/y"), lines={"a": "b", "a_x": "c/y"})
    there = live(live_table("a/x", owner=OWNER), live_table("a/z", owner=OWNER))
    plan = plan_of(wanted, there, capabilities=IN_PLACE)
    moves = {change.identifier: change.moved_from for change in plan.changes if change.kind == "table"}
    assert moves == {("b", "x"): None, ("b", "z"): ("a", "z"), ("c", "y"): ("a", "x")}


WITHOUT_DATA = live(live_table("a/old", owner=OWNER, location="/data/new.lance"))
NOTHING = stored(StorageKind.NOTHING, "/data/new.lance")


def test_a_moved_table_gets_no_data_where_a_blocked_table_is_to_be() -> None:
    """Killed between entry and data, no later plan would write it: the blocked table would keep it from that."""
    tagged = replace(table("t", location="/data/new.lance"), tags={"prod": "2"})
    wanted = moving(table("a/new", schema=USERS), tagged, a_old="a/new")
    facts = {"a/new": NOTHING, "t": replace(NOTHING, tags=FoundTags({}, ("prod",)))}
    plan = plan_of(wanted, WITHOUT_DATA, storage=facts)
    assert steps(plan) == []
    assert blocked(plan) == [
        ("lake/a/new", ReasonCode.LOCATION_AWAITED),
        ("lake/t", ReasonCode.TAG_WITHOUT_VERSION),
    ]


def test_a_moved_table_gets_no_data_where_another_table_is_to_be() -> None:
    wanted = moving(table("a/new", schema=USERS), table("t", location="/data/new.lance"), a_old="a/new")
    plan = plan_of(wanted, WITHOUT_DATA, storage={"a/new": NOTHING, "t": NOTHING})
    assert blocked(plan) == [("lake/a/new", ReasonCode.LOCATION_SHARED), ("lake/t", ReasonCode.LOCATION_SHARED)]


def test_a_moved_table_without_data_gets_it() -> None:
    plan = plan_of(moving(table("a/new", schema=USERS), a_old="a/new"), WITHOUT_DATA, storage={"a/new": NOTHING})
    assert steps(plan) == ["move-table a/new"]
    assert blocked(plan) == []
