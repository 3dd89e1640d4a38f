from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from reconciler.applier.check import check_plan
from reconciler.backends.memory import MemoryBackend
from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import CatalogError, ServiceUnavailableError, StalePlanError
from reconciler.model.live import Snapshot
from reconciler.model.names import Identifier
from reconciler.planner.plan import Plan
from tests.unit.applier.world import World, capable
from tests.unit.planner.building import OWNER, USERS, claim, desired, live, live_namespace, live_table, marks, table


def check(world: World, plan: Plan) -> None:
    check_plan(Plan.from_json(plan.to_json()), world.backends, parallelism=2)


def moved(error: StalePlanError) -> list[tuple[str, ...]]:
    """Return each field that moved: whose it is, its name, what was planned on and what is there now."""
    found = re.findall(r"^  (\S+) +(\S+) +planned on (.*), now (.*)$", str(error), re.MULTILINE)
    return [tuple(one) for one in found]


def test_a_saved_plan_passes_while_nothing_moves(world: World) -> None:
    world.has(live(live_table("a/t", {"api_token": "s3cret", "tier": "gold"}, owner=OWNER, extra={"numFiles": "1"})))
    plan = world.plan(desired(table("a/t", {"api_token": "other", "tier": "gold"}), table("a/new")))
    world.alter("a/t", numFiles="2")
    check(world, plan)


def test_everything_that_moved_is_named_and_nothing_is_written(world: World) -> None:
    world.has(live(live_table("a/one", owner=OWNER), live_table("a/two", {"tier": "x"}, owner=OWNER)))
    plan = world.plan(desired(table("a/one", {"k": "v"}), table("a/two", {"tier": "y"}), table("a/three")))
    world.alter("a/one", location="/data/b.lance")
    world.alter("a/two", tier="z")
    with pytest.raises(StalePlanError) as caught:
        check(world, plan)
    assert "2 of 4 objects changed" in str(caught.value)
    assert moved(caught.value) == [
        ("lake/a/one", "location", "/data/a/one.lance", "/data/b.lance"),
        ("lake/a/two", "properties.tier", "x", "z"),
    ]
    assert world.writes == []


def test_secrets_that_moved_are_told_apart_and_not_shown(world: World) -> None:
    world.has(live(live_table("t", {"api_token": "hunter2"}, owner=OWNER)))
    plan = world.plan(desired(table("t", {"api_token": "wanted"})))
    world.alter("t", api_token="swordfish")
    with pytest.raises(StalePlanError) as caught:
        check(world, plan)
    assert "properties.api_token" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("hunter2", "wanted", "swordfish"))


def test_hostile_text_of_a_catalog_cannot_forge_lines(world: World) -> None:
    world.has(live(live_table("t", {"tier": "x"}, owner=OWNER)))
    plan = world.plan(desired(table("t", {"tier": "y"})))
    world.alter("t", tier="z\n\x1b[2JAll is well.")
    with pytest.raises(StalePlanError, match=r"now z\\n\\x1b\[2JAll is well\."):
        check(world, plan)


def test_a_table_that_appeared_and_one_that_vanished_are_stale(world: World) -> None:
    world.has(live(live_table("a/old", {"k": "v"}, owner=OWNER)))
    plan = world.plan(desired(table("a/old", {"k": "w"}), table("a/new")))
    MemoryBackend.remove_table(world.backend, ("a", "old"))
    MemoryBackend.insert_table(world.backend, ("a", "new"), "/data/x", {})
    with pytest.raises(StalePlanError) as caught:
        check(world, plan)
    assert moved(caught.value) == [
        ("lake/a/new", "existence", "nothing", "there"),
        ("lake/a/old", "existence", "there", "nothing"),
    ]


