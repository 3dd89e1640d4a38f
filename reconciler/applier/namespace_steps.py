"""The steps that make, update and drop a namespace."""

from __future__ import annotations

from reconciler.applier.live import load_namespace
from reconciler.applier.report import Status
from reconciler.applier.step import ChangeOutcome, Step, Steps, Target
from reconciler.model import ownership
from reconciler.model.errors import NamespaceAlreadyExistsError, NamespaceNotEmptyError, NamespaceNotFoundError
from reconciler.model.live import LiveNamespace
from reconciler.planner.entries import Action


def step_of_namespace(target: Target[LiveNamespace]) -> Step[LiveNamespace]:
    """Return the step that carries out the change of a namespace."""
    return _STEPS[target.change.action]


def _create(target: Target[LiveNamespace]) -> ChangeOutcome:
    try:
        properties = {**_taken_along(target), **target.changes_to({}).set}
        made = target.backend.insert_namespace(target.identifier, properties, kind=target.after.kind)
    except NamespaceAlreadyExistsError as error:
        target.accept(load_namespace(target.backend, target.identifier), error)
        return ChangeOutcome(Status.ALREADY)
    return target.written(made)


def _taken_along(target: Target[LiveNamespace]) -> dict[str, str]:
    """Return the properties of a namespace under its old name that others have set, but for those of its place."""
    before = target.change.takes_from
    origin = None if before is None else load_namespace(target.backend, target.backend.namespace_id_of(before))
    found = ownership.others(origin.properties) if origin is not None else {}
    return {key: value for key, value in found.items() if key not in target.backend.capabilities.namespace_places}


def _update(target: Target[LiveNamespace]) -> ChangeOutcome:
    changes = target.changes_to(target.existing.properties)
    return target.written(target.backend.alter_namespace(target.identifier, changes))


def _drop(target: Target[LiveNamespace]) -> ChangeOutcome:
    """RESTRICT only: a namespace that holds anything stays, which is worth a note and no failure."""
    try:
        target.backend.remove_namespace(target.identifier)
    except NamespaceNotFoundError:
        return ChangeOutcome(Status.ALREADY)
    except NamespaceNotEmptyError as error:
        return ChangeOutcome(Status.KEPT, message=f"kept, it is not empty: {error}")
    return ChangeOutcome()


_STEPS: Steps[LiveNamespace] = {
    Action.CREATE_NAMESPACE: _create,
    Action.UPDATE_NAMESPACE: _update,
    Action.DROP_NAMESPACE: _drop,
}
