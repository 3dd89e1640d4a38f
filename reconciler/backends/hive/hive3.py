"""``impl: hive3``: the catalogs of a 3.x or 4.x metastore, their databases and Lance tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.backends.hive.backend import HiveBackend
from reconciler.backends.hive.catalogs import HiveCatalogs
from reconciler.backends.hive.entries import (
    CATALOG_LOCATION,
    DATABASE_LOCATION,
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    SAFEGUARD,
    DatabaseName,
)
from reconciler.model import locations
from reconciler.model.capabilities import Capabilities, NameRule
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError
from reconciler.model.live import LiveNamespace, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join
from reconciler.model.ownership import owner_of

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client


class Hive3Backend(HiveBackend):
    """Three levels: below the root namespace are catalogs, below those databases (specification, "Namespace")."""

    impl = "hive3"
    capabilities = Capabilities(
        lost_with_namespace="its location and grants",
        namespace_places=frozenset({CATALOG_LOCATION, DATABASE_LOCATION}),
        max_depth=2,
        table_depths=(2, 2),
        name_rule=NameRule(
            re.compile(r"[a-z0-9_.-]+"), "Hive names are letters, digits and `_`, from 4.x on also `-` and `.`"
        ),
        folds_case=True,
        rename_within=1,
        lost_on_move="its grants and statistics",
        safeguard=SAFEGUARD,
    )
    _warehouse = (DEFAULT_CATALOG,)

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        self._catalogs = HiveCatalogs(self.impl, self._metastore, self._databases)

    def _greet(self, client: Client) -> None:
        """Begin a new connection; a 2.x metastore is told apart by its not knowing catalogs.

        It would take every call and silently leave the catalog out, so this comes before all else.
        """
        from thrift.Thrift import TApplicationException

        super()._greet(client)
        try:
            client.get_catalogs()
        except TApplicationException as error:
            raise InvalidInputError(
                f"hive3: the metastore at {self.config.identity()} has no catalogs: it is a 2.x one, for `impl: hive2`"
            ) from error

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``."""
        with self._metastore.one_scan():
            return self._scan(scope)

    def _scan(self, scope: Scope) -> Snapshot:
        names = [name for name in self._catalogs.names() if scope.contains((name,)) or scope.reaches((name,))]
        inside = [name for name in names if scope.reaches((name,))]
        below = self._scan_databases(scope, self._databases_in(inside))
        namespaces = {live.id: live for live in self._loaded(names)}
        namespaces |= {found: live for found, live in below.namespaces.items() if found[:1] in namespaces}
        tables = {found: live for found, live in below.tables.items() if found[:2] in namespaces}
        return Snapshot(namespaces, tables, (*below.notes, *_defaults_at_home(namespaces)))

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one catalog or database."""
        if len(identifier) == 1:
            return self._catalogs.load(identifier[0])
        return super().load_namespace(identifier)

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the catalogs, or of the databases in one."""
        if not parent:
            return [name for name in self._catalogs.names() if self._is_representable(name)]
        self._require(parent)
        if len(parent) > 1:
            return []
        return self._names_of(self._databases_in(parent))

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a catalog or a database, under ``root`` where it is not said where."""
        if len(identifier) > 1:
            self._catalogs.settle(identifier[0])  # where its own creation was interrupted
            return super().insert_namespace(identifier, properties, kind=kind)
        root = self.config.root
        location = None if root is None else locations.join(root, identifier[0])
        return self._catalogs.create(identifier[0], properties, location)

    def direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return ``properties``; a catalog made directly goes under the current directory where there is no ``root``.

        A metastore takes no catalog without a location, and chooses that of a database by itself.
        """
        if len(identifier) > 1 or self.config.root is not None or CATALOG_LOCATION in properties:
            return properties
        return {**properties, CATALOG_LOCATION: locations.join(Path.cwd().as_posix(), identifier[0])}

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into the properties of a catalog or a database."""
        if len(identifier) == 1:
            return self._catalogs.alter(identifier[0], changes)
        return super().alter_namespace(identifier, changes)

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop an empty catalog or database; no file goes with it."""
        if len(identifier) == 1:
            self._catalogs.remove(identifier[0])
        else:
            super().remove_namespace(identifier)

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return what else a namespace holds; the catalog ``hive`` always has a ``default`` that cannot go."""
        if identifier == (DEFAULT_CATALOG,):
            return [DEFAULT_DATABASE]
        return super().foreign_objects(identifier)

    def _databases_in(self, catalogs: Iterable[str]) -> Iterator[DatabaseName]:
        for catalog in catalogs:
            for name in self._databases.names(catalog):
                yield DatabaseName(catalog, name)

    def _loaded(self, names: Iterable[str]) -> Iterator[LiveNamespace]:
        for name in names:
            try:
                yield self._catalogs.load(name)
            except NamespaceNotFoundError:
                continue  # dropped since it was listed

    def _database(self, identifier: Identifier) -> DatabaseName:
        return DatabaseName(identifier[0], identifier[1])

    def _home(self, identifier: Identifier) -> tuple[str, ...]:
        """Return the path of a database; those of the catalog ``hive`` are where ``hive2`` puts them."""
        catalog, database = identifier
        return (f"{database}.db",) if catalog == DEFAULT_CATALOG else (catalog, f"{database}.db")


def _defaults_at_home(namespaces: Mapping[Identifier, LiveNamespace]) -> Iterator[str]:
    """Yield a note for each ``default`` that counts and is at the home of a catalog with a mark of lancens."""
    for identifier, live in namespaces.items():
        catalog = namespaces.get(identifier[:-1])
        if catalog is None or identifier[-1] != DEFAULT_DATABASE or catalog.id == (DEFAULT_CATALOG,):
            continue
        home = catalog.properties.get(CATALOG_LOCATION)
        if owner_of(catalog.properties) and locations.same(live.properties.get(DATABASE_LOCATION), home):
            yield (
                f"`{join(identifier)}` is at the place of its catalog: DROP DATABASE in Hive would delete all that is "
                f"in the catalog's directory; give it a place of its own as `{DATABASE_LOCATION}`"
            )
