"""Letting the entry of a table show the columns that its data has, looked at again right before."""

from __future__ import annotations

from reconciler import storage
from reconciler.applier.step import StaleError, Target
from reconciler.backends import optional
from reconciler.model import locations
from reconciler.model.columns import ShownColumns
from reconciler.model.live import LiveTable
from reconciler.planner.entries import Change
from reconciler.planner.facts import EntryColumns


def show_columns(target: Target[LiveTable]) -> bool:
    """Let the entry of ``target``, whose data is as planned by now, show its columns; return whether that was to do.

    Raises:
        StaleError: the entry shows others than it was planned on, or its data has others than were planned.
        BackendError: the catalog could not be read, or refuses them.
    """
    planned, backend = target.after.shown_columns, target.backend
    if planned is None:
        return False
    now = optional.shown_columns(backend, [target.identifier]).get(target.identifier, ())
    if not EntryColumns(now, planned):
        return False
    if not _is_on_the_way(target.change, now, planned):
        texts = ", ".join(EntryColumns(now, planned).texts())
        raise StaleError(f"moved: its entry shows other columns than planned on: {texts}")
    live = backend.load_table(target.identifier)
    location = live.location
    found = storage.probe(location, optional.table_storage_options(backend, live)).schema
    columns = None if found is None else optional.columns_to_show(backend, found)
    if columns is None or EntryColumns(planned, columns):
        texts = ", ".join(EntryColumns(planned, columns or ()).texts())
        raise StaleError(
            f"the data at {locations.redact(location)} has other columns than its entry was to show: {texts}"
        )
    optional.show_columns(backend, target.identifier, planned)
    return True


def _is_on_the_way(change: Change, now: ShownColumns, planned: ShownColumns) -> bool:
    """Return whether an entry shows what it was planned on, or a part of what an interrupted run let it show."""
    before = change.before.shown_columns if change.before else None
    return (before is not None and not EntryColumns(now, before)) or not EntryColumns(now, planned[: len(now)])
