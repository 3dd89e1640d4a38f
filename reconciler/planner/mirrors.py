"""Derive the desired tables of a mirror, or of clones, from what the plan of their source leaves.

A catalog that mirrors or clones another is planned after that one, and its tables are compared like tables with a
block. Names and locations that it cannot take are refused here, with a remedy. Where this says "mirror", a catalog
with `clone` is meant as well.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import (
    CloneAt,
    DesiredCatalog,
    DesiredClone,
    DesiredMirror,
    DesiredNamespace,
    DesiredTable,
    Origin,
)
from reconciler.model.live import Storage
from reconciler.model.names import Identifier, address
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.planner.moves import Moves, moves_of

_MOST_LINES = 8
NO_STORED_NAMES: Mapping[Identifier, Identifier] = {}
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table as the plan of its catalog leaves it, for mirrors of that catalog.

    ``location`` is None if only apply can tell it. ``properties`` are those that a mirror copies. ``planned_data`` is
    the data that the plan writes at the location. ``moved_tags`` has the targets of the tags that it sets, and None for
    those that it removes. ``is_undecided``: the table is blocked, or its change waits.
    """

    id: Identifier
    location: str | None
    properties: Mapping[str, str] = field(default_factory=dict)
    planned_data: Storage | None = None
    moved_tags: Mapping[str, str | None] = field(default_factory=dict)
    is_undecided: bool = False


@dataclass(frozen=True, slots=True)
class TablesAfterPlan:
    """The tables that a catalog's plan leaves, and the names of those it removes."""

    tables: Mapping[Identifier, PlannedTable] = field(default_factory=dict)
    removed: frozenset[Identifier] = frozenset()


@dataclass(frozen=True, slots=True)
class MirroredTables:
    """The result of mirroring one catalog.

    ``desired`` has the mirrored tables and the catalog's own blocks. ``planned_data`` is what the source's plan writes,
    by mirrored table. ``undecided`` are the mirrored tables that wait for a blocked source table. ``origins``
    gives the source tables where ``desired`` does not: of a name that several have, and of one that was removed.
    ``tables`` counts the mirrored tables of the source, ``own`` the objects that the manifest names.
    """

    desired: DesiredCatalog
    planned_data: Mapping[Identifier, Storage]
    origins: Mapping[Identifier, tuple[Identifier, ...]]
    undecided: frozenset[Identifier]
    tables: int
    own: int

    def origins_of(self, table: Identifier) -> tuple[Identifier, ...]:
        """Return the source tables that a table of the mirror follows; none if it has a block of its own."""
        block = self.desired.tables.get(table)
        if table in self.origins:
            return self.origins[table]
        return () if block is None or block.mirrors is None else (block.mirrors.identifier,)

    def witnesses(self, namespaces: Iterable[Identifier]) -> Iterator[Identifier]:
        """Yield a mirrored table below each of ``namespaces`` that only mirroring creates."""
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
    """Yield the names of ``catalogs`` in groups; a catalog comes in a later group than its source.

    Raises:
        graphlib.CycleError: catalogs mirror each other; loading a manifest rejects that.
    """
    sorter = TopologicalSorter({name: desired.sources & catalogs.keys() for name, desired in catalogs.items()})
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield ready
        sorter.done(*ready)


def with_sources(sources: Mapping[str, Iterable[str]], names: Iterable[str]) -> frozenset[str]:
    """Return ``names`` of catalogs with the catalogs that they mirror, directly or not.

    ``sources`` has those that each known catalog mirrors itself; other catalogs are left out.
    """
    closure: set[str] = set()
    pending = [*names]
    while pending:
        name = pending.pop()
        if name in sources and name not in closure:
            closure.add(name)
            pending += sources[name]
    return frozenset(closure)


