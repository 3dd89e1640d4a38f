"""Compare tables one by one and collect the outcomes.

Parts of a catalog can be compared apart and merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from reconciler.model import locations
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredMove, Prune
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Identifier
from reconciler.model.ownership import is_same_owner, mirror_of, owner_of
from reconciler.model.reasons import NoteCode
from reconciler.planner.entries import Action, Blocked, Change, Key, Note, Protection
from reconciler.planner.facts import (
    Answers,
    CatalogInput,
    EntryColumns,
    LiveTables,
    OpenTable,
    Questions,
    TableFacts,
    new_names,
    open_table,
)
from reconciler.planner.moves import TablePair, pairs
from reconciler.planner.moving import diff_moved
from reconciler.planner.outcome import CatalogContext, Outcome, Remark
from reconciler.planner.policies import with_policies
from reconciler.planner.tables import diff_table, remarks_on
from reconciler.planner.tagging import tags_of_new

_BY_DATA = (Action.CREATE_TABLE, Action.DECLARE_TABLE, Action.REGISTER_TABLE, Action.MOVE_TABLE)


@dataclass(slots=True)
class Outcomes:
    """The outcomes of comparing objects of one catalog, unordered.

    ``drops`` are the drops of namespaces, should these be empty. ``conflicts.resolve`` moves the possible drops to
    ``changes``, moves changes that depend on a blocked object to ``waiting``, and moves conflicting changes to
    ``blocked``. It fills ``occupied``, the namespaces that stay because they are not empty, and ``obstacles``, the live
    objects that block a change.

    ``remarks`` are keyed by topic and namespace. ``counts`` are counts of a ``CatalogSummary``, by field name.
    ``moving`` are the ``moved`` lines with a table under its old name, ``moved`` those with one under its new name.
    ``kept`` are tables of this manifest without a block that stay, as they are not selected or nothing is pruned. They
    are collected only where the plan may make a new table, which may be one of them under a new name.
    """

    changes: list[Change] = field(default_factory=list)
    drops: list[Change] = field(default_factory=list)
    guards: list[Protection] = field(default_factory=list)
    blocked: dict[Key, Blocked] = field(default_factory=dict)
    waiting: list[Change] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    occupied: set[Identifier] = field(default_factory=set)
    obstacles: dict[Identifier, LiveNamespace | LiveTable] = field(default_factory=dict)
    remarks: dict[tuple[NoteCode, Identifier], Remark] = field(default_factory=dict)
    moving: set[DesiredMove] = field(default_factory=set)
    moved: set[DesiredMove] = field(default_factory=set)
    kept: set[Identifier] = field(default_factory=set)
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
        self.kept |= other.kept
        self.counts.update(other.counts)
        for key, remark in other.remarks.items():
            self.remarks[key] = remark.with_others(self.remarks.get(key))

    def compare(self, context: CatalogContext, pair: TablePair, facts: TableFacts | None) -> None:
        """Count a table; compare it and add the outcome if the plan's selection has it."""
        counts = self.counts
        for live in pair.entries:
            counts["tables"] += 1
            counts["removable_tables"] += context.is_removable(live.id, owner_of(live.properties))
        is_selected = pair.is_in(context.select)
        if not is_selected:
            return
        if pair.desired is None and pair.live is not None:
            if not context.scope.contains(pair.live.id):
                return
            counts["unnamed_tables"] += 1
            counts["unmanaged_tables"] += owner_of(pair.live.properties) is None
        if pair.line is not None and pair.present_entry is not None:
            (self.moved if pair.origin is None else self.moving).add(pair.line)
        self._compare(context, pair, facts)

    def add_kept(self, context: CatalogContext, table: LiveTable, *, is_selected: bool) -> None:
        """Add the name of a table without a block to ``kept``, if it is one of those."""
        if is_selected and context.prune is not Prune.NEVER:
            return
        if is_same_owner(owner_of(table.properties), context.owner) and mirror_of(table.properties) is None:
            self.kept.add(table.id)

    def _compare(self, context: CatalogContext, pair: TablePair, facts: TableFacts | None) -> None:
        if pair.origin is None:
            outcome = diff_table(context, pair.desired, pair.live, facts, pair.name_holder)
            if pair.desired is None and pair.live is not None:
                outcome = with_policies(context, pair.live, outcome)
        else:
            outcome = diff_moved(context, pair, facts)
        self.add(outcome)
        for remark in remarks_on(context, pair, facts, outcome):
            self.add(remark)

    def compare_again(self, source: CatalogInput, tables: LiveTables) -> None:
        """Compare tables again whose first comparison found no data, as another catalog's plan will write it.

        Args:
            source: the catalog, with the data that other plans write.
            tables: its live tables.
        """
        blocks = source.desired.tables
        new_facts = {
            change.identifier: TableFacts(change.destination, storage, None, entry_columns(change), tags, change.clone)
            for change in (self.changes if source.planned_data else ())
            if change.action in _BY_DATA and change.storage is not None and change.probe and change.destination
            for storage in (source.planned_data.get(locations.place(change.destination)),)
            if storage is not None
            for tags in (tags_of_new(blocks[change.identifier], is_written=True),)
        }
        if not new_facts:
            return
        changed = [change for change in self.changes if change.kind == "table" and change.identifier in new_facts]
        names = {name for change in changed for name in (change.identifier, change.moved_from) if name is not None}
        live = {table.id: table for table in tables.named(names)}
        self.changes = [
            change for change in self.changes if change.kind == "namespace" or change.identifier not in new_facts
        ]
        context = CatalogContext.of(source)
        for pair in pairs(context.moves, {identifier: blocks[identifier] for identifier in new_facts}, live):
            self._compare(context, pair, new_facts.get(pair.desired.id) if pair.desired else None)


