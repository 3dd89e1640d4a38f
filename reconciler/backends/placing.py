"""Handle entries that a service puts at another location than their data."""

from __future__ import annotations

from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.errors import BackendError, UnsupportedOperationError
from reconciler.model.live import LiveTable, PropertyChanges
from reconciler.model.names import Identifier


def put_elsewhere(table: LiveTable, asked: str) -> str | None:
    """Return a sentence if ``table`` is not at the location ``asked`` for."""
    in_force, requested = locations.redact(table.location), locations.redact(asked)
    if locations.same(in_force, requested):
        return None
    return f"the service put it at {in_force}, not at {requested}"


def require_place(backend: Backend, table: LiveTable, asked: str, undo: PropertyChanges | None = None) -> LiveTable:
    """Return ``table``, the answer to a write, if it is at the location ``asked`` for.

    Raises:
        UnsupportedOperationError: it is elsewhere; the write is undone (see :func:`take_back`).
    """
    takes_relative_paths = backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT
    roots = backend.roots() if takes_relative_paths else ()
    if any(locations.same(table.location, locations.join(root, asked)) for root in roots):
        return table
    elsewhere = put_elsewhere(table, asked)
    if elsewhere is None:
        return table
    raise UnsupportedOperationError(f"{elsewhere}, where the data is; {take_back(backend, table.id, undo)}")


def take_back(backend: Backend, identifier: Identifier, undo: PropertyChanges | None = None) -> str:
    """Remove a new entry or undo a change; return how that ended, as a clause.

    ``undo`` restores the properties of an older entry; None means that the entry is new.
    """
    # A check for the state that was planned on would refuse to undo what has changed it.
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
