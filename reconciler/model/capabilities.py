"""The capabilities of catalogs, from which the planner knows what each can do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from reconciler.model.display import count
from reconciler.model.names import DELIMITER, Identifier, check_name


class LocationPolicy(Enum):
    """The table locations that a catalog accepts."""

    ANY = "any"
    UNDER_ROOT = "under-root"


@dataclass(frozen=True, slots=True)
class NameRule:
    """The names a catalog accepts: a regular expression for whole names, and its meaning as errors say it."""

    pattern: re.Pattern[str]
    meaning: str


@dataclass(frozen=True, slots=True)
class Safeguard:
    """The property of a table's entry that keeps a catalog, and engines that use it, from deleting data.

    ``danger`` is a clause without a full stop on what can happen to a table without the property. ``hazard`` is the
    key of another property that brings the same danger if it is ``true``; an entry without that one is safe.
    """

    key: str
    value: str
    danger: str
    hazard: str | None = None

    def missing(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties to set on an entry to make it safe; values are compared without case."""
        missing = {}
        if properties.get(self.key, "").lower() != self.value.lower():
            missing[self.key] = self.value
        if self.hazard is not None and properties.get(self.hazard, "").lower() == "true":
            missing[self.hazard] = "false"
        return missing

    def applied_to(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the safe values for an entry with ``properties``; a hazard that is not set stays unset."""
        return {self.key: self.value} | ({self.hazard: "false"} if self.hazard and self.hazard in properties else {})

    def state(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the values of the safeguard and the hazard in ``properties``, safe ones in their usual case."""
        missing, safe = self.missing(properties), self.applied_to(properties)
        return {key: properties[key] if key in missing else safe[key] for key in safe if key in properties}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The features, limits and rules of one catalog.

    ``max_depth``: how many levels namespaces nest, None for no limit.
    ``table_depths``: how many namespaces may be above a table, as (fewest, most); most None for no limit.
    ``fixed_levels``: the number of outermost levels whose namespaces must exist, and are never created, marked or
        dropped (Unity's catalog).
    ``kept_levels``: the number of outermost levels whose namespaces the service can drop only together with their
        content, so that a plan never drops them (Gravitino's catalogs).
    ``drop_command``: the operator's command that drops an empty one, with ``NAME`` for its name.
    ``name_rule``, ``folds_case``: the catalog's own rules for names.
    ``one_name_space``: whether a table and a namespace in the same namespace cannot have the same name.
    ``location_policy``, ``ignores_location``: the locations it accepts, and whether it may choose another one instead.
    ``chooses_locations``: whether it always chooses the location, so that existing data cannot be registered.
    ``places_tables``: whether it chooses the location of a table that is created without one; only apply learns it.
    ``may_manage_versions``: whether the service may keep the versions of a table's data itself, which its entry
        records (see ``LiveTable.managed_versioning``).
    ``vends_credentials``: whether it vends credentials for the data of its tables.
    ``lists_root``: whether data directly under the root is a table without an entry.
    ``longest_property``: the most UTF-16 code units of a property's key or value, None for no limit.
    ``namespace_markers``, ``table_markers``: whether properties written at creation are stored and read back.
    ``alter_namespace``, ``alter_table``: whether properties can be changed in place.
    ``keeps_first_columns``: whether the columns that an entry shows cannot change after it is created.
    ``relocate_table``: whether a table's location can be changed in place.
    ``rename_within``: how many outermost names two identifiers must share for a rename in place; None if the
        catalog renames no table.
    ``lost_on_move``: in words, what a table loses when a move creates a new entry.
    ``lost_with_namespace``: in words, what a namespace loses when a move creates a new one.
    ``namespace_places``: the property keys that hold a namespace's location; a move does not copy them.
    ``pinned_root_tables``: whether tables directly under the root are named by their directories, and so never move.
    ``namespace_kinds``: in a system with two kinds, both, the one that holds namespaces first (Glue).
    ``outer_kind_depth``: the deepest level of a namespace of the first kind that can be created, None for no limit.
    ``makes_no_tables``: in words, why no table can be created; empty if tables can be.
    ``safeguard``: the property that keeps this catalog's tables safe; None if nothing there deletes data.
        The backend writes it with every entry it creates or changes.
    """

    max_depth: int | None = None
    table_depths: tuple[int, int | None] = (0, None)
    fixed_levels: int = 0
    kept_levels: int = 0
    drop_command: str = ""
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

    def comes_before_data(self, table: Identifier, location: str) -> bool:
        """Return whether a new table's entry must be created before its data, although ``location`` is known.

        This holds in three cases. The service may return another location. It may keep the versions of the data
        itself. Or it lists data directly under the root, which would be an unmanaged table until it has its entry;
        default locations of tables in namespaces are not listed, as they have the delimiter in their names.
        """
        is_root = len(table) == 1
        is_listed = self.lists_root and (is_root or DELIMITER not in location.rpartition("/")[2])
        return self.ignores_location or is_listed or (self.may_manage_versions and not is_root)

    def folded(self, name: str) -> str:
        """Return ``name`` as the catalog stores it: in lower case if it folds case."""
        return name.lower() if self.folds_case else name

    def name_problem(self, name: str) -> str | None:
        """Return why the catalog rejects an object of this name, None if it accepts it."""
        rule, problem = self.name_rule, check_name(name)
        if problem is None and rule is not None and not rule.pattern.fullmatch(self.folded(name)):
            return rule.meaning
        return problem

    def property_problem(self, key: str, value: str) -> str | None:
        """Return why the catalog cannot store this property, None if it can."""
        longest = self.longest_property
        for part, text in (("key", key), ("value", value)):
            length = len(text.encode("utf-16-le")) // 2
            if longest is not None and length > longest:
                return f"its {part} has {length} characters, expected at most {longest}"
        return None

    def table_depth_problem(self, depth: int) -> str | None:
        """Return why a table cannot be below ``depth`` namespaces, None if it can."""
        fewest, most = self.table_depths
        if depth >= fewest and (most is None or depth <= most):
            return None
        expected = f"{fewest}" if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        return f"below {count(depth, 'level')} of namespaces, expected {expected}"