def test_the_parent_of_what_is_planned_must_not_move_either(world: World) -> None:
    world.has(live(live_namespace("a", {"team": "ml"}, owner=OWNER)))
    plan = world.plan(desired(claim("a", {"team": "ml"}), table("a/t")))
    MemoryBackend.remove_namespace(world.backend, ("a",))
    with pytest.raises(StalePlanError, match=r"lake/a +existence .* there, now nothing"):
        check(world, plan)


def test_a_protection_added_since_is_stale(world: World) -> None:
    world.has(live(live_table("t", owner=OWNER)))
    plan = world.plan(desired())
    world.alter("t", **{ownership.PROTECT: "true"})
    with pytest.raises(StalePlanError, match=r"lake/t +protect .* false, now true"):
        check(world, plan)


def test_what_an_interrupted_apply_of_the_plan_leaves_is_accepted(make_world: Callable[[Capabilities], World]) -> None:
    world = make_world(capable(ignores_location=True))
    there = (live_table("gone", owner=OWNER), live_namespace("old", owner=OWNER))
    world.has(live(*there))
    plan = world.plan(desired(table("new/made", location="/asked"), table("new/fresh", schema=USERS)))
    MemoryBackend.insert_namespace(world.backend, ("new",), marks({}, OWNER))
    MemoryBackend.insert_table(
        world.backend,
        ("new", "made"),
        "/where/the/service/wants",
        {**marks({}, OWNER), ownership.REQUESTED_LOCATION: "/asked"},
    )
    MemoryBackend.remove_table(world.backend, ("gone",))
    MemoryBackend.remove_namespace(world.backend, ("old",))
    check(world, plan)


def test_a_catalog_that_cannot_be_read_is_an_error_that_names_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = world.plan(desired(claim("a")))

    def unavailable(identifier: object) -> None:
        raise ServiceUnavailableError("memory: no answer in 30 s")

    monkeypatch.setattr(world.backend, "load_namespace", unavailable)
    with pytest.raises(CatalogError, match=r"lake \(memory\): no answer in 30 s"):
        check(world, plan)


def _loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the objects that are read one by one from now on."""
    loaded: list[str] = []
    for method in ("load_table", "load_namespace"):
        genuine = getattr(MemoryBackend, method)

        def load(backend: MemoryBackend, identifier: Identifier, genuine: Callable[..., object] = genuine) -> object:
            loaded.append("/".join(identifier))
            return genuine(backend, identifier)

        monkeypatch.setattr(MemoryBackend, method, load)
    return loaded


def test_many_objects_are_read_in_one_scan_and_few_of_many_one_by_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [live_table(f"a/t{number}", owner=OWNER) for number in range(200)]
    world.has(live(*there))
    blocks = [table(f"a/t{number}") for number in range(200)]
    many = world.plan(desired(*blocks, *(table(f"a/new{number}") for number in range(50))))
    few = world.plan(desired(*blocks, table("a/new0"), table("a/new1")))
    loaded = _loaded(monkeypatch)
    assert len(check_plan(many, world.backends)) == 50
    assert loaded == []
    assert len(check_plan(few, world.backends)) == 2
    assert sorted(loaded) == ["a", "a/new0", "a/new1"]


def test_what_is_in_a_namespace_that_does_not_exist_is_not_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.has(live(*(live_table(f"a/t{number}", owner=OWNER) for number in range(400))))
    blocks = [table(f"a/t{number}") for number in range(400)]
    plan = world.plan(desired(*blocks, *(table(f"b/c/t{number}") for number in range(4))))
    loaded = _loaded(monkeypatch)
    assert len(check_plan(plan, world.backends)) == 6
    assert set(loaded) <= {"b", "b/c"}


def test_what_a_scan_does_not_show_and_should_be_there_is_asked_for_by_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.has(live(live_table("a/t", owner=OWNER)))
    plan = world.plan(desired(claim("a"), table("a/t", {"tier": "gold"})))
    monkeypatch.setattr(MemoryBackend, "scan", lambda *_: Snapshot())
    assert None not in check_plan(plan, world.backends).values()
