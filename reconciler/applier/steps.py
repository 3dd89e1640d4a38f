"""The steps for namespaces and tables. None of them deletes data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from reconciler.applier.datasets import (
    ensure_dataset,
    evolve_dataset,
    expect_data,
    expect_no_data,
    holds_new_dataset,
    show_columns,
    tag_dataset,
)
from reconciler.applier.live import Precondition, load_namespace, load_table
from reconciler.applier.report import Status
from reconciler.applier.step import ChangeOutcome, StaleError, Steps, Target
from reconciler.backends.placing import location_mismatch, undo_write
from reconciler.model import locations, ownership
from reconciler.model.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.ownership import CHOSEN_LOCATION, REQUESTED_LOCATION
from reconciler.planner.entries import Action
from reconciler.planner.facts import has_true_request

_FORGET_REQUEST = PropertyChanges(remove=frozenset({REQUESTED_LOCATION, CHOSEN_LOCATION}))


def change_table(target: Target[LiveTable]) -> ChangeOutcome:
    """Change the entry of a table, the tags of its data, and the columns that the entry shows."""
    outcome = _change_entry(target) if target.after.tags is None else _tag(target)
    return replace(outcome, status=Status.DONE) if show_columns(target) else outcome


def _tag(target: Target[LiveTable]) -> ChangeOutcome:
    """Change the entry and set the tags.

    Tags come first: once the entry does not list one, nobody removes it. But data and its entry have to be there, and
    lancens removes no tag of an unmanaged entry.
    """
    enters = target.change.action in (Action.CREATE_TABLE, Action.REGISTER_TABLE, Action.RELOCATE_TABLE)
    enters = enters or _is_unmanaged(target)
    wrote = not enters and tag_dataset(target)
    outcome = _change_entry(target)
    wrote = wrote or (enters and tag_dataset(target))
    return replace(outcome, status=Status.DONE) if wrote else outcome


def _change_entry(target: Target[LiveTable]) -> ChangeOutcome:
    if _is_half_made(target) and target.change.action is not Action.CREATE_TABLE:
        return _confirm(target)
    return _STEPS[target.change.action](target)


# ---- new entries -----------------------------------------------------------------------------------------------------


def _create(target: Target[LiveTable]) -> ChangeOutcome:
    """Write the empty dataset and create or complete the entry.

    The dataset comes first, so that no entry points at nothing; but see ``Capabilities.comes_before_data``.
    """
    backend, live = target.backend, target.live
    if live is not None and _is_half_made(target):
        outcome, entry = _ask_again(target, live)
        _write_at(target, entry, finished=True)
        return outcome
    if live is not None:
        # The mark comes before the dataset: an entry with data and no mark would count as foreign.
        outcome = _alter_entry(target, live, wrote=False)
        wrote = _write_at(target, live, finished=target.precondition is Precondition.APPLIED)
        return replace(outcome, status=Status.DONE) if wrote else outcome
    location = _asked_location(target)
    if location is None or backend.capabilities().comes_before_data(target.identifier, location):
        return _placed(target, location, lambda entry, known: _write_at(target, entry, finished=known))
    ensure_dataset(backend.storage_options(), location, target.after.columns or (), finished=False)
    return _insert(target, location)[0]


def _write_at(target: Target[LiveTable], entry: LiveTable, *, finished: bool) -> bool:
    """Write the empty dataset of an entry (see :func:`ensure_dataset`)."""
    columns, managed = target.after.columns or (), entry.managed_versioning
    return ensure_dataset(_options(target, entry), entry.location, columns, finished=finished, managed=managed)


def _options(target: Target[LiveTable], live: LiveTable) -> Mapping[str, str]:
    """Return fresh options for writing to the dataset of an entry."""
    return target.backend.table_storage_options(live, writes=True)


def _declare(target: Target[LiveTable]) -> ChangeOutcome:
    location = _asked_location(target)
    if location is None:
        return _placed(target, None, lambda entry, _: expect_no_data(target.backend, entry.location))
    if target.change.probe:
        expect_no_data(target.backend, location)
    return _insert(target, location)[0]


def _placed(
    target: Target[LiveTable], location: str | None, then: Callable[[LiveTable, bool], object]
) -> ChangeOutcome:
    """Create an entry at ``location``, or anywhere, and call ``then`` with it, and whether another run created it.

    The entry is removed again if ``then`` raises StaleError, as it would show foreign data, or
    UnsupportedOperationError; but not another run's, nor one that another run has filled, nor one whose storage cannot
    be read, where another run may write.
    """
    outcome, entry, is_new = _insert(target, location)
    try:
        then(entry, not is_new)
    except (StaleError, UnsupportedOperationError) as error:
        if not is_new or holds_new_dataset(_options(target, entry), entry.location):
            raise
        raise type(error)(f"{error}; {_take_back(target, entry, _FORGET_REQUEST)}") from None
    if location is not None:
        return outcome
    return replace(outcome, note=outcome.note or f"the service put it at {locations.redact(entry.location)}")


def _register(target: Target[LiveTable]) -> ChangeOutcome:
    if target.precondition is Precondition.APPLIED:  # only its tags are left
        return ChangeOutcome(Status.ALREADY)
    location = _asked_location(target)
    if location is None:
        raise InvalidInputError("it needs a location: that of its data")
    expect_data(target.change, target.backend, location, target.after.columns or ())
    return _insert(target, location)[0]


def _asked_location(target: Target[LiveTable]) -> str | None:
    """Return the location to ask for; None if the service chooses."""
    location = target.after.location or target.backend.default_location(target.identifier)
    if location is None and target.backend.capabilities().places_tables:
        return None
    if location is None:
        raise InvalidInputError("it needs a location: the catalog has no default for a new table")
    problem = target.backend.location_problem(target.identifier, location)
    if problem is not None:
        raise InvalidInputError(f"{locations.redact(location)}: {problem}")
    return location


def _insert(target: Target[LiveTable], location: str | None) -> tuple[ChangeOutcome, LiveTable, bool]:
    """Create the entry, and return whether it is new; an existing one is accepted if it equals the planned state."""
    properties = target.changes_to({}).set
    try:
        entry = target.backend.enter_table(target.identifier, location, properties)
    except TableAlreadyExistsError as error:
        existing = target.accept(load_table(target.backend, target.identifier), error)
        known = (
            (ChangeOutcome(Status.ALREADY), existing) if has_true_request(existing) else _ask_again(target, existing)
        )
        return *known, False
    return _confirmed(target, entry), entry, True


def _confirmed(target: Target[LiveTable], entry: LiveTable, undo: PropertyChanges = _FORGET_REQUEST) -> ChangeOutcome:
    """Return the outcome of a write that the service answered with ``entry``.

    If the service chose another location, the entry keeps the requested and the chosen one as marks. ``undo`` restores
    the properties of an entry that existed before.

    Raises:
        UnsupportedOperationError: the service chose another location, and the data is at the requested one.
    """
    requested, capabilities = target.after.location, target.backend.capabilities()
    if requested is None:
        return target.written(entry)
    elsewhere = location_mismatch(entry, requested)
    if elsewhere and _needs_its_place(target):
        raise UnsupportedOperationError(f"{elsewhere}, where the data is; {_take_back(target, entry, undo)}")
    request = {REQUESTED_LOCATION: requested, CHOSEN_LOCATION: entry.location}
    is_recorded = request.items() <= entry.properties.items() if elsewhere else has_true_request(entry)
    if not is_recorded and capabilities.alter_table and capabilities.table_markers:
        entry = target.backend.alter_table(
            target.identifier, PropertyChanges(request) if elsewhere else _FORGET_REQUEST
        )
    return ChangeOutcome(note=elsewhere) if elsewhere else target.written(entry)


def _needs_its_place(target: Target[LiveTable]) -> bool:
    """Return whether the entry is for data that is at the requested location."""
    change = target.change
    return change.mirror_of is not None or change.action in (Action.REGISTER_TABLE, Action.RELOCATE_TABLE)


def _take_back(target: Target[LiveTable], entry: LiveTable, undo: PropertyChanges) -> str:
    """Undo the change of an entry; return the result as a phrase.

    An entry that an earlier run created may have data by now; then it stays.
    """
    if target.change.before is not None:
        return undo_write(target.backend, target.identifier, undo)
    try:
        if target.live is not None:
            expect_no_data(target.backend, entry.location)
    except (StaleError, ServiceUnavailableError) as error:
        return f"the entry could not be taken back ({error})"
    return undo_write(target.backend, target.identifier)


def _is_half_made(target: Target[LiveTable]) -> bool:
    """Return whether an interrupted run has not confirmed the entry's location."""
    change = target.change
    before = change.before.location if change.before else None
    sets_location = change.before is None or not locations.same(before, target.after.location)
    return sets_location and target.precondition is Precondition.UNCONFIRMED


