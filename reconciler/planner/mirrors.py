"""Derive the desired tables of a mirror from what the plan of its source leaves.

A mirror is planned after its source, and mirrored tables are compared like tables with a block. Names and locations
that the mirror cannot take are refused here, with a remedy.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import (
    DesiredCatalog,
    DesiredMirror,
    DesiredNamespace,
    DesiredTable,
    Origin,
)
from reconciler.model.live import Storage
from reconciler.model.names import Identifier, address
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.planner.moves import Moves, moves_of

_MOST_WRITTEN = 8
NOTHING_KEPT: Mapping[Identifier, Identifier] = {}
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table that the plan of a catalog leaves live, or would leave if it could.

    ``location`` is None if only apply can tell it. ``properties`` are those that a mirror copies. ``written`` is the
    data that the plan writes at the location. ``waits`` means that the plan does not decide about the table.
    """

    id: Identifier
    location: str | None
    properties: Mapping[str, str] = field(default_factory=dict)
    written: Storage | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class TablesAfterPlan:
    """The tables that a catalog's plan leaves, and the names of those it removes."""

    tables: Mapping[Identifier, PlannedTable] = field(default_factory=dict)
    gone: frozenset[Identifier] = frozenset()


@dataclass(frozen=True, slots=True)
class MirroredTables:
    """The result of mirroring one catalog.

    ``desired`` has the mirrored tables and the catalog's own blocks. ``written`` are tables whose data the source's
    plan writes. ``origins`` names the source tables of names without one in their block: several with one name, and
    removed ones. ``undecided`` are the names that wait for a blocked source table. ``tables`` counts the source's
    tables, ``own`` the objects that the manifest names.
    """

    desired: DesiredCatalog
    written: Mapping[Identifier, Storage]
    origins: Mapping[Identifier, tuple[Identifier, ...]]
    undecided: frozenset[Identifier]
    tables: int
    own: int

    def origins_of(self, table: Identifier) -> tuple[Identifier, ...]:
        """Return the source tables that decide about a table; none if it has a block."""
        block = self.desired.tables.get(table)
        if table in self.origins:
            return self.origins[table]
        return () if block is None or block.mirrors is None else (block.mirrors.identifier,)

    def witnesses(self, namespaces: Iterable[Identifier]) -> Iterator[Identifier]:
        """Yield a mirrored table below each of ``namespaces`` that exists for mirroring."""
        blocks = self.desired.namespaces
        missing = {name for name in namespaces if (block := blocks.get(name)) is not None and block.mirrored}
        if not missing:
            return
        for identifier, table in sorted(self.desired.tables.items()):
            above = {identifier[:depth] for depth in range(1, len(identifier))} & missing
            if above and table.mirrors is not None and table.refused is None:
                missing -= above
                yield identifier


def waves(catalogs: Mapping[str, DesiredCatalog]) -> Iterator[list[str]]:
    """Yield ``catalogs`` by name in groups, each after the sources of its members.

    Raises:
        graphlib.CycleError: they mirror each other; loading a manifest rejects that.
    """
    sorter = TopologicalSorter(
        {
            name: {desired.mirror.origin} & catalogs.keys() if desired.mirror else ()
            for name, desired in catalogs.items()
        }
    )
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield ready
        sorter.done(*ready)


def with_sources(catalogs: Mapping[str, DesiredCatalog], names: Iterable[str]) -> frozenset[str]:
    """Return ``names``, their sources, and the sources of those."""
    closure: set[str] = set()
    for name in names:
        catalog: str | None = name
        while catalog is not None and catalog in catalogs and catalog not in closure:
            closure.add(catalog)
            mirror = catalogs[catalog].mirror
            catalog = mirror.origin if mirror is not None else None
    return frozenset(closure)


