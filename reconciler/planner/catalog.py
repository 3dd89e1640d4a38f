"""Plan one catalog: combine its differences and decide what needs all of them.

Single objects are compared in ``tables`` and ``namespaces``; conflicts between changes are found in ``conflicts``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from reconciler.model import ownership
from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable, Origin
from reconciler.model.live import LIST_OF_OBJECTS, UNKNOWN_FEATURES, LiveNamespace, LiveTable
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode, Why
from reconciler.planner.comparison import Outcomes, TableComparison
from reconciler.planner.conflicts import resolve
from reconciler.planner.entries import Action, Blocked, Change, Fingerprint, Key, Kind
from reconciler.planner.facts import Answers, CatalogInput, LiveTables
from reconciler.planner.mirrors import MirroredTables
from reconciler.planner.moves import pairs
from reconciler.planner.namespaces import diff_namespace
from reconciler.planner.notes import notes_on, notes_on_renames
from reconciler.planner.outcome import CatalogContext, change_of
from reconciler.planner.plan import CatalogSummary
from reconciler.planner.views import ObjectView, view_of

_WHY_LEFTOVER = Why(ReasonCode.LEFTOVER)


@dataclass(slots=True)
class CatalogPlan:
    """The plan of one catalog, not yet ordered."""

    summary: CatalogSummary
    outcomes: Outcomes
    fingerprints: list[Fingerprint]


def plan_catalog(source: CatalogInput, answers: Answers) -> CatalogPlan:
    """Return the plan of one catalog whose answers are all known, in time linear in the number of objects."""
    context, compared = CatalogContext.of(source), TableComparison(is_whole=True)
    compared.compare(context, pairs(context.moves, source.desired.tables, source.live.tables, source.live.name_holders))
    compared.answer(context, compared.questions(), answers)
    return conclude(source, compared.outcomes, compare_namespaces(source), LiveTables(source.live.tables))


def conclude(source: CatalogInput, outcomes: Outcomes, namespaces: Outcomes, tables: LiveTables) -> CatalogPlan:
    """Return the plan of a catalog whose objects have been compared.

    Args:
        source: the catalog; its live tables are not read.
        outcomes: those of all its tables.
        namespaces: those of :func:`compare_namespaces`.
        tables: answers questions about the live tables as a whole.
    """
    outcomes.merge(namespaces)
    context = CatalogContext.of(source)
    outcomes.compare_again(source, tables)
    outcomes.blocked = {**dict(_damaged_entries(source, context)), **outcomes.blocked}
    outcomes.changes.sort(key=lambda change: (change.identifier, change.kind))
    if source.mirrored is not None:
        outcomes.changes = [
            _with_followed_table(source.mirrored, source.desired, change) for change in outcomes.changes
        ]
    object_list = next((live for live in source.facts.leftovers if live.id == LIST_OF_OBJECTS), None)
    is_read_only = object_list is not None and UNKNOWN_FEATURES in object_list.properties
    if object_list is not None and is_read_only and (outcomes.changes or outcomes.drops):
        blocked = _read_only_entry(context, object_list)
        outcomes.blocked[blocked.key] = blocked
    resolve(source, outcomes, tables)
    summary = _summary(source, outcomes, context)
    outcomes.notes += [*notes_on(source, outcomes.remarks), *notes_on_renames(source, outcomes)]
    fingerprints = [*_fingerprints(source, context, outcomes)]
    leftovers = [] if is_read_only else [*_leftover_removals(source, context)]
    if object_list is not None and not is_read_only and (outcomes.changes or leftovers):
        before = view_of(object_list, object_list.properties, None)
        why = Why(ReasonCode.CATALOG_CLEANUP)
        leftovers.append(change_of(context, Action.UPDATE_NAMESPACE, object_list.id, before, ObjectView(), why))
    for change in leftovers:
        outcomes.changes.append(change)
        fingerprints += _fingerprints_of(change)
    return CatalogPlan(summary, outcomes, fingerprints)


def _with_followed_table(mirrored: MirroredTables, desired: DesiredCatalog, change: Change) -> Change:
    """Return ``change``; a removal with the source table that it follows, if it mirrors one."""
    if change.action is not Action.DEREGISTER_TABLE or desired.mirror is None:
        return change
    origin = next(iter(mirrored.origins_of(change.identifier)), None)
    if origin is None:
        return change
    return change.model_copy(update={"mirror_of": Origin(desired.mirror.origin, origin)})


def _leftover_removals(source: CatalogInput, context: CatalogContext) -> Iterator[Change]:
    """Yield the removals of entries that interrupted runs of lancens left.

    Nobody owns these: ``prune``, ``protect`` and the removal limits do not apply. Their parents may be unread. A block
    that wants an object of this name and kind creates it in the entry's place.
    """
    for live in source.facts.leftovers:
        if live.id == LIST_OF_OBJECTS:
            continue
        blocks: Mapping[Identifier, DesiredNamespace | DesiredTable] = (
            source.desired.tables if isinstance(live, LiveTable) else source.desired.namespaces
        )
        block = blocks.get(live.id)
        if (block is None or block.absent) and source.options.select.contains(live.id):
            before = view_of(live, (), context.capabilities.safeguard)
            action = Action.DEREGISTER_TABLE if isinstance(live, LiveTable) else Action.DROP_NAMESPACE
            yield change_of(context, action, live.id, before, None, _WHY_LEFTOVER)


def _damaged_entries(source: CatalogInput, context: CatalogContext) -> Iterator[tuple[Key, Blocked]]:
    """Yield the blocked entries of this manifest's tables whose catalog entries are damaged, by key.

    A scan leaves damaged entries out.
    """
    for identifier, entry in sorted(source.live.odd.items()):
        if ownership.is_same_owner(entry.owner, context.owner) and context.select.contains(identifier):
            blocked = Blocked(
                catalog=context.catalog,
                kind="table",
                identifier=identifier,
                code=ReasonCode.ENTRY_DAMAGED,
                params={"detail": entry.reason},
                held_by=entry.reason,
            )
            yield blocked.key, blocked


def _read_only_entry(context: CatalogContext, live: LiveNamespace | LiveTable) -> Blocked:
    """Return the blocked entry of a catalog that lancens cannot change; all its changes wait for it."""
    flags = live.properties[UNKNOWN_FEATURES]
    return Blocked(
        catalog=context.catalog,
        kind="namespace",
        identifier=live.id,
        code=ReasonCode.CATALOG_TOO_NEW,
        params={"key": UNKNOWN_FEATURES, "value": flags},
        before=view_of(live, live.properties, None),
    )


def _fingerprints_of(entry: Change | Blocked, *, occupied: bool = False) -> Iterator[Fingerprint]:
    """Yield the recorded state of an object; for a move, the states of both names."""
    here, origin, after = entry.before, None, None
    if isinstance(entry, Blocked):
        origin = entry.moved
    else:
        after = entry.after
        if entry.moved_from is not None:
            here, origin = entry.found, entry.before
    subject, secret = (entry.catalog, entry.kind), entry.secret_keys
    keys = _managed_keys(here, after)
    yield Fingerprint.of(*subject, entry.identifier, here, keys, secret_keys=secret, occupied=occupied)
    if entry.moved_from is not None:
        keys = _managed_keys(origin, after)
        yield Fingerprint.of(*subject, entry.moved_from, origin, keys, secret_keys=secret, moved_to=entry.identifier)


def _managed_keys(*views: ObjectView | None) -> frozenset[str]:
    return frozenset(key for view in views if view is not None for key in view.properties)


def _summary(source: CatalogInput, outcomes: Outcomes, context: CatalogContext) -> CatalogSummary:
    """Return the counts of a catalog: what was read, and what the plan removes."""
    removed = [change for change in outcomes.changes if change.action is Action.DEREGISTER_TABLE]
    recreated = [change for change in outcomes.changes if change.recreates]
    untagged = [change for change in outcomes.changes if change.removes_tags]
    mirrored, mirror = source.mirrored, source.desired.mirror
    unmirrored = (change for change in removed if mirror and change.before and change.before.follows(mirror.origin))
    blocks = len(source.desired.tables) + len(source.desired.namespaces)
    return CatalogSummary(
        name=source.desired.name,
        impl=source.impl,
        namespaces=len(source.live.namespaces),
        removed_tables=_count_removable(context, removed),
        untagged_tables=_count_removable(context, untagged),
        recreated_tables=_count_removable(context, recreated),
        desired_objects=mirrored.own if mirrored else blocks,
        mirrored_tables=mirrored.tables if mirrored else None,
        unmirrored_tables=sum(1 for _ in unmirrored),
        service=source.service,
        tables=outcomes.counts["tables"],
        removable_tables=outcomes.counts["removable_tables"],
        unnamed_tables=outcomes.counts["unnamed_tables"],
        unmanaged_tables=outcomes.counts["unmanaged_tables"],
    )


def _count_removable(context: CatalogContext, changes: Iterable[Change]) -> int:
    """Return the number of changes whose table pruning may remove."""
    owners = ((change.identifier, change.before.managed_by if change.before else None) for change in changes)
    return sum(context.is_removable(*owner) for owner in owners)


def compare_namespaces(source: CatalogInput, among: Collection[Identifier] | None = None) -> Outcomes:
    """Return the outcomes for the namespaces of a catalog; no table and no fact is needed.

    Args:
        source: the catalog.
        among: the blocks to compare; all of them by default.
    """
    context, outcomes = CatalogContext.of(source), Outcomes()
    blocks, live = source.desired.namespaces, source.live.namespaces
    select, moves = context.select, context.moves
    parents = {identifier[:-1] for identifier in blocks}
    tables = source.desired.tables.values() if context.capabilities.namespace_kinds else ()
    homes = {table.id[:-1] for table in tables if not table.absent}
    needed = _needed_ancestors(source.desired, context)
    for identifier in blocks if among is None else among:
        desired, existing = blocks.get(identifier), live.get(identifier)
        if desired is None:
            continue
        if select.contains(identifier) or (identifier in needed and existing is None and not desired.absent):
            holds: list[Kind] = ["namespace"] if identifier in parents else []
            holds += ["table"] if identifier in homes else []
            before = moves.namespace_origin_of(identifier) if moves else None
            origin = live.get(before) if before is not None and before not in blocks else None
            outcomes.add(diff_namespace(context, desired, existing, holds=holds, origin=origin))
    for identifier, namespace in live.items():
        if identifier in blocks or not context.scope.contains(identifier):
            continue
        target = moves.namespace_target_of(identifier) if moves else None
        target_block = blocks.get(target) if target is not None else None
        if target_block is not None and target_block.absent:
            target_block = None
        moves_away = target_block is not None and select.contains(target_block.id)
        if select.contains(identifier) or (moves_away and not select.excludes(identifier)):
            outcomes.add(diff_namespace(context, None, namespace, renamed_to=target_block))
    return outcomes


def _needed_ancestors(desired: DesiredCatalog, context: CatalogContext) -> frozenset[Identifier]:
    """Return the namespaces above selected blocks, to be created with them; none if all is selected."""
    select, moves = context.select, context.moves
    if select.is_everything:
        return frozenset()

    def is_selected(block: DesiredNamespace | DesiredTable) -> bool:
        if select.contains(block.id) or select.excludes(block.id):
            return select.contains(block.id)
        origin = moves.origin_of(block.id) if moves and isinstance(block, DesiredTable) else None
        return origin is not None and select.contains(origin[0])

    blocks: Iterable[DesiredNamespace | DesiredTable] = chain(desired.tables.values(), desired.namespaces.values())
    return frozenset(
        block.id[:depth]
        for block in blocks
        if not block.absent and is_selected(block)
        for depth in range(1, len(block.id))
    )


def _fingerprints(source: CatalogInput, context: CatalogContext, outcomes: Outcomes) -> Iterator[Fingerprint]:
    """Yield each state once: of objects in the plan, in their way, and of parents.

    States without a change of their own keep everything they were compared by, so the plan shows why there is none.
    """
    states = [
        state
        for entry in outcomes.entries
        if not _is_only_refused(source.desired, entry)
        for state in _fingerprints_of(
            entry, occupied=entry.kind == "namespace" and entry.identifier in outcomes.occupied
        )
    ]
    touched = {(state.kind, state.identifier) for state in states}
    yield from states
    parents = {state.identifier[:-1] for state in states if len(state.identifier) > 1}
    neighbours: dict[tuple[Kind, Identifier], LiveNamespace | LiveTable | None] = {
        ("namespace", parent): source.live.namespaces.get(parent) for parent in parents
    }
    namespaces, moves = source.live.namespaces, context.moves
    for kind, identifier in touched if moves else ():
        origin = moves.namespace_origin_of(identifier) if kind == "namespace" else None
        if origin is not None and origin in namespaces:
            neighbours["namespace", origin] = namespaces[origin]
    for live in outcomes.obstacles.values():
        neighbours["table" if isinstance(live, LiveTable) else "namespace", live.id] = live
    for key in sorted(neighbours.keys() - touched):
        kind, identifier = key
        occupied = kind == "namespace" and identifier in outcomes.occupied
        yield fingerprint_of(source, context, kind, identifier, neighbours[key], occupied=occupied)


def _is_only_refused(desired: DesiredCatalog, entry: Change | Blocked) -> bool:
    """Return whether a mirror asks for a table that is refused and does not exist.

    No such table may be possible; the source table's state says everything.
    """
    if not isinstance(entry, Blocked) or entry.kind == "namespace":
        return False
    block = desired.tables.get(entry.identifier)
    return block is not None and block.refused is not None and entry.before is None and entry.moved is None


def fingerprint_of(
    source: CatalogInput,
    context: CatalogContext,
    kind: Kind,
    identifier: Identifier,
    live: LiveNamespace | LiveTable | None,
    *,
    occupied: bool = False,
) -> Fingerprint:
    """Return the fingerprint of an object without a change."""
    blocks: Mapping[Identifier, DesiredNamespace | DesiredTable] = (
        source.desired.tables if kind == "table" else source.desired.namespaces
    )
    block = blocks.get(identifier)
    if block is None and kind == "table" and (policy := context.policies.of(identifier)) is not None:
        block = policy.block
    keys = {*(block.properties if block else ()), *(ownership.recorded_keys(live.properties) if live else ())}
    view = context.view(block, live)
    secret = {*(block.secret_keys if block else ()), *(view.secret_keys if view else ())}
    return Fingerprint.of(source.desired.name, kind, identifier, view, keys, secret_keys=secret, occupied=occupied)
