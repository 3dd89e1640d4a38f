"""The target of a change, the properties it writes, and how a step ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from reconciler.applier.live import Precondition, differences, precondition_of, stale_text
from reconciler.applier.report import Status
from reconciler.backends.base import Backend
from reconciler.model import locations, ownership
from reconciler.model.errors import BackendError, ConcurrentModificationError
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier
from reconciler.model.redaction import is_hidden, is_stand_in
from reconciler.planner.entries import Action, Change
from reconciler.planner.views import ObjectView, view_of

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)


class StaleError(Exception):
    """The object of a change is not as planned; the text names what differs, as ``FIELD planned on A, now B``."""


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """How a step ended that did not raise; fields as in ``ChangeResult``."""

    status: Status = Status.DONE
    message: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Target(Generic[LiveT]):
    """One change, its catalog, and the live object as just read, if it exists."""

    change: Change
    backend: Backend
    identifier: Identifier
    live: LiveT | None

    @property
    def existing(self) -> LiveT:
        """The live object, for steps that need one."""
        if self.live is None:
            raise StaleError(stale_text(self.change, self.change.before, None))
        return self.live

    @property
    def after(self) -> ObjectView:
        """The planned state; empty for a removal."""
        return self.change.after or ObjectView()

    @property
    def precondition(self) -> Precondition:
        """How the live object compares with the change."""
        return self._precondition_of(self.live)

    def expect_planned(self) -> None:
        """Raise StaleError if the object is neither as planned on nor changed already."""
        self._expect(self.live)

    def checked_on_commit(self) -> Target[LiveT]:
        """Return the target with a catalog that checks again in its commit, if it can.

        The object may then be as this change leaves it, as a step can write more than once.
        """
        return replace(self, backend=self.backend.checking(self._expect))

    def _expect(self, live: LiveNamespace | LiveTable | None) -> None:
        if self._precondition_of(live) is Precondition.STALE:
            raise StaleError(stale_text(self.change, self.change.before, self._view(live)))

    def accept(self, live: LiveT | None, error: BackendError) -> LiveT:
        """Return ``live``, met by a creation, if it equals the planned state.

        Raises:
            StaleError: it differs.
            BackendError: ``error`` itself if the object does not exist.
        """
        if live is None:
            raise error
        if self._precondition_of(live) not in (Precondition.APPLIED, Precondition.UNCONFIRMED):
            raise StaleError(stale_text(self.change, self.after, self._view(live)))
        return live

    def changes_to(self, properties: Mapping[str, str], in_force: str | None = None) -> PropertyChanges:
        """Return the merge that brings ``properties`` to the planned state.

        ``in_force`` is the present location of an entry.
        """
        capabilities = self.backend.capabilities()
        keeps_request = capabilities.ignores_location and capabilities.table_markers
        return property_changes(self.change, properties, in_force, keeps_request=keeps_request)

    def written(self, answer: LiveT) -> ChangeOutcome:
        """Return the outcome of a write that the catalog answered with ``answer``.

        Raises:
            ConcurrentModificationError: that is not the planned state.
        """
        if self._precondition_of(answer) is Precondition.APPLIED:
            return ChangeOutcome()
        raise ConcurrentModificationError(f"after the write, {self._otherwise(answer)}; plan again")

    def _view(self, live: LiveNamespace | LiveTable | None) -> ObjectView | None:
        return view_of(live, self.change.managed_keys, self.backend.capabilities().safeguard)

    def _precondition_of(self, live: LiveNamespace | LiveTable | None) -> Precondition:
        return precondition_of(self.change, self._view(live))

    def _otherwise(self, live: LiveT) -> str:
        fields = differences(self.change, self.after, self._view(live))
        return ", ".join(f"{field.field} is {field.now or 'unset'}, not {field.planned or 'unset'}" for field in fields)


Step: TypeAlias = Callable[[Target[LiveT]], ChangeOutcome]
Steps: TypeAlias = Mapping[Action, Step[LiveT]]


def _marks(after: ObjectView, live: Mapping[str, str]) -> dict[str, str | None]:
    """Return the marks that differ between ``live`` and ``after``; None removes one."""
    marks = ownership.owner_marks(after.managed_by, after.policy)
    known = ownership.recorded_keys(live), ownership.recorded_secrets(live)
    if known != (frozenset(after.keys), frozenset(after.secret_keys)):
        marks[ownership.KEYS] = ownership.encode_keys(after.keys, after.secret_keys) if after.keys else None
    if ownership.mirror_of(live) != after.mirror:
        marks[ownership.MIRROR] = after.mirror
    if ownership.recorded_tags(live) != frozenset(after.tag_keys):
        marks[ownership.TAGS] = ownership.encode_tags(after.tag_keys) or None
    if ownership.has_data(live) != after.data:
        marks[ownership.DATA] = "true" if after.data else None
    if ownership.is_protected(live) != after.protect:
        marks[ownership.PROTECT] = "true" if after.protect else None
    return marks


def _request(change: Change, in_force: str | None, *, keeps_request: bool) -> dict[str, str | None]:
    """Return the marks of the requested location; None removes one.

    A new or moved entry gets the marks that hold if the service ignores the location, so that the next plan does not
    ask again. If the service obeys, a second write removes them, after an interruption too.
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
    """Return the merge from ``live`` properties to the change's ``after``.

    Unknown keys stay, and so do values of which the plan has a stand-in: those of a moved table without a block.

    All marks go with every change: the catalog merges it into what is there by then, and a key that another client
    took out of ``lancens.keys`` meanwhile would be nobody's.

    ``keeps_request``: the service may choose another location, so the requested one is written with the entry.
    ``in_force`` is the location of the entry; None if it does not exist yet.
    """
    after = change.after or ObjectView()
    desired: dict[str, str | None] = dict.fromkeys(change.managed_keys)
    desired.update(after.properties)
    desired.update(after.safeguards)
    desired.update(_marks(after, live))
    desired.update(_request(change, in_force, keeps_request=keeps_request))
    changes = PropertyChanges(
        set={
            key: value
            for key, value in desired.items()
            if value is not None and live.get(key) != value and not (is_hidden(key, value, live) or is_stand_in(value))
        },
        remove=frozenset(key for key, value in desired.items() if value is None and key in live),
    )
    marks = {key: value for key, value in _marks(after, {}).items() if value is not None}
    return replace(changes, set={**marks, **changes.set}) if changes else changes
