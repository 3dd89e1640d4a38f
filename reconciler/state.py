"""The shared vocabulary: what is desired, what is live, and what a catalog is able to do.

Everything here is plain immutable data. Manifests become :class:`DesiredCatalog`, backends return
:class:`Snapshot`, and the planner compares the two without knowing where either came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from reconciler.auto_cleanup import AutoCleanup
from reconciler.names import EVERYTHING, Identifier, Scope

__all__ = [
    "DEFAULT_PARALLELISM",
    "NOTHING_EXPECTED",
    "Capabilities",
    "Column",
    "DesiredCatalog",
    "DesiredMirror",
    "DesiredMove",
    "DesiredNamespace",
    "DesiredTable",
    "Evolve",
    "Expectations",
    "ExtraColumns",
    "Fault",
    "ForeignTable",
    "LiveNamespace",
    "LiveTable",
    "LocationPolicy",
    "NameRule",
    "Origin",
    "PropertyChanges",
    "Prune",
    "Safeguard",
    "Schema",
    "ShownColumn",
    "ShownColumns",
    "Snapshot",
    "Source",
    "Storage",
    "StorageKind",
    "Thresholds",
    "Traffic",
]


DEFAULT_PARALLELISM = 8
"""How many requests are in flight, and how many changes at once, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the manifest something is said; line and column count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; ``type`` is the canonical text of its Arrow type (see ``reconciler.arrow_types``)."""

    name: str
    type: str
    nullable: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


Schema: TypeAlias = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """One column as the entry of a table shows it; ``type`` is what the catalog calls its type."""

    name: str
    type: str
    comment: str | None = None

    def shows(self, other: ShownColumn) -> bool:
        """Return whether both are one column to a catalog, which may write names and types in other letters."""
        return self._plain == other._plain

    @property
    def _plain(self) -> tuple[str, str]:
        return self.name.casefold(), "".join(self.type.casefold().replace("`", "").split())


ShownColumns: TypeAlias = tuple[ShownColumn, ...]


class Prune(Enum):
    """What to do with live objects that the manifest does not name."""

    NEVER = "never"
    OWNED = "owned"
    ALL = "all"


class Evolve(Enum):
    """Whether a table's schema may follow its manifest."""

    NEVER = "never"
    ADDITIVE = "additive"


class ExtraColumns(Enum):
    """What to make of columns that a table's data has and its block lacks: a writer has added them."""

    KEEP = "keep"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class DesiredNamespace:
    """One namespace block.

    A block that is not ``claimed`` is a *path*: it is created where absent and otherwise left alone. The values of
    ``secret_keys`` in ``properties`` come from the environment or a file, and are hidden as those of passwords are.
    ``mirrored``: there is no block, only a mirror puts tables into it.
    """

    id: Identifier
    source: Source
    properties: Mapping[str, str] = field(default_factory=dict)
    claimed: bool = False
    absent: bool = False
    protect: bool | None = None
    kind: str | None = None
    secret_keys: frozenset[str] = frozenset()
    mirrored: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The table of another catalog that a mirrored one follows."""

    catalog: str
    identifier: Identifier


class Fault(NamedTuple):
    """Why an object cannot be made what the manifest asks for, and what to write or to run about it.

    ``mirrored`` is the remedy for a table that has no block, where it is not that of every such table. ``kept_as`` is
    the name that the service keeps the object under, where it would be another one.
    """

    reason: str
    remedy: str
    mirrored: str = ""
    kept_as: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a block expects of a table's data. An audit compares; no plan makes it so.

    Args:
        indices: columns that an index is to be on.
        max_fragments: how many fragments it may have.
        max_versions: how many versions.
        max_age_days: how many days ago its last commit may be.
    """

    indices: tuple[str, ...] = ()
    max_fragments: int | None = None
    max_versions: int | None = None
    max_age_days: int | None = None


NOTHING_EXPECTED = Expectations()
"""What is expected where nobody says anything."""


