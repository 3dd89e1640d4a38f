"""Apply converges: cut off after any write and run again, it ends the same. `test_crash_points.py` draws the cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredCatalog, DesiredMove, DesiredNamespace, DesiredTable, Prune
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier
from tests.states import SAFEGUARD
from tests.unit.applier.world import Crash, World
from tests.unit.planner.building import CATALOG, OWNER, at, marks

GUARDED = Capabilities(safeguard=SAFEGUARD, rename_within=0)


@contextmanager
def holding(folder: Path, live: Snapshot, crash_after: int | None = None) -> Iterator[World]:
    world = World(folder, GUARDED).has(live)
    world.ledger.crash_after = crash_after
    with world.storage.installed():
        yield world


def cut_off_at_each_write(
    folder: Path, live: Snapshot, wanted: DesiredCatalog, *, planned_again: bool
) -> list[tuple[Snapshot, list[str]]]:
    """Return the end and the writes of an apply in peace, and of each that is cut off and then finished."""
    with holding(folder, live) as world:
        assert world.apply(world.plan(wanted)).ok
        ends = [(world.state(), list(world.writes))]
    for cut in range(1, len(world.writes) + 1):
        with holding(folder, live, cut) as world:
            plan = world.plan(wanted)
            with pytest.raises(Crash):
                world.apply(plan)
            world.revive()
            assert world.apply(world.plan(wanted) if planned_again else plan).ok
            ends.append((world.state(), list(world.writes)))
    return ends


def test_a_table_carried_by_its_namespace_gets_nothing_that_the_next_plan_would_not_give_it(tmp_path: Path) -> None:
    """Cut off right after its move, it is a table without a block, which `prune: never` leaves alone."""
    live = Snapshot(
        {("c",): LiveNamespace(("c",), marks({}, OWNER))},
        {("c", "t1"): LiveTable(("c", "t1"), "/data/t1.lance", {**marks({}, OWNER), "purge": "TRUE"})},
    )
    namespaces: dict[Identifier, DesiredNamespace] = {("a",): DesiredNamespace(("a",), at(), is_claimed=True)}
    moved = (DesiredMove(("c",), ("a",), at(), is_table=False),)
    wanted = DesiredCatalog(CATALOG, OWNER, at(), Prune.NEVER, namespaces=namespaces, moves=moved)
    (end, _), *others = cut_off_at_each_write(tmp_path, live, wanted, planned_again=True)
    assert [state for state, _ in others] == [end] * len(others)


def test_a_rename_cut_off_after_its_marks_writes_them_once(tmp_path: Path) -> None:
    live = Snapshot({}, {("t1",): LiveTable(("t1",), "/data/t1.lance", marks({}, OWNER))})
    tables: dict[Identifier, DesiredTable] = {("t2",): DesiredTable(("t2",), at())}
    moved = (DesiredMove(("t1",), ("t2",), at(), is_table=True),)
    wanted = DesiredCatalog(CATALOG, OWNER, at(), tables=tables, moves=moved)
    (_, once), *others = cut_off_at_each_write(tmp_path, live, wanted, planned_again=False)
    assert once[:2] == ["alter_table t1", "rename_table t1 t2"]
    assert [writes for _, writes in others] == [once] * len(others)
