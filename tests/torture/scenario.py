"""What one run is about, drawn from a seed: what is on the server before, a manifest, and an edit of it."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from tests.torture.others import Act, draw_acts, draw_amid, draw_meanwhile
from tests.torture.targets.base import OWNER, Abilities, Path_

__all__ = ["Existing", "Scenario", "Table", "Wanted", "draw"]

_TABLES = ("users", "events", "clicks", "orders", "items", "visits")
_TIERS = ("gold", "silver", "bronze")
_SCHEMAS = 2
_TAGS: Sequence[Mapping[str, int]] = ({}, {"prod": 1}, {"prod": 2}, {"prod": 1, "old": 1}, {"prod": 2, "old": 1})
_THEIRS = {"owner": "somebody"}
_LEFT: Mapping[Path_, Mapping[str, str]] = {("theirs",): _THEIRS, ("theirs", "old"): {}, ("theirs", "later"): {}}
"""What is in the catalogs of older releases."""


@dataclass(frozen=True)
class Existing:
    """An object that others have made: a namespace, a Lance table, or a foreign one.

    The data of one that is ``gone`` is not there, one that is ``broken`` has a location that nobody can open, and one
    that is ``old`` came with the catalog of a pylance ``release``, which is the first object of all.
    """

    kind: str
    path: Path_
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table of the manifest: its data is written by lancens, is there already, or comes later."""

    kind: str
    properties: Mapping[str, str] = field(default_factory=dict)
    columns: int = 0
    moved: bool = False
    """Whether it is at the other of its two places."""
    home: Path_ | None = None
    """The path that it had when it got its place, if it was renamed since."""
    evolves: bool = False
    """Whether its block has a column more than its data."""
    differs: bool = False
    """Whether its block contradicts its data, so that it is blocked."""
    tags: Mapping[str, int] = field(default_factory=dict)
    """The versions of its data that its block names."""
    protect: bool | None = None
    renames: bool = False
    """Whether a column of its data has another name than at first."""


@dataclass
class Wanted:
    """A manifest: claimed namespaces with their properties, None for those that are only paths; and tables.

    ``moves`` are its renames, the old name by the new one. ``defaults`` are properties of every table, and ``policy``
    is what `watched` is to be on the tables of others in `theirs`; empty: there is no policy. ``spaces`` are renames of
    namespaces, each of whose tables is in ``moves``; ``globs``: lines with a star stand for moves within a namespace.
    ``absent`` are the tables that must go, whoever made them, and ``upkeep`` says whether `maintain` has work.
    """

    namespaces: dict[Path_, Mapping[str, str] | None] = field(default_factory=dict)
    tables: dict[Path_, Table] = field(default_factory=dict)
    prune: str = "owned"
    defaults: Mapping[str, str] = field(default_factory=dict)
    moves: dict[Path_, Path_] = field(default_factory=dict)
    policy: str = ""
    spaces: dict[Path_, Path_] = field(default_factory=dict)
    globs: bool = False
    absent: set[Path_] = field(default_factory=set)
    upkeep: bool = False

    def properties_of(self, path: Path_) -> dict[str, str]:
        """Return the properties that a table is to have."""
        return {**self.defaults, **self.tables[path].properties}

    def is_marked(self, path: Path_) -> bool:
        """Return whether a table gets the marks of its manifest, even if its properties are as they are to be."""
        table = self.tables[path]
        return bool(path in self.moves or table.protect or table.tags or table.evolves or table.renames)

    @property
    def blocked(self) -> frozenset[Path_]:
        """The tables that cannot be planned."""
        return frozenset(path for path, table in self.tables.items() if table.differs)


