"""Resolve conflicts between the changes of one catalog.

Only all changes together show that two need one location or name, or that a namespace is not empty. A change waits if
it depends on a blocked object: changes below a blocked namespace, and removals of an object whose name or location the
blocked one would get. Each newly blocked object may make more changes wait, so this repeats until no conflict is left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from urllib.parse import quote

from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Identifier, address
from reconciler.model.reasons import NoteCode, Params, ReasonCode, Why
from reconciler.planner.comparison import Outcomes
from reconciler.planner.entries import Action, Blocked, Change, Note
from reconciler.planner.facts import CatalogInput, LiveTables
from reconciler.planner.moves import NO_MOVES, Moves, moves_of
from reconciler.planner.ordering import namespaces_left, takes_emptied_name
from reconciler.planner.sharing import breaks_block, changes_columns, changes_tags

_MOST_NOTES = 5
_NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Conflict:
    """A change that must be blocked.

    ``obstacle`` is the live object that it conflicts with, if any. ``unreferenced`` is the location of data that may be
    its table's, and that no entry has.
    """

    change: Change
    why: Why
    obstacle: LiveNamespace | LiveTable | None = None
    unreferenced: str | None = None


def resolve(source: CatalogInput, outcomes: Outcomes, tables: LiveTables) -> None:
    """Keep the changes that can be planned in ``outcomes.changes``; block the others, or let them wait.

    Args:
        source: the catalog; its live tables and the facts about tables are not read.
        outcomes: those of all its objects; changed in place (see :class:`Outcomes`).
        tables: answers questions about the live tables as a whole.
    """
    candidates = outcomes.drops
    undecided = source.mirrored.undecided if source.mirrored else frozenset[Identifier]()
    moves = moves_of(source.desired) if candidates else NO_MOVES
    while True:
        must_wait = _delay_rule(outcomes, undecided, moves)
        while must_wait is not None:
            delayed = [change for change in (*outcomes.changes, *candidates) if must_wait(change)]
            delayed = delayed or _needless_namespaces(source, outcomes)
            if not delayed:
                break
            delayed_keys = {change.key for change in delayed}
            outcomes.waiting += delayed
            outcomes.changes = [change for change in outcomes.changes if change.key not in delayed_keys]
            candidates = [change for change in candidates if change.key not in delayed_keys]
            must_wait = _delay_rule(outcomes, undecided, moves)
        drops, outcomes.notes = _decide_drops(source, outcomes.changes, candidates, tables)
        # A namespace that stays may block a new table of its name, for which its own removal waits from then on.
        outcomes.occupied |= {change.identifier for change in candidates}
        outcomes.occupied -= {change.identifier for change in drops}
        planned = [*outcomes.changes, *drops]
        conflicts = {
            conflict.change.key: conflict
            for conflict in (
                *_shared_locations(source, planned, tables, [*outcomes.blocked.values(), *outcomes.waiting]),
                *_changed_data(source, planned, tables, outcomes.waiting),
                *_taken_defaults(source, planned, tables),
                *_hidden_tables(source, planned, tables),
                *_unreferenced_data(source, planned, tables),
                *_taken_names(source, planned, tables),
            )
        }
        if not conflicts:
            outcomes.occupied -= _emptied_by_waiting(source, outcomes, candidates, tables)
            levels = source.capabilities.kept_levels
            undroppable = {change.key: change for change in drops if len(change.identifier) <= levels}
            outcomes.blocked |= {
                key: _blocked_entry(_undroppable(source, change)) for key, change in undroppable.items()
            }
            outcomes.changes = [change for change in planned if change.key not in undroppable]
            return
        for key, conflict in conflicts.items():
            outcomes.blocked[key] = _blocked_entry(conflict)
            if conflict.obstacle is not None:
                outcomes.obstacles[conflict.obstacle.id] = conflict.obstacle
        outcomes.changes = [change for change in outcomes.changes if change.key not in conflicts]


def _emptied_by_waiting(
    source: CatalogInput, outcomes: Outcomes, candidates: Collection[Change], tables: LiveTables
) -> set[Identifier]:
    """Return the namespaces that would be empty if the waiting changes were made.

    They do not count as occupied: the plan already lists the objects that keep them.
    """
    waiting = outcomes.waiting
    drops = [*candidates, *(change for change in waiting if change.action is Action.DROP_NAMESPACE)] if waiting else []
    emptied, _ = _decide_drops(source, [*outcomes.changes, *waiting], drops, tables)
    return {change.identifier for change in emptied}


def _undroppable(source: CatalogInput, drop: Change) -> _Conflict:
    """Return the conflict of a drop that the catalog only accepts through another tool."""
    command = source.capabilities.drop_command.replace("NAME", quote(drop.identifier[-1], safe=""))
    return _Conflict(drop, Why(ReasonCode.DROPPED_OUTSIDE, {"code": command}))


def _needless_namespaces(source: CatalogInput, outcomes: Outcomes) -> list[Change]:
    """Return creations of namespaces that a mirror needs only for blocked or waiting tables."""
    blocks = source.desired.namespaces
    mirrored = [
        change
        for change in outcomes.changes
        if change.action is Action.CREATE_NAMESPACE and (block := blocks.get(change.identifier)) and block.mirrored
    ]
    if not mirrored:
        return []
    needed_later = _ancestors(
        entry.identifier for entry in (*outcomes.blocked.values(), *outcomes.waiting) if entry.kind == "table"
    )
    needed_now = _ancestors(
        change.identifier for change in outcomes.changes if change.kind == "table" and change.after is not None
    )
    return [change for change in mirrored if change.identifier in needed_later - needed_now]


def _ancestors(tables: Iterable[Identifier]) -> set[Identifier]:
    """Return all namespaces that contain one of ``tables``, at any depth."""
    return {table[:depth] for table in tables for depth in range(1, len(table))}


def _blocked_entry(conflict: _Conflict) -> Blocked:
    """Return the plan's entry for a change that is blocked, with the states it was decided by."""
    change = conflict.change
    # A blocked table does not record the columns that its entry shows.
    before = change.before.model_copy(update={"shown_columns": None}) if change.before else None
    return Blocked(
        catalog=change.catalog,
        kind=change.kind,
        identifier=change.identifier,
        code=conflict.why.code,
        params=conflict.why.params,
        source=change.source,
        before=change.found if change.moved_from else before,
        moved_from=change.moved_from,
        moved=before if change.moved_from else None,
        location=change.destination,
        storage=change.storage,
        tags=change.tags,
        unreferenced=conflict.unreferenced,
        secret_keys=change.secret_keys,
    )


