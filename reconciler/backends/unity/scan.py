"""The bulk read of a catalog: its schemas, then their tables, several schemas at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.backends.unity.doubles import each_once
from reconciler.backends.unity.names import name_problem
from reconciler.backends.unity.service import SchemaInfo, TableInfo, UnityService
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import InternalError, NamespaceNotFoundError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, join

_READ_ONLY_CATALOGS = frozenset({"FOREIGN_CATALOG", "DELTASHARING_CATALOG", "SYSTEM_CATALOG"})


@dataclass(frozen=True, slots=True)
class _Tables:
    """What was found in one schema; ``missing`` is why there was no such schema any more."""

    tables: list[LiveTable]
    notes: list[str]
    missing: NamespaceNotFoundError | None = None


def scan_catalog(service: UnityService, catalog: str, scope: Scope, parallelism: int) -> Snapshot:
    """Return the catalog, its schemas and their Lance tables within ``scope``, ``parallelism`` schemas at a time.

    Raises:
        BackendError: naming what could not be read.
    """
    root: Identifier = (catalog,)
    if not scope.contains(root) and not scope.reaches(root):
        return Snapshot()
    info = _catalog(service, catalog)
    namespaces = {root: live_namespace(root, info)}
    notes = [f"`{catalog}` is a {info.kind}, which is read-only"] if info.kind in _READ_ONLY_CATALOGS else []
    if not scope.reaches(root):
        return Snapshot(namespaces, notes=tuple(notes))

    def wanted_schema(schema: SchemaInfo) -> bool:
        return scope.contains((catalog, schema.name)) or scope.reaches((catalog, schema.name))

    for schema in each_once(lambda: service.schemas(catalog), root, wanted_schema):
        identifier = (catalog, schema.name)
        problem = name_problem(schema.name)
        if problem is not None:
            notes.append(f"the schema `{schema.name}` cannot be shown: {problem}")
        elif wanted_schema(schema):
            namespaces[identifier] = live_namespace(identifier, schema)
    wanted = [identifier for identifier in namespaces if identifier != root and scope.reaches(identifier)]
    found = in_parallel(lambda schema: _tables_of(service, schema, scope), wanted, parallelism)
    gone = {schema: read.missing for schema, read in zip(wanted, found, strict=True) if read.missing is not None}
    if gone:
        _require_gone(service, catalog, gone)
    return Snapshot(
        {identifier: space for identifier, space in namespaces.items() if identifier not in gone},
        {table.id: table for read in found for table in read.tables},
        (*notes, *(note for read in found for note in read.notes)),
    )


def _catalog(service: UnityService, name: str) -> SchemaInfo:
    """Return the catalog as it is listed, or what the service answers to its name where it is not."""
    named = each_once(lambda: service.catalogs_named(name), ())
    return named[0] if named else service.catalog(name)


def _tables_of(service: UnityService, schema: Identifier, scope: Scope) -> _Tables:
    tables: list[LiveTable] = []
    notes: list[str] = []
    try:
        for info in each_once(lambda: _within(scope, schema, service.tables(schema)), schema, _is_marked):
            identifier = (*schema, info.name)
            if not info.is_marked:
                continue
            problem = name_problem(info.name)
            if problem is not None:
                notes.append(f"the table `{info.name}` in `{join(schema)}` cannot be shown: {problem}")
            elif not info.is_lance:
                notes.append(f"`{join(identifier)}` is marked as a Lance table, but its type is {info.kind}")
            else:
                tables.append(live_table(identifier, info))
    except NamespaceNotFoundError as error:
        return _Tables([], [], error)
    return _Tables(tables, notes)


def _within(scope: Scope, schema: Identifier, infos: Iterable[TableInfo]) -> Iterator[TableInfo]:
    return (info for info in infos if scope.contains((*schema, info.name)))


def _is_marked(info: TableInfo) -> bool:
    return info.is_marked


def _require_gone(service: UnityService, catalog: str, gone: dict[Identifier, NamespaceNotFoundError]) -> None:
    """List again, and refuse to leave out a schema that is still there."""
    listed = {(catalog, schema.name) for schema in service.schemas(catalog)}
    for schema, error in gone.items():
        if schema in listed:
            raise error


def live_namespace(identifier: Identifier, info: SchemaInfo) -> LiveNamespace:
    """Return a catalog or a schema as the planner knows it."""
    return LiveNamespace(identifier, info.properties, root=info.root)


def live_table(identifier: Identifier, info: TableInfo) -> LiveTable:
    """Return a Lance table as the planner knows it.

    Raises:
        InternalError: its entry names no location.
    """
    if info.location is None:
        raise InternalError(f"unity: the table `{join(identifier)}` has no storage_location; repair or drop its entry")
    return LiveTable(identifier, info.location, info.properties)


def foreign_table(identifier: Identifier, info: TableInfo) -> ForeignTable:
    """Return a table that is not a Lance table; its format is the one of its data, or else its type."""
    told = f"lance, {info.kind}" if info.is_marked else info.format or info.kind
    return ForeignTable(identifier, info.location, told)
