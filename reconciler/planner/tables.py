"""The difference of one table: desired, live and stored. A pure function, fit for one table or for a million."""

from __future__ import annotations

from reconciler import locations, ownership
from reconciler.planner.facts import TableFacts, has_true_request, is_relocated
from reconciler.planner.outcome import Conflict, Context, Outcome, Remark, change_of, guard_of, removal
from reconciler.planner.plan import Action, ObjectView, view_of
from reconciler.planner.remarks import ADOPTABLE, UNMANAGED, unmarkable
from reconciler.planner.schemas import SchemaDifference, compare
from reconciler.state import DesiredTable, LiveTable, Prune, StorageKind

__all__ = ["diff_table"]


_NO_DIFFERENCE = SchemaDifference((), ())
_REQUEST_FORGOTTEN = "what is noted of the location asked for is out of date"
_REQUEST_ANSWERED = "not at the location asked for, and not noted that the service chose another"


def diff_table(
    context: Context, desired: DesiredTable | None, live: LiveTable | None, facts: TableFacts | None = None
) -> Outcome:
    """Return what has to happen to one table.

    Args:
        context: what is the same for the whole catalog.
        desired: the manifest's block, None where there is none.
        live: the catalog's entry, None where there is none.
        facts: what storage holds, for the tables of ``facts.storage_questions``.
    """
    if desired is None:
        return None if live is None else _unnamed(context, live)
    if desired.absent:
        return None if live is None else _absent(context, desired, live)
    if live is None:
        return _new(context, desired, facts)
    if facts is None and _is_settled(context, desired, live):
        return None
    return _existing(context, desired, live, facts)


def _is_settled(context: Context, desired: DesiredTable, live: LiveTable) -> bool:
    """Decide quickly, without building anything, that an owned table is exactly as its block says."""
    properties = live.properties
    if context.capabilities.table_markers and (
        properties.get(ownership.MANAGED_BY) != context.owner
        or properties.get(ownership.KEYS, "[]") != ownership.encode_keys(desired.properties)
        or (desired.protect is not None and desired.protect != ownership.is_protected(properties))
    ):
        return False
    for key, value in desired.properties.items():
        if properties.get(key) != value:
            return False
    return context.is_safe(properties) and has_true_request(live) and not is_relocated(desired, live)


def _unnamed(context: Context, live: LiveTable) -> Outcome:
    """A live table that the manifest does not name."""
    if not context.capabilities.table_markers:
        return None  # nobody can tell whose it is
    owner = ownership.owner_of(live.properties)
    if owner != context.owner:
        if context.prune is not Prune.ALL:
            return Remark(UNMANAGED, live.id) if owner is None and context.prune is Prune.OWNED else None
        if context.is_foreign(live.properties):
            return context.foreign(live.id, live.properties, None)
    elif context.prune is Prune.NEVER:
        return None
    reason = "owned, no longer in the manifest" if owner == context.owner else "not in the manifest, prune: all"
    return removal(context, Action.DEREGISTER_TABLE, live, reason, None)


def _absent(context: Context, desired: DesiredTable, live: LiveTable) -> Outcome:
    if context.is_foreign(live.properties):
        return context.foreign(live.id, live.properties, desired.source)
    return removal(context, Action.DEREGISTER_TABLE, live, "absent: true", desired)


def _new(context: Context, desired: DesiredTable, facts: TableFacts | None) -> Outcome:
    where = f"{desired.source}: {context.address(desired.id)}"
    if facts is None:
        return Conflict(f"{where}: its storage was not looked at")
    if facts.location is None:
        return Conflict(f"{where} needs a `location`: the catalog has no default for a new table")
    fault = _unkeepable(context, desired) or _storage_fault(desired, facts)
    if fault:
        return Conflict(f"{where}: {fault}")
    after = context.marks(desired, {}, context.capabilities.table_markers).model_copy(
        update={"location": facts.location, "safeguards": context.safeguards}
    )
    storage = facts.storage
    if storage.kind is StorageKind.DATASET:
        difference = _schema_difference(desired, facts)
        if difference.faults or difference.added:
            faults = [*difference.faults, *(f"column `{field.name}` is not in the data" for field in difference.added)]
            place = locations.redact(facts.location)
            return Conflict(f"{where}: the data at {place} has another schema: {'; '.join(faults)}")
        reason = "data found at its location"
        if desired.schema is not None:
            after = after.model_copy(update={"columns": desired.schema})
        return change_of(
            context, Action.REGISTER_TABLE, desired.id, None, after, reason, desired=desired, storage=storage.kind
        )
    if desired.schema is not None and storage.kind is StorageKind.NOTHING:
        after = after.model_copy(update={"columns": desired.schema})
        reason = "in the manifest, no data yet"
        return change_of(
            context, Action.CREATE_TABLE, desired.id, None, after, reason, desired=desired, storage=storage.kind
        )
    reason = (
        "in the manifest, no data yet" if storage.kind is StorageKind.NOTHING else "in the manifest, storage not opened"
    )
    return change_of(
        context,
        Action.DECLARE_TABLE,
        desired.id,
        None,
        after,
        reason,
        desired=desired,
        probe=desired.probe,
        storage=storage.kind,
    )


