"""What a mirror asks for: the tables that the plan of another catalog leaves live, as desired state.

A catalog is planned after the one that it mirrors, and the tables it is to have from there are compared like those with
a block. Names and places that it cannot take are refused here, with what to write.
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
class Remaining:
    """A table that the plan of a catalog leaves live, or would leave if it could.

    ``location`` is None where only apply tells it. ``properties`` are those that a mirror takes over. ``written`` is
    what storage will hold where it holds nothing yet. ``waits``: the plan could not settle what becomes of the table.
    """

    id: Identifier
    location: str | None
    properties: Mapping[str, str] = field(default_factory=dict)
    written: Storage | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Remains:
    """What the plan of a catalog leaves: its tables, and those that it takes away."""

    tables: Mapping[Identifier, Remaining] = field(default_factory=dict)
    gone: frozenset[Identifier] = frozenset()


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What a catalog is to have by its mirror.

    ``desired`` is that and its own blocks together. ``written`` are the tables whose data the source's plan writes.
    ``origins`` names what a name follows where its block does not say it: several that come to one name, and what goes
    in the source. ``held`` are the names that wait with what the source's plan could not settle. ``tables`` counts what
    the source keeps, ``own`` the objects that the manifest names.
    """

    desired: DesiredCatalog
    written: Mapping[Identifier, Storage]
    origins: Mapping[Identifier, tuple[Identifier, ...]]
    held: frozenset[Identifier]
    tables: int
    own: int

    def origins_of(self, table: Identifier) -> tuple[Identifier, ...]:
        """Return the tables of the source by which it is decided what becomes of a table here; none of its own."""
        block = self.desired.tables.get(table)
        if table in self.origins:
            return self.origins[table]
        return () if block is None or block.mirrors is None else (block.mirrors.identifier,)

    def witnesses(self, namespaces: Iterable[Identifier]) -> Iterator[Identifier]:
        """Yield one table below each of ``namespaces`` that only the mirror asks for: it is why that is wanted."""
        blocks = self.desired.namespaces
        asked = {name for name in namespaces if (block := blocks.get(name)) is not None and block.mirrored}
        if not asked:
            return
        for identifier, table in sorted(self.desired.tables.items()):
            above = {identifier[:depth] for depth in range(1, len(identifier))} & asked
            if above and table.mirrors is not None and table.refused is None:
                asked -= above
                yield identifier


def waves(catalogs: Mapping[str, DesiredCatalog]) -> Iterator[list[str]]:
    """Yield the names of ``catalogs`` in groups, each after those that its members mirror.

    Raises:
        graphlib.CycleError: they mirror each other; no manifest with such catalogs is loaded.
    """
    sorter = TopologicalSorter(
        {name: {one.mirror.origin} & catalogs.keys() if one.mirror else () for name, one in catalogs.items()}
    )
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield ready
        sorter.done(*ready)


def with_sources(catalogs: Mapping[str, DesiredCatalog], names: Iterable[str]) -> frozenset[str]:
    """Return ``names`` and all catalogs that those mirror, one by the other."""
    found: set[str] = set()
    for name in names:
        one: str | None = name
        while one is not None and one in catalogs and one not in found:
            found.add(one)
            mirror = catalogs[one].mirror
            one = mirror.origin if mirror is not None else None
    return frozenset(found)


