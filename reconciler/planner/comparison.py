"""Tables compared one by one, and what that comes to: parts of a catalog can be compared apart and added up."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.model import locations
from reconciler.model.desired import DesiredMove, Prune
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.model.ownership import owner_of
from reconciler.model.reasons import NoteCode
from reconciler.planner.entries import Action, Blocked, Change, Key, Note, Protection
from reconciler.planner.facts import CatalogInput, EntryColumns, TableFacts
from reconciler.planner.live_tables import LiveTables
from reconciler.planner.moves import NO_MOVES, MovedTable, Moves, moves_of, pairs
from reconciler.planner.moving import diff_moved
from reconciler.planner.outcome import CatalogContext, Outcome, Remark, Tally
from reconciler.planner.tables import diff_table, remarks_on

_BY_DATA = (Action.CREATE_TABLE, Action.DECLARE_TABLE, Action.REGISTER_TABLE)


@dataclass(slots=True)
class Outcomes:
    """What comparing objects came to, sorted by what it is, in no particular order.

    Settling puts ``waiting`` aside and finds more that is ``blocked``; ``occupied`` are the namespaces that would be
    dropped were they empty, and ``in_the_way`` the live objects that others are blocked by.

    ``remarks`` are counted by topic and namespace. ``tables`` counts the live ones, ``removable_tables`` those of them
    that pruning may touch, ``unnamed_tables`` those that the manifest does not name, and ``unmanaged_tables`` those of
    these that nobody manages. ``moving`` and ``moved`` are the lines of ``moved`` with a table that has its old
    name still, and with one that has its new name already.
    """

    changes: list[Change] = field(default_factory=list)
    guards: list[Protection] = field(default_factory=list)
    blocked: dict[Key, Blocked] = field(default_factory=dict)
    waiting: list[Change] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    occupied: set[Identifier] = field(default_factory=set)
    in_the_way: dict[Identifier, LiveNamespace | LiveTable] = field(default_factory=dict)
    remarks: dict[tuple[NoteCode, Identifier], Tally] = field(default_factory=dict)
    moving: set[DesiredMove] = field(default_factory=set)
    moved: set[DesiredMove] = field(default_factory=set)
    tables: int = 0
    removable_tables: int = 0
    unnamed_tables: int = 0
    unmanaged_tables: int = 0

    def add(self, outcome: Outcome) -> None:
        """Sort an outcome to where it belongs."""
        if outcome is None:
            return
        if isinstance(outcome, Change):
            self.changes.append(outcome)
        elif isinstance(outcome, Protection):
            self.guards.append(outcome)
        elif isinstance(outcome, Blocked):
            self.blocked[outcome.key] = outcome
        elif isinstance(outcome, Remark):
            self._count((outcome.topic, outcome.identifier[:-1]), Tally(outcome))

    def _count(self, key: tuple[NoteCode, Identifier], tally: Tally) -> None:
        self.remarks[key] = tally.with_others(self.remarks.get(key))

    def merge(self, other: Outcomes) -> None:
        """Add what comparing other objects of the same catalog came to."""
        self.changes += other.changes
        self.guards += other.guards
        self.blocked |= other.blocked
        self.moving |= other.moving
        self.moved |= other.moved
        for key, tally in other.remarks.items():
            self._count(key, tally)
        self.tables += other.tables
        self.removable_tables += other.removable_tables
        self.unnamed_tables += other.unnamed_tables
        self.unmanaged_tables += other.unmanaged_tables


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the tables of one catalog are compared: what is the same for all of them.

    ``scope`` is the manifest's part of the catalog, ``select`` the part to plan, ``moves`` what had another name.
    """

    context: CatalogContext
    scope: Scope = EVERYTHING
    select: Scope = EVERYTHING
    moves: Moves = NO_MOVES

    def add(self, outcomes: Outcomes, pair: MovedTable, facts: TableFacts | None) -> None:
        """Compare one table and add what it comes to. Called for every live table, selected or not."""
        there = [live for live in (pair.live, pair.origin) if live is not None]
        for live in there:
            outcomes.tables += 1
            outcomes.removable_tables += self.is_removable(live.id, owner_of(live.properties))
        if not self._is_planned(pair):
            return
        if pair.desired is None and pair.live is not None:
            outcomes.unnamed_tables += 1
            outcomes.unmanaged_tables += owner_of(pair.live.properties) is None
        if pair.line is not None and there:
            (outcomes.moved if pair.origin is None else outcomes.moving).add(pair.line)
        if pair.origin is None:
            outcome = diff_table(self.context, pair.desired, pair.live, facts, pair.held)
        else:
            outcome = diff_moved(self.context, pair, facts)
        safeguard = self.context.capabilities.safeguard
        if safeguard is not None and not isinstance(outcome, Change):
            for live in there:
                for key in safeguard.missing(live.properties):
                    outcomes.add(Remark(NoteCode.UNSAFE if key == safeguard.key else NoteCode.HAZARDOUS, live.id))
        outcomes.add(outcome)
        for remark in remarks_on(self.context, pair.desired, pair.live, facts, outcome):
            outcomes.add(remark)

    def _is_planned(self, pair: MovedTable) -> bool:
        if pair.desired is None and (pair.live is None or not self.scope.contains(pair.live.id)):
            return False
        return pair.is_in(self.select)

    def is_removable(self, identifier: Identifier, owner: str | None) -> bool:
        """Return whether pruning may touch a live table of ``owner`` at all, desired or not."""
        context = self.context
        if (
            context.prune is Prune.NEVER
            or not context.capabilities.table_markers
            or not self.scope.contains(identifier)
        ):
            return False
        return context.prune is Prune.ALL or owner == context.owner


