"""The order of a run: each change after those it depends on, the first in the plan first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter

from reconciler.model.errors import PlanFileError
from reconciler.planner.entries import Change


class Schedule:
    """Positions of changes; true while some have not ended.

    Raises:
        PlanFileError: the changes have a dependency cycle.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self._sorter: TopologicalSorter[int] = TopologicalSorter(
            {position: change.depends_on for position, change in enumerate(changes)}
        )
        try:
            self._sorter.prepare()
        except CycleError as error:
            cycle = ", ".join(changes[position].address for position in dict.fromkeys(error.args[1]))
            raise PlanFileError(f"the plan is damaged: its changes have a dependency cycle: {cycle}") from None
        self._ready: list[int] = []

    def __bool__(self) -> bool:
        return self._sorter.is_active()

    def take(self, fits: Callable[[int], bool]) -> int | None:
        """Return the first change that can start and has not been taken.

        None while that one does not fit, or all the rest have to wait.
        """
        for position in self._sorter.get_ready():
            heapq.heappush(self._ready, position)
        return heapq.heappop(self._ready) if self._ready and fits(self._ready[0]) else None

    def end(self, position: int) -> None:
        """Say that a change has ended, in whatever way."""
        self._sorter.done(position)
