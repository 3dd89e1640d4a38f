"""Order the entries of a plan for reading, and fold equal ones into one row.

Order, by catalog: blocked and removed objects first, then moves, then by namespace.

Equal entries fold into one row, across namespaces and catalogs. Entries are equal by codes, parameters and differences,
never by words; updates by a policy are equal by the values that it sets. Removals fold only if there are more than
``REMOVALS_SHOWN``, and then only within a namespace.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from reconciler.model import display, locations
from reconciler.model.display import count
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from reconciler.output.omissions import Omissions
from reconciler.output.wording import (
    Entry,
    column_changes,
    entries_of,
    field_changes,
    headline,
    labelled_location,
    set_fields,
    waiting_line,
    word_of,
)
from reconciler.planner.entries import Action, Blocked, Change, Protection
from reconciler.planner.plan import CatalogSummary, Plan

FOLD_OVER = 20
"""A namespace with more entries of one kind folds them, equal or not."""

REMOVALS_SHOWN = 50
"""A plan with at most this many removals folds none of them."""

_NAMES_SHOWN = 5
"""How many objects a fold names; equal removals fold above this number."""

_FOLD_EQUAL_OVER = 10

_JOBS_SHOWN = 3
"""How many equal jobs of `maintain` are shown one by one."""


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """Many entries that are shown as one row.

    ``common`` is an entry with the parameters that equal entries share; None if they share only their kind.
    """

    entries: Sequence[Entry]
    common: Entry | None = None

    @property
    def first(self) -> Entry:
        """The entry that the fold is sorted and styled by."""
        return self.entries[0]

    @property
    def title(self) -> str:
        """A text for the objects of the fold, such as ``ns/*`` or ``306 tables in 3 catalogs``, escaped."""
        catalogs, namespaces = self._catalogs_and_namespaces()
        if len(catalogs) > 1:
            return f"{self._object_count} in {len(catalogs)} catalogs"
        if len(namespaces) > 1:
            return f"{self._object_count} in {len(namespaces)} namespaces"
        return "/".join((*map(display.name, self.first.identifier[:-1]), "*"))

    @property
    def reason(self) -> str:
        """The reason if all entries share it, after the number of objects if ``title`` lacks that; escaped.

        The cost of jobs is that of all.
        """
        jobs = [entry.job for entry in self.entries if isinstance(entry, Change) and entry.job is not None]
        reasons = {headline(entry, jobs) for entry in ([self.common] if self.common else self.entries)}
        parts = [] if self.title.startswith(self._object_count) else [self._object_count]
        return ": ".join((*parts, *reasons) if len(reasons) == 1 else parts)

    @property
    def source(self) -> str:
        """The manifest line, or else the file, that all entries share; escaped, empty if there is none."""
        for form in ("{0.file}:{0.line}", "{0.file}"):
            sources = {form.format(entry.source) for entry in self.entries if entry.source}
            if len(sources) == 1:
                return display.printable(sources.pop())
        return ""

    def names_text(self, omissions: Omissions, most: int = _NAMES_SHOWN) -> str:
        """Return the first ``most`` addresses without their shared part, and the number of the others; escaped."""
        catalogs, namespaces = self._catalogs_and_namespaces()
        shared = 0 if len(catalogs) > 1 else 1 if len(namespaces) > 1 else len(self.first.identifier)
        shown = omissions.first(self.entries, most)
        addresses = (display.address(*(entry.catalog, *entry.identifier)[shared:]) for entry in shown)
        unnamed = len(self.entries) - len(shown)
        return ", ".join(addresses) + (f" and {unnamed:,} more" if unnamed else "")

    def by_namespace(self) -> Iterator[tuple[str, Sequence[Detail], FoldedRow]]:
        """Yield a fold for each namespace and set of details, with the namespace's address and those details.

        Details that all entries share are left out: ``common`` has them.
        """
        parts: defaultdict[tuple[str, Identifier, Sequence[Detail]], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            parts[entry.catalog, entry.identifier[:-1], self._own_details(entry)].append(entry)
        for (catalog, namespace, details), entries in parts.items():
            yield display.address(catalog, *namespace), details, FoldedRow(entries)

    def _own_details(self, entry: Entry) -> Sequence[Detail]:
        """Return an entry's location, with its name as an ellipsis, and previous values that ``common`` lacks."""
        details: list[Detail] = []
        if located := labelled_location(entry):
            label, location = located
            details.append((label, _without_name(location, entry.identifier[-1])))
        if self.common is not None:
            details += (
                (f"{display.key(field.label)} was", field.before or "")
                for field, shared in zip(field_changes(entry), field_changes(self.common), strict=False)
                if field.before != shared.before
            )
        return tuple(details)

    @property
    def _object_count(self) -> str:
        return count(len(self.entries), self.first.kind)

    def _catalogs_and_namespaces(self) -> tuple[set[str], set[Identifier]]:
        return {entry.catalog for entry in self.entries}, {entry.identifier[:-1] for entry in self.entries}


def _without_name(location: str, name: str) -> str:
    """Return a location with an ellipsis for the last segment that is the name, or the name and an extension."""
    if display.ELLIPSIS in location:
        return location
    end = len(location)
    while (start := location.rfind(f"/{name}", 0, end)) >= 0:
        rest = location[start + 1 + len(name) :]
        if rest[:1] in ("", ".", "/"):
            return f"{location[: start + 1]}{display.ELLIPSIS}{rest}"
        end = start
    return location


Detail: TypeAlias = tuple[str, str]
"""A label, escaped, and its value."""

PlanRow: TypeAlias = Entry | FoldedRow


@dataclass(frozen=True, slots=True)
class CatalogSection:
    """The rows of one catalog in reading order.

    ``name`` and ``summary`` are None for rows that stand for several catalogs. ``waiting`` is the
    sentence about changes that wait for blocked ones, empty if there are none. ``is_pending``: an earlier manifest asks
    for these rows, too.
    """

    name: str | None
    summary: CatalogSummary | None
    rows: Sequence[PlanRow]
    waiting: str = ""
    is_pending: bool = False

    @property
    def when(self) -> str:
        """The end of the section's title."""
        return ", pending before this change" if self.is_pending else ""


def sections(
    plan: Plan, omissions: Omissions, *, full: bool = False, most_blocked: int | None = None
) -> tuple[CatalogSection, ...]:
    """Return the sections of a plan, with rows of several catalogs first; those that were pending before come last.

    ``full`` folds nothing; else more than ``most_blocked`` equal blocked objects fold, by default as changes do.
    """
    if most_blocked is None:
        most_blocked = _JOBS_SHOWN if plan.options.maintain else _FOLD_EQUAL_OVER
    limit = None if full else most_blocked
    own = [entry for entry in entries_of(plan) if entry.key not in plan.pending]
    pending = [entry for entry in entries_of(plan) if entry.key in plan.pending]
    later = _sections(plan.model_copy(update={"waiting": ()}), pending, omissions, limit)
    return (*_sections(plan, own, omissions, limit), *(replace(section, is_pending=True) for section in later))


def _sections(
    plan: Plan, entries: Iterable[Entry], omissions: Omissions, most_blocked: int | None
) -> tuple[CatalogSection, ...]:
    rows: defaultdict[str | None, list[PlanRow]] = defaultdict(list)
    ordered = sorted(entries, key=_sort_key)
    folded = ordered if most_blocked is None else _fold_equal(ordered, most_blocked)
    for row in sorted(folded, key=lambda row: _sort_key(first_of(row))):
        rows[_catalog_of(row)].append(row)
    summaries = {catalog.name: catalog for catalog in plan.catalogs}
    waiting = {
        name: waiting_line(plan, name, omissions)
        for name in dict.fromkeys(entry.catalog for entry in (*ordered, *plan.waiting))
    }
    names = dict.fromkeys([*summaries, *waiting])
    shared = [CatalogSection(None, None, rows[None])] if None in rows else []
    return (
        *shared,
        *(
            CatalogSection(name, summaries.get(name), rows[name], waiting[name])
            for name in names
            if name in rows or waiting.get(name)
        ),
    )


def in_reading_order(plan: Plan) -> list[Entry]:
    """Return the entries of a plan by catalog, each catalog's in reading order; those pending before come last."""
    positions = {catalog.name: position for position, catalog in enumerate(plan.catalogs)}

    def key(entry: Entry) -> tuple[object, ...]:
        position = positions.get(entry.catalog, len(positions))
        return entry.key in plan.pending, position, entry.catalog, *_sort_key(entry)

    return sorted(entries_of(plan), key=key)


def entries_in(rows: Iterable[PlanRow]) -> list[Entry]:
    """Return the entries of rows, those of folds one by one."""
    return [entry for row in rows for entry in (row.entries if isinstance(row, FoldedRow) else (row,))]


def first_of(row: PlanRow) -> Entry:
    """Return the entry that a row is sorted and styled by."""
    return row.first if isinstance(row, FoldedRow) else row


def _catalog_of(row: PlanRow) -> str | None:
    if isinstance(row, FoldedRow) and len({entry.catalog for entry in row.entries}) > 1:
        return None
    return first_of(row).catalog


def is_risky(row: PlanRow) -> bool:
    """Return whether a row shows blocked objects or removals."""
    return _rank(first_of(row)) < _MOVES


def is_move(row: PlanRow) -> bool:
    """Return whether a row shows moves."""
    return _rank(first_of(row)) == _MOVES


_BLOCKED, _REMOVALS, _MOVES, _REST = range(4)


def _rank(entry: Entry) -> int:
    """Return the rank of an entry in reading order."""
    if isinstance(entry, Blocked):
        return _BLOCKED
    if not isinstance(entry, Change):
        return _REST
    if entry.removes:
        return _REMOVALS
    return _MOVES if entry.action is Action.MOVE_TABLE else _REST


def _sort_key(entry: Entry) -> tuple[int, Identifier, int, str]:
    """Return the sort key of an entry: rank, then namespace; a namespace precedes its tables."""
    if entry.kind == "namespace":
        return _rank(entry), entry.identifier, 0, ""
    return _rank(entry), entry.identifier[:-1], 1, entry.identifier[-1] if entry.identifier else ""


# ---- folding ---------------------------------------------------------------------------------------------------------


def _fold_equal(entries: Sequence[Entry], most_blocked: int) -> Iterator[PlanRow]:
    """Yield a :class:`FoldedRow` for each large group of equal entries, and the other entries, unsorted."""
    equal: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    fold_removals = sum(_rank(entry) == _REMOVALS for entry in entries) > REMOVALS_SHOWN
    for entry in entries:
        # Removals fold within a namespace, if there are many; else ``entry.key``, which is unique, keeps them apart.
        namespace = (entry.catalog, entry.identifier[:-1]) if _rank(entry) == _REMOVALS else None
        equal[entry.key if namespace and not fold_removals else (namespace, _equality_key(entry))].append(entry)
    most = {_REMOVALS: _NAMES_SHOWN, _BLOCKED: most_blocked}
    for group in equal.values():
        is_job = isinstance(group[0], Change) and group[0].job is not None
        if len(group) > most.get(_rank(group[0]), _JOBS_SHOWN if is_job else _FOLD_EQUAL_OVER):
            yield FoldedRow(group, _without_own_names(_with_shared_values(group)))
        else:
            yield from group


def fold_namespaces(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Return ``rows``, with a fold for more than ``FOLD_OVER`` entries of one kind in a namespace."""
    groups: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    for row in rows:
        if not isinstance(row, FoldedRow) and not is_risky(row):
            groups[_kind_key(row)].append(row)
    folded: list[PlanRow] = []
    for row in rows:
        group = [] if isinstance(row, FoldedRow) or is_risky(row) else groups[_kind_key(row)]
        if not isinstance(row, FoldedRow) and len(group) > FOLD_OVER:
            folded += [FoldedRow(group)] if group[0] is row else []
        else:
            folded.append(row)
    return folded


def _kind_key(entry: Entry) -> Hashable:
    return entry.identifier[:-1], entry.kind, entry.symbol, word_of(entry)


def _equality_key(entry: Entry) -> Hashable:
    """Return a key that is the same for entries that may fold."""
    action = entry.action if isinstance(entry, Change) else entry.would if isinstance(entry, Protection) else None
    content: Hashable = (
        () if action and action.removes else (field_changes(entry), column_changes(entry), set_fields(entry))
    )
    if entry.code is ReasonCode.POLICY:
        content = tuple((field.label, field.after) for field in field_changes(entry))
    params = _without_own_names(entry).params
    if entry.code is ReasonCode.CLONED:  # clones of one catalog fold, whatever their versions and rows
        catalog = params.get("name", "").partition("/")[0]
        params = {"name": catalog, "tag": params.get("tag", ""), "kind": params.get("kind", "")}
    return type(entry), entry.kind, action, entry.code, repr(sorted(params.items())), content


def _with_shared_values(group: Sequence[Entry]) -> Entry:
    """Return the first of equal entries, with an ellipsis for previous values that the others do not share."""
    first = group[0]
    if first.code is ReasonCode.CLONED:
        return _clones_as_one(group)
    if not isinstance(first, Change) or first.code is not ReasonCode.POLICY:
        return first
    values = {(field.path, field.before) for entry in group if isinstance(entry, Change) for field in entry.fields}
    value_counts = Counter(path for path, _ in values)
    fields = (
        field if value_counts[field.path] == 1 else field.model_copy(update={"before": display.ELLIPSIS})
        for field in first.fields
    )
    return first.model_copy(update={"fields": tuple(fields)})


def _clones_as_one(group: Sequence[Entry]) -> Entry:
    """Return the first of some clones of one catalog, with the rows of all, and the version if they share it."""
    first, rows = group[0], [entry.params.get("count") for entry in group]
    params = {**first.params, "name": f"{first.params.get('name', '').partition('/')[0]}/{display.ELLIPSIS}"}
    if len({entry.params.get("version") for entry in group}) > 1:
        params.pop("version", None)
    params.pop("count", None)
    known = [number for number in rows if number is not None]
    params |= {"count": sum(known)} if len(known) == len(rows) else {}
    return first.model_copy(update={"params": params})


def _without_own_names(entry: Entry) -> Entry:
    """Return a copy of ``entry`` with an ellipsis for its own name and locations in its parameters."""
    if not entry.params:
        return entry
    views = (entry.before, entry.after) if isinstance(entry, Change) else ()
    own_locations = {view.location for view in views if view is not None}
    if isinstance(entry, Blocked):
        own_locations = {entry.location, entry.unreferenced, entry.before.location if entry.before else None}
    texts = sorted(filter(None, map(locations.redact, own_locations)), key=len, reverse=True)
    own_pattern = rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, texts))})(?![\w.-])"
    path = entry.identifier
    tails = ["/".join(path[start:]) for start in range(len(path)) if path[start:] != ("",)]

    def shorten(value: object) -> object:
        if isinstance(value, tuple | list):
            return tuple(map(shorten, value))
        if not isinstance(value, str) or not any(text in value for text in texts):
            return value  # compiling a pattern for each entry would take most of the time of a large plan
        return re.sub(own_pattern, display.ELLIPSIS, value)

    params = {key: shorten(value) for key, value in entry.params.items()}
    for key in ("name", "mirror"):
        value = params.get(key)
        tail = next((tail for tail in tails if isinstance(value, str) and value.endswith(tail)), "")
        if tail and isinstance(value, str):
            params[key] = value.removesuffix(tail) + display.ELLIPSIS
    return entry.model_copy(update={"params": params})


def approval_line(plan_sections: Iterable[CatalogSection]) -> str:
    """Return the sentence on what approval covers although it is folded or was pending; empty without such rows."""
    plan_sections = [*plan_sections]
    removals = [row for section in plan_sections for row in section.rows if _rank(first_of(row)) == _REMOVALS]
    covered: list[str] = []
    if any(isinstance(row, FoldedRow) for row in removals):
        covered.append(f"all {len(entries_in(removals)):,} removals, also those that are folded")
    if any(section.is_pending for section in plan_sections):
        covered.append("what was pending before this change")
    return f"Approval covers {' and '.join(covered)}." if covered else ""