def _confirm(target: Target[LiveTable]) -> ChangeOutcome:
    """Confirm the location of an entry that an interrupted run has created or moved."""
    live, requested = target.existing, target.after.location
    needs_data = target.change.action is not Action.DECLARE_TABLE and target.change.probe
    if needs_data and requested is not None and not locations.same(live.location, requested):
        expect_data(target.change, target.backend, requested, ())
    return _ask_again(target, live)[0]


def _ask_again(target: Target[LiveTable], live: LiveTable) -> tuple[ChangeOutcome, LiveTable]:
    """Ask for the location again.

    The answer tells if the service chose the present one, or someone moved the entry.
    """
    requested, capabilities = target.after.location, target.backend.capabilities()
    if requested is None or not capabilities.alter_table:
        return ChangeOutcome(Status.ALREADY), live
    if locations.same(live.location, requested):
        entry = target.backend.alter_table(target.identifier, _FORGET_REQUEST)
    else:
        # The marks that hold if the service ignores the location go with the request; otherwise one write is enough.
        request = PropertyChanges({REQUESTED_LOCATION: requested, CHOSEN_LOCATION: live.location})
        moves = capabilities.relocate_table and not capabilities.ignores_location
        marks = _FORGET_REQUEST if moves else request
        entry = target.backend.alter_table(target.identifier, marks, requested if capabilities.relocate_table else None)
    return _confirmed(target, entry), entry


