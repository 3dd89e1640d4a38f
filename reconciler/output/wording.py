"""Word the entries and counts of a plan, for every renderer.

Values are redacted but not escaped: each renderer escapes them for its own format. Sentences are escaped.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, TypeAlias

from reconciler.model import display, locations, ownership
from reconciler.model.display import count
from reconciler.model.figures import total_size
from reconciler.model.reasons import Params
from reconciler.model.redaction import redact_properties, redact_value
from reconciler.model.secret_forms import REDACTED
from reconciler.output.omissions import Omissions
from reconciler.planner.entries import Action, Blocked, Change, Note, Protection, UpkeepJob
from reconciler.planner.plan import CatalogSummary, ManifestRef, Plan, Summary
from reconciler.planner.views import column_text

Entry = Change | Protection | Blocked

Piece: TypeAlias = tuple[str, Sequence[str]]
"""Prose, and the lines of code that follow it, to be copied."""

SYMBOLS: Mapping[str, str] = {"+": "add", "~": "change", "-": "remove", ">": "move", "!": "protected"}
"""Every symbol, and the name renderers style it by."""

PROTECTED = "protected"
BLOCKED = "blocked"
_STATES = (PROTECTED, BLOCKED)
_SORTS = [field.alias or name for name, field in Summary.model_fields.items()]

_MAX_NAMED = 3
_VARIABLES_NAMED = 5
_LONGEST_VARIABLE = 40
_LONGEST_SERVICE = 100
_LONGEST_WHERE = 1_000
_RARER = ("register", "move", "drop")
_LOCATION_LABELS = {
    "create": "at",
    "declare": "at",
    "register": "data is at",
    "deregister": "data stays at",
    "move": "data stays at",
}
_PINNED = (
    "kept by a tag that apply sets there: once that version is old, `cleanup_old_versions()` of the source raises, and "
    "its auto clean-up warns"
)
_UNPINNED = "kept by a tag for the clone, which apply then removes there"
_OLD_UNPINNED = "the tag for the old clone is removed"
_NOT_KEPT = "which no tag keeps: a clean-up of the source breaks the clone"
_PROPERTY = "properties."
_LOCATIONS = ("location", "requested-location", "chosen-location")
_FIELD_NAMES = (*_LOCATIONS, "protect", "managed-by", "kind", "mirror", "clone")
_NEXT_CALL = re.compile(r"; (?=ds\.)")


def entries_of(plan: Plan) -> list[Entry]:
    """Return all entries of a plan: blocked objects, changes, protected objects."""
    return [*plan.entries]


def style_of(entry: Entry) -> str:
    """Return the name of the entry's style."""
    return BLOCKED if isinstance(entry, Blocked) else SYMBOLS[entry.symbol]


def word_of(entry: Entry) -> str:
    """Return the word for what happens to the object, such as ``create``, ``protected`` or ``blocked``."""
    if isinstance(entry, Blocked):
        return BLOCKED
    if isinstance(entry, Change) and entry.job is not None:
        return entry.action.value
    return PROTECTED if isinstance(entry, Protection) else _verb(entry)


def _verb(change: Change) -> str:
    return "namespace" if change.action is Action.CREATE_NAMESPACE else change.action.verb


def sort_of(entry: Entry) -> str:
    """Return the word under which the entry is counted."""
    return entry.action.sort if isinstance(entry, Change) else word_of(entry)


def headline(entry: Entry, jobs: Sequence[UpkeepJob] = ()) -> str:
    """Return the reason of an entry with its most important detail, on one line, escaped.

    A job of `maintain` has its cost, or that of ``jobs``.
    """
    if isinstance(entry, Protection):
        verb = entry.would.verb
        return f"kept; would be {'dropped' if verb == 'drop' else verb.removesuffix('e') + 'ed'}"
    if isinstance(entry, Blocked):
        if entry.moved_from is not None:
            return f"stays {display.address(*entry.moved_from)}"
        return "not there" if entry.before is None else "left as it is"
    reason = display.printable(entry.reason)
    if entry.job is not None:
        return f"{reason}; {cost(jobs or [entry.job])}"
    is_made = entry.action is Action.CREATE_TABLE and entry.clone is None
    if is_made and entry.after is not None and entry.after.columns is not None:
        schema = f"schema of {count(len(entry.after.columns), 'field')}"
        return schema if entry.before is None else f"{schema}; {reason}"
    return f"namespace, {reason}" if entry.action is Action.UPDATE_NAMESPACE else reason


def cost(jobs: Sequence[UpkeepJob]) -> str:
    """Return what jobs of `maintain` read, write and index."""
    rows = sum(job.rows for job in jobs)
    indexed = f", indexes {count(rows, 'row')}" if rows else ""
    reads, writes = total_size(job.reads for job in jobs), total_size(job.writes for job in jobs)
    return f"reads {reads}, writes {writes}{indexed}"


