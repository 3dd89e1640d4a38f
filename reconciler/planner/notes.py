"""Make the notes of a plan: remarks, finished ``moved`` lines, likely renames."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from reconciler.model import locations, ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredMove
from reconciler.model.names import Identifier, address
from reconciler.model.reasons import NoteCode, Params
from reconciler.planner.comparison import Outcomes
from reconciler.planner.entries import Action, Change, Note
from reconciler.planner.facts import CatalogInput
from reconciler.planner.outcome import Remark

_NAMESPACES_NAMED = 5
_NAMES_SHOWN = 3
_NAMESPACE, _NAME = slice(0, -1), slice(-1, None)
_WITH_FILE = (NoteCode.KEEP_LOCATION, NoteCode.MIRRORED_BEFORE)
_WITH_PATTERN = (NoteCode.UNMANAGED, *_WITH_FILE)


def notes_on(source: CatalogInput, remarks: Mapping[tuple[NoteCode, Identifier], Remark]) -> Iterator[Note]:
    """Yield the notes of the scan, and one for each topic and namespace of ``remarks``.

    If a topic has remarks in many namespaces, they are one note.
    """
    catalog, owner = source.desired.name, source.desired.owner.partition("/")[0]
    for sentence in (*source.live.notes, *source.facts.notes):
        yield Note(catalog=catalog, code=NoteCode.SCAN, params={"detail": sentence})
    safeguard = source.capabilities.safeguard
    guards: dict[NoteCode, Params] = {}
    if safeguard is not None:
        unsafe: Params = {"key": safeguard.key, "value": safeguard.value, "detail": safeguard.danger}
        hazardous: Params = {"key": safeguard.hazard or "", "detail": safeguard.danger}
        guards = {NoteCode.UNSAFE: unsafe, NoteCode.HAZARDOUS: hazardous}
    for topic, scope, remark in _by_topic(catalog, remarks):
        if topic is NoteCode.KEEP_LOCATION and "${" in source.desired.as_written(remark.identifier):
            continue  # of one environment alone; a line of `moved` with variables, which stays, leads to the data, too
        about: Params = {"where": scope, "count": remark.count, "name": remark.identifier[-1]}
        if topic is NoteCode.UNMANAGED:
            about |= {"owner": owner, "catalog": catalog}
        if topic in _WITH_PATTERN:
            about["value"] = _select_pattern(catalog, scope, remark)
        yield Note(catalog=catalog, code=topic, params={**about, **guards.get(topic, {}), **remark.params})
    protected = sum(1 for table in source.desired.tables.values() if table.protect)
    if protected and not source.capabilities.table_markers:
        yield Note(catalog=catalog, code=NoteCode.UNPROTECTABLE_TABLES, params={"count": protected})


def with_file(note: Note, files: Sequence[str]) -> Note:
    """Return a note that says how to add to the manifest with its first file, which includes the others."""
    if note.code not in _WITH_FILE or not files:
        return note
    return note.model_copy(update={"params": Params(**{**note.params, "file": shlex.quote(files[0])})})


def _select_pattern(catalog: str, scope: str, remark: Remark) -> str:
    """Return the pattern for `--select` of the objects of a remark."""
    namespace = address(catalog, remark.identifier[:-1])
    if scope != namespace:  # several namespaces
        return f"{catalog}/**"
    return address(namespace, (remark.identifier[-1] if remark.count == 1 else "**",))


def _by_topic(
    catalog: str, remarks: Mapping[tuple[NoteCode, Identifier], Remark]
) -> Iterator[tuple[NoteCode, str, Remark]]:
    """Yield each topic with a scope in words and a remark that counts the objects of the scope."""
    for topic in sorted({topic for topic, _ in remarks}):
        keys = sorted(key for key in remarks if key[0] == topic)
        if len(keys) > _NAMESPACES_NAMED:
            total = sum(remarks[key].count for key in keys)
            yield topic, f"{len(keys):,} namespaces of {catalog}", replace(remarks[keys[0]], count=total)
            continue
        for key in keys:
            yield topic, "/".join((catalog, *key[1])), remarks[key]


_Hint: TypeAlias = tuple[NoteCode, Params]


def notes_on_renames(source: CatalogInput, outcomes: Outcomes) -> Iterator[Note]:
    """Yield notes about ``moved`` lines and likely renames.

    Args:
        source: the catalog; its live tables are not read.
        outcomes: those of all its objects.
    """
    catalog, live = source.desired.name, source.live.namespaces
    waiting = {line.source for line in outcomes.moving}
    waiting |= {line.source for line in outcomes.moved if not line.is_table and line.origin in live}
    # An entry of `moved` with stars is several lines: it is done when all of them are.
    yield from _notes_on_lines(
        source, NoteCode.MOVE_DONE, (line for line in outcomes.moved if line.source not in waiting)
    )
    matched, select = {line.source for line in outcomes.moving | outcomes.moved}, source.options.select
    mirror = source.desired.mirror
    names_clones = mirror is not None and mirror.clones is not None  # whether there is an entry of the old name or not
    idle = (
        line
        for line in source.desired.moves
        if line.source not in matched
        and not names_clones
        and (select.contains(line.origin) or select.contains(line.to))
        and (line.is_table or not {line.origin, line.to} & live.keys())
    )
    yield from _notes_on_lines(source, NoteCode.MOVE_MATCHES_NOTHING, idle)
    for line in sorted(outcomes.moving, key=lambda line: line.to):
        namespace = None if line.is_table else live.get(line.origin)
        owner = None if namespace is None else ownership.owner_of(namespace.properties)
        if namespace is not None and not ownership.is_same_owner(owner, source.desired.owner):
            params: Params = {"name": address(catalog, line.origin)}
            yield Note(catalog=catalog, code=NoteCode.MOVE_LEAVES_NAMESPACE, params=params)
    for line in sorted(source.desired.moves, key=lambda line: line.to):
        left = () if line.is_table else _properties_left_behind(source, line)
        if left:
            params = {"name": address(catalog, line.origin), "other": address(catalog, line.to), "names": tuple(left)}
            yield Note(catalog=catalog, code=NoteCode.MOVE_LEAVES_PROPERTIES, params=params)
    hints = [*_rename_hints(source, outcomes)]
    for code, hint in hints[:_NAMES_SHOWN]:
        yield Note(catalog=catalog, code=code, params=hint)
    if len(hints) > _NAMES_SHOWN:
        yield Note(catalog=catalog, code=NoteCode.RENAMES_LIKELY, params={"count": len(hints) - _NAMES_SHOWN})


def _notes_on_lines(source: CatalogInput, code: NoteCode, lines: Iterable[DesiredMove]) -> Iterator[Note]:
    """Yield one note that names each entry of ``moved`` behind ``lines``; none without lines.

    Entries with variables are left out: another environment may need them.
    """
    desired = source.desired
    catalog, params = desired.name, Params(kind="environment") if desired.varies else Params()
    lines = [line for line in lines if "${" not in desired.as_written(line.origin) + desired.as_written(line.to)]
    ordered = sorted(lines, key=lambda line: (line.source.file, line.source.line, line.to), reverse=True)
    entries = [*{line.source: line for line in ordered}.values()][::-1]
    if len(entries) == 1:
        [line] = entries
        params |= {"name": "/".join(line.origin), "other": "/".join(line.to), "line": str(line.source)}
    elif entries:
        params |= {"count": len(entries), "names": tuple(str(line.source) for line in entries)}
    if entries:
        yield Note(catalog=catalog, code=code, params=params)


def _properties_left_behind(source: CatalogInput, line: DesiredMove) -> Sequence[str]:
    """Return the keys that others set on a moved namespace and that the new one lacks."""
    origin, target = (source.live.namespaces.get(name) for name in (line.origin, line.to))
    if origin is None or target is None:
        return ()
    places = source.capabilities.namespace_places
    foreign = ownership.foreign_properties(origin.properties)
    return sorted(key for key, value in foreign.items() if key not in places and target.properties.get(key) != value)


def _rename_hints(source: CatalogInput, outcomes: Outcomes) -> Iterator[_Hint]:
    """Yield a hint for each removed and new table that may be one renamed table.

    A protected table counts as removed, as does one that is not selected, or stays under ``prune: never``: without a
    hint, an empty table under its new name would be made beside it.

    They share a location, are the only such tables of their namespace, or are the only ones of their name. Tables that
    move from a dropped namespace to a created one are one hint. Other new tables without data are listed with the
    removed tables of their namespace.
    """
    able, changes = source.capabilities, outcomes.changes
    named = [change for change in changes if change.kind == "table" and change.mirror_of is None]
    new = [change for change in named if change.is_new and change.moved_from is None]
    protected = {
        guard.identifier for guard in outcomes.guards if guard.would is Action.DEREGISTER_TABLE and not guard.source
    }
    stays = {
        **dict.fromkeys(outcomes.kept, NoteCode.KEPT_RENAME_LIKELY),
        **dict.fromkeys(protected, NoteCode.PROTECTED_RENAME_LIKELY),
    }
    removed = [change for change in named if change.action is Action.DEREGISTER_TABLE and change.source is None]
    gone = [*protected, *(change.identifier for change in removed)]
    renames: dict[Identifier, Identifier] = {}
    taken: set[Identifier] = set()
    for pairs in (
        _pairs_at_one_place(new, removed),
        _unique_pairs(new, [*gone, *outcomes.kept], _NAMESPACE),
        _unique_pairs(new, [*gone, *outcomes.kept], _NAME),
    ):
        for origin, to in pairs:
            if origin not in renames and to not in taken and _can_move(able, origin, to):
                renames[origin] = to
                taken.add(to)
    words = {change.identifier: change.action.verb for change in new}
    dropped = {change.identifier for change in changes if change.action is Action.DROP_NAMESPACE}
    made = {change.identifier for change in changes if change.action is Action.CREATE_NAMESPACE}
    namespace_renames: defaultdict[tuple[Identifier, Identifier], int] = defaultdict(int)
    for origin, to in sorted(renames.items()):
        if origin[-1] == to[-1] and origin[:-1] in dropped and to[:-1] in made:
            namespace_renames[origin[:-1], to[:-1]] += 1
        else:
            yield stays.get(origin, NoteCode.RENAME_LIKELY), _hint_params(source, origin, "deregister", to, words[to])
    for (origin, to), _ in sorted(namespace_renames.items()):
        yield NoteCode.RENAME_LIKELY, _hint_params(source, origin, "drop", to, "create")
    empty = [change.identifier for change in new if change.action is not Action.REGISTER_TABLE]
    yield from _undecided_renames(
        source,
        [name for name in empty if name not in taken],
        [name for name in gone if name not in renames],
    )


def _hint_params(source: CatalogInput, origin: Identifier, goes: str, to: Identifier, comes: str) -> Params:
    params: Params = {"name": "/".join(origin), "does": goes, "other": "/".join(to), "other_does": comes}
    return {**params, "write": _moved_line(source, origin, to)}


def _moved_line(source: CatalogInput, origin: Identifier, to: Identifier) -> str:
    names = map(source.desired.as_written, (origin, to))
    old, new = (f'"{name}"' if "${" in name else name for name in names)
    return f"moved: [{{from: {old}, to: {new}}}]"


def _undecided_renames(source: CatalogInput, new: Iterable[Identifier], gone: Iterable[Identifier]) -> Iterator[_Hint]:
    """Yield a hint for each namespace with several candidates for a rename."""
    comes: defaultdict[Identifier, list[Identifier]] = defaultdict(list)
    goes: defaultdict[Identifier, list[Identifier]] = defaultdict(list)
    for names, by_namespace in ((new, comes), (gone, goes)):
        for name in sorted(names):
            by_namespace[name[:-1]].append(name)
    for namespace in sorted(comes.keys() & goes.keys()):
        if _can_move(source.capabilities, goes[namespace][0], comes[namespace][0]):
            to = comes[namespace][0] if len(comes[namespace]) == 1 else (*namespace, "NEW")
            params: Params = {"name": "/".join((*namespace, "OLD")), "other": "/".join(to)}
            params |= {"added": _first_names(comes[namespace]), "count": len(comes[namespace])}
            params |= {"names": _first_names(goes[namespace]), "more": len(goes[namespace])}
            params |= {"write": _moved_line(source, (*namespace, "OLD"), to)}
            yield NoteCode.RENAME_UNDECIDED, params


def _first_names(names: Sequence[Identifier]) -> tuple[str, ...]:
    return tuple("/".join(name) for name in names[:_NAMES_SHOWN])


def _can_move(able: Capabilities, origin: Identifier, to: Identifier) -> bool:
    if able.pinned_root_tables and min(len(origin), len(to)) == 1:
        return False
    return able.renames(origin, to) or able.table_markers


def _pairs_at_one_place(new: Iterable[Change], gone: Iterable[Change]) -> Iterator[tuple[Identifier, Identifier]]:
    """Yield the old and new name of tables that have the same location."""
    views = ((change, change.before) for change in gone)
    left = {locations.place(view.location): change for change, view in views if view and view.location}
    for change in new:
        place = change.destination and locations.place(change.destination)
        if place in left:
            yield left[place].identifier, change.identifier


def _unique_pairs(
    new: Sequence[Change], gone: Sequence[Identifier], part: slice
) -> Iterator[tuple[Identifier, Identifier]]:
    """Yield the old and new name where ``part`` of the identifier is unique among both lists."""
    comes, goes = Counter(change.identifier[part] for change in new), Counter(name[part] for name in gone)
    by_part = {name[part]: name for name in gone}
    for change in new:
        key = change.identifier[part]
        if comes[key] == 1 and goes[key] == 1:
            yield by_part[key], change.identifier
