"""Read all catalogs, databases and Lance tables within a scope.

A scan lists all catalogs, the databases of each, and the tables of each database. Each page is one call, and several
listings run concurrently. Glue has no filter for Lance tables, so every page is read in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from reconciler.backends.glue import structures
from reconciler.backends.glue.aws_errors import WebPageError
from reconciler.backends.odd_entries import left_out_note, odd_entry, with_odd_entries
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import NamespaceNotFoundError, PermissionDeniedError
from reconciler.model.live import LiveNamespace, LiveTable, OddEntry, Snapshot
from reconciler.model.names import Identifier, Only, Scope

if TYPE_CHECKING:
    from mypy_boto3_glue.type_defs import DatabaseTypeDef

    from reconciler.backends.glue.service import Service


_MAX_LISTINGS = 3

ResultT = TypeVar("ResultT")


def scan(service: Service, depth: int, scope: Scope, parallelism: int) -> Snapshot:
    """Return all namespaces and Lance tables within ``scope``.

    ``depth`` is the number of levels between the account's own catalog and the root. ``parallelism`` requests are in
    flight.

    Raises:
        BackendError: naming the call and its object; it never returns a part.
    """
    scan_state = _Scan(service, scope, parallelism)
    databases = scan_state.read_databases([(), *scan_state.read_catalogs(depth)])
    scan_state.read_tables(databases)
    snapshot = Snapshot(scan_state.namespaces, scan_state.tables, tuple(sorted(scan_state.notes)))
    return with_odd_entries(snapshot, scan_state.odd)


class _Scan:
    """A running scan: the objects read so far, and its three steps."""

    def __init__(self, service: Service, scope: Scope, parallelism: int) -> None:
        self.service, self.scope, self.parallelism = service, scope, parallelism
        self.namespaces: dict[Identifier, LiveNamespace] = {}
        self.tables: dict[Identifier, LiveTable] = {}
        self.notes: list[str] = []
        self.odd: dict[Identifier, OddEntry] = {}

    def read_catalogs(self, depth: int) -> list[Identifier]:
        """Read the catalogs; return those to list next, parents first."""
        listing = self.service.catalogs((), recursive=True)
        listed = {structures.names_in(catalog.get("CatalogId"))[depth:]: catalog for catalog in listing}
        if isinstance(self.service.catalogs_error, PermissionDeniedError | WebPageError):
            root = self.service.subject(())
            self.notes.append(f"catalogs inside {root} are not read: {self.service.catalogs_error}")
        for path, catalog in sorted(listed.items(), key=itemgetter(0)):
            if not self._is_relevant(path) or (path[:-1] and path[:-1] not in self.namespaces):
                continue
            reason = structures.catalog_mismatch(catalog)
            if reason is None:
                self.namespaces[path] = structures.live_catalog(path, catalog)
            else:
                self._leave_out(path, reason)
        return [path for path in self.namespaces if self.scope.reaches(path)]

    def read_databases(self, catalogs: Sequence[Identifier]) -> list[Identifier]:
        """Read the databases of ``catalogs``; return those whose tables to list."""

        def databases_of(path: Identifier) -> list[DatabaseTypeDef] | None:
            return _unless_removed(
                lambda: list(self.service.databases(path)), lambda: path and self.service.catalog(path)
            )

        reached: list[Identifier] = []
        hidden: set[Identifier] = set()
        for path, databases in zip(catalogs, in_parallel(databases_of, catalogs, self.parallelism), strict=True):
            if path in hidden:
                continue
            if databases is None or path[:-1] in hidden:
                del self.namespaces[path]
                hidden.add(path)
                continue
            for database in databases:
                identifier = (*path, database["Name"])
                if not self._is_relevant(identifier):
                    continue
                reason = structures.database_mismatch(database)
                if reason is not None:
                    self._leave_out(identifier, reason)
                    continue
                if identifier in self.namespaces:
                    hidden.add(identifier)
                    self._leave_out(identifier, "a catalog with the name of a database beside it; the database is read")
                self.namespaces[identifier] = structures.live_database(identifier, database)
                if self.scope.reaches(identifier):
                    reached.append(identifier)
        return reached

    def read_tables(self, databases: Sequence[Identifier]) -> None:
        """Read the Lance tables of every database."""

        def tables_of(database: Identifier) -> dict[Identifier, LiveTable | OddEntry] | None:
            return _unless_removed(lambda: dict(self._tables_of(database)), lambda: self.service.database(database))

        for database, read in zip(databases, in_parallel(tables_of, databases, self.parallelism), strict=True):
            if read is None:
                del self.namespaces[database]
            for identifier, entry in (read or {}).items():
                if isinstance(entry, OddEntry):
                    self.odd[identifier] = entry
                else:
                    self.tables[identifier] = entry

    def _tables_of(self, database: Identifier) -> Iterator[tuple[Identifier, LiveTable | OddEntry]]:
        """Yield each table marked as a Lance table, or why it is left out."""
        names = self.scope.names_in(database) if isinstance(self.scope, Only) else None
        for table in self.service.tables(database, names):
            identifier = (*database, table["Name"])
            if structures.is_marked_lance(table) and self.scope.contains(identifier):
                reason = structures.name_mismatch(table["Name"]) or structures.table_mismatch(table)
                live = structures.live_table(identifier, table)
                yield identifier, live if reason is None else odd_entry(reason, live.properties)

    def _is_relevant(self, identifier: Identifier) -> bool:
        return self.scope.contains(identifier) or self.scope.reaches(identifier)

    def _leave_out(self, identifier: Identifier, reason: str) -> None:
        self.notes.append(left_out_note(identifier, reason))


def _unless_removed(read: Callable[[], ResultT], load_namespace: Callable[[], object]) -> ResultT | None:
    """Return the result of ``read``; None if the namespace was removed meanwhile.

    ``load_namespace`` loads the namespace itself. If it still exists, ``read`` is called again.

    Raises:
        NamespaceNotFoundError: it keeps appearing and disappearing.
    """
    for _ in range(_MAX_LISTINGS - 1):
        try:
            return read()
        except NamespaceNotFoundError:
            try:
                load_namespace()
            except NamespaceNotFoundError:
                return None
    return read()
