"""What the entry of a live table is to be: its marks, what it says of the location asked for, the columns it shows."""

from __future__ import annotations

from reconciler.model import locations
from reconciler.model.desired import DesiredTable
from reconciler.model.live import LiveTable
from reconciler.planner.facts import TableFacts
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.views import ObjectView


def entry_after(
    context: CatalogContext, desired: DesiredTable, live: LiveTable, before: ObjectView, *, moved: bool
) -> ObjectView:
    """Return what a live table is to be; what the catalog cannot change of an entry stays as it is."""
    capabilities = context.capabilities
    after = context.marks(desired, live.properties, capabilities.table_markers)
    requested, chosen = _request(desired, before) if capabilities.alter_table else before.request
    if moved:  # the answer to the move will tell
        requested, chosen = None, None
    return after.model_copy(
        update={
            "location": desired.location if moved else live.location,
            "requested_location": requested,
            "chosen_location": chosen,
            "safeguards": context.safeguards(before.safeguards) if capabilities.alter_table else before.safeguards,
        }
    )


def with_shown_columns(
    context: CatalogContext, facts: TableFacts | None, before: ObjectView, after: ObjectView
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


def touches_entry(before: ObjectView, after: ObjectView) -> bool:
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
