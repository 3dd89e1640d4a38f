"""The steps for namespaces and tables, one for each action.

None of them deletes data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from reconciler import storage
from reconciler.applier.datasets import (
    ensure_clone,
    ensure_dataset,
    evolve_dataset,
    expect_data,
    expect_no_data,
    holds_new_dataset,
    pin_base,
    show_columns,
    tag_dataset,
)
from reconciler.applier.live import Precondition, load_namespace, load_table
from reconciler.applier.report import Status
from reconciler.applier.step import ChangeOutcome, StaleError, Steps, Target, append_text
from reconciler.applier.unpinning import leave_clone
from reconciler.backends.placing import location_mismatch, undo_write
from reconciler.model import locations, ownership
from reconciler.model.clones import CloneBase
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
from reconciler.planner.entries import Action, Change
from reconciler.planner.facts import has_true_request

_FORGET_REQUEST = PropertyChanges(remove=frozenset({REQUESTED_LOCATION, CHOSEN_LOCATION}))


def change_table(target: Target[LiveTable]) -> ChangeOutcome:
    """Carry out the change of a table.

    It changes the entry, the tags of the data, and the columns that the entry shows.
    """
    outcome = _change_entry(target) if target.after.tags is None else _change_entry_and_tags(target)
    return replace(outcome, status=Status.DONE) if show_columns(target) else outcome


def _change_entry_and_tags(target: Target[LiveTable]) -> ChangeOutcome:
    """Change the tags of a table's data, then its entry.

    The entry lists the tags that lancens manages, so a tag is removed before the entry stops to list it. The entry
    comes first if it does not point at the data yet, or is not managed yet: lancens removes no tag of others.
    """
    entry_first = _is_unmanaged(target) or target.change.action in (
        Action.CREATE_TABLE,
        Action.REGISTER_TABLE,
        Action.RELOCATE_TABLE,
    )
    wrote = not entry_first and tag_dataset(target)
    outcome = _change_entry(target)
    wrote = wrote or (entry_first and tag_dataset(target))
    return replace(outcome, status=Status.DONE) if wrote else outcome


def _change_entry(target: Target[LiveTable]) -> ChangeOutcome:
    """Carry out the step of the change's action.

    What an interrupted run has left unconfirmed is confirmed instead.
    """
    is_set = _is_unconfirmed(target) and target.change.action is not Action.CREATE_TABLE
    step = _confirm_location if is_set else _STEPS[target.change.action]
    base, is_there = target.change.clone, target.precondition is Precondition.APPLIED
    if target.change.action is Action.RELOCATE_TABLE and base is not None and not is_there:
        _write_clone(target, base)  # before the old one is left
    mark, clone = target.change.unpinned, target.change.left_clone
    return step(target) if mark is None or clone is None else leave_clone(target, mark, clone, step)


# ---- new entries -----------------------------------------------------------------------------------------------------


def _create(target: Target[LiveTable]) -> ChangeOutcome:
    """Create a table: write its empty dataset and its entry.

    An entry without data is completed. The dataset comes first, so that no entry points at nothing; but see
    ``Capabilities.comes_before_data``.
    """
    backend, live = target.backend, target.live
    if target.change.clone is not None:
        return _clone(target, target.change.clone)
    if live is not None and _is_unconfirmed(target):
        outcome, entry = _request_location_again(target, live)
        _ensure_dataset_of(target, entry, finished=True)
        return outcome
    if live is not None:
        # The mark comes before the dataset: an entry with data and no mark would count as foreign.
        outcome = _alter_entry(target, live, wrote=False)
        wrote = _ensure_dataset_of(target, live, finished=target.precondition is Precondition.APPLIED)
        return replace(outcome, status=Status.DONE) if wrote else outcome
    location = _location_to_request(target)
    if location is None or backend.capabilities().comes_before_data(target.identifier, location):
        return _insert_then(
            target, location, lambda entry, is_new: _ensure_dataset_of(target, entry, finished=not is_new)
        )
    ensure_dataset(backend.storage_options(), location, target.after.columns or (), finished=False)
    return _insert(target, location)[0]


def _clone(target: Target[LiveTable], base: CloneBase) -> ChangeOutcome:
    """Create a table whose data is a shallow clone: write the data, change its columns, then write its entry."""
    if target.live is not None:
        return _confirm_location(target) if _is_unconfirmed(target) else ChangeOutcome(Status.ALREADY)
    return _insert(target, _write_clone(target, base))[0]


def _write_clone(target: Target[LiveTable], base: CloneBase) -> str:
    """Write the data of a table that is a shallow clone, change its columns, and return its location."""
    backend, origin = target.backend, target.change.mirror_of
    location = _location_to_request(target)
    if location is None or origin is None:
        raise InvalidInputError("a clone needs a location, and the table that it is made of")
    if target.change.action is Action.RELOCATE_TABLE:
        _expect_unwritten(target.change, backend.storage_options(), location)
    ensure_clone(base, backend.base_options[origin.catalog], backend.storage_options(), location)
    if target.change.after_columns is not None:
        evolve_dataset(target.change, backend.storage_options(), location)
    return location


def _expect_unwritten(change: Change, options: Mapping[str, str], location: str) -> None:
    """Raise TableAlreadyExistsError if others wrote to the clone at ``location``: an entry had it, and left it."""
    found, own = storage.find_clone(location, options), sum(field.path.startswith("schema.") for field in change.fields)
    if isinstance(found, storage.FoundClone) and found.written > own:
        raise TableAlreadyExistsError(
            f"{locations.redact(location)} holds an earlier clone of this version, which others have written to; "
            "give the table another name by `names`, or move the tag to a later version"
        )


def _pin_found_clone(target: Target[LiveTable], live: LiveTable) -> None:
    """Pin the base of a clone whose entry, which was there already, gets its mark."""
    origin, backend, mark = target.change.mirror_of, target.backend, target.after.clone
    if origin is None or not ownership.is_pinned(mark) or ownership.clone_of(live.properties) == mark:
        return
    found = storage.find_clone(live.location, backend.storage_options())
    if isinstance(found, storage.FoundClone):
        pin_base(found.base, backend.base_options[origin.catalog], live.location)


def _ensure_dataset_of(target: Target[LiveTable], entry: LiveTable, *, finished: bool) -> bool:
    """Write the empty dataset of an entry (see :func:`ensure_dataset`)."""
    columns, managed = target.after.columns or (), entry.managed_versioning
    return ensure_dataset(_write_options(target, entry), entry.location, columns, finished=finished, managed=managed)


def _write_options(target: Target[LiveTable], entry: LiveTable) -> Mapping[str, str]:
    """Return fresh options for writing to the dataset of an entry."""
    return target.backend.table_storage_options(entry, writes=True)


def _declare(target: Target[LiveTable]) -> ChangeOutcome:
    """Create an entry at a location without data."""
    location = _location_to_request(target)
    if location is None:
        return _insert_then(target, None, lambda entry, _: expect_no_data(target.backend, entry.location))
    if target.change.probe:
        expect_no_data(target.backend, location)
    return _insert(target, location)[0]


def _insert_then(
    target: Target[LiveTable], location: str | None, see_to_data: Callable[[LiveTable, bool], object]
) -> ChangeOutcome:
    """Create an entry, then see to its data.

    The entry is removed again if ``see_to_data`` raises StaleError, as the entry would show foreign data, or
    UnsupportedOperationError. It stays if another run has created or filled it, or may be filling it, as its storage
    cannot be read.

    Args:
        target: the table.
        location: where to create the entry; None where the service chooses.
        see_to_data: is called with the entry, and whether this run has created it.
    """
    outcome, entry, is_new = _insert(target, location)
    try:
        see_to_data(entry, is_new)
    except (StaleError, UnsupportedOperationError) as error:
        if not is_new or holds_new_dataset(_write_options(target, entry), entry.location):
            raise
        append_text(error, _take_back(target, entry, _FORGET_REQUEST))
        raise
    if location is not None:
        return outcome
    return replace(outcome, note=outcome.note or f"the service put it at {locations.redact(entry.location)}")


def _register(target: Target[LiveTable]) -> ChangeOutcome:
    """Create an entry for the data at its location."""
    if target.precondition is Precondition.APPLIED:  # only its tags are left
        return ChangeOutcome(Status.ALREADY)
    if target.change.clone is not None:
        return _clone(target, target.change.clone)
    location = _location_to_request(target)
    if location is None:
        raise InvalidInputError("it needs a location: that of its data")
    expect_data(target.change, target.backend, location, target.after.columns or ())
    return _insert(target, location)[0]


def _location_to_request(target: Target[LiveTable]) -> str | None:
    """Return the location to request for a new entry; None if the service chooses.

    Raises:
        InvalidInputError: neither the plan nor the catalog names one, or the catalog would reject it.
    """
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
    """Create an entry at ``location`` or, if that is None, where the service chooses.

    Returns:
        The outcome, the entry, and whether this run has created it: an entry in the planned state is accepted.
    """
    properties = target.property_changes({}).set
    try:
        entry = target.backend.enter_table(target.identifier, location, properties)
    except TableAlreadyExistsError as error:
        existing = target.accept_existing(load_table(target.backend, target.identifier), error)
        if has_true_request(existing):
            return ChangeOutcome(Status.ALREADY), existing, False
        return *_request_location_again(target, existing), False
    return _mark_location(target, entry), entry, True


def _mark_location(
    target: Target[LiveTable], entry: LiveTable, undo: PropertyChanges = _FORGET_REQUEST
) -> ChangeOutcome:
    """Update the marks of the requested location after a write.

    The marks are set if the service chose another location, else removed.

    Args:
        target: the table.
        entry: the entry as the service returned it after the write.
        undo: restores the properties of an entry that existed before the write.

    Raises:
        UnsupportedOperationError: the service chose another location, and the data is at the requested one.
    """
    requested, capabilities = target.after.location, target.backend.capabilities()
    if requested is None:
        return target.outcome_of_write(entry)
    elsewhere = location_mismatch(entry, requested)
    if elsewhere and _is_for_data(target):
        raise UnsupportedOperationError(f"{elsewhere}, where the data is; {_take_back(target, entry, undo)}")
    request = {REQUESTED_LOCATION: requested, CHOSEN_LOCATION: entry.location}
    is_recorded = request.items() <= entry.properties.items() if elsewhere else has_true_request(entry)
    if not is_recorded and capabilities.alter_table and capabilities.table_markers:
        entry = target.backend.alter_table(
            target.identifier, PropertyChanges(request) if elsewhere else _FORGET_REQUEST
        )
    return ChangeOutcome(note=elsewhere) if elsewhere else target.outcome_of_write(entry)


def _is_for_data(target: Target[LiveTable]) -> bool:
    """Return whether the entry is for data that is at the requested location."""
    change = target.change
    return change.mirror_of is not None or change.action in (Action.REGISTER_TABLE, Action.RELOCATE_TABLE)


def _take_back(target: Target[LiveTable], entry: LiveTable, undo: PropertyChanges) -> str:
    """Remove a new entry, or apply ``undo`` to one that the plan knows.

    Return what happened as a phrase. An entry that an earlier run created may have data by now; then it stays.
    """
    if target.change.before is not None:
        return undo_write(target.backend, target.identifier, undo)
    try:
        if target.live is not None:
            expect_no_data(target.backend, entry.location)
    except (StaleError, ServiceUnavailableError) as error:
        return f"the entry could not be taken back ({error})"
    return undo_write(target.backend, target.identifier)


def _is_unconfirmed(target: Target[LiveTable]) -> bool:
    """Return whether an interrupted run has set the entry's location only.

    Its marks are then out of date.
    """
    change = target.change
    before = change.before.location if change.before else None
    sets_location = change.before is None or not locations.same(before, target.after.location)
    return sets_location and target.precondition is Precondition.UNCONFIRMED


def _confirm_location(target: Target[LiveTable]) -> ChangeOutcome:
    """Complete the marks of an entry from an interrupted run."""
    live, requested = target.existing, target.after.location
    needs_data = target.change.action is not Action.DECLARE_TABLE and target.change.probe
    if needs_data and requested is not None and not locations.same(live.location, requested):
        expect_data(target.change, target.backend, requested, ())
    return _request_location_again(target, live)[0]


def _request_location_again(target: Target[LiveTable], live: LiveTable) -> tuple[ChangeOutcome, LiveTable]:
    """Request the planned location for an existing entry.

    Return the outcome and the entry after that. The answer tells whether the service chose the present location, or
    another client moved the entry.
    """
    requested, capabilities = target.after.location, target.backend.capabilities()
    if requested is None or not capabilities.alter_table:
        return ChangeOutcome(Status.ALREADY), live
    if locations.same(live.location, requested):
        entry = target.backend.alter_table(target.identifier, _FORGET_REQUEST)
    else:
        # A service that may ignore the location gets the marks with the request.
        request = PropertyChanges({REQUESTED_LOCATION: requested, CHOSEN_LOCATION: live.location})
        moves = capabilities.relocate_table and not capabilities.ignores_location
        marks = _FORGET_REQUEST if moves else request
        entry = target.backend.alter_table(target.identifier, marks, requested if capabilities.relocate_table else None)
    return _mark_location(target, entry), entry


# ---- existing entries ------------------------------------------------------------------------------------------------


def _update_entry(target: Target[LiveTable]) -> ChangeOutcome:
    return _alter_entry(target, target.existing, wrote=False)


def _alter(target: Target[LiveTable]) -> ChangeOutcome:
    """Change the columns of a table's data, and the properties of its entry."""
    live = target.existing
    # An unmanaged entry is marked first: once its data has the planned columns, no later plan would mark it.
    marked = _alter_entry(target, live, wrote=False) if _is_unmanaged(target) else None
    wrote = evolve_dataset(target.change, _write_options(target, live), live.location, managed=live.managed_versioning)
    if marked is None:
        return _alter_entry(target, live, wrote=wrote)
    return replace(marked, status=Status.DONE) if wrote else marked