@dataclass(frozen=True)
class Scenario:
    """What is there before, the manifest and the manifest as it is edited then.

    ``second`` is what the same manifests say of a second catalog: nothing, "mirror", or a list of its own.
    ``between`` is what others do between the two, ``meanwhile`` what they do while each is applied. There
    may be a third manifest, an edit of the second one.
    """

    bare: bool
    """Whether lancens makes what stands above as well."""
    before: Sequence[Existing]
    manifests: Sequence[Wanted]
    second: Sequence[Wanted] = ()
    mirrors: bool = False
    between: Sequence[Act] = ()
    meanwhile: Sequence[Sequence[Act]] = ((), ())
    amid: Sequence[Act] = ()
    """What others do to tables of the second manifest while it is applied, each right before a write of lancens."""

    @property
    def is_tagged(self) -> bool:
        """Whether a table of a manifest has tags."""
        return any(table.tags for wanted in self.manifests for table in wanted.tables.values())

    @property
    def holds(self) -> set[str]:
        """Those of ``tally.DRAWN`` that it has."""
        wanted = (*self.manifests, *self.second)
        found = {
            "second catalog": bool(self.second),
            "mirror": self.mirrors,
            "moved": any(one.moves for one in wanted),
            "defaults": any(one.defaults for one in wanted),
            "evolve": any(table.evolves for one in wanted for table in one.tables.values()),
            "blocked": any(one.blocked for one in wanted),
            "policies": any(one.policy for one in wanted),
            "tags": self.is_tagged,
            "maintain": any(one.upkeep for one in wanted),
            "own edited amid": bool(self.amid),
            **{f"{kind} entry": any(one.kind == kind for one in self.before) for kind in ("gone", "broken", "old")},
        }
        return {what for what, has in found.items() if has} | {f"prune {self.manifests[0].prune}"}


def draw(dice: random.Random, able: Abilities, second: Abilities | None = None, *, more: bool = False) -> Scenario:
    """Draw a run; ``second`` is what the other catalog can hold, if there is one.

    With ``more``, there are three manifests and every kind of edit.
    """
    bare = dice.random() < 0.4
    first = _first(dice, able, ("a", "b"))
    first.prune = dice.choice(("owned", "owned", "owned", "never", "all"))
    before = [] if bare else _before(dice, able, first)
    if more and able.updates:
        first.tables |= {
            path: replace(table, protect=True) for path, table in first.tables.items() if dice.random() < 0.15
        }
    edited = _edited(dice, able, first, before=before if more else None)
    others: Sequence[Wanted] = ()
    mirrors = False
    match dice.choice(("none", "mirror", "own")) if second else "none":
        case "mirror":
            mirrors = able.known_places
        case "own" if second is not None:
            own = _first(dice, second, ("x", "y"))
            others = (own, _edited(dice, second, own, "z"))
    between = draw_acts(dice, able, first, edited, bare=bare)
    meanwhile = [draw_meanwhile(dice, first.prune, phase, bare=bare, mirrored=mirrors) for phase in range(2)]
    if able.updates and dice.random() < 0.4:
        first.policy, edited.policy = (dice.choice(("", "daily", "weekly")) for _ in range(2))
        meanwhile = [[act for act in acts if act.path[:1] != ("theirs",)] for acts in meanwhile]
    if able.updates and able.registers:
        between += _draw_tags(dice, first, edited, {act.path for act in between if act.what.startswith("rem")})
    if not more:
        amid = draw_amid(dice, able, first, edited, {act.path for act in between if act.what == "remove"})
        before = _odd(dice, able, before, mirrored=mirrors)
        first.upkeep = edited.upkeep = dice.random() < 0.3
        return Scenario(bare, before, (first, edited), others, mirrors, between, meanwhile, amid)
    if others and second is not None:
        others = (*others, _edited(dice, second, others[-1], "w", before=()))
    last = _edited(dice, able, edited, "d", before=before)
    return Scenario(bare, before, (first, edited, last), others, mirrors, between, (*meanwhile, ()))


def _draw_tags(dice: random.Random, first: Wanted, edited: Wanted, changed: Collection[Path_]) -> list[Act]:
    """Draw tags of the tables whose data is there before, and what others tag; not of entries that others make anew."""
    acts: list[Act] = []
    for path, table in first.tables.items():
        if table.kind != "register" or path in changed:
            continue
        first.tables[path] = replace(table, tags=dice.choice(_TAGS))
        now = next((one for one, later in edited.tables.items() if one == path or later.home == path), None)
        if now is not None and edited.tables[now].kind == "register":
            edited.tables[now] = replace(edited.tables[now], tags=dice.choice(_TAGS))
        if dice.random() < 0.8:
            acts.append(Act("label", properties={"place": "-".join(path)}))
    return acts


