"""Looking at storage again before a table is made of it, and writing all that lancens ever writes there.

An empty dataset is written only where there is nothing, nullable columns are added, and columns may be null that might
not; nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler import storage
from reconciler.applier.step import StaleError, Target
from reconciler.backends import optional
from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.desired import Evolve, ExtraColumns
from reconciler.model.errors import TableAlreadyExistsError, UnsupportedOperationError
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.planner.entries import Change
from reconciler.planner.facts import EntryColumns
from reconciler.planner.schemas import SchemaDifference, compare

_FOUND = {
    StorageKind.DATASET: "holds a Lance dataset",
    StorageKind.NOTHING: "holds nothing",
    StorageKind.NOT_LANCE: "holds files that are not a Lance dataset",
    StorageKind.DENIED: "is not accessible",
    StorageKind.UNKNOWN: "cannot be opened",
}


def expect_data(backend: Backend, location: str, columns: Schema) -> None:
    """Return when ``location`` holds a dataset, with exactly ``columns`` where any are given.

    Raises:
        StaleError: it does not.
    """
    found = storage.probe(location, backend.storage_options())
    if found.kind is not StorageKind.DATASET:
        raise _moved(location, "a Lance dataset", found)
    if columns and found.schema is not None:
        _expect_nothing_else(location, compare(columns, found.schema))


def expect_no_data(backend: Backend, location: str) -> None:
    """Return when ``location`` holds nothing.

    Raises:
        StaleError: it holds something now, or cannot be opened.
    """
    found = storage.probe(location, backend.storage_options())
    if found.kind is not StorageKind.NOTHING:
        raise _moved(location, "nothing", found)


def ensure_dataset(
    options: Mapping[str, str], location: str, columns: Schema, *, finished: bool, managed: bool = False
) -> bool:
    """Write an empty dataset of ``columns`` to ``location``; return whether that was still to do.

    One that an interrupted run wrote is recognised: it is empty and has exactly the schema. ``finished`` says that
    the catalog has the finished entry, so that rows may have come since; ``managed``, that the service keeps the
    versions of its data, so that nothing is written here.

    Raises:
        StaleError: there is something else.
        UnsupportedOperationError: it would have to be written, and is ``managed``.
    """
    found = storage.probe(location, options)
    if found.kind is StorageKind.NOTHING:
        _expect_unmanaged(managed)
        try:
            storage.create_empty(location, columns, options)
        except TableAlreadyExistsError:  # another run of the same plan was faster
            found = storage.probe(location, options)
        else:
            return True
    if found.kind is StorageKind.DATASET:
        if storage.is_fresh(location, columns, options):
            return False
        if finished and found.schema is not None:
            difference = compare(columns, found.schema)
            if not difference.blocking(Evolve.NEVER, ExtraColumns.KEEP):
                return False
    raise _moved(location, "nothing", found)


def evolve_dataset(
    options: Mapping[str, str], location: str, before: Schema, after: Schema, *, managed: bool = False
) -> bool:
    """Give the dataset the columns of ``after``; return whether anything was still to do.

    Columns are added before others may be null, so that a run that was cut off between the two goes on there.

    Raises:
        StaleError: the dataset differs in more than the plan was to change.
        UnsupportedOperationError: it would have to be written to, and is ``managed`` (see :func:`ensure_dataset`).
        InvalidTableStateError: a commit that is to be made would set off the dataset's auto clean-up.
    """
    found = storage.probe(location, options)
    if found.schema is None:
        raise _moved(location, "a Lance dataset", found)
    difference, planned = compare(after, found.schema), compare(after, before)
    to_add, to_relax = set(planned.missing), {pair.desired for pair in planned.relaxed}
    _expect_nothing_else(
        location,
        replace(
            difference,
            missing=tuple(column for column in difference.missing if column not in to_add),
            relaxed=tuple(pair for pair in difference.relaxed if pair.desired not in to_relax),
        ),
    )
    if difference:
        _expect_unmanaged(managed)
        storage.expect_no_cleanup(location, found.cleanup, bool(difference.missing) + bool(difference.relaxed))
    if difference.missing:
        storage.add_columns(location, difference.missing, options)
    if difference.relaxed:
        storage.relax_columns(location, [pair.found.name for pair in difference.relaxed], options)
    return bool(difference)


def _expect_unmanaged(managed: bool) -> None:
    if managed:
        raise UnsupportedOperationError(storage.MANAGED)


def _expect_nothing_else(location: str, difference: SchemaDifference) -> None:
    if difference:
        texts = "; ".join(difference.texts("the plan"))
        raise StaleError(f"the columns at {locations.redact(location)} are others now: {texts}")


def _moved(location: str, planned: str, found: Storage) -> StaleError:
    detail = f" ({found.detail})" if found.detail else ""
    return StaleError(f"planned on {planned} at {locations.redact(location)}, which now {_FOUND[found.kind]}{detail}")


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
