"""The plan of one catalog: every object's difference, and what only the whole can decide.

Most is decided object by object, in ``tables`` and ``namespaces``, and the rest in ``settling``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable, Origin
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Identifier, Scope
from reconciler.model.ownership import recorded_keys
from reconciler.model.reasons import ReasonCode, Why
from reconciler.planner.comparison import Comparison, Outcomes, compare_tables, compare_written, comparison_of
from reconciler.planner.entries import Action, Blocked, Change, Fingerprint, Kind, Note, Protection
from reconciler.planner.facts import CatalogInput
from reconciler.planner.live_tables import LiveTables, TablesInMemory
from reconciler.planner.mirrors import Mirrored
from reconciler.planner.moves import moves_of
from reconciler.planner.namespaces import Holds, diff_namespace
from reconciler.planner.notes import notes_on
from reconciler.planner.outcome import CatalogContext, Outcome, change_of
from reconciler.planner.plan import CatalogSummary
from reconciler.planner.renames import notes_on_renames
from reconciler.planner.settling import settle
from reconciler.planner.views import view_of

_LEFTOVER = Why(ReasonCode.LEFTOVER)


@dataclass(slots=True)
class CatalogPlan:
    """What planning one catalog came to; nothing is in order yet."""

    summary: CatalogSummary
    changes: list[Change]
    blocked: list[Blocked]
    waiting: list[Change]
    guards: list[Protection]
    notes: list[Note] = field(default_factory=list)
    fingerprints: list[Fingerprint] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ComparedNamespaces:
    """What comparing the namespaces of a catalog came to.

    ``drops`` are those that the manifest wants gone: they go if they are empty, so what they hold has to be known (see
    ``Facts.occupants``). ``outcomes`` are the others.
    """

    outcomes: Sequence[Outcome]
    drops: Sequence[Change]


def compare_namespaces(source: CatalogInput, among: Collection[Identifier] | None = None) -> ComparedNamespaces:
    """Return how the namespaces of a catalog differ; neither its tables nor the facts are looked at.

    Args:
        source: the catalog.
        among: the blocks to compare; all of them, unless given.
    """
    outcomes: list[Outcome] = []
    drops: list[Change] = []
    for outcome in _namespace_outcomes(source, comparison_of(source).context, among):
        if isinstance(outcome, Change) and outcome.action is Action.DROP_NAMESPACE:
            drops.append(outcome)
        else:
            outcomes.append(outcome)
    return ComparedNamespaces(outcomes, drops)


def plan_catalog(source: CatalogInput, namespaces: ComparedNamespaces) -> CatalogPlan:
    """Return what has to happen in one catalog. Takes time linear in the number of objects."""
    tables = TablesInMemory(source.live.tables, source.facts.places)
    return conclude(source, compare_tables(source), namespaces, tables)


def conclude(
    source: CatalogInput, outcomes: Outcomes, namespaces: ComparedNamespaces, tables: LiveTables
) -> CatalogPlan:
    """Return the plan of a catalog whose objects have been compared.

    Args:
        source: the catalog; its live tables and the facts about tables are not looked at.
        outcomes: what comparing all its tables came to; what its namespaces came to is added.
        namespaces: what comparing its namespaces came to.
        tables: answers what the plan needs to know of the live tables as a whole.
    """
    comparison = comparison_of(source)
    compare_written(source, outcomes, tables)
    for outcome in namespaces.outcomes:
        outcomes.add(outcome)
    outcomes.changes.sort(key=lambda change: (change.identifier, change.kind))
    if source.mirrored is not None:
        outcomes.changes = [_following(source.mirrored, source.desired, change) for change in outcomes.changes]
    settle(source, outcomes, namespaces.drops, tables)
    leftovers = list(_leftovers(source))
    return CatalogPlan(
        summary=_summary(source, outcomes, comparison),
        changes=[*outcomes.changes, *leftovers],
        blocked=[*outcomes.blocked.values()],
        waiting=outcomes.waiting,
        guards=outcomes.guards,
        notes=[
            *outcomes.notes,
            *notes_on(source, outcomes.remarks),
            *notes_on_renames(source, outcomes),
        ],
        fingerprints=[*_fingerprints(source, comparison, outcomes), *chain.from_iterable(map(_states, leftovers))],
    )


def _following(mirrored: Mirrored, desired: DesiredCatalog, change: Change) -> Change:
    """Return a change with what it follows in another catalog: a removal has no block that says it."""
    if change.action is not Action.DEREGISTER_TABLE or desired.mirror is None:
        return change
    origin = next(iter(mirrored.origins_of(change.identifier)), None)
    if origin is None:
        return change
    return change.model_copy(update={"mirror_of": Origin(desired.mirror.origin, origin)})


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
            yield change_of(context, action, live.id, before, None, _LEFTOVER)


def _states(one: Change | Blocked, *, occupied: bool = False) -> Iterator[Fingerprint]:
    """Yield the state in which an object was when the plan was made; of one that is moved, that of both its names."""
    here, origin, keys = one.before, None, one.managed_keys
    if isinstance(one, Blocked):
        origin = one.moved
    elif one.moved_from is not None:
        here, origin = one.found, one.before
        keys = frozenset(key for view in (here, one.after) if view is not None for key in view.properties)
    secret = one.secret_keys
    yield Fingerprint.of(one.catalog, one.kind, one.identifier, here, keys, secret_keys=secret, occupied=occupied)
    if one.moved_from is not None:
        keys = one.managed_keys if isinstance(one, Change) else frozenset(origin.properties if origin else ())
        yield Fingerprint.of(
            one.catalog,
            one.kind,
            one.moved_from,
            origin,
            keys,
            secret_keys=secret,
            moved_to=one.identifier,
        )


def _summary(source: CatalogInput, outcomes: Outcomes, comparison: Comparison) -> CatalogSummary:
    """Return what was read, and how much of what may be removed would be."""
    removed = [change for change in outcomes.changes if change.action is Action.DEREGISTER_TABLE]
    owners = ((change.identifier, change.before.managed_by if change.before else None) for change in removed)
    mirrored, mirror = source.mirrored, source.desired.mirror
    unmirrored = (change for change in removed if mirror and change.before and change.before.mirror == mirror.origin)
    return CatalogSummary(
        name=source.desired.name,
        impl=source.impl,
        namespaces=len(source.live.namespaces),
        tables=outcomes.tables,
        removable_tables=outcomes.removable_tables,
        removed_tables=sum(1 for one in owners if comparison.is_removable(*one)),
        unnamed_tables=outcomes.unnamed_tables,
        unmanaged_tables=outcomes.unmanaged_tables,
        desired_objects=mirrored.own if mirrored else _blocks(source),
        mirrored_tables=mirrored.tables if mirrored else None,
        unmirrored_tables=sum(1 for _ in unmirrored),
        service=source.service,
    )


def _blocks(source: CatalogInput) -> int:
    return len(source.desired.tables) + len(source.desired.namespaces)


def _namespace_outcomes(
    source: CatalogInput, context: CatalogContext, among: Collection[Identifier] | None = None
) -> Iterator[Outcome]:
    blocks, live = source.desired.namespaces, source.live.namespaces
    select = source.options.select
    parents = {identifier[:-1] for identifier in blocks}
    homes = _homes(source.desired) if context.capabilities.namespace_kinds else frozenset[Identifier]()
    needed, moves = _needed_ancestors(source.desired, select), moves_of(source.desired)
    for identifier in blocks if among is None else among:
        desired, there = blocks.get(identifier), live.get(identifier)
        if desired is None:
            continue
        if select.contains(identifier) or (identifier in needed and there is None and not desired.absent):
            holds = Holds(namespaces=identifier in parents, tables=identifier in homes)
            before = moves.namespace_origin_of(identifier) if moves else None
            origin = live.get(before) if before is not None and before not in blocks else None
            yield diff_namespace(context, desired, there, holds, origin=origin)
    scope = source.desired.scope
    for identifier, namespace in live.items():
        if identifier in blocks or not scope.contains(identifier):
            continue
        target = moves.namespace_target_of(identifier) if moves else None
        wanted = blocks.get(target) if target is not None else None
        if wanted is not None and wanted.absent:
            wanted = None
        if select.contains(identifier) or (wanted is not None and select.contains(wanted.id)):
            yield diff_namespace(context, None, namespace, renamed_to=wanted)


def _homes(desired: DesiredCatalog) -> frozenset[Identifier]:
    """Return the namespaces that the manifest puts tables into."""
    return frozenset(identifier[:-1] for identifier, table in desired.tables.items() if not table.absent)


def _needed_ancestors(desired: DesiredCatalog, select: Scope) -> frozenset[Identifier]:
    """Return the ancestors of what is selected and should exist; none where everything is selected anyway."""
    if select.is_everything:
        return frozenset()
    moves = moves_of(desired)

    def is_selected(block: DesiredNamespace | DesiredTable) -> bool:
        if select.contains(block.id):
            return True
        found = moves.origin_of(block.id) if moves and isinstance(block, DesiredTable) else None
        return found is not None and select.contains(found[0])

    blocks: Iterable[DesiredNamespace | DesiredTable] = chain(desired.tables.values(), desired.namespaces.values())
    return frozenset(
        block.id[:depth]
        for block in blocks
        if not block.absent and is_selected(block)
        for depth in range(1, len(block.id))
    )


def _fingerprints(source: CatalogInput, comparison: Comparison, settled: Outcomes) -> Iterator[Fingerprint]:
    """Yield the state of every object that the plan is about, of what is in its way and of the parents, each once.

    Of the last two all is kept that they were compared by, so that why they have no change themselves can be seen from
    the plan.
    """
    blocked = (one for one in settled.blocked.values() if not _is_only_refused(source.desired, one))
    entries: list[Change | Blocked] = [*settled.changes, *settled.waiting, *blocked]
    states = [
        state
        for one in entries
        for state in _states(one, occupied=one.kind == "namespace" and one.identifier in settled.occupied)
    ]
    touched = {(one.kind, one.identifier) for one in states}
    yield from states
    parents = {one.identifier[:-1] for one in states if len(one.identifier) > 1}
    others: dict[tuple[Kind, Identifier], LiveNamespace | LiveTable | None] = {
        ("namespace", parent): source.live.namespaces.get(parent) for parent in parents
    }
    namespaces, moves = source.live.namespaces, moves_of(source.desired)
    for kind, identifier in touched if moves else ():
        origin = moves.namespace_origin_of(identifier) if kind == "namespace" else None
        if origin is not None and origin in namespaces:
            others["namespace", origin] = namespaces[origin]
    for one in settled.in_the_way.values():
        others["table" if isinstance(one, LiveTable) else "namespace", one.id] = one
    for key in sorted(others.keys() - touched):
        kind, identifier = key
        occupied = kind == "namespace" and identifier in settled.occupied
        yield standing(source, comparison, kind, identifier, others[key], occupied=occupied)


def _is_only_refused(desired: DesiredCatalog, one: Blocked) -> bool:
    """Return whether a table that is blocked is one that a mirror asks for in vain, and that is not there.

    There may be no table of such a name at all; what it follows tells all that has to be known.
    """
    block = desired.tables.get(one.identifier) if one.kind == "table" else None
    return block is not None and block.refused is not None and one.before is None and one.moved is None


def standing(
    source: CatalogInput,
    comparison: Comparison,
    kind: Kind,
    identifier: Identifier,
    live: LiveNamespace | LiveTable | None,
    *,
    occupied: bool = False,
) -> Fingerprint:
    """Return the state of an object that has no change, with all that it was compared by."""
    blocks: Mapping[Identifier, DesiredNamespace | DesiredTable] = (
        source.desired.tables if kind == "table" else source.desired.namespaces
    )
    block = blocks.get(identifier)
    keys = {*(block.properties if block else ()), *(recorded_keys(live.properties) if live else ())}
    view = comparison.context.view(block, live)
    secret = {*(block.secret_keys if block else ()), *(view.secret_keys if view else ())}
    return Fingerprint.of(source.desired.name, kind, identifier, view, keys, secret_keys=secret, occupied=occupied)
