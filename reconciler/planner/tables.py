"""The difference of one table: desired, live and stored. A pure function, fit for one table or for a million."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model import locations, ownership
from reconciler.model.desired import DesiredTable, Evolve, Prune
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.reasons import NoteCode, Params, ReasonCode, Why
from reconciler.model.redaction import REDACTED, is_hidden
from reconciler.planner.entries import Action, Blocked
from reconciler.planner.facts import TableFacts, has_true_request, is_relocated, is_unanswered
from reconciler.planner.mending import rename_hint
from reconciler.planner.outcome import (
    ABSENT,
    OWNED_BEFORE,
    PRUNED,
    CatalogContext,
    Outcome,
    Remark,
    change_of,
    removal,
    unmarkable,
)
from reconciler.planner.schemas import SchemaDifference, evolved
from reconciler.planner.table_entries import entry_after, touches_entry, with_shown_columns
from reconciler.planner.table_faults import (
    existing_fault,
    found_columns,
    immovable,
    other_columns,
    schema_difference,
    storage_fault,
    unkeepable,
    unreachable,
)
from reconciler.planner.views import ObjectView


def diff_table(
    context: CatalogContext,
    desired: DesiredTable | None,
    live: LiveTable | None,
    facts: TableFacts | None = None,
    held: str = "",
) -> Outcome:
    """Return what has to happen to one table.

    Args:
        context: what is the same for the whole catalog.
        desired: the manifest's block, None where there is none.
        live: the catalog's entry, None where there is none.
        facts: what storage holds, for the tables of ``facts.storage_questions``.
        held: what has the name of a new table, in words; empty where nothing does.
    """
    if desired is None:
        return None if live is None else _unnamed(context, live)
    if desired.absent:
        return None if live is None else _absent(context, desired, live)
    if desired.refused is not None:
        return context.blocked(desired.refused, desired, live, facts)
    if live is None:
        return context.held(held, desired, facts) if held else _new(context, desired, facts)
    if facts is None and _is_settled(context, desired, live):
        return None
    return _existing(context, desired, live, facts)


def _is_settled(context: CatalogContext, desired: DesiredTable, live: LiveTable) -> bool:
    """Decide quickly, without building anything, that an owned table is exactly as its block says."""
    properties = live.properties
    if context.capabilities.table_markers and (
        properties.get(ownership.MANAGED_BY) != context.owner
        or ownership.mirror_of(properties) != (desired.mirrors.catalog if desired.mirrors else None)
        or properties.get(ownership.KEYS, "[]") != ownership.encode_keys(desired.properties, desired.secret_keys)
        or (desired.protect is not None and desired.protect != ownership.is_protected(properties))
    ):
        return False
    for key, value in desired.properties.items():
        if properties.get(key) != value:
            return False
    return context.is_safe(properties) and has_true_request(live) and not is_relocated(desired, live)


def _unnamed(context: CatalogContext, live: LiveTable) -> Outcome:
    """A live table that the manifest does not name."""
    if not context.capabilities.table_markers:
        return None  # nobody can tell whose it is
    owner = ownership.owner_of(live.properties)
    if owner != context.owner:
        if context.prune is not Prune.ALL:
            return Remark(NoteCode.UNMANAGED, live.id) if owner is None and context.prune is Prune.OWNED else None
        if context.is_foreign(live.properties):
            return context.foreign(live)
    elif context.prune is Prune.NEVER:
        return None
    mirror = ownership.mirror_of(live.properties) if owner == context.owner else None
    if mirror is not None and mirror != context.mirror:
        return Remark(NoteCode.MIRRORED_BEFORE, live.id, {"mirror": mirror})
    if mirror is not None:
        why = Why(ReasonCode.MIRROR_ENDED, {"mirror": mirror})
    else:
        why = OWNED_BEFORE if owner == context.owner else PRUNED
    return removal(context, Action.DEREGISTER_TABLE, live, why, None)


def _absent(context: CatalogContext, desired: DesiredTable, live: LiveTable) -> Outcome:
    if context.is_foreign(live.properties):
        return context.foreign(live, desired)
    return removal(context, Action.DEREGISTER_TABLE, live, ABSENT, desired)


def _new(context: CatalogContext, desired: DesiredTable, facts: TableFacts | None) -> Outcome:
    if facts is None:
        raise ValueError(f"{context.address(desired.id)} is planned without looking at its storage")
    if context.capabilities.makes_no_tables:
        refused = Why(ReasonCode.MAKES_NO_TABLES, {"detail": context.capabilities.makes_no_tables})
        return context.blocked(refused, desired, None, facts)
    if facts.location is None and not context.capabilities.places_tables:
        return context.blocked(Why(ReasonCode.NO_DEFAULT_LOCATION), desired, None, facts)
    problem = unkeepable(context, desired) or storage_fault(
        desired, facts, vends=context.capabilities.vends_credentials
    )
    if problem:
        return context.blocked(problem, desired, None, facts)
    after = context.marks(desired, {}, context.capabilities.table_markers).model_copy(
        update={"location": facts.location, "safeguards": context.safeguards({})}
    )
    storage = facts.storage
    if storage.kind is StorageKind.DATASET:
        if context.capabilities.chooses_locations:
            return context.blocked(unreachable(facts), desired, None, facts)
        difference = schema_difference(desired, facts)
        blocking = difference.blocking(Evolve.NEVER, desired.extra_columns)
        if blocking:
            return context.blocked(other_columns(facts, blocking, difference.extra, None), desired, None, facts)
        why = Why(ReasonCode.DATA_FOUND)
        if storage.detail:
            why = Why(ReasonCode.SOURCE_WRITES_DATA, {"name": storage.detail})
        after = after.model_copy(update={"columns": found_columns(desired, facts)})
        return change_of(
            context, Action.REGISTER_TABLE, desired.id, None, after, why, desired=desired, storage=storage.kind
        )
    why = Why(ReasonCode.NEW_WITHOUT_DATA if storage.kind is StorageKind.NOTHING else ReasonCode.NEW_UNPROBED)
    if desired.schema is not None and storage.kind is StorageKind.NOTHING:
        after = after.model_copy(update={"columns": desired.schema})
        return change_of(
            context, Action.CREATE_TABLE, desired.id, None, after, why, desired=desired, storage=storage.kind
        )
    return change_of(
        context,
        Action.DECLARE_TABLE,
        desired.id,
        None,
        after,
        why,
        desired=desired,
        probe=desired.probe,
        storage=storage.kind,
    )


def _existing(context: CatalogContext, desired: DesiredTable, live: LiveTable, facts: TableFacts | None) -> Outcome:
    """A table that is both in the manifest and in the catalog."""
    if context.is_foreign(live.properties):
        return context.foreign(live, desired)
    can_move = context.capabilities.relocate_table
    moved = _is_to_move(desired, live, facts, can_move=can_move)
    fixed = immovable(context, live, can_move=can_move) if moved else None
    if fixed is not None:
        return context.blocked(fixed, desired, live, facts)
    without_data = desired.schema is not None and facts is not None and facts.storage.kind is StorageKind.NOTHING
    difference = schema_difference(desired, facts)
    served_as = live.id if live.managed_versioning else None
    fault = unkeepable(context, desired) or existing_fault(desired, facts, difference, moved=moved, served_as=served_as)
    if fault:
        return context.blocked(fault, desired, live, facts)

    before = context.view(desired, live) or ObjectView()
    after = entry_after(context, desired, live, before, moved=moved)
    before, after = with_shown_columns(context, facts, before, after)
    grows = bool(difference.missing or difference.relaxed)
    if not moved and not without_data and not grows:
        if not touches_entry(before, after):
            return None
        topic = _left_alone(context, before, after)
        if topic is not None:
            return Remark(topic, live.id)
    if without_data and not moved and desired.schema is not None:
        after = after.model_copy(update={"columns": desired.schema})
        why = Why(ReasonCode.NO_DATA)
        return _update(context, desired, live, facts, Action.CREATE_TABLE, before, after, why)
    if moved:
        why = Why(ReasonCode.RELOCATED)
        return _update(context, desired, live, facts, Action.RELOCATE_TABLE, before, after, why)
    found = found_columns(desired, facts)
    if grows and found is not None:
        before = before.model_copy(update={"columns": found})
        after = after.model_copy(update={"columns": evolved(found, difference)})
        return _update(context, desired, live, facts, Action.ALTER_TABLE, before, after, _growth(difference, live))
    why = _why(context, desired, before, after)
    return _update(context, desired, live, facts, Action.UPDATE_TABLE, before, after, why)


def _growth(difference: SchemaDifference, live: LiveTable) -> Why:
    """Return why the columns of a table's data are changed."""
    params: Params = {}
    if difference.missing:
        params["added"] = tuple(column.name for column in difference.missing)
    if difference.relaxed:
        params["relaxed"] = tuple(pair.desired.name for pair in difference.relaxed)
    return Why(ReasonCode.COLUMNS, {**params, **rename_hint(difference.missing, difference.extra, live.location)})


