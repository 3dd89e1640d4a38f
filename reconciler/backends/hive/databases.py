"""Databases: listed, read, created, altered and dropped.

Hive makes a database ``default`` itself, one in each catalog. While that is empty and nobody has given it properties
it does not count: it is not listed, creating it gives the one that is there its properties and, unless it is the whole
metastore's, its place, and it is in nobody's way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.backends.hive.directories import Directories
from reconciler.backends.hive.entries import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    DESCRIPTION,
    DatabaseName,
    alter_database,
    database_of,
    namespace_of_database,
)
from reconciler.backends.hive.faults import creating, translated
from reconciler.model import ownership
from reconciler.model.errors import (
    InternalError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import LiveNamespace, PropertyChanges

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import Database
    from reconciler.backends.hive.metastore import Metastore


@dataclass(frozen=True, slots=True)
class Databases:
    """The databases of a metastore."""

    impl: str
    metastore: Metastore
    directories: Directories

    def names(self, catalog: str | None) -> list[str]:
        """Return the names of the databases, ``default`` included; none where the catalog does not exist."""
        pattern = "*" if catalog is None else f"@{catalog}#*"
        with translated(self.impl, f"listing the databases like `{pattern}`", missing=NamespaceNotFoundError):
            return list(self.metastore.read(lambda client: client.get_databases(pattern)))

    def fetch(self, name: DatabaseName) -> Database:
        """Return the struct of a database, whether it counts or not.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        with translated(self.impl, f"namespace `{name}`", missing=NamespaceNotFoundError):
            database: Database = self.metastore.read(lambda client: client.get_database(name.wire))
        return database

    def find(self, name: DatabaseName) -> Database:
        """Return the struct of a database that counts.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        database = self.fetch(name)
        if not self.counts(name, database):
            raise NamespaceNotFoundError(f"{self.impl}: namespace `{name}` does not exist")
        return database

    def counts(self, name: DatabaseName, database: Database) -> bool:
        """Return whether a database is more than the empty ``default`` that Hive makes itself."""
        return name.name != DEFAULT_DATABASE or bool(database.parameters) or bool(self.contents(name))

    def contents(self, name: DatabaseName) -> list[str]:
        """Return the names of the tables, views and functions in a database."""
        with translated(self.impl, f"listing what is in `{name}`", missing=NamespaceNotFoundError):
            return [
                *self.metastore.read(lambda client: client.get_all_tables(name.wire)),
                *self.metastore.read(lambda client: client.get_functions(name.wire, "*")),
            ]

    def create(self, name: DatabaseName, properties: Mapping[str, str], location: str | None) -> LiveNamespace:
        """Create a database, at ``location`` unless ``properties`` say where; None leaves it to the server.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            InvalidInputError: the server does not take it; a missing catalog is one reason.
        """
        database = database_of(name, properties)
        database.locationUri = database.locationUri or location
        if database.locationUri is not None:
            self.directories.make(database.locationUri)
        what = f"creating namespace `{name}`"
        try:
            with creating(self.impl, what, exists=NamespaceAlreadyExistsError, look=lambda: self.fetch(name)):
                self.metastore.write(lambda client: client.create_database(database))
        except NamespaceAlreadyExistsError:
            there = self.fetch(name)
            if self.counts(name, there):
                raise
            if not _is_metastores_own(name):
                there.locationUri = database.locationUri or there.locationUri
            return self._write(name, there, PropertyChanges(properties))
        return namespace_of_database(name.identifier, self.fetch(name))

    def alter(self, name: DatabaseName, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into the properties of a database.

        Raises:
            NamespaceNotFoundError: there is none.
            UnsupportedOperationError: the server keeps a field as it was made; all else is changed. Or lancens has set
                the description and is to take it away, which no server does; nothing is changed.
        """
        database = self.find(name)
        if DESCRIPTION in changes.remove & ownership.recorded_keys(database.parameters or {}):
            raise UnsupportedOperationError(
                f"{self.impl}: no metastore takes away `{DESCRIPTION}` of namespace `{name}`; keep it in the manifest, "
                "with the text that it has or another"
            )
        return self._write(name, database, changes)

    def _write(self, name: DatabaseName, database: Database, changes: PropertyChanges) -> LiveNamespace:
        alter_database(database, changes)
        self.write(name, database)
        written = namespace_of_database(name.identifier, self.fetch(name))
        kept = sorted(key for key, value in changes.set.items() if written.properties.get(key) != value)
        if kept:  # 2.3 answers that it changed the description or the location, and does not
            raise UnsupportedOperationError(
                f"{self.impl}: this metastore cannot change `{'`, `'.join(kept)}` of namespace `{name}`"
            )
        return written

    def write(self, name: DatabaseName, database: Database) -> None:
        """Write the struct of a database as it is given; what the server keeps as it was is not looked at.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        with translated(self.impl, f"altering namespace `{name}`", missing=NamespaceNotFoundError):
            self.metastore.write(lambda client: client.alter_database(name.wire, database))

    def remove(self, name: DatabaseName) -> None:
        """Drop a database that is empty; its directory stays, with all that is in it.

        The ``default`` of the whole metastore, which Hive never drops, loses its properties and so counts no more.

        Raises:
            NamespaceNotEmptyError: it holds something.
            NamespaceNotFoundError: there is none.
        """
        database = self.find(name)
        if held := self.contents(name):
            some = ", ".join(sorted(held)[:5])
            raise NamespaceNotEmptyError(f"{self.impl}: namespace `{name}` is not empty, it holds {some}")
        if _is_metastores_own(name):
            self._write(name, database, PropertyChanges(remove=frozenset(database.parameters)))
        else:
            self.drop(name)

    def drop(self, name: DatabaseName) -> None:
        """Have the server drop a database, which it does only when that is empty; no file is touched.

        Raises:
            NamespaceNotEmptyError: it holds something.
            NamespaceNotFoundError: there is none.
        """
        what = f"dropping namespace `{name}`"
        try:
            with translated(self.impl, what, missing=NamespaceNotFoundError, refused=NamespaceNotEmptyError):
                self.metastore.write(lambda client: client.drop_database(name.wire, False, False))
        except InternalError:
            self.fetch(name)  # a missing database is a mere "NullPointerException" to 2.3 and 3.1
            raise


def _is_metastores_own(name: DatabaseName) -> bool:
    """Return whether a database is the ``default`` that Hive makes for itself and never drops."""
    return name.name == DEFAULT_DATABASE and name.catalog in (None, DEFAULT_CATALOG)
