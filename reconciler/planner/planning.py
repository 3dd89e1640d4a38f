"""Several catalogs planned one after the other, those that others mirror first, and the one plan that comes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.model.live import Storage
from reconciler.model.names import Identifier
from reconciler.planner.catalog import CatalogPlan, standing
from reconciler.planner.comparison import comparison_of
from reconciler.planner.entries import Fingerprint
from reconciler.planner.facts import CatalogInput
from reconciler.planner.mirrors import NOTHING_KEPT, Remains, mirrored
from reconciler.planner.remaining import remains_of, written_by


@dataclass(slots=True)
class Planning:
    """The catalogs that are planned so far, in an order in which each comes after the one that it mirrors."""

    _planned: dict[str, tuple[CatalogInput, CatalogPlan]] = field(default_factory=dict)
    _written: dict[str, Storage] = field(default_factory=dict)

    def with_mirror(self, source: CatalogInput, kept: Mapping[Identifier, Identifier] = NOTHING_KEPT) -> CatalogInput:
        """Return a catalog that is yet to be planned with what it is to have by its mirror; without one, as it is.

        Args:
            source: the catalog, with its own blocks only.
            kept: the names that its service keeps, by those that it was asked for and does not.
        """
        mirror = source.desired.mirror
        if mirror is None:
            return source
        followed = self._planned.get(mirror.origin)
        remains = Remains() if followed is None else remains_of(*followed)
        found = mirrored(source.desired, mirror, source.capabilities, remains, kept)
        return replace(source, desired=found.desired, mirrored=found)

    def with_written(self, source: CatalogInput) -> CatalogInput:
        """Return a catalog that is about to be planned with what the plans of the others write."""
        return replace(source, written=self._written)

    def add(self, source: CatalogInput, plan: CatalogPlan) -> None:
        """Take note of the plan of a catalog; ``source`` has its live tables, where another catalog mirrors it."""
        self._planned[source.desired.name] = source, plan
        self._written.update(written_by(source, plan))

    def plans(self) -> list[CatalogPlan]:
        """Return the plans of all catalogs, with the states of all that decides what becomes of what follows it."""
        watched: defaultdict[str, set[Identifier]] = defaultdict(set)
        for name, (source, plan) in reversed(self._planned.items()):
            plan.fingerprints += _watched(source, plan, watched[name])
            mirror = source.desired.mirror
            if mirror is not None and mirror.origin in self._planned:
                watched[mirror.origin] |= _followed(source, plan, watched[name])
        return [plan for _, plan in self._planned.values()]


def _watched(source: CatalogInput, plan: CatalogPlan, watched: Collection[Identifier]) -> list[Fingerprint]:
    """Return the fingerprints of the tables in ``watched`` that the plan has none of yet."""
    known = {one.identifier for one in plan.fingerprints if one.kind == "table"}
    comparison, blocks = comparison_of(source), source.desired.tables
    return [
        standing(source, comparison, "table", identifier, live)
        for identifier in sorted(set(watched) - known)
        for live in (source.live.tables.get(identifier),)
        if live is not None or (block := blocks.get(identifier)) is None or block.refused is None
    ]


def _followed(source: CatalogInput, plan: CatalogPlan, watched: Iterable[Identifier]) -> set[Identifier]:
    """Return the tables that decide what becomes of what the plan is about, and of the tables in ``watched``."""
    if source.mirrored is None:
        return set()
    entries = (*plan.changes, *plan.waiting, *plan.blocked)
    namespaces = [one.identifier for one in plan.fingerprints if one.kind == "namespace"]
    tables = {*watched, *(one.identifier for one in entries if one.kind == "table")}
    tables |= set(source.mirrored.witnesses(namespaces))
    return {origin for table in tables for origin in source.mirrored.origins_of(table)}
