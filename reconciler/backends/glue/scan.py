"""The bulk read: every catalog, database and Lance table within a scope, in as few calls as Glue admits.

One listing of all catalogs, one of the databases of each, one of the tables of each database. A listing takes a call
for every page, and several run at once. Glue has no filter for Lance tables, so that every page is read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from reconciler.backends.glue.catalog_ids import GlueCatalog, name_fault
from reconciler.backends.glue.structures import (
    catalog_oddity,
    database_oddity,
    is_marked_lance,
    live_catalog,
    live_database,
    live_table,
    table_oddity,
)
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import NamespaceNotFoundError, PermissionDeniedError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, join

if TYPE_CHECKING:
    from mypy_boto3_glue.type_defs import DatabaseTypeDef

    from reconciler.backends.glue.service import Service


_LISTINGS = 3

ResultT = TypeVar("ResultT")


def scan(service: Service, root: GlueCatalog, scope: Scope, parallelism: int) -> Snapshot:
    """Return everything below ``root`` within ``scope``, with ``parallelism`` requests in flight.

    Raises:
        BackendError: naming the call and what it was about; never returns a part.
    """
    reading = _Reading(service, scope, parallelism)
    catalogs = reading.read_catalogs(root)
    databases = reading.read_databases([root, *catalogs])
    reading.read_tables(databases)
    return Snapshot(reading.namespaces, reading.tables, tuple(sorted(reading.notes)))


class _Reading:
    """What has been read so far; each step starts from what the one before returned."""

    def __init__(self, service: Service, scope: Scope, parallelism: int) -> None:
        self._service = service
        self._scope = scope
        self._parallelism = parallelism
        self.namespaces: dict[Identifier, LiveNamespace] = {}
        self.tables: dict[Identifier, LiveTable] = {}
        self.notes: list[str] = []

    def read_catalogs(self, root: GlueCatalog) -> list[GlueCatalog]:
        """Return the catalogs worth looking into, parents first."""
        listing = self._service.catalogs(root, recursive=True)
        listed = {root.found(catalog.get("CatalogId", "")): catalog for catalog in listing}
        if isinstance(self._service.without_catalogs, PermissionDeniedError):
            self.notes.append(f"catalogs inside {root.label} are not read: {self._service.without_catalogs}")
        kept: dict[Identifier, GlueCatalog] = {(): root}
        for place, catalog in sorted(listed.items(), key=lambda item: item[0].path):
            if place.path[:-1] not in kept or not self._concerns(place.path):
                continue
            reason = name_fault(place.path[-1]) or catalog_oddity(catalog)
            if reason is not None:
                self._leave_out(place.path, reason)
                continue
            kept[place.path] = place
            self.namespaces[place.path] = live_catalog(place.path, catalog)
        return [place for path, place in kept.items() if path and self._scope.reaches(path)]

    def read_databases(self, catalogs: Sequence[GlueCatalog]) -> list[tuple[GlueCatalog, str]]:
        """Return the databases worth looking into, each with its catalog."""

        def databases_of(place: GlueCatalog) -> list[DatabaseTypeDef] | None:
            return _unless_gone(
                lambda: list(self._service.databases(place)),
                lambda: place.path and self._service.catalog(place),
            )

        found: list[tuple[GlueCatalog, str]] = []
        hidden: set[Identifier] = set()
        for place, databases in zip(catalogs, in_parallel(databases_of, catalogs, self._parallelism), strict=True):
            if place.path in hidden:
                continue
            if databases is None or place.path[:-1] in hidden:
                del self.namespaces[place.path]
                hidden.add(place.path)
                continue
            for database in databases:
                identifier = (*place.path, database["Name"])
                if not self._concerns(identifier):
                    continue
                reason = name_fault(identifier[-1]) or database_oddity(database)
                if reason is not None:
                    self._leave_out(identifier, reason)
                    continue
                if identifier in self.namespaces:
                    hidden.add(identifier)
                    self._leave_out(identifier, "a catalog with the name of a database beside it; the database is read")
                self.namespaces[identifier] = live_database(identifier, database)
                if self._scope.reaches(identifier):
                    found.append((place, identifier[-1]))
        return found

    def read_tables(self, databases: Sequence[tuple[GlueCatalog, str]]) -> None:
        """Read the Lance tables of every database."""

        def tables_of(database: tuple[GlueCatalog, str]) -> tuple[list[LiveTable], list[str]] | None:
            place, name = database
            return _unless_gone(lambda: self._tables_of(place, name), lambda: self._service.database(place, name))

        for (place, name), read in zip(databases, in_parallel(tables_of, databases, self._parallelism), strict=True):
            if read is None:
                del self.namespaces[(*place.path, name)]
                continue
            tables, notes = read
            self.tables.update((table.id, table) for table in tables)
            self.notes += notes

    def _tables_of(self, place: GlueCatalog, database: str) -> tuple[list[LiveTable], list[str]]:
        tables: list[LiveTable] = []
        notes: list[str] = []
        for table in self._service.tables(place, database):
            identifier = (*place.path, database, table["Name"])
            if not is_marked_lance(table) or not self._scope.contains(identifier):
                continue
            reason = name_fault(table["Name"]) or table_oddity(table)
            if reason is None:
                tables.append(live_table(identifier, table))
            else:
                notes.append(_left_out(identifier, reason))
        return tables, notes

    def _concerns(self, identifier: Identifier) -> bool:
        return self._scope.contains(identifier) or self._scope.reaches(identifier)

    def _leave_out(self, identifier: Identifier, reason: str) -> None:
        self.notes.append(_left_out(identifier, reason))


def _left_out(identifier: Identifier, reason: str) -> str:
    return f"`{join(identifier)}` is left out: {reason}"


def _unless_gone(read: Callable[[], ResultT], look: Callable[[], object]) -> ResultT | None:
    """Return what ``read`` returns, None when the namespace it reads has gone since it was listed.

    ``look`` asks for the namespace itself. One that is still there is read again.

    Raises:
        NamespaceNotFoundError: it comes and goes.
    """
    for _ in range(_LISTINGS - 1):
        try:
            return read()
        except NamespaceNotFoundError:
            try:
                look()
            except NamespaceNotFoundError:
                return None
    return read()
