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
from reconciler.ownership import owner_of, recorded_keys
from reconciler.planner.facts import CatalogInput
from reconciler.planner.namespaces import Holds, diff_namespace
from reconciler.planner.notes import notes_on
from reconciler.planner.outcome import Conflict, Context, Outcome, Remark
from reconciler.planner.plan import Action, CatalogSummary, Change, Fingerprint, Guard, Kind, Note, view_of
from reconciler.planner.tables import diff_table
from reconciler.state import DesiredCatalog, DesiredNamespace, DesiredTable, LiveTable, Prune, Snapshot

__all__ = ["CatalogPlan", "context_of", "droppable_namespaces", "plan_catalog"]


@dataclass(slots=True)
class CatalogPlan:
    """What planning one catalog came to; changes are in no particular order yet."""

    source: CatalogInput
    changes: list[Change] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    fingerprints: list[Fingerprint] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Sort an outcome to where it belongs."""
        if outcome is None:
            return
        if isinstance(outcome, Change):
            self.changes.append(outcome)
        elif isinstance(outcome, Guard):
            self.guards.append(outcome)
        elif isinstance(outcome, Conflict):
            self.conflicts.append(outcome.message)
        else:
            self.remarks.append(outcome)

    def summary(self) -> CatalogSummary:
        """Return what was read, and how much of what may be removed would be."""
        desired, live = self.source.desired, self.source.live
        kept = self.source.capabilities.table_markers
        removable = {table.id for table in live.tables.values() if _is_removable(desired, table, kept)}
        removed = {change.identifier for change in self.changes if change.action is Action.DEREGISTER_TABLE}
        return CatalogSummary(
            name=desired.name,
            impl=self.source.impl,
            namespaces=len(live.namespaces),
            tables=len(live.tables),
            removable_tables=len(removable),
            removed_tables=len(removable & removed),
            desired_objects=len(desired.tables) + len(desired.namespaces),
            service=self.source.service,
        )


def context_of(source: CatalogInput) -> Context:
    """Return what is the same for every object of the catalog."""
    return Context(
        catalog=source.desired.name,
        owner=source.desired.owner,
        prune=source.desired.prune,
        capabilities=source.capabilities,
        adopt=source.options.adopt,
        take_over=source.options.take_over,
    )


def droppable_namespaces(source: CatalogInput) -> list[Identifier]:
    """Return the live namespaces that the manifest wants gone, so that what they hold can be asked for."""
    context = context_of(source)
    return [
        outcome.identifier
        for outcome in _namespace_outcomes(source, context)
        if isinstance(outcome, Change) and outcome.action is Action.DROP_NAMESPACE
    ]


def plan_catalog(source: CatalogInput) -> CatalogPlan:
    """Return what has to happen in one catalog. Takes time linear in the number of objects."""
    context = context_of(source)
    plan = CatalogPlan(source)
    for outcome in _table_outcomes(source, context):
        plan.add(outcome)
    candidates: list[Change] = []
    for outcome in _namespace_outcomes(source, context):
        if isinstance(outcome, Change) and outcome.action is Action.DROP_NAMESPACE:
            candidates.append(outcome)
        else:
            plan.add(outcome)
    _decide_drops(source, plan, candidates)
    plan.conflicts += _shared_locations(plan.changes, source.live)
    plan.conflicts += _namesakes(source, plan.changes)
    plan.notes += notes_on(source, plan.remarks)
    plan.fingerprints += _fingerprints(source, plan.changes)
    return plan


def _table_outcomes(source: CatalogInput, context: Context) -> Iterator[Outcome]:
    wanted, live, facts = source.desired.tables, source.live.tables, source.facts.tables
    select = source.options.select
    for identifier, desired in wanted.items():
        if select.contains(identifier):
            yield diff_table(context, desired, live.get(identifier), facts.get(identifier))
    scope = source.desired.scope
    for identifier, table in live.items():
        if identifier not in wanted and scope.contains(identifier) and select.contains(identifier):
            yield diff_table(context, None, table)


def _namespace_outcomes(source: CatalogInput, context: Context) -> Iterator[Outcome]:
    wanted, live = source.desired.namespaces, source.live.namespaces
    select = source.options.select
    parents = {identifier[:-1] for identifier in wanted}
    homes = _homes(source.desired) if context.capabilities.namespace_kinds else frozenset[Identifier]()
    needed = _needed_ancestors(source.desired, select)
    for identifier, desired in wanted.items():
        there = live.get(identifier)
        if select.contains(identifier) or (identifier in needed and there is None and not desired.absent):
            holds = Holds(namespaces=identifier in parents, tables=identifier in homes)
            yield diff_namespace(context, desired, there, holds)
    scope = source.desired.scope
    for identifier, namespace in live.items():
        if identifier not in wanted and scope.contains(identifier) and select.contains(identifier):
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


def _decide_drops(source: CatalogInput, plan: CatalogPlan, candidates: list[Change]) -> None:
    """Keep the drops of namespaces that will be empty; say of the others why they stay."""
    leaving = {change.identifier for change in plan.changes if change.action is Action.DEREGISTER_TABLE}
    arriving = [change.identifier for change in plan.changes if change.before is None]
    held: Counter[Identifier] = Counter()
    for identifier in source.live.tables:
        if identifier not in leaving:
            held[identifier[:-1]] += 1
    for identifier in arriving:
        held[identifier[:-1]] += 1
    children: defaultdict[Identifier, set[Identifier]] = defaultdict(set)
    for identifier in source.live.namespaces:
        children[identifier[:-1]].add(identifier)
    for change in sorted(candidates, key=lambda change: (-len(change.identifier), change.identifier)):
        identifier = change.identifier
        occupants = source.facts.occupants.get(identifier, ())
        staying = held[identifier] + len(children[identifier]) + len(occupants)
        if staying:
            some = f", among them {', '.join(f'`{name}`' for name in sorted(occupants)[:3])}" if occupants else ""
            what = "object that stays" if staying == 1 else "objects that stay"
            message = f"{change.address} is kept: it holds {staying} {what}{some}"
            plan.notes.append(Note(catalog=change.catalog, message=message))
        else:
            plan.changes.append(change)
            children[identifier[:-1]].discard(identifier)


def _shared_locations(changes: Iterable[Change], live: Snapshot) -> Iterator[str]:
    """Yield a conflict for every location where a dataset would be written that something else points at as well."""
    changes = list(changes)
    touched = {change.identifier for change in changes if change.kind == "table"}
    created = {
        locations.normalise(change.after.location): change
        for change in changes
        if change.action is Action.CREATE_TABLE and change.after and change.after.location
    }
    if created:
        for table in live.tables.values():
            change = created.get(locations.normalise(table.location))
            if change is not None and table.id not in touched:
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


def _namesakes(source: CatalogInput, changes: Sequence[Change]) -> Iterator[str]:
    """Yield a conflict for every new object whose name a live one of the other kind keeps, where both share names."""
    if not source.capabilities.one_name_space:
        return
    leaving = {(change.kind, change.identifier) for change in changes if change.action.removes}
    for change in changes:
        if change.before is not None:
            continue
        is_table = change.kind == "table"
        others: Collection[Identifier] = source.live.namespaces if is_table else source.live.tables
        kind: Kind = "namespace" if is_table else "table"
        if change.identifier in others and (kind, change.identifier) not in leaving:
            yield f"{change.source}: {change.address} cannot be a {change.kind}: a {kind} has the name"


def _fingerprints(source: CatalogInput, changes: Iterable[Change]) -> Iterator[Fingerprint]:
    """Yield the state of every object the plan touches, and of the parents it relies on, each once."""
    changes = list(changes)
    catalog = source.desired.name
    touched = {(change.kind, change.identifier) for change in changes}
    parents: set[Identifier] = set()
    for change in changes:
        yield Fingerprint.of(catalog, change.kind, change.identifier, change.before, change.managed_keys)
        if len(change.identifier) > 1 and ("namespace", change.identifier[:-1]) not in touched:
            parents.add(change.identifier[:-1])
    for parent in sorted(parents):
        live = source.live.namespaces.get(parent)
        keys = recorded_keys(live.properties) if live else frozenset[str]()
        yield Fingerprint.of(catalog, "namespace", parent, view_of(live, keys), keys)


def _is_removable(desired: DesiredCatalog, table: LiveTable, kept: bool) -> bool:
    """Return whether pruning may touch the table at all, wanted or not; ``kept``: can the catalog keep marks?"""
    if not kept or desired.prune is Prune.NEVER or not desired.scope.contains(table.id):
        return False
    return desired.prune is Prune.ALL or owner_of(table.properties) == desired.owner