def remarks_on(
    context: CatalogContext,
    desired: DesiredTable | None,
    live: LiveTable | None,
    facts: TableFacts | None,
    outcome: Outcome,
) -> Iterator[Remark]:
    """Yield what is to be said of a table beside its ``outcome``."""
    if desired is None or desired.absent or isinstance(outcome, Blocked):
        return
    if facts is not None and facts.entry is not None and context.capabilities.keeps_first_columns:
        yield Remark(NoteCode.STALE_COLUMNS, desired.id, {"differences": tuple(facts.entry.texts())})
    if live is not None and REDACTED in live.properties.values():
        shown = live.properties
        hidden = tuple(key for key, value in desired.properties.items() if is_hidden(key, value, shown))
        if hidden:
            yield Remark(NoteCode.HIDDEN, desired.id, {"names": hidden})
    extra = schema_difference(desired, facts).extra
    if extra:
        yield Remark(NoteCode.EXTRA_COLUMNS, desired.id, {"columns": tuple(column.name for column in extra)})


def _is_to_move(desired: DesiredTable, live: LiveTable, facts: TableFacts | None, *, can_move: bool) -> bool:
    """Return whether the table is to be elsewhere than its entry says.

    A place that an interrupted run asked for is not asked for again where entries cannot move and nobody looks at
    storage: the service then put the table where it is.
    """
    if not is_relocated(desired, live) or (facts is not None and locations.same(facts.location, live.location)):
        return False
    return can_move or desired.probe or not is_unanswered(desired, live)


