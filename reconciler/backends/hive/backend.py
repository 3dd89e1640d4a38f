"""What ``hive2`` and ``hive3`` have in common: the contract's operations on databases and their tables."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from reconciler.backends import optional
from reconciler.backends.hive.columns import LONGEST_COLUMN, columns_of
from reconciler.backends.hive.config import HiveConfig
from reconciler.backends.hive.databases import Databases
from reconciler.backends.hive.directories import Directories
from reconciler.backends.hive.entries import (
    DEFAULT_DATABASE,
    DatabaseName,
    foreign_table,
    is_lance,
    namespace_of_database,
    table_of,
)
from reconciler.backends.hive.metastore import Metastore
from reconciler.backends.hive.tables import Tables
from reconciler.backends.hive_columns import hive_columns
from reconciler.model import locations
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError, UnsupportedOperationError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import Identifier, Scope, check_name, join

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client
    from reconciler.backends.hive.gen.ttypes import Table


class HiveBackend(
    optional.HoldsForeign,
    optional.Measures,
    optional.Places,
    optional.Renames,
    optional.ShowsColumns,
    optional.TestsPermissions,
):
    """A metastore; a subclass says which namespaces are databases and what stands above them."""

    config_model = HiveConfig
    config: HiveConfig
    reads_by_name = True
    _warehouse: ClassVar[Identifier] = ()
    """The namespace whose databases have their directories directly under ``root``."""

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        import thrift  # noqa: F401 - a missing extra shows here, where the registry can name it

        self._metastore = Metastore(self.impl, self.config, self._greet)
        directories = Directories(self.impl, self._metastore)
        self._databases = Databases(self.impl, self._metastore, directories)
        self._tables = Tables(self.impl, self._metastore, directories, self.config.pool_size, self.config.batch_size)

    def traffic(self) -> Traffic:
        """Return what was sent so far, repeated requests included, and what came back."""
        return self._metastore.traffic

    def close(self) -> None:
        """Close the connections."""
        self._metastore.close()

    def _greet(self, client: Client) -> None:
        """Begin a new connection: say who is calling, where that is configured."""
        if self.config.ugi is not None and not self.config.is_http:  # there each call says it
            user, _, groups = self.config.ugi.partition(":")
            client.set_ugi(user, groups.split(",") if groups else [])

    @abstractmethod
    def _database(self, identifier: Identifier) -> DatabaseName:
        """Return the database that a namespace of full depth is."""

    @abstractmethod
    def _home(self, identifier: Identifier) -> tuple[str, ...]:
        """Return the path below ``root`` at which a database's directory goes by default."""

    # ---- databases -----------------------------------------------------------------------------------------------

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one database."""
        return namespace_of_database(identifier, self._databases.find(self._database(identifier)))

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a database, under ``root`` where it is not said where."""
        root = self.config.root
        location = None if root is None else locations.join(root, *self._home(identifier))
        try:
            return self._databases.create(self._database(identifier), properties, location)
        except InvalidInputError:
            self._require(identifier[:-1])  # a missing parent is an invalid database to Hive
            raise

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a database's properties."""
        return self._databases.alter(self._database(identifier), changes)

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop an empty database; no file goes with it."""
        self._databases.remove(self._database(identifier))

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return the names of the other tables, the views and the functions in a database."""
        if len(identifier) != self.capabilities.max_depth:
            return []
        database = self._database(identifier)
        ours = set(self._tables.lance_names(database))
        return [name for name in self._databases.contents(database) if name not in ours]

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return the tables of other formats, the views, and the Lance tables that are not EXTERNAL in a database."""
        if len(namespace) != self.capabilities.max_depth:
            self._require(namespace)
            return []
        database = self._database(namespace)
        tables = self._tables.every_table(database) if names is None else self._tables.named(database, names)
        if not tables:
            self._databases.fetch(database)  # a missing database lists as an empty one
        found = (foreign_table((*namespace, table.tableName), table) for table in tables)
        return [foreign for foreign in found if foreign is not None]

    def _require(self, identifier: Identifier) -> None:
        """Raise NamespaceNotFoundError unless the namespace exists; the root does."""
        if identifier:
            self.load_namespace(identifier)

    def _counting(self, databases: Iterable[DatabaseName]) -> Iterator[tuple[DatabaseName, LiveNamespace]]:
        """Yield the databases that are there and count."""

        def look(name: DatabaseName) -> LiveNamespace | None:
            try:
                return namespace_of_database(name.identifier, self._databases.find(name))
            except NamespaceNotFoundError:
                return None

        names = [name for name in databases if self._is_representable(name.name)]
        for name, live in zip(names, in_parallel(look, names, self.config.pool_size), strict=True):
            if live is not None:
                yield name, live

    def _names_of(self, databases: Iterable[DatabaseName]) -> list[str]:
        """Return the names of the databases that count (see :meth:`_counting`); only those that may not are read."""
        names = [name for name in databases if self._is_representable(name.name)]
        doubtful = [name for name in names if name.name == DEFAULT_DATABASE]
        wrong = set(doubtful) - {name for name, _ in self._counting(doubtful)}
        return [name.name for name in names if name not in wrong]

    # ---- tables --------------------------------------------------------------------------------------------------

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: the table is of another format.
        """
        return table_of(identifier, self._entry(identifier))

    def _entry(self, identifier: Identifier) -> Table:
        """Return the struct of a Lance table."""
        return self._tables.find(self._database(identifier[:-1]), identifier[-1])

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the Lance tables in a database; other namespaces have none."""
        if len(parent) != self.capabilities.max_depth:
            self._require(parent)
            return []
        database = self._database(parent)
        names = self._tables.lance_names(database)
        if not names:
            self._databases.fetch(database)  # a missing database lists as an empty one
        return [name for name in names if self._is_representable(name)]

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table; the metastore makes its directory where there is none."""
        database = self._database(identifier[:-1])
        try:
            return table_of(identifier, self._tables.create(database, identifier[-1], location, properties))
        except InvalidInputError:
            self._databases.fetch(database)  # a missing database is an invalid table to Hive
            raise

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return the calls of apply that are about what is not there."""
        database = self._database(table[:-1])
        return {"deregistering a table": lambda: self._tables.drop(database, table[-1])}

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a Lance table; never its data, whatever its table type."""
        table = self._entry(identifier)
        self._tables.drop(self._database(identifier[:-1]), identifier[-1])
        return table_of(identifier, table)

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's parameters and, where given, set its location."""
        database = self._database(identifier[:-1])
        return table_of(identifier, self._tables.alter(database, identifier[-1], changes, location))

    def shown_columns(self, identifiers: Collection[Identifier]) -> dict[Identifier, ShownColumns]:
        """Return the columns of the tables' entries, with a call a batch."""
        names: defaultdict[DatabaseName, list[str]] = defaultdict(list)
        for identifier in identifiers:
            names[self._database(identifier[:-1])].append(identifier[-1])
        return {
            (*database.identifier, table.tableName): shown
            for database, inside in names.items()
            for table in self._tables.named(database, inside)
            if is_lance(table) and (shown := columns_of(table)) is not None
        }

    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns of data with ``schema`` in Hive's types."""
        return hive_columns(schema, LONGEST_COLUMN)

    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Replace the columns of a table's entry; the comments of those that stay are kept."""
        self._tables.show(self._database(identifier[:-1]), identifier[-1], columns)

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Give the entry of a table another name within its catalog; the metastore is told to leave the data."""
        source, target = self._database(identifier[:-1]), self._database(to[:-1])
        if source.catalog != target.catalog:
            raise UnsupportedOperationError(
                f"{self.impl}: `{join(identifier)}` cannot be renamed to `{join(to)}`: they are in different catalogs"
            )
        if source != target:
            self._databases.fetch(target)  # a missing database is an invalid operation to Hive
        return table_of(to, self._tables.rename(source, identifier[-1], target, to[-1]))

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the table's place in its database's directory under ``root``; None without ``root``."""
        return None if self.config.root is None else self._place(self.config.root, identifier)

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return which table goes to ``path``; Hive puts those of ``default`` directly under its warehouse."""
        *above, table = super().identifier_at(path)
        above = above or [f"{DEFAULT_DATABASE}.db"]
        if len(above) == 1 and above[0].endswith(".db"):
            above = [*self._warehouse, *above]
        return (*above[:-1], above[-1].removesuffix(".db"), table)

    def direct_location(self, identifier: Identifier) -> str:
        """Return where a table made directly goes: under the current directory where there is no ``root``."""
        return self._place(self.config.root or Path.cwd().as_posix(), identifier)

    def _place(self, root: str, identifier: Identifier) -> str:
        return locations.join(root, *self._home(identifier[:-1]), identifier[-1])

    # ---- scan ----------------------------------------------------------------------------------------------------

    def _scan_databases(self, scope: Scope, databases: Iterable[DatabaseName]) -> Snapshot:
        """Return what is in scope of ``databases``.

        The databases are read after their tables: one that is still there then was there when they were listed.
        """
        concerned = [name for name in databases if scope.contains(name.identifier) or scope.reaches(name.identifier)]
        wanted = [name for name in concerned if self._is_representable(name.name)]
        notes = [*_left_out(name.identifier for name in concerned if not self._is_representable(name.name))]
        inner = [name for name in wanted if scope.reaches(name.identifier)]
        loaded = self._tables.lance_tables(inner, lambda name, table: scope.contains((*name.identifier, table)))
        namespaces: dict[Identifier, LiveNamespace] = {}
        tables: dict[Identifier, LiveTable] = {}
        for name, live in self._counting(wanted):
            namespaces[name.identifier] = live
            strange: list[Identifier] = []
            for table in loaded.get(name, ()):
                identifier = (*name.identifier, table.tableName)
                if self._is_representable(table.tableName):
                    tables[identifier] = table_of(identifier, table)
                else:
                    strange.append(identifier)
            notes += _left_out(strange)
        return Snapshot(namespaces, tables, tuple(notes))

    def _is_representable(self, name: str) -> bool:
        """Return whether a live name can be written in an identifier here."""
        rule = self.capabilities.name_rule
        return check_name(name) is None and (rule is None or rule.pattern.fullmatch(name) is not None)


def _left_out(identifiers: Iterable[Identifier]) -> Iterator[str]:
    """Yield a note for each namespace with live objects that no identifier can name."""
    for _, inside in groupby(sorted(identifiers), key=lambda identifier: identifier[:-1]):
        names = _few([".".join(identifier) for identifier in inside])
        yield f"names that no identifier can hold are left out, and left alone: {names}"


def _few(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
