"""Order changes deterministically, each after the changes it needs.

Namespaces are created before what they hold and dropped after it. Creations and updates come before removals, unless a
removal frees a name or location that a creation needs. Catalogs are independent, except that a mirrored change comes
after its source's change, and a dataset is written before another catalog registers it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError
from itertools import chain
from typing import TypeAlias

from reconciler.model import locations
from reconciler.model.live import StorageKind
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action, Change, Key

_DATA_PHASES: Mapping[tuple[Action, StorageKind | None], int] = {
    (Action.DECLARE_TABLE, StorageKind.NOTHING): 0,
    (Action.REGISTER_TABLE, StorageKind.DATASET): 2,
    (Action.UPDATE_TABLE, StorageKind.DATASET): 2,
    (Action.ALTER_TABLE, StorageKind.DATASET): 2,
    (Action.TAG, StorageKind.DATASET): 2,
    (Action.MOVE_TABLE, StorageKind.DATASET): 2,
}
"""The phases of changes at one location, by action and what planning found there: 0 before data is written, 2 after.

Changes that write the first data are phase 1 (``Change.is_first_data``).
"""

_LEAVES_LOCATION = (Action.DEREGISTER_TABLE, Action.RELOCATE_TABLE)
_SortKey: TypeAlias = tuple[str, int, int, Identifier, str]


def namespaces_left(changes: Iterable[Change]) -> set[tuple[str, Identifier]]:
    """Return the namespaces that tables are moved from, and the ancestors of these, each with its catalog."""
    return {
        (change.catalog, change.moved_from[:depth])
        for change in changes
        if change.kind == "table" and change.moved_from
        for depth in range(1, len(change.moved_from))
    }


def takes_emptied_name(change: Change, left: Collection[tuple[str, Identifier]]) -> bool:
    """Return whether a table moves to the name of a namespace in ``left`` (see :func:`namespaces_left`).

    It cannot wait until that namespace is dropped: the drop waits for its tables to move, maybe for this very move.
    """
    return change.kind == "table" and change.moved_from is not None and (change.catalog, change.identifier) in left


def order(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield ``changes`` in execution order, each with the positions it depends on.

    Of the orders that respect every dependency, it is the first one by catalog, phase and identifier. There may be
    millions, so none is kept once it has been yielded.

    Raises:
        graphlib.CycleError: they depend on each other; no plan has such changes.
    """
    pending = dict(enumerate(sorted(changes, key=_sort_key)))
    followers: defaultdict[int, set[int]] = defaultdict(set)
    unmet = [0] * len(pending)
    first_needed: list[tuple[int, ...]] = [()] * len(pending)
    also_needed: defaultdict[int, list[int]] = defaultdict(list)
    for index, earlier in chain(_dependencies(pending), _same_location_order(pending)):
        if index not in followers[earlier]:
            followers[earlier].add(index)
            unmet[index] += 1
    ready = [index for index, number in enumerate(unmet) if not number]
    for position in range(len(pending)):
        if not ready:
            raise CycleError(", ".join(change.address for change in pending.values()))
        index = heapq.heappop(ready)
        change, needed = pending.pop(index), first_needed[index] + tuple(also_needed.pop(index, ()))
        yield change.model_copy(update={"depends_on": needed}) if needed else change
        alone = (position,)  # most wait for one change that many wait for, and share this
        for follower in followers.pop(index, ()):
            if first_needed[follower]:
                also_needed[follower].append(position)
            else:
                first_needed[follower] = alone
            unmet[follower] -= 1
            if not unmet[follower]:
                heapq.heappush(ready, follower)


def _sort_key(change: Change) -> _SortKey:
    """Return the sort key of a change: creations outermost first, removals innermost first."""
    depth = len(change.identifier)
    if change.action is Action.DROP_NAMESPACE:
        return change.catalog, 3, -depth, change.identifier, change.kind
    if change.action is Action.DEREGISTER_TABLE:
        return change.catalog, 2, 0, change.identifier, change.kind
    if change.kind == "namespace":
        return change.catalog, 0, depth, change.identifier, change.kind
    return change.catalog, 1, 0, change.identifier, change.kind


