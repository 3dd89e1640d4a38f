"""Find the data of clones to which no entry refers any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from reconciler import storage
from reconciler.applier.report import ChangeResult
from reconciler.backends.base import Backend
from reconciler.manifest import Manifest
from reconciler.model import locations, ownership
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError, CatalogError
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.operations.connections import Connection, read_all
from reconciler.planner.mirrors import with_sources
from reconciler.planner.plan import Plan


def dependents_of(plan: Plan, manifest: Manifest) -> frozenset[str]:
    """Return the catalogs whose tables are made from those of catalogs in which ``plan`` takes entries from clones."""
    left = {change.catalog for change in plan.changes if change.left_clone}
    sources = manifest.sources
    return frozenset(name for name in sources if left and not left.isdisjoint(with_sources(sources, [name])))


def shared_places(
    plan: Plan, connections: Mapping[str, Connection], dependents: Collection[str], parallelism: int
) -> Collection[str] | None:
    """Return what the entries need that stay or come when ``plan`` takes entries from clones.

    That is where their data is, and those of the clones left that clones of theirs read from, in the form of
    ``locations.place``. None if a catalog or a clone cannot be read: an entry may need any of them. ``dependents`` are
    from :func:`dependents_of`.
    """
    left = [change.left_clone for change in plan.changes if change.left_clone]
    if not left:
        return ()
    try:
        snapshots = read_all(
            connections.values(), lambda each: each.spec.scan(each.backend, each.desired.scope), parallelism
        )
    except CatalogError:
        return None
    tables = dict[tuple[str, Identifier], str | None]()
    made_elsewhere = connections.keys() - dependents
    clones = dict[tuple[str, Identifier], LiveTable]()
    for catalog, live in zip(connections, snapshots, strict=True):
        tables |= {(catalog, table.id): table.location for table in live.tables.values()}
        clones |= {
            (catalog, table.id): table
            for table in live.tables.values()
            if (origin := _cloned_catalog(table)) and origin not in made_elsewhere
        }
    for change in plan.changes:
        if change.kind == "table":
            name = connections[change.catalog].backend.table_id(change.moved_from or change.identifier)
            tables[change.catalog, name] = change.destination
    places = {locations.place(location) for location in tables.values() if location is not None}
    resolved = dict(zip(storage.resolve_locations(left), map(locations.place, left), strict=True))
    staying = [
        (connections[catalog].backend, clone)
        for (catalog, name), clone in clones.items()
        if locations.same(tables[catalog, name], clone.location)
    ]
    try:
        contents = in_parallel(_data_of, staying, parallelism)
    except BackendError:  # of a service that has no credentials for the data
        return None
    for found in contents:
        if found.kind in (StorageKind.DENIED, StorageKind.UNKNOWN) and not found.elsewhere:
            return None
        places |= {resolved[read] for read in storage.resolve_locations(found.elsewhere) if read in resolved}
    return frozenset(places)


def _data_of(entry: tuple[Backend, LiveTable]) -> Storage:
    backend, table = entry
    return storage.probe(table.location, backend.table_storage_options(table))


def _cloned_catalog(table: LiveTable) -> str:
    """Return the catalog that the data of an entry was cloned from; an empty text for no clone."""
    return ownership.catalog_of_clone(ownership.clone_of(table.properties))


def unreferenced_clones(results: Sequence[ChangeResult], shared: Collection[str] | None) -> tuple[str, ...]:
    """Return the locations of clones that no entry has after a run; ``shared`` is from :func:`shared_places`."""
    if shared is None:
        return ()
    left = [(location, result.status) for result in results if (location := result.change.left_clone) is not None]
    kept = {*shared, *(locations.place(location) for location, status in left if not status.satisfies)}
    gone = {place: location for location, _ in left if (place := locations.place(location)) not in kept}
    return tuple(sorted(gone.values()))
