"""``impl: memory``: a catalog in the memory of one process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from pydantic import Field

from reconciler.backends.base import Backend, snapshot_within
from reconciler.model import errors, locations
from reconciler.model.backend_config import BackendConfig, Root
from reconciler.model.capabilities import Capabilities
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join


class MemoryConfig(BackendConfig):
    """Connections with the same ``name`` share a catalog; the others have their own."""

    name: str = Field(default_factory=lambda: f"unnamed-{uuid.uuid4().hex}", min_length=1)
    """Connections with the same name share a catalog."""
    root: Root | None = None
    """The directory or URI of tables without a location; the memory of this process when left out."""

    def identity(self) -> str:
        """Return the catalog's name."""
        return self.name

    def is_identity_literal(self) -> bool:
        """Return True: it is the name."""
        return True


@dataclass
class _Store:
    """The objects of one catalog; the root namespace always exists."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    namespaces: dict[Identifier, LiveNamespace] = field(default_factory=dict)
    tables: dict[Identifier, LiveTable] = field(default_factory=dict)
    foreign: dict[Identifier, ForeignTable] = field(default_factory=dict)


_stores_by_name: dict[str, _Store] = {}


class MemoryBackend(Backend):
    """A catalog in dictionaries, with every operation of the contract.

    Tables without a location go below ``root``, or to pylance's in-process object store.
    """

    impl = "memory"
    config_model = MemoryConfig
    config: MemoryConfig
    checks_at_commit = True
    known_capabilities = Capabilities(rename_within=0)
    in_process = True

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        self._store = _Store()
        if "name" in self.config.model_fields_set:
            self._store = _stores_by_name.setdefault(self.config.name, self._store)

    def add_foreign(self, identifier: Sequence[str], location: str | None = None, kind: str = "view") -> None:
        """Add a table of another format, or a view; for tests."""
        with self._store.lock:
            self._require_namespace(tuple(identifier[:-1]))
            self._store.foreign[tuple(identifier)] = ForeignTable(tuple(identifier), location, kind)

    def remove_foreign(self, identifier: Sequence[str]) -> None:
        """Remove what :meth:`add_foreign` added."""
        with self._store.lock:
            self._store.foreign.pop(tuple(identifier), None)

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``."""
        with self._store.lock:
            return snapshot_within(scope, self._store.namespaces.values(), self._store.tables.values())

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace."""
        with self._store.lock:
            return self._require_namespace(identifier)

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one table."""
        with self._store.lock:
            self._require_namespace(identifier[:-1])
            if identifier in self._store.foreign:
                raise errors.NotLanceTableError(f"memory: `{join(identifier)}` is not a Lance table")
            try:
                return self._store.tables[identifier]
            except KeyError:
                raise errors.TableNotFoundError(f"memory: table `{join(identifier)}` does not exist") from None

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the namespaces directly below ``parent``."""
        with self._store.lock:
            self._require_namespace(parent)
            return [identifier[-1] for identifier in self._store.namespaces if identifier[:-1] == parent]

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the tables in ``parent``."""
        with self._store.lock:
            self._require_namespace(parent)
            return [identifier[-1] for identifier in self._store.tables if identifier[:-1] == parent]

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return the names of what :meth:`add_foreign` added to a namespace."""
        with self._store.lock:
            return [entry[-1] for entry in self._store.foreign if entry[:-1] == identifier]

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return what :meth:`add_foreign` added to a namespace."""
        with self._store.lock:
            self._require_namespace(namespace)
            return [
                foreign
                for identifier, foreign in self._store.foreign.items()
                if identifier[:-1] == namespace and (names is None or identifier[-1] in names)
            ]

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace."""
        with self._store.lock:
            self._require_namespace(identifier[:-1])
            if identifier in self._store.namespaces:
                raise errors.NamespaceAlreadyExistsError(f"memory: namespace `{join(identifier)}` already exists")
            namespace = LiveNamespace(identifier, dict(properties))
            self._store.namespaces[identifier] = namespace
            return namespace

    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove an empty namespace."""
        with self._store.lock:
            self._checked(self._require_namespace(identifier))
            everything = (*self._store.namespaces, *self._store.tables, *self._store.foreign)
            if any(child[:-1] == identifier for child in everything):
                raise errors.NamespaceNotEmptyError(f"memory: namespace `{join(identifier)}` is not empty")
            del self._store.namespaces[identifier]

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table."""
        with self._store.lock:
            self._require_namespace(identifier[:-1])
            self._require_unused_name(identifier)
            table = LiveTable(identifier, location, dict(properties))
            self._store.tables[identifier] = table
            return table

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a table."""
        with self._store.lock:
            removed = self._checked(self.load_table(identifier))
            del self._store.tables[identifier]
            return removed

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties."""
        with self._store.lock:
            live = self._checked(self._require_namespace(identifier))
            altered = replace(live, properties=changes.applied_to(live.properties))
            self._store.namespaces[identifier] = altered
            return altered

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's properties and, where given, set its location."""
        with self._store.lock:
            live = self._checked(self.load_table(identifier))
            altered = LiveTable(identifier, location or live.location, changes.applied_to(live.properties))
            self._store.tables[identifier] = altered
            return altered

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename the entry of a table."""
        with self._store.lock:
            live = self._checked(self.load_table(identifier))
            self._require_namespace(to[:-1])
            self._require_unused_name(to)
            del self._store.tables[identifier]
            self._store.tables[to] = replace(live, id=to)
            return self._store.tables[to]

    def default_location(self, identifier: Identifier) -> str:
        """Return a location directly below ``root``, or in the memory of this process."""
        if self.config.root is not None:
            return locations.join(self.config.root, f"{join(identifier)}.lance")
        return f"shared-memory://{quote(self.config.name, safe='')}/{quote(join(identifier), safe='$')}.lance"

    def _require_unused_name(self, identifier: Identifier) -> None:
        if identifier in self._store.tables or identifier in self._store.foreign:
            raise errors.TableAlreadyExistsError(f"memory: table `{join(identifier)}` already exists")

    def _require_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return a namespace; the error for a missing one names the outermost."""
        for depth in range(1, len(identifier) + 1):
            if identifier[:depth] not in self._store.namespaces:
                raise errors.NamespaceNotFoundError(f"memory: namespace `{join(identifier[:depth])}` does not exist")
        return self._store.namespaces[identifier] if identifier else LiveNamespace(())
