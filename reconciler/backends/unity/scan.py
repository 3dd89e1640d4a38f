"""The bulk read of catalogs: the schemas of each, then the tables of several at a time."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.backends.unity.rules import name_problem
from reconciler.backends.unity.service import UnityEntry, UnityService
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import InternalError, NamespaceNotFoundError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, join

_READ_ONLY_CATALOGS = frozenset({"FOREIGN_CATALOG", "DELTASHARING_CATALOG", "SYSTEM_CATALOG"})


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of one schema; ``missing`` is the error of a vanished schema."""

    tables: list[LiveTable]
    notes: list[str]
    missing: NamespaceNotFoundError | None = None


def scan_catalogs(service: UnityService, only: str | None, scope: Scope, parallelism: int) -> Snapshot:
    """Return the catalogs, or ``only`` this one, with their schemas and Lance tables within ``scope``.

    ``parallelism`` schemas are read at a time.

    Raises:
        BackendError: naming what could not be read.
    """

    def wanted(name: str) -> bool:
        return only in (None, name) and (scope.contains((name,)) or scope.reaches((name,)))

    if only is not None and not wanted(only):
        return Snapshot()
    listed = [info for info in service.catalogs(lambda info: wanted(info.name)) if wanted(info.name)]
    if only is not None and not listed:
        listed = [service.read((only,))]  # for what the service answers then
    found = [_scan_catalog(service, info, scope, parallelism) for info in listed]
    return Snapshot(
        {identifier: namespace for one in found for identifier, namespace in one.namespaces.items()},
        {identifier: table for one in found for identifier, table in one.tables.items()},
        tuple(note for one in found for note in one.notes),
    )


def _scan_catalog(service: UnityService, info: UnityEntry, scope: Scope, parallelism: int) -> Snapshot:
    catalog, problem = info.name, name_problem(info.name)
    if problem is not None:
        return Snapshot(notes=(f"the catalog `{catalog}` cannot be shown: {problem}",))
    root: Identifier = (catalog,)
    namespaces = {root: live_namespace(root, info)}
    notes = [f"`{catalog}` is a {info.kind}, which is read-only"] if info.kind in _READ_ONLY_CATALOGS else []
    if not scope.reaches(root):
        return Snapshot(namespaces, notes=tuple(notes))

    def wanted(schema: UnityEntry) -> bool:
        return scope.contains((catalog, schema.name)) or scope.reaches((catalog, schema.name))

    for schema in service.schemas(catalog, wanted):
        problem = name_problem(schema.name)
        if problem is not None:
            notes.append(f"the schema `{schema.name}` cannot be shown: {problem}")
        elif wanted(schema):
            namespaces[catalog, schema.name] = live_namespace((catalog, schema.name), schema)
    reached = [identifier for identifier in namespaces if identifier != root and scope.reaches(identifier)]
    found = in_parallel(lambda schema: _tables_of(service, schema, scope), reached, parallelism)
    gone = {reached[number]: read.missing for number, read in enumerate(found) if read.missing is not None}
    listed_again = {(catalog, schema.name) for schema in service.schemas(catalog)} if gone else set()
    for identifier, error in gone.items():
        if identifier in listed_again:
            raise error
        del namespaces[identifier]
    return Snapshot(
        namespaces,
        {table.id: table for read in found for table in read.tables},
        (*notes, *(note for read in found for note in read.notes)),
    )


def _tables_of(service: UnityService, schema: Identifier, scope: Scope) -> _Tables:
    def wanted(info: UnityEntry) -> bool:
        return info.is_marked and scope.contains((*schema, info.name))

    tables: list[LiveTable] = []
    notes: list[str] = []
    try:
        listed = service.tables(schema, wanted)
    except NamespaceNotFoundError as error:
        return _Tables([], [], error)
    for info in filter(wanted, listed):
        identifier = (*schema, info.name)
        problem = name_problem(info.name)
        if problem is not None:
            notes.append(f"the table `{info.name}` in `{join(schema)}` cannot be shown: {problem}")
        elif not info.is_lance:
            notes.append(f"`{join(identifier)}` is marked as a Lance table, but its type is {info.kind}")
        else:
            tables.append(live_table(identifier, info))
    return _Tables(tables, notes)


def live_namespace(identifier: Identifier, info: UnityEntry) -> LiveNamespace:
    """Return a catalog or a schema as the planner knows it."""
    return LiveNamespace(identifier, info.properties, root=info.location)


def live_table(identifier: Identifier, info: UnityEntry) -> LiveTable:
    """Return a Lance table as the planner knows it.

    Raises:
        InternalError: its entry names no location.
    """
    if info.location is None:
        raise InternalError(f"unity: the table `{join(identifier)}` has no storage_location; repair or drop its entry")
    return LiveTable(identifier, info.location, info.properties)


def foreign_table(identifier: Identifier, info: UnityEntry) -> ForeignTable:
    """Return a foreign table; its format is that of its data, or else its type."""
    shown = f"lance, {info.kind}" if info.is_marked else info.format or info.kind
    return ForeignTable(identifier, info.location, shown)
