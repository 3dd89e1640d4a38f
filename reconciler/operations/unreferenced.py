"""Find the data of clones to which no entry refers any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from reconciler.applier.report import ChangeResult
from reconciler.model import locations
from reconciler.model.errors import CatalogError
from reconciler.model.names import Identifier
from reconciler.operations.connections import Connection, read_all
from reconciler.planner.plan import Plan


def shared_places(plan: Plan, connections: Mapping[str, Connection], parallelism: int) -> Collection[str] | None:
    """Return where the data of the entries is that stay or come when ``plan`` takes entries from clones.

    They are in the form of ``locations.place``. None if a catalog cannot be read: an entry may refer to any clone.
    """
    if not any(change.left_clone for change in plan.changes):
        return ()
    try:
        snapshots = read_all(
            connections.values(), lambda each: each.spec.scan(each.backend, each.desired.scope), parallelism
        )
    except CatalogError:
        return None
    tables = dict[tuple[str, Identifier], str | None]()
    for catalog, live in zip(connections, snapshots, strict=True):
        tables |= {(catalog, table.id): table.location for table in live.tables.values()}
    for change in plan.changes:
        if change.kind == "table":
            name = connections[change.catalog].backend.table_id(change.moved_from or change.identifier)
            tables[change.catalog, name] = change.destination
    return frozenset(locations.place(location) for location in tables.values() if location is not None)


def unreferenced_clones(results: Sequence[ChangeResult], shared: Collection[str] | None) -> tuple[str, ...]:
    """Return the locations of clones that no entry has after a run; ``shared`` is from :func:`shared_places`."""
    if shared is None:
        return ()
    left = [(location, result.status) for result in results if (location := result.change.left_clone) is not None]
    kept = {*shared, *(locations.place(location) for location, status in left if not status.satisfies)}
    gone = {place: location for location, _ in left if (place := locations.place(location)) not in kept}
    return tuple(sorted(gone.values()))