def comparison_of(source: CatalogInput) -> Comparison:
    """Return how the tables of ``source`` are compared."""
    desired, options = source.desired, source.options
    context = CatalogContext(
        catalog=desired.name,
        owner=desired.owner,
        prune=desired.prune,
        capabilities=source.capabilities,
        adopt=options.adopt,
        take_over=options.take_over,
        mirror=desired.mirror.origin if desired.mirror else None,
    )
    return Comparison(context, desired.scope, options.select, moves_of(desired))


def compare_written(source: CatalogInput, outcomes: Outcomes, tables: LiveTables) -> None:
    """Compare those tables again that will find the data there which the plan of another catalog writes."""
    again = {
        change.identifier: (change, change.after.location, storage)
        for change in (outcomes.changes if source.written else ())
        if change.action in _BY_DATA and change.probe and change.after and change.after.location
        for storage in (source.written.get(locations.place(change.after.location)),)
        if storage is not None
    }
    if not again:
        return
    live = {table.id: table for table in tables.named(again)}
    outcomes.changes = [one for one in outcomes.changes if one.kind == "namespace" or one.identifier not in again]
    context = comparison_of(source).context
    for identifier, (change, location, storage) in again.items():
        desired, there = source.desired.tables[identifier], live.get(identifier)
        facts = TableFacts(location, storage, entry=entry_columns(change))
        outcome = diff_table(context, desired, there, facts)
        outcomes.add(outcome)
        for remark in remarks_on(context, desired, there, facts, outcome):
            outcomes.add(remark)


def entry_columns(change: Change) -> EntryColumns | None:
    """Return the columns that an entry shows and those that it is to show; where none are recorded they are the same.

    Whether the data has them is asked when it is carried out.
    """
    if change.before is None or change.after is None:
        return None
    shown, to_show = change.before.shown_columns, change.after.shown_columns
    return None if shown is None or to_show is None else EntryColumns(shown, to_show)


def compare_tables(source: CatalogInput) -> Outcomes:
    """Return what comparing every table of a catalog comes to."""
    comparison, outcomes = comparison_of(source), Outcomes()
    for pair in pairs(comparison.moves, source.desired.tables, source.live.tables, source.facts.held):
        comparison.add(outcomes, pair, source.facts.tables.get(pair.desired.id) if pair.desired else None)
    return outcomes
