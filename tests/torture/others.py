"""What other clients do to a room beside lancens: to entries, with the server's own clients, and to datasets."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.torture.targets.base import Abilities, Path_, Room, Target

if TYPE_CHECKING:
    from tests.torture.scenario import Wanted

__all__ = ["LABEL", "Act", "do", "draw_acts", "draw_amid", "draw_meanwhile"]

LABEL = "theirs"
"""The tag that others set."""


@dataclass(frozen=True)
class Act:
    """One thing that somebody else does; ``what`` is one of ``_DEEDS``."""

    what: str
    path: Path_ = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def draw_acts(dice: random.Random, able: Abilities, first: Wanted, edited: Wanted, *, bare: bool) -> list[Act]:
    """Draw what happens between two manifests: to their tables as well."""
    acts: list[Act] = []
    renamed = set(edited.moves.values())
    for path, table in first.tables.items():
        properties = first.properties_of(path)
        stays = path in edited.tables and not edited.tables[path].differs and path not in renamed
        is_named = able.registers and (table.kind == "register" or (able.names_locations and table.kind != "known"))
        acts.append(Act("describe", path))
        match dice.choice(("", "", "", "tag", "drift", "remove", "remake")):
            case "tag" if able.updates:
                acts.append(Act("change", path, {"seen-by": "spark"}))
            case "drift" if able.updates and properties:
                acts.append(Act("change", path, {min(properties): "drifted"}))
            case "remove" if stays and is_named and not edited.tables[path].evolves:  # a new entry does not evolve data
                acts.append(Act("remove", path))
            case "remake" if stays and is_named and able.updates:
                acts.append(Act("remake", path))
    if bare:
        acts += [Act("space", ("theirs",), {"owner": "else"})]
    else:
        acts += [Act("write", ("theirs", "data"), {"by": dice.choice(("pylance", "lancedb"))})]
    if bare or first.prune != "all":
        acts += [Act("add", ("theirs", "more"), {"owner": "else"})]
    return [*acts, Act("compact")]


def draw_meanwhile(dice: random.Random, prune: str, phase: int, *, bare: bool, mirrored: bool) -> list[Act]:
    """Draw what happens while a manifest is applied: to what is not the manifest's, so that its plan holds."""
    acts = [Act("compact")] if dice.random() < 0.5 else []
    if bare or prune == "all":
        return acts
    if not mirrored:
        acts += [Act("add", ("theirs", f"late{phase}"), {"owner": "else"})]
        if phase:
            acts += [Act("add", ("a", "latecomer"))]
    return [*acts, Act("tag", ("theirs", "data"), {f"seen-{phase}": "yes"})]


def draw_amid(
    dice: random.Random, able: Abilities, first: Wanted, edited: Wanted, without: Collection[Path_]
) -> list[Act]:
    """Draw what happens to tables of a manifest while it is applied, of those that it has had and does not rename."""
    acts: list[Act] = []
    stay = first.tables.keys() & edited.tables.keys() - {*edited.moves, *edited.moves.values(), *without}
    for path in sorted(stay if able.updates else ()):
        table, before = edited.tables[path], first.tables[path]
        if table.differs or before.differs or dice.random() < 0.5:
            continue
        is_named = table.kind == "register" or (able.names_locations and table.kind != "known")
        # What was tagged is no longer known from an entry that is another, or elsewhere.
        is_named = is_named and not (table.evolves or table.tags or before.tags)
        managed = first.properties_of(path).keys() & edited.properties_of(path).keys()
        match dice.choice(("note", "drift", "remake", "point")):
            case "note":
                acts.append(Act("note", path, {"seen-amid": "spark"}))
            case "drift" if managed:
                acts.append(Act("change", path, {min(managed): "drifted"}))
            case "remake" if able.registers and is_named:
                acts.append(Act("remake", path))
            case "point" if is_named and table.kind != "declare":  # one without data cannot be relocated back
                acts.append(Act("point", path))
    return acts


def do(target: Target, room: Room, act: Act) -> None:  # noqa: C901 - a case for each deed
    """Carry it out, past lancens."""
    match act.what:
        case "change" | "tag" | "note" if target.abilities.updates:
            target.change(room, act.path, act.properties)
        case "point" if target.can_be_pointed:
            target.point(room, act.path, f"{target.place_of(room, act.path)}-elsewhere")
        case "describe":
            target.describe(room, act.path)
        case "space":
            target.add_namespace(room, act.path, act.properties)
        case "add":
            location = target.write_dataset(room, "-".join(act.path), 2)
            target.add_lance(room, act.path, location, act.properties)
        case "remove":
            target.remove(room, act.path)
        case "remake":
            location = target.place_of(room, act.path).removeprefix("file://").removeprefix("file:")
            target.remove(room, act.path)
            target.add_lance(room, act.path, location, act.properties)
        case "write":
            target.append(room, "-".join(act.path), act.properties["by"])
        case "label":
            target.label(room, act.properties["place"], LABEL)
        case "compact":
            target.compact(room)


def touched(target: Target, room: Room, acts: Sequence[Act]) -> set[str]:
    """Return the keys of the state that ``acts`` change."""
    kinds = {"space": "namespace"}
    return {f"{kinds.get(act.what, 'table')} {'/'.join(target.identifier(room, act.path))}" for act in acts if act.path}
