"""Reading whole warehouses: level by level, several calls at a time, complete or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.backends.doubles import every_name
from reconciler.backends.iceberg.warehouse import TableEntry, UnreadableTableError, Warehouse
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import NamespaceNotFoundError, PermissionDeniedError, TableNotFoundError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, check_name, join


@dataclass(frozen=True, slots=True)
class UnreadableTable:
    """A table that is listed and cannot be loaded; ``reason`` completes "a table that"."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Place:
    """One namespace of one warehouse; no levels for the warehouse itself."""

    warehouse: Warehouse
    levels: tuple[str, ...] = ()

    @property
    def id(self) -> Identifier:
        return (self.warehouse.name, *self.levels)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a namespace holds. ``properties`` None: it is listed, but was never created (see :func:`_in_between`)."""

    properties: Mapping[str, str] | None
    namespaces: Sequence[str]
    tables: Sequence[str]


def scan_warehouses(
    warehouses: Iterable[Warehouse], scope: Scope, parallelism: int, *, only_readable: bool = False
) -> Snapshot:
    """Return every namespace and Lance table of ``warehouses`` within ``scope``.

    ``only_readable``: a table that cannot be loaded is a note, not an error.

    Raises:
        BackendError: naming what could not be read.
    """
    namespaces: dict[Identifier, LiveNamespace] = {}
    listed: list[tuple[_Place, str]] = []
    notes: list[str] = []
    level = [_Place(warehouse) for warehouse in warehouses]
    while level:
        below: list[_Place] = []
        found = in_parallel(lambda place: _contents(place, scope), level, parallelism)
        for place, contents in zip(level, found, strict=True):
            if contents is None:
                continue
            if contents.properties is None:
                notes.append(f"namespace `{join(place.id)}` is listed, but the service says that it does not exist")
            else:
                namespaces[place.id] = LiveNamespace(place.id, contents.properties)
            for name in _usable(place, "namespace", contents.namespaces, notes):
                child = (*place.id, name)
                if scope.contains(child) or scope.reaches(child):
                    below.append(_Place(place.warehouse, (*place.levels, name)))
            usable = _usable(place, "table", contents.tables, notes)
            listed += [(place, name) for name in usable if scope.contains((*place.id, name))]
        level = below
    load = _load_or_tell if only_readable else _load
    tables: dict[Identifier, LiveTable] = {}
    for (place, name), entry in zip(listed, in_parallel(lambda table: load(*table), listed, parallelism), strict=True):
        identifier = (*place.id, name)
        if isinstance(entry, UnreadableTable):
            notes.append(
                f"`{join(identifier)}` is left out: it is a table that {entry.reason}; repair or drop it there, grant "
                "the right to read it, or leave it out with `scope`"
            )
        elif entry is not None and entry.is_lance:
            tables[identifier] = LiveTable(identifier, entry.location, entry.properties)
    return Snapshot(namespaces, tables, tuple(sorted(notes)))


def all_tables(
    warehouse: Warehouse, levels: Sequence[str], parallelism: int, wanted: Collection[str] | None = None
) -> dict[str, TableEntry | UnreadableTable]:
    """Return the tables of a namespace, of whatever format, by name; those that are ``wanted``, where that is given.

    Among them are those that cannot be loaded.

    Raises:
        NamespaceNotFoundError: the service says that it does not exist.
    """
    concerns = every_name if wanted is None else wanted.__contains__
    listed = [name for name in warehouse.tables(levels, concerns) if concerns(name)]
    return listed_tables(warehouse, levels, parallelism, listed)


def listed_tables(
    warehouse: Warehouse, levels: Sequence[str], parallelism: int, names: Sequence[str]
) -> dict[str, TableEntry | UnreadableTable]:
    """Return what :func:`all_tables` does of ``names``, which were listed; those gone since are left out."""
    place = _Place(warehouse, tuple(levels))
    entries = in_parallel(lambda name: _load_or_tell(place, name), names, parallelism)
    return {name: entry for name, entry in zip(names, entries, strict=True) if entry is not None}


def _contents(place: _Place, scope: Scope) -> _Contents | None:
    """Return what a namespace holds, None when it vanished since it was listed."""
    if not place.levels:
        return _read(place, scope)
    for _ in range(2):
        try:
            return _read(place, scope)
        except NamespaceNotFoundError:
            if not _is_listed(place):
                return None
    return _in_between(place)


def _read(place: _Place, scope: Scope) -> _Contents:
    warehouse, levels = place.warehouse, place.levels
    properties = warehouse.namespace_properties(levels) if levels else {}
    if not scope.reaches(place.id):
        return _Contents(properties, (), ())

    def inside(name: str) -> bool:
        return scope.contains((*place.id, name))

    def wanted(name: str) -> bool:
        return inside(name) or scope.reaches((*place.id, name))

    namespaces = warehouse.child_namespaces(levels, wanted)
    return _Contents(properties, namespaces, warehouse.tables(levels, inside) if levels else ())


def _in_between(place: _Place) -> _Contents:
    """Return what is below a level that nobody created.

    Servers that let a namespace be created without its parent, as Apache's in-memory and JDBC catalogs do, list the
    parent and yet do not know it. It holds no tables.
    """
    return _Contents(None, place.warehouse.child_namespaces(place.levels), ())


def _is_listed(place: _Place) -> bool:
    try:
        return place.levels[-1] in place.warehouse.child_namespaces(place.levels[:-1], place.levels[-1].__eq__)
    except NamespaceNotFoundError:
        return False


def _load(place: _Place, name: str) -> TableEntry | None:
    """Return a table, None when it vanished since it was listed; one that is listed and missing is an error."""
    try:
        return place.warehouse.load_table(place.levels, name)
    except (TableNotFoundError, NamespaceNotFoundError):
        if not _is_table_listed(place, name):
            return None
    return place.warehouse.load_table(place.levels, name)


def _load_or_tell(place: _Place, name: str) -> TableEntry | UnreadableTable | None:
    """Return what :func:`_load` does, or why there is nothing to return, in words that do not change."""
    try:
        return _load(place, name)
    except PermissionDeniedError:
        return UnreadableTable("this caller may not read")
    except UnreadableTableError:
        return UnreadableTable("the service fails to read")
    except TableNotFoundError:
        return UnreadableTable("the service lists and does not find")


def _is_table_listed(place: _Place, name: str) -> bool:
    try:
        return name in place.warehouse.tables(place.levels, name.__eq__)
    except NamespaceNotFoundError:
        return False


def _usable(place: _Place, kind: str, names: Iterable[str], notes: list[str]) -> list[str]:
    """Return the names that can be part of an identifier, and note the others."""
    usable = []
    for name in names:
        reason = check_name(name)
        if reason is None:
            usable.append(name)
        else:
            notes.append(f"{kind} {name!r} in `{join(place.id)}` is left out: {reason}")
    return usable
