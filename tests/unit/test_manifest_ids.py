"""The `id` of a manifest: which marks are its own, and what becomes of those that are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.model import ownership
from reconciler.model.desired import DesiredCatalog, DesiredMove, DesiredPolicy, Prune
from reconciler.model.live import LiveTable, Snapshot
from reconciler.model.names import Scope
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.facts import PlanOptions
from reconciler.writing.importable import identity_of, manageable
from tests.plans import assert_blocked, noted
from tests.unit.applier.conftest import make_world, world
from tests.unit.applier.world import World
from tests.unit.planner.building import (
    OWNER,
    at,
    claim,
    desired,
    live,
    live_namespace,
    live_table,
    plan_of,
    steps,
    table,
)

__all__ = ["make_world", "world"]

OURS, THEIRS = f"{OWNER}/1f2e", f"{OWNER}/9a8b"


def owned(catalog: DesiredCatalog, owner: str = OURS) -> DesiredCatalog:
    return replace(catalog, owner=owner)


def marked(owner: str | None, tier: str = "gold", name: str = "t") -> LiveTable:
    """Return a table with the marks of ``owner``, as its catalog keeps them."""
    bare = live_table(name, {"tier": tier}, owner=OWNER)
    marks = ownership.owner_marks(owner, None)
    kept = {key: value for key, value in {**bare.properties, **marks}.items() if value is not None}
    return replace(bare, properties=kept)


WANTED = desired(table("t", {"tier": "gold"}))


def test_the_mark_of_a_manifest_keeps_its_form_and_its_id_is_beside_it() -> None:
    assert ownership.owner_marks(OURS, None) == {
        "lancens.managed-by": OWNER,
        "lancens.manifest-id": "1f2e",
        "lancens.policy": None,
    }
    assert ownership.owner_of(marked(OURS).properties) == OURS
    assert ownership.owner_of(marked(OWNER).properties) == OWNER
    assert ownership.owner_of({"lancens.manifest-id": "1f2e"}) is None


@pytest.mark.parametrize("owner", [OURS, OWNER], ids=["ours", "without an id"])
def test_a_mark_with_our_id_or_none_is_ours(owner: str) -> None:
    assert plan_of(owned(WANTED), live(marked(owner))).is_empty
    assert steps(plan_of(owned(desired()), live(marked(owner)))) == ["deregister-table t"]


def test_the_next_change_of_an_entry_writes_the_id(world: World) -> None:
    world.has(live(marked(OWNER, "silver"), live_namespace("a", {"tier": "silver"}, owner=OWNER)))
    wanted = owned(desired(table("t", {"tier": "gold"}), claim("a", {"tier": "gold"})))
    plan = world.plan(wanted)
    assert {change.after.managed_by for change in plan.changes if change.after} == {OURS}
    assert world.apply(plan).ok
    there = world.backend.scan()
    for one in (there.tables["t",], there.namespaces["a",]):
        assert (one.properties["lancens.managed-by"], one.properties["lancens.manifest-id"]) == (OWNER, "1f2e")
    assert world.plan(wanted).is_empty


@pytest.mark.parametrize("mine", [OURS, OWNER], ids=["another id", "no id"])
def test_what_a_manifest_of_the_same_name_marked_is_not_ours(mine: str) -> None:
    params = {"owner": THEIRS, "manifest": mine, "value": "9a8b"}
    there = live(marked(THEIRS, "silver"))
    for wanted in (WANTED, desired(), desired(table("t", absent=True)), desired(prune=Prune.ALL)):
        assert_blocked(plan_of(owned(wanted, mine), there), "lake/t", ReasonCode.MANIFEST_ID_DIFFERS, **params)
    assert plan_of(owned(desired(prune=Prune.NEVER), mine), there).is_empty
    spaces = live(replace(live_namespace("a", owner=OWNER), properties=marked(THEIRS).properties))
    assert_blocked(plan_of(owned(desired(), mine), spaces), "lake/a", ReasonCode.MANIFEST_ID_DIFFERS, **params)
    taken = plan_of(owned(WANTED, mine), there, options=PlanOptions(take_over=True))
    assert [(change.action.value, change.after and change.after.managed_by) for change in taken.changes] == [
        ("update-table", mine)
    ]


def test_a_table_of_another_id_does_not_move() -> None:
    wanted = replace(owned(desired(table("u"))), moves=(DesiredMove(("t",), ("u",), at(9), is_table=True),))
    plan = plan_of(wanted, live(marked(THEIRS)))
    assert_blocked(plan, "lake/u", ReasonCode.MANIFEST_ID_DIFFERS, name="t", value="9a8b")


def test_a_move_that_was_begun_without_an_id_is_finished(world: World) -> None:
    origin = marked(OWNER)
    world.has(live(origin, replace(origin, id=("u",))))
    wanted = owned(desired(table("u", {"tier": "gold"})))
    moving = replace(wanted, moves=(DesiredMove(("t",), ("u",), at(9), is_table=True),))
    assert world.apply(world.plan(moving)).ok
    assert {*world.backend.scan().tables} == {("u",)}
    assert world.plan(wanted).is_empty


def test_the_mark_of_policies_has_the_id_too(world: World) -> None:
    policy = DesiredPolicy("**", Scope(("**",)), at(5), {"team": "ads"})
    wanted = replace(owned(desired()), policies=(policy,))
    world.has(live(live_table("t")))
    assert world.apply(world.plan(wanted)).ok
    there = world.backend.scan().tables["t",]
    assert (there.properties["lancens.policy"], there.properties["lancens.manifest-id"]) == (OWNER, "1f2e")
    assert world.plan(wanted).is_empty
    other = replace(wanted, owner=THEIRS, policies=(replace(policy, properties={"team": "ml"}),))
    assert noted(world.plan(other), "owner") == [(NoteCode.POLICY_NOT_APPLIED, OURS)]
    assert world.plan(owned(desired(), THEIRS)).is_empty
    assert [change.action.value for change in world.plan(owned(desired())).changes] == ["update-table"]


def test_a_saved_plan_is_replanned_with_the_ids(world: World) -> None:
    world.has(Snapshot(tables={("t",): marked(THEIRS, "silver")}))
    assert [one.code for one in world.plan(owned(WANTED)).blocked] == [ReasonCode.MANIFEST_ID_DIFFERS]


def test_an_import_takes_the_id_of_the_marks_that_have_one() -> None:
    there = live(marked(OWNER, name="a"), marked(OWNER, name="b"), marked(OURS, name="c"))
    manifest, _, catalog = OWNER.partition("/")
    identity = identity_of(there, None, manifest)
    assert identity.owner(catalog) == OURS
    assert manageable(there, OURS).tables.keys() == there.tables.keys()
