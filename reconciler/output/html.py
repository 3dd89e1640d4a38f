"""Render a plan as one self-contained HTML page.

The page is complete without its script, which adds searching and filtering. Its markup is in ``templates/plan.html``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.model.names import Identifier
from reconciler.output.grouping import Fold, Row, approval_line, entries_in, is_risky, sections
from reconciler.output.omissions import Omissions
from reconciler.output.templating import render_page
from reconciler.output.wording import (
    BLOCKED,
    PROTECTED,
    SYMBOLS,
    Entry,
    columns,
    counts,
    differences,
    entries_of,
    sort_of,
    style_of,
)
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

_OPEN_ENTRIES_UP_TO = 40
_OPEN_GROUPS_UP_TO = 300

_Tally = Iterator[tuple[str, str, int]]


def render_html(plan: Plan, *, removed: Mapping[Key, str]) -> str:
    """Return the page; ``removed`` is what to say of the data of deregistered tables."""
    total, shown_sections = len(entries_of(plan)), sections(plan, Omissions(limits=False))

    def is_open(entry: Entry) -> bool:
        return is_risky(entry) or (total <= _OPEN_ENTRIES_UP_TO and bool(differences(entry) or columns(entry)))

    return render_page(
        __package__,
        "plan",
        plan=plan,
        total=total,
        tiles=[*_tiles(plan)],
        covered=approval_line(shown_sections),
        catalogs=[(section, [*_groups(section.rows)]) for section in shown_sections],
        choices=sorted({entry.catalog for entry in entries_of(plan)}),
        groups_open=total <= _OPEN_GROUPS_UP_TO,
        is_open=is_open,
        removed=removed,
    )


def _tiles(plan: Plan) -> _Tally:
    """Yield each sort of entry, its style and its count."""
    styles = {sort_of(entry): style_of(entry) for entry in entries_of(plan)}
    for sort, number in ((BLOCKED, len(plan.blocked)), *counts(plan), (PROTECTED, len(plan.guards))):
        if number:
            yield sort, styles[sort], number


def _groups(ordered: Sequence[Row]) -> Iterator[tuple[Identifier | Fold | None, Sequence[Entry], _Tally]]:
    """Yield each group of rows, its entries and their tally.

    A group is a fold, a namespace with its tables, or None: all blocked and removed objects, which come first.
    """
    for of, group in groupby(ordered, key=_group_of):
        entries = entries_in(group)
        yield of, entries, _tally(entries)


def _tally(entries: Sequence[Entry]) -> _Tally:
    """Yield each symbol, its style and its count."""
    numbers = Counter((entry.symbol, style_of(entry)) for entry in entries)
    order = [("!", BLOCKED), *SYMBOLS.items()]
    return ((symbol, style, numbers[symbol, style]) for symbol, style in order if numbers[symbol, style])


def _group_of(row: Row) -> Identifier | Fold | None:
    if isinstance(row, Fold):
        return row
    if is_risky(row):
        return None
    return row.identifier if row.kind == "namespace" else row.identifier[:-1]
