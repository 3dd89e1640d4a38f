"""Desired state and live state in, a plan out. Pure: no I/O, no clock, no backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.errors import PlanError
from reconciler.planner.catalog import CatalogPlan, plan_catalog
from reconciler.planner.facts import CatalogInput
from reconciler.planner.ordering import order
from reconciler.planner.plan import ManifestRef, Plan
from reconciler.state import Thresholds

__all__ = ["assemble", "make_plan"]


def make_plan(manifest: ManifestRef, thresholds: Thresholds, catalogs: Iterable[CatalogInput]) -> Plan:
    """Return the plan that turns the live state of every catalog into the desired one.

    Raises:
        PlanError: with every conflict found, in all catalogs.
    """
    return assemble(manifest, thresholds, [plan_catalog(catalog) for catalog in catalogs])


def assemble(manifest: ManifestRef, thresholds: Thresholds, catalogs: Sequence[CatalogPlan]) -> Plan:
    """Return one plan of the plans of all catalogs: ordered, and the same bytes for the same input.

    Raises:
        PlanError: with every conflict found.
    """
    conflicts = sorted(conflict for catalog in catalogs for conflict in catalog.conflicts)
    if conflicts:
        raise PlanError(conflicts)
    return Plan(
        manifest=manifest,
        thresholds=thresholds,
        catalogs=tuple(sorted((catalog.summary for catalog in catalogs), key=lambda summary: summary.name)),
        changes=order(change for catalog in catalogs for change in catalog.changes),
        guards=tuple(
            sorted(
                (guard for catalog in catalogs for guard in catalog.guards),
                key=lambda guard: (guard.catalog, guard.identifier, guard.kind),
            )
        ),
        notes=tuple(
            sorted(
                (note for catalog in catalogs for note in catalog.notes), key=lambda note: (note.catalog, note.message)
            )
        ),
        fingerprints=tuple(
            sorted(
                (fingerprint for catalog in catalogs for fingerprint in catalog.fingerprints),
                key=lambda fingerprint: (fingerprint.catalog, fingerprint.identifier, fingerprint.kind),
            )
        ),
    )
