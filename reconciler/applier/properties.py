"""The properties a change writes: what the manifest says, and the marks that lancens keeps beside it."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler import locations, ownership
from reconciler.planner.plan import Change, ObjectView
from reconciler.state import PropertyChanges

__all__ = ["first_properties", "property_changes"]


def _marks(after: ObjectView, live: Mapping[str, str]) -> dict[str, str | None]:
    """Return the marks that say something else in ``live`` than in ``after``; None for one to take away."""
    marks: dict[str, str | None] = {}
    if ownership.owner_of(live) != after.managed_by:
        marks[ownership.MANAGED_BY] = after.managed_by
    if ownership.recorded_keys(live) != frozenset(after.keys):
        marks[ownership.KEYS] = ownership.encode_keys(after.keys) if after.keys else None
    if ownership.is_protected(live) != after.protect:
        marks[ownership.PROTECT] = "true" if after.protect else None
    return marks


def first_properties(after: ObjectView) -> dict[str, str]:
    """Return everything to write with a new object."""
    marks = {key: value for key, value in _marks(after, {}).items() if value is not None}
    return {**after.properties, **marks}


def property_changes(change: Change, live: Mapping[str, str]) -> PropertyChanges:
    """Return the merge that brings the properties ``live`` to the change's ``after``; what it does not know stays.

    A change that gives the table another location also forgets the one that was asked for before.
    """
    after = change.after or ObjectView()
    wanted: dict[str, str | None] = dict.fromkeys(change.managed_keys)
    wanted.update(after.properties)
    wanted.update(_marks(after, live))
    if change.before is not None and not locations.same(change.before.location, after.location):
        wanted[ownership.REQUESTED_LOCATION] = None
    return PropertyChanges(
        set={key: value for key, value in wanted.items() if value is not None and live.get(key) != value},
        remove=frozenset(key for key, value in wanted.items() if value is None and key in live),
    )