def _update(
    context: CatalogContext,
    desired: DesiredTable,
    live: LiveTable,
    facts: TableFacts | None,
    action: Action,
    before: ObjectView,
    after: ObjectView,
    why: Why,
) -> Outcome:
    """Return the update, or why there is none where the catalog cannot make it."""
    capabilities = context.capabilities
    storage = facts.storage.kind if facts else None
    relocates = action is Action.RELOCATE_TABLE
    is_touched = relocates or touches_entry(before, after)
    if (capabilities.alter_table or not is_touched) and (capabilities.relocate_table or not relocates):
        return change_of(
            context,
            action,
            desired.id,
            before,
            after,
            why,
            desired=desired,
            probe=desired.probe,
            storage=storage,
        )
    if desired.mirrors is not None:
        keys = before.properties.items() ^ after.properties.items()
        differing = ["location"] if relocates else sorted({key for key, _ in keys}) or ["its marks"]
        return Remark(NoteCode.CANNOT_FOLLOW, live.id, {"names": tuple(differing)})
    code = ReasonCode.CANNOT_RELOCATE if relocates else ReasonCode.CANNOT_ALTER
    return context.blocked(Why(code), desired, live, facts)


def _left_alone(context: CatalogContext, before: ObjectView, after: ObjectView) -> NoteCode | None:
    """Return the topic of an entry whose marks are not as they should be and stay so; None when it is updated."""
    can_alter = context.capabilities.alter_table
    unowned = before.managed_by is None
    if before.content == after.content and unowned and can_alter and not context.adopt:
        return NoteCode.ADOPTABLE
    if before.properties != after.properties or can_alter:
        return None
    return unmarkable(before, after)


def _why(context: CatalogContext, desired: DesiredTable, before: ObjectView, after: ObjectView) -> Why:
    if before.content != after.content:
        return Why(ReasonCode.DIFFERS, {"mirror": desired.mirrors.catalog} if desired.mirrors else {})
    safeguard = context.capabilities.safeguard
    if safeguard is not None and before.safeguards != after.safeguards:
        return Why(ReasonCode.SAFEGUARD, {"detail": safeguard.danger})
    if before.request != after.request:
        stale = after.requested_location is None
        return Why(ReasonCode.LOCATION_NOTE_STALE if stale else ReasonCode.LOCATION_NOTED)
    if before.marks == after.marks:
        return Why(ReasonCode.SHOWN_COLUMNS)
    if before.managed_by is None:
        return Why(ReasonCode.ADOPTED)
    if before.managed_by != after.managed_by:
        return Why(ReasonCode.TAKEN_OVER)
    return Why(ReasonCode.MARKS)
