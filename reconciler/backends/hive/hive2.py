"""``impl: hive2``: the databases of a metastore and their Lance tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.backends.hive import entries
from reconciler.backends.hive.backend import HiveBackend
from reconciler.model.capabilities import Capabilities, NameRule
from reconciler.model.live import Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client


class Hive2Backend(HiveBackend):
    """Two levels: the root namespace is the metastore, its children are databases.

    On a 3.x or 4.x metastore it shows the databases of the catalog ``hive``.
    """

    impl = "hive2"
    capabilities = Capabilities(
        lost_with_namespace="its location and grants",
        namespace_places=frozenset({entries.DATABASE_LOCATION}),
        max_depth=1,
        table_depths=(1, 1),
        name_rule=NameRule(re.compile(r"[a-z0-9_]+"), "Hive names are letters, digits and `_`"),
        folds_case=True,
        rename_within=0,
        safeguard=entries.SAFEGUARD,
    )

    def _greet(self, client: Client) -> None:
        """Begin a new connection; where there are several metastores, one that answers nothing is passed over."""
        super()._greet(client)
        if len(self.config.uri) > 1:
            client.get_databases(entries.DEFAULT_DATABASE)

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``."""
        with self._metastore.one_scan():
            return self._scan_databases(scope, self._all_databases())

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the databases; a database has no namespaces."""
        self._require(parent)
        if parent:
            return []
        return self._names_of(self._all_databases())

    def _all_databases(self) -> Iterator[Identifier]:
        return ((name,) for name in self._databases.names(None))
