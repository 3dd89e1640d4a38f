"""The difference of one table: desired, live and stored. A pure function, fit for one table or for a million."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler import locations, ownership
from reconciler.planner.entries import Action, Blocked
from reconciler.planner.facts import TableFacts, has_true_request, is_relocated, is_unanswered
from reconciler.planner.mending import remedy, rename_hint
from reconciler.planner.mirrors import CHOSEN_BY_CATALOG
from reconciler.planner.outcome import Context, Fault, Outcome, Remark, change_of, guard_of, removal
from reconciler.planner.remarks import (
    ADOPTABLE,
    CANNOT_FOLLOW,
    EXTRA_COLUMNS,
    HIDDEN,
    MIRRORED_BEFORE,
    STALE_COLUMNS,
    UNMANAGED,
    unmarkable,
)
from reconciler.planner.schemas import SchemaDifference, compare, evolved, named_metadata
from reconciler.planner.views import ObjectView
from reconciler.redaction import REDACTED, is_hidden
from reconciler.state import DesiredTable, Evolve, LiveTable, Prune, Schema, StorageKind

__all__ = ["diff_table", "remarks_on"]


_NO_PLACE = Fault(
    "the catalog has no default location for a new table", "write the `location:` of the table in its block"
)
_NO_DIFFERENCE = SchemaDifference()
_MOST_NAMED = 3
_REQUEST_FORGOTTEN = "what is noted of the location asked for is out of date"
_STALE_COLUMNS = "its entry shows other columns than the data has"
_REQUEST_ANSWERED = "not at the location asked for, and not noted that the service chose another"


def diff_table(
    context: Context,
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


def _is_settled(context: Context, desired: DesiredTable, live: LiveTable) -> bool:
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


def _unnamed(context: Context, live: LiveTable) -> Outcome:
    """A live table that the manifest does not name."""
    if not context.capabilities.table_markers:
        return None  # nobody can tell whose it is
    owner = ownership.owner_of(live.properties)
    if owner != context.owner:
        if context.prune is not Prune.ALL:
            return Remark(UNMANAGED, live.id) if owner is None and context.prune is Prune.OWNED else None
        if context.is_foreign(live.properties):
            return context.foreign(live)
    elif context.prune is Prune.NEVER:
        return None
    mirror = ownership.mirror_of(live.properties) if owner == context.owner else None
    if mirror is not None and mirror != context.mirror:
        return Remark(MIRRORED_BEFORE, live.id, mirror)
    reason = "owned, no longer in the manifest" if owner == context.owner else "not in the manifest, prune: all"
    if mirror is not None:
        reason = f"mirrored, no longer in {mirror}"
    return removal(context, Action.DEREGISTER_TABLE, live, reason, None)


def _absent(context: Context, desired: DesiredTable, live: LiveTable) -> Outcome:
    if context.is_foreign(live.properties):
        return context.foreign(live, desired)
    return removal(context, Action.DEREGISTER_TABLE, live, "absent: true", desired)


def _new(context: Context, desired: DesiredTable, facts: TableFacts | None) -> Outcome:
    if facts is None:
        raise ValueError(f"{context.address(desired.id)} is planned without looking at its storage")
    if context.capabilities.makes_no_tables:
        remedy_there = "take its block out, or put it into another catalog"
        return context.blocked(Fault(context.capabilities.makes_no_tables, remedy_there), desired, None, facts)
    if facts.location is None:
        return context.blocked(_NO_PLACE, desired, None, facts)
    fault = _unkeepable(context, desired) or _storage_fault(desired, facts)
    if fault:
        return context.blocked(fault, desired, None, facts)
    after = context.marks(desired, {}, context.capabilities.table_markers).model_copy(
        update={"location": facts.location, "safeguards": context.safeguards}
    )
    storage = facts.storage
    if storage.kind is StorageKind.DATASET:
        if context.capabilities.chooses_locations:
            return context.blocked(_unreachable(facts), desired, None, facts)
        difference = _schema_difference(desired, facts)
        blocking = difference.blocking(Evolve.NEVER, desired.extra_columns)
        if blocking:
            return context.blocked(_other_columns(facts, blocking, difference.extra, None), desired, None, facts)
        reason = "data found at its location"
        after = after.model_copy(update={"columns": _found(desired, facts)})
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


def _unkeepable(context: Context, desired: DesiredTable) -> Fault | None:
    """Return why the catalog cannot hold what the block says, None when it can."""
    if desired.properties and not context.capabilities.table_markers:
        return Fault("this catalog keeps no properties of tables", "take `properties` out of its block")
    return None


def _other_columns(facts: TableFacts, blocking: SchemaDifference, extra: Schema, evolve: Evolve | None) -> Fault:
    """Return the fault of a table whose data has other columns than its block."""
    return Fault(
        f"the data at {_place(facts)} has other columns than its block: {'; '.join(blocking.texts())}",
        remedy(blocking, extra, facts.location or "", evolve),
    )


def _unreachable(facts: TableFacts) -> Fault:
    """Return the fault of data for which a catalog that chooses every location can have no entry."""
    return Fault(
        f"the data is at {_place(facts)}, and {CHOSEN_BY_CATALOG}",
        "take `location` out of its block, apply, and copy the data to the place that apply tells",
    )


def _found(desired: DesiredTable, facts: TableFacts | None) -> Schema | None:
    """Return the columns of the data as they are compared; None where they are not."""
    if desired.schema is None or facts is None or facts.storage.schema is None:
        return None
    return named_metadata(facts.storage.schema, desired.schema)


def _place(facts: TableFacts) -> str:
    return locations.redact(facts.location) or "its location"


def _storage_fault(desired: DesiredTable, facts: TableFacts) -> Fault | None:
    """Return why nothing can be decided from storage, None when something can."""
    place = _place(facts)
    if facts.problem is not None:
        return Fault(f"{place}: {facts.problem}", "write another `location:` in its block")
    storage = facts.storage
    if not desired.probe or storage.kind in (StorageKind.DATASET, StorageKind.NOTHING):
        return None
    if storage.kind is StorageKind.DENIED:
        return Fault(
            f"{place} is not accessible ({storage.detail})",
            "set credentials in `storage.*` of the catalog's `config`, or write `probe: false` in its block",
            "set credentials in `storage.*` of the catalog's `config`, or write `probe: false` in its `defaults`",
        )
    if storage.kind is StorageKind.NOT_LANCE:
        return Fault(
            f"{place} holds files that are not a Lance dataset",
            "write another `location:` in its block, or `probe: false`",
        )
    return Fault(
        f"{place} cannot be opened: {storage.detail}",
        "plan again once it can be opened, or write `probe: false` in its block",
        "plan again once it can be opened, or write `probe: false` in the catalog's `defaults`",
    )


def _schema_difference(desired: DesiredTable, facts: TableFacts | None) -> SchemaDifference:
    found = _found(desired, facts)
    return _NO_DIFFERENCE if found is None or desired.schema is None else compare(desired.schema, found)


def _existing(context: Context, desired: DesiredTable, live: LiveTable, facts: TableFacts | None) -> Outcome:
    """A table that is both in the manifest and in the catalog."""
    if context.is_foreign(live.properties):
        return context.foreign(live, desired)
    can_move = context.capabilities.relocate_table or context.capabilities.replace_table
    moved = _is_to_move(desired, live, facts, can_move=can_move)
    fixed = _immovable(context, live, can_move=can_move) if moved else None
    if fixed is not None:
        return context.blocked(fixed, desired, live, facts)
    without_data = desired.schema is not None and facts is not None and facts.storage.kind is StorageKind.NOTHING
    difference = _schema_difference(desired, facts)
    fault = _unkeepable(context, desired) or _existing_fault(desired, facts, difference, moved=moved)
    if fault:
        return context.blocked(fault, desired, live, facts)

    before = context.view(desired, live) or ObjectView()
    after = _after(context, desired, live, before, moved=moved)
    before, after = _following(context, facts, before, after)
    grows = bool(difference.missing or difference.relaxed)
    if not moved and not without_data and not grows:
        if not _touches_entry(before, after):
            return None
        topic = _left_alone(context, before, after)
        if topic is not None:
            return Remark(topic, live.id)
    if without_data and not moved and desired.schema is not None:
        after = after.model_copy(update={"columns": desired.schema})
        return _update(
            context, desired, live, facts, Action.CREATE_TABLE, before, after, "in the catalog, no data at its location"
        )
    if moved:
        return _update(context, desired, live, facts, Action.RELOCATE_TABLE, before, after, "registered elsewhere")
    found = _found(desired, facts)
    if grows and found is not None:
        before = before.model_copy(update={"columns": found})
        after = after.model_copy(update={"columns": evolved(found, difference)})
        reason = _growth(difference, live)
        return _update(context, desired, live, facts, Action.ALTER_TABLE, before, after, reason)
    reason = _reason(context, desired, before, after)
    return _update(context, desired, live, facts, Action.UPDATE_TABLE, before, after, reason)


def _immovable(context: Context, live: LiveTable, *, can_move: bool) -> Fault | None:
    """Return why an entry stays where it is; None where it can be given another place."""
    if context.capabilities.chooses_locations:
        return Fault(
            f"it cannot be relocated: {CHOSEN_BY_CATALOG}; it is at {locations.redact(live.location)}",
            "take `location` out of its block",
        )
    return None if can_move else _unalterable("relocated")


def _growth(difference: SchemaDifference, live: LiveTable) -> str:
    """Return why the columns of a table's data are changed."""
    parts = ["to add"] if difference.missing else []
    parts += ["to let be null"] if difference.relaxed else []
    hint = rename_hint(difference.missing, difference.extra, live.location)
    return f"columns {' and '.join(parts)}" + (f"; {hint}" if hint else "")


