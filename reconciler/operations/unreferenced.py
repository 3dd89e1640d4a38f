"""Find the data of clones to which no entry refers any more, once their entries have been removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.applier.report import ChangeResult
from reconciler.model import locations
from reconciler.model.errors import CatalogError
from reconciler.operations.connections import Connection, read_all
from reconciler.planner.entries import Action


def unreferenced_clones(
    results: Sequence[ChangeResult], connections: Mapping[str, Connection], parallelism: int
) -> tuple[str, ...]:
    """Return the locations of clones that a run has deregistered, unless an entry of ``connections`` has them.

    There are none if a catalog cannot be read: another entry may refer to any of them.
    """
    removed = {
        locations.place(before.location): before.location
        for result in results
        if result.change.action is Action.DEREGISTER_TABLE and result.status.satisfies
        for before in (result.change.before,)
        if before is not None and before.clone is not None and before.location is not None
    }
    if not removed:
        return ()
    try:
        snapshots = read_all(
            connections.values(), lambda each: each.spec.scan(each.backend, each.desired.scope), parallelism
        )
    except CatalogError:
        return ()
    present = {locations.place(table.location) for live in snapshots for table in live.tables.values()}
    return tuple(sorted(location for place, location in removed.items() if place not in present))
