"""Render a plan as one self-contained HTML page.

The page is complete without its script, which adds searching and filtering. Its markup is in ``templates/plan.html``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.model.names import Identifier
from reconciler.output.grouping import by_catalog, comes_first
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
    waiting_line,
)
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

_OPEN_ENTRIES_UP_TO = 40
_OPEN_GROUPS_UP_TO = 300

_Tally = Iterator[tuple[str, str, int]]


def render_html(plan: Plan, *, removed: Mapping[Key, str] | None = None) -> str:
    """Return the page; ``removed`` is what to say of the data of deregistered tables."""
    total = len(entries_of(plan))

    def is_open(entry: Entry) -> bool:
        return comes_first(entry) or (total <= _OPEN_ENTRIES_UP_TO and bool(differences(entry) or columns(entry)))

    return render_page(
        __package__,
        "plan",
        plan=plan,
        total=total,
        tiles=[*_tiles(plan)],
        catalogs=[(group, waiting_line(plan, group.name), [*_namespaces(group.entries)]) for group in by_catalog(plan)],
        groups_open=total <= _OPEN_GROUPS_UP_TO,
        is_open=is_open,
        removed=removed or {},
    )


def _tiles(plan: Plan) -> _Tally:
    """Yield each sort of entry, its style and its count."""
    styles = {sort_of(entry): style_of(entry) for entry in entries_of(plan)}
    for sort, number in ((BLOCKED, len(plan.blocked)), *counts(plan), (PROTECTED, len(plan.guards))):
        if number:
            yield sort, styles[sort], number


def _namespaces(ordered: Sequence[Entry]) -> Iterator[tuple[Identifier | None, Sequence[Entry], _Tally]]:
    """Yield each namespace, the entries of itself and its tables, and their tally.

    None stands for blocked and removed objects, which come first wherever they are.
    """
    for namespace, group in groupby(ordered, key=_namespace_of):
        entries = [*group]
        yield namespace, entries, _tally(entries)


def _tally(entries: Sequence[Entry]) -> _Tally:
    """Yield each symbol, its style and its count."""
    found = Counter((entry.symbol, style_of(entry)) for entry in entries)
    order = [("!", BLOCKED), *SYMBOLS.items()]
    return ((symbol, style, found[symbol, style]) for symbol, style in order if found[symbol, style])


def _namespace_of(entry: Entry) -> Identifier | None:
    if comes_first(entry):
        return None
    return entry.identifier if entry.kind == "namespace" else entry.identifier[:-1]