def mirrored(
    desired: DesiredCatalog,
    mirror: DesiredMirror,
    capabilities: Capabilities,
    remains: Remains,
    kept: Mapping[Identifier, Identifier] = NOTHING_KEPT,
) -> Mirrored:
    """Return what ``desired`` is to have beside its own blocks, which win, namespaces that are absent included.

    Args:
        desired: the catalog, as its own blocks say it.
        mirror: its mirror.
        capabilities: what the catalog is able to do.
        remains: what the plan of the source leaves.
        kept: the names that the service keeps, by those that it was asked for and does not.
    """
    following = _Following(desired, mirror, capabilities, kept, moves_of(desired))
    named: defaultdict[Identifier, list[Remaining]] = defaultdict(list)
    chosen = [remains.tables[key] for key in sorted(remains.tables) if mirror.select.contains(key)]
    for one in chosen:
        name = following.name_of(one.id)
        if not following.has_own(name):
            named[name].append(one)
    if capabilities.one_name_space:
        above = {name[:depth] for name in named for depth in range(1, len(name))}
        children: defaultdict[Identifier, set[Identifier]] = defaultdict(set)
        for one in chosen:
            for depth in range(1, len(one.id)):
                children[one.id[:depth]].add(one.id[: depth + 1])
        own = {name for name, block in desired.namespaces.items() if not block.absent}
        following = replace(following, spaces=above | own, children=children)
    tables, namespaces = dict(desired.tables), dict(desired.namespaces)
    for name in sorted(named):
        table = tables[name] = following.table(name, named[name])
        if table.refused is None:
            for depth in range(1, len(name)):
                namespaces.setdefault(name[:depth], DesiredNamespace(name[:depth], mirror.source, mirrored=True))
    goes = {following.name_of(identifier): (identifier,) for identifier in remains.gone}
    several = {name: tuple(sorted(one.id for one in ones)) for name, ones in named.items() if len(ones) > 1}
    return Mirrored(
        replace(desired, tables=tables, namespaces=namespaces),
        {name: ones[0].written for name, ones in named.items() if ones[0].written is not None},
        {**{name: origin for name, origin in goes.items() if name not in tables}, **several},
        frozenset(name for name, ones in named.items() if any(one.waits for one in ones)),
        len(chosen),
        len(desired.tables) + len(desired.namespaces),
    )