def counts(plan: Plan) -> Iterator[tuple[str, int]]:
    """Yield the counts of the last line; rarer sorts only if there are any."""
    for sort, number in plan.summary().model_dump(by_alias=True, exclude={"protected", "blocked"}).items():
        if number or not (plan.options.maintain or sort in _RARER):
            yield sort, number


def catalog_counts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the name of each catalog, and what happens to its objects by number; escaped."""
    entries: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries_of(plan):
        entries[entry.catalog].append(entry)
    waiting = Counter(change.catalog for change in plan.waiting)
    for name in dict.fromkeys([*(catalog.name for catalog in plan.catalogs), *entries, *waiting]):
        numbers = Counter(map(sort_of, entries[name]))
        sorts = [sort for sort in _SORTS if numbers[sort]]
        parts = [f"{numbers[sort]:,} {'' if sort in _STATES else 'to '}{sort}" for sort in sorts]
        parts += [f"{waiting[name]:,} waiting"] if waiting[name] else []
        yield display.name(name), ", ".join(parts) or "no changes"


def outcome_of(entry: Entry, plan: Plan) -> str:
    """Return the word for what happens to an object of ``plan``; the reason code if it is blocked."""
    outcome = entry.code.value if isinstance(entry, Blocked) else word_of(entry)
    outcome += " (clone)" if isinstance(entry, Change) and entry.clone is not None else ""
    return f"{outcome}, pending before" if entry.key in plan.pending else outcome


def closing_line(plan: Plan, *, zeros: bool = True) -> str:
    """Return the last line: the counts of the plan, with or without those that are zero."""
    if plan.options.maintain:
        return _jobs_line(plan)
    protected = f" {len(plan.guards):,} protected." if plan.guards else ""
    if plan.is_empty and not plan.blocked:
        named = sum(catalog.desired_objects + (catalog.mirrored_tables or 0) for catalog in plan.catalogs)
        unnamed = sum(catalog.unnamed_tables for catalog in plan.catalogs)
        objects = f"{count(named, 'object')} in {count(len(plan.catalogs), 'catalog')}"
        is_part = bool(plan.options.select or plan.options.exclude)
        verb = "matches" if named == 1 or is_part else "match"
        matching = f"{'What was selected of ' if is_part else ''}{objects} {verb} the manifest"
        only_there = f"; {count(unnamed, 'more table')} only in the catalogs" if unnamed else ""
        return f"No changes. {matching}{only_there}.{protected}"
    listed = ", ".join(f"{number:,} to {word}" for word, number in counts(plan) if number or zeros)
    blocked = f"{len(plan.blocked):,} blocked" if plan.blocked else ""
    return f"Plan: {'; '.join(filter(None, (listed, blocked)))}.{protected} No data is deleted."


def _jobs_line(plan: Plan) -> str:
    """Return the last line of a plan of `maintain`."""
    blocked = f"{len(plan.blocked):,} blocked" if plan.blocked else ""
    if plan.is_empty:
        datasets = count(sum(catalog.desired_objects for catalog in plan.catalogs), "dataset")
        return f"No jobs. {datasets} looked at{f'; {blocked}' if blocked else ''}. Nothing was changed."
    jobs = plan.summary()
    parts = [f"{count(jobs.compact, 'dataset')} to compact"] if jobs.compact else []
    parts += [f"{_indices(jobs.build)} to build"] if jobs.build else []
    parts += [f"{_indices(jobs.optimize)} to bring up to date"] if jobs.optimize else []
    growth = total_size(change.job.writes for change in plan.changes if change.job is not None)
    return (
        f"Jobs: {', '.join(parts)}{f'; {blocked}' if blocked else ''}. {growth} more on disk until old versions are "
        "cleaned up, which lancens never does."
    )


def _indices(number: int) -> str:
    return f"{number:,} {'index' if number == 1 else 'indices'}"


def waiting_line(plan: Plan, catalog: str, omissions: Omissions) -> str:
    """Return the sentence about a catalog's waiting changes; empty if none wait."""
    waiting = [change for change in plan.waiting if change.catalog == catalog]
    if not waiting:
        return ""
    shown = omissions.first(waiting, _MAX_NAMED)
    named = ", ".join(f"{display.address(*change.identifier)} ({_verb(change)})" for change in shown)
    unnamed = f" and {len(waiting) - len(shown):,} more" if len(waiting) > len(shown) else ""
    verb = "waits" if len(waiting) == 1 else "wait"
    return f"{count(len(waiting), 'change')} {verb} with what is blocked: {named}{unnamed}."


