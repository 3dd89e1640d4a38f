"""Render a plan as one self-contained HTML page.

The page is complete without its script, which adds searching and filtering. Its markup is in ``templates/plan.html``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.model.names import Identifier
from reconciler.output.grouping import FoldedRow, PlanRow, approval_line, entries_in, is_risky, sections
from reconciler.output.omissions import Omissions
from reconciler.output.templating import render_page
from reconciler.output.wording import (
    BLOCKED,
    PROTECTED,
    SYMBOLS,
    Entry,
    catalog_counts,
    column_changes,
    counts,
    entries_of,
    field_changes,
    sort_of,
    style_of,
    where_line_of,
)
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

_OPEN_ENTRIES_UP_TO = 40
_OPEN_GROUPS_UP_TO = 300
_OPEN_NOTES_UP_TO = 8
_OPEN_IN_FOLD_UP_TO = 10

_Tallies = Iterator[tuple[str, str, int]]


def render_html(plan: Plan, *, summary: bool, removal_notes: Mapping[Key, str]) -> str:
    """Return the page, as a ``summary`` without details; ``removal_notes`` are about data of deregistered tables."""
    total, plan_sections = len(entries_of(plan)), sections(plan, Omissions(may_cut=False), most_blocked=1)

    def is_open(entry: Entry) -> bool:
        return is_risky(entry) or (total <= _OPEN_ENTRIES_UP_TO and bool(field_changes(entry) or column_changes(entry)))

    return render_page(
        __package__,
        "plan",
        plan=plan,
        notes=sorted(plan.notes, key=lambda note: "write" not in note.params),  # what to write comes first
        total=total,
        summary=summary,
        catalog_counts=[*catalog_counts(plan)] if summary else (),
        where=where_line_of(plan, Omissions(may_cut=False)),
        tiles=[*_tiles(plan)],
        approval=approval_line(plan_sections),
        catalogs=[(section, [*_groups(section.rows)]) for section in plan_sections],
        catalog_names=sorted({entry.catalog for entry in entries_of(plan)}),
        notes_open=_OPEN_NOTES_UP_TO,
        groups_open=total <= _OPEN_GROUPS_UP_TO,
        is_open=is_open,
        is_open_in=lambda fold: "code" in fold.common.params and len(fold.entries) <= _OPEN_IN_FOLD_UP_TO,
        removal_notes=removal_notes,
    )


def _tiles(plan: Plan) -> _Tallies:
    """Yield each sort of entry, its style and its count."""
    styles = {sort_of(entry): style_of(entry) for entry in entries_of(plan)}
    for sort, number in ((BLOCKED, len(plan.blocked)), *counts(plan), (PROTECTED, len(plan.guards))):
        if number:
            yield sort, styles[sort], number


def _groups(ordered: Sequence[PlanRow]) -> Iterator[tuple[Identifier | FoldedRow | None, Sequence[Entry], _Tallies]]:
    """Yield each group of rows, its entries and their tally.

    A group is a fold, a namespace with its tables, or None: all blocked and removed objects, which come first.
    """
    for group, rows in groupby(ordered, key=_group_key):
        entries = entries_in(rows)
        yield group, entries, _tally(entries)


def _tally(entries: Sequence[Entry]) -> _Tallies:
    """Yield each symbol, its style and its count."""
    numbers = Counter((entry.symbol, style_of(entry)) for entry in entries)
    order = [("!", BLOCKED), *SYMBOLS.items()]
    return ((symbol, style, numbers[symbol, style]) for symbol, style in order if numbers[symbol, style])


def _group_key(row: PlanRow) -> Identifier | FoldedRow | None:
    if isinstance(row, FoldedRow):
        return row
    if is_risky(row):
        return None
    return row.identifier if row.kind == "namespace" else row.identifier[:-1]
