"""Tables that others change after the check of a plan, when the commit of their change reads them next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.applier.report import ChangeResult, Event, Status
from reconciler.backends.memory import MemoryBackend
from reconciler.model.desired import DesiredTable
from reconciler.model.names import Identifier
from tests.unit.applier.world import World
from tests.unit.planner.building import OWNER, desired, live, live_table, table

UPDATED, REMOVED = [table("t", {"tier": "silver"})], list[DesiredTable]()
KEPT = table("u", {"tier": "gold"})


def applied_after(world: World, wanted: list[DesiredTable], happens: Callable[[], object]) -> ChangeResult:
    """Apply a plan of one change; something happens between its check and its start."""
    world.has(live(*(live_table(name, {"tier": "gold"}, owner=OWNER) for name in ("t", "u"))))
    events = iter([happens])

    def on_event(_: Event) -> None:
        next(events, bool)()

    report = world.apply(world.plan(desired(KEPT, *wanted)), on_event=on_event)
    [result] = report.results
    return result


def recorded_before(world: World) -> list[str | None]:
    """Return the foreign property in each intent of the only journal."""
    [journal] = world.folder.iterdir()
    lines = [json.loads(line) for line in Path(journal).read_text().splitlines()]
    return [line["before"]["properties"].get("rows") for line in lines if line["entry"] == "intent"]


@pytest.mark.parametrize("wanted", [UPDATED, REMOVED], ids=["update", "removal"])
def test_an_entry_that_stays_as_checked_is_read_in_its_commit_only(
    world: World, monkeypatch: pytest.MonkeyPatch, wanted: list[DesiredTable]
) -> None:
    loaded: list[Identifier] = []
    genuine = MemoryBackend.load_table

    def load(backend: MemoryBackend, identifier: Identifier) -> object:
        loaded.append(identifier)
        return genuine(backend, identifier)

    monkeypatch.setattr(MemoryBackend, "load_table", load)
    assert applied_after(world, wanted, loaded.clear).status is Status.DONE
    assert loaded == [("t",)]


@pytest.mark.parametrize("wanted", [UPDATED, REMOVED], ids=["update", "removal"])
def test_a_foreign_property_set_since_the_check_is_in_the_journal(world: World, wanted: list[DesiredTable]) -> None:
    assert applied_after(world, wanted, lambda: world.alter("t", rows="3")).status is Status.DONE
    assert recorded_before(world) == [None, "3"]
    if wanted:
        assert world.table("t").properties.items() >= {"tier": "silver", "rows": "3"}.items()


@pytest.mark.parametrize("wanted", [UPDATED, REMOVED], ids=["update", "removal"])
def test_a_managed_property_changed_since_the_check_is_stale(world: World, wanted: list[DesiredTable]) -> None:
    result = applied_after(world, wanted, lambda: world.alter("t", tier="bronze"))
    assert result.message == "stale: properties.tier planned on gold, now bronze"
    assert world.table("t").properties["tier"] == "bronze"


def test_a_table_that_another_run_has_changed_since_the_check_is_not_written(world: World) -> None:
    assert applied_after(world, UPDATED, lambda: world.alter("t", tier="silver")).status is Status.ALREADY


def test_a_table_removed_since_the_check_is_stale_for_an_update(world: World) -> None:
    def remove() -> None:
        MemoryBackend.remove_table(world.backend, ("t",))

    assert applied_after(world, UPDATED, remove).message == "stale: existence planned on there, now nothing"
