"""The Iceberg REST backend: Lance identifiers and errors over the calls on warehouses."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import ClassVar

from reconciler.backends import optional
from reconciler.backends.http import RetryPolicy
from reconciler.backends.http.backend import HttpBackend
from reconciler.backends.iceberg.config import IcebergConfig
from reconciler.backends.iceberg.scan import UnreadableTable, all_tables, listed_tables, scan_warehouses
from reconciler.backends.iceberg.server import IcebergServer
from reconciler.backends.iceberg.warehouse import SAFEGUARD, TABLE_TYPE, TableEntry, Warehouse
from reconciler.backends.identifiers import require_kept
from reconciler.backends.table_options import own_options, with_vended
from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotLanceTableError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join


class IcebergBackend(
    HttpBackend,
    optional.HoldsForeign,
    optional.LearnsCapabilities,
    optional.OpensData,
    optional.Places,
    optional.ReadsOneByOne,
    optional.Renames,
    optional.TestsPermissions,
):
    """Lance tables in an Iceberg REST catalog.

    The first level of every identifier is a warehouse, which has to exist. No service lists its warehouses, so that
    the root holds those that ``warehouses`` or the manifest name.
    """

    impl = "iceberg"
    config_model = IcebergConfig
    config: IcebergConfig
    capabilities = Capabilities(
        lost_with_namespace="its location and access rules",
        namespace_places=frozenset({"location"}),
        table_depths=(2, None),
        fixed_levels=1,
        ignores_location=True,
        rename_within=1,
        lost_on_move="its history and access rules",
        vends_credentials=True,
        safeguard=SAFEGUARD,
    )
    reads_by_name = True
    drops_missing = True

    commit_retry: ClassVar[RetryPolicy] = RetryPolicy(max_retries=8, base=0.05, cap=2.0)
    """How often, and after which pause, a change is made again on top of a change that came first."""

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        self._server = IcebergServer(self.config)
        self._http = self._server.http

    def asked_capabilities(self) -> Capabilities:
        """Return what the server can do, as far as it says it: not every one renames tables, or takes locations."""
        if self.config.is_s3_tables:
            self.capabilities = replace(self.capabilities, chooses_locations=True)
        for name in sorted({*self.config.warehouse_names, *self.outermost_names}):
            with suppress(NamespaceNotFoundError):
                routes = self._server.warehouse(name).routes
                if routes.renames_tables is False:
                    self.capabilities = replace(self.capabilities, rename_within=None)
                if routes.is_nessie:
                    self.capabilities = replace(self.capabilities, chooses_locations=True)
        return self.capabilities

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what the known warehouses hold within ``scope``.

        A warehouse that is configured has to exist; one that only the manifest or ``scope`` names is left out if not.
        """
        return self._scan(scope, only_readable=False)

    def scan_readable(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what :meth:`scan` does; a table that cannot be loaded, mostly another's, is a note."""
        return self._scan(scope, only_readable=True)

    def _scan(self, scope: Scope, *, only_readable: bool) -> Snapshot:
        found = []
        with self._http.one_scan():
            for name in self._warehouse_names(scope):
                if not (scope.contains((name,)) or scope.reaches((name,))):
                    continue
                try:
                    found.append(self._server.warehouse(name))
                except NamespaceNotFoundError:
                    if name in self.config.warehouse_names:
                        raise
            return scan_warehouses(found, scope, self.parallelism, only_readable=only_readable)

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace; a warehouse has no properties."""
        warehouse = self._server.warehouse(identifier[0])
        levels = identifier[1:]
        return LiveNamespace(identifier, warehouse.namespace_properties(levels) if levels else {})

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table."""
        return _live(identifier, self._lance_entry(identifier))

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names directly below ``parent``; below the root, the known warehouses that exist."""
        if not parent:
            return [name for name in self._warehouse_names() if self._exists((name,))]
        names = self._server.warehouse(parent[0]).child_namespaces(parent[1:])
        if not names:
            self.load_namespace(parent)
        return names

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the Lance tables in ``parent``; the root and warehouses hold none."""
        return [name for name, entry in self._tables(parent).items() if _is_lance(entry)]

    def possible_tables(self, parent: Identifier) -> list[str]:
        """Return the names of all tables in ``parent``: only an entry says whether it is a Lance table."""
        return self._server.warehouse(parent[0]).tables(parent[1:]) if len(parent) > 1 else []

    def tables_among(self, parent: Identifier, names: Sequence[str]) -> list[str]:
        """Return those of ``names`` that are Lance tables: each is loaded."""
        entries = listed_tables(self._server.warehouse(parent[0]), parent[1:], self.parallelism, names) if names else {}
        return [name for name in names if name in entries and _is_lance(entries[name])]

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return the names of views, of tables of other formats and of those that cannot be read."""
        if len(identifier) < 2:
            return []
        foreign = [name for name, entry in self._tables(identifier).items() if not _is_lance(entry)]
        return foreign + self._server.warehouse(identifier[0]).views(identifier[1:])

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return the tables that are not marked as Lance tables, which are Iceberg's own, and the views.

        Among them are tables that cannot be read, of which nobody can tell.
        """
        tables = [
            _foreign((*namespace, name), entry)
            for name, entry in self._tables(namespace, names).items()
            if not _is_lance(entry)
        ]
        views = self._server.warehouse(namespace[0]).views(namespace[1:]) if len(namespace) > 1 else []
        return tables + [
            ForeignTable((*namespace, name), None, "view") for name in views if names is None or name in names
        ]

    def default_location(self, identifier: Identifier) -> str | None:
        """Return ``root`` followed by the whole identifier, None without a ``root``."""
        return None if self.config.root is None else locations.join(self.config.root, *identifier)

    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the configured options, with what the table's ``storage.*`` properties say about opening it.

        They name no strange host (see :func:`own_options`).
        """
        return own_options(self.storage_options(), table, self.hosts)

    def vended_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the same, above what the service hands out for the table (see `with_vended`)."""
        own = self.own_storage_options(table)
        warehouse, *levels, name = table.id
        return with_vended(
            self.config, own, table, lambda: self._server.warehouse(warehouse).vended_options(levels, name), self.hosts
        )

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace; the parent is asked for first, because not every server does."""
        warehouse = self._below_warehouse(identifier)
        levels = identifier[1:]
        if len(levels) > 1:
            self.load_namespace(identifier[:-1])
        return LiveNamespace(identifier, warehouse.create_namespace(levels, properties))

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop a namespace that holds nothing; its contents are asked for first, because not every server does."""
        warehouse = self._below_warehouse(identifier)
        levels = identifier[1:]
        held = [*warehouse.child_namespaces(levels), *warehouse.tables(levels), *warehouse.views(levels)]
        if held:
            some = ", ".join(f"`{name}`" for name in sorted(held)[:3])
            raise NamespaceNotEmptyError(f"iceberg: namespace `{join(identifier)}` is not empty: it holds {some}")
        warehouse.drop_namespace(levels)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties."""
        warehouse = self._below_warehouse(identifier)
        if changes:
            warehouse.update_properties(identifier[1:], changes)
        return self.load_namespace(identifier)

    # ---- tables --------------------------------------------------------------------------------------------------

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the companion table; the location in force is the one the server answers."""
        *levels, name = identifier[1:]
        warehouse = self._server.warehouse(identifier[0])
        entry = warehouse.create_table(levels, name, location, properties)
        if name != name.lower() and name not in (names := warehouse.tables(levels, name.__eq__)):
            # The answer to a create names no table, so what a service that folds names made of it is looked up.
            warehouse.drop_table(levels, name)
            kept = next((found for found in names if found.lower() == name.lower()), name.lower())
            require_kept(self.impl, identifier, (*identifier[:-1], kept))
        return _live(identifier, entry)

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return the calls of apply that are about what is not there."""
        warehouse, levels, name = self._server.warehouse(table[0]), table[1:-1], table[-1]
        merge = PropertyChanges({"lancens.doctor": name})
        return {
            "changing a table": lambda: warehouse.commit(levels, name, str(uuid.uuid4()), merge, None),
            "deregistering a table": lambda: warehouse.drop_table(levels, name),
            "dropping a namespace": lambda: warehouse.drop_namespace((name,)),
        }

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Drop the entry of a Lance table, never that of another."""
        removed = self.load_table(identifier)
        *levels, name = identifier[1:]
        self._server.warehouse(identifier[0]).drop_table(levels, name)
        return removed

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` and set the location in one commit, which is made again on what others changed meanwhile.

        The mark of a Lance table stays as it is, and what keeps its data from being deleted is set where it is not.
        """
        warehouse = self._server.warehouse(identifier[0])
        *levels, name = identifier[1:]
        entry = self._lance_entry(identifier)
        for attempt in count():
            merge, place = _pending(entry, changes, location)
            if not merge and place is None:
                break
            try:
                entry = warehouse.commit(levels, name, entry.uuid, merge, place)
                break
            except ConcurrentModificationError:
                pause = self.commit_retry.wait(attempt)
                if pause is None:
                    raise
                self.commit_retry.sleep(pause)
                again = self._lance_entry(identifier)
                if again.uuid != entry.uuid:
                    raise
                entry = again
        return _live(identifier, entry)

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Give the entry of a Lance table another name within its warehouse."""
        before = self._lance_entry(identifier)
        warehouse = self._server.warehouse(identifier[0])
        if identifier[0] != to[0]:
            raise UnsupportedOperationError(
                f"iceberg: `{join(identifier)}` cannot be renamed to `{join(to)}`: they are in different warehouses"
            )
        self.load_namespace(to[:-1])  # some servers answer a missing one as if the table were missing
        *levels, name = identifier[1:]
        *new_levels, new_name = to[1:]
        try:
            warehouse.rename_table((levels, name), (new_levels, new_name))
        except TableNotFoundError:
            # A call that was sent again after its answer was lost finds that the first one did it.
            if not self._is_at(to, before.uuid):
                raise
        return _live(to, self._lance_entry(to))

    def _is_at(self, identifier: Identifier, uuid: str) -> bool:
        try:
            return self._lance_entry(identifier).uuid == uuid
        except (TableNotFoundError, NotLanceTableError):
            return False

    # ---- within --------------------------------------------------------------------------------------------------

    def direct_location(self, identifier: Identifier) -> str:
        """Return where a table goes that names no location: below the working directory where there is no root."""
        return self.default_location(identifier) or locations.join(str(Path.cwd()), *identifier)

    def _warehouse_names(self, scope: Scope = EVERYTHING) -> list[str]:
        """Return every warehouse that the configuration, the manifest or ``scope`` names."""
        others = (self.outermost_names | scope.outermost) - {*self.config.warehouse_names}
        names = [*self.config.warehouse_names, *sorted(others)]
        if not names:
            raise InvalidInputError(
                "iceberg: no warehouse is named, and the service cannot list them; name them in `warehouses`"
            )
        return names

    def _exists(self, identifier: Identifier) -> bool:
        try:
            self.load_namespace(identifier)
        except NamespaceNotFoundError:
            return False
        return True

    def _below_warehouse(self, identifier: Identifier) -> Warehouse:
        """Return the warehouse of a namespace that can be created, altered or dropped."""
        if len(identifier) < 2:
            raise UnsupportedOperationError(
                f"iceberg: `{identifier[0]}` is a warehouse, which cannot be created, altered or dropped here"
            )
        return self._server.warehouse(identifier[0])

    def _tables(
        self, identifier: Identifier, names: Collection[str] | None = None
    ) -> dict[str, TableEntry | UnreadableTable]:
        """Return all tables of a namespace, or those named, whatever their format.

        The namespace exists, or this raises; where tables are named, if the server tells.
        """
        if len(identifier) < 2:
            if identifier:
                self.load_namespace(identifier)
            return {}
        found = all_tables(self._server.warehouse(identifier[0]), identifier[1:], self.parallelism, names)
        if not found and names is None:
            self.load_namespace(identifier)
        return found

    def _lance_entry(self, identifier: Identifier) -> TableEntry:
        *levels, name = identifier[1:]
        entry = self._server.warehouse(identifier[0]).load_table(levels, name)
        if not entry.is_lance:
            raise NotLanceTableError(f"iceberg: `{join(identifier)}` is an Iceberg table, not a Lance table")
        return entry


def _is_lance(entry: TableEntry | UnreadableTable) -> bool:
    return isinstance(entry, TableEntry) and entry.is_lance


def _foreign(identifier: Identifier, entry: TableEntry | UnreadableTable) -> ForeignTable:
    if isinstance(entry, UnreadableTable):
        return ForeignTable(identifier, None, f"one that {entry.reason}")
    return ForeignTable(identifier, entry.location, entry.properties.get(TABLE_TYPE) or "iceberg")


def _live(identifier: Identifier, entry: TableEntry) -> LiveTable:
    return LiveTable(identifier, entry.location, entry.properties)


def _pending(entry: TableEntry, changes: PropertyChanges, location: str | None) -> tuple[PropertyChanges, str | None]:
    """Return what of a change is not so yet."""
    fixed = {TABLE_TYPE, SAFEGUARD.key}
    merge = replace(
        changes,
        set={k: v for k, v in changes.set.items() if k not in fixed and entry.properties.get(k) != v}
        | SAFEGUARD.missing(entry.properties),
        remove=frozenset(key for key in changes.remove if key not in fixed and key in entry.properties),
    )
    return merge, None if location == entry.location else location
