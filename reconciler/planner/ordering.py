"""Order changes deterministically, each after the changes it needs.

Namespaces are created before what they hold and dropped after it. Creations and updates come before removals, unless a
removal frees a name or location that a creation needs. Catalogs are independent, except that a mirrored change comes
after its source's change, and a dataset is written before another catalog registers it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
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


def order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return ``changes`` in execution order, each with the positions it depends on.

    Of the orders that respect every dependency, it is the first one by catalog, phase and identifier.
    """
    pending = sorted(changes, key=_sort_key)
    needs = _dependencies(pending)
    for at, earlier in _same_location_order(pending):
        needs[at].add(earlier)
    sorter = TopologicalSorter(dict(enumerate(needs)))
    sorter.prepare()
    ready: list[int] = []
    position: dict[int, int] = {}
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        index = heapq.heappop(ready)
        position[index] = len(position)
        sorter.done(index)
    return tuple(
        pending[index].model_copy(update={"depends_on": tuple(sorted(position[other] for other in needs[index]))})
        if needs[index]
        else pending[index]
        for index in position
    )


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


def _dependencies(changes: Sequence[Change]) -> list[set[int]]:
    """Return, for each change, the indices of the changes that must precede it.

    Those that only share a location are left to :func:`_same_location_order`.
    """
    index = {(change.catalog, change.kind, change.identifier): at for at, change in enumerate(changes)}
    freed_places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for at, change in enumerate(changes):
        if change.action in _LEAVES_LOCATION and change.before and change.before.location:
            freed_places[change.catalog, locations.place(change.before.location)].add(at)
    left_names = {(change.catalog, change.moved_from): at for at, change in enumerate(changes) if change.moved_from}
    left_namespaces = namespaces_left(changes)
    cleanups = {change.catalog: at for at, change in enumerate(changes) if change.code is ReasonCode.CATALOG_CLEANUP}
    # Any other commit to a catalog with automatic clean-up would delete its old versions.
    needs = [
        {cleanups[change.catalog]} - {at} if change.catalog in cleanups else set() for at, change in enumerate(changes)
    ]
    for at, change in enumerate(changes):
        if change.mirror_of is not None:
            source = change.mirror_of.catalog, change.mirror_of.identifier
            source_changes = index.get((source[0], "table", source[1])), left_names.get(source)
            needs[at] |= {other for other in source_changes if other is not None}
        parent = index.get((change.catalog, "namespace", change.identifier[:-1]))
        if change.action.removes:
            if parent is not None and changes[parent].action is Action.DROP_NAMESPACE:
                needs[parent].add(at)
            continue
        if parent is not None and changes[parent].action is Action.CREATE_NAMESPACE:
            needs[at].add(parent)
        old_parent = index.get((change.catalog, "namespace", change.moved_from[:-1])) if change.moved_from else None
        if old_parent is not None and changes[old_parent].action is Action.DROP_NAMESPACE:
            needs[old_parent].add(at)
        copied_from = index.get((change.catalog, "namespace", change.takes_from)) if change.takes_from else None
        if copied_from is not None:
            needs[copied_from].add(at)
        needs[at] |= _freeing_removals(change, changes, index, freed_places, left_namespaces)
    return needs


def _same_location_order(changes: Sequence[Change]) -> Iterator[tuple[int, int]]:
    """Yield pairs of indices of changes at one location: a change, and one that must precede it.

    One catalog writes the first data there. A catalog that was planned before it found an empty location, and changes
    first; one planned after it was planned on the dataset, and changes last. Within the last phase, tables are
    registered with the columns that were found before others alter these columns.
    """
    phases: tuple[defaultdict[str, list[int]], ...] = (defaultdict(list), defaultdict(list), defaultdict(list))
    for at, change in enumerate(changes):
        phase = 1 if change.is_first_data else _DATA_PHASES.get((change.action, change.storage))
        if phase is not None and change.destination:
            phases[phase][locations.place(change.destination)].append(at)
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
    changes: Sequence[Change],
    index: dict[Key, int],
    freed_places: dict[tuple[str, str], set[int]],
    left: Collection[tuple[str, Identifier]],
) -> set[int]:
    """Return the indices of the changes that free the name or location which ``change`` takes.

    ``index`` has the changes by object, ``freed_places`` those that leave a location, by catalog and location.
    """
    freed: set[int] = set()
    namesake = index.get(change.namesake)
    if namesake is not None and changes[namesake].action.removes and not takes_emptied_name(change, left):
        freed.add(namesake)
    if change.destination:
        leaving = freed_places.get((change.catalog, locations.place(change.destination)), set())
        # Two relocations may swap places, so only a new table waits for one.
        freed |= {at for at in leaving if change.before is None or changes[at].action is Action.DEREGISTER_TABLE}
    return freed
