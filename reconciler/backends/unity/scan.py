"""Read the schemas and Lance tables of catalogs, several schemas at a time."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.backends.odd_entries import odd_entry, with_odd_entries
from reconciler.backends.unity.rules import name_problem
from reconciler.backends.unity.service import UnityEntry, UnityService
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError, InternalError, NamespaceNotFoundError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, OddEntry, Snapshot
from reconciler.model.names import Identifier, Scope, join

_READ_ONLY_CATALOGS = frozenset({"FOREIGN_CATALOG", "DELTASHARING_CATALOG", "SYSTEM_CATALOG"})


def scan_catalogs(service: UnityService, only: str | None, scope: Scope, parallelism: int) -> Snapshot:
    """Return all catalogs, or ``only`` one, with their contents within ``scope``.

    ``parallelism`` schemas are read at a time.

    Raises:
        BackendError: naming what could not be read.
    """

    def is_wanted(name: str) -> bool:
        return only in (None, name) and (scope.contains((name,)) or scope.reaches((name,)))

    if only is not None and not is_wanted(only):
        return Snapshot()
    listed = [info for info in service.catalogs(lambda info: is_wanted(info.name)) if is_wanted(info.name)]
    if only is not None and not listed:
        listed = [service.read((only,))]  # raises the error of a catalog that is missing
    return _merged([_scan_catalog(service, info, scope, parallelism) for info in listed])


def _merged(parts: Sequence[Snapshot]) -> Snapshot:
    return Snapshot(
        {identifier: namespace for part in parts for identifier, namespace in part.namespaces.items()},
        {identifier: table for part in parts for identifier, table in part.tables.items()},
        tuple(note for part in parts for note in part.notes),
        {identifier: entry for part in parts for identifier, entry in part.odd.items()},
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

    def is_wanted(schema: UnityEntry) -> bool:
        return scope.contains((catalog, schema.name)) or scope.reaches((catalog, schema.name))

    for schema in service.schemas(catalog, is_wanted):
        problem = name_problem(schema.name)
        if problem is not None:
            notes.append(f"the schema `{schema.name}` cannot be shown: {problem}")
        elif is_wanted(schema):
            namespaces[catalog, schema.name] = live_namespace((catalog, schema.name), schema)
    reached = [identifier for identifier in namespaces if identifier != root and scope.reaches(identifier)]
    results = in_parallel(lambda schema: _tables_of(service, schema, scope), reached, parallelism)
    missing = {schema: read for schema, read in zip(reached, results, strict=True) if isinstance(read, BackendError)}
    listed_again = {(catalog, schema.name) for schema in service.schemas(catalog)} if missing else set()
    for identifier, error in missing.items():
        if identifier in listed_again:
            raise error
        del namespaces[identifier]
    return _merged(
        [Snapshot(namespaces, notes=tuple(notes)), *(read for read in results if isinstance(read, Snapshot))]
    )


def _tables_of(service: UnityService, schema: Identifier, scope: Scope) -> Snapshot | BackendError:
    """Return the Lance tables of a schema and its odd entries, or the error if the schema is missing.

    An odd entry has the mark of a Lance table, but its type is not external, or it names no location.
    """

    def is_wanted(info: UnityEntry) -> bool:
        return info.is_marked and scope.contains((*schema, info.name))

    tables: dict[Identifier, LiveTable] = {}
    odd: dict[Identifier, OddEntry] = {}
    notes: list[str] = []
    try:
        listed = service.tables(schema, is_wanted)
    except NamespaceNotFoundError as error:
        return error
    for info in filter(is_wanted, listed):
        identifier = (*schema, info.name)
        problem = name_problem(info.name)
        if problem is not None:
            notes.append(f"the table `{info.name}` in `{join(schema)}` cannot be shown: {problem}")
        elif not info.is_lance:
            odd[identifier] = odd_entry(info.mismatch, info.properties)
        else:
            tables[identifier] = live_table(identifier, info)
    return with_odd_entries(Snapshot(tables=tables, notes=tuple(notes)), odd)


def live_namespace(identifier: Identifier, info: UnityEntry) -> LiveNamespace:
    """Return a catalog or a schema as a live namespace."""
    return LiveNamespace(identifier, info.properties, root=info.location)


def live_table(identifier: Identifier, info: UnityEntry) -> LiveTable:
    """Return an entry as a live table.

    Raises:
        InternalError: the entry names no location.
    """
    if info.location is None:
        raise InternalError(f"unity: the table `{join(identifier)}` has no storage_location; repair or drop its entry")
    return LiveTable(identifier, info.location, info.properties)


def foreign_table(identifier: Identifier, info: UnityEntry) -> ForeignTable:
    """Return an entry that is no Lance table, for an inventory.

    It shows its format, or else its type; with the mark of a Lance table, it shows that and the type.
    """
    shown = f"lance, {info.kind}" if info.is_marked else info.format or info.kind
    return ForeignTable(identifier, info.location, shown)
