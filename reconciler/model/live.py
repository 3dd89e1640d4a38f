"""The live state: immutable data that ``backends/`` read and ``planner/`` compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.columns import Schema
from reconciler.model.names import Identifier

LIST_OF_OBJECTS: Identifier = ("__manifest",)
"""The name of the dataset that lists the objects of a `dir` catalog.

Backends load and alter it like a namespace, so that a plan can change its configuration. No scan, list or block has it.
"""

UNKNOWN_FEATURES = "lance.namespace.manifest.writer_feature_flags"
"""The configuration key of :data:`LIST_OF_OBJECTS` that forbids every change if its value has an unknown flag."""


@dataclass(frozen=True, slots=True)
class LiveNamespace:
    """A namespace in a catalog.

    ``kind`` is set in a system with two kinds of namespaces (Glue). ``root`` is the location that a service has for
    the namespace's tables (Unity); the planner ignores it. ``disabled``: the service does not show its content.
    """

    id: Identifier
    properties: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None
    root: str | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A Lance table in a catalog; ``location`` is the current one, even if another was requested.

    ``managed_versioning``: the service keeps the versions of the data, and would not know of a commit in storage.
    """

    id: Identifier
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
    managed_versioning: bool = False


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """An entry that is not a Lance table by the specification of its catalog.

    ``format`` is the catalog's own word: ``delta``, ``VIRTUAL_VIEW``, or ``lance, MANAGED_TABLE`` for an entry that is
    marked as a Lance table but has the wrong type. ``location`` is None if the entry has none.
    """

    id: Identifier
    location: str | None
    format: str

    @property
    def is_marked(self) -> bool:
        """Whether the entry is marked as a Lance table but has the wrong type."""
        return self.format.partition(",")[0].lower() == "lance"


@dataclass(frozen=True, slots=True)
class OddEntry:
    """An entry that lacks what a Lance table needs; ``reason`` says what, ``owner`` is the manifest that marked it."""

    reason: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of a scan: complete within its scope, or the scan raised.

    ``notes`` are sentences about names that cannot be represented and about read-only catalogs. ``odd`` are entries
    that are left out of ``tables``, each with a note.
    """

    namespaces: Mapping[Identifier, LiveNamespace] = field(default_factory=dict)
    tables: Mapping[Identifier, LiveTable] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    odd: Mapping[Identifier, OddEntry] = field(default_factory=dict)

    @property
    def name_holders(self) -> dict[Identifier, str]:
        """Descriptions of the odd entries, whose names no Lance table can get, by name."""
        return {identifier: entry.reason for identifier, entry in self.odd.items()}


class StorageKind(Enum):
    """The content of a location."""

    DATASET = "dataset"
    NOTHING = "nothing"
    NOT_LANCE = "not-lance"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """A version of a dataset.

    ``written`` is the time of the version in UTC. It tells it from the same version of another dataset at the location.
    """

    number: int
    written: str

    def __str__(self) -> str:
        return f"version {self.number} of {self.written}"


@dataclass(frozen=True, slots=True)
class Storage:
    """The result of a storage probe: ``schema``, ``cleanup`` and the latest ``version`` for a DATASET, else ``detail``.

    ``detail`` of a DATASET says why pylance cannot commit to it what its block asks for, or anything at all.
    ``elsewhere`` are the places outside its directory that it refers to; if these are why it was not opened, only those
    that are not admitted. Results are compared without ``version`` and ``elsewhere``.
    """

    kind: StorageKind
    schema: Schema | None = None
    detail: str = ""
    cleanup: AutoCleanup | None = None
    version: DatasetVersion | None = field(default=None, compare=False)
    elsewhere: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """Changes of an object's properties: keys to set and keys to remove; every other key stays."""

    set: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.set or self.remove)

    def applied_to(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return ``properties`` with the changes."""
        return {**{key: value for key, value in properties.items() if key not in self.remove}, **self.set}

    def undone(self, properties: Mapping[str, str]) -> PropertyChanges:
        """Return the changes that restore ``properties``, the state before these changes."""
        present = properties.keys()
        changed = {key: properties[key] for key in (self.set.keys() | self.remove) & present}
        return PropertyChanges(changed, frozenset(self.set.keys() - present))


class Traffic(NamedTuple):
    """The traffic of a connection: the requests sent, and the bytes of their answers."""

    calls: int = 0
    bytes: int = 0
