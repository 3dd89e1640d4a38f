"""What interrupted runs of earlier versions left: databases and tables made only to have a directory made.

Such an entry points at the directory of somebody's data, where ``DROP DATABASE`` would delete it. So it is pointed at a
place where nothing is before it is dropped, and nobody else can drop it in between and delete something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.backends.hive.databases import Databases
from reconciler.backends.hive.entries import DatabaseName, is_helper_name, is_helper_table
from reconciler.backends.hive.tables import Tables
from reconciler.model import locations
from reconciler.model.errors import NamespaceNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import Table

__all__ = ["Leftovers"]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The leftovers in a metastore."""

    databases: Databases
    tables: Tables

    def databases_in(self, catalog: str | None) -> list[DatabaseName]:
        """Return the leftover databases of a catalog."""
        named = (DatabaseName(catalog, name) for name in self.databases.names(catalog) if is_helper_name(name))
        return [name for name in named if self.is_database(name)]

    def is_database(self, name: DatabaseName) -> bool:
        """Return whether a database is a leftover; one that somebody has put something into is not."""
        if not is_helper_name(name.name):
            return False
        try:
            return self.databases.is_helper(name, self.databases.fetch(name))
        except NamespaceNotFoundError:
            return False

    def tables_of(self, catalog: str | None) -> Iterator[tuple[DatabaseName, Table]]:
        """Yield the leftover tables in all databases of a catalog."""
        for database, name in self.tables.names_like_helpers(catalog):
            table = self._table(database, name)
            if table is not None:
                yield database, table

    def among(self, database: DatabaseName, names: Iterable[str]) -> dict[str, Table]:
        """Return those of ``names``, of things in a database, that are leftover tables."""
        found = ((name, self._table(database, name)) for name in names if is_helper_name(name))
        return {name: table for name, table in found if table is not None}

    def _table(self, database: DatabaseName, name: str) -> Table | None:
        try:
            table = self.tables.fetch(database, name)
        except TableNotFoundError:
            return None
        return table if is_helper_table(table) else None

    def remove_table(self, database: DatabaseName, table: Table) -> None:
        """Drop a leftover table, from a place where nothing is.

        Raises:
            TableNotFoundError: it is gone.
            ConcurrentModificationError: somebody has changed it.
        """
        self.tables.point_at(database, table, locations.new_place_in(locations.home_of(table.sd.location)))
        self.tables.drop(database, table.tableName)

    def remove_database(self, name: DatabaseName) -> None:
        """Drop a leftover database, from a place where nothing is; 2.3 keeps it where it is.

        Raises:
            NamespaceNotEmptyError: somebody has put something into it.
            NamespaceNotFoundError: it is gone.
        """
        moved = self.databases.fetch(name)
        moved.locationUri = locations.new_place_in(locations.home_of(moved.locationUri))
        self.databases.write(name, moved)
        self.databases.remove(name)

    def clear(self, database: DatabaseName) -> None:
        """Drop the leftover tables in a database, so that they do not keep it from being dropped."""
        for table in self.among(database, self.databases.contents(database)).values():
            with suppress(TableNotFoundError):
                self.remove_table(database, table)

    def clear_catalog(self, catalog: str) -> None:
        """Drop the leftover databases in a catalog, so that they do not keep it from being dropped."""
        for name in self.databases_in(catalog):
            with suppress(NamespaceNotFoundError):
                self.remove_database(name)