@dataclass(frozen=True, slots=True)
class DesiredTable:
    """One table block, or what a mirror asks for. ``location`` None leaves the place to the catalog; ``schema`` None
    leaves it to the data.

    The values of ``secret_keys`` in ``properties`` come from the environment or a file. ``mirrors`` is what a table
    without a block follows; ``refused`` says why it cannot.
    """

    id: Identifier
    source: Source
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    schema: Schema | None = None
    evolve: Evolve = Evolve.NEVER
    probe: bool = True
    absent: bool = False
    protect: bool | None = None
    extra_columns: ExtraColumns = ExtraColumns.KEEP
    secret_keys: frozenset[str] = frozenset()
    mirrors: Origin | None = None
    refused: Fault | None = None
    expect: Expectations = NOTHING_EXPECTED

    def __reduce__(self) -> tuple[type[DesiredTable], tuple[Any, ...]]:
        """Tell pickle the fields alone: what slots have of their own accord takes three times as long."""
        return DesiredTable, _FIELDS_OF_A_TABLE(self)


_FIELDS_OF_A_TABLE = attrgetter(*(field.name for field in fields(DesiredTable)))


@dataclass(frozen=True, slots=True)
class DesiredMove:
    """One line of ``moved``: the table, or the namespace with what is below it, that had the name ``origin`` before."""

    origin: Identifier
    to: Identifier
    source: Source
    is_table: bool


@dataclass(frozen=True, slots=True)
class DesiredMirror:
    """The line by which a catalog follows the catalog ``origin``: the tables in ``select`` are wanted below ``into``.

    ``names`` are the tables and namespaces of ``origin`` that have another name below ``into``. ``defaults`` are what a
    table without a word of its own says, by the namespace in which it does; the innermost one counts.
    """

    origin: str
    source: Source
    select: Scope = EVERYTHING
    into: Identifier = ()
    names: Mapping[Identifier, Identifier] = field(default_factory=dict)
    defaults: Mapping[Identifier, DesiredTable] = field(default_factory=dict)

    def name_of(self, table: Identifier) -> Identifier:
        """Return the name that a table of ``origin`` has here."""
        for depth in range(len(table), 0, -1):
            renamed = self.names.get(table[:depth])
            if renamed is not None:
                return (*self.into, *renamed, *table[depth:])
        return (*self.into, *table)

    def default_of(self, table: Identifier) -> DesiredTable | None:
        """Return what a table of this name says by default."""
        for depth in range(len(table) - 1, -1, -1):
            found = self.defaults.get(table[:depth])
            if found is not None:
                return found
        return None


