"""Provide ``impl: hive2``: the databases of a metastore and their Lance tables."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from reconciler.backends.base import Backend
from reconciler.backends.hive import entries
from reconciler.backends.hive.config import HiveConfig
from reconciler.backends.odd_entries import NO_LOCATION, odd_entry, with_odd_entries
from reconciler.backends.spark_types import hive_columns
from reconciler.model import locations, ownership
from reconciler.model.capabilities import Capabilities, NameRule
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError, UnsupportedOperationError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import EVERYTHING, Identifier, Scope, check_name, join

if TYPE_CHECKING:
    from reconciler.backends.hive.catalogs import HiveCatalogs
    from reconciler.backends.hive.databases import Databases
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client
    from reconciler.backends.hive.gen.ttypes import Table


class Hive2Backend(Backend):
    """Two levels: the root namespace is the metastore, its children are databases.

    On a 3.x or 4.x metastore it has the databases of the catalog ``hive``. ``hive3`` adds the level of catalogs.
    """

    impl = "hive2"
    checks_at_commit = True
    known_capabilities = Capabilities(
        lost_with_namespace="its location and grants",
        namespace_places=frozenset({entries.DATABASE_LOCATION}),
        max_depth=1,
        table_depths=(1, 1),
        name_rule=NameRule(re.compile(r"[a-z0-9_]+"), "Hive names are letters, digits and `_`"),
        folds_case=True,
        rename_within=0,
        safeguard=entries.SAFEGUARD,
    )
    config_model = HiveConfig
    config: HiveConfig
    reads_by_name = True
    _warehouse: ClassVar[Identifier] = ()
    """The namespace of the databases directly below ``root``."""

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        # These import Thrift; in the constructor, the registry can name a missing extra.
        from reconciler.backends.hive.databases import Databases
        from reconciler.backends.hive.metastore import Metastore
        from reconciler.backends.hive.tables import Tables

        self._metastore = Metastore(self.impl, self.config, self._begin_connection)
        self._databases = Databases(self.impl, self._metastore)
        self._tables = Tables(self.impl, self._metastore)
        self._recorded_locations: dict[Identifier, str | None] = {}
        self._recorded_lock = threading.Lock()

    def traffic(self) -> Traffic:
        """Return the requests so far, retries included, and the bytes of the responses."""
        return self._metastore.meter.traffic

    def close(self) -> None:
        """Close the connections."""
        self._metastore.close()

    def _begin_connection(self, client: Client) -> None:
        """Send the user's name; with several metastores, make a test call for failover."""
        if self.config.ugi is not None and not self.config.is_http:  # over HTTP, each call has it as a header
            user, _, groups = self.config.ugi.partition(":")
            client.set_ugi(user, groups.split(",") if groups else [])
        if len(self.config.uri) > 1:
            client.get_databases(entries.DEFAULT_DATABASE)

    def _handler_of(self, identifier: Identifier) -> Databases | HiveCatalogs:
        """Return the handler of the namespaces on the level of ``identifier``."""
        return self._databases

    @staticmethod
    def _default_path(database: Identifier) -> tuple[str, ...]:
        """Return the default path of a database below ``root``."""
        *catalog, name = database
        return (*catalog, f"{name}.db") if catalog != [entries.DEFAULT_CATALOG] else (f"{name}.db",)

    # ---- databases -----------------------------------------------------------------------------------------------

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace."""
        return self._record_location(self._handler_of(identifier).load(identifier))

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a database, below ``root`` unless its properties name a location."""
        root = self.config.root
        location = None if root is None else locations.join(root, *self._default_path(identifier))
        try:
            return self._record_location(self._databases.create(identifier, properties, location))
        except InvalidInputError:
            self._require_namespace(identifier[:-1])  # a missing parent is an invalid database to Hive
            raise

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties."""
        return self._record_location(self._handler_of(identifier).alter(identifier, changes, self._checked))

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop an empty namespace; its files stay."""
        self._handler_of(identifier).remove(identifier, self._checked)
        self._recorded_locations.pop(identifier, None)

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return the names of the foreign tables, views and functions in a database."""
        if len(identifier) != self.capabilities().max_depth:
            return []
        ours = set(self._tables.lance_names(identifier))
        return [name for name in self._databases.contents(identifier) if name not in ours]

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return the foreign tables, views and managed Lance tables in a database."""
        if len(namespace) != self.capabilities().max_depth:
            self._require_namespace(namespace)
            return []
        tables = self._tables.all_tables(namespace) if names is None else self._tables.tables_named(namespace, names)
        if not tables:
            self._require_namespace(namespace)  # a missing database lists as an empty one
        described = (entries.foreign_table((*namespace, table.tableName), table) for table in tables)
        return [foreign for foreign in described if foreign is not None]

    def _require_namespace(self, identifier: Identifier) -> None:
        """Raise NamespaceNotFoundError unless the namespace exists; the root always does."""
        if identifier:
            self.load_namespace(identifier)

    def _significant_names(self, databases: Iterable[Identifier]) -> list[str]:
        """Return the names of the significant databases (see ``Databases``)."""
        listed = [database for database in databases if self._is_representable(database[-1])]
        defaults = [database for database in listed if database[-1] == entries.DEFAULT_DATABASE]
        insignificant = set(defaults) - {live.id for live in self._databases.load_significant(defaults)}
        return [database[-1] for database in listed if database not in insignificant]

    # ---- tables --------------------------------------------------------------------------------------------------

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: the table is of another format.
        """
        return entries.live_table(identifier, self._tables.find(identifier))

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the Lance tables in a database; other namespaces have none."""
        if len(parent) != self.capabilities().max_depth:
            self._require_namespace(parent)
            return []
        names = self._tables.lance_names(parent)
        if not names:
            self._require_namespace(parent)  # a missing database lists as an empty one
        return [name for name in names if self._is_representable(name)]

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table; the metastore creates a missing directory."""
        return self._insert(identifier, lambda: self._tables.create(identifier, location, properties))

    def copy_table(self, table: LiveTable, to: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create an entry with every field of the entry of ``table``."""
        return self._insert(to, lambda: self._tables.copy(table.id, to, properties))

    def _insert(self, identifier: Identifier, create: Callable[[], Table]) -> LiveTable:
        try:
            return entries.live_table(identifier, create())
        except InvalidInputError:
            self._databases.fetch(identifier[:-1])  # a missing database is an invalid table to Hive
            raise

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return the removal of a table that does not exist; `lancens doctor` sends it."""
        return {"deregistering a table": lambda: self._tables.drop(table)}

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a Lance table, and never its data."""
        removed = self._checked(self.load_table(identifier))
        self._tables.drop(identifier)
        return removed

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's parameters; set its location if given."""
        altered = self._tables.alter(identifier, changes, location, self._check_of(identifier))
        return entries.live_table(identifier, altered)

    def _check_of(self, identifier: Identifier) -> Callable[[Table], object]:
        return lambda table: self._checked(entries.live_table(identifier, table))

    def shown_columns(self, identifiers: Collection[Identifier]) -> dict[Identifier, ShownColumns]:
        """Return the columns of the tables' entries; one call reads a batch."""
        names: defaultdict[Identifier, list[str]] = defaultdict(list)
        for identifier in identifiers:
            names[identifier[:-1]].append(identifier[-1])
        return {
            (*database, table.tableName): shown
            for database, inside in names.items()
            for table in self._tables.tables_named(database, inside)
            if entries.is_lance(table) and (shown := entries.columns_of(table)) is not None
        }

    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns of ``schema`` in Hive's types."""
        return hive_columns(schema, entries.LONGEST_COLUMN)

    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Replace the columns of a table's entry; columns that stay keep their comments."""
        self._tables.set_columns(identifier, columns, self._check_of(identifier))

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename a table within its catalog; the metastore must leave the data."""
        if identifier[:-2] != to[:-2]:
            raise UnsupportedOperationError(
                f"{self.impl}: `{join(identifier)}` cannot be renamed to `{join(to)}`: they are in different catalogs"
            )
        if identifier[:-1] != to[:-1]:
            self._databases.fetch(to[:-1])  # a missing database is an invalid operation to Hive
        return entries.live_table(to, self._tables.rename(identifier, to, self._check_of(identifier)))

    def default_location(self, identifier: Identifier) -> str | None:
        """Return a location below the database's own, if a manifest set it, else ``root``."""
        location = self.declared_locations.get(identifier[:-1]) or self._recorded_location(identifier[:-1])
        if location is not None:
            return locations.join(location, identifier[-1])
        return None if self.config.root is None else self._table_location(self.config.root, identifier)

    def _recorded_location(self, database: Identifier) -> str | None:
        """Return the location that a manifest set for a database; None for a default one.

        It is cached: a plan may create a thousand tables in one database, from many threads.
        """
        with self._recorded_lock:
            if database not in self._recorded_locations:
                with suppress(NamespaceNotFoundError):
                    self.load_namespace(database)
                self._recorded_locations.setdefault(database, None)
        return self._recorded_locations.get(database)

    def _record_location(self, namespace: LiveNamespace) -> LiveNamespace:
        is_given = entries.DATABASE_LOCATION in ownership.recorded_keys(namespace.properties)
        self._recorded_locations[namespace.id] = (
            namespace.properties.get(entries.DATABASE_LOCATION) if is_given else None
        )
        return namespace

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return the table at ``path``; Hive puts those of ``default`` at the top."""
        *above, table = super().identifier_at(path)
        above = above or [f"{entries.DEFAULT_DATABASE}.db"]
        if len(above) == 1 and above[0].endswith(".db"):
            above = [*self._warehouse, *above]
        return (*above[:-1], above[-1].removesuffix(".db"), table)

    def location_for_request(self, identifier: Identifier) -> str:
        """Return the location of a table that a namespace operation creates.

        Without a ``root`` it is below the current directory. The database is read again: a server that runs for weeks
        may have read it before a manifest moved it.
        """
        self._recorded_locations.pop(identifier[:-1], None)
        return self.default_location(identifier) or self._table_location(Path.cwd().as_posix(), identifier)

    def _table_location(self, root: str, identifier: Identifier) -> str:
        return locations.join(root, *self._default_path(identifier[:-1]), identifier[-1])

    # ---- scan ----------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``."""
        with self._metastore.meter.scan_limits():
            snapshot = self._scan(scope)
        for namespace in snapshot.namespaces.values():
            self._record_location(namespace)
        return snapshot

    def _scan(self, scope: Scope) -> Snapshot:
        return self._scan_databases(scope, self._all_databases())

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the databases; a database has no namespaces."""
        self._require_namespace(parent)
        if parent:
            return []
        return self._significant_names(self._all_databases())

    def _all_databases(self) -> Iterator[Identifier]:
        return ((name,) for name in self._databases.names(None))

    def _scan_databases(self, scope: Scope, databases: Iterable[Identifier]) -> Snapshot:
        """Return the objects in ``scope`` of ``databases``.

        Databases are read after their tables: a database that exists then also existed when its tables were listed.
        """
        concerned = [database for database in databases if scope.contains(database) or scope.reaches(database)]
        readable = [database for database in concerned if self._is_representable(database[-1])]
        reached = [database for database in readable if scope.reaches(database)]
        loaded = self._tables.marked_tables(reached, scope.contains)
        namespaces = {live.id: live for live in self._databases.load_significant(readable)}
        marked = {(*database, table.tableName): table for database in namespaces for table in loaded.get(database, ())}
        shown = {identifier: table for identifier, table in marked.items() if self._is_representable(identifier[-1])}
        tables = {
            identifier: entries.live_table(identifier, table)
            for identifier, table in shown.items()
            if entries.is_lance(table)
        }
        without = shown.keys() - tables.keys()
        notes = tuple(_unrepresentable_notes({*concerned, *marked} - {*readable, *shown}))
        odd = {identifier: odd_entry(NO_LOCATION, shown[identifier].parameters) for identifier in without}
        return with_odd_entries(Snapshot(namespaces, tables, notes), odd)

    def _is_representable(self, name: str) -> bool:
        """Return whether an identifier can contain a name of the metastore."""
        rule = self.capabilities().name_rule
        return check_name(name) is None and (rule is None or rule.pattern.fullmatch(name) is not None)


def _unrepresentable_notes(identifiers: Iterable[Identifier]) -> Iterator[str]:
    """Yield a note for each namespace with names that no identifier can hold."""
    by_parent = sorted(identifiers, key=lambda identifier: (identifier[:-1], identifier))
    for _, inside in groupby(by_parent, key=lambda identifier: identifier[:-1]):
        names = [f"`{'.'.join(identifier)}`" for identifier in inside]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"names that no identifier can hold are left out, and left alone: {', '.join(names[:3])}{more}"
