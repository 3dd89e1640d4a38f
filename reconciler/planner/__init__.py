"""Desired state and live state in, a plan out. Pure: no I/O, no clock, no backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from reconciler.model.desired import Thresholds
from reconciler.model.names import Identifier
from reconciler.planner.catalog import CatalogPlan, compare_namespaces, plan_catalog
from reconciler.planner.entries import Entry, Fingerprint
from reconciler.planner.facts import CatalogInput
from reconciler.planner.ordering import order
from reconciler.planner.plan import ManifestRef, Options, Plan
from reconciler.planner.safety import removes_too_much

__all__ = ["assemble", "make_plan"]

_NONE_GIVEN = Options()
_Of = TypeVar("_Of", bound=Entry | Fingerprint)


def make_plan(
    manifest: ManifestRef,
    thresholds: Thresholds,
    catalogs: Iterable[CatalogInput],
    options: Options = _NONE_GIVEN,
) -> Plan:
    """Return the plan that turns the live state of every catalog into the desired one.

    ``options`` is what the plan says it was made with; each catalog is planned with those of its own input.
    """
    plans = [plan_catalog(catalog, compare_namespaces(catalog)) for catalog in catalogs]
    return assemble(manifest, thresholds, plans, options)


def assemble(
    manifest: ManifestRef,
    thresholds: Thresholds,
    catalogs: Sequence[CatalogPlan],
    options: Options = _NONE_GIVEN,
) -> Plan:
    """Return one plan of the plans of all catalogs: ordered, and the same bytes for the same input."""
    summaries = tuple(sorted((catalog.summary for catalog in catalogs), key=lambda summary: summary.name))
    return Plan(
        manifest=manifest,
        thresholds=thresholds,
        options=options.model_copy(update={"mass_removal": removes_too_much(thresholds, summaries)}),
        catalogs=summaries,
        changes=order(change for catalog in catalogs for change in catalog.changes),
        blocked=_in_order(one for catalog in catalogs for one in catalog.blocked),
        waiting=_in_order(change for catalog in catalogs for change in catalog.waiting),
        guards=_in_order(guard for catalog in catalogs for guard in catalog.guards),
        notes=tuple(
            sorted(
                (note for catalog in catalogs for note in catalog.notes), key=lambda note: (note.catalog, note.message)
            )
        ),
        fingerprints=_in_order(fingerprint for catalog in catalogs for fingerprint in catalog.fingerprints),
    )


def _in_order(entries: Iterable[_Of]) -> tuple[_Of, ...]:
    """Return what is said of single objects by catalog and identifier."""
    return tuple(sorted(entries, key=_place_of))


def _place_of(one: Entry | Fingerprint) -> tuple[str, Identifier, str, Identifier]:
    """Return where something stands; of two fingerprints of one object, one may be that of a move."""
    moved_to = one.moved_to if isinstance(one, Fingerprint) else None
    return one.catalog, one.identifier, one.kind, moved_to or ()