def _delay_rule(outcomes: Outcomes, undecided: Collection[Identifier], moves: Moves) -> Callable[[Change], bool] | None:
    """Return a function that tells whether a change must wait; None if no change must.

    Args:
        outcomes: with the blocked objects and the changes that wait already.
        undecided: the tables of a mirror that wait for their source table.
        moves: the catalog's ``moved`` lines.
    """
    if not outcomes.blocked and not undecided:
        return None
    if any(entry.code is ReasonCode.CATALOG_TOO_NEW for entry in outcomes.blocked.values()):
        return lambda _: True
    blocked_namespaces = {entry.identifier for entry in outcomes.blocked.values() if entry.kind == "namespace"}
    unplanned: list[Blocked | Change] = [*outcomes.blocked.values(), *outcomes.waiting]
    needed_places = {locations.place(entry.destination) for entry in unplanned if entry.destination is not None}
    needed_names = {entry.key for entry in unplanned if entry.is_new}
    stored_names = {entry.kept_as for entry in outcomes.blocked.values() if entry.kept_as is not None}

    def must_wait(change: Change) -> bool:
        identifier = change.identifier
        if change.kind == "table" and identifier in undecided:
            return True
        if blocked_namespaces and any(identifier[:depth] in blocked_namespaces for depth in range(1, len(identifier))):
            return True
        if not change.action.removes:
            return False
        if identifier in stored_names:
            return True
        # A namespace under its new name takes over the properties that others set under the old one.
        new_name = moves.namespace_target_of(identifier) if change.kind == "namespace" else None
        if new_name is not None and (change.catalog, change.kind, new_name) in needed_names:
            return True
        location = change.before.location if change.before else None
        frees_place = location is not None and locations.place(location) in needed_places
        return frees_place or change.namesake in needed_names

    return must_wait


def _decide_drops(
    source: CatalogInput, changes: Sequence[Change], candidates: Collection[Change], tables: LiveTables
) -> tuple[list[Change], list[Note]]:
    """Return the drops among ``candidates`` whose namespaces will be empty, and notes on the other namespaces."""
    if not candidates:
        return [], []
    contents = Counter(dict(tables.count_in({change.identifier for change in candidates})))
    contents.subtract(change.identifier[:-1] for change in changes if change.action is Action.DEREGISTER_TABLE)
    contents.subtract(change.moved_from[:-1] for change in changes if change.moved_from is not None)
    contents.update(change.identifier[:-1] for change in changes if change.is_new)
    children: defaultdict[Identifier, set[Identifier]] = defaultdict(set)
    for identifier in source.live.namespaces:
        children[identifier[:-1]].add(identifier)
    drops: list[Change] = []
    kept: list[Params] = []
    for change in sorted(candidates, key=lambda change: (-len(change.identifier), change.identifier)):
        identifier = change.identifier
        occupants = source.facts.occupants.get(identifier, ())
        staying = contents[identifier] + len(children[identifier]) + len(occupants)
        if staying:
            sample: Params = {"names": tuple(sorted(occupants)[:_NAMES_SHOWN])} if occupants else {}
            kept.append({"where": change.address, "count": staying, **sample})
        else:
            drops.append(change)
            children[identifier[:-1]].discard(identifier)
    return drops, [*_notes_on_kept(source.desired.name, kept)]


