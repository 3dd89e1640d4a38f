"""Planning time grows with the number of objects, shown by how often two names are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredMove
from reconciler.model.names import Identifier
from reconciler.planner.comparison import Outcomes
from reconciler.planner.facts import CatalogInput
from reconciler.planner.notes import notes_on_renames
from tests.unit.planner.building import OWNER, at, desired, live, live_namespace, live_table, plan_of, table


class Counted(str):
    """A name that counts how often it is compared with another one."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def names(*parts: str) -> Identifier:
    return tuple(map(Counted, parts))


def moved_namespaces(size: int) -> int:
    """Plan ``size`` lines of `moved`, each about a namespace with one table."""
    lines = [DesiredMove(names(f"old{n}"), names(f"new{n}"), at(n), is_table=False) for n in range(1, size + 1)]
    wanted = desired(*(replace(table("x"), id=(*line.to, "t")) for line in lines))
    spaces = [replace(live_namespace("x", owner=OWNER), id=line.origin) for line in lines]
    tables = [replace(live_table("x", owner=OWNER), id=(*line.origin, "t")) for line in lines]
    there = live(*spaces, *tables)
    plan = plan_of(replace(wanted, moves=tuple(lines)), there)
    return plan.summary().move


def renamed_tables(size: int) -> int:
    """Look for renames among ``size`` new tables and as many that go, each pair in a namespace of its own."""
    wanted = desired(*(table(f"a{n}/new") for n in range(size)))
    there = live(*(live_table(f"a{n}/old", owner=OWNER) for n in range(size)))
    changes = plan_of(wanted, there).changes
    counted = [change.model_copy(update={"identifier": names(*change.identifier)}) for change in changes]
    Counted.compared = 0
    notes = [*notes_on_renames(CatalogInput(wanted, there, Capabilities(), "memory"), Outcomes(changes=counted))]
    assert notes[-1].message.startswith(f"{size - 3} more pairs of changes")
    return size


@pytest.mark.parametrize("planned", [moved_namespaces, renamed_tables])
def test_four_times_as_many_take_about_four_times_as_many_comparisons(planned: Callable[[int], int]) -> None:
    counts = []
    for size in (50, 200):
        Counted.compared = 0
        assert planned(size) == size
        counts.append(Counted.compared)
    assert counts[0] > 0
    assert counts[1] < counts[0] * 5, counts