def manifest_title(manifest: ManifestRef, omissions: Omissions | None = None) -> str:
    """Return the manifest's name, and the variables that differ from `lancens.vars.yaml`; escaped.

    Secret ones are counted. Without ``omissions``, only a few of the others are named.
    """
    omissions = Omissions() if omissions is None else omissions
    named = [(name, text) for name, text in manifest.given.items() if text != REDACTED]
    shown = omissions.first(named, _VARIABLES_NAMED)
    values = {name: omissions.shorten(display.value(text), _LONGEST_VARIABLE) for name, text in shown}
    parts = [f"{display.key(name)} = {text}" for name, text in values.items()]
    left_out = len(manifest.given) - len(shown)
    parts += [count(left_out, "other variable")] if left_out else []
    return display.name(manifest.name) + (f" ({', '.join(parts)})" if parts else "")


class NamedCatalog(Protocol):
    """A catalog that was read."""

    @property
    def name(self) -> str:
        """Its name in the manifest."""

    @property
    def impl(self) -> str:
        """Its implementation."""


def where_line(
    manifest: ManifestRef,
    catalogs: Iterable[NamedCatalog],
    omissions: Omissions,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> str:
    """Return a manifest's title, the services of the catalogs that were read, and the globs that limit it; escaped."""
    places = [_place(manifest, catalog, omissions) for catalog in catalogs]
    parts = [manifest_title(manifest, omissions) + (f" on {_listed(places)}" if places else "")]
    limits = (("only", select), ("without", exclude))
    parts += [f"{word} {', '.join(map(display.value, globs))}" for word, globs in limits if globs]
    return omissions.shorten("; ".join(parts), _LONGEST_WHERE)


def _place(manifest: ManifestRef, catalog: NamedCatalog, omissions: Omissions) -> str:
    """Return a catalog's name, and in brackets its implementation and service; escaped."""
    service = omissions.shorten(display.printable(manifest.services.get(catalog.name, "")), _LONGEST_SERVICE)
    return f"{display.name(catalog.name)} ({', '.join(filter(None, (display.name(catalog.impl), service)))})"


def _listed(texts: Sequence[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def target_line(plan: Plan) -> str:
    """Return a manifest's title and the catalogs that its plan changes, with their services; escaped."""
    changed = {change.catalog for change in plan.changes}
    places = [_place(plan.manifest, each, Omissions()) for each in plan.catalogs if each.name in changed]
    catalogs = _listed(places) if 0 < len(places) <= _MAX_NAMED else count(len(places), "catalog")
    return f"{manifest_title(plan.manifest)} to {catalogs}"


def question(plan: Plan, verb: str) -> str:
    """Return the question whether to carry out a plan; it begins with ``verb``."""
    return f"{verb} {count(len(plan.changes), 'change')} of {target_line(plan)}? Only `yes` is accepted: "


def where_line_of(plan: Plan, omissions: Omissions) -> str:
    """Return the first line of a plan; escaped."""
    return where_line(plan.manifest, plan.catalogs, omissions, plan.options.select, plan.options.exclude)


def content_of(catalog: CatalogSummary) -> str:
    """Return how much was read in a catalog."""
    numbers = ((catalog.namespaces, "namespace"), (catalog.tables, "table"))
    read = " and ".join(count(number, noun) for number, noun in numbers if number)
    return f"{read} read" if read else "empty"


def read_line(plan: Plan) -> str:
    """Return the sentence about what was read, for progress on stderr."""
    parts = (
        f"{display.name(catalog.name)} ({display.name(catalog.impl)}) {count(catalog.namespaces, 'namespace')}, "
        f"{count(catalog.tables, 'table')}"
        for catalog in plan.catalogs
    )
    return f"Read {count(len(plan.catalogs), 'catalog')}: {' · '.join(parts)}"


# ---- texts with code -------------------------------------------------------------------------------------------------


def remedy_pieces(entry: Blocked) -> Iterator[Piece]:
    """Yield the remedy of a blocked object, with its calls apart."""
    return _pieces(entry.remedy, entry.params, "code", "rename_code")


def note_pieces(note: Note) -> Iterator[Piece]:
    """Yield the text of a note, with the calls or the lines for the manifest apart."""
    return _pieces(note.message, note.params, "code", "write")


def _pieces(text: str, params: Params, *keys: str) -> Iterator[Piece]:
    """Yield the prose of ``text`` and the lines of the parameters ``keys`` in it."""
    values = sorted((str(value) for key, value in params.items() if key in keys and value), key=len, reverse=True)
    if not values:
        yield text, ()
        return
    parts = re.split(f"`?({'|'.join(map(re.escape, values))})`?[;,.]? ?", text)
    for prose, code in zip_longest(parts[::2], parts[1::2], fillvalue=""):
        yield prose.rstrip(), _NEXT_CALL.split(code) if code else ()


# ---- details of one entry --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field, property or column; ``before`` None: added, ``after`` None: removed."""

    label: str
    before: str | None
    after: str | None

    @property
    def symbol(self) -> str:
        """``+``, ``-`` or ``~``."""
        return "+" if self.before is None else "-" if self.after is None else "~"

    @property
    def values(self) -> Sequence[str]:
        """Its value, or both values if it changes."""
        return [value for value in (self.before, self.after) if value is not None]

    @property
    def is_location(self) -> bool:
        """Whether it is the object's location; a property of that name has another label."""
        return self.label == "location"


def field_changes(entry: Entry) -> tuple[ShownField, ...]:
    """Return the fields that an update changes; columns are in :func:`column_changes`."""
    if not isinstance(entry, Change):
        return ()
    return tuple(
        ShownField(_label(path), _redact(entry, path, field.before), _redact(entry, path, field.after))
        for field in entry.fields
        if (path := field.path).partition(".")[0] != "schema"
    )


def _redact(change: Change, path: str, value: str | None) -> str | None:
    if path in _LOCATIONS:
        return locations.redact(value)
    key = path.removeprefix(_PROPERTY)
    return value if value is None or key == path else redact_value(key, value, change.address, change.secret_keys)


def set_fields(entry: Entry, *, with_removed: bool = True) -> tuple[ShownField, ...]:
    """Return the fields that a creation sets, or with ``with_removed`` a removal takes; else nothing."""
    if not isinstance(entry, Change) or (entry.before is None) == (entry.after is None):
        return ()
    if entry.after is None and not with_removed:
        return ()
    is_new, view = entry.before is None, entry.before or entry.after
    texts = {} if view is None or view.kind is None else {"kind": view.kind}
    if view is not None:
        texts |= {"protect": "true"} if view.protect else {}
        properties = redact_properties(view.properties, entry.address, entry.secret_keys)
        texts |= {_label(_PROPERTY + key): value for key, value in sorted(properties.items())}
        texts |= {f"tags.{name}": target for name, target in (view.tags or {}).items()}
    return tuple(ShownField(label, None if is_new else text, text if is_new else None) for label, text in texts.items())


def labelled_location(entry: Entry) -> tuple[str, str] | None:
    """Return a label for a table's location, such as ``data stays at``, and the location; None if not shown."""
    view = (entry.after or entry.before) if isinstance(entry, Change) else None
    if not isinstance(entry, Change) or view is None or view.location is None:
        return None
    label = _LOCATION_LABELS.get(entry.action.verb)
    return None if label is None else (label, locations.redact(view.location))


def base_location(entry: Entry) -> tuple[str, str, str] | None:
    """Return a label, what a clone reads from, and what keeps that version; None for no clone, and for one that stays.

    It is a location where the clone is made, and an address where its entry leaves it and its pin is removed.
    """
    if not isinstance(entry, Change):
        return None
    if entry.unpinned is not None and entry.clone is None:
        return "read", display.printable(ownership.origin_of_clone(entry.unpinned)), _UNPINNED
    base = entry.clone
    if base is None:
        return None
    kept = f"kept by its tag {display.value(base.tag)}" if base.tag is not None else _NOT_KEPT
    kept = _PINNED if base.pin else kept
    return "reads", locations.redact(base.location), kept if entry.unpinned is None else f"{kept}; {_OLD_UNPINNED}"


def alters_columns(entry: Entry) -> bool:
    """Return whether the columns of an entry are changes of columns that data has."""
    return isinstance(entry, Change) and (entry.before is not None or entry.clone is not None)


def column_changes(entry: Entry) -> tuple[ShownField, ...]:
    """Return added, removed and changed columns; all if there were none before."""
    if not isinstance(entry, Change) or entry.after is None or entry.after.columns is None:
        return ()
    before, after = (
        {column.name: column_text(column, entry.address) for column in columns or ()}
        for columns in (entry.before_columns, entry.after_columns)
    )
    origins = {column.name: column.renamed_from for column in entry.after.columns if column.renamed_from is not None}
    renamed = [ShownField(to, f"{old} {before.pop(old, '')}", f"{to} {after.pop(to)}") for to, old in origins.items()]
    changes = (ShownField(name, before.get(name), after.get(name)) for name in {**after, **before})
    return (*renamed, *(field for field in changes if field.before != field.after))


def _label(path: str) -> str:
    """Return a property's key, prefixed if it could be taken for a field."""
    if path.startswith("safeguards."):
        return path.removeprefix("safeguards.")
    key = path.removeprefix(_PROPERTY)
    return path if key in _FIELD_NAMES or key.startswith(_PROPERTY) else key