def mirrored(
    desired: DesiredCatalog,
    mirror: DesiredMirror,
    capabilities: Capabilities,
    source_tables: TablesAfterPlan,
    stored_names: Mapping[Identifier, Identifier] = NOTHING_KEPT,
) -> MirroredTables:
    """Return ``desired`` with mirrored tables added.

    Its own blocks win, including absent namespaces.

    Args:
        desired: the catalog, as its own blocks say it.
        mirror: its mirror.
        capabilities: those of the catalog.
        source_tables: the tables of the source once its plan is applied.
        stored_names: the names that the service stores in another form, by the requested ones.
    """
    following = _Mirror(desired, mirror, capabilities, stored_names, moves_of(desired))
    origins: defaultdict[Identifier, list[PlannedTable]] = defaultdict(list)
    chosen = [source_tables.tables[key] for key in sorted(source_tables.tables) if mirror.select.contains(key)]
    for table in chosen:
        name = following.name_of(table.id)
        if not following.has_own(name):
            origins[name].append(table)
    if capabilities.one_name_space:
        above = {name[:depth] for name in origins for depth in range(1, len(name))}
        children: defaultdict[Identifier, set[Identifier]] = defaultdict(set)
        for table in chosen:
            for depth in range(1, len(table.id)):
                children[table.id[:depth]].add(table.id[: depth + 1])
        own = {name for name, block in desired.namespaces.items() if not block.absent}
        following = replace(following, spaces=above | own, children=children)
    tables, namespaces = dict(desired.tables), dict(desired.namespaces)
    for name in sorted(origins):
        block = tables[name] = following.table(name, origins[name])
        if block.refused is None:
            for depth in range(1, len(name)):
                namespaces.setdefault(name[:depth], DesiredNamespace(name[:depth], mirror.source, mirrored=True))
    removed = {following.name_of(identifier): (identifier,) for identifier in source_tables.gone}
    ambiguous = {
        name: tuple(sorted(table.id for table in same_name))
        for name, same_name in origins.items()
        if len(same_name) > 1
    }
    return MirroredTables(
        replace(desired, tables=tables, namespaces=namespaces),
        {name: same_name[0].written for name, same_name in origins.items() if same_name[0].written is not None},
        {**{name: origin for name, origin in removed.items() if name not in tables}, **ambiguous},
        frozenset(name for name, same_name in origins.items() if any(table.waits for table in same_name)),
        len(chosen),
        len(desired.tables) + len(desired.namespaces),
    )


