"""Detect and undo entries that a service puts at another location than requested."""

from __future__ import annotations

from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.errors import BackendError, UnsupportedOperationError
from reconciler.model.live import LiveTable, PropertyChanges
from reconciler.model.names import Identifier


def location_mismatch(table: LiveTable, requested: str) -> str | None:
    """Describe how the location of ``table`` differs from the requested one, if so."""
    in_force, expected = locations.redact(table.location), locations.redact(requested)
    if locations.same(in_force, expected):
        return None
    return f"the service put it at {in_force}, not at {expected}"


def require_location(
    backend: Backend, table: LiveTable, requested: str, undo: PropertyChanges | None = None
) -> LiveTable:
    """Return ``table``, which a write returned, or undo the write.

    Raises:
        UnsupportedOperationError: it is not at ``requested``; the write was undone (see :func:`undo_write`).
    """
    takes_relative_paths = backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT
    roots = backend.roots() if takes_relative_paths else ()
    if any(locations.same(table.location, locations.join(root, requested)) for root in roots):
        return table
    mismatch = location_mismatch(table, requested)
    if mismatch is None:
        return table
    raise UnsupportedOperationError(f"{mismatch}, where the data is; {undo_write(backend, table.id, undo)}")


def undo_write(backend: Backend, identifier: Identifier, undo: PropertyChanges | None = None) -> str:
    """Remove a new entry or undo a change; return the outcome as a clause.

    ``undo`` restores the properties of an older entry; None means that the entry is new.
    """
    # The check of an apply expects the planned state, which the write to undo has changed.
    backend = backend.checking(lambda _: None)
    try:
        if undo is None:
            backend.remove_table(identifier)
            return "that entry is taken back"
        if backend.capabilities().alter_table:
            backend.alter_table(identifier, undo)
    except BackendError as error:
        return f"the entry could not be taken back ({error})"
    return "the entry is as it was"