# ---- existing entries ------------------------------------------------------------------------------------------------


def _update(target: Target[LiveTable]) -> ChangeOutcome:
    return _alter_entry(target, target.existing, wrote=False)


def _alter(target: Target[LiveTable]) -> ChangeOutcome:
    live = target.existing
    marked = _alter_entry(target, live, wrote=False) if _is_unmanaged(target) else None
    wrote = evolve_dataset(target.change, _options(target, live), live.location, managed=live.managed_versioning)
    if marked is None:
        return _alter_entry(target, live, wrote=wrote)
    return replace(marked, status=Status.DONE) if wrote else marked


def _is_unmanaged(target: Target[LiveTable]) -> bool:
    """Return whether nobody manages the entry: it is marked first.

    Once its data is as its block says, no later plan marks it.
    """
    return target.change.before is not None and target.change.before.managed_by is None


def _alter_entry(target: Target[LiveTable], live: LiveTable, *, wrote: bool) -> ChangeOutcome:
    """Merge the properties; ``wrote``: the change has written to storage already."""
    changes = target.changes_to(live.properties, live.location)
    if changes:
        return target.written(target.backend.alter_table(target.identifier, changes))
    return ChangeOutcome(Status.DONE if wrote else Status.ALREADY)


def _relocate(target: Target[LiveTable]) -> ChangeOutcome:
    """Change the location of the entry, if the new one has data; no data is moved."""
    if target.precondition is Precondition.APPLIED:  # only its tags are left
        return ChangeOutcome(Status.ALREADY)
    if target.change.probe and target.after.location is not None:
        expect_data(target.change, target.backend, target.after.location, ())
    live = target.existing
    changes = target.changes_to(live.properties, live.location)
    entry = target.backend.alter_table(target.identifier, changes, target.after.location)
    return _confirmed(target, entry, changes.undone(live.properties))


def _deregister(target: Target[LiveTable]) -> ChangeOutcome:
    try:
        removed = target.backend.remove_table(target.identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        return ChangeOutcome(Status.ALREADY)
    return ChangeOutcome(note=f"data stays at {locations.redact(removed.location)}")


_STEPS: Steps[LiveTable] = {
    Action.CREATE_TABLE: _create,
    Action.DECLARE_TABLE: _declare,
    Action.REGISTER_TABLE: _register,
    Action.UPDATE_TABLE: _update,
    Action.ALTER_TABLE: _alter,
    Action.TAG: _update,
    Action.RELOCATE_TABLE: _relocate,
    Action.DEREGISTER_TABLE: _deregister,
}


# ---- namespaces ------------------------------------------------------------------------------------------------------


def change_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    """Change a namespace."""
    return _NAMESPACE_STEPS[target.change.action](target)


def _create_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    try:
        properties = {**_carried_over(target), **target.changes_to({}).set}
        namespace = target.backend.insert_namespace(target.identifier, properties, kind=target.after.kind)
    except NamespaceAlreadyExistsError as error:
        target.accept(load_namespace(target.backend, target.identifier), error)
        return ChangeOutcome(Status.ALREADY)
    return target.written(namespace)


def _carried_over(target: Target[LiveNamespace]) -> dict[str, str]:
    """Return the properties of others on the old name, without its location."""
    before = target.change.takes_from
    origin = None if before is None else load_namespace(target.backend, target.backend.namespace_id_of(before))
    foreign = ownership.others(origin.properties) if origin is not None else {}
    return {key: value for key, value in foreign.items() if key not in target.backend.capabilities().namespace_places}


def _update_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    changes = target.changes_to(target.existing.properties)
    return target.written(target.backend.alter_namespace(target.identifier, changes))


def _drop_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    """Drop with RESTRICT: a namespace that holds anything stays, as a note."""
    try:
        target.backend.remove_namespace(target.identifier)
    except NamespaceNotFoundError:
        return ChangeOutcome(Status.ALREADY)
    except NamespaceNotEmptyError as error:
        return ChangeOutcome(Status.KEPT, message=f"kept, it is not empty: {error}")
    return ChangeOutcome()


_NAMESPACE_STEPS: Steps[LiveNamespace] = {
    Action.CREATE_NAMESPACE: _create_namespace,
    Action.UPDATE_NAMESPACE: _update_namespace,
    Action.DROP_NAMESPACE: _drop_namespace,
}
