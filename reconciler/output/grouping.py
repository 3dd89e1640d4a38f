"""The reading order of a plan.

By catalog: blocked and removed objects first, then moves, then by namespace. Long runs of one kind are folded, but
never blocked or removed objects: approvers must see each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.model.names import Identifier
from reconciler.output.wording import Entry, entries_of, word_of
from reconciler.planner.entries import Action, Blocked, Change
from reconciler.planner.plan import CatalogSummary, Plan

FOLD_OVER = 20


@dataclass(frozen=True, slots=True)
class CatalogGroup:
    """The entries of one catalog in reading order, and its summary if there is one."""

    name: str
    summary: CatalogSummary | None
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Fold:
    """Many entries of one kind in one namespace, shown as one."""

    namespace: Identifier
    entries: Sequence[Entry]


def by_catalog(plan: Plan) -> tuple[CatalogGroup, ...]:
    """Return the catalogs with entries, in the plan's order."""
    entries: defaultdict[str, list[Entry]] = defaultdict(list)
    summaries = {catalog.name: catalog for catalog in plan.catalogs}
    for entry in entries_of(plan):
        entries[entry.catalog].append(entry)
    names = [*(name for name in summaries if name in entries), *(name for name in entries if name not in summaries)]
    return tuple(CatalogGroup(name, summaries.get(name), in_order(entries[name])) for name in names)


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Return blocked objects, removals, moves, the rest; each by namespace."""
    return sorted(entries, key=_position)


def comes_first(entry: Entry) -> bool:
    """Return whether an entry is blocked or a removal; these are never folded."""
    return _risk(entry) < _MOVES


def moves(entry: Entry) -> bool:
    """Return whether an entry is a move."""
    return _risk(entry) == _MOVES


_GOES, _MOVES, _REST = 1, 2, 3


def _risk(entry: Entry) -> int:
    if isinstance(entry, Blocked):
        return 0
    if not isinstance(entry, Change):
        return _REST
    if entry.action.removes:
        return _GOES
    return _MOVES if entry.action is Action.MOVE_TABLE else _REST


def _position(entry: Entry) -> tuple[int, Identifier, int, str]:
    if entry.kind == "namespace":
        return _risk(entry), entry.identifier, 0, ""
    return _risk(entry), entry.identifier[:-1], 1, entry.identifier[-1] if entry.identifier else ""


def with_folds(entries: Sequence[Entry]) -> list[Entry | Fold]:
    """Return ``entries`` with more than ``FOLD_OVER`` alike as one :class:`Fold`."""
    alike: defaultdict[tuple[Identifier, str, str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if not comes_first(entry):
            alike[_kind(entry)].append(entry)
    shown: list[Entry | Fold] = []
    for entry in entries:
        group = [] if comes_first(entry) else alike[_kind(entry)]
        if len(group) <= FOLD_OVER:
            shown.append(entry)
        elif group[0] is entry:
            shown.append(Fold(entry.identifier[:-1], group))
    return shown


def _kind(entry: Entry) -> tuple[Identifier, str, str, str]:
    return entry.identifier[:-1], entry.kind, entry.symbol, word_of(entry)
