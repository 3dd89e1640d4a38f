"""Compare one table: desired, live and stored.

Pure functions, fast enough for a million tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.model import locations, ownership
from reconciler.model.clones import CloneBase
from reconciler.model.columns import Schema, is_readable
from reconciler.model.desired import DesiredTable
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import address
from reconciler.model.reasons import NoteCode, ReasonCode, Why
from reconciler.model.redaction import is_hidden
from reconciler.model.secret_forms import REDACTED
from reconciler.planner.clones import (
    base_of,
    followed,
    followed_base,
    how_cloned,
    mark_of_clone,
    mark_of_existing,
    why_no_clone,
    why_unclonable,
    why_unlike_block,
    with_base,
    with_clone,
    with_new_clone,
)
from reconciler.planner.entries import Action, Blocked, Change
from reconciler.planner.facts import TableFacts, has_true_request, is_relocated, is_unanswered
from reconciler.planner.moves import TablePair
from reconciler.planner.outcome import CatalogContext, Outcome, Remark, change_of, diff_unwanted, note_on_fixed_marks
from reconciler.planner.schema_calls import rename_hint
from reconciler.planner.schemas import SchemaDifference, evolved, growth_of, without_renames
from reconciler.planner.stored import (
    blocked_by_data,
    blocked_by_storage,
    compared_columns,
    lacks_data,
    schema_difference,
    why_data_lost,
    why_unregistrable,
)
from reconciler.planner.tagging import is_only_tagged, tag_change, why_tagged
from reconciler.planner.views import ObjectView

_NO_VIEW = ObjectView()


def diff_table(
    context: CatalogContext,
    desired: DesiredTable | None,
    live: LiveTable | None,
    facts: TableFacts | None = None,
    name_holder: str = "",
) -> Outcome:
    """Return the outcome for one table.

    Args:
        context: the catalog.
        desired: the manifest's block; None if there is none.
        live: the catalog's entry; None if there is none.
        facts: what storage holds, for tables of ``Questions.storage``.
        name_holder: describes an object with the name of a new table; empty if there is none.
    """
    if desired is None or desired.absent:
        return None if live is None else diff_unwanted(context, desired, live)
    if desired.refused is not None:
        return context.blocked_entry(desired.refused, desired, live, facts)
    if live is None:
        if name_holder:
            return context.blocked_by_name(name_holder, desired, facts)
        return _diff_new(context, desired, facts)
    if facts is None and _is_unchanged(context, desired, live):
        return None
    return _diff_existing(context, desired, live, facts)


def _is_unchanged(context: CatalogContext, desired: DesiredTable, live: LiveTable) -> bool:
    """Return whether an owned table matches its block, without building anything."""
    properties = live.properties
    if context.capabilities.table_markers and (
        not ownership.is_same_owner(ownership.owner_of(properties), context.owner)
        or ownership.mirror_of(properties) != desired.mirror
        or properties.get(ownership.KEYS, "[]") != ownership.encode_keys(desired.properties, desired.secret_keys)
        or (desired.protect is not None and desired.protect != ownership.is_protected(properties))
    ):
        return False
    if not desired.properties.items() <= properties.items():
        return False
    safeguard = context.capabilities.safeguard
    if safeguard is not None and safeguard.missing(properties):
        return False
    return has_true_request(live) and not is_relocated(desired, live)


def _diff_new(context: CatalogContext, desired: DesiredTable, facts: TableFacts | None) -> Outcome:
    if facts is None:
        raise ValueError(f"{address(context.catalog, desired.id)} is planned without looking at its storage")
    able, base, cloned = context.capabilities, base_of(desired, facts), with_clone(desired, facts)
    if able.makes_no_tables:
        return context.blocked_entry(
            Why(ReasonCode.MAKES_NO_TABLES, {"detail": able.makes_no_tables}), desired, None, facts
        )
    if facts.location is None and not able.places_tables:
        return context.blocked_entry(Why(ReasonCode.NO_DEFAULT_LOCATION), desired, None, facts)
    tags = tag_change(context, desired, None, cloned, relocates=False)
    blocking_reason = (
        _why_not_stored(context, desired)
        or why_unclonable(context, desired, facts)
        or blocked_by_storage(desired, facts, vends=able.vends_credentials)
        or (why_unregistrable(context, desired, facts) if base is None else why_unlike_block(desired, facts, cloned))
        or tags.blocked
    )
    if blocking_reason:
        return context.blocked_entry(blocking_reason, desired, None, facts)
    action, columns, why = _how_made(desired, facts) if base is None else how_cloned(desired, facts, cloned, base)
    has_data = action is Action.REGISTER_TABLE or base is not None
    if base is None and action is Action.CREATE_TABLE and facts.location is not None:
        has_data = not able.comes_before_data(desired.id, facts.location)
    after = context.marks(desired, {}, able.table_markers).model_copy(
        update={
            "location": facts.location,
            "safeguards": context.safeguards({}),
            "columns": columns,
            "data": has_data and able.table_markers,
            "clone": mark_of_clone(desired, base) if able.table_markers else None,
        }
    )
    _, after = tags.applied_to(_NO_VIEW, after)
    probe = desired.probe or action is not Action.DECLARE_TABLE
    change = change_of(context, action, desired.id, None, after, why, desired, facts, probe=probe)
    return change if base is None else with_base(change, base, compared_columns(desired, cloned))


def _how_made(desired: DesiredTable, facts: TableFacts) -> tuple[Action, Schema | None, Why]:
    """Return the action that makes a new table, the columns of its data, and the reason."""
    if facts.storage.kind is StorageKind.DATASET:
        writer = facts.storage.detail
        why = Why(ReasonCode.SOURCE_WRITES_DATA, {"name": writer}) if writer else Why(ReasonCode.DATA_FOUND)
        return Action.REGISTER_TABLE, compared_columns(desired, facts), why
    if facts.storage.kind is not StorageKind.NOTHING:
        return Action.DECLARE_TABLE, None, Why(ReasonCode.NEW_UNPROBED)
    columns = None if desired.schema is None else without_renames(desired.schema)
    action = Action.DECLARE_TABLE if columns is None else Action.CREATE_TABLE
    return action, columns, Why(ReasonCode.NEW_WITHOUT_DATA)


def _diff_existing(
    context: CatalogContext, desired: DesiredTable, live: LiveTable, facts: TableFacts | None
) -> Outcome:
    foreign = context.blocked_as_foreign(live, desired)
    if foreign:
        return foreign
    base = followed_base(desired, live, facts)
    if isinstance(base, Why):
        return context.blocked_entry(base, desired, live, facts)
    if base is None or facts is None:
        return _diff_ours(context, desired, live, facts)
    return _diff_followed(context, *followed(desired, live, facts, base), live)


def _diff_followed(context: CatalogContext, desired: DesiredTable, facts: TableFacts, live: LiveTable) -> Outcome:
    """Return the outcome for an entry that gets a new clone in place of the present one.

    Its block and ``facts`` are about the new one.
    """
    cloned = with_clone(desired, facts)
    why = _why_not_relocated(context, live) or why_unlike_block(desired, facts, cloned)
    if why is not None:
        return context.blocked_entry(why, desired, live, facts)
    outcome = _diff_ours(context, replace(desired, schema=None), live, facts)
    return with_new_clone(outcome, desired, live, cloned) if isinstance(outcome, Change) else outcome


def _diff_ours(context: CatalogContext, desired: DesiredTable, live: LiveTable, facts: TableFacts | None) -> Outcome:
    relocates = _must_relocate(desired, live, facts, can_move=context.capabilities.relocate_table)
    difference = schema_difference(desired, facts)
    blocking_reason = (
        why_no_clone(desired, live, facts)
        or (_why_not_relocated(context, live) if relocates else None)
        or _why_not_stored(context, desired)
    )
    tags = tag_change(context, desired, live, facts, relocates=relocates)
    if not relocates:
        blocking_reason = blocking_reason or why_data_lost(context, desired, live, facts)
    blocking_reason = (
        blocking_reason or blocked_by_data(desired, live, facts, difference, relocates=relocates) or tags.blocked
    )
    if blocking_reason:
        return context.blocked_entry(blocking_reason, desired, live, facts)
    before, after = tags.applied_to(*_views(context, desired, live, facts, relocates=relocates))
    actual = compared_columns(desired, facts)
    if relocates:
        action, why = Action.RELOCATE_TABLE, Why(ReasonCode.RELOCATED)
    elif lacks_data(desired, facts):
        action, why = Action.CREATE_TABLE, Why(ReasonCode.DATA_RECREATED if before.data else ReasonCode.NO_DATA)
        after = after.model_copy(update={"columns": without_renames(desired.schema or ())})
    elif actual is not None and difference.grows:
        action, why = Action.ALTER_TABLE, _why_growing(difference, live)
        before = before.model_copy(update={"columns": actual})
        after = after.model_copy(update={"columns": evolved(actual, difference)})
    elif is_only_tagged(before, after):
        action, why = Action.TAG, why_tagged(before, after)
    elif not _touches_entry(before, after):
        return None
    else:
        topic = _note_on_wrong_marks(context, before, after)
        if topic is not None:
            return Remark(topic, live.id)
        action, why = Action.UPDATE_TABLE, _why_updated(context, desired, before, after)
    after = _with_data_mark(context, before, after, facts, is_relocated=relocates)
    return _update(context, desired, facts, action, before, after, why, live)


def _with_data_mark(
    context: CatalogContext, before: ObjectView, after: ObjectView, facts: TableFacts | None, *, is_relocated: bool
) -> ObjectView:
    """Return ``after`` with the mark of the data that the plan has seen.

    The mark alone is no reason to write an entry. Nor does it come before data: an interrupted run would look like a
    loss.
    """
    is_written = is_relocated or _property_state(before) != _property_state(after)
    if not (is_written and context.capabilities.alter_table and context.capabilities.table_markers):
        return after
    is_seen = facts is not None and facts.storage.kind is StorageKind.DATASET
    is_seen = is_seen or (is_relocated and _base_in(facts) is not None)
    return after.model_copy(update={"data": is_seen or (before.data and not is_relocated)})


def _foreign_policy(context: CatalogContext, before: ObjectView, after: ObjectView) -> Why | None:
    """Return why policies of another manifest block a change of the values that they set; None if they do not."""
    if before.policy is None or ownership.is_same_owner(before.policy, context.owner) or context.take_over:
        return None
    names = tuple(key for key in before.keys if before.properties.get(key) != after.properties.get(key))
    return Why(ReasonCode.FOREIGN_POLICY, {"owner": before.policy, "names": names}) if names else None


def _why_growing(difference: SchemaDifference, live: LiveTable) -> Why:
    hint = rename_hint(difference.missing, difference.extra, live.location)
    return Why(ReasonCode.COLUMNS, {**growth_of(difference), **hint})


def remarks_on(
    context: CatalogContext, pair: TablePair, facts: TableFacts | None, outcome: Outcome
) -> Iterator[Remark]:
    """Yield remarks about a table beside its ``outcome``."""
    safeguard = context.capabilities.safeguard
    if safeguard is not None and not isinstance(outcome, Change):
        for entry in pair.entries:
            for key in safeguard.missing(entry.properties):
                yield Remark(NoteCode.UNSAFE if key == safeguard.key else NoteCode.HAZARDOUS, entry.id)
    desired, live = pair.desired, pair.live
    if desired is None or desired.absent or isinstance(outcome, Blocked):
        return
    vanishes = context.capabilities.lists_root and len(desired.id) == 1  # with its files
    is_silent = pair.present_entry is not None or vanishes
    if isinstance(outcome, Change) and outcome.is_empty_data and is_silent and not outcome.recreates:
        yield Remark(NoteCode.DATA_UNRECORDED, desired.id)
    if live is not None and pair.is_located_by_entry and not context.capabilities.chooses_locations:
        yield Remark(NoteCode.KEEP_LOCATION, desired.id, {"location": locations.redact(live.location)})
    if facts is not None and facts.entry is not None and context.capabilities.keeps_first_columns:
        yield Remark(NoteCode.STALE_COLUMNS, desired.id, {"differences": tuple(facts.entry.texts())})
    if live is not None and REDACTED in live.properties.values():
        shown = live.properties
        hidden = tuple(key for key, value in desired.properties.items() if is_hidden(key, value, shown))
        if hidden:
            yield Remark(NoteCode.HIDDEN, desired.id, {"names": hidden})
    yield from _remarks_on_data(desired, with_clone(desired, facts) if facts is not None and live is None else facts)


def _remarks_on_data(desired: DesiredTable, facts: TableFacts | None) -> Iterator[Remark]:
    if facts is not None and facts.storage.elsewhere and facts.clone is None:
        places = tuple(map(locations.redact, facts.storage.elsewhere))
        yield Remark(NoteCode.READS_ELSEWHERE, desired.id, {"names": places})
    difference = schema_difference(desired, facts)
    live_columns = (facts.storage.schema if facts is not None else None) or ()
    remarkable = {
        NoteCode.EXTRA_COLUMNS: difference.extra,
        NoteCode.COLUMNS_RENAMED: difference.renamed,
        NoteCode.UNREADABLE_COLUMNS: [column for column in live_columns if not is_readable(column.name)],
    }
    yield from (
        Remark(code, desired.id, {"columns": tuple(column.name for column in columns)})
        for code, columns in remarkable.items()
        if columns
    )


def _must_relocate(desired: DesiredTable, live: LiveTable, facts: TableFacts | None, *, can_move: bool) -> bool:
    """Return whether the table must be relocated.

    A location that an interrupted run requested is not requested again if entries cannot be relocated and storage is
    not opened: the service chose the present one.
    """
    if not is_relocated(desired, live) or (facts is not None and locations.same(facts.location, live.location)):
        return False
    return can_move or desired.probe or not is_unanswered(desired, live)


def _views(
    context: CatalogContext, desired: DesiredTable, live: LiveTable, facts: TableFacts | None, *, relocates: bool
) -> tuple[ObjectView, ObjectView]:
    """Return an entry as it is, and as it should be as far as the catalog can."""
    before = context.view(desired, live) or ObjectView()
    capabilities = context.capabilities
    after = context.marks(desired, live.properties, capabilities.table_markers)
    if capabilities.table_markers:
        after = after.model_copy(update=mark_of_existing(desired, live, facts))
    requested, chosen = _request_to_record(desired, before) if capabilities.alter_table else before.request
    if relocates:  # the service's answer will tell
        requested, chosen = None, None
    after = after.model_copy(
        update={
            "clone": mark_of_clone(desired, _base_in(facts)) if relocates else after.clone,
            "location": desired.location if relocates else live.location,
            "requested_location": requested,
            "chosen_location": chosen,
            "safeguards": context.safeguards(before.safeguards) if capabilities.alter_table else before.safeguards,
        }
    )
    if facts is None or facts.entry is None or capabilities.keeps_first_columns:
        return before, after
    return (
        before.model_copy(update={"shown_columns": facts.entry.shown}),
        after.model_copy(update={"shown_columns": facts.entry.to_show}),
    )


def _base_in(facts: TableFacts | None) -> CloneBase | None:
    """Return the version of which the data that an entry gets is a clone; None without one."""
    return facts.base if facts is not None and isinstance(facts.base, CloneBase) else None


def _request_to_record(desired: DesiredTable, before: ObjectView) -> tuple[str | None, str | None]:
    """Return the location request to record on an entry that is not relocated.

    If the service's answer was never recorded, the entry's location counts as the answer, unless the manifest names it.
    """
    requested, chosen = before.request
    if before.is_request_true:
        return requested, chosen
    unanswered = requested is not None and chosen is None and not locations.same(requested, before.location)
    named = desired.location is not None and locations.same(desired.location, before.location)
    return (requested, before.location) if unanswered and not named else (None, None)


def _touches_entry(before: ObjectView, after: ObjectView) -> bool:
    """Return whether two views differ in what an entry at one location stores."""
    return _entry_state(before) != _entry_state(after)


def _entry_state(view: ObjectView) -> tuple[object, ...]:
    return *_property_state(view), view.shown_columns


def _property_state(view: ObjectView) -> tuple[object, ...]:
    return view.content, view.marks, view.request, view.safeguards


def _update(
    context: CatalogContext,
    desired: DesiredTable,
    facts: TableFacts | None,
    action: Action,
    before: ObjectView,
    after: ObjectView,
    why: Why,
    live: LiveTable,
) -> Outcome:
    """Return the update, or the outcome if it may not be made, or the catalog cannot."""
    policy = _foreign_policy(context, before, after)
    if policy:
        return context.blocked_entry(policy, desired, live, facts)
    relocates = action is Action.RELOCATE_TABLE
    if context.capabilities.alter_table or not (relocates or _touches_entry(before, after)):
        return change_of(context, action, desired.id, before, after, why, desired, facts, probe=desired.probe)
    if desired.mirrors is not None:
        keys = before.properties.items() ^ after.properties.items()
        differing = ["location"] if relocates else sorted({key for key, _ in keys}) or ["its marks"]
        return Remark(NoteCode.CANNOT_FOLLOW, live.id, {"names": tuple(differing)})
    code = ReasonCode.CANNOT_RELOCATE if relocates else ReasonCode.CANNOT_ALTER
    return context.blocked_entry(Why(code), desired, live, facts)


def _note_on_wrong_marks(context: CatalogContext, before: ObjectView, after: ObjectView) -> NoteCode | None:
    """Return the note on an entry whose marks stay wrong; None if it is updated."""
    can_alter = context.capabilities.alter_table
    unowned = before.managed_by is None
    is_equal = (before.content, before.tags) == (after.content, after.tags)
    if is_equal and unowned and can_alter and not context.adopt:
        return NoteCode.ADOPTABLE
    if before.properties != after.properties or can_alter:
        return None
    return note_on_fixed_marks(before, after)


def _why_updated(context: CatalogContext, desired: DesiredTable, before: ObjectView, after: ObjectView) -> Why:
    if before.content != after.content:
        return Why(ReasonCode.DIFFERS, {"mirror": desired.mirror} if desired.mirror else {})
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


def _why_not_stored(context: CatalogContext, desired: DesiredTable) -> Why | None:
    """Return why the catalog cannot store what the block says; None if it can."""
    keeps = context.capabilities.table_markers or not desired.properties
    return None if keeps else Why(ReasonCode.KEEPS_NO_PROPERTIES)


def _why_not_relocated(context: CatalogContext, live: LiveTable) -> Why | None:
    """Return why an entry cannot be relocated; None if it can."""
    if context.capabilities.chooses_locations:
        return Why(ReasonCode.LOCATION_CHOSEN, {"location": locations.redact(live.location)})
    return None if context.capabilities.relocate_table else Why(ReasonCode.CANNOT_RELOCATE)