def entry_columns(change: Change) -> EntryColumns | None:
    """Return the columns that a table's entry shows and should show; None if the change records none.

    Apply checks that the data has the columns to show.
    """
    if change.before is None or change.after is None:
        return None
    shown, to_show = change.before.shown_columns, change.after.shown_columns
    return None if shown is None or to_show is None else EntryColumns(shown, to_show)


@dataclass(slots=True)
class TableComparison:
    """The comparison of some tables of a catalog with their blocks.

    Tables that need no answer are compared at once; the others wait in ``open``. Parts of a catalog can be compared
    apart and merged.

    Args:
        outcomes: those of the compared tables.
        open: the tables that wait for the answers to :meth:`questions`.
        schemas: the schema of each new entry; the catalog says what it cannot show of them.
        missing: the names of blocks that ask for a table and have no entry.
        new: the new tables whose data may be elsewhere, each with its old name (see ``facts.new_names``).
        is_whole: whether one call compares all tables of the catalog.
    """

    outcomes: Outcomes = field(default_factory=Outcomes)
    open: list[OpenTable] = field(default_factory=list)
    schemas: list[Schema] = field(default_factory=list)
    missing: set[Identifier] = field(default_factory=set)
    new: dict[Identifier, Identifier | None] = field(default_factory=dict)
    is_whole: bool = False

    def compare(self, context: CatalogContext, tables: Iterable[TablePair]) -> None:
        """Compare the tables that need no answer, and add the others to ``open``."""
        for pair in tables:
            desired = pair.desired
            if desired is not None and pair.live is None and not desired.absent and desired.refused is None:
                self.missing.add(desired.id)
                self.new.update(new_names([pair], context.select))
            elif desired is None and pair.live is not None and self._may_be_new(context):
                self.outcomes.add_kept(context, pair.live, is_selected=pair.is_in(context.select))
            table = open_table(pair, context.select)
            if table is not None:
                self.open.append(table)
            else:
                self.outcomes.compare(context, pair, None)

    def _may_be_new(self, context: CatalogContext) -> bool:
        """Return whether the plan may make a new table; all blocks come before the tables without one."""
        return bool(self.missing) if self.is_whole else context.has_blocks

    def questions(self) -> Questions:
        """Return what must be known to compare the open tables."""
        return Questions.about(self.open)

    def answer(self, context: CatalogContext, questions: Questions, answers: Answers) -> None:
        """Compare the open tables with the answers to their questions."""
        for question in questions.storage:
            schema = question.table.schema or answers.tables[question.table.id].storage.schema
            if schema is not None and question.present_location is None:
                self.schemas.append(schema)
        for pair in (table.pair for table in self.open):
            name = pair.desired.id if pair.desired is not None else ()
            holder = answers.name_holders.get(name)
            with_holder = pair if holder is None else replace(pair, name_holder=holder)
            self.outcomes.compare(context, with_holder, answers.tables.get(name))
        self.open.clear()

    def merge(self, other: TableComparison) -> None:
        """Add the comparison of other tables of the same catalog."""
        self.outcomes.merge(other.outcomes)
        self.open += other.open
        self.schemas += other.schemas
        self.missing |= other.missing
        self.new.update(other.new)