def remarks_on(
    context: Context,
    desired: DesiredTable | None,
    live: LiveTable | None,
    facts: TableFacts | None,
    outcome: Outcome,
) -> Iterator[Remark]:
    """Yield what is to be said of a table beside its ``outcome``."""
    if desired is None or desired.absent or isinstance(outcome, Blocked):
        return
    if facts is not None and facts.entry is not None and context.capabilities.keeps_first_columns:
        yield Remark(STALE_COLUMNS, desired.id, _few(facts.entry.texts()))
    if live is not None and REDACTED in live.properties.values():
        shown = live.properties
        hidden = [f"`{key}`" for key, value in desired.properties.items() if is_hidden(key, value, shown)]
        if hidden:
            yield Remark(HIDDEN, desired.id, ", ".join(hidden))
    extra = _schema_difference(desired, facts).extra
    if extra:
        yield Remark(EXTRA_COLUMNS, desired.id, _few(f"`{column.name}`" for column in extra))


def _few(parts: Iterable[str]) -> str:
    """Return the first of ``parts``, and how many more there are."""
    found = list(parts)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"{', '.join(found[:_MOST_NAMED])}{more}"


def _is_to_move(desired: DesiredTable, live: LiveTable, facts: TableFacts | None, *, can_move: bool) -> bool:
    """Return whether the table is to be elsewhere than its entry says.

    A place that an interrupted run asked for is not asked for again where entries cannot move and nobody looks at
    storage: the service then put the table where it is.
    """
    if not is_relocated(desired, live) or (facts is not None and locations.same(facts.location, live.location)):
        return False
    return can_move or desired.probe or not is_unanswered(desired, live)


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


