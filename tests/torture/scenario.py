"""What one run is about, drawn from a seed: what is on the server before, a manifest, and an edit of it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.targets.base import OWNER, Abilities, Path_, Room, Target

__all__ = ["Existing", "Scenario", "draw", "set_up", "write_manifest"]

_TABLES = ("users", "events", "clicks", "orders", "items", "visits")
_TIERS = ("gold", "silver", "bronze")
_COLUMNS = (
    [{"name": "id", "type": "int64"}],
    [{"name": "id", "type": "int64", "nullable": False}, {"name": "embedding", "type": "fixed_size_list<float32>[4]"}],
)
_THEIRS = {"owner": "somebody"}


@dataclass(frozen=True)
class Existing:
    """An object that others have made: a namespace, a Lance table, or a foreign one."""

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


@dataclass
class Wanted:
    """A manifest: claimed namespaces with their properties, None for those that are only paths; and tables."""

    namespaces: dict[Path_, Mapping[str, str] | None] = field(default_factory=dict)
    tables: dict[Path_, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """What is there before, the manifest and the manifest as it is edited then."""

    bare: bool
    """Whether lancens makes what stands above as well."""
    before: Sequence[Existing]
    manifests: Sequence[Wanted]


def draw(dice: random.Random, able: Abilities) -> Scenario:
    """Draw a run."""
    bare = dice.random() < 0.4
    first = Wanted()
    spaces: list[Path_] = [("a",), *([("b",)] if dice.random() < 0.8 else ())]
    if able.depth > 1:
        spaces += [("a", "eu")] if dice.random() < 0.7 else []
    for space in spaces:
        first.namespaces[space] = {"team": dice.choice(("ml", "ads"))} if dice.random() < 0.6 else None
        for name in dice.sample(_TABLES, dice.randrange(1, 4)):
            first.tables[*space, name] = _table(dice, able)
    if able.root_tables and dice.random() < 0.4:
        first.tables["loose",] = Table("create", _properties(dice))
    before = [] if bare else _before(dice, able, first)
    return Scenario(bare, before, (first, _edited(dice, able, first)))


def _table(dice: random.Random, able: Abilities) -> Table:
    kinds = ("create", "declare", "register") if able.registers else ("create", "declare")
    return Table(dice.choice(kinds), _properties(dice), dice.randrange(len(_COLUMNS)))


def _properties(dice: random.Random) -> dict[str, str]:
    return {key: dice.choice(_TIERS) for key in ("tier", "note") if dice.random() < 0.5}


def _before(dice: random.Random, able: Abilities, wanted: Wanted) -> list[Existing]:
    """Draw what others have: of it, only ``stale`` is the manifest's to remove, and ``known`` to change."""
    found = [Existing("namespace", ("theirs",), _THEIRS), Existing("lance", ("theirs", "data"), _THEIRS)]
    if dice.random() < 0.6:
        found.append(Existing("namespace", ("a",), _THEIRS))
        others = {"lancens.managed-by": "another/lake", "lancens.keys": '["tier"]', "tier": "theirs"}
        ours = {"lancens.managed-by": OWNER, "lancens.keys": "[]"}
        found += [Existing("lance", ("a", name), {}) for name in ("unowned",) if dice.random() < 0.5]
        found += [Existing("lance", ("a", name), others) for name in ("another",) if dice.random() < 0.5]
        found += [Existing("lance", ("a", name), ours) for name in ("stale",) if dice.random() < 0.5]
        if able.foreign and dice.random() < 0.5:
            found.append(Existing("foreign", ("a", "foreign")))
        if able.updates and dice.random() < 0.5:
            found.append(Existing("lance", ("a", "known"), {"theirs": "yes"}))
            wanted.tables["a", "known"] = Table("known", {"tier": "gold"})
    return found


def _edited(dice: random.Random, able: Abilities, first: Wanted) -> Wanted:
    """Draw an edit: properties that change or go, tables that come, go or are elsewhere, a namespace less or more."""
    made = deepcopy(first)
    for path, table in first.tables.items():
        match dice.choice(("stays", "stays", "goes", "changes", "moves")):
            case "goes":
                del made.tables[path]
            case "changes" if able.updates:
                made.tables[path] = Table(table.kind, _properties(dice), table.columns)
            case "moves" if able.relocates and table.kind == "register":
                made.tables[path] = Table(table.kind, table.properties, table.columns, moved=True)
    for space, properties in first.namespaces.items():
        if properties is not None and dice.random() < 0.4:
            made.namespaces[space] = {"team": dice.choice(("ml", "ads", "search"))}
    if ("b",) in made.namespaces and dice.random() < 0.4:
        del made.namespaces["b",]
        made.tables = {path: table for path, table in made.tables.items() if path[0] != "b"}
    if dice.random() < 0.5:
        made.namespaces["c",] = None
        made.tables["c", "fresh"] = _table(dice, able)
    return made


# ---- in a room -------------------------------------------------------------------------------------------------------


def set_up(target: Target, room: Room, scenario: Scenario) -> None:
    """Put into a room what is there before: objects, and data."""
    if not scenario.bare or target.impl != "hive3":
        target.prepare(room)
    for existing in scenario.before:
        if existing.kind == "namespace":
            target.add_namespace(room, existing.path, existing.properties)
        elif existing.kind == "foreign":
            target.add_foreign(room, existing.path)
        else:
            location = target.write_dataset(room, "-".join(existing.path), 2)
            target.add_lance(room, existing.path, location, existing.properties)
    for wanted in scenario.manifests:
        for path, table in wanted.tables.items():
            if table.kind == "register":
                target.write_dataset(room, _place(path, table), 5 if table.moved else 3)


def _place(path: Path_, table: Table) -> str:
    return "-".join(path) + ("-moved" if table.moved else "")


def write_manifest(target: Target, room: Room, wanted: Wanted) -> Path:
    """Write a manifest of a scenario for a room, and return where it is."""
    tree: dict[str, Any] = {}
    for path, properties in wanted.namespaces.items():
        block = _block(tree, target.identifier(room, path))
        if properties is not None:
            block["properties"] = dict(properties)
    if not wanted.namespaces and target.above(room):
        _block(tree, target.above(room))
    for path, table in wanted.tables.items():
        *parents, name = target.identifier(room, path)
        _block(tree, tuple(parents)).setdefault("tables", {})[name] = _entry(target, room, path, table)
    catalog = {
        "impl": target.impl,
        "config": target.config(room),
        "scope": list(target.scope(room)),
        **tree,
    }
    name, _, lake = OWNER.partition("/")
    file = room.folder / "lancens.yaml"
    file.write_text(json.dumps({"version": 1, "name": name, "catalogs": {lake: catalog}}, indent=1), "utf-8")
    return file


def _block(tree: dict[str, Any], path: Path_) -> dict[str, Any]:
    for name in path:
        tree = tree.setdefault("namespaces", {}).setdefault(name, {})
    return tree


def _entry(target: Target, room: Room, path: Path_, table: Table) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if table.properties:
        entry["properties"] = dict(table.properties)
    if table.kind == "create":
        entry["schema"] = _COLUMNS[table.columns]
    if table.kind == "register":
        entry["location"] = target.raw_place(room, _place(path, table))
    elif table.kind != "known" and target.abilities.names_locations:
        entry["location"] = target.default_place(room, path)
    return entry
