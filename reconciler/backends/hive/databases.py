"""Read, create, alter and drop databases.

Hive creates a database ``default`` in each catalog. While it is empty and has no properties, it is not *significant*:
it is not listed, and does not keep its catalog from being dropped. Creating it sets the properties and, except for the
metastore's own, the location of the existing one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from reconciler.backends.hive import entries
from reconciler.backends.hive.gen.ttypes import Database
from reconciler.backends.hive.metastore import Metastore
from reconciler.backends.hive.tables import make_directory
from reconciler.model import errors, ownership
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import LiveNamespace, PropertyChanges
from reconciler.model.names import Identifier, join

_BUILT_IN_DATABASES = {(entries.DEFAULT_DATABASE,), (entries.DEFAULT_CATALOG, entries.DEFAULT_DATABASE)}
"""The identifiers of the database that Hive creates for itself and never drops."""


@dataclass(frozen=True, slots=True)
class Databases:
    """The databases of a metastore."""

    impl: str
    metastore: Metastore

    def names(self, catalog: str | None) -> list[str]:
        """Return the names of all databases; none if the catalog does not exist."""
        pattern = "*" if catalog is None else f"@{catalog}#*"
        doing = f"listing the databases like `{pattern}`"
        return list(self.metastore.read(lambda client: client.get_databases(pattern), doing))

    def fetch(self, identifier: Identifier) -> Database:
        """Return the struct of a database, significant or not.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        doing = f"namespace `{join(identifier)}`"
        database: Database = self.metastore.read(
            lambda client: client.get_database(entries.wire_name(identifier)), doing
        )
        return database

    def find(self, identifier: Identifier) -> Database:
        """Return the struct of a significant database.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        database = self.fetch(identifier)
        if not self.is_significant(identifier, database):
            raise errors.NamespaceNotFoundError(f"{self.impl}: namespace `{join(identifier)}` does not exist")
        return database

    def load(self, identifier: Identifier) -> LiveNamespace:
        """Return a significant database as a namespace.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        return entries.live_database(identifier, self.find(identifier))

    def is_significant(self, identifier: Identifier, database: Database) -> bool:
        """Return whether a database is anything but an empty ``default`` of Hive."""
        return identifier[-1] != entries.DEFAULT_DATABASE or bool(database.parameters or self.contents(identifier))

    def load_significant(self, identifiers: Iterable[Identifier]) -> Iterator[LiveNamespace]:
        """Load those of the databases that exist and are significant."""

        def load_existing(identifier: Identifier) -> LiveNamespace | None:
            with suppress(errors.NamespaceNotFoundError):
                return self.load(identifier)
            return None

        return filter(None, in_parallel(load_existing, [*identifiers], self.metastore.config.pool_size))

    def contents(self, identifier: Identifier) -> list[str]:
        """Return the names of the tables, views and functions in a database."""
        name, doing = entries.wire_name(identifier), f"listing what is in `{join(identifier)}`"
        return [
            *self.metastore.read(lambda client: client.get_all_tables(name), doing),
            *self.metastore.read(lambda client: client.get_functions(name, "*"), doing),
        ]

    def create(self, identifier: Identifier, properties: Mapping[str, str], location: str | None) -> LiveNamespace:
        """Create a database; a location in ``properties`` overrides ``location``.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            InvalidInputError: the server rejects it; a missing catalog is one reason.
        """
        database = entries.new_database(identifier, properties)
        database.locationUri = database.locationUri or location
        if database.locationUri is not None:
            make_directory(self.metastore, database.locationUri)
        try:
            self.metastore.create(
                lambda client: client.create_database(database),
                f"creating namespace `{join(identifier)}`",
                errors.NamespaceAlreadyExistsError,
                lambda: self.fetch(identifier),
            )
        except errors.NamespaceAlreadyExistsError:
            existing = self.fetch(identifier)
            if self.is_significant(identifier, existing):
                raise
            if identifier not in _BUILT_IN_DATABASES:
                existing.locationUri = database.locationUri or existing.locationUri
            return self._write(identifier, existing, PropertyChanges(properties))
        return entries.live_database(identifier, self.fetch(identifier))

    def alter(
        self, identifier: Identifier, changes: PropertyChanges, check: Callable[[LiveNamespace], object]
    ) -> LiveNamespace:
        """Merge ``changes`` into the properties of a database, after ``check``.

        Raises:
            NamespaceNotFoundError: there is none.
            UnsupportedOperationError: the server cannot change a field; the others are changed. Or a description that
                lancens set is to be removed, which no server does; nothing is changed.
        """
        database = self.find(identifier)
        check(entries.live_database(identifier, database))
        if entries.DESCRIPTION in changes.remove & ownership.recorded_keys(database.parameters or {}):
            raise errors.UnsupportedOperationError(
                f"{self.impl}: no metastore can remove `{entries.DESCRIPTION}` of namespace `{join(identifier)}`; keep "
                "it in the manifest, with the text that it has or another"
            )
        return self._write(identifier, database, changes)

    def _write(self, identifier: Identifier, database: Database, changes: PropertyChanges) -> LiveNamespace:
        entries.alter_database(database, changes)
        self.write(identifier, database)
        written = entries.live_database(identifier, self.fetch(identifier))
        refused = sorted(key for key, value in changes.set.items() if written.properties.get(key) != value)
        if refused:  # 2.3 reports success but does not change the description or the location
            raise errors.UnsupportedOperationError(
                f"{self.impl}: this metastore cannot change `{'`, `'.join(refused)}` of namespace `{join(identifier)}`"
            )
        return written

    def write(self, identifier: Identifier, database: Database) -> None:
        """Replace the struct of a database; do not check the result.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        doing = f"altering namespace `{join(identifier)}`"
        self.metastore.write(lambda client: client.alter_database(entries.wire_name(identifier), database), doing)

    def remove(self, identifier: Identifier, check: Callable[[LiveNamespace], object]) -> None:
        """Drop an empty database, after ``check``; its directory and all files stay.

        The metastore's own ``default``, which Hive never drops, loses its properties and so is no longer significant.

        Raises:
            NamespaceNotEmptyError: it holds something.
            NamespaceNotFoundError: there is none.
        """
        database = self.find(identifier)
        check(entries.live_database(identifier, database))
        if objects := self.contents(identifier):
            examples = ", ".join(sorted(objects)[:5])
            raise errors.NamespaceNotEmptyError(
                f"{self.impl}: namespace `{join(identifier)}` is not empty, it holds {examples}"
            )
        if identifier in _BUILT_IN_DATABASES:
            self._write(identifier, database, PropertyChanges(remove=frozenset(database.parameters)))
        else:
            self.drop(identifier)

    def drop(self, identifier: Identifier) -> None:
        """Drop a database and keep all files; the server refuses if it is not empty.

        Raises:
            NamespaceNotEmptyError: it holds something.
            NamespaceNotFoundError: there is none.
        """
        name, doing = entries.wire_name(identifier), f"dropping namespace `{join(identifier)}`"
        try:
            self.metastore.write(
                lambda client: client.drop_database(name, False, False), doing, refused=errors.NamespaceNotEmptyError
            )
        except errors.InternalError:
            self.fetch(identifier)  # for a missing database, 2.3 and 3.1 report only "NullPointerException"
            raise
