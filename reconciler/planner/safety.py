"""The last looks at a plan before it is carried out: is it whole, and does it remove more than anyone would mean to?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.model import display
from reconciler.model.desired import Thresholds
from reconciler.model.errors import BlockedError, SafetyError
from reconciler.planner.plan import CatalogSummary, Plan


def check_blocked(plan: Plan) -> None:
    """Refuse a plan that could not plan everything.

    Raises:
        BlockedError: naming each object that is blocked, why, and what to do about it.
    """
    if plan.blocked:
        raise BlockedError(
            [
                f"{display.address(one.catalog, *one.identifier)}: {display.printable(one.reason)}"
                for one in plan.blocked
            ]
        )


def check_removals(plan: Plan) -> None:
    """Refuse a plan that removes too much of a catalog.

    Too much is more than ``thresholds.max_removal_percent`` of the tables that pruning may touch, where there are at
    least ``thresholds.min_tables`` of them, or anything at all when the manifest says nothing about the catalog, or
    when its mirror finds nothing in the catalog that it follows.

    Raises:
        SafetyError: naming each catalog, what would be removed and the flag that allows it.
    """
    reasons = [reason for catalog in plan.catalogs for reason in _reasons(plan.thresholds, catalog)]
    if reasons:
        raise SafetyError(*reasons, "Nothing was changed. If this is meant, allow it with --allow-mass-removal.")


def removes_too_much(limits: Thresholds, catalogs: Iterable[CatalogSummary]) -> bool:
    """Return whether :func:`check_removals` refuses a plan with these catalogs."""
    return any(True for catalog in catalogs for _ in _reasons(limits, catalog))


def _reasons(limits: Thresholds, catalog: CatalogSummary) -> Iterator[str]:
    tables, removed = catalog.removable_tables, catalog.removed_tables
    if catalog.unmirrored_tables and catalog.mirrored_tables == 0:
        yield (
            f"{catalog.name}: its mirror finds no table in the catalog that it follows, which would deregister "
            f"{catalog.unmirrored_tables} tables; that catalog may be empty, missing or another one"
        )
    elif removed and not catalog.desired_objects and catalog.mirrored_tables is None:
        yield f"{catalog.name}: the manifest names no object of this catalog, which would deregister {removed} tables"
    elif tables >= limits.min_tables and removed * 100 > tables * limits.max_removal_percent:
        yield (
            f"{catalog.name}: the plan would deregister {removed} of {tables} tables "
            f"({removed * 100 // tables}%); the limit is {limits.max_removal_percent}%"
        )