def _first(dice: random.Random, able: Abilities, names: Sequence[str]) -> Wanted:
    made = Wanted(defaults={"steward": dice.choice(("ml", "ads"))} if dice.random() < 0.3 else {})
    spaces: list[Path_] = [(names[0],), *([(names[1],)] if dice.random() < 0.8 else ())]
    if able.depth > 1:
        spaces += [(names[0], "eu")] if dice.random() < 0.7 else []
    for space in spaces:
        made.namespaces[space] = {"team": dice.choice(("ml", "ads"))} if dice.random() < 0.6 else None
        for name in dice.sample(_TABLES, dice.randrange(1, 4)):
            made.tables[*space, name] = _table(dice, able)
    if able.root_tables and dice.random() < 0.4:
        # Two catalogs of one root have the same default location for a name directly in the root.
        made.tables["loose" if names[0] == "a" else "free",] = Table("create", _properties(dice))
    return made


def _table(dice: random.Random, able: Abilities) -> Table:
    kinds = ("create", "declare", "register") if able.registers else ("create", "declare")
    return Table(dice.choice(kinds), _properties(dice), dice.randrange(_SCHEMAS))


def _properties(dice: random.Random) -> dict[str, str]:
    return {key: dice.choice(_TIERS) for key in ("tier", "note") if dice.random() < 0.5}


def _changed(dice: random.Random, properties: Mapping[str, str]) -> dict[str, str]:
    """Draw other properties, of which one is removed where there are any."""
    drawn, removed = _properties(dice), max(properties, default="")
    return {key: value for key, value in drawn.items() if key != removed}


def _before(dice: random.Random, able: Abilities, wanted: Wanted) -> list[Existing]:
    """Draw what others have: of it, only ``stale`` is the manifest's to remove, and ``known`` to change."""
    found = [Existing("namespace", ("theirs",), _THEIRS), Existing("lance", ("theirs", "data"), _THEIRS)]
    if dice.random() < 0.6:
        found.append(Existing("namespace", ("a",), _THEIRS))
        if not able.updates_namespaces:
            wanted.namespaces["a",] = None
        others = {"lancens.managed-by": "another/lake", "lancens.keys": '["tier"]', "tier": "theirs"}
        ours = {"lancens.managed-by": OWNER, "lancens.keys": "[]"}
        found += [Existing("lance", ("a", name), {}) for name in ("unowned",) if dice.random() < 0.5]
        if wanted.prune != "all":  # which another manifest's object blocks
            found += [Existing("lance", ("a", name), others) for name in ("another",) if dice.random() < 0.5]
        found += [Existing("lance", ("a", name), ours) for name in ("stale",) if dice.random() < 0.5]
        if able.foreign and dice.random() < 0.5:
            found.append(Existing("foreign", ("a", "foreign")))
        if able.updates and dice.random() < 0.5:
            found.append(Existing("lance", ("a", "known"), {"theirs": "yes"}))
            wanted.tables["a", "known"] = Table("known", {"tier": "gold"})
    return found


def _odd(dice: random.Random, able: Abilities, before: Sequence[Existing], *, mirrored: bool) -> list[Existing]:
    """Draw what else others have: entries without data or place, and what an older pylance has left.

    A mirror rightly refuses those without a place.
    """
    odd = list(before)
    if not odd:
        return odd
    if able.registers and dice.random() < 0.4:
        odd.append(Existing("gone", ("theirs", "gone")))
    if able.breaks and not mirrored and dice.random() < 0.4:
        odd.append(Existing("broken", ("theirs", "broken")))
    if able.releases and dice.random() < 0.5:
        left = [Existing("old", path, properties) for path, properties in _LEFT.items()]
        odd = [
            Existing("release", (dice.choice(able.releases),)),
            *left,
            *(one for one in odd if one.path not in _LEFT),
        ]
    return odd


