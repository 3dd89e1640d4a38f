"""Resolve conflicts between the changes of one catalog.

Only all changes together show that two need one location or name, or that a namespace is not empty. A change that
depends on a blocked object waits: objects below it, and removals of what it would replace. Each newly blocked object
may make more changes wait, so this repeats until nothing is found.
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
from reconciler.planner.sharing import changes_columns, changes_tags, spoils

_MOST_NOTES = 5
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Conflict:
    """A change that conflicts with others, and the object or data in its way."""

    change: Change
    why: Why
    with_live: LiveNamespace | LiveTable | None = None
    unreferenced: str | None = None


def resolve(source: CatalogInput, outcomes: Outcomes, tables: LiveTables) -> None:
    """Keep in ``changes`` what can be planned; block or delay the rest.

    Args:
        source: the catalog; its live tables and the facts about tables are not read.
        outcomes: those of all its objects.
        tables: answers questions about the live tables as a whole.
    """
    candidates = outcomes.drops
    held = source.mirrored.held if source.mirrored else frozenset[Identifier]()
    moves = moves_of(source.desired) if candidates else NO_MOVES
    while True:
        waits = _waits(outcomes, held, moves)
        while waits is not None:
            delayed = [change for change in (*outcomes.changes, *candidates) if waits(change)]
            delayed = delayed or _made_in_vain(source, outcomes)
            if not delayed:
                break
            aside = {change.key for change in delayed}
            outcomes.waiting += delayed
            outcomes.changes = [change for change in outcomes.changes if change.key not in aside]
            candidates = [change for change in candidates if change.key not in aside]
            waits = _waits(outcomes, held, moves)
        decided, outcomes.notes = _decide_drops(source, outcomes.changes, candidates, tables)
        # One that stays may be what blocks the object that its removal waits for from then on.
        outcomes.occupied |= {change.identifier for change in candidates}
        outcomes.occupied -= {change.identifier for change in decided}
        planned = [*outcomes.changes, *decided]
        conflicts = {
            conflict.change.key: conflict
            for conflict in (
                *_shared_locations(source, planned, tables, [*outcomes.blocked.values(), *outcomes.waiting]),
                *_changed_data(source, planned, tables, outcomes.waiting),
                *_taken_defaults(source, planned, tables),
                *_hidden(source, planned, tables),
                *_unreferenced(source, planned, tables),
                *_namesakes(source, planned, tables),
            )
        }
        if not conflicts:
            outcomes.occupied -= _only_waiting(source, outcomes, candidates, tables)
            levels = source.capabilities.kept_levels
            undroppable = {change.key: change for change in decided if len(change.identifier) <= levels}
            outcomes.blocked |= {key: _blocked(_dropped_outside(source, change)) for key, change in undroppable.items()}
            outcomes.changes = [change for change in planned if change.key not in undroppable]
            return
        for key, conflict in conflicts.items():
            outcomes.blocked[key] = _blocked(conflict)
            if conflict.with_live is not None:
                outcomes.in_the_way[conflict.with_live.id] = conflict.with_live
        outcomes.changes = [change for change in outcomes.changes if change.key not in conflicts]


def _only_waiting(
    source: CatalogInput, outcomes: Outcomes, candidates: Collection[Change], tables: LiveTables
) -> set[Identifier]:
    """Return the namespaces that stay only for objects that wait, of which the plan says that they stay."""
    waiting = outcomes.waiting
    drops = [*candidates, *(change for change in waiting if change.action is Action.DROP_NAMESPACE)] if waiting else []
    emptied, _ = _decide_drops(source, [*outcomes.changes, *waiting], drops, tables)
    return {change.identifier for change in emptied}


def _dropped_outside(source: CatalogInput, drop: Change) -> _Conflict:
    command = source.capabilities.drop_command.replace("NAME", quote(drop.identifier[-1], safe=""))
    return _Conflict(drop, Why(ReasonCode.DROPPED_OUTSIDE, {"code": command}))


def _made_in_vain(source: CatalogInput, outcomes: Outcomes) -> list[Change]:
    """Return namespaces that a mirror creates only for blocked or waiting tables."""
    blocks = source.desired.namespaces
    mirrored = [
        change
        for change in outcomes.changes
        if change.action is Action.CREATE_NAMESPACE and (block := blocks.get(change.identifier)) and block.mirrored
    ]
    if not mirrored:
        return []
    held = _above(
        entry.identifier for entry in (*outcomes.blocked.values(), *outcomes.waiting) if entry.kind == "table"
    )
    used = _above(
        change.identifier for change in outcomes.changes if change.kind == "table" and change.after is not None
    )
    return [change for change in mirrored if change.identifier in held - used]


def _above(tables: Iterable[Identifier]) -> set[Identifier]:
    return {table[:depth] for table in tables for depth in range(1, len(table))}


def _blocked(conflict: _Conflict) -> Blocked:
    change = conflict.change
    # What an entry shows is not recorded of blocked tables.
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


def _waits(outcomes: Outcomes, mirrors: Collection[Identifier], moves: Moves) -> Callable[[Change], bool] | None:
    """Return a function that tells whether a change waits; None if none can.

    ``mirrors`` are the tables that wait for their source.
    """
    if not outcomes.blocked and not mirrors:
        return None
    if any(entry.code is ReasonCode.CATALOG_TOO_NEW for entry in outcomes.blocked.values()):
        return lambda _: True
    above = {entry.identifier for entry in outcomes.blocked.values() if entry.kind == "namespace"}
    held: list[Blocked | Change] = [*outcomes.blocked.values(), *outcomes.waiting]
    places = {locations.place(entry.destination) for entry in held if entry.destination is not None}
    names = {entry.key for entry in held if entry.is_new}
    stored_names = {entry.kept_as for entry in outcomes.blocked.values() if entry.kept_as is not None}

    def waits(change: Change) -> bool:
        identifier = change.identifier
        if change.kind == "table" and identifier in mirrors:
            return True
        if above and any(identifier[:depth] in above for depth in range(1, len(identifier))):
            return True
        if not change.action.removes:
            return False
        if identifier in stored_names:
            return True
        # Its new name gets the properties of others from it.
        to = moves.namespace_target_of(identifier) if change.kind == "namespace" else None
        if to is not None and (change.catalog, change.kind, to) in names:
            return True
        place = change.before.location if change.before else None
        return (place is not None and locations.place(place) in places) or change.namesake in names

    return waits


def _decide_drops(
    source: CatalogInput, changes: Sequence[Change], candidates: Collection[Change], tables: LiveTables
) -> tuple[list[Change], list[Note]]:
    """Return the drops of namespaces that will be empty, and notes on the others."""
    if not candidates:
        return [], []
    held = Counter(dict(tables.count_in({change.identifier for change in candidates})))
    held.subtract(change.identifier[:-1] for change in changes if change.action is Action.DEREGISTER_TABLE)
    held.subtract(change.moved_from[:-1] for change in changes if change.moved_from is not None)
    held.update(change.identifier[:-1] for change in changes if change.is_new)
    children: defaultdict[Identifier, set[Identifier]] = defaultdict(set)
    for identifier in source.live.namespaces:
        children[identifier[:-1]].add(identifier)
    drops: list[Change] = []
    remaining: list[Params] = []
    for change in sorted(candidates, key=lambda change: (-len(change.identifier), change.identifier)):
        identifier = change.identifier
        occupants = source.facts.occupants.get(identifier, ())
        staying = held[identifier] + len(children[identifier]) + len(occupants)
        if staying:
            sample: Params = {"names": tuple(sorted(occupants)[:_NAMED])} if occupants else {}
            remaining.append({"where": change.address, "count": staying, **sample})
        else:
            drops.append(change)
            children[identifier[:-1]].discard(identifier)
    return drops, [*_kept_notes(source.desired.name, remaining)]


def _kept_notes(catalog: str, remaining: Sequence[Params]) -> Iterator[Note]:
    """Yield notes on namespaces that are not empty; many of them are one note."""
    if len(remaining) <= _MOST_NOTES:
        yield from (Note(catalog=catalog, code=NoteCode.KEPT_NAMESPACE, params=params) for params in remaining)
        return
    sample = tuple(sorted(params["where"] for params in remaining)[:_NAMED])
    counts: Params = {"count": len(remaining), "names": sample, "more": len(remaining) - _NAMED}
    yield Note(catalog=catalog, code=NoteCode.KEPT_NAMESPACES, params=counts)


def _shared_locations(
    source: CatalogInput, changes: Collection[Change], tables: LiveTables, held: Sequence[Blocked | Change]
) -> Iterator[_Conflict]:
    """Yield tables that share a location with a dataset to be written."""
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
    for entry in sorted(held, key=lambda entry: entry.identifier, reverse=True):
        writing = created.get(place_of(entry.destination)) if entry.kind == "table" and entry.destination else None
        if writing is not None and writing.key != entry.key:
            yield _Conflict(writing, Why(ReasonCode.LOCATION_AWAITED, {"name": entry.address}))
    for location in sorted(arriving.keys() & created.keys()):
        sharing = sorted(arriving[location], key=lambda change: change.identifier)
        for change in sharing if len(sharing) > 1 else ():
            rival = next(rival for rival in sharing if rival is not change)
            yield _Conflict(change, _shared(location, rival.address))


def _changed_data(
    source: CatalogInput, changes: Collection[Change], tables: LiveTables, waiting: Collection[Change]
) -> Iterator[_Conflict]:
    """Yield changes of data that is not what another table at its location asks for afterwards."""
    place_of, blocks = source.facts.place_of, source.desired.tables
    writing = {change.key for change in changes if changes_columns(change) or changes_tags(change)}
    if not writing:
        return  # the places of a large fleet cost seconds
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
            # Of two changes of columns, the later one would find others than it was planned on.
            is_late = mine is not None and name < change.identifier and columns.get(name, mine) != mine
            if name != change.identifier and (is_late or spoils(change, blocks[change.identifier], blocks[name])):
                yield _Conflict(change, _shared(location, address(change.catalog, name)), live)


def _touched(changes: Iterable[Change]) -> set[Identifier | None]:
    """Return the names of the tables that change, before and afterwards."""
    return {name for change in changes if change.kind == "table" for name in (change.identifier, change.moved_from)}


def _shared(location: str, other: str) -> Why:
    return Why(ReasonCode.LOCATION_SHARED, {"name": other, "location": locations.redact(location)})


def _taken_defaults(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield new tables whose default location holds data of a table that stays.

    A moved table keeps its data at the default location of its old name.
    """
    place_of = source.facts.place_of
    created = {
        place_of(change.destination): change
        for change in changes
        if change.action is Action.REGISTER_TABLE
        and change.destination
        and locations.place(change.destination) not in source.written
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


def _enters(change: Change) -> bool:
    """Return whether an entry comes to a location where it was not before."""
    before = change.before.location if change.before else None
    return change.destination is not None and not locations.same(before, change.destination)


def hiding_places(
    capabilities: Capabilities, changes: Iterable[Change], place_of: Callable[[str], str]
) -> dict[str, Change]:
    """Return the places at which a new entry would hide a table that only a directory makes, each with its change."""
    return {
        location: change
        for change in (changes if capabilities.lists_root else ())
        if change.destination and _enters(change)
        for location in locations.and_above(place_of(change.destination))
    }


def _hidden(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield tables whose entry would hide another table, which only its directory under the root makes one.

    Hiding is what a block for the directory of such a table is for, unless the manifest wants that table, too.
    """
    place_of = source.facts.place_of
    entering = hiding_places(source.capabilities, changes, place_of)
    if not entering:
        return
    leaving = {change.identifier for change in changes if change.before and (change.after is None or _enters(change))}
    blocks = source.desired.tables
    for table in sorted(tables.at(entering, source.facts), key=lambda table: table.id, reverse=True):
        change = entering[place_of(table.location)]
        if len(table.id) != 1 or table.properties or table.id in leaving or table.id == change.identifier:
            continue
        if table.id in blocks or source.desired.is_followed:
            params: Params = {"location": locations.redact(table.location), "name": address(change.catalog, table.id)}
            yield _Conflict(change, Why(ReasonCode.HIDES_TABLE, params), table)


def _unreferenced(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield new tables whose data may be at a location that no entry has."""
    place_of, stored = source.facts.place_of, source.facts.stored
    doubts = [
        (change, location)
        for change in changes
        if change.kind == "table" and change.before is None
        for location in reversed(stored.get(change.identifier, ()))
    ]
    if not doubts:
        return
    taken = {
        place_of(table.location) for table in tables.at({place_of(location) for _, location in doubts}, source.facts)
    }
    taken |= {place_of(change.destination) for change in changes if change.destination}
    for change, location in doubts:
        if place_of(location) not in taken:
            why = Why(ReasonCode.UNREFERENCED_DATA, {"location": locations.redact(location)})
            yield _Conflict(change, why, unreferenced=location)


def _namesakes(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[_Conflict]:
    """Yield new objects whose name a live object of the other kind keeps."""
    new = [change for change in changes if change.is_new]
    if not source.capabilities.one_name_space or not new:
        return
    leaving = {change.key for change in changes if change.action.removes}
    left = namespaces_left(changes)
    namespaces = {change.identifier for change in new if change.kind == "namespace"}
    taken = {table.id: table for table in tables.named(namespaces)}
    for change in new:
        possible = source.live.namespaces if change.kind == "table" else taken
        live = possible.get(change.identifier)
        if live is None:
            continue
        if takes_emptied_name(change, left):
            yield _Conflict(change, Why(ReasonCode.NAME_TAKEN_UNTIL_MOVED), live)
        elif change.namesake not in leaving:
            params: Params = {"kind": change.kind, "other_kind": change.namesake[1]}
            yield _Conflict(change, Why(ReasonCode.NAME_TAKEN, params), live)
