"""Read, create, alter and drop catalogs without losing a file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass

from reconciler.backends.hive import entries
from reconciler.backends.hive.databases import Databases
from reconciler.backends.hive.gen import ttypes
from reconciler.backends.hive.gen.ttypes import Catalog, Database
from reconciler.backends.hive.metastore import Metastore
from reconciler.model import errors, locations
from reconciler.model.live import LiveNamespace, PropertyChanges
from reconciler.model.names import Identifier
from reconciler.model.ownership import owner_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HiveCatalogs:
    """The catalogs of a metastore."""

    impl: str
    metastore: Metastore
    databases: Databases

    def names(self) -> list[str]:
        """Return the names of the catalogs."""
        return list(self.metastore.read(lambda client: client.get_catalogs(), "listing the catalogs").names)

    def load(self, identifier: Identifier) -> LiveNamespace:
        """Return one catalog.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        return entries.live_catalog(identifier, self._fetch(identifier[0]))

    def create(self, name: str, properties: Mapping[str, str], location: str | None) -> LiveNamespace:
        """Create a catalog; a location in ``properties`` overrides ``location``.

        The server creates a ``default`` at the location of the catalog; dropping it with its data would delete the
        catalog's directory. So the catalog is created at a new path below its home, where ``default`` stays, and then
        moved to its home by :meth:`finish_creation`.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            NamespaceNotFoundError: another client dropped it at once.
            InvalidInputError: neither names a location, or the server rejects it.
        """
        catalog = entries.new_catalog(name, properties)
        home = catalog.locationUri or location
        if home is None:
            with suppress(errors.NamespaceNotFoundError):
                self._fetch(name)
                raise errors.NamespaceAlreadyExistsError(f"{self.impl}: catalog `{name}` already exists")
            raise errors.InvalidInputError(
                f"{self.impl}: catalog `{name}` needs a location: set `{entries.CATALOG_LOCATION}`, or "
                "`root` in the config"
            )
        catalog.locationUri = locations.new_place_in(home)
        self.metastore.create(
            lambda client: client.create_catalog(ttypes.CreateCatalogRequest(catalog)),
            f"creating catalog `{name}`",
            errors.NamespaceAlreadyExistsError,
            lambda: self._fetch(name),
        )
        self.finish_creation(name)
        return self.load((name,))

    def finish_creation(self, name: str) -> None:
        """Move a catalog from its first location to its home, if it is not there.

        A catalog whose ``default`` is at another location is being dropped by :meth:`remove`, and is not moved.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        current = self._fetch(name).locationUri
        home = locations.home_of(current)
        if home == current:
            return
        default = self._default_database(name)
        if default is not None and locations.same(default.locationUri, current):
            self._write(name, Catalog(name=name, locationUri=home))

    def alter(
        self, identifier: Identifier, changes: PropertyChanges, check: Callable[[LiveNamespace], object]
    ) -> LiveNamespace:
        """Merge ``changes`` into the properties of a catalog, after ``check``.

        ``check`` gets the catalog before the change. If lancens manages the catalog, an empty ``default`` is moved away
        from its location.

        Raises:
            NamespaceNotFoundError: there is none.
        """
        catalog = self._fetch(identifier[0])
        check(entries.live_catalog(identifier, catalog))
        altered = entries.alter_catalog(catalog, changes)
        if owner_of(entries.live_catalog(identifier, altered).properties) is not None:
            self._move_default(catalog)
        if entries.CATALOG_LOCATION not in changes.set:
            altered.locationUri = None  # keep the location on the server: another client may be dropping the catalog
        self._write(catalog.name, altered)
        return self.load(identifier)

    def _move_default(self, catalog: Catalog) -> None:
        """Move an empty ``default`` away from the location of its catalog."""
        default = None if catalog.name == entries.DEFAULT_CATALOG else self._default_database(catalog.name)
        if default is None or not locations.same(default.locationUri, locations.home_of(catalog.locationUri)):
            return
        name = (catalog.name, entries.DEFAULT_DATABASE)
        with suppress(errors.NamespaceNotFoundError):
            if not self.databases.is_significant(name, default):
                default.locationUri = locations.new_place_in(default.locationUri)
                self.databases.write(name, default)

    def remove(self, identifier: Identifier, check: Callable[[LiveNamespace], object]) -> None:
        """Drop a catalog with no significant database, after ``check``; keep all files.

        A server that drops a catalog deletes its directory and everything in it. So the catalog is moved to a new,
        empty path first. Right before the drop it must still be there: another client may have moved it back. If it
        refuses the drop, the catalog is moved back. If it fails instead, another client may be about to drop the
        catalog, so it stays at the empty path, and is still reported at its home.

        Raises:
            NamespaceNotEmptyError: it holds something; ``hive`` always holds a ``default`` that stays.
            NamespaceNotFoundError: there is none.
            ConcurrentModificationError: another client changed it.
        """
        (name,) = identifier
        catalog = self._fetch(name)
        check(entries.live_catalog(identifier, catalog))
        if name == entries.DEFAULT_CATALOG:
            raise errors.NamespaceNotEmptyError(
                f"{self.impl}: catalog `{name}` is the metastore's own and cannot be dropped"
            )
        databases = [*self.databases.load_significant((name, database) for database in self.databases.names(name))]
        if databases:
            examples = ", ".join(sorted(live.id[-1] for live in databases)[:5])
            raise errors.NamespaceNotEmptyError(f"{self.impl}: namespace `{name}` is not empty, it holds {examples}")
        catalog.locationUri = locations.home_of(catalog.locationUri)
        parked = deepcopy(catalog)
        parked.locationUri = locations.new_place_in(catalog.locationUri)
        with self._missing_if_dropped(name, "altering"):
            self._write(name, parked)
        default = self._default_database(name)
        try:
            if default is not None:
                with suppress(errors.NamespaceNotFoundError):
                    self.databases.drop((name, entries.DEFAULT_DATABASE))
            location = self._fetch(name).locationUri
            if location != parked.locationUri:
                if location == locations.home_of(location):
                    self._restore_default(default)
                raise errors.ConcurrentModificationError(f"{self.impl}: catalog `{name}` was changed by another client")
            with self._missing_if_dropped(name, "dropping"):
                self._drop(name)
        except (
            errors.NamespaceNotEmptyError,
            errors.PermissionDeniedError,
            errors.InvalidInputError,
            errors.UnsupportedOperationError,
        ):
            self._restore(catalog, parked, default)
            raise

    @contextmanager
    def _missing_if_dropped(self, name: str, doing: str) -> Iterator[None]:
        """Turn a failure inside into NamespaceNotFoundError if the catalog is missing.

        If two clients drop one catalog, the slower one gets an internal error; 3.1 closes the connection.

        Raises:
            NamespaceNotFoundError: another client dropped it.
        """
        try:
            yield
        except (errors.InternalError, errors.ServiceUnavailableError) as error:
            with suppress(errors.InternalError, errors.ServiceUnavailableError):
                if name not in self.names():
                    raise errors.NamespaceNotFoundError(f"{self.impl}: {doing} catalog `{name}`: it is gone") from error
            raise

    def _default_database(self, name: str) -> Database | None:
        with suppress(errors.NamespaceNotFoundError):
            return self.databases.fetch((name, entries.DEFAULT_DATABASE))
        return None

    def _drop(self, name: str) -> None:
        self.metastore.write(
            lambda client: client.drop_catalog(ttypes.DropCatalogRequest(name)),
            f"dropping catalog `{name}`",
            refused=errors.NamespaceNotEmptyError,
        )

    def _restore(self, catalog: Catalog, parked: Catalog, default: Database | None) -> None:
        """Restore a catalog whose drop failed, unless another client has moved it."""
        try:
            if self._fetch(catalog.name).locationUri == parked.locationUri:
                self._write(catalog.name, catalog)
        except errors.BackendError as error:
            _log.warning("%s: catalog `%s` could not be restored: %s", self.impl, catalog.name, error)
        self._restore_default(default)

    def _restore_default(self, default: Database | None) -> None:
        """Create the ``default`` of a catalog again if it is missing; log a failure."""
        if default is None:
            return
        try:
            if self._default_database(default.catalogName) is None:
                self.metastore.write(lambda client: client.create_database(default), "restoring `default`")
        except errors.BackendError as error:
            _log.warning("%s: `default` of `%s` could not be restored: %s", self.impl, default.catalogName, error)

    def _fetch(self, name: str) -> Catalog:
        request = ttypes.GetCatalogRequest(name)
        catalog: Catalog = self.metastore.read(lambda client: client.get_catalog(request), f"catalog `{name}`").catalog
        return catalog

    def _write(self, name: str, catalog: Catalog) -> None:
        request = ttypes.AlterCatalogRequest(name, catalog)
        self.metastore.write(lambda client: client.alter_catalog(request), f"altering catalog `{name}`")