@dataclass(frozen=True, slots=True)
class DesiredCatalog:
    """The part of a manifest that is about one catalog; ``owner`` is the marker ``<manifest name>/<catalog>``.

    Every ancestor of a table or namespace has an entry in ``namespaces``. Every ``to`` of ``moves`` has a block, and no
    ``origin`` has one.
    """

    name: str
    owner: str
    source: Source
    prune: Prune = Prune.OWNED
    scope: Scope = EVERYTHING
    namespaces: Mapping[Identifier, DesiredNamespace] = field(default_factory=dict)
    tables: Mapping[Identifier, DesiredTable] = field(default_factory=dict)
    moves: tuple[DesiredMove, ...] = ()
    mirror: DesiredMirror | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When removing is too much: more than ``max_removal_percent`` of at least ``min_tables`` tables."""

    max_removal_percent: int = 30
    min_tables: int = 10


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


class LocationPolicy(Enum):
    """Which table locations a catalog takes."""

    ANY = "any"
    UNDER_ROOT = "under-root"


@dataclass(frozen=True, slots=True)
class NameRule:
    """The names a catalog can hold: a regular expression that matches whole names, and its meaning in words."""

    pattern: re.Pattern[str]
    meaning: str


@dataclass(frozen=True, slots=True)
class Safeguard:
    """The property of a table's entry that keeps a catalog, and the engines that work through it, from deleting data.

    ``danger`` says what can happen to a table without it, as a clause with no full stop. ``hazard`` is a property that
    brings the same danger where it is ``true``; an entry without it is safe.
    """

    key: str
    value: str
    danger: str
    hazard: str | None = None

    def missing(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return what to set on an entry with ``properties`` to make it safe; letters count in any case."""
        missing = {}
        if properties.get(self.key, "").lower() != self.value.lower():
            missing[self.key] = self.value
        if self.hazard is not None and properties.get(self.hazard, "").lower() == "true":
            missing[self.hazard] = "false"
        return missing

    def applied_to(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return what an entry with ``properties`` says once it is safe; a hazard that is not set stays so."""
        return {self.key: self.value} | ({self.hazard: "false"} if self.hazard and self.hazard in properties else {})

    def state(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return what ``properties`` say of it, in one form where it is safe; nothing where it is not set."""
        missing, safe = self.missing(properties), self.applied_to(properties)
        return {key: properties[key] if key in missing else safe[key] for key in safe if key in properties}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a catalog is able to do. The planner asks this and never guesses.

    ``max_depth``: how many levels namespaces nest, None for no limit.
    ``table_depths``: how many namespaces may stand above a table, as (fewest, most); most None for no limit.
    ``fixed_levels``: outermost levels that must exist and are never created, marked or dropped (Unity's catalog).
    ``name_rule``, ``folds_case``: the catalog's own rules for names.
    ``one_name_space``: whether a table and a namespace beside each other cannot have the same name.
    ``location_policy``, ``ignores_location``: which locations it takes, and whether it may answer another one.
    ``chooses_locations``: whether it is known to put every table where it likes, so that no entry can be made for data
        that is somewhere.
    ``places_tables``: whether a table that names no location goes where the service says, which only apply tells.
    ``may_manage_versions``: whether the service may keep the versions of a table's data itself, which only the entry
        tells (see ``LiveTable.managed_versioning``).
    ``vends_credentials``: whether it hands out credentials for the data of the tables that it has.
    ``lists_root``: whether data directly under the root is a table without an entry of its own.
    ``longest_property``: how many UTF-16 code units a property's key or value has at most, None for no limit.
    ``namespace_markers``, ``table_markers``: whether properties written at creation are kept and read back.
    ``alter_namespace``, ``alter_table``: whether properties can be changed in place.
    ``keeps_first_columns``: whether the columns that entries show are those of when it was made, and cannot follow.
    ``relocate_table``: whether a table's location can be changed in place.
    ``replace_table``: whether deregister followed by declare loses nothing, so that it can stand in for an update.
    ``rename_within``: how many outermost names two identifiers must share for a table to be renamed in place from one
        to the other; None where no table is.
    ``lost_on_move``: what a table's entry loses where it is moved by making another one, in words.
    ``lost_with_namespace``: what is kept beside a namespace's properties, which one of another name does not get.
    ``namespace_places``: the properties of a namespace that say where it is, so that one of another name has its own.
    ``pinned_root_tables``: whether a table directly under the root is named by its directory, so that it has no other.
    ``namespace_kinds``: the two kinds of a system that has two, the one that holds namespaces first (Glue).
    ``outer_kind_depth``: how deep a namespace of the first of these kinds can be created, None for no limit.
    ``makes_no_tables``: why no table can be made there, in words; empty where tables can.
    ``safeguard``: the property without which this catalog's tables are not safe; None where nothing there deletes data.
        The backend writes it with every entry it makes or changes.
    """

    max_depth: int | None = None
    table_depths: tuple[int, int | None] = (0, None)
    fixed_levels: int = 0
    name_rule: NameRule | None = None
    folds_case: bool = False
    one_name_space: bool = False
    location_policy: LocationPolicy = LocationPolicy.ANY
    ignores_location: bool = False
    chooses_locations: bool = False
    places_tables: bool = False
    may_manage_versions: bool = False
    vends_credentials: bool = False
    lists_root: bool = False
    longest_property: int | None = None
    namespace_markers: bool = True
    table_markers: bool = True
    alter_namespace: bool = True
    alter_table: bool = True
    keeps_first_columns: bool = False
    relocate_table: bool = True
    replace_table: bool = False
    rename_within: int | None = None
    lost_on_move: str = ""
    lost_with_namespace: str = ""
    namespace_places: frozenset[str] = frozenset()
    pinned_root_tables: bool = False
    namespace_kinds: tuple[str, str] | None = None
    outer_kind_depth: int | None = None
    makes_no_tables: str = ""
    safeguard: Safeguard | None = None

    def renames(self, origin: Identifier, to: Identifier) -> bool:
        """Return whether a table is renamed in place from ``origin`` to ``to``."""
        within = self.rename_within
        return within is not None and origin[:within] == to[:within]
