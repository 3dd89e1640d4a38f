"""The target of a change, the properties it writes, and how a step ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeAlias, TypeVar

from reconciler.applier.live import Precondition, differences, precondition_of, stale_text
from reconciler.applier.report import KeptTag, Status
from reconciler.backends.base import Backend
from reconciler.model import display, locations, ownership
from reconciler.model.errors import BackendError, ConcurrentModificationError, ErrorCode
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier
from reconciler.model.redaction import is_hidden, is_stand_in
from reconciler.planner.entries import Action, Change
from reconciler.planner.views import ObjectView, view_of

WORTH_REPEATING = frozenset({ErrorCode.CONCURRENT_MODIFICATION, ErrorCode.SERVICE_UNAVAILABLE, ErrorCode.THROTTLING})
"""The errors that another apply may not meet."""

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)


class StaleError(Exception):
    """The object of a change differs from the plan.

    The text names each field: ``FIELD planned on A, now B``.
    """


class ChangedSinceCheckError(StaleError):
    """The object differs from what ``check_plan`` read; the plan may still explain it."""


def append_text(error: BackendError | StaleError, text: str) -> None:
    """Append ``text`` to the text of an error, which may be of a backend's own type."""
    error.args = (display.message(f"{error}; {text}"),)


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """How a step ended that raised no error.

    The fields are those of ``ChangeResult``.
    """

    status: Status = Status.DONE
    message: str = ""
    note: str = ""
    kept_tag: KeptTag | None = None


@dataclass(frozen=True, slots=True)
class CloneSources:
    """What the end of a clone's entry depends on in other catalogs.

    Args:
        backends: the connections of the catalogs that tables were cloned from, by name.
        shared: where the data of other entries is, and the clones that these read from, by ``locations.place``; None
            if a catalog or a clone cannot be read.
    """

    backends: Mapping[str, Backend] = field(default_factory=dict)
    shared: Collection[str] | None = ()


NO_SOURCES = CloneSources()


@dataclass(frozen=True, slots=True)
class Target(Generic[LiveT]):
    """One change, its catalog, and the live object as just read.

    ``live`` is None if it does not exist.
    """

    change: Change
    backend: Backend
    identifier: Identifier
    live: LiveT | None
    sources: CloneSources = field(default=NO_SOURCES, kw_only=True)

    @property
    def existing(self) -> LiveT:
        """The live object; raise StaleError if it does not exist."""
        if self.live is None:
            raise StaleError(stale_text(self.change, self.change.before, None))
        return self.live

    @property
    def after(self) -> ObjectView:
        """The planned state; an empty view for a removal."""
        return self.change.after or ObjectView()

    @property
    def precondition(self) -> Precondition:
        """Whether the change can be carried out on the live object."""
        return self._precondition_of(self.live)

    def expect_planned(self) -> None:
        """Raise StaleError unless the object is as planned on, or changed already."""
        self._expect_planned(self.live)

    def with_commit_check(self) -> Target[LiveT]:
        """Return the target with a backend that checks again in its commit.

        Not every backend can. The check accepts the changed object, too, as a step can write more than once.
        """
        return replace(self, backend=self.backend.checking(self._expect_planned))

    def with_only_commit_check(self) -> Target[LiveT]:
        """Return the target with a backend whose commit is the next to read the object.

        If it does not read ``live``, which is as planned on, it raises ChangedSinceCheckError and writes nothing. A
        later attempt of the same commit accepts the changed object, too.
        """
        first = iter((True,))

        def expect_unchanged(live: LiveNamespace | LiveTable) -> None:
            if not next(first, False):
                self._expect_planned(live)
            elif live != self.live:
                raise ChangedSinceCheckError(stale_text(self.change, self.change.before, self._view(live)))

        return replace(self, backend=self.backend.checking(expect_unchanged))

    def _expect_planned(self, live: LiveNamespace | LiveTable | None) -> None:
        if self._precondition_of(live) is Precondition.STALE:
            raise StaleError(stale_text(self.change, self.change.before, self._view(live)))

    def accept_existing(self, live: LiveT | None, error: BackendError) -> LiveT:
        """Return the object that made a creation fail, if it is in the planned state.

        Args:
            live: the object as read after the failure.
            error: what the creation raised.

        Raises:
            StaleError: the object differs from the planned state.
            BackendError: ``error`` itself if the object does not exist.
        """
        if live is None:
            raise error
        if self._precondition_of(live) not in (Precondition.APPLIED, Precondition.UNCONFIRMED):
            raise StaleError(stale_text(self.change, self.after, self._view(live)))
        return live

    def property_changes(self, live: Mapping[str, str], location: str | None = None) -> PropertyChanges:
        """Return the changes that bring ``live`` properties to the planned state.

        ``location`` is that of the live entry; None for a namespace, or for a new entry.
        """
        capabilities = self.backend.capabilities()
        marks_request = capabilities.ignores_location and capabilities.table_markers
        return property_changes(self.change, live, location, marks_request=marks_request)

    def outcome_of_write(self, written: LiveT) -> ChangeOutcome:
        """Return the outcome of a write, from the object as the catalog returned it.

        Raises:
            ConcurrentModificationError: it is not in the planned state.
        """
        if self._precondition_of(written) is Precondition.APPLIED:
            return ChangeOutcome()
        fields = differences(self.change, self.after, self._view(written))
        texts = ", ".join(
            f"{field.field} is {field.now or 'unset'}, not {field.planned or 'unset'}" for field in fields
        )
        raise ConcurrentModificationError(f"after the write, {texts}; plan again")

    def _view(self, live: LiveNamespace | LiveTable | None) -> ObjectView | None:
        return view_of(live, self.change.managed_keys, self.backend.capabilities().safeguard)

    def _precondition_of(self, live: LiveNamespace | LiveTable | None) -> Precondition:
        return precondition_of(self.change, self._view(live))


