"""Cutting a whole catalog down to a scope, for backends that read everything at once."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Scope


def snapshot_within(
    scope: Scope, namespaces: Iterable[LiveNamespace], tables: Iterable[LiveTable], notes: Iterable[str] = ()
) -> Snapshot:
    """Return the tables in ``scope``, and the namespaces in it or above what can be in it."""
    if scope.is_everything:
        return Snapshot({space.id: space for space in namespaces}, {table.id: table for table in tables}, tuple(notes))
    return Snapshot(
        {space.id: space for space in namespaces if scope.contains(space.id) or scope.reaches(space.id)},
        {table.id: table for table in tables if scope.contains(table.id)},
        tuple(notes),
    )