def _unkeepable(context: Context, desired: DesiredTable) -> str | None:
    """Return why the catalog cannot hold what the block says, None when it can."""
    if desired.properties and not context.capabilities.table_markers:
        return "this catalog keeps no properties of tables; take `properties` out of the block"
    return None


def _storage_fault(desired: DesiredTable, facts: TableFacts) -> str | None:
    """Return why nothing can be decided from storage, None when something can."""
    place = "its location" if facts.location is None else locations.redact(facts.location)
    if facts.problem is not None:
        return f"{place}: {facts.problem}"
    storage = facts.storage
    if not desired.probe or storage.kind in (StorageKind.DATASET, StorageKind.NOTHING):
        return None
    if storage.kind is StorageKind.DENIED:
        return f"{place} is not accessible ({storage.detail}); set credentials in `storage.*`, or `probe: false`"
    if storage.kind is StorageKind.NOT_LANCE:
        return f"{place} holds files that are not a Lance dataset; name another location, or `probe: false`"
    return f"{place} cannot be opened: {storage.detail}"


def _schema_difference(desired: DesiredTable, facts: TableFacts | None) -> SchemaDifference:
    if desired.schema is None or facts is None or facts.storage.schema is None:
        return _NO_DIFFERENCE
    return compare(desired.schema, facts.storage.schema, desired.evolve)


def _existing(context: Context, desired: DesiredTable, live: LiveTable, facts: TableFacts | None) -> Outcome:
    """A table that is both in the manifest and in the catalog."""
    if context.is_foreign(live.properties):
        return context.foreign(live.id, live.properties, desired.source)
    moved = is_relocated(desired, live) and not (facts is not None and locations.same(facts.location, live.location))
    if moved and not (context.capabilities.relocate_table or context.capabilities.replace_table):
        return _unalterable(context, desired, "relocated")
    without_data = desired.schema is not None and facts is not None and facts.storage.kind is StorageKind.NOTHING
    difference = _schema_difference(desired, facts)
    fault = _unkeepable(context, desired) or _existing_fault(desired, facts, difference, moved=moved)
    if fault:
        return Conflict(f"{desired.source}: {context.address(desired.id)}: {fault}")

    before = _before(context, desired, live)
    after = _after(context, desired, live, before, moved=moved)
    if not moved and not without_data and not difference.added:
        if not _touches_entry(before, after):
            return None
        topic = _left_alone(context, before, after)
        if topic is not None:
            return Remark(topic, live.id)
    if without_data and not moved and desired.schema is not None:
        after = after.model_copy(update={"columns": desired.schema})
        return _update(
            context, desired, facts, Action.CREATE_TABLE, before, after, "in the catalog, no data at its location"
        )
    if moved:
        return _update(context, desired, facts, Action.RELOCATE_TABLE, before, after, "registered elsewhere")
    if difference.added and facts is not None and facts.storage.schema is not None:
        found = facts.storage.schema
        before = before.model_copy(update={"columns": found})
        after = after.model_copy(update={"columns": (*found, *difference.added)})
        return _update(context, desired, facts, Action.ALTER_TABLE, before, after, "columns to add")
    return _update(context, desired, facts, Action.UPDATE_TABLE, before, after, _reason(context, before, after))


def _before(context: Context, desired: DesiredTable, live: LiveTable) -> ObjectView:
    managed = {*desired.properties, *ownership.recorded_keys(live.properties)}
    return view_of(live, managed, context.capabilities.safeguard) or ObjectView()