def _notes_on_kept(catalog: str, kept: Sequence[Params]) -> Iterator[Note]:
    """Yield a note on each namespace that is not empty; a single one if there are many."""
    if len(kept) <= _MOST_NOTES:
        yield from (Note(catalog=catalog, code=NoteCode.KEPT_NAMESPACE, params=params) for params in kept)
        return
    sample = tuple(sorted(params["where"] for params in kept)[:_NAMES_SHOWN])
    counts: Params = {"count": len(kept), "names": sample, "more": len(kept) - _NAMES_SHOWN}
    yield Note(catalog=catalog, code=NoteCode.KEPT_NAMESPACES, params=counts)


def _shared_locations(
    source: CatalogInput, changes: Collection[Change], tables: LiveTables, unplanned: Sequence[Blocked | Change]
) -> Iterator[_Conflict]:
    """Yield the conflicts of changes that write a first dataset where another table has its location.

    ``unplanned`` are the blocked objects and the waiting changes.
    """
    place_of = source.facts.place_of
    touched = _touched(changes)
    created = {
        place_of(change.destination): change for change in changes if change.destination and change.is_first_data
    }
    if not created:
        return
    for table in sorted(tables.at(created, source.facts), key=lambda table: table.id, reverse=True):
        if table.id not in touched:
            change = created[place_of(table.location)]
            yield _Conflict(change, Why(ReasonCode.LOCATION_TAKEN, {"name": address(change.catalog, table.id)}), table)
    arriving: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.destination:
            arriving[place_of(change.destination)].append(change)
    for entry in sorted(unplanned, key=lambda entry: entry.identifier, reverse=True):
        writing = created.get(place_of(entry.destination)) if entry.kind == "table" and entry.destination else None
        if writing is not None and writing.key != entry.key:
            yield _Conflict(writing, Why(ReasonCode.LOCATION_AWAITED, {"name": entry.address}))
    for location in sorted(arriving.keys() & created.keys()):
        sharing = sorted(arriving[location], key=lambda change: change.identifier)
        for change in sharing if len(sharing) > 1 else ():
            rival = next(rival for rival in sharing if rival is not change)
            yield _Conflict(change, _why_shared(location, rival.address))


def _changed_data(
    source: CatalogInput, changes: Collection[Change], tables: LiveTables, waiting: Collection[Change]
) -> Iterator[_Conflict]:
    """Yield the conflicts of changes of data after which another block at the location is not met."""
    place_of, blocks = source.facts.place_of, source.desired.tables
    writing = {change.key for change in changes if changes_columns(change) or changes_tags(change)}
    if not writing:
        return  # resolving the places of a large catalog takes seconds
    managed = (change for change in (*changes, *waiting) if change.identifier in blocks)
    placed = [(change, place_of(change.destination)) for change in managed if change.destination]
    changing = [(change, location) for change, location in placed if change.key in writing]
    sharing: defaultdict[str, dict[Identifier, LiveTable | None]] = defaultdict(dict)
    for change, location in placed:
        sharing[location][change.identifier] = None
    touched = _touched(changes)
    for table in tables.at({location for _, location in changing}, source.facts):
        if table.id in blocks and table.id not in touched:
            sharing[place_of(table.location)][table.id] = table
    columns = {change.identifier: change.after_columns for change, _ in changing if changes_columns(change)}
    for change, location in changing:
        mine = columns.get(change.identifier)
        for name, live in sorted(sharing[location].items(), key=itemgetter(0)):
            # Of two changes of columns, the first alters the columns that the second was planned for.
            is_second = mine is not None and name < change.identifier and columns.get(name, mine) != mine
            if name != change.identifier and (
                is_second or breaks_block(change, blocks[change.identifier], blocks[name])
            ):
                yield _Conflict(change, _why_shared(location, address(change.catalog, name)), live)


def _touched(changes: Iterable[Change]) -> set[Identifier | None]:
    """Return the names of the tables that change, with their old names if they move."""
    return {name for change in changes if change.kind == "table" for name in (change.identifier, change.moved_from)}


