"""The plan of one catalog: every object's difference, and what only the whole can decide.

Whether a namespace can be dropped depends on everything below it, and two tables may ask for one location; the rest
is decided object by object in ``tables`` and ``namespaces``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from reconciler import locations
from reconciler.names import Identifier, Scope, address
from reconciler.ownership import recorded_keys
from reconciler.planner.comparison import Outcomes, compare_tables, comparison_of
from reconciler.planner.facts import CatalogInput
from reconciler.planner.live_tables import LiveTables, TablesInMemory
from reconciler.planner.namespaces import Holds, diff_namespace
from reconciler.planner.notes import notes_on
from reconciler.planner.outcome import Context, Outcome, change_of
from reconciler.planner.plan import Action, CatalogSummary, Change, Fingerprint, Guard, Kind, Note, view_of
from reconciler.state import DesiredCatalog, DesiredNamespace, DesiredTable, LiveTable

__all__ = ["LEFTOVER", "CatalogPlan", "conclude", "droppable_namespaces", "plan_catalog"]

LEFTOVER = "left by an earlier or interrupted run of lancens; nobody's data goes with it"


@dataclass(slots=True)
class CatalogPlan:
    """What planning one catalog came to; nothing is in order yet."""

    summary: CatalogSummary
    changes: list[Change]
    guards: list[Guard]
    conflicts: list[str]
    notes: list[Note] = field(default_factory=list)
    fingerprints: list[Fingerprint] = field(default_factory=list)


def droppable_namespaces(source: CatalogInput) -> list[Identifier]:
    """Return the live namespaces that the manifest wants gone, so that what they hold can be asked for."""
    return [
        outcome.identifier
        for outcome in _namespace_outcomes(source, comparison_of(source).context)
        if isinstance(outcome, Change) and outcome.action is Action.DROP_NAMESPACE
    ]


def plan_catalog(source: CatalogInput) -> CatalogPlan:
    """Return what has to happen in one catalog. Takes time linear in the number of objects."""
    return conclude(source, compare_tables(source), TablesInMemory(source.live.tables))


def conclude(
    source: CatalogInput, outcomes: Outcomes, tables: LiveTables, among: Collection[Identifier] | None = None
) -> CatalogPlan:
    """Return the plan of a catalog whose tables have been compared.

    Args:
        source: the catalog; its live tables and the facts about tables are not looked at.
        outcomes: what comparing all its tables came to.
        tables: answers what the plan needs to know of the live tables as a whole.
        among: the namespaces to compare; all of them, unless given.
    """
    candidates: list[Change] = []
    for outcome in _namespace_outcomes(source, comparison_of(source).context, among):
        if isinstance(outcome, Change) and outcome.action is Action.DROP_NAMESPACE:
            candidates.append(outcome)
        else:
            outcomes.add(outcome)
    changes = sorted(outcomes.changes, key=lambda change: (change.identifier, change.kind))
    drops, notes = _decide_drops(source, changes, candidates, tables)
    changes += drops
    leftovers = list(_leftovers(source))
    occupied = {change.identifier for change in candidates} - {change.identifier for change in drops}
    conflicts = [*outcomes.conflicts, *_shared_locations(changes, tables), *_namesakes(source, changes, tables)]
    return CatalogPlan(
        summary=_summary(source, outcomes),
        changes=[*changes, *leftovers],
        guards=outcomes.guards,
        conflicts=conflicts,
        notes=[*notes, *notes_on(source, outcomes.remarks)],
        fingerprints=[*_fingerprints(source, changes, occupied), *map(_fingerprint, leftovers)],
    )


def _leftovers(source: CatalogInput) -> Iterator[Change]:
    """Yield the removals of what interrupted runs of lancens left.

    They are nobody's, so neither ``prune`` nor ``protect`` nor the limits on removals are about them; their parents
    need not have been read.
    """
    context = comparison_of(source).context
    named = source.desired.namespaces.keys() | source.desired.tables.keys()
    for live in source.facts.leftovers:
        if live.id not in named and source.options.select.contains(live.id):
            before = view_of(live, (), context.capabilities.safeguard)
            action = Action.DEREGISTER_TABLE if isinstance(live, LiveTable) else Action.DROP_NAMESPACE
            yield change_of(context, action, live.id, before, None, LEFTOVER)


def _fingerprint(change: Change) -> Fingerprint:
    """Return the state of the object of a change when the plan was made."""
    return Fingerprint.of(
        change.catalog,
        change.kind,
        change.identifier,
        change.before,
        change.managed_keys,
        secret_keys=change.secret_keys,
    )


def _summary(source: CatalogInput, outcomes: Outcomes) -> CatalogSummary:
    """Return what was read, and how much of what may be removed would be."""
    return CatalogSummary(
        name=source.desired.name,
        impl=source.impl,
        namespaces=len(source.live.namespaces),
        tables=outcomes.tables,
        removable_tables=outcomes.removable_tables,
        removed_tables=outcomes.removed_tables,
        desired_objects=len(source.desired.tables) + len(source.desired.namespaces),
        service=source.service,
    )


def _namespace_outcomes(
    source: CatalogInput, context: Context, among: Collection[Identifier] | None = None
) -> Iterator[Outcome]:
    blocks, live = source.desired.namespaces, source.live.namespaces
    select = source.options.select
    parents = {identifier[:-1] for identifier in blocks}
    homes = _homes(source.desired) if context.capabilities.namespace_kinds else frozenset[Identifier]()
    needed = _needed_ancestors(source.desired, select)
    for identifier in blocks if among is None else among:
        desired, there = blocks.get(identifier), live.get(identifier)
        if desired is None:
            continue
        if select.contains(identifier) or (identifier in needed and there is None and not desired.absent):
            holds = Holds(namespaces=identifier in parents, tables=identifier in homes)
            yield diff_namespace(context, desired, there, holds)
    scope = source.desired.scope
    for identifier, namespace in live.items():
        if identifier not in blocks and scope.contains(identifier) and select.contains(identifier):
            yield diff_namespace(context, None, namespace)


def _homes(desired: DesiredCatalog) -> frozenset[Identifier]:
    """Return the namespaces that the manifest puts tables into."""
    return frozenset(identifier[:-1] for identifier, table in desired.tables.items() if not table.absent)


def _needed_ancestors(desired: DesiredCatalog, select: Scope) -> frozenset[Identifier]:
    """Return the ancestors of what is selected and should exist; none where everything is selected anyway."""
    if select.is_everything:
        return frozenset()
    blocks: Iterable[DesiredNamespace | DesiredTable] = chain(desired.tables.values(), desired.namespaces.values())
    return frozenset(
        block.id[:depth]
        for block in blocks
        if not block.absent and select.contains(block.id)
        for depth in range(1, len(block.id))
    )


def _decide_drops(
    source: CatalogInput, changes: Sequence[Change], candidates: Collection[Change], tables: LiveTables
) -> tuple[list[Change], list[Note]]:
    """Return the drops of namespaces that will be empty, and of the others why they stay."""
    if not candidates:
        return [], []
    held = Counter(dict(tables.count_in({change.identifier for change in candidates})))
    held.subtract(change.identifier[:-1] for change in changes if change.action is Action.DEREGISTER_TABLE)
    held.update(change.identifier[:-1] for change in changes if change.before is None)
    children: defaultdict[Identifier, set[Identifier]] = defaultdict(set)
    for identifier in source.live.namespaces:
        children[identifier[:-1]].add(identifier)
    drops: list[Change] = []
    notes: list[Note] = []
    for change in sorted(candidates, key=lambda change: (-len(change.identifier), change.identifier)):
        identifier = change.identifier
        occupants = source.facts.occupants.get(identifier, ())
        staying = held[identifier] + len(children[identifier]) + len(occupants)
        if staying:
            some = f", among them {', '.join(f'`{name}`' for name in sorted(occupants)[:3])}" if occupants else ""
            what = "object that stays" if staying == 1 else "objects that stay"
            message = f"{change.address} is kept: it holds {staying} {what}{some}"
            notes.append(Note(catalog=change.catalog, message=message))
        else:
            drops.append(change)
            children[identifier[:-1]].discard(identifier)
    return drops, notes


def _shared_locations(changes: Collection[Change], tables: LiveTables) -> Iterator[str]:
    """Yield a conflict for every location where a dataset would be written that something else points at as well."""
    touched = {change.identifier for change in changes if change.kind == "table"}
    created = {
        locations.normalise(change.after.location): change
        for change in changes
        if change.action is Action.CREATE_TABLE and change.after and change.after.location
    }
    if created:
        for table in tables.at(created):
            change = created[locations.normalise(table.location)]
            if table.id not in touched:
                taken = address(change.catalog, table.id)
                yield f"{change.source}: {change.address} would be written where {taken} is registered"
    arriving: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.kind == "table" and change.after and change.after.location:
            arriving[locations.normalise(change.after.location)].append(change)
    for place, sharing in sorted(arriving.items()):
        written = next((change for change in sharing if change.action is Action.CREATE_TABLE), None)
        for other in sharing:
            if written is not None and other is not written:
                both = f"{other.address} and {written.address} would both be at {locations.redact(place)}"
                yield f"{other.source}: {both}"


def _namesakes(source: CatalogInput, changes: Collection[Change], tables: LiveTables) -> Iterator[str]:
    """Yield a conflict for every new object whose name a live one of the other kind keeps, where both share names."""
    new = [change for change in changes if change.before is None]
    if not source.capabilities.one_name_space or not new:
        return
    leaving = {(change.kind, change.identifier) for change in changes if change.action.removes}
    taken = tables.named({change.identifier for change in new if change.kind == "namespace"})
    for change in new:
        is_table = change.kind == "table"
        others: Collection[Identifier] = source.live.namespaces if is_table else taken
        kind: Kind = "namespace" if is_table else "table"
        if change.identifier in others and (kind, change.identifier) not in leaving:
            yield f"{change.source}: {change.address} cannot be a {change.kind}: a {kind} has the name"


def _fingerprints(
    source: CatalogInput, changes: Collection[Change], occupied: Collection[Identifier]
) -> Iterator[Fingerprint]:
    """Yield the state of every object the plan touches, and of the parents it relies on, each once.

    Of a parent all is kept that it was compared by, so that why it has no change itself can be seen from the plan.
    """
    catalog = source.desired.name
    touched = {(change.kind, change.identifier) for change in changes}
    parents: set[Identifier] = set()
    for change in changes:
        yield _fingerprint(change)
        if len(change.identifier) > 1 and ("namespace", change.identifier[:-1]) not in touched:
            parents.add(change.identifier[:-1])
    for parent in sorted(parents):
        live = source.live.namespaces.get(parent)
        block = source.desired.namespaces.get(parent)
        keys = {*(block.properties if block else ()), *(recorded_keys(live.properties) if live else ())}
        view = view_of(live, keys, None)
        yield Fingerprint.of(
            catalog,
            "namespace",
            parent,
            view,
            keys,
            secret_keys=block.secret_keys if block else (),
            occupied=parent in occupied,
        )
