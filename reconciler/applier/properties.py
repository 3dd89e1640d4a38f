"""The properties a change writes: what the manifest says, and the marks that lancens keeps beside it."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model import locations, ownership
from reconciler.model.live import PropertyChanges
from reconciler.model.redaction import is_hidden
from reconciler.planner.entries import Change
from reconciler.planner.views import ObjectView


def _marks(after: ObjectView, live: Mapping[str, str]) -> dict[str, str | None]:
    """Return the marks that say something else in ``live`` than in ``after``; None for one to take away."""
    marks: dict[str, str | None] = {}
    if ownership.owner_of(live) != after.managed_by:
        marks[ownership.MANAGED_BY] = after.managed_by
    known = ownership.recorded_keys(live), ownership.recorded_secrets(live)
    if known != (frozenset(after.keys), frozenset(after.secret_keys)):
        marks[ownership.KEYS] = ownership.encode_keys(after.keys, after.secret_keys) if after.keys else None
    if ownership.mirror_of(live) != after.mirror:
        marks[ownership.MIRROR] = after.mirror
    if ownership.is_protected(live) != after.protect:
        marks[ownership.PROTECT] = "true" if after.protect else None
    return marks


def _request(change: Change, in_force: str | None, *, keeps_request: bool) -> dict[str, str | None]:
    """Return what the marks of the location asked for are to say; None for one to take away.

    Where an entry is made or moved that is what holds if the service ignores the location: whoever reads the entry
    next is not to ask for it again. Where it does not, the answer to the write tells; an entry that is there already,
    as a run that was interrupted after that answer leaves it, tells itself.
    """
    before, after = change.before or ObjectView(), change.after or ObjectView()
    if locations.same(before.location, after.location):
        if after.requested_location is not None:
            return {} if in_force is None else {ownership.CHOSEN_LOCATION: in_force}
    elif keeps_request and not (in_force is not None and locations.same(in_force, after.location)):
        return {ownership.REQUESTED_LOCATION: after.location, ownership.CHOSEN_LOCATION: in_force}
    return dict.fromkeys((ownership.REQUESTED_LOCATION, ownership.CHOSEN_LOCATION))


def property_changes(
    change: Change, live: Mapping[str, str], in_force: str | None, *, keeps_request: bool
) -> PropertyChanges:
    """Return the merge that brings the properties ``live`` to the change's ``after``; what it does not know stays.

    A new object has none: ``live`` is empty, and all that is to be set is what it is made with. The location asked
    for is kept with the entry, in the same write, where the service may choose another one (``keeps_request``);
    ``in_force`` is where the entry is, None for one that is yet to be made.
    """
    after = change.after or ObjectView()
    desired: dict[str, str | None] = dict.fromkeys(change.managed_keys)
    desired.update(after.properties)
    desired.update(after.safeguards)
    desired.update(_marks(after, live))
    desired.update(_request(change, in_force, keeps_request=keeps_request))
    return PropertyChanges(
        set={
            key: value
            for key, value in desired.items()
            if value is not None and live.get(key) != value and not is_hidden(key, value, live)
        },
        remove=frozenset(key for key, value in desired.items() if value is None and key in live),
    )
