"""What a scenario is in a room: what is there before, and the manifests as files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.torture.scenario import Existing, Scenario, Table, Wanted
from tests.torture.targets.base import OWNER, Path_, Room, Target

__all__ = ["SECOND", "WATCHED", "columns_of", "location_of", "mirrored_name", "place_name", "set_up", "write_manifest"]

SECOND = "second"
WATCHED = "watched"
"""The property that policies set."""
_COLUMNS: Sequence[Sequence[Mapping[str, Any]]] = (
    [{"name": "id", "type": "int64"}],
    [{"name": "id", "type": "int64", "nullable": False}, {"name": "embedding", "type": "fixed_size_list<float32>[4]"}],
)
_MORE = {"name": "added", "type": "string"}
_RENAMED = {"embedding": {**_COLUMNS[1][1], "name": "vector", "renamed_from": "embedding"}}
_BROKEN = "nowhere://no place/at all"
"""A location that nobody can open."""
_OTHER = [{"name": "id", "type": "string"}]
_UPKEEP = {"compact": {"max_small_fragments": 1}, "indices": {"id": {"type": "BTREE"}}}
_SPACES: tuple[Path_, ...] = (("a",), ("b",), ("c",), ("d",), ("moved_b",), ("a", "eu"), ("theirs",))


def set_up(target: Target, room: Room, scenario: Scenario) -> None:
    """Put into a room what is there before: objects, and data."""
    if not scenario.bare or target.impl != "hive3":
        target.prepare(room)
    for existing in scenario.before:
        _add(target, room, existing)
    for holder, manifests in ((target, scenario.manifests), (target.second, scenario.second)):
        for wanted in manifests:
            for path, table in wanted.tables.items():
                if table.kind == "register" and holder is not None:
                    holder.write_dataset(room, place_name(path, table), 5 if table.moved else 3)


def _add(target: Target, room: Room, existing: Existing) -> None:
    name = "-".join(existing.path)
    match existing.kind:
        case "release":
            target.unpack(room, name)
        case "namespace":
            target.add_namespace(room, existing.path, existing.properties)
        case "foreign":
            target.add_foreign(room, existing.path)
        case "lance":
            target.add_lance(room, existing.path, target.write_dataset(room, name, 2), existing.properties)
        case "gone":
            target.add_lance(room, existing.path, target.raw_place(room, name), existing.properties)
        case "broken":
            target.add_lance(room, existing.path, _BROKEN, existing.properties)


def place_name(path: Path_, table: Table) -> str:
    """Return the name of the dataset that is there before for a table."""
    return "-".join(table.home or path) + ("-moved" if table.moved else "")


def location_of(target: Target, room: Room, path: Path_, table: Table) -> str | None:
    """Return the location that a table's block names, if it names one."""
    if table.kind == "register":
        return target.raw_place(room, place_name(path, table))
    if table.kind != "known" and target.abilities.names_locations:
        return target.default_place(room, table.home or path)
    return None


def columns_of(table: Table) -> list[Mapping[str, Any]]:
    """Return the columns that the data of a created table is to have."""
    columns = [_RENAMED.get(column["name"], column) if table.renames else column for column in _COLUMNS[table.columns]]
    return [*columns, *([_MORE] if table.evolves else [])]


def write_manifest(
    target: Target, room: Room, wanted: Wanted, second: Wanted | None = None, *, mirrors: bool = False
) -> Path:
    """Write a manifest of a scenario for a room, and return where it is."""
    name, _, lake = OWNER.partition("/")
    catalogs = {lake: _catalog(target, room, wanted)}
    if target.second is not None and (mirrors or second is not None):
        other = _catalog(target.second, room, second or Wanted())
        if mirrors:
            other["mirror"] = {"from": lake, "names": _names(target, room)}
        text = json.dumps(other).replace("${var:port}", f"${{var:{SECOND}}}")
        catalogs[SECOND] = json.loads(text)
    file = room.folder / "lancens.yaml"
    file.write_text(json.dumps({"version": 1, "name": name, "catalogs": catalogs}, indent=1), "utf-8")
    return file


def _catalog(target: Target, room: Room, wanted: Wanted) -> dict[str, Any]:
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
    for path in sorted(wanted.absent):
        *parents, name = target.identifier(room, path)
        _block(tree, tuple(parents)).setdefault("tables", {})[name] = {"absent": True}
    moved = [
        {"from": _joined(target, room, origin), "to": _joined(target, room, path)} for path, origin in _lines(wanted)
    ]
    defaults = {
        **({"properties": dict(wanted.defaults)} if wanted.defaults else {}),
        **({"maintain": _UPKEEP} if wanted.upkeep else {}),
    }
    policy = {"match": _joined(target, room, ("theirs", "*")), "properties": {WATCHED: wanted.policy}}
    return {
        "impl": target.impl,
        "config": dict(target.config(room)),
        "scope": list(target.scope(room)),
        "prune": wanted.prune,
        **({"defaults": {"tables": defaults}} if defaults else {}),
        **({"moved": moved} if moved else {}),
        **({"policies": [policy]} if wanted.policy else {}),
        **tree,
    }


def _lines(wanted: Wanted) -> Iterator[tuple[Path_, Path_]]:
    """Yield the new and the old name of each line of ``moved``."""
    yield from wanted.spaces.items()
    stars: set[Path_] = set()
    for path, origin in wanted.moves.items():
        if wanted.spaces.get(path[:-1]) == origin[:-1] and path[-1] == origin[-1]:
            continue
        if wanted.globs and path == (*origin[:-1], f"{origin[-1]}_new"):
            stars.add(path[:-1])
        else:
            yield path, origin
    yield from (((*space, "*_new"), (*space, "*")) for space in sorted(stars))


def _block(tree: dict[str, Any], path: Path_) -> dict[str, Any]:
    for name in path:
        tree = tree.setdefault("namespaces", {}).setdefault(name, {})
    return tree


def _entry(target: Target, room: Room, path: Path_, table: Table) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if table.properties:
        entry["properties"] = dict(table.properties)
    if table.differs:
        entry["schema"] = _OTHER
    elif table.kind == "create":
        entry["schema"] = columns_of(table)
    if table.evolves or table.renames:
        entry["evolve"] = "additive"
    if table.protect is not None:
        entry["protect"] = table.protect
    if table.tags:
        entry["tags"] = dict(table.tags)
    location = location_of(target, room, path, table)
    return entry if location is None else {**entry, "location": location}


# ---- mirrors ---------------------------------------------------------------------------------------------------------


def mirrored_name(room: Room, path: Path_) -> Path_:
    """Return what the second catalog calls the table at ``path`` of the first."""
    return (f"{room.token}_{'_'.join(path[:-1]) or 'root'}", path[-1])


def _names(target: Target, room: Room) -> Mapping[str, str]:
    spaces = [space for space in _SPACES if len(space) <= target.abilities.depth]
    names = {_joined(target, room, space): mirrored_name(room, (*space, ""))[0] for space in spaces}
    if target.abilities.root_tables:
        names[_joined(target, room, ("loose",))] = "/".join(mirrored_name(room, ("loose",)))
    return names


def _joined(target: Target, room: Room, path: Path_) -> str:
    return "/".join(target.identifier(room, path))
