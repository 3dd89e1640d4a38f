"""What `show RUN --manifest` says of runs that moved tables to new entries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.applier.journal_reader import read_journal
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredMove
from reconciler.model.errors import PlanFileError
from reconciler.writing.restoring import removed_blocks
from tests.unit.applier.world import World
from tests.unit.planner.building import OWNER, at, desired, live, live_table, table


@pytest.mark.parametrize("removes", [False, True], ids=["alone", "beside a removal"])
def test_what_a_move_cannot_copy_is_named(removes: bool, tmp_path: Path) -> None:
    world = World(tmp_path, Capabilities(lost_on_move="its grants"))
    world.has(live(*(live_table(name, owner=OWNER) for name in ("old", "gone"))))
    blocks = [table("new"), *([] if removes else [table("gone")])]
    wanted = replace(desired(*blocks), moves=(DesiredMove(("old",), ("new",), at(), is_table=True),))
    report = world.apply(world.plan(wanted))
    assert report.ok
    record, named = read_journal(report.journal), "lake/old lost as lake/new: its grants"
    if removes:
        assert named in removed_blocks(record)
        return
    with pytest.raises(PlanFileError, match=named):
        removed_blocks(record)
