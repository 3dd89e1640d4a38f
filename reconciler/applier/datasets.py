"""Looking at storage again before a table is made of it, and writing the two things lancens ever writes there.

An empty dataset is written only where there is nothing, and nullable columns are added; nothing is overwritten.
"""

from __future__ import annotations

from reconciler import locations, storage
from reconciler.applier.step import StaleError
from reconciler.backends.base import Backend
from reconciler.errors import TableAlreadyExistsError
from reconciler.planner.schemas import compare
from reconciler.state import Evolve, Schema, Storage, StorageKind

__all__ = ["add_missing_columns", "ensure_dataset", "expect_data", "expect_no_data"]

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
        difference = compare(columns, found.schema, Evolve.NEVER)
        if difference.faults:
            raise StaleError(f"{locations.redact(location)} has another schema now: {'; '.join(difference.faults)}")


def expect_no_data(backend: Backend, location: str) -> None:
    """Return when ``location`` holds nothing.

    Raises:
        StaleError: it holds something now, or cannot be opened.
    """
    found = storage.probe(location, backend.storage_options())
    if found.kind is not StorageKind.NOTHING:
        raise _moved(location, "nothing", found)


def ensure_dataset(backend: Backend, location: str, columns: Schema, *, finished: bool) -> bool:
    """Write an empty dataset of ``columns`` to ``location``; return whether that was still to do.

    One that an interrupted run wrote is recognised: it is empty and has exactly the schema. ``finished`` says that
    the catalog has the finished entry, so that rows may have come since.

    Raises:
        StaleError: there is something else.
    """
    options = backend.storage_options()
    found = storage.probe(location, options)
    if found.kind is StorageKind.NOTHING:
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
            difference = compare(columns, found.schema, Evolve.NEVER)
            if not difference.faults:
                return False
    raise _moved(location, "nothing", found)


def add_missing_columns(backend: Backend, location: str, before: Schema, after: Schema) -> bool:
    """Add the columns of ``after`` that the dataset lacks; return whether there were any.

    Raises:
        StaleError: the dataset differs in more than columns still to add.
    """
    options = backend.storage_options()
    found = storage.probe(location, options)
    if found.schema is None:
        raise _moved(location, "a Lance dataset", found)
    difference = compare(after, found.schema, Evolve.ADDITIVE)
    planned_on = {column.name for column in before}
    faults = [
        *difference.faults,
        *(f"column `{field.name}` is gone from the data" for field in difference.added if field.name in planned_on),
    ]
    if faults:
        raise StaleError(f"the schema at {locations.redact(location)} moved: {'; '.join(faults)}")
    if difference.added:
        storage.add_columns(location, difference.added, options)
    return bool(difference.added)


def _moved(location: str, planned: str, found: Storage) -> StaleError:
    detail = f" ({found.detail})" if found.detail else ""
    return StaleError(f"planned on {planned} at {locations.redact(location)}, which now {_FOUND[found.kind]}{detail}")