def mirrored(
    desired: DesiredCatalog,
    mirror: DesiredMirror,
    capabilities: Capabilities,
    source_tables: TablesAfterPlan,
    stored_names: Mapping[Identifier, Identifier] = NO_STORED_NAMES,
) -> MirroredTables:
    """Return ``desired`` with mirrored tables added.

    The catalog's own blocks win; nothing is mirrored into an absent namespace.

    Args:
        desired: the catalog, with its own blocks only.
        mirror: its ``mirror`` block.
        capabilities: those of the catalog.
        source_tables: the tables of the source once its plan is applied.
        stored_names: the names that the service stores in another form, by requested name.
    """
    mirroring = _Mirroring(desired, mirror, capabilities, stored_names, moves_of(desired))
    origins: defaultdict[Identifier, list[PlannedTable]] = defaultdict(list)
    chosen = [source_tables.tables[key] for key in sorted(source_tables.tables) if mirror.select.contains(key)]
    for table in chosen:
        name = mirroring.name_of(table.id)
        if not mirroring.has_own(name):
            origins[name].append(table)
    if capabilities.one_name_space:
        above = {name[:depth] for name in origins for depth in range(1, len(name))}
        children: defaultdict[Identifier, set[Identifier]] = defaultdict(set)
        for table in chosen:
            for depth in range(1, len(table.id)):
                children[table.id[:depth]].add(table.id[: depth + 1])
        own = {name for name, block in desired.namespaces.items() if not block.absent}
        mirroring = replace(mirroring, mirror_namespaces=above | own, children=children)
    tables, namespaces = dict(desired.tables), dict(desired.namespaces)
    for name in sorted(origins):
        block = tables[name] = mirroring.table(name, origins[name])
        if block.refused is None:
            for depth in range(1, len(name)):
                namespaces.setdefault(name[:depth], DesiredNamespace(name[:depth], mirror.source, mirrored=True))
    removed = {mirroring.name_of(identifier): (identifier,) for identifier in source_tables.removed}
    ambiguous = {
        name: tuple(sorted(table.id for table in same_name))
        for name, same_name in origins.items()
        if len(same_name) > 1
    }
    return MirroredTables(
        replace(desired, tables=tables, namespaces=namespaces),
        {
            name: same_name[0].planned_data
            for name, same_name in origins.items()
            if mirror.clones is None and same_name[0].planned_data is not None
        },
        {**{name: origin for name, origin in removed.items() if name not in tables}, **ambiguous},
        frozenset(name for name, same_name in origins.items() if any(table.is_undecided for table in same_name)),
        len(chosen),
        len(desired.tables) + len(desired.namespaces),
    )


def with_bases(desired: DesiredCatalog, tables_after: Callable[[str], TablesAfterPlan]) -> DesiredCatalog:
    """Return ``desired`` with the location of the data of which each block's clone is made.

    ``tables_after`` returns the tables that a catalog has once its plan is applied.
    """
    sources = {name: tables_after(name).tables for name in desired.cloned}
    tables = dict(desired.tables) if sources else {}
    for name, block in tables.items():
        if block.clones is not None:
            origin = block.clones.origin
            base = sources[origin.catalog].get(origin.identifier)
            if base is None:
                params = Params(
                    name=address(origin.catalog, origin.identifier),
                    where=origin.catalog,
                    detail="there is no such table",
                )
                clones = replace(block.clones, awaited=Why(ReasonCode.BASE_UNAVAILABLE, params))
            else:
                clones = _clone_of(origin, base, block.clones.at)
            tables[name] = replace(block, clones=clones)
    return replace(desired, tables=tables) if sources else desired


def _clone_of(origin: Origin, table: PlannedTable, at: CloneAt) -> DesiredClone:
    """Return what a clone of ``table`` is made of, as the plan of its catalog leaves that."""
    awaited = _why_base_awaited(origin.catalog, table, at)
    return DesiredClone(origin, at, table.location, awaited, table.moved_tags.get(at.tag or ""))


def _why_location_awaited(catalog: str, table: PlannedTable) -> Why:
    code = ReasonCode.SOURCE_BLOCKED if table.is_undecided else ReasonCode.SOURCE_NOT_READY
    return Why(code, {"name": address(catalog, table.id), "other": catalog})


def _why_base_awaited(catalog: str, table: PlannedTable, at: CloneAt) -> Why | None:
    """Return why the version to clone is known only once the plan of ``catalog`` is applied; None if it is known."""
    if table.location is None:
        return _why_location_awaited(catalog, table)
    is_removed = at.tag is not None and table.moved_tags.get(at.tag, "") is None
    if table.planned_data is None and not is_removed:
        return None
    return Why(ReasonCode.SOURCE_CHANGES, {"name": address(catalog, table.id), "other": catalog})


