"""Directories: made by the server, without an entry that points at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.backends.hive.entries import DEFAULT_DATABASE, DatabaseName, plain_table, unique_name
from reconciler.backends.hive.faults import translated
from reconciler.model import locations
from reconciler.model.errors import NamespaceNotFoundError

if TYPE_CHECKING:
    from reconciler.backends.hive.metastore import Metastore


_METASTORES_OWN = DatabaseName(None, DEFAULT_DATABASE)
"""The database that is always there: Hive makes it and never drops it."""


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories that the file systems of a metastore hold."""

    impl: str
    metastore: Metastore

    def make(self, location: str, *, database: DatabaseName = _METASTORES_OWN) -> None:
        """Have the server make the directory ``location`` where there is none, and leave no entry behind.

        A server that cannot finish a create deletes the directory it made for it, with all that has come into it by
        then. Of two that create one object at once, the slower one would take the files of the faster one with it. A
        directory that was there before the create is left alone, so it is made before.

        It is made by that very behaviour: the server is asked for a table at a new place below ``location`` with a
        primary key over a column that the table does not have. It makes the place, and so ``location`` above it,
        finds the key impossible, undoes the table and deletes the place again; ``location`` stays. No entry is there
        at any moment, so an interruption leaves none, and nothing ever points at or above ``location``.

        Args:
            location: where.
            database: one that is there, in which the caller may create tables.

        Raises:
            InvalidInputError: the server has no library for such a place.
            PermissionDeniedError: the caller may not create tables in ``database``, or directories there.
        """
        from reconciler.backends.hive.gen.ttypes import InvalidObjectException, SQLPrimaryKey

        table = plain_table(unique_name(), database, locations.new_place_in(location))
        impossible = SQLPrimaryKey(
            table_db=database.name,
            table_name=table.tableName,
            column_name="missing",
            key_seq=1,
            pk_name=table.tableName,
            enable_cstr=False,
            validate_cstr=False,
            rely_cstr=False,
            catName=database.catalog,
        )
        with translated(self.impl, f"making directory {locations.redact(location)}", missing=NamespaceNotFoundError):
            try:
                self.metastore.write(lambda client: client.create_table_with_constraints(table, [impossible], []))
            except InvalidObjectException:
                return  # a missing database says the same; whatever is created next says so again
            # A service that keeps no keys has made the table: it points at a place where nothing ever is.
            self.metastore.write(lambda client: client.drop_table(database.wire, table.tableName, False))