def _following(
    context: Context, facts: TableFacts | None, before: ObjectView, after: ObjectView
) -> tuple[ObjectView, ObjectView]:
    """Return both views with the columns that the entry shows, and is to show where the catalog can change them."""
    if facts is None or facts.entry is None or context.capabilities.keeps_first_columns:
        return before, after
    return (
        before.model_copy(update={"shown_columns": facts.entry.shown}),
        after.model_copy(update={"shown_columns": facts.entry.to_show}),
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
            (before.shown_columns, after.shown_columns),
        )
    )


def _existing_fault(
    desired: DesiredTable,
    facts: TableFacts | None,
    difference: SchemaDifference,
    *,
    moved: bool,
) -> Fault | None:
    """Return why what storage holds forbids any plan for a live table, None when it does not."""
    fault = _storage_fault(desired, facts) if facts else None
    if fault:
        return fault
    blocking = difference.blocking(desired.evolve, desired.extra_columns)
    if blocking and facts:
        return _other_columns(facts, blocking, difference.extra, None if moved else desired.evolve)
    if moved and desired.probe and facts is not None and facts.storage.kind is StorageKind.NOTHING:
        return Fault(
            f"there is no dataset at {locations.redact(desired.location or '')} to relocate it to",
            "write the data there first, take `location` out of its block, or write `probe: false`",
        )
    if moved and (difference.missing or difference.relaxed):
        return Fault(
            "a table cannot be relocated and its columns changed in one plan",
            "relocate it first: give its block the columns that the data has, apply, and change them then",
        )
    return None


def _update(
    context: Context,
    desired: DesiredTable,
    live: LiveTable,
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
    if desired.mirrors is not None and not capabilities.replace_table:
        keys = before.properties.items() ^ after.properties.items()
        differing = ["location"] if relocates else sorted({key for key, _ in keys}) or ["its marks"]
        return Remark(CANNOT_FOLLOW, live.id, ", ".join(differing))
    if not capabilities.replace_table or action not in (Action.RELOCATE_TABLE, Action.UPDATE_TABLE):
        return context.blocked(_unalterable("relocated" if relocates else "changed"), desired, live, facts)
    if desired.protect or (before.protect and desired.protect is not False):
        return guard_of(context, action, desired.id, "would be replaced", desired.source)
    reason = f"replaced: {reason}"
    return change_of(context, action, desired.id, before, after, reason, desired=desired, replace=True, storage=storage)


def _unalterable(what: str) -> Fault:
    return Fault(
        f"it cannot be {what}: this catalog cannot alter a table",
        "deregister it with `absent: true`, apply, and put the block back",
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


def _reason(context: Context, desired: DesiredTable, before: ObjectView, after: ObjectView) -> str:
    if before.content != after.content:
        return f"differs from {desired.mirrors.catalog if desired.mirrors else 'the manifest'}"
    safeguard = context.capabilities.safeguard
    if safeguard is not None and before.safeguards != after.safeguards:
        return safeguard.danger
    if before.request != after.request:
        return _REQUEST_FORGOTTEN if after.requested_location is None else _REQUEST_ANSWERED
    if before.marks == after.marks:
        return _STALE_COLUMNS
    if before.managed_by is None:
        return "adopted"
    return "taken over" if before.managed_by != after.managed_by else "marks to renew"
