"""The step that renames a table, which always has one of the two names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from reconciler.applier.datasets import tag_dataset
from reconciler.applier.live import Precondition, load_table, precondition_of, stale_text
from reconciler.applier.report import Status
from reconciler.applier.step import ChangeOutcome, StaleError, Target
from reconciler.applier.steps import change_table
from reconciler.backends.base import Backend
from reconciler.backends.placing import require_location
from reconciler.model import locations
from reconciler.model.errors import NamespaceNotFoundError, TableNotFoundError
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier, address
from reconciler.model.ownership import DATA, is_same_owner, owner_marks, owner_of
from reconciler.planner.entries import Action, Change
from reconciler.planner.views import ObjectView, view_of


@dataclass(frozen=True, slots=True)
class Move(Target[LiveTable]):
    """One move of a table.

    ``live`` is the entry with the new name, ``origin`` that with the old one.
    """

    origin_id: Identifier
    origin: LiveTable | None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do, as far as the two entries tell.

        It is false with data, tags or shown columns, which other calls read.
        """
        return (
            self.origin is None
            and self.precondition is Precondition.APPLIED
            and self.after.columns is None
            and not self.after.writes_beside_entry
        )

    def carry_out(self) -> ChangeOutcome:
        """Move the entry, then bring it to its planned state.

        Raises:
            StaleError: the entry with one of the two names has changed since the plan was made.
            UnsupportedOperationError: the service put the new entry elsewhere; it was removed again.
        """
        return self._update_renamed(self._rename())

    def _rename(self) -> LiveTable:
        """Rename the table, in place or by a copy of its entry.

        Return the entry with the new name.
        """
        origin, live = self.origin, self.live
        if origin is None:
            return self._expect_renamed(live)
        self._expect_origin_as_planned(origin)
        if live is not None:
            self._expect_moved(live)
            is_owned = is_same_owner(owner_of(live.properties), self._owner)
            if not is_owned or not locations.same(origin.location, live.location):
                raise StaleError(f"{self._origin_name}: existence planned on nothing, now there")
        elif self.backend.capabilities().renames(self.origin_id, self.identifier):
            return self._rename_in_place(origin)
        else:
            if self.change.removes_tags:  # the new entry does not list them
                tag_dataset(Target(self.change, self.backend, self.origin_id, origin))
            live = self._insert_copy(origin)
        self._copy_shown_columns()
        with suppress(
            TableNotFoundError, NamespaceNotFoundError
        ):  # removed by another writer; the table has its new name
            self._origin_backend.remove_table(self.origin_id)
        return live

    def _rename_in_place(self, origin: LiveTable) -> LiveTable:
        """Write the marks and safeguards that the entry lacks, then rename it.

        They come first: if the run stopped after the rename, no later plan would write them.
        """
        able, before = self.backend.capabilities(), self.change.before
        first = dict(self.after.safeguards.items() - before.safeguards.items()) if before is not None else {}
        if self._owner is not None and able.table_markers:
            marks = owner_marks(self._owner, self.after.policy)
            first |= {key: value for key, value in marks.items() if value is not None}
            first |= {DATA: "true"} if self.after.data else {}
        first = dict(first.items() - origin.properties.items())
        try:
            if first and able.alter_table:
                self._origin_backend.alter_table(self.origin_id, PropertyChanges(first))
            return self._origin_backend.rename_table(self.origin_id, self.identifier)
        except TableNotFoundError:  # another run has renamed it, or the first attempt of a repeated call
            return self._expect_renamed(load_table(self.backend, self.identifier))

    def _expect_renamed(self, live: LiveTable | None) -> LiveTable:
        """Return the entry with the new name, when the old one is gone.

        Raise StaleError if it is another table.
        """
        if live is None:
            raise StaleError(f"{self._origin_name}: {stale_text(self.change, self.change.before, None)}")
        self._expect_moved(live)
        return live

    def _insert_copy(self, origin: LiveTable) -> LiveTable:
        """Create an entry with the new name, and all properties of the old one.

        It is at the same location.
        """
        changes = self.property_changes(origin.properties, origin.location)
        properties = changes.applied_to(origin.properties)
        copy = self.backend.copy_table(origin, self.identifier, properties)
        return require_location(self.backend, copy, origin.location)

    def _copy_shown_columns(self) -> None:
        """Copy the shown columns from the old entry to the new one.

        Nothing is written if the service does not let a client write them.
        """
        if self.backend.capabilities().keeps_first_columns:
            return
        shown = self.backend.shown_columns([self.origin_id, self.identifier])
        columns = shown.get(self.origin_id)
        if columns is not None and columns != shown.get(self.identifier):
            self.backend.show_columns(self.identifier, columns)

    def _update_renamed(self, live: LiveTable) -> ChangeOutcome:
        """Bring the renamed entry to its planned state, as a change of an existing table."""
        before, origin = self.change.found or self.change.before, self.change.before or ObjectView()
        columns = origin.columns
        action = Action.UPDATE_TABLE
        if self.after.columns is not None:
            action = Action.CREATE_TABLE if columns is None else Action.ALTER_TABLE
        change = self.change.model_copy(
            update={
                "action": action,
                "before": before.model_copy(update={"columns": columns, "tags": origin.tags}) if before else None,
                "moved_from": None,
                "found": None,
            }
        )
        target = Target(change, self.backend.checking(self._expect_moved), self.identifier, live)
        outcome = change_table(target)
        has_only_renamed = outcome.status is Status.ALREADY and self.origin is not None
        return replace(outcome, status=Status.DONE) if has_only_renamed else outcome

    @property
    def _owner(self) -> str | None:
        return self.after.managed_by

    @property
    def _origin_name(self) -> str:
        return address(self.change.catalog, self.origin_id)

    @property
    def _origin_backend(self) -> Backend:
        """The backend, which checks the old entry again in its commit, if it can."""
        return self.backend.checking(self._expect_origin_as_planned)

    def _expect_origin_as_planned(self, origin: LiveNamespace | LiveTable) -> None:
        """Raise StaleError if another client changed the old entry."""
        if not is_as_planned(self.change, origin, self.backend):
            differs = stale_text(self.change, self.change.before, self._view(origin))
            raise StaleError(f"{self._origin_name}: {differs}")

    def _expect_moved(self, live: LiveNamespace | LiveTable) -> None:
        """Raise StaleError unless the entry with the new name is the moved table."""
        if not has_moved(self.change, live, self.backend):
            raise StaleError(stale_text(self.change, self.change.after, self._view(live)))


