"""What the plan of a catalog leaves of its tables, for those that mirror it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from reconciler.model import locations
from reconciler.model.desired import DesiredTable
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.ownership import is_reserved_key, recorded_keys, recorded_secrets
from reconciler.model.redaction import is_sensitive, is_stand_in
from reconciler.planner.catalog import CatalogPlan
from reconciler.planner.entries import Action, Blocked, Change
from reconciler.planner.facts import CatalogInput
from reconciler.planner.mirrors import Remaining, Remains

EntryT = TypeVar("EntryT", Change, Blocked)

_SETTLES_PLACE = frozenset({Action.CREATE_TABLE, Action.DECLARE_TABLE})


def remains_of(source: CatalogInput, plan: CatalogPlan) -> Remains:
    """Return what there will be of a catalog's tables when its plan is carried out.

    What is blocked stays as it is, or is shown as it was to be; it waits, as does what waits with it.

    Args:
        source: the catalog, with its live tables.
        plan: made of it.
    """
    blocks = source.desired.tables
    tables = {table.id: _live(table, blocks.get(table.id)) for table in source.live.tables.values()}
    gone: set[Identifier] = set()
    for change in _of_tables(plan.changes):
        left = change.moved_from or (change.identifier if change.action is Action.DEREGISTER_TABLE else None)
        if left is not None:
            tables.pop(left, None)
            gone.add(left)
        if change.after is not None:
            tables[change.identifier] = _made(source, change)
    unsettled: list[Change | Blocked] = [*_of_tables(plan.waiting), *_of_tables(plan.blocked)]
    for one in unsettled:
        there = {one.moved_from or one.identifier, one.identifier} & tables.keys()
        for name in there:
            tables[name] = replace(tables[name], waits=True)
        if one.identifier not in there and not (isinstance(one, Change) and one.after is None):
            tables[one.identifier] = _unsettled(source, one)
    written = written_by(source, plan)
    for table in tables.values() if written else ():
        storage = written.get(locations.place(table.location)) if table.location is not None else None
        if storage is not None:
            tables[table.id] = replace(table, written=storage)
    return Remains(tables, frozenset(gone - tables.keys()))


def written_by(source: CatalogInput, plan: CatalogPlan) -> Mapping[str, Storage]:
    """Return what the plan writes where nothing is, and what it takes for written already, by its place."""
    known = source.mirrored.written if source.mirrored else {}
    found: dict[str, Storage] = {}
    for change in _of_tables(plan.changes):
        after = change.after
        if after is None or after.location is None:
            continue
        if after.columns and change.storage is StorageKind.NOTHING:
            found[locations.place(after.location)] = Storage(StorageKind.DATASET, after.columns, change.address)
        elif change.identifier in known:
            found[locations.place(after.location)] = known[change.identifier]
    return found


def _of_tables(entries: Iterable[EntryT]) -> Iterator[EntryT]:
    return (one for one in entries if one.kind == "table")


def _live(table: LiveTable, block: DesiredTable | None) -> Remaining:
    keys = recorded_keys(table.properties) | (block.properties.keys() if block else set())
    secret = recorded_secrets(table.properties).union(block.secret_keys if block else ())
    return Remaining(table.id, table.location, _taken_over(table.properties, keys, secret))


def _made(source: CatalogInput, change: Change) -> Remaining:
    after = change.after
    properties = after.properties if after else {}
    location = after.location if after else None
    is_chosen = source.capabilities.ignores_location and change.action in _SETTLES_PLACE
    return Remaining(
        change.identifier,
        None if is_chosen else location,
        _taken_over(properties, properties, change.secret_keys),
    )


def _unsettled(source: CatalogInput, one: Change | Blocked) -> Remaining:
    if isinstance(one, Change):
        return replace(_made(source, one), waits=True)
    block = source.desired.tables.get(one.identifier)
    properties = block.properties if block else {}
    taken = _taken_over(properties, properties, one.secret_keys)
    return Remaining(one.identifier, one.unreferenced or one.location, taken, waits=True)


def _taken_over(properties: Mapping[str, str], keys: Iterable[str], secret: Collection[str]) -> dict[str, str]:
    """Return the properties that a mirror has as well: no mark of lancens or of a catalog, and no secret."""
    return {
        key: value
        for key in sorted(keys)
        if (value := properties.get(key)) is not None
        and key not in secret
        and not (is_reserved_key(key) or is_sensitive(key, value) or is_stand_in(value))
    }
