"""Search the roots of catalogs for datasets that no catalog has, in this process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from reconciler import storage
from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import LiveTable, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope

_MOST_GLIMPSED = 200


@dataclass(slots=True)
class UnregisteredDatasets:
    """``tables`` are named by their directories; ``nameless`` tells of the rest."""

    tables: dict[Identifier, LiveTable] = field(default_factory=dict)
    nameless: list[str] = field(default_factory=list)


def find_unregistered(
    backend: Backend,
    taken_places: Collection[str],
    live: Snapshot,
    parallelism: int,
    scope: Scope = EVERYTHING,
) -> UnregisteredDatasets:
    """Return the datasets under the roots that no table has as its location.

    Args:
        backend: the catalog.
        taken_places: the places (``storage.resolve_location``, ``locations.objects_of``) of the tables of all catalogs.
        live: the catalog's objects, whose names are taken.
        parallelism: how many directories are listed at once.
        scope: the part of the catalog that was read; datasets whose names are in another part are left out.

    Raises:
        BackendError: a directory could not be listed.
    """
    unregistered = UnregisteredDatasets()
    options = backend.storage_options()
    for root in map(storage.as_plain_path, backend.roots()):
        directories, is_cut_short = _unregistered_paths(root, options, taken_places, parallelism)
        for directory in directories:
            _add_dataset(backend, root, directory, live, unregistered, scope)
        if is_cut_short:
            unregistered.nameless.append(
                f"{locations.redact(root)} was searched {storage.DEEPEST} directories deep; there are deeper ones"
            )
    unregistered.nameless.sort()
    return unregistered


def glimpse_unregistered(backend: Backend, taken_places: Collection[str], parallelism: int) -> list[str]:
    """Return the paths below the roots of some datasets that no table has, looking into few directories.

    The arguments are those of :func:`find_unregistered`.

    Raises:
        BackendError: a directory could not be listed.
    """
    options = backend.storage_options()
    return [
        directory.removeprefix(root).strip("/")
        for root in map(storage.as_plain_path, backend.roots())
        for directory in _unregistered_paths(root, options, taken_places, parallelism, _MOST_GLIMPSED)[0]
    ]


def _unregistered_paths(
    root: str, options: Mapping[str, str], taken_places: Collection[str], parallelism: int, most: int | None = None
) -> tuple[list[str], bool]:
    """Return the datasets below ``root`` whose place no table has, sorted, and whether the search was cut short.

    In an object store, where each directory is a request, it ends at ``storage.DEEPEST``. With ``most``, it looks into
    that many directories, and into none of a table.
    """
    deepest = None if storage.local_path(root) is not None else storage.DEEPEST
    datasets: list[str] = []
    level, looked = [root], 0
    for depth in count():
        if most is not None:
            level = _untaken(level, taken_places)[: most - looked]
            looked += len(level)
        if not level or (deepest is not None and depth > deepest):
            break
        listings = in_parallel(lambda directory: storage.classify_directory(directory, options), level, parallelism)
        datasets += [directory for directory, listing in zip(level, listings, strict=True) if listing.is_dataset]
        level = [directory for listing in listings for directory in listing.below]
    return sorted(_untaken(datasets, taken_places)), bool(level)


def _untaken(paths: Sequence[str], taken_places: Collection[str]) -> list[str]:
    places = zip(paths, storage.resolve_locations(paths), strict=True)
    return [path for path, place in places if place not in taken_places]


def _add_dataset(
    backend: Backend, root: str, location: str, live: Snapshot, unregistered: UnregisteredDatasets, scope: Scope
) -> None:
    """Add a dataset to ``unregistered`` under the name of its directory, or to ``nameless``."""
    path = locations.normalise(location).removeprefix(locations.normalise(root)).strip("/") or root.rpartition("/")[2]
    capabilities = backend.capabilities()
    names = [capabilities.folded(name) for name in backend.identifier_at(path.split("/"))]
    reason = next((problem for name in names if (problem := capabilities.name_problem(name)) is not None), None)
    if reason is None:
        depth = capabilities.table_depth_problem(len(names) - 1)
        reason = None if depth is None else f"a table of {backend.impl} cannot be {depth}"
    identifier = tuple(names)
    if not scope.contains(identifier):
        return
    if reason is None:
        reason = _name_conflict(identifier, live, unregistered, one_name_space=capabilities.one_name_space)
    if reason is None:
        reason = backend.location_problem(identifier, location)
    if reason is not None:
        unregistered.nameless.append(
            f"{locations.redact(location)} is in no catalog, and its path gives it no name: {reason}"
        )
    else:
        unregistered.tables[identifier] = LiveTable(identifier, location)


def _name_conflict(
    identifier: Identifier, live: Snapshot, unregistered: UnregisteredDatasets, *, one_name_space: bool
) -> str | None:
    """Return why ``identifier`` is taken by a live or unregistered object; None if it is free."""

    def is_table(name: Identifier) -> bool:
        return name in live.tables or name in unregistered.tables

    above = [identifier[:depth] for depth in range(1, len(identifier))]
    if is_table(identifier) or (one_name_space and identifier in live.namespaces):
        return f"the name {'/'.join(identifier)} is taken"
    taken = next((name for name in above if one_name_space and is_table(name)), None)
    return None if taken is None else f"{'/'.join(taken)} is a table, not a namespace"