def _why_shared(location: str, other: str) -> Why:
    return Why(ReasonCode.LOCATION_SHARED, {"name": other, "location": locations.redact(location)})


def _taken_defaults(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield the conflicts of new tables whose default location has the data of a table that stays.

    A moved table keeps its data at the default location of its old name.
    """
    place_of = source.facts.place_of
    created = {
        place_of(change.destination): change
        for change in changes
        if change.action is Action.REGISTER_TABLE
        and change.destination
        and locations.place(change.destination) not in source.planned_data
        and (block := source.desired.tables.get(change.identifier)) is not None
        and block.location is None
    }
    if not created:
        return
    leaving = {change.identifier for change in changes if change.action is Action.DEREGISTER_TABLE}
    for table in sorted(tables.at(created, source.facts), key=lambda table: table.id, reverse=True):
        change = created[place_of(table.location)]
        if table.id not in leaving and table.id != change.identifier:
            shown = locations.redact(table.location)
            params: Params = {"location": shown, "name": address(change.catalog, table.id)}
            yield _Conflict(change, Why(ReasonCode.DEFAULT_LOCATION_TAKEN, params), table)


def _enters_location(change: Change) -> bool:
    """Return whether a change gives an entry a location that it did not have."""
    before = change.before.location if change.before else None
    return change.destination is not None and not locations.same(before, change.destination)


def hiding_changes(
    capabilities: Capabilities, changes: Iterable[Change], place_of: Callable[[str], str]
) -> dict[str, Change]:
    """Return the changes that would hide a table without an entry, by that table's location.

    A catalog that ``lists_root`` lists directories as tables, unless an entry has the same location or one below it.

    Args:
        capabilities: those of the catalog.
        changes: the planned changes.
        place_of: normalises a location and resolves its symbolic links.
    """
    return {
        location: change
        for change in (changes if capabilities.lists_root else ())
        if change.destination and _enters_location(change)
        for location in locations.with_ancestors(place_of(change.destination))
    }


def _hidden_tables(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield the conflicts of entries that would hide a table which is listed for its directory alone.

    Only tables that the manifest or a mirror asks for conflict; any other may be hidden by a block for its directory.
    """
    place_of, blocks = source.facts.place_of, source.desired.tables
    listed = [
        table
        for table in (tables.tables.values() if source.capabilities.lists_root else ())
        if len(table.id) == 1 and not table.properties and (table.id in blocks or source.desired.is_followed)
    ]
    entering = hiding_changes(source.capabilities, changes if listed else (), place_of)
    if not entering:
        return
    leaving = {
        change.identifier for change in changes if change.before and (change.after is None or _enters_location(change))
    }
    for table in sorted(listed, key=lambda table: table.id, reverse=True):
        change = entering.get(place_of(table.location))
        if change is not None and table.id not in leaving and table.id != change.identifier:
            params: Params = {"location": locations.redact(table.location), "name": address(change.catalog, table.id)}
            yield _Conflict(change, Why(ReasonCode.HIDES_TABLE, params), table)


def _unreferenced_data(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield the conflicts of new tables whose data may be at a location that no entry has."""
    place_of, locations_of = source.facts.place_of, source.facts.possible_locations
    possible = [
        (change, location)
        for change in changes
        if change.kind == "table" and change.before is None
        for location in reversed(locations_of.get(change.identifier, ()))
    ]
    if not possible:
        return
    taken = {
        place_of(table.location) for table in tables.at({place_of(location) for _, location in possible}, source.facts)
    }
    taken |= {place_of(change.destination) for change in changes if change.destination}
    for change, location in possible:
        if place_of(location) not in taken:
            why = Why(ReasonCode.UNREFERENCED_DATA, {"location": locations.redact(location)})
            yield _Conflict(change, why, unreferenced=location)


def _taken_names(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield the conflicts of new objects whose name a live object of the other kind keeps."""
    new = [change for change in changes if change.is_new]
    if not source.capabilities.one_name_space or not new:
        return
    leaving = {change.key for change in changes if change.action.removes}
    left = namespaces_left(changes)
    namespaces = {change.identifier for change in new if change.kind == "namespace"}
    taken = {table.id: table for table in tables.named(namespaces)}
    for change in new:
        others = source.live.namespaces if change.kind == "table" else taken
        live = others.get(change.identifier)
        if live is None:
            continue
        if takes_emptied_name(change, left):
            yield _Conflict(change, Why(ReasonCode.NAME_TAKEN_UNTIL_MOVED), live)
        elif change.namesake not in leaving:
            params: Params = {"kind": change.kind, "other_kind": change.namesake[1]}
            yield _Conflict(change, Why(ReasonCode.NAME_TAKEN, params), live)
