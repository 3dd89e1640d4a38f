"""Read live objects right before a write, and compare them with the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import NamespaceNotFoundError, NotLanceTableError, TableNotFoundError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Identifier, Only
from reconciler.planner.entries import Action, Change, Fingerprint, Key, Kind
from reconciler.planner.views import ObjectView

CheckedObjects: TypeAlias = Mapping[Key, LiveNamespace | LiveTable | None]
"""The missing objects of a plan, and the tables that are next read in the commit of their one change."""

_LISTED_AT_ONCE = 50
"""How many tables one call lists, roughly, over all services."""


def load_namespace(backend: Backend, identifier: Sequence[str]) -> LiveNamespace | None:
    """Return a namespace; None if it or one of its parents does not exist."""
    try:
        return backend.load_namespace(backend.namespace_id_of(identifier, root=False))
    except NamespaceNotFoundError:
        return None


def load_table(backend: Backend, identifier: Sequence[str]) -> LiveTable | None:
    """Return a Lance table; None if it or its namespace does not exist."""
    try:
        return backend.load_table(backend.table_id(identifier))
    except (TableNotFoundError, NamespaceNotFoundError):
        return None


def load(backend: Backend, kind: Kind, identifier: Sequence[str]) -> LiveNamespace | LiveTable | None:
    """Return the object of ``kind`` that is named ``identifier``.

    The result is None if it does not exist.

    Raises:
        BackendError: the catalog could not be read.
    """
    return load_namespace(backend, identifier) if kind == "namespace" else load_table(backend, identifier)


def load_all(
    backend: Backend, expected: Mapping[tuple[Kind, Identifier], bool], tables: int, parallelism: int
) -> dict[tuple[Kind, Identifier], LiveNamespace | LiveTable | None]:
    """Return every expected object by its kind and name.

    An object is None if it does not exist or is not a Lance table. A scan of the catalog reads them if that takes fewer
    calls than a call for each. Objects in a missing namespace are not read.

    Args:
        backend: the catalog.
        expected: the objects, and whether each should exist; those that should are read by name if a scan misses them.
        tables: how many tables the catalog has, roughly.
        parallelism: how many objects are read at a time.

    Raises:
        BackendError: the catalog could not be read.
    """

    def read(key: tuple[Kind, Identifier]) -> LiveNamespace | LiveTable | None:
        try:
            return load(backend, *key)
        except NotLanceTableError:
            if expected[key]:
                raise
            return None  # as a scan does

    loaded: dict[tuple[Kind, Identifier], LiveNamespace | LiveTable | None] = {}
    todo = [*expected]
    if len(todo) > 1 and (backend.reads_by_name or len(todo) * _LISTED_AT_ONCE >= tables):
        live = backend.scan(Only(identifier for _, identifier in todo))
        for kind, identifier in todo:
            listed = live.namespaces.get(identifier) if kind == "namespace" else live.tables.get(identifier)
            if listed is not None or not expected[kind, identifier]:
                loaded[kind, identifier] = listed
    for kind in ("namespace", "table"):
        unread = [
            key for key in todo if key[0] == kind and key not in loaded and not _is_parent_missing(key[1], loaded)
        ]
        loaded |= zip(unread, in_parallel(read, unread, parallelism), strict=True)
    return {key: loaded.get(key) for key in todo}


def _is_parent_missing(
    identifier: Identifier, loaded: Mapping[tuple[Kind, Identifier], LiveNamespace | LiveTable | None]
) -> bool:
    """Return whether a parent namespace of ``identifier`` is known not to exist."""
    above: list[tuple[Kind, Identifier]] = [("namespace", identifier[:depth]) for depth in range(1, len(identifier))]
    return any(key in loaded and loaded[key] is None for key in above)


class Precondition(Enum):
    """Whether a change can be carried out on a live object.

    ``PENDING``: the object is as planned on, or as the first request of the change leaves it. ``APPLIED``: the change
    is done. ``UNCONFIRMED``: done, but an interrupted run has left outdated marks of the requested location. ``STALE``:
    none of these.
    """

    PENDING = "pending"
    APPLIED = "applied"
    UNCONFIRMED = "unconfirmed"
    STALE = "stale"


def precondition_of(change: Change, live: ObjectView | None) -> Precondition:
    """Return whether ``change`` can be carried out on a live object.

    ``live`` is its view over the change's managed keys; None is a missing object. Sensitive values are replaced before
    the comparison, as in a saved plan, so that new and saved plans get the same answer.
    """
    if live is None:
        if change.after is None:
            return Precondition.APPLIED
        return Precondition.PENDING if change.before is None else Precondition.STALE
    view = change.concealed(live)
    # A job of `maintain` leaves the entry as it is.
    if change.after is not None and change.job is None and view.satisfies(change.concealed(change.after)):
        return Precondition.APPLIED if view.is_request_true else Precondition.UNCONFIRMED
    if change.before is None:
        return Precondition.STALE
    before = change.concealed(change.before)
    if view.digest() in (before.digest(), _after_removals(change, before).digest()):
        return Precondition.PENDING
    return Precondition.STALE


def _after_removals(change: Change, before: ObjectView) -> ObjectView:
    """Return the state between the two requests of a namespace's update.

    Removals are done, and nothing is set yet. Other changes take one request, so this is their state ``before``.
    """
    after = change.after
    if change.action is not Action.UPDATE_NAMESPACE or after is None:
        return before
    return before.model_copy(
        update={
            "managed_by": before.managed_by if after.managed_by else None,
            "mirror": before.mirror if after.mirror else None,
            "protect": before.protect and after.protect,
            "keys": before.keys if after.keys else (),
            "secret_keys": before.secret_keys if after.keys else (),
            "properties": {key: value for key, value in before.properties.items() if key in after.properties},
        }
    )


@dataclass(frozen=True, slots=True)
class StaleField:
    """A field that differs from the plan, with sensitive values replaced.

    None is an unset value.
    """

    field: str
    planned: str | None
    now: str | None

    def __str__(self) -> str:
        return f"planned on {self.planned or 'nothing'}, now {self.now or 'nothing'}"


def differences(entry: Change | Fingerprint, planned: ObjectView | None, live: ObjectView | None) -> list[StaleField]:
    """Return the fields that differ between the planned and the live state.

    None is a missing object. ``entry`` is the plan's entry of the object; it tells which values are sensitive.
    """
    if planned is None or live is None:
        existence = [StaleField("existence", None if planned is None else "there", None if live is None else "there")]
        return [] if planned is live else existence
    expected = entry.concealed(planned)
    before, now = dict(_fields(expected)), dict(_fields(entry.concealed(live).revealed(expected)))
    return [
        StaleField(field, before.get(field), now.get(field))
        for field in dict.fromkeys((*before, *now))
        if before.get(field) != now.get(field)
        and not (field == "location" and locations.same(before.get(field), now.get(field)))
    ]


def stale_text(change: Change, planned: ObjectView | None, live: ObjectView | None) -> str:
    """Return how ``live`` differs from ``planned``, on one line.

    It reads ``location planned on a, now b``.
    """
    return "; ".join(f"{difference.field} {difference}" for difference in differences(change, planned, live))


def _fields(view: ObjectView) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each set field, property and safeguard."""
    texts = {
        "location": view.location,
        "requested-location": view.requested_location,
        "chosen-location": view.chosen_location,
        "kind": view.kind,
        "managed-by": view.managed_by,
        "mirror": view.mirror,
        "clone": view.clone,
        "policy": view.policy,
        "managed-versioning": "true" if view.managed_versioning else None,
        "protect": "true" if view.protect else "false",
        "data": "true" if view.data else None,
        "keys": ", ".join(view.keys) or None,
        "tags": ", ".join(view.tag_keys) or None,
    }
    yield from ((field, value) for field, value in texts.items() if value is not None)
    for key, value in sorted(view.properties.items()):
        yield f"properties.{key}", value
    for key, value in sorted(view.safeguards.items()):
        yield key, value