@dataclass(frozen=True, slots=True)
class _Mirror:
    """One mirror, its limits, and the names that are taken.

    Only for catalogs in which tables and namespaces share names: ``spaces`` are the namespaces of the mirror,
    ``children`` the mirrored objects of each namespace of the source.
    """

    desired: DesiredCatalog
    mirror: DesiredMirror
    capabilities: Capabilities
    kept: Mapping[Identifier, Identifier]
    moves: Moves
    spaces: Set[Identifier] = frozenset()
    children: Mapping[Identifier, Collection[Identifier]] = field(default_factory=dict)

    def name_of(self, origin: Identifier) -> Identifier:
        return tuple(self.capabilities.folded(name) for name in self.mirror.name_of(origin))

    def has_own(self, name: Identifier) -> bool:
        """Return whether the manifest's own blocks decide about a name."""
        above = (self.desired.namespaces.get(name[:depth]) for depth in range(1, len(name)))
        return name in self.desired.tables or any(block is not None and block.absent for block in above)

    def table(self, name: Identifier, origins: Sequence[PlannedTable]) -> DesiredTable:
        origin, mirror = origins[0], self.mirror
        defaults = mirror.default_of(name) or DesiredTable(name, mirror.source)
        copied = origin.properties if self.capabilities.table_markers else {}
        return replace(
            defaults,
            id=name,
            source=mirror.source,
            properties={**defaults.properties, **copied},
            location=origin.location,
            mirrors=Origin(mirror.origin, origin.id),
            refused=self._refusal(name, origins),
        )

    def _refusal(self, name: Identifier, origins: Sequence[PlannedTable]) -> Why | None:
        """Return why the catalog cannot have a table, None where nothing is known that speaks against it."""
        return self._name_refusal(name, origins) or self._place_refusal(name, origins[0])

    def _name_refusal(self, name: Identifier, origins: Sequence[PlannedTable]) -> Why | None:
        origin, able, scope = origins[0].id, self.capabilities, self.desired.scope
        if len(origins) > 1:
            sources = tuple(address(self.mirror.origin, source.id) for source in origins)
            write = self._renaming(origins[-1].id, name, _another(name, len(name)))
            return self._why(ReasonCode.SEVERAL_SOURCES, {"names": sources, "write": write})
        for part in name:
            problem = able.name_problem(part)
            if problem is not None:
                write = self._renaming(origin, name, tuple(map(self._good, name)))
                return self._why(ReasonCode.BAD_NAME, {"name": part, "detail": problem, "write": write})
        problem = able.table_depth_problem(len(name) - 1)
        if problem is not None:
            return self._why(ReasonCode.BAD_DEPTH, {"detail": problem, **self._good_depth(origin, name)})
        if name in self.spaces:
            return self._why(ReasonCode.NAME_OF_NAMESPACE, self._beside_namespace(origin, name))
        for depth in range(1, len(name)):
            if self._is_own_table(name[:depth]):
                write = self._renaming(origin, name, _another(name, depth))
                return self._why(ReasonCode.NAME_OF_TABLE, {"name": "/".join(name[:depth]), "write": write})
        line = self.moves.line_leaving(name)
        if line is not None:
            write = self._renaming(origin, name, _another(name, len(line.origin)))
            return self._why(ReasonCode.NAME_MOVED_AWAY, {"line": str(line.source), "write": write})
        if not scope.contains(name):
            detail = ", ".join(scope.patterns)
            return self._why(ReasonCode.OUT_OF_SCOPE, {"leave_out": leave_out(name), "detail": detail})
        return self._kept_refusal(origin, name)

    def _kept_refusal(self, origin: Identifier, name: Identifier) -> Why | None:
        """Return that the service has a table, or what it is in, under another name; None where it has not."""
        depths = range(len(name), 0, -1)
        stored = next(((*self.kept[name[:at]], *name[at:]) for at in depths if name[:at] in self.kept), None)
        if stored is None:
            return None
        depth, write = _first_difference(name, stored), self._renaming(origin, name, stored)
        params: Params = {"name": "/".join(name[:depth]), "other": "/".join(stored[:depth]), "write": write}
        return self._why(ReasonCode.KEPT_UNDER_ANOTHER_NAME, params, stored)

    def _place_refusal(self, name: Identifier, table: PlannedTable) -> Why | None:
        """Return why a table cannot be at the location of its source, or have the properties of it."""
        origin = address(self.mirror.origin, table.id)
        if table.location is None:
            code = ReasonCode.SOURCE_BLOCKED if table.waits else ReasonCode.SOURCE_NOT_READY
            return Why(code, {"name": origin, "other": self.mirror.origin})
        params: Params = {"leave_out": leave_out(name)}
        problem = locations.check_table(table.location)
        if problem is not None:
            return self._why(ReasonCode.BAD_LOCATION, {**params, "name": origin, "detail": problem})
        if self.capabilities.chooses_locations:
            return self._why(ReasonCode.MIRROR_CANNOT_PLACE, params)
        for key, value in table.properties.items() if self.capabilities.table_markers else ():
            problem = self.capabilities.property_problem(key, value)
            if problem is not None:
                return self._why(ReasonCode.BAD_PROPERTY, {**params, "name": origin, "key": key, "detail": problem})
        return None

    def _why(self, code: ReasonCode, params: Params, stored: Identifier | None = None) -> Why:
        return Why(code, {"catalog": self.desired.name, **params}, stored)

    # ---- what to write

    def _names(self, names: Mapping[Identifier, Identifier]) -> str:
        pairs = (f"{_written('/'.join(origin))}: {_written('/'.join(to))}" for origin, to in names.items())
        return f"names: {{{', '.join(pairs)}}}"

    def _renaming(self, origin: Identifier, name: Identifier, to: Identifier) -> str:
        """Return the line that renames ``name`` to ``to`` where they first differ."""
        depth, into = _first_difference(name, to), self.mirror.into
        if depth <= len(into):
            written = ", ".join(map(_written, (*to[:depth], *into[depth:])))
            return f"into: [{written}]"
        if (*into, *origin) == self.mirror.name_of(origin):
            return self._names({origin[: depth - len(into)]: to[len(into) : depth]})
        return self._names({origin: to[len(into) :]})

    def _beside_namespace(self, origin: Identifier, name: Identifier) -> Params:
        """Return the line that renames a table, but not what is below its name."""
        into, caught = len(self.mirror.into), sorted(self.children.get(origin, ()))
        if len(caught) > _MOST_WRITTEN:
            return {"leave_out": leave_out(name)}
        names = {origin: _another(name, len(name))[into:]}
        return {"write": self._names(names | {child: self.mirror.name_of(child)[into:] for child in caught})}

    def _is_own_table(self, name: Identifier) -> bool:
        block = self.desired.tables.get(name) if self.capabilities.one_name_space else None
        return block is not None and not block.absent

    def _good(self, name: str) -> str:
        """Return a valid form of ``name``, or a placeholder if there is none."""
        if self.capabilities.name_problem(name) is None:
            return name
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        candidate = re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_")
        return candidate if self.capabilities.name_problem(candidate) is None else "new_name"

    def _good_depth(self, origin: Identifier, name: Identifier) -> Params:
        """Return the line that flattens a name; nothing if it needs more depth."""
        most, into = self.capabilities.table_depths[1], len(self.mirror.into)
        if most is None or len(name) - 1 < most:
            return {}
        room, inside = most - into, name[into:]
        if room < 1:
            return {"write": self._names({origin: ("_".join(inside),)})}
        flat = (*inside[: room - 1], "_".join(inside[room - 1 : -1]))
        is_renamed = (*self.mirror.into, *origin) != self.mirror.name_of(origin)
        return {"write": self._names({origin: (*flat, inside[-1])} if is_renamed else {origin[:-1]: flat})}


def _first_difference(name: Identifier, other: Identifier) -> int:
    """Return the depth at which two names differ; the full depth if they are equal."""
    return next((depth for depth in range(1, len(name)) if name[:depth] != other[:depth]), len(name))


def _another(name: Identifier, depth: int) -> Identifier:
    """Return ``name`` with a suffix at ``depth``."""
    return (*name[: depth - 1], f"{name[depth - 1]}_2", *name[depth:])


def leave_out(name: Identifier) -> str:
    """Return the block that excludes a table from a mirror."""
    block = f"tables: {{{_written(name[-1])}: {{absent: true}}}}"
    for namespace in reversed(name[:-1]):
        block = f"namespaces: {{{_written(namespace)}: {{{block}}}}}"
    return block


def _written(text: str) -> str:
    """Return ``text`` as YAML in flow style."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
