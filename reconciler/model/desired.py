"""The desired state: immutable data that ``manifest/`` creates and ``planner/`` compares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from enum import Enum
from operator import attrgetter
from typing import Any

from reconciler.model.columns import Schema
from reconciler.model.errors import Problem
from reconciler.model.maintenance import NOT_MAINTAINED, Maintain
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.model.reasons import Why


@dataclass(frozen=True, slots=True)
class Source:
    """A position in a file of the manifest; line and column count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def exact(self) -> str:
        """The position with its column, as errors name it: ``lancens.yaml:3:5``."""
        return f"{self}:{self.column}"

    def problem(self, message: str) -> Problem:
        """Return an error with the text ``message`` at this position."""
        return Problem(self.file, self.line, self.column, message)


class Prune(Enum):
    """Which of the live objects that the manifest does not name are removed."""

    NEVER = "never"
    OWNED = "owned"
    ALL = "all"


class Evolve(Enum):
    """Which changes a plan may make to the columns of existing data."""

    NEVER = "never"
    ADDITIVE = "additive"


class ExtraColumns(Enum):
    """How to treat columns of a table's data that its block does not name: writers may have added them."""

    KEEP = "keep"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class DesiredNamespace:
    """One namespace block.

    A block that is not ``is_claimed`` is a *path*: the namespace is created if it does not exist, and otherwise left
    alone. The values of ``secret_keys`` in ``properties`` come from the environment or a file, and are redacted.
    ``mirrored``: it has no block, and only a mirror puts tables into it.
    """

    id: Identifier
    source: Source
    properties: Mapping[str, str] = field(default_factory=dict)
    is_claimed: bool = False
    absent: bool = False
    protect: bool | None = None
    kind: str | None = None
    secret_keys: frozenset[str] = frozenset()
    mirrored: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The table of another catalog that a mirrored or cloned table follows."""

    catalog: str
    identifier: Identifier


@dataclass(frozen=True, slots=True)
class CloneAt:
    """Which version of a table is cloned: that of ``tag``, or ``version``; without either, the latest.

    ``pin``: whether a tag of lancens keeps it. ``follow``: whether a new clone is made once the tag is at another one.
    """

    tag: str | None = None
    version: int | None = None
    pin: bool = False
    follow: bool = False


@dataclass(frozen=True, slots=True)
class DesiredClone:
    """What a new table is a shallow clone of: the table ``origin`` at a version.

    ``location`` is that of the data of ``origin``; None until the plan of its catalog is made. ``awaited`` is why the
    version is known only once that plan is applied; None if it is known. ``moved_to`` is the version that this plan
    moves the tag of ``at`` to, as in ``TagTarget``; None if the tag stays.
    """

    origin: Origin
    at: CloneAt
    location: str | None = None
    awaited: Why | None = None
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a block expects of a table's data; an audit checks it, a plan never enforces it.

    Args:
        indices: columns that must have an index.
        max_fragments: the most fragments.
        max_versions: the most versions.
        max_age_days: the most days since the last commit.
    """

    indices: tuple[str, ...] = ()
    max_fragments: int | None = None
    max_versions: int | None = None
    max_age_days: int | None = None


NOTHING_EXPECTED = Expectations()
"""The default: no expectation."""


