"""Provide ``impl: hive3``: catalogs of a metastore, databases and Lance tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.backends.hive import entries
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model import locations
from reconciler.model.capabilities import NameRule
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError
from reconciler.model.live import LiveNamespace, Snapshot
from reconciler.model.names import Identifier, Scope, join
from reconciler.model.ownership import owner_of

if TYPE_CHECKING:
    from reconciler.backends.hive.catalogs import HiveCatalogs
    from reconciler.backends.hive.databases import Databases
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client


class Hive3Backend(Hive2Backend):
    """Three levels: the root, catalogs and databases (specification, "Namespace")."""

    impl = "hive3"
    known_capabilities = replace(
        Hive2Backend.known_capabilities,
        namespace_places=frozenset({entries.CATALOG_LOCATION, entries.DATABASE_LOCATION}),
        max_depth=2,
        table_depths=(2, 2),
        name_rule=NameRule(
            re.compile(r"[a-z0-9_.-]+"), "Hive names are letters, digits and `_`, from 4.x on also `-` and `.`"
        ),
        rename_within=1,
        lost_on_move="its grants and statistics",
    )
    _warehouse = (entries.DEFAULT_CATALOG,)

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        from reconciler.backends.hive.catalogs import HiveCatalogs

        self._catalogs = HiveCatalogs(self.impl, self._metastore, self._databases)

    def _begin_connection(self, client: Client) -> None:
        """Check the version; raise InvalidInputError for 2.x, which has no catalogs.

        A 2.x metastore would accept every call and silently ignore the catalog.
        """
        from thrift.Thrift import TApplicationException

        super()._begin_connection(client)
        try:
            client.get_catalogs()
        except TApplicationException as error:
            raise InvalidInputError(
                f"hive3: the metastore at {self.config.identity()} has no catalogs: it is a 2.x one; use `impl: hive2`"
            ) from error

    def _scan(self, scope: Scope) -> Snapshot:
        names = [name for name in self._catalogs.names() if scope.contains((name,)) or scope.reaches((name,))]
        inside = [name for name in names if scope.reaches((name,))]
        databases = self._scan_databases(scope, self._databases_in(inside))
        namespaces: dict[Identifier, LiveNamespace] = {}
        for name in names:
            with suppress(NamespaceNotFoundError):  # dropped since it was listed
                namespaces[name,] = self._catalogs.load((name,))
        namespaces |= {
            identifier: live for identifier, live in databases.namespaces.items() if identifier[:1] in namespaces
        }
        tables = {identifier: live for identifier, live in databases.tables.items() if identifier[:2] in namespaces}
        odd = {identifier: entry for identifier, entry in databases.odd.items() if identifier[:2] in namespaces}
        return Snapshot(namespaces, tables, (*databases.notes, *_notes_on_defaults(namespaces)), odd)

    def _handler_of(self, identifier: Identifier) -> Databases | HiveCatalogs:
        return self._catalogs if len(identifier) == 1 else self._databases

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the catalogs, or of the databases in one."""
        if not parent:
            return [name for name in self._catalogs.names() if self._is_representable(name)]
        self._require_namespace(parent)
        if len(parent) > 1:
            return []
        return self._significant_names(self._databases_in(parent))

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a catalog or database, below ``root`` if it names no location."""
        if len(identifier) > 1:
            self._catalogs.finish_creation(identifier[0])  # finishes an interrupted creation
            return super().insert_namespace(identifier, properties, kind=kind)
        root = self.config.root
        location = None if root is None else locations.join(root, identifier[0])
        return self._catalogs.create(identifier[0], properties, location)

    def properties_for_request(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return ``properties`` with a location for a new catalog.

        A metastore takes no catalog without one, and chooses that of a database itself. Without a ``root`` it is below
        the current directory.
        """
        if len(identifier) > 1 or self.config.root is not None or entries.CATALOG_LOCATION in properties:
            return properties
        return {**properties, entries.CATALOG_LOCATION: locations.join(Path.cwd().as_posix(), identifier[0])}

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return objects of other kinds; the ``default`` of ``hive`` is one."""
        if identifier == (entries.DEFAULT_CATALOG,):
            return [entries.DEFAULT_DATABASE]
        return super().foreign_objects(identifier)

    def _databases_in(self, catalogs: Iterable[str]) -> Iterator[Identifier]:
        return ((catalog, name) for catalog in catalogs for name in self._databases.names(catalog))


def _notes_on_defaults(namespaces: Mapping[Identifier, LiveNamespace]) -> Iterator[str]:
    """Yield a note for each ``default`` at the location of its managed catalog."""
    for identifier, live in namespaces.items():
        catalog = namespaces.get(identifier[:-1])
        if catalog is None or identifier[-1] != entries.DEFAULT_DATABASE or catalog.id == (entries.DEFAULT_CATALOG,):
            continue
        home = catalog.properties.get(entries.CATALOG_LOCATION)
        if owner_of(catalog.properties) and locations.same(live.properties.get(entries.DATABASE_LOCATION), home):
            yield (
                f"`{join(identifier)}` is at the place of its catalog: DROP DATABASE in Hive would delete all that is "
                f"in the catalog's directory; give it a place of its own as `{entries.DATABASE_LOCATION}`"
            )