Step: TypeAlias = Callable[[Target[LiveT]], ChangeOutcome]
Steps: TypeAlias = Mapping[Action, Step[LiveT]]


def _mark_changes(after: ObjectView, live: Mapping[str, str]) -> dict[str, str | None]:
    """Return the ``lancens.*`` marks to set on an object; None removes one.

    Those that ``live`` properties have already are left out, except for the owner's.
    """
    marks = ownership.owner_marks(after.managed_by, after.policy)
    known = ownership.recorded_keys(live), ownership.recorded_secrets(live)
    if known != (frozenset(after.keys), frozenset(after.secret_keys)):
        marks[ownership.KEYS] = ownership.encode_keys(after.keys, after.secret_keys) if after.keys else None
    if ownership.mirror_of(live) != after.mirror:
        marks[ownership.MIRROR] = after.mirror
    if ownership.clone_of(live) != after.clone:
        marks[ownership.CLONE] = after.clone
    if ownership.recorded_tags(live) != frozenset(after.tag_keys):
        marks[ownership.TAGS] = ownership.encode_tags(after.tag_keys) or None
    if ownership.has_data(live) != after.data:
        marks[ownership.DATA] = "true" if after.data else None
    if ownership.is_protected(live) != after.protect:
        marks[ownership.PROTECT] = "true" if after.protect else None
    return marks


def _request_marks(change: Change, location: str | None, *, marks_request: bool) -> dict[str, str | None]:
    """Return the marks of a requested location; None removes one.

    They hold if the service ignores the location. Nobody knows before the write whether the service ignores the
    location. So a new or moved entry is written with the marks, and the next plan does not request the location again.
    If the service obeys, a second write removes them.
    """
    before, after = change.before or ObjectView(), change.after or ObjectView()
    if locations.same(before.location, after.location):
        if after.requested_location is not None:
            return {} if location is None else {ownership.CHOSEN_LOCATION: location}
    elif marks_request and not (location is not None and locations.same(location, after.location)):
        return {ownership.REQUESTED_LOCATION: after.location, ownership.CHOSEN_LOCATION: location}
    return dict.fromkeys((ownership.REQUESTED_LOCATION, ownership.CHOSEN_LOCATION))


def property_changes(
    change: Change, live: Mapping[str, str], location: str | None, *, marks_request: bool
) -> PropertyChanges:
    """Return the property changes that bring an object to the planned state.

    Properties of other clients stay. So do values that the plan knows only as a stand-in, which hides a secret: those
    of a moved table without a block.

    If anything changes, all marks are set again. The catalog merges the changes into the properties of that moment,
    from which another client may have removed a mark since they were read.

    Args:
        change: the planned change.
        live: the properties of the object as just read; empty if it does not exist.
        location: the location of the live entry; None for a namespace, or for a new entry.
        marks_request: whether the service may choose another location, so that marks record the requested one.
    """
    after = change.after or ObjectView()
    desired: dict[str, str | None] = dict.fromkeys(change.managed_keys)
    desired.update(after.properties)
    desired.update(after.safeguards)
    desired.update(_mark_changes(after, live))
    desired.update(_request_marks(change, location, marks_request=marks_request))
    changes = PropertyChanges(
        set={
            key: value
            for key, value in desired.items()
            if value is not None and live.get(key) != value and not (is_hidden(key, value, live) or is_stand_in(value))
        },
        remove=frozenset(key for key, value in desired.items() if value is None and key in live),
    )
    marks = {key: value for key, value in _mark_changes(after, {}).items() if value is not None}
    return replace(changes, set={**marks, **changes.set}) if changes else changes