@dataclass(frozen=True, slots=True)
class DesiredTable:
    """One table block, or a table that a mirror or the clone of a catalog asks for.

    ``location`` None leaves the location to the catalog; ``schema`` None leaves the columns to the data. The values of
    ``secret_keys`` in ``properties`` come from the environment or a file. ``mirrors`` is set for a table without a
    block: the table that it follows. ``refused`` is why it cannot follow that table. ``clones`` is set for a table
    whose data begins as a clone. ``tags`` are targets by name (see ``reconciler.model.tags``).
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
    refused: Why | None = None
    expect: Expectations = NOTHING_EXPECTED
    maintain: Maintain = NOT_MAINTAINED
    tags: Mapping[str, str] = field(default_factory=dict)
    clones: DesiredClone | None = None

    @property
    def mirror(self) -> str | None:
        """The catalog that the table mirrors; None for a clone."""
        return self.mirrors.catalog if self.mirrors is not None and self.clones is None else None

    @property
    def follows(self) -> Origin | None:
        """The table of another catalog that it mirrors or clones."""
        return self.clones.origin if self.clones is not None else self.mirrors

    def __reduce__(self) -> tuple[type[DesiredTable], tuple[Any, ...]]:
        """Pickle the values of the fields alone: the default for slots takes three times as long."""
        return DesiredTable, _FIELDS_OF_A_TABLE(self)


_FIELDS_OF_A_TABLE = attrgetter(*(field.name for field in fields(DesiredTable)))


@dataclass(frozen=True, slots=True)
class DesiredPolicy:
    """One entry of ``policies``: the settings of the live tables in ``match`` that have no block.

    ``pattern`` is ``match`` as written; ``expect`` and ``maintain`` are the fields of :class:`Expectations` and
    :class:`Maintain` that it sets.
    """

    pattern: str
    match: Scope
    source: Source
    properties: Mapping[str, str] = field(default_factory=dict)
    secret_keys: frozenset[str] = frozenset()
    expect: Mapping[str, Any] = field(default_factory=dict)
    maintain: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DesiredMove:
    """One entry of ``moved``: a table, or a namespace with its content, is renamed from ``origin`` to ``to``."""

    origin: Identifier
    to: Identifier
    source: Source
    is_table: bool


@dataclass(frozen=True, slots=True)
class DesiredMirror:
    """The mirror or clone of the catalog ``origin``: its tables in ``select`` also get entries below ``into``.

    A mirror has the same locations; the tables of a clone begin as shallow clones of their version ``clones``.
    ``names`` has the names below ``into`` of renamed tables and namespaces, by their names in ``origin``. ``defaults``
    are the settings of tables without a block, by namespace; those of the innermost namespace apply.
    """

    origin: str
    source: Source
    select: Scope = EVERYTHING
    into: Identifier = ()
    names: Mapping[Identifier, Identifier] = field(default_factory=dict)
    defaults: Mapping[Identifier, DesiredTable] = field(default_factory=dict)
    clones: CloneAt | None = None

    @property
    def key(self) -> str:
        """The key of its block in the manifest."""
        return "mirror" if self.clones is None else "clone"

    def name_of(self, table: Identifier) -> Identifier:
        """Return the name that a table of ``origin`` gets in the mirroring catalog."""
        for depth in range(len(table), 0, -1):
            renamed = self.names.get(table[:depth])
            if renamed is not None:
                return (*self.into, *renamed, *table[depth:])
        return (*self.into, *table)

    def default_of(self, table: Identifier) -> DesiredTable | None:
        """Return the defaults for a table of this name in the mirroring catalog; None without any."""
        for depth in range(len(table) - 1, -1, -1):
            defaults = self.defaults.get(table[:depth])
            if defaults is not None:
                return defaults
        return None


@dataclass(frozen=True, slots=True)
class DesiredCatalog:
    """The desired state of one catalog; ``owner`` is ``<manifest>/<catalog>``, or ``<manifest>/<catalog>/<id>``.

    ``mirror`` is its ``mirror`` or ``clone``, ``cloned`` are the catalogs of whose tables blocks of its own are clones.
    ``is_followed``: whether another catalog mirrors or clones it. Every ancestor of a table or namespace is in
    ``namespaces``. Every ``to`` of ``moves`` has a block, and no ``origin`` has one. ``written_names`` are names with
    variables as the manifest writes them, by what they stand for. ``varies``: the manifest has variables, so that it
    may be applied to several environments.
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
    cloned: frozenset[str] = frozenset()
    is_followed: bool = False
    suppress: tuple[Suppression, ...] = ()
    policies: tuple[DesiredPolicy, ...] = ()
    written_names: Mapping[str, str] = field(default_factory=dict, compare=False)
    varies: bool = field(default=False, compare=False)

    @property
    def sources(self) -> frozenset[str]:
        """The catalogs that are planned before this one, as its tables follow theirs."""
        return self.cloned if self.mirror is None else self.cloned | {self.mirror.origin}

    def as_written(self, identifier: Identifier) -> str:
        """Return names joined by slashes as the manifest writes them, so that they fit every environment."""
        return "/".join(map(self._name_as_written, identifier))

    def _name_as_written(self, name: str) -> str:
        if name in self.written_names:
            return self.written_names[name]
        for value, text in self.written_names.items():
            before, _, rest = text.partition("${")
            variable, _, after = rest.partition("}")
            held = value.removeprefix(before).removesuffix(after)
            parts = re.split(rf"(?<![A-Za-z0-9]){re.escape(held)}(?![A-Za-z0-9])", name) if held else [name]
            if len(parts) > 1 and "${" not in after:
                return f"${{{variable}}}".join(parts)
        return name


@dataclass(frozen=True, slots=True)
class Suppression:
    """Accepted findings of an audit: those of ``rule`` for tables in ``match``, up to and including ``until``."""

    catalog: str
    rule: str
    match: str
    until: date
    reason: str
    source: Source


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limit on removals: ``max_removal_percent`` of the tables, if there are ``min_tables`` or more."""

    max_removal_percent: int = 30
    min_tables: int = 10