def _is_unmanaged(target: Target[LiveTable]) -> bool:
    """Return whether the entry had no owner mark when the plan was made."""
    return target.change.before is not None and target.change.before.managed_by is None


def _alter_entry(target: Target[LiveTable], live: LiveTable, *, wrote: bool) -> ChangeOutcome:
    """Write the planned properties to the entry.

    ``wrote`` tells whether the change has written to storage before.
    """
    changes = target.property_changes(live.properties, live.location)
    if changes:
        _pin_found_clone(target, live)
        return target.outcome_of_write(target.backend.alter_table(target.identifier, changes))
    return ChangeOutcome(Status.DONE if wrote else Status.ALREADY)


def _relocate(target: Target[LiveTable]) -> ChangeOutcome:
    """Change the location of the entry, if the new location has data.

    No data is moved.
    """
    if target.precondition is Precondition.APPLIED:  # only its tags are left
        return ChangeOutcome(Status.ALREADY)
    if target.change.probe and target.after.location is not None:
        expect_data(target.change, target.backend, target.after.location, ())
    live = target.existing
    changes = target.property_changes(live.properties, live.location)
    entry = target.backend.alter_table(target.identifier, changes, target.after.location)
    return _mark_location(target, entry, changes.undone(live.properties))


def _deregister(target: Target[LiveTable]) -> ChangeOutcome:
    """Remove the entry; its data stays."""
    try:
        removed = target.backend.remove_table(target.identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        return ChangeOutcome(Status.ALREADY)
    return ChangeOutcome(note=f"data stays at {locations.redact(removed.location)}")


_STEPS: Steps[LiveTable] = {
    Action.CREATE_TABLE: _create,
    Action.DECLARE_TABLE: _declare,
    Action.REGISTER_TABLE: _register,
    Action.UPDATE_TABLE: _update_entry,
    Action.ALTER_TABLE: _alter,
    Action.TAG: _update_entry,
    Action.RELOCATE_TABLE: _relocate,
    Action.DEREGISTER_TABLE: _deregister,
}


# ---- namespaces ------------------------------------------------------------------------------------------------------


def change_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    """Carry out the change of a namespace."""
    return _NAMESPACE_STEPS[target.change.action](target)


def _create_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    try:
        properties = {**_inherited_properties(target), **target.property_changes({}).set}
        namespace = target.backend.insert_namespace(target.identifier, properties, kind=target.after.kind)
    except NamespaceAlreadyExistsError as error:
        target.accept_existing(load_namespace(target.backend, target.identifier), error)
        return ChangeOutcome(Status.ALREADY)
    return target.outcome_of_write(namespace)


def _inherited_properties(target: Target[LiveNamespace]) -> dict[str, str]:
    """Return properties for a new namespace from the one that it replaces.

    They are those that lancens did not set, without its location.
    """
    origin_id = target.change.takes_from
    origin = None if origin_id is None else load_namespace(target.backend, target.backend.namespace_id_of(origin_id))
    foreign = ownership.foreign_properties(origin.properties) if origin is not None else {}
    return {key: value for key, value in foreign.items() if key not in target.backend.capabilities().namespace_places}


def _update_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    changes = target.property_changes(target.existing.properties)
    return target.outcome_of_write(target.backend.alter_namespace(target.identifier, changes))


def _drop_namespace(target: Target[LiveNamespace]) -> ChangeOutcome:
    """Drop a namespace if it is empty.

    One that holds anything is kept, with a message.
    """
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
