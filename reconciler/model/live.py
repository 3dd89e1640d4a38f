"""What a catalog and its storage answer: plain immutable data, made by ``backends/`` and compared by ``planner/``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.columns import Schema
from reconciler.model.names import Identifier


@dataclass(frozen=True, slots=True)
class LiveNamespace:
    """A namespace as the catalog answers it.

    ``kind`` tells apart what one system calls by two names (Glue). ``root`` is a place that the service keeps for the
    tables in it beside the properties (Unity); nothing is planned by it.
    """

    id: Identifier
    properties: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A Lance table as the catalog answers it; ``location`` is the one in force.

    ``managed_versioning``: the service keeps the versions of its data itself, so that a commit in storage alone is one
    that the service knows nothing of.
    """

    id: Identifier
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
    managed_versioning: bool = False


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table that its catalog does not have the way the specification says a Lance table is entered there.

    ``format`` is what the catalog says it is: ``delta``, ``VIRTUAL_VIEW``, or ``lance, MANAGED_TABLE`` of one that is
    marked as a Lance table and is of the wrong type. ``location`` is None where the catalog tells none.
    """

    id: Identifier
    location: str | None
    format: str

    @property
    def is_marked(self) -> bool:
        """Whether the entry is marked as a Lance table, and is of the wrong type."""
        return self.format.partition(",")[0].lower() == "lance"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a scan saw: complete within its scope, or the scan raised.

    ``notes`` are sentences about live names that cannot be represented and catalogs that are read-only.
    """

    namespaces: Mapping[Identifier, LiveNamespace] = field(default_factory=dict)
    tables: Mapping[Identifier, LiveTable] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class StorageKind(Enum):
    """What a location holds."""

    DATASET = "dataset"
    NOTHING = "nothing"
    NOT_LANCE = "not-lance"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Storage:
    """The answer of one storage probe: ``schema`` and ``cleanup`` are of a DATASET, ``detail`` is of the others."""

    kind: StorageKind
    schema: Schema | None = None
    detail: str = ""
    cleanup: AutoCleanup | None = None


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """A merge into properties: keys to set, keys to remove; every other key stays as it is."""

    set: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.set or self.remove)

    def applied_to(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return ``properties`` after the merge."""
        return {**{key: value for key, value in properties.items() if key not in self.remove}, **self.set}

    def undone(self, properties: Mapping[str, str]) -> PropertyChanges:
        """Return the merge that gives back ``properties``, those before this one."""
        there = properties.keys()
        changed = {key: properties[key] for key in (self.set.keys() | self.remove) & there}
        return PropertyChanges(changed, frozenset(self.set.keys() - there))


class Traffic(NamedTuple):
    """What went over a connection so far: the requests that were sent, and the bytes of their answers."""

    calls: int = 0
    bytes: int = 0