def _edited(
    dice: random.Random, able: Abilities, first: Wanted, new: str = "c", before: Sequence[Existing] | None = None
) -> Wanted:
    """Draw an edit: properties that change or go, tables that come, go or are elsewhere, namespaces.

    With ``before``, which others made, there is every kind of edit.
    """
    made = deepcopy(first)
    if first.spaces or dice.random() < 0.5:  # lines that have been carried out may stay
        made.moves, made.spaces = {}, {}
    for path, table in first.tables.items():
        taken = {*first.tables, *made.tables, *made.absent}
        _edit_table(dice, able, made, path, table, _EVERY_EDIT if before is not None else _EDITS, taken)
    if able.updates and dice.random() < 0.2:
        made.defaults = {"steward": dice.choice(("ml", "search"))}
    for space, properties in first.namespaces.items():
        if able.updates_namespaces and properties is not None and dice.random() < 0.4:
            made.namespaces[space] = {"team": dice.choice(("ml", "ads", "search"))}
    last = next((space for space in (("b",), ("y",)) if space in made.namespaces), None)
    if last is not None and dice.random() < 0.4:
        del made.namespaces[last]
        made.tables = {path: table for path, table in made.tables.items() if path[:1] != last}
        made.absent = {path for path in made.absent if path[:1] != last}
    elif last is not None and before is not None and dice.random() < 0.4:
        _move_space(first, made, last)
    made.moves = {path: origin for path, origin in made.moves.items() if path in made.tables}
    if dice.random() < 0.5:
        made.namespaces[new,] = None
        made.tables[new, "fresh"] = _table(dice, able)
    if before is not None:
        made.globs = dice.random() < 0.5
        made.absent |= {one.path for one in before if one.path[-1] in ("unowned", "stale") and dice.random() < 0.3}
    return made


def _move_space(first: Wanted, made: Wanted, old: Path_) -> None:
    """Rename a namespace with its tables, where nothing is in the way."""
    in_it = [path for path in {*first.tables, *made.tables} if path[:1] == old]
    protected = any(wanted.tables[path].protect for wanted in (first, made) for path in in_it if path in wanted.tables)
    if protected or made.prune == "never" or any(path[:1] == old for path in made.absent):
        return
    new = (f"moved_{old[0]}",)
    made.spaces[new], made.namespaces[new] = old, made.namespaces.pop(old)
    for path in in_it:
        if path in made.tables:
            table, to = made.tables.pop(path), (*new, *path[1:])
            before = made.moves.pop(path, path)
            origin = before if before in first.tables else path  # a line that has been carried out may have stayed
            moved = first.tables[origin].moved if origin in first.tables else table.moved  # not both in one plan
            made.tables[to] = replace(table, home=table.home or origin, differs=False, moved=moved)
            if origin in first.tables:
                made.moves[to] = origin


_EDITS = ("stays", "goes", "goes", "changes", "changes", "changes", "moves", "renames", "evolves", "differs")
_EVERY_EDIT = (*_EDITS, "is absent", "is protected", "is not protected", "renames a column")


def _edit_table(  # noqa: C901 - a case for each edit
    dice: random.Random,
    able: Abilities,
    made: Wanted,
    path: Path_,
    table: Table,
    edits: Sequence[str],
    taken: set[Path_],
) -> None:
    if table.differs:  # it is mended, or stays as it is
        made.tables[path] = replace(table, differs=dice.random() < 0.5)
        return
    match dice.choice(edits):
        case "goes":
            del made.tables[path]
        case "changes" if able.updates:
            made.tables[path] = replace(table, properties=_changed(dice, table.properties))
        case "moves" if able.relocates and table.kind == "register":
            made.tables[path] = replace(table, moved=True)
        case "renames" if table.kind != "known" and len(path) > 1:
            to = (*path[:-1], f"{path[-1]}_new") if dice.random() < 0.6 else ("a", f"{path[-1]}_came")
            if to[:-1] in made.namespaces and to not in taken:
                del made.tables[path]
                protect = None if table.protect is None else False
                made.tables[to] = replace(table, home=table.home or path, protect=protect)
                made.moves[to] = path
        case "evolves" if table.kind == "create":
            made.tables[path] = replace(table, evolves=True)
        case "differs" if table.kind in ("create", "register"):
            made.tables[path] = replace(table, differs=True)
        case "is absent" if not table.protect and len(path) > 1:
            del made.tables[path]
            made.absent.add(path)
        case "is protected" if able.updates:
            made.tables[path] = replace(table, protect=True)
        case "is not protected" if able.updates:
            made.tables[path] = replace(table, protect=False)
        case "renames a column" if table.kind == "create" and table.columns:
            made.tables[path] = replace(table, renames=True)
