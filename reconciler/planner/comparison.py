"""Compare tables one by one and collect the outcomes.

Parts of a catalog can be compared apart and merged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from reconciler.model import locations
from reconciler.model.desired import DesiredMove
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Identifier
from reconciler.model.ownership import owner_of
from reconciler.model.reasons import NoteCode
from reconciler.planner.entries import Action, Blocked, Change, Key, Note, Protection
from reconciler.planner.facts import CatalogInput, EntryColumns, LiveTables, TableFacts
from reconciler.planner.moves import MovedTable, pairs
from reconciler.planner.moving import diff_moved
from reconciler.planner.outcome import CatalogContext, Outcome, Remark
from reconciler.planner.policies import with_policies
from reconciler.planner.tables import diff_table, remarks_on
from reconciler.planner.tagging import tags_of_new

_BY_DATA = (Action.CREATE_TABLE, Action.DECLARE_TABLE, Action.REGISTER_TABLE, Action.MOVE_TABLE)


@dataclass(slots=True)
class Outcomes:
    """The outcomes of comparing objects of one catalog, unordered.

    ``drops`` are namespaces to drop if they are empty. ``conflicts.resolve`` moves the empty ones to ``changes``, moves
    changes that wait for a blocked object to ``waiting``, and blocks conflicting changes. ``occupied`` are the
    namespaces that stay because they are not empty, ``in_the_way`` the live objects that block others.

    ``remarks`` are keyed by topic and namespace. ``counts`` are counts of a ``CatalogSummary``, by field name.
    ``moving`` and ``moved`` are the ``moved`` lines with a table under its old name, and with one under its new name.
    """

    changes: list[Change] = field(default_factory=list)
    drops: list[Change] = field(default_factory=list)
    guards: list[Protection] = field(default_factory=list)
    blocked: dict[Key, Blocked] = field(default_factory=dict)
    waiting: list[Change] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    occupied: set[Identifier] = field(default_factory=set)
    in_the_way: dict[Identifier, LiveNamespace | LiveTable] = field(default_factory=dict)
    remarks: dict[tuple[NoteCode, Identifier], Remark] = field(default_factory=dict)
    moving: set[DesiredMove] = field(default_factory=set)
    moved: set[DesiredMove] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def entries(self) -> list[Change | Blocked]:
        """All changes, waiting changes and blocked objects."""
        return [*self.changes, *self.waiting, *self.blocked.values()]

    def add(self, outcome: Outcome) -> None:
        """Add one outcome."""
        if outcome is None:
            return
        if isinstance(outcome, Change):
            (self.drops if outcome.action is Action.DROP_NAMESPACE else self.changes).append(outcome)
        elif isinstance(outcome, Protection):
            self.guards.append(outcome)
        elif isinstance(outcome, Blocked):
            self.blocked[outcome.key] = outcome
        elif isinstance(outcome, Remark):
            key = outcome.topic, outcome.identifier[:-1]
            self.remarks[key] = outcome.with_others(self.remarks.get(key))

    def merge(self, other: Outcomes) -> None:
        """Add the outcomes of other objects of the same catalog."""
        self.changes += other.changes
        self.drops += other.drops
        self.guards += other.guards
        self.blocked |= other.blocked
        self.moving |= other.moving
        self.moved |= other.moved
        self.counts.update(other.counts)
        for key, remark in other.remarks.items():
            self.remarks[key] = remark.with_others(self.remarks.get(key))

    def compare(self, context: CatalogContext, pair: MovedTable, facts: TableFacts | None) -> None:
        """Compare one table, selected or not, and add the outcome."""
        counts = self.counts
        for live in pair.there:
            counts["tables"] += 1
            counts["removable_tables"] += context.is_removable(live.id, owner_of(live.properties))
        if not pair.is_in(context.select):
            return
        if pair.desired is None and pair.live is not None:
            if not context.scope.contains(pair.live.id):
                return
            counts["unnamed_tables"] += 1
            counts["unmanaged_tables"] += owner_of(pair.live.properties) is None
        if pair.line is not None and pair.in_force is not None:
            (self.moved if pair.origin is None else self.moving).add(pair.line)
        self._compare(context, pair, facts)

    def _compare(self, context: CatalogContext, pair: MovedTable, facts: TableFacts | None) -> None:
        if pair.origin is None:
            outcome = diff_table(context, pair.desired, pair.live, facts, pair.held)
            if pair.desired is None and pair.live is not None:
                outcome = with_policies(context, pair.live, outcome)
        else:
            outcome = diff_moved(context, pair, facts)
        self.add(outcome)
        for remark in remarks_on(context, pair, facts, outcome):
            self.add(remark)

    def compare_written(self, source: CatalogInput, tables: LiveTables) -> None:
        """Compare tables again whose data another catalog's plan writes."""
        blocks = source.desired.tables
        again = {
            change.identifier: TableFacts(change.destination, storage, None, entry_columns(change), tags)
            for change in (self.changes if source.written else ())
            if change.action in _BY_DATA and change.storage is not None and change.probe and change.destination
            for storage in (source.written.get(locations.place(change.destination)),)
            if storage is not None
            for tags in (tags_of_new(blocks[change.identifier], is_written=True),)
        }
        if not again:
            return
        changed = [one for one in self.changes if one.kind == "table" and one.identifier in again]
        names = {name for one in changed for name in (one.identifier, one.moved_from) if name is not None}
        live = {table.id: table for table in tables.named(names)}
        self.changes = [one for one in self.changes if one.kind == "namespace" or one.identifier not in again]
        context = CatalogContext.of(source)
        for pair in pairs(context.moves, {identifier: blocks[identifier] for identifier in again}, live):
            self._compare(context, pair, again.get(pair.desired.id) if pair.desired else None)


def entry_columns(change: Change) -> EntryColumns | None:
    """Return the columns an entry shows and should show; None if none are recorded.

    Apply checks that the data has them.
    """
    if change.before is None or change.after is None:
        return None
    shown, to_show = change.before.shown_columns, change.after.shown_columns
    return None if shown is None or to_show is None else EntryColumns(shown, to_show)


def compare_tables(source: CatalogInput) -> Outcomes:
    """Return the outcomes of comparing every table of a catalog."""
    context, outcomes = CatalogContext.of(source), Outcomes()
    for pair in pairs(context.moves, source.desired.tables, source.live.tables, source.facts.held):
        outcomes.compare(context, pair, source.facts.tables.get(pair.desired.id) if pair.desired else None)
    return outcomes
