"""Compare a table whose entry still has its old name."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model import locations, ownership
from reconciler.model.desired import DesiredMove, DesiredTable
from reconciler.model.live import LiveTable
from reconciler.model.reasons import Params, ReasonCode, Why
from reconciler.planner.clones import without_following
from reconciler.planner.entries import Action, Blocked, Change
from reconciler.planner.facts import TableFacts
from reconciler.planner.moves import TablePair
from reconciler.planner.outcome import CatalogContext, Outcome, change_of
from reconciler.planner.tables import diff_table
from reconciler.planner.views import ObjectView


def diff_moved(context: CatalogContext, pair: TablePair, facts: TableFacts | None) -> Outcome:
    """Return the outcome for a table whose entry has its old name.

    It is renamed and updated in one change. If an interrupted run made the new entry without removing the old one, the
    move is resumed.

    Args:
        context: the catalog.
        pair: the table, with a block, a ``moved`` line and an entry under its old name.
        facts: what storage holds, for tables of ``Questions.storage``.
    """
    desired, origin, line, renamed = pair.desired, pair.origin, pair.line, pair.entry_to_compare
    if desired is None or origin is None or line is None or renamed is None:
        raise ValueError("a moved table needs a block, a `moved` line and an entry under its old name")
    if pair.name_holder:
        return _with_both_states(
            context, context.blocked_by_name(pair.name_holder, desired, facts), pair, desired, origin
        )
    in_place = context.capabilities.renames(origin.id, desired.id)
    why = _why_blocked(context, desired, origin, pair.live, line, in_place=in_place)
    if why is not None:
        return _with_both_states(context, context.blocked_entry(why, desired, pair.live, facts), pair, desired, origin)
    is_new_entry = pair.live is None and not in_place
    outcome = diff_table(
        _marking_context(context, is_new_entry=is_new_entry), without_following(desired), renamed, facts
    )
    if isinstance(outcome, Change) and outcome.action is Action.RELOCATE_TABLE:
        why = Why(ReasonCode.MOVED_AND_RELOCATED, {"location": locations.redact(origin.location)})
        outcome = context.blocked_entry(why, desired, pair.live, facts)
    if isinstance(outcome, Blocked):
        return _with_both_states(context, outcome, pair, desired, origin)
    view = context.view(desired, renamed)
    change = change_of(
        context,
        Action.MOVE_TABLE,
        desired.id,
        outcome.before if isinstance(outcome, Change) else view,
        outcome.after if isinstance(outcome, Change) else view,
        _why_moved(context, origin, pair.live, in_place=in_place),
        replace(desired, source=line.source),
        facts,
        probe=desired.probe,
    )
    if pair.live is None:
        return change.model_copy(update={"moved_from": origin.id})
    known = change.before or ObjectView()
    columns = {"columns": known.columns, "shown_columns": known.shown_columns, "tags": known.tags}
    before = (context.view(desired, origin) or ObjectView()).model_copy(update=columns)
    return change.model_copy(update={"moved_from": origin.id, "before": before, "found": view})


def _marking_context(context: CatalogContext, *, is_new_entry: bool) -> CatalogContext:
    """Return ``context`` changed so that a moved table is marked, and that a new entry gets all properties."""
    able = replace(context.capabilities, alter_table=True) if is_new_entry else context.capabilities
    return replace(context, adopt=True, capabilities=able)


def _with_both_states(
    context: CatalogContext, blocked: Blocked, pair: TablePair, desired: DesiredTable, origin: LiveTable
) -> Blocked:
    """Return ``blocked`` with the recorded states under both names."""
    return blocked.model_copy(
        update={
            "before": context.view(desired, pair.live),
            "moved_from": origin.id,
            "moved": context.view(desired, origin),
            "location": blocked.location or origin.location,
        }
    )


def _why_blocked(
    context: CatalogContext,
    desired: DesiredTable,
    origin: LiveTable,
    live: LiveTable | None,
    line: DesiredMove,
    *,
    in_place: bool,
) -> Why | None:
    """Return why a table cannot be moved; None when it can."""
    able = context.capabilities
    params: Params = {"name": "/".join(origin.id), "line": str(line.source)}
    if context.select.excludes(origin.id) != context.select.excludes(desired.id):
        return Why(ReasonCode.MOVE_HALF_EXCLUDED, params)
    foreign = context.why_foreign(origin.properties, params)
    if foreign is not None:
        return foreign
    if ownership.is_protected(origin.properties) and desired.protect is not False:
        return Why(ReasonCode.PROTECTED, params)
    if live is not None and not _is_unfinished(context, origin, live):
        location, other_location = (locations.redact(entry.location) for entry in (origin, live))
        return Why(ReasonCode.BOTH_NAMES_THERE, {**params, "location": location, "other_location": other_location})
    if able.pinned_root_tables and min(len(origin.id), len(desired.id)) == 1:
        return Why(ReasonCode.NAMED_BY_DIRECTORY, params)
    if not in_place and live is None and able.makes_no_tables:
        return Why(ReasonCode.MAKES_NO_TABLES, {**params, "detail": able.makes_no_tables})
    if not in_place and live is None and able.chooses_locations:
        return Why(ReasonCode.LOCATION_CHOSEN, params)
    if not in_place and not able.table_markers:
        return Why(ReasonCode.CANNOT_RENAME, params)
    return None


def _is_unfinished(context: CatalogContext, origin: LiveTable, live: LiveTable) -> bool:
    """Return whether an interrupted run made the new entry beside the old one."""
    owner = ownership.owner_of(live.properties)
    return locations.same(origin.location, live.location) and ownership.is_same_owner(owner, context.owner)


def _why_moved(context: CatalogContext, origin: LiveTable, live: LiveTable | None, *, in_place: bool) -> Why:
    params: Params = {"name": "/".join(origin.id)}
    if live is not None:
        return Why(ReasonCode.MOVE_RESUMED, params)
    lost = context.capabilities.lost_on_move
    return Why(ReasonCode.MOVED, {**params, "lost": lost} if lost and not in_place else params)