def _dependencies(changes: Mapping[int, Change]) -> Iterator[tuple[int, int]]:
    """Yield pairs of indices: a change, and one that must precede it; the same pair may come again.

    Those that only share a location are left to :func:`_same_location_order`.
    """
    index = _index_of(changes)
    freed_places: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for at, change in changes.items():
        if change.action in _LEAVES_LOCATION and change.before and change.before.location:
            freed_places[change.catalog, locations.place(change.before.location)].append(at)
    left_namespaces = namespaces_left(changes.values())
    yield from _after_cleanups(changes)
    yield from _after_sources(changes, index)
    for at, change in changes.items():
        parent = index.get((change.catalog, "namespace", change.identifier[:-1]))
        if change.action.removes:
            if parent is not None and changes[parent].action is Action.DROP_NAMESPACE:
                yield parent, at
            continue
        if parent is not None and changes[parent].action is Action.CREATE_NAMESPACE:
            yield at, parent
        old_parent = index.get((change.catalog, "namespace", change.moved_from[:-1])) if change.moved_from else None
        if old_parent is not None and changes[old_parent].action is Action.DROP_NAMESPACE:
            yield old_parent, at
        copied_from = index.get((change.catalog, "namespace", change.takes_from)) if change.takes_from else None
        if copied_from is not None:
            yield copied_from, at
        for other in _freeing_removals(change, changes, index, freed_places, left_namespaces):
            yield at, other


def _index_of(changes: Mapping[int, Change]) -> Mapping[Key, int]:
    """Return the indices of the changes of namespaces, and of those tables that others depend on by name."""
    named: set[Key] = {change.namesake for change in changes.values() if change.kind == "namespace"}
    origins = (change.mirror_of for change in changes.values() if change.mirror_of is not None)
    named |= {(origin.catalog, "table", origin.identifier) for origin in origins}
    return {change.key: at for at, change in changes.items() if change.kind == "namespace" or change.key in named}


def _after_cleanups(changes: Mapping[int, Change]) -> Iterator[tuple[int, int]]:
    """Yield pairs of indices: a change in a catalog with automatic clean-up, and the one that turns that off.

    Any other commit to the catalog would delete its old versions.
    """
    cleanups = {change.catalog: at for at, change in changes.items() if change.code is ReasonCode.CATALOG_CLEANUP}
    for at, change in changes.items() if cleanups else ():
        cleanup = cleanups.get(change.catalog, at)
        if cleanup != at:
            yield at, cleanup


def _after_sources(changes: Mapping[int, Change], index: Mapping[Key, int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of indices: a change of a mirrored table, and one of its source table."""
    left_names = {(change.catalog, change.moved_from): at for at, change in changes.items() if change.moved_from}
    for at, change in changes.items():
        if change.mirror_of is not None:
            source = change.mirror_of.catalog, change.mirror_of.identifier
            source_changes = index.get((source[0], "table", source[1])), left_names.get(source)
            yield from ((at, other) for other in source_changes if other is not None)


def _same_location_order(changes: Mapping[int, Change]) -> Iterator[tuple[int, int]]:
    """Yield pairs of indices of changes at one location: a change, and one that must precede it.

    One catalog writes the first data there. A catalog that was planned before it found an empty location, and changes
    first; one planned after it was planned on the dataset, and changes last. Within the last phase, tables are
    registered with the columns that were found before others alter these columns.
    """
    written = {
        locations.place(change.destination)
        for change in changes.values()
        if change.destination and (change.is_first_data or change.action is Action.ALTER_TABLE)
    }
    phases: tuple[defaultdict[str, list[int]], ...] = (defaultdict(list), defaultdict(list), defaultdict(list))
    for at, change in changes.items() if written else ():
        phase = 1 if change.is_first_data else _DATA_PHASES.get((change.action, change.storage))
        place = locations.place(change.destination) if phase is not None and change.destination else None
        if phase is not None and place in written:
            phases[phase][place].append(at)
    for on_dataset in phases[2].values():
        altering = [at for at in on_dataset if changes[at].action is Action.ALTER_TABLE]
        registering = [
            at for at in on_dataset if changes[at].action is Action.REGISTER_TABLE and changes[at].after_columns
        ]
        yield from ((at, other) for at in altering for other in registering)
    for place, writing in phases[1].items():
        for first, then in ((phases[0][place], writing), (writing, phases[2][place])):
            yield from ((at, other) for at in then for other in first if changes[at].catalog != changes[other].catalog)


def _freeing_removals(
    change: Change,
    changes: Mapping[int, Change],
    index: Mapping[Key, int],
    freed_places: Mapping[tuple[str, str], Collection[int]],
    left: Collection[tuple[str, Identifier]],
) -> Iterator[int]:
    """Yield the indices of the changes that free the name or location which ``change`` takes.

    ``index`` has the changes by object, ``freed_places`` those that leave a location, by catalog and location.
    """
    namesake = index.get(change.namesake)
    if namesake is not None and changes[namesake].action.removes and not takes_emptied_name(change, left):
        yield namesake
    if freed_places and change.destination:
        leaving = freed_places.get((change.catalog, locations.place(change.destination)), ())
        # Two relocations may swap places, so only a new table waits for one.
        yield from (at for at in leaving if change.before is None or changes[at].action is Action.DEREGISTER_TABLE)
