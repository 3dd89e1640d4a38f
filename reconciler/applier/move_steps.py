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
    """One move: the target has the new name, and ``origin`` the old one."""

    origin_id: Identifier
    origin: LiveTable | None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do; never with data, tags or shown columns to write."""
        return (
            self.origin is None
            and self.precondition is Precondition.APPLIED
            and self.after.columns is None
            and not self.after.beside_entry
        )

    def carry_out(self) -> ChangeOutcome:
        """Move the entry, then bring it to its planned state.

        Raises:
            StaleError: the entry with one of the two names has changed since the plan was made.
            UnsupportedOperationError: the service put the new entry elsewhere; it was removed again.
        """
        return self._update(self._rename())

    def _rename(self) -> LiveTable:
        """Return the entry with the new name, after removing the old one."""
        origin, live = self.origin, self.live
        if origin is None:
            return self._renamed(live)
        self._expect_as_planned(origin)
        if live is not None:
            self._expect_ours(live)
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
            self._from.remove_table(self.origin_id)
        return live

    def _rename_in_place(self, origin: LiveTable) -> LiveTable:
        """Rename in place, after writing the marks and safeguards that the entry lacks.

        After an interrupted rename, no later plan would write them.
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
                self._from.alter_table(self.origin_id, PropertyChanges(first))
            return self._from.rename_table(self.origin_id, self.identifier)
        except TableNotFoundError:  # another run has renamed it, or the first attempt of a repeated call
            return self._renamed(load_table(self.backend, self.identifier))

    def _renamed(self, live: LiveTable | None) -> LiveTable:
        """Return ``live``, which has the new name while nothing has the old one, if it is the moved table."""
        if live is None:
            raise StaleError(f"{self._origin_name}: {stale_text(self.change, self.change.before, None)}")
        self._expect_ours(live)
        return live

    def _insert_copy(self, origin: LiveTable) -> LiveTable:
        """Create an entry at the same location, with everything that the old one holds."""
        changes = self.changes_to(origin.properties, origin.location)
        properties = changes.applied_to(origin.properties)
        copy = self.backend.copy_table(origin, self.identifier, properties)
        return require_location(self.backend, copy, origin.location)

    def _copy_shown_columns(self) -> None:
        """Copy the columns that the old entry shows, if the service lets them be written."""
        if self.backend.capabilities().keeps_first_columns:
            return
        shown = self.backend.shown_columns([self.origin_id, self.identifier])
        columns = shown.get(self.origin_id)
        if columns is not None and columns != shown.get(self.identifier):
            self.backend.show_columns(self.identifier, columns)

    def _update(self, live: LiveTable) -> ChangeOutcome:
        """Bring the renamed entry to the state of its block."""
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
        target = Target(change, self.backend.checking(self._expect_ours), self.identifier, live)
        outcome = change_table(target)
        is_nothing = outcome.status is Status.ALREADY and self.origin is not None
        return replace(outcome, status=Status.DONE) if is_nothing else outcome

    @property
    def _owner(self) -> str | None:
        return self.after.managed_by

    @property
    def _origin_name(self) -> str:
        return address(self.change.catalog, self.origin_id)

    @property
    def _from(self) -> Backend:
        """The catalog, checking the entry with the old name in the commit."""
        return self.backend.checking(self._expect_as_planned)

    def _expect_as_planned(self, origin: LiveNamespace | LiveTable) -> None:
        """Raise StaleError if something else changed the old entry."""
        if not is_as_planned(self.change, origin, self.backend):
            differs = stale_text(self.change, self.change.before, self._view(origin))
            raise StaleError(f"{self._origin_name}: {differs}")

    def _expect_ours(self, live: LiveNamespace | LiveTable) -> None:
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
    if precondition_of(change, view) is not Precondition.STALE or _is_like(change, _shown(change, view)):
        return True
    if change.found is None:
        return False
    keys = {*change.found.properties, *(change.after.properties if change.after else ())}
    current = view_of(live, keys, safeguard)
    return current is not None and change.concealed(current).digest() == change.concealed(change.found).digest()


def is_as_planned(change: Change, origin: LiveNamespace | LiveTable, backend: Backend) -> bool:
    """Return whether ``origin`` is as planned on, or as an interrupted move left it."""
    return _is_like(change, _shown(change, view_of(origin, change.managed_keys, backend.capabilities().safeguard)))


def _shown(change: Change, view: ObjectView | None) -> ObjectView:
    """Return a view as a saved plan keeps it; an empty one for a missing object."""
    return change.concealed(view or ObjectView())


def _is_like(change: Change, view: ObjectView) -> bool:
    return view.digest() in {state.digest() for state in _on_the_way(change)}


def _on_the_way(change: Change) -> Iterator[ObjectView]:
    """Yield the states of an entry before its rename, marked or not."""
    before, after = _shown(change, change.before), _shown(change, change.after)
    states = (before, after)
    for owned, safe, marked in product(states, states, states):
        known = {"managed_by": owned.managed_by, "safeguards": safe.safeguards, "data": marked.data}
        yield before.model_copy(update=known)
