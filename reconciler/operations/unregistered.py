"""Datasets under the roots of catalogs that no catalog has: found by going down the directories, in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from reconciler import storage
from reconciler.backends import optional
from reconciler.model import locations, ownership
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import NamespaceNotFoundError, TableNotFoundError
from reconciler.model.limits import folded, name_problem, table_depth_problem
from reconciler.model.live import LiveTable, Snapshot, StorageKind
from reconciler.model.names import Identifier
from reconciler.planner.facts import Stored

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.operations.connections import Connection


_NO_DATA = (StorageKind.NOTHING, StorageKind.NOT_LANCE)


@dataclass(slots=True)
class UnregisteredDatasets:
    """``tables`` are datasets under names that their places suggest; ``nameless`` says of the others why not."""

    tables: dict[Identifier, LiveTable] = field(default_factory=dict)
    nameless: list[str] = field(default_factory=list)


def find_unregistered(
    backend: Backend, claimed: Collection[str], live: Snapshot, parallelism: int
) -> UnregisteredDatasets:
    """Return the datasets under the roots of ``backend`` that are at none of the places ``claimed``.

    Args:
        backend: the catalog.
        claimed: the places (``storage.place_of``) that tables of any catalog have.
        live: what is in the catalog, whose names cannot be given again.
        parallelism: how many directories are listed at once.

    Raises:
        BackendError: a directory could not be listed.
    """
    found = UnregisteredDatasets()
    options = backend.storage_options()
    for root in map(storage.as_plain_path, backend.roots()):
        for place in _datasets(root, options, claimed, parallelism):
            _name(backend, root, place, live, found)
    found.nameless.sort()
    return found


def find_stored(
    connection: Connection,
    names: Mapping[Identifier, Identifier | None],
    others: Iterable[Connection],
    parallelism: int,
) -> Stored:
    """Return where data of new tables may be, other than at their default locations.

    That is at the default location of the name that a table had before, where a directory has one of its names, and
    where a catalog that mirrors this one has the table.

    Args:
        connection: the catalog.
        names: the tables, each with the name that it had before, if any.
        others: all catalogs that are connected.
        parallelism: how many locations are looked at once.

    Raises:
        BackendError: a directory could not be listed.
        CatalogError: a mirror could not be read.
    """
    backend = connection.backend
    named: defaultdict[Identifier, list[str]] = defaultdict(list)
    options = backend.storage_options()
    for root in map(storage.as_plain_path, backend.roots()) if names and backend.is_its_root else ():
        for place in storage.look_into(root, options).below:
            named[tuple(optional.identifier_at(backend, [place.rpartition("/")[2]]))].append(place)
    for name, place in _in_mirrors(connection.spec.name, names, others) if names else ():
        named[name].append(place)
    asked: dict[Identifier, list[str]] = {}
    for name, former in names.items():
        default = _default_of(backend, former) if former is not None else None
        places = [*([default] if default else ()), *named.get(former or (), ()), *named.get(name, ())]
        if places:
            own = _default_of(backend, name)
            asked[name] = [place for place in dict.fromkeys(places) if not locations.same(place, own)]
    looked_at = list(dict.fromkeys(chain.from_iterable(asked.values())))
    probed = in_parallel(lambda place: storage.probe(place, options).kind, looked_at, parallelism)
    kinds = dict(zip(looked_at, probed, strict=True))
    found = {name: [place for place in places if kinds[place] not in _NO_DATA] for name, places in asked.items()}
    return {name: places for name, places in found.items() if places}


def _in_mirrors(
    catalog: str, names: Mapping[Identifier, Identifier | None], others: Iterable[Connection]
) -> Iterator[tuple[Identifier, str]]:
    """Yield where mirrors of a catalog have tables of these names, new ones or former ones."""
    for other in others:
        mirror, backend = other.desired.mirror, other.backend
        if mirror is None or mirror.origin != catalog:
            continue
        shown = {
            tuple(folded(backend.capabilities, part) for part in mirror.name_of(name)): name
            for name in chain(names, filter(None, names.values()))
        }
        with other.spec.errors():
            for parent in sorted({name[:-1] for name in shown}):
                there: set[Identifier] = set()
                with suppress(NamespaceNotFoundError):
                    there.update((*parent, name) for name in optional.possible_tables(backend, parent))
                for name in sorted(shown.keys() & there):
                    with suppress(TableNotFoundError):
                        table = backend.load_table(name)
                        if ownership.mirror_of(table.properties) == catalog:
                            yield shown[name], table.location


def _default_of(backend: Backend, name: Identifier) -> str | None:
    try:
        return backend.default_location(name)
    except NamespaceNotFoundError:  # it hangs on a namespace that went with its tables
        return None


def _datasets(root: str, options: Mapping[str, str], claimed: Collection[str], parallelism: int) -> list[str]:
    datasets: list[str] = []
    level = [root]
    for _ in range(storage.DEEPEST + 1):
        looked = in_parallel(lambda place: storage.look_into(place, options), level, parallelism)
        datasets += [place for place, one in zip(level, looked, strict=True) if one.is_dataset]
        level = [below for one in looked for below in one.below]
        if not level:
            break
    return sorted(place for place in datasets if storage.place_of(place) not in claimed)


def _name(backend: Backend, root: str, place: str, live: Snapshot, found: UnregisteredDatasets) -> None:
    """Add a dataset to ``found``, under the name that its place suggests."""
    path = locations.normalise(place).removeprefix(locations.normalise(root)).strip("/") or root.rpartition("/")[2]
    capabilities = backend.capabilities
    names = [folded(capabilities, name) for name in optional.identifier_at(backend, path.split("/"))]
    reason = next((problem for name in names if (problem := name_problem(capabilities, name)) is not None), None)
    if reason is None:
        depth = table_depth_problem(capabilities, len(names) - 1)
        reason = None if depth is None else f"a table of {backend.impl} cannot stand {depth}"
    identifier = tuple(names)
    if reason is None:
        reason = _taken(identifier, live, found, one_name_space=capabilities.one_name_space)
    if reason is None:
        reason = optional.location_problem(backend, identifier, place)
    if reason is not None:
        found.nameless.append(f"{locations.redact(place)} is in no catalog, and its place gives it no name: {reason}")
    else:
        found.tables[identifier] = LiveTable(identifier, place)


def _taken(identifier: Identifier, live: Snapshot, found: UnregisteredDatasets, *, one_name_space: bool) -> str | None:
    """Return why something else has the name, or that of a namespace above it; None when nothing has."""
    tables = live.tables.keys() | found.tables.keys()
    above = [identifier[:depth] for depth in range(1, len(identifier))]
    if identifier in tables or (one_name_space and identifier in live.namespaces):
        return f"the name {'/'.join(identifier)} is taken"
    taken = next((name for name in above if one_name_space and name in tables), None)
    return None if taken is None else f"{'/'.join(taken)} is a table, not a namespace"
