"""What a catalog can do, so that the planner never guesses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from reconciler.model.display import count
from reconciler.model.names import DELIMITER, Identifier, check_name


class LocationPolicy(Enum):
    """Which table locations a catalog takes."""

    ANY = "any"
    UNDER_ROOT = "under-root"


@dataclass(frozen=True, slots=True)
class NameRule:
    """The names a catalog accepts: a regular expression for whole names, and its meaning in words."""

    pattern: re.Pattern[str]
    meaning: str


@dataclass(frozen=True, slots=True)
class Safeguard:
    """The property of a table's entry that keeps a catalog, and the engines that work through it, from deleting data.

    ``danger`` is a clause without a full stop: what can happen to a table without it. ``hazard`` is a property that
    brings the same danger where it is ``true``; an entry without it is safe.
    """

    key: str
    value: str
    danger: str
    hazard: str | None = None

    def missing(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties to set on an entry to make it safe; case does not matter."""
        missing = {}
        if properties.get(self.key, "").lower() != self.value.lower():
            missing[self.key] = self.value
        if self.hazard is not None and properties.get(self.hazard, "").lower() == "true":
            missing[self.hazard] = "false"
        return missing

    def applied_to(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the safe values for an entry; a hazard that is not set stays unset."""
        return {self.key: self.value} | ({self.hazard: "false"} if self.hazard and self.hazard in properties else {})

    def state(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the safeguard as set in ``properties``, normalised where it is safe."""
        missing, safe = self.missing(properties), self.applied_to(properties)
        return {key: properties[key] if key in missing else safe[key] for key in safe if key in properties}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a catalog can do.

    ``max_depth``: how many levels namespaces nest, None for no limit.
    ``table_depths``: how many namespaces may be above a table, as (fewest, most); most None for no limit.
    ``fixed_levels``: outermost levels that must exist and are never created, marked or dropped (Unity's catalog).
    ``kept_levels``, ``drop_command``: outermost levels whose namespaces the service drops only with what they hold, and
        the operator's command that drops an empty one, with ``NAME`` for its name (Gravitino's catalogs).
    ``name_rule``, ``folds_case``: the catalog's own rules for names.
    ``one_name_space``: whether a table and a namespace beside each other cannot have the same name.
    ``location_policy``, ``ignores_location``: which locations it takes, and whether it may answer another one.
    ``chooses_locations``: whether it always chooses the location, so that existing data cannot be registered.
    ``places_tables``: whether the service places a table without a location, which is known only at apply.
    ``may_manage_versions``: whether the service may keep the versions of a table's data itself, which its entry
        records (see ``LiveTable.managed_versioning``).
    ``vends_credentials``: whether it hands out credentials for the data of its tables.
    ``lists_root``: whether data directly under the root is a table without an entry.
    ``longest_property``: how many UTF-16 code units a property's key or value has at most, None for no limit.
    ``namespace_markers``, ``table_markers``: whether properties written at creation are kept and read back.
    ``alter_namespace``, ``alter_table``: whether properties can be changed in place.
    ``keeps_first_columns``: whether the columns that an entry shows cannot change after it is created.
    ``relocate_table``: whether a table's location can be changed in place.
    ``rename_within``: how many outermost names two identifiers must share for a rename in place; None where the
        catalog renames no table.
    ``lost_on_move``: what a table's entry loses where a move creates another one, in words.
    ``lost_with_namespace``: what a namespace loses where a move creates another one, in words.
    ``namespace_places``: the properties of a namespace that hold its location, so that a new name gets its own.
    ``pinned_root_tables``: whether the directory of a table directly under the root is its name.
    ``namespace_kinds``: the two kinds where a system has two, the kind that holds namespaces first (Glue).
    ``outer_kind_depth``: how deep a namespace of the first kind can be created, None for no limit.
    ``makes_no_tables``: why no table can be made there, in words; empty where tables can.
    ``safeguard``: the property that keeps this catalog's tables safe; None where nothing there deletes data.
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
        """Return whether a new table's entry is created before its data, although the location is known.

        The service may return another location, or keep the versions of the data itself. Where data directly under the
        root is a table without an entry, the data alone would be an unmanaged table; not at a default location in a
        namespace, which has the delimiter in its name.
        """
        is_root = len(table) == 1
        is_listed = self.lists_root and (is_root or DELIMITER not in location.rpartition("/")[2])
        return self.ignores_location or is_listed or (self.may_manage_versions and not is_root)

    def folded(self, name: str) -> str:
        """Return ``name`` as the catalog keeps it."""
        return name.lower() if self.folds_case else name

    def name_problem(self, name: str) -> str | None:
        """Return why the catalog accepts no object of this name, None when it does."""
        rule, problem = self.name_rule, check_name(name)
        if problem is None and rule is not None and not rule.pattern.fullmatch(self.folded(name)):
            return rule.meaning
        return problem

    def property_problem(self, key: str, value: str) -> str | None:
        """Return why the catalog cannot keep this property, None when it can."""
        most = self.longest_property
        for what, text in (("key", key), ("value", value)):
            size = len(text.encode("utf-16-le")) // 2
            if most is not None and size > most:
                return f"its {what} has {size} characters, expected at most {most}"
        return None

    def table_depth_problem(self, depth: int) -> str | None:
        """Return why a table cannot be below ``depth`` namespaces, None when it can."""
        fewest, most = self.table_depths
        if depth >= fewest and (most is None or depth <= most):
            return None
        expected = f"{fewest}" if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        return f"below {count(depth, 'level')} of namespaces, expected {expected}"
