"""Is a plan that was read from a file one that lancens made, and not one that was edited or cut since?"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.errors import PlanFileError
from reconciler.planner.explain import explain
from reconciler.planner.plan import Plan

__all__ = ["check_integrity"]


def check_integrity(plan: Plan) -> None:
    """Return when what a plan shows is what it would do.

    Raises:
        PlanFileError: a part is missing, or does not fit another.
    """
    for fault in _faults(plan):
        raise PlanFileError(f"the plan is damaged: {fault}. Make the plan again. Nothing was changed.")


def _faults(plan: Plan) -> Iterator[str]:
    known = {catalog.name for catalog in plan.catalogs}
    fingerprinted = {(one.catalog, one.kind, one.identifier) for one in plan.fingerprints}
    for change in plan.changes:
        if change.kind != change.action.kind or change.catalog not in known:
            yield f"{change.address} does not fit its catalog or action"
        if (change.catalog, change.kind, change.identifier) not in fingerprinted:
            yield f"{change.address} has no fingerprint"
        if change.fields != explain(change.before, change.after):
            yield f"what it shows of {change.address} is not what it would do"
    changed = {change.catalog for change in plan.changes}
    for one in plan.fingerprints:
        if one.catalog not in changed:
            yield f"it has a fingerprint of `{one.catalog}`, where it changes nothing"