@dataclass(frozen=True, slots=True)
class _Mirroring:
    """What decides about the names and locations of mirrored tables, with remedies for those that are refused.

    ``mirror_namespaces`` and ``children`` are filled only if tables and namespaces of the catalog share names:
    ``mirror_namespaces`` are its namespaces, ``children`` the mirrored objects of each namespace of the source.
    """

    desired: DesiredCatalog
    mirror: DesiredMirror
    capabilities: Capabilities
    stored_names: Mapping[Identifier, Identifier]
    moves: Moves
    mirror_namespaces: Set[Identifier] = frozenset()
    children: Mapping[Identifier, Collection[Identifier]] = field(default_factory=dict)

    def name_of(self, origin: Identifier) -> Identifier:
        """Return the name in the mirror of a source table; a clone has the new name if a line moves that one."""
        name = tuple(self.capabilities.folded(name) for name in self.mirror.name_of(origin))
        return name if self.mirror.clones is None else self.moves.target_of(name) or name

    def has_own(self, name: Identifier) -> bool:
        """Return whether the manifest's own blocks decide about a name.

        The block of a clone only adds to it, unless it names other data, or another table to clone.
        """
        above = (self.desired.namespaces.get(name[:depth]) for depth in range(1, len(name)))
        own = self.desired.tables.get(name)
        if own is not None:
            names_data = own.location is not None or own.clones is not None
            if self.mirror.clones is None or own.absent or names_data:
                return True
        return any(block is not None and block.absent for block in above)

    def table(self, name: Identifier, origins: Sequence[PlannedTable]) -> DesiredTable:
        """Return the block of a mirrored table; refused if it cannot exist, or has several source tables."""
        origin, mirror, own = origins[0], self.mirror, self.desired.tables.get(name)
        defaults = own or replace(mirror.default_of(name) or DesiredTable(name, mirror.source), source=mirror.source)
        copied = origin.properties if self.capabilities.table_markers else {}
        followed, clones = Origin(mirror.origin, origin.id), None
        if mirror.clones is not None:
            clones = _clone_of(followed, origin, mirror.clones)
        return replace(
            defaults,
            id=name,
            properties={**copied, **own.properties} if own else {**defaults.properties, **copied},
            location=origin.location if clones is None else None,
            probe=defaults.probe or clones is not None,
            mirrors=followed,
            clones=clones,
            refused=self._refusal(name, origins),
        )

    def _refusal(self, name: Identifier, origins: Sequence[PlannedTable]) -> Why | None:
        """Return why the catalog cannot have a table; None if it may."""
        return self._name_refusal(name, origins) or self._location_refusal(name, origins[0])

    def _name_refusal(self, name: Identifier, origins: Sequence[PlannedTable]) -> Why | None:
        origin, able, scope = origins[0].id, self.capabilities, self.desired.scope
        if len(origins) > 1:
            sources = tuple(address(self.mirror.origin, source.id) for source in origins)
            write = self._rename_line(origins[-1].id, name, _with_suffix(name, len(name)))
            return self._why(ReasonCode.SEVERAL_SOURCES, {"names": sources, "write": write})
        for part in name:
            problem = able.name_problem(part)
            if problem is not None:
                write = self._rename_line(origin, name, tuple(map(self._valid_name, name)))
                return self._why(ReasonCode.BAD_NAME, {"name": part, "detail": problem, "write": write})
        problem = able.table_depth_problem(len(name) - 1)
        if problem is not None:
            return self._why(ReasonCode.BAD_DEPTH, {"detail": problem, **self._flattened(origin, name)})
        if name in self.mirror_namespaces:
            return self._why(ReasonCode.NAME_OF_NAMESPACE, self._beside_namespace(origin, name))
        for depth in range(1, len(name)):
            if self._is_own_table(name[:depth]):
                write = self._rename_line(origin, name, _with_suffix(name, depth))
                return self._why(ReasonCode.NAME_OF_TABLE, {"name": "/".join(name[:depth]), "write": write})
        line = self.moves.line_leaving(name)
        if line is not None:
            write = self._rename_line(origin, name, _with_suffix(name, len(line.origin)))
            return self._why(ReasonCode.NAME_MOVED_AWAY, {"line": str(line.source), "write": write})
        if not scope.contains(name):
            detail = ", ".join(scope.patterns)
            return self._why(ReasonCode.OUT_OF_SCOPE, {"leave_out": leave_out(name), "detail": detail})
        return self._stored_name_refusal(origin, name)

    def _stored_name_refusal(self, origin: Identifier, name: Identifier) -> Why | None:
        """Return why a name is refused that the service stores in another form; None if it stores it as it is."""
        depths = range(len(name), 0, -1)
        stored = next(
            ((*self.stored_names[name[:at]], *name[at:]) for at in depths if name[:at] in self.stored_names), None
        )
        if stored is None:
            return None
        depth, write = _first_difference(name, stored), self._rename_line(origin, name, stored)
        params: Params = {"name": "/".join(name[:depth]), "other": "/".join(stored[:depth]), "write": write}
        return self._why(ReasonCode.KEPT_UNDER_ANOTHER_NAME, params, stored)

    def _location_refusal(self, name: Identifier, table: PlannedTable) -> Why | None:
        """Return why a table cannot have the location or properties of its source table; None if it can."""
        origin, params = address(self.mirror.origin, table.id), Params(leave_out=leave_out(name))
        if self.mirror.clones is None:
            if table.location is None:
                return _why_location_awaited(self.mirror.origin, table)
            problem = locations.table_problem(table.location)
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
        kind: Params = {} if self.mirror.clones is None else {"kind": self.mirror.key}
        return Why(code, {"catalog": self.desired.name, **kind, **params}, stored)

    # ---- remedies: lines to write into the manifest

    def _names_line(self, names: Mapping[Identifier, Identifier]) -> str:
        """Return a ``names`` line of the ``mirror`` block; ``names`` has the new names by source name."""
        pairs = (f"{_yaml_scalar('/'.join(origin))}: {_yaml_scalar('/'.join(to))}" for origin, to in names.items())
        return f"names: {{{', '.join(pairs)}}}"

    def _rename_line(self, origin: Identifier, name: Identifier, to: Identifier) -> str:
        """Return the line that renames ``name`` to ``to`` where they first differ."""
        depth, into = _first_difference(name, to), self.mirror.into
        if depth <= len(into):
            names = ", ".join(map(_yaml_scalar, (*to[:depth], *into[depth:])))
            return f"into: [{names}]"
        if (*into, *origin) == self.mirror.name_of(origin):
            return self._names_line({origin[: depth - len(into)]: to[len(into) : depth]})
        return self._names_line({origin: to[len(into) :]})

    def _beside_namespace(self, origin: Identifier, name: Identifier) -> Params:
        """Return a line that renames a table and keeps the names of mirrored objects below its name."""
        into, children = len(self.mirror.into), sorted(self.children.get(origin, ()))
        if len(children) > _MOST_LINES:
            return {"leave_out": leave_out(name)}
        names = {origin: _with_suffix(name, len(name))[into:]}
        return {"write": self._names_line(names | {child: self.mirror.name_of(child)[into:] for child in children})}

    def _is_own_table(self, name: Identifier) -> bool:
        block = self.desired.tables.get(name) if self.capabilities.one_name_space else None
        return block is not None and not block.absent

    def _valid_name(self, name: str) -> str:
        """Return a valid form of ``name``, or a placeholder if there is none."""
        if self.capabilities.name_problem(name) is None:
            return name
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        candidate = re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_")
        return candidate if self.capabilities.name_problem(candidate) is None else "new_name"

    def _flattened(self, origin: Identifier, name: Identifier) -> Params:
        """Return a line that flattens a name which is too deep; empty for one that is not deep enough."""
        most, into = self.capabilities.table_depths[1], len(self.mirror.into)
        if most is None or len(name) - 1 < most:
            return {}
        room, inside = most - into, name[into:]
        if room < 1:
            return {"write": self._names_line({origin: ("_".join(inside),)})}
        flat = (*inside[: room - 1], "_".join(inside[room - 1 : -1]))
        is_renamed = (*self.mirror.into, *origin) != self.mirror.name_of(origin)
        return {"write": self._names_line({origin: (*flat, inside[-1])} if is_renamed else {origin[:-1]: flat})}


def _first_difference(name: Identifier, other: Identifier) -> int:
    """Return the depth at which two names differ; the full depth if they are equal."""
    return next((depth for depth in range(1, len(name)) if name[:depth] != other[:depth]), len(name))


def _with_suffix(name: Identifier, depth: int) -> Identifier:
    """Return ``name`` with ``_2`` appended to its part at ``depth``."""
    return (*name[: depth - 1], f"{name[depth - 1]}_2", *name[depth:])


def leave_out(name: Identifier) -> str:
    """Return the lines of a manifest that exclude a table from a mirror."""
    block = f"tables: {{{_yaml_scalar(name[-1])}: {{absent: true}}}}"
    for namespace in reversed(name[:-1]):
        block = f"namespaces: {{{_yaml_scalar(namespace)}: {{{block}}}}}"
    return block


def _yaml_scalar(text: str) -> str:
    """Return ``text`` as YAML in flow style, quoted if it must be."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
