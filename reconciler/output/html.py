"""A plan as one HTML page: no server, no network, nothing but itself.

The page is complete without its script, which adds searching and filtering. Its markup is in ``templates/plan.html``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from reconciler.model import display
from reconciler.model.desired import Source
from reconciler.model.names import Identifier
from reconciler.output.details import ColumnDifference, ShownField, columns, differences, place, settings
from reconciler.output.grouping import CatalogGroup, by_catalog, comes_first
from reconciler.output.page import render_page
from reconciler.output.wording import (
    BLOCKED,
    PROTECTED,
    SYMBOLS,
    Entry,
    closing_line,
    counts,
    entries_of,
    headline,
    read_line,
    style_of,
    waiting_line,
    word_of,
)
from reconciler.planner.entries import Blocked, Change, Key, Protection
from reconciler.planner.plan import CatalogSummary, Plan

_OPEN_ENTRIES_UP_TO = 40
_OPEN_GROUPS_UP_TO = 300


def render_html(plan: Plan, *, removed: Mapping[Key, str] | None = None) -> str:
    """Return the page, ready to be written as UTF-8; ``removed`` is what to say of the data of tables that go."""
    total = len(entries_of(plan))
    return render_page(
        __package__,
        "plan",
        plan=plan,
        closing=closing_line(plan),
        read=read_line(plan),
        total=total,
        tiles=[*_tiles(plan)],
        catalogs=[
            _Catalog.of(group, waiting_line(plan, group.name), removed or {}, entries_open=total <= _OPEN_ENTRIES_UP_TO)
            for group in by_catalog(plan)
        ],
        groups_open=total <= _OPEN_GROUPS_UP_TO,
        styles=SYMBOLS,
    )


def _tiles(plan: Plan) -> Iterator[tuple[str, str, int]]:
    """Yield each sort of entry that there is, how it is styled, and how many there are."""
    styles = {_sort_of(entry): style_of(entry) for entry in entries_of(plan)}
    for sort, number in ((BLOCKED, len(plan.blocked)), *counts(plan), (PROTECTED, len(plan.guards))):
        if number:
            yield sort, styles[sort], number


def _sort_of(entry: Entry) -> str:
    return entry.sort if isinstance(entry, Change) else word_of(entry)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the page shows of one entry; ``reason`` is empty where the headline ends with it."""

    symbol: str
    style: str
    sort: str
    above: Identifier
    name: str
    word: str
    headline: str
    source: Source | None
    reason: str
    remedy: str = ""
    held: str = ""
    place: tuple[str, str] | None = None
    fields: Sequence[ShownField] = ()
    columns: Sequence[ColumnDifference] = ()
    is_open: bool = False

    @classmethod
    def of(cls, entry: Entry, held: str, *, may_open: bool) -> _Shown:
        """Return the view of ``entry``; ``held`` says what its data holds.

        What is blocked or goes is open; one that changes something in place is where it ``may_open``.
        """
        *above, name = entry.identifier or ("",)
        said, reason = headline(entry), display.printable(entry.reason)
        shown = cls(
            symbol=entry.symbol,
            style=style_of(entry),
            sort=_sort_of(entry),
            above=tuple(above),
            name=name,
            word=word_of(entry),
            headline=said,
            source=entry.source,
            reason="" if said.endswith(reason) else reason,
        )
        if isinstance(entry, Blocked):
            return replace(shown, remedy=display.printable(entry.remedy), is_open=True)
        if isinstance(entry, Protection):
            return shown
        changed, found = differences(entry), columns(entry)
        return replace(
            shown,
            held=held,
            place=place(entry),
            fields=(*changed, *settings(entry)),
            columns=found,
            is_open=comes_first(entry) or (may_open and bool(changed or found)),
        )


@dataclass(frozen=True, slots=True)
class _Namespace:
    """The entries of one namespace: itself, and the tables directly in it.

    ``identifier`` is None for what is blocked or goes, which comes first wherever it is.
    """

    identifier: Identifier | None
    entries: Sequence[_Shown]

    @property
    def tally(self) -> Iterator[tuple[str, str, int]]:
        """Each symbol that there is, how it is styled, and how many there are."""
        found = Counter((entry.symbol, entry.style) for entry in self.entries)
        order = [("!", BLOCKED), *SYMBOLS.items()]
        return ((symbol, style, found[symbol, style]) for symbol, style in order if found[symbol, style])


@dataclass(frozen=True, slots=True)
class _Catalog:
    """The entries of one catalog by namespace."""

    name: str
    summary: CatalogSummary | None
    waiting: str
    namespaces: Sequence[_Namespace]

    @classmethod
    def of(cls, group: CatalogGroup, waiting: str, removed: Mapping[Key, str], *, entries_open: bool) -> _Catalog:
        """Return the view of ``group``; ``waiting`` says what of the catalog waits with what is blocked."""
        namespaces = [
            _Namespace(
                namespace, [_Shown.of(entry, removed.get(entry.key, ""), may_open=entries_open) for entry in entries]
            )
            for namespace, entries in groupby(group.entries, key=_namespace_of)
        ]
        return cls(group.name, group.summary, waiting, namespaces)


def _namespace_of(entry: Entry) -> Identifier | None:
    if comes_first(entry):
        return None
    return entry.identifier if entry.kind == "namespace" else entry.identifier[:-1]