@dataclass(frozen=True, slots=True)
class _Following:
    """One catalog that follows another.

    Where its tables and namespaces share names, ``spaces`` are the namespaces it is to have, and ``children`` are what
    each namespace of the other one holds of what is followed.
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
        """Return whether the manifest's own blocks say what there is under a name, or that there is nothing."""
        above = (self.desired.namespaces.get(name[:depth]) for depth in range(1, len(name)))
        return name in self.desired.tables or any(block is not None and block.absent for block in above)

    def table(self, name: Identifier, origins: Sequence[Remaining]) -> DesiredTable:
        one, mirror = origins[0], self.mirror
        said = mirror.default_of(name) or DesiredTable(name, mirror.source)
        taken = one.properties if self.capabilities.table_markers else {}
        return replace(
            said,
            id=name,
            source=mirror.source,
            properties={**said.properties, **taken},
            location=one.location,
            mirrors=Origin(mirror.origin, one.id),
            refused=self._fault(name, origins),
        )

    def _fault(self, name: Identifier, origins: Sequence[Remaining]) -> Why | None:
        """Return why the catalog cannot have a table, None where nothing is known that speaks against it."""
        return self._name_fault(name, origins) or self._place_fault(name, origins[0])

    def _name_fault(self, name: Identifier, origins: Sequence[Remaining]) -> Why | None:
        origin, able, scope = origins[0].id, self.capabilities, self.desired.scope
        if len(origins) > 1:
            others = tuple(address(self.mirror.origin, other.id) for other in origins)
            write = self._renaming(origins[-1].id, name, _another(name, len(name)))
            return self._why(ReasonCode.SEVERAL_SOURCES, {"names": others, "write": write})
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
        line = self.moves.line_from(name)
        if line is not None:
            write = self._renaming(origin, name, _another(name, len(line.origin)))
            return self._why(ReasonCode.NAME_MOVED_AWAY, {"line": str(line.source), "write": write})
        if not scope.contains(name):
            detail = ", ".join(scope.patterns)
            return self._why(ReasonCode.OUT_OF_SCOPE, {"leave_out": leave_out(name), "detail": detail})
        return self._kept_fault(origin, name)

    def _kept_fault(self, origin: Identifier, name: Identifier) -> Why | None:
        """Return that the service has a table, or what it is in, under another name; None where it has not."""
        depths = range(len(name), 0, -1)
        kept = next(((*self.kept[name[:at]], *name[at:]) for at in depths if name[:at] in self.kept), None)
        if kept is None:
            return None
        depth, write = _first_difference(name, kept), self._renaming(origin, name, kept)
        params: Params = {"name": "/".join(name[:depth]), "other": "/".join(kept[:depth]), "write": write}
        return self._why(ReasonCode.KEPT_UNDER_ANOTHER_NAME, params, kept)

    def _place_fault(self, name: Identifier, one: Remaining) -> Why | None:
        """Return why a table cannot be at the location of its source, or have the properties of it."""
        origin = address(self.mirror.origin, one.id)
        if one.location is None:
            code = ReasonCode.SOURCE_BLOCKED if one.waits else ReasonCode.SOURCE_NOT_READY
            return Why(code, {"name": origin, "other": self.mirror.origin})
        params: Params = {"leave_out": leave_out(name)}
        problem = locations.check(one.location)
        if problem is not None:
            return self._why(ReasonCode.BAD_LOCATION, {**params, "name": origin, "detail": problem})
        if self.capabilities.chooses_locations:
            return self._why(ReasonCode.MIRROR_CANNOT_PLACE, params)
        for key, value in one.properties.items() if self.capabilities.table_markers else ():
            problem = self.capabilities.property_problem(key, value)
            if problem is not None:
                return self._why(ReasonCode.BAD_PROPERTY, {**params, "name": origin, "key": key, "detail": problem})
        return None

    def _why(self, code: ReasonCode, params: Params, kept: Identifier | None = None) -> Why:
        return Why(code, {"catalog": self.desired.name, **params}, kept)

    # ---- what to write

    def _names(self, names: Mapping[Identifier, Identifier]) -> str:
        pairs = (f"{_written('/'.join(origin))}: {_written('/'.join(to))}" for origin, to in names.items())
        return f"names: {{{', '.join(pairs)}}}"

    def _renaming(self, origin: Identifier, name: Identifier, to: Identifier) -> str:
        """Return the line that has what is called ``name`` here called ``to``, where they differ first and below."""
        depth, into = _first_difference(name, to), self.mirror.into
        if depth <= len(into):
            written = ", ".join(map(_written, (*to[:depth], *into[depth:])))
            return f"into: [{written}]"
        if (*into, *origin) == self.mirror.name_of(origin):
            return self._names({origin[: depth - len(into)]: to[len(into) : depth]})
        return self._names({origin: to[len(into) :]})

    def _beside_namespace(self, origin: Identifier, name: Identifier) -> Params:
        """Return the line that gives a table another name than a namespace, and what that line catches its own."""
        into, caught = len(self.mirror.into), sorted(self.children.get(origin, ()))
        if len(caught) > _MOST_WRITTEN:
            return {"leave_out": leave_out(name)}
        names = {origin: _another(name, len(name))[into:]}
        return {"write": self._names(names | {child: self.mirror.name_of(child)[into:] for child in caught})}

    def _is_own_table(self, name: Identifier) -> bool:
        block = self.desired.tables.get(name) if self.capabilities.one_name_space else None
        return block is not None and not block.absent

    def _good(self, name: str) -> str:
        """Return ``name`` as the catalog can hold it, or a word for one that somebody has to think of."""
        if self.capabilities.name_problem(name) is None:
            return name
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        made = re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_")
        return made if self.capabilities.name_problem(made) is None else "new_name"

    def _good_depth(self, origin: Identifier, name: Identifier) -> Params:
        """Return the line that puts a table below fewer namespaces; nothing where it is to be below more."""
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
    """Return how many parts of two names tell them apart; all of them where they are equal."""
    return next((depth for depth in range(1, len(name)) if name[:depth] != other[:depth]), len(name))


def _another(name: Identifier, depth: int) -> Identifier:
    """Return ``name`` with another one for the namespace or table that its first ``depth`` parts name."""
    return (*name[: depth - 1], f"{name[depth - 1]}_2", *name[depth:])


def leave_out(name: Identifier) -> str:
    """Return the block by which a catalog is without a table that its mirror asks for."""
    block = f"tables: {{{_written(name[-1])}: {{absent: true}}}}"
    for namespace in reversed(name[:-1]):
        block = f"namespaces: {{{_written(namespace)}: {{{block}}}}}"
    return block


def _written(text: str) -> str:
    """Return ``text`` as YAML takes it in brackets."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
