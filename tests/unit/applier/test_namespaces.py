from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reconciler.applier.report import Status
from reconciler.backends.glue import GlueBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredMove, Prune
from reconciler.model.errors import PermissionDeniedError
from reconciler.model.live import PropertyChanges
from tests.unit.applier.world import World, statuses
from tests.unit.planner.building import OWNER, at, claim, desired, live, live_namespace, marks


def test_a_namespace_is_made_with_its_properties_and_marks(world: World) -> None:
    report = world.apply(world.plan(desired(claim("features", {"team": "ml"}, protect=True))))
    assert report.ok
    assert world.namespace("features").properties == marks({"team": "ml"}, OWNER, protect=True)


def test_a_namespace_is_made_of_the_kind_the_plan_says(world: World) -> None:
    world.backend.known_capabilities = replace(
        world.backend.known_capabilities, namespace_kinds=("catalog", "database")
    )
    world.apply(world.plan(desired(claim("outer/inner"))))
    assert world.backend.kinds == {("outer",): "catalog", ("outer", "inner"): "database"}


def test_a_path_is_made_owned_but_without_properties(world: World) -> None:
    world.apply(world.plan(desired(claim("a/b"))))
    assert world.namespace("a").properties == {ownership.MANAGED_BY: OWNER}


def test_a_namespace_someone_else_made_equal_in_the_meantime_is_done(world: World) -> None:
    plan = world.plan(desired(claim("features", {"team": "ml"})))

    def race(name: str) -> None:
        world.ledger.before = lambda _: None
        MemoryBackend.insert_namespace(world.backend, ("features",), marks({"team": "ml"}, OWNER))

    world.ledger.before = race
    assert statuses(world.apply(plan)) == {"features": Status.ALREADY}
    assert world.writes == []


def test_a_namespace_someone_else_made_differently_in_the_meantime_fails_and_is_left_alone(world: World) -> None:
    plan = world.plan(desired(claim("features", {"team": "ml"})))

    def race(name: str) -> None:
        world.ledger.before = lambda _: None
        MemoryBackend.insert_namespace(world.backend, ("features",), {"team": "web"})

    world.ledger.before = race
    [result] = world.apply(plan).results
    assert result.status is Status.FAILED
    assert result.message.startswith("stale: ")
    assert "properties.team planned on ml, now web" in result.message
    assert world.namespace("features").properties == {"team": "web"}


def test_a_database_of_glue_under_another_name_gets_no_location_of_the_old_one(
    make_world: Callable[[Capabilities], World],
) -> None:
    world = make_world(Capabilities(namespace_places=GlueBackend.known_capabilities.namespace_places))
    old = live_namespace("old", owner=OWNER)
    world.has(live(replace(old, properties={**old.properties, "location": "s3://lake/old", "notes": "theirs"})))
    moves = (DesiredMove(("old",), ("new",), at(), is_table=False),)
    assert world.apply(world.plan(replace(desired(claim("new")), moves=moves))).ok
    assert world.namespace("new").properties == {"notes": "theirs", ownership.MANAGED_BY: OWNER}


def test_an_update_sets_and_removes_managed_keys_and_leaves_the_rest(world: World) -> None:
    there = live_namespace("features", {"team": "ml", "tier": "gold"}, owner=OWNER, protect=True)
    world.has(live(there))
    MemoryBackend.alter_namespace(world.backend, ("features",), PropertyChanges({"engine.stats": "7"}))
    report = world.apply(world.plan(desired(claim("features", {"team": "web"}, protect=False))))
    assert report.ok
    assert world.namespace("features").properties == {**marks({"team": "web"}, OWNER), "engine.stats": "7"}


def test_a_namespace_is_dropped(world: World) -> None:
    world.has(live(live_namespace("old", owner=OWNER)))
    assert world.apply(world.plan(desired())).ok
    assert world.state().namespaces == {}


def test_a_namespace_that_got_company_since_stays_with_a_note_and_without_a_failure(world: World) -> None:
    world.has(live(live_namespace("old", owner=OWNER), live_namespace("old/er", owner=OWNER)))
    plan = world.plan(desired())
    world.backend.add_foreign(("old", "er", "view"))
    report = world.apply(plan)
    assert statuses(report) == {"old/er": Status.KEPT, "old": Status.KEPT}
    assert all("not empty" in result.message for result in report.results)
    assert report.ok
    assert set(world.state().namespaces) == {("old",), ("old", "er")}


def test_a_namespace_that_vanished_is_dropped_already(world: World) -> None:
    world.has(live(live_namespace("old", owner=OWNER)))
    plan = world.plan(desired())

    def race(name: str) -> None:
        world.ledger.before = lambda _: None
        MemoryBackend.remove_namespace(world.backend, ("old",))

    world.ledger.before = race
    assert statuses(world.apply(plan)) == {"old": Status.ALREADY}


def test_a_namespace_protected_since_the_plan_is_not_dropped(world: World) -> None:
    world.has(live(live_namespace("old", owner=OWNER)))
    plan = world.plan(desired())
    MemoryBackend.alter_namespace(world.backend, ("old",), PropertyChanges({ownership.PROTECT: "true"}))
    [result] = world.apply(plan, check=False).results
    assert result.status is Status.FAILED
    assert result.message.startswith("stale: protect ")
    assert result.message.endswith("false, now true")
    assert world.writes == []


def test_the_error_of_a_catalog_is_the_message_of_the_change(world: World) -> None:
    world.refuse("insert_namespace a", PermissionDeniedError("memory: not you"))
    [result] = world.apply(world.plan(desired(claim("a"), prune=Prune.NEVER))).results
    assert (result.status, result.message) == (Status.FAILED, "memory: not you")