def _after(context: Context, desired: DesiredTable, live: LiveTable, before: ObjectView, *, moved: bool) -> ObjectView:
    """Return what a live table is to be; what the catalog cannot change of an entry stays as it is."""
    capabilities = context.capabilities
    after = context.marks(desired, live.properties, capabilities.table_markers)
    renewed = capabilities.alter_table or capabilities.replace_table
    requested, chosen = _request(desired, before) if renewed else before.request
    if moved:  # the answer to the move will tell
        requested, chosen = None, None
    return after.model_copy(
        update={
            "location": desired.location if moved else live.location,
            "requested_location": requested,
            "chosen_location": chosen,
            "safeguards": context.safeguards if renewed else before.safeguards,
        }
    )


def _request(desired: DesiredTable, before: ObjectView) -> tuple[str | None, str | None]:
    """Return what the marks of the location asked for are to say of an entry that stays where it is.

    Where the service's answer was never recorded, the place of the entry is taken for it, unless the manifest names
    that place itself.
    """
    requested, chosen = before.request
    if before.is_request_true:
        return requested, chosen
    unanswered = requested is not None and chosen is None and not locations.same(requested, before.location)
    named = desired.location is not None and locations.same(desired.location, before.location)
    return (requested, before.location) if unanswered and not named else (None, None)


def _touches_entry(before: ObjectView, after: ObjectView) -> bool:
    """Return whether two views of a table that stays where it is differ in anything that its entry keeps."""
    return any(
        one != other
        for one, other in (
            (before.content, after.content),
            (before.marks, after.marks),
            (before.request, after.request),
            (before.safeguards, after.safeguards),
        )
    )


def _existing_fault(
    desired: DesiredTable,
    facts: TableFacts | None,
    difference: SchemaDifference,
    *,
    moved: bool,
) -> str | None:
    """Return why what storage holds forbids any plan for a live table, None when it does not."""
    fault = _storage_fault(desired, facts) if facts else None
    if fault:
        return fault
    if difference.faults:
        return f"the data has another schema: {'; '.join(difference.faults)}"
    if moved and desired.probe and facts is not None and facts.storage.kind is StorageKind.NOTHING:
        return f"there is no dataset at {locations.redact(desired.location or '')} to relocate it to"
    if moved and difference.added:
        return "a table cannot be relocated and given columns in one plan; relocate it first"
    return None


def _update(
    context: Context,
    desired: DesiredTable,
    facts: TableFacts | None,
    action: Action,
    before: ObjectView,
    after: ObjectView,
    reason: str,
) -> Outcome:
    """Return the update, or the replacement that stands in for it where the catalog cannot update in place."""
    capabilities = context.capabilities
    storage = facts.storage.kind if facts else None
    relocates = action is Action.RELOCATE_TABLE
    touches_entry = relocates or _touches_entry(before, after)
    if (capabilities.alter_table or not touches_entry) and (capabilities.relocate_table or not relocates):
        return change_of(
            context,
            action,
            desired.id,
            before,
            after,
            reason,
            desired=desired,
            probe=desired.probe,
            storage=storage,
        )
    if not capabilities.replace_table or action not in (Action.RELOCATE_TABLE, Action.UPDATE_TABLE):
        return _unalterable(context, desired, "relocated" if relocates else "changed")
    if desired.protect or (before.protect and desired.protect is not False):
        return guard_of(context, action, desired.id, "would be replaced", desired.source)
    reason = f"replaced: {reason}"
    return change_of(context, action, desired.id, before, after, reason, desired=desired, replace=True, storage=storage)


def _unalterable(context: Context, desired: DesiredTable, what: str) -> Conflict:
    return Conflict(
        f"{desired.source}: {context.address(desired.id)} cannot be {what}: this catalog cannot alter a table; "
        "deregister it with `absent: true`, apply, and put the block back"
    )


def _left_alone(context: Context, before: ObjectView, after: ObjectView) -> str | None:
    """Return the topic of an entry whose marks are not as they should be and stay so; None when it is updated."""
    can_alter = context.capabilities.alter_table
    unowned = before.managed_by is None
    if before.content == after.content and unowned and can_alter and not context.adopt:
        return ADOPTABLE
    if before.properties != after.properties or can_alter or context.capabilities.replace_table:
        return None
    return unmarkable(before, after)


def _reason(context: Context, before: ObjectView, after: ObjectView) -> str:
    if before.content != after.content:
        return "differs from the manifest"
    safeguard = context.capabilities.safeguard
    if safeguard is not None and before.safeguards != after.safeguards:
        return safeguard.danger
    if before.request != after.request:
        return _REQUEST_FORGOTTEN if after.requested_location is None else _REQUEST_ANSWERED
    if before.managed_by is None:
        return "adopted"
    return "taken over" if before.managed_by != after.managed_by else "marks to renew"