def move_of(change: Change, backend: Backend) -> Move:
    """Return a move with the live entries of both names."""
    origin, identifier = backend.table_id(change.moved_from), backend.table_id(change.identifier)
    return Move(change, backend, identifier, load_table(backend, identifier), origin, load_table(backend, origin))


def has_moved(change: Change, live: LiveNamespace | LiveTable, backend: Backend) -> bool:
    """Return whether ``live``, with the new name, is the moved table."""
    safeguard = backend.capabilities().safeguard
    view = view_of(live, change.managed_keys, safeguard)
    if precondition_of(change, view) is not Precondition.STALE or _is_before_rename(change, view):
        return True
    if change.found is None:
        return False
    keys = {*change.found.properties, *(change.after.properties if change.after else ())}
    current = view_of(live, keys, safeguard)
    return current is not None and change.concealed(current).digest() == change.concealed(change.found).digest()


def is_as_planned(change: Change, origin: LiveNamespace | LiveTable, backend: Backend) -> bool:
    """Return whether ``origin`` is as planned on, or as an interrupted move left it."""
    return _is_before_rename(change, view_of(origin, change.managed_keys, backend.capabilities().safeguard))


def _is_before_rename(change: Change, view: ObjectView | None) -> bool:
    """Return whether ``view`` is a state that an entry has before its rename."""
    return _concealed_view(change, view).digest() in {state.digest() for state in _states_before_rename(change)}


def _concealed_view(change: Change, view: ObjectView | None) -> ObjectView:
    """Return a view with sensitive values replaced, as in a saved plan.

    An empty one for a missing object.
    """
    return change.concealed(view or ObjectView())


def _states_before_rename(change: Change) -> Iterator[ObjectView]:
    """Yield the states that an entry may have before its rename.

    A move first writes the owner, the safeguards and the data mark, together or not.
    """
    before, after = _concealed_view(change, change.before), _concealed_view(change, change.after)
    states = (before, after)
    for owned, safe, marked in product(states, states, states):
        known = {"managed_by": owned.managed_by, "safeguards": safe.safeguards, "data": marked.data}
        yield before.model_copy(update=known)
