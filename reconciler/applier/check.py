"""Checks of a plan against the live catalogs, before the first write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from reconciler.applier.live import MovedField, Precondition, differences, load_all, load_table, precondition_of
from reconciler.applier.move_steps import has_moved, is_as_planned
from reconciler.backends.base import Backend, catalog_errors
from reconciler.model import display
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.desired import Thresholds
from reconciler.model.display import count
from reconciler.model.errors import StalePlanError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import Identifier
from reconciler.model.ownership import owner_of
from reconciler.model.redaction import scrub
from reconciler.planner.entries import Change, Fingerprint, Key
from reconciler.planner.facts import CatalogInput
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import CatalogSummary, Plan
from reconciler.planner.views import ObjectView, view_of

_States: TypeAlias = Mapping[Key, tuple[bool, Sequence[MovedField]]]
"""For each object, whether it is missing and which fields have moved."""


@dataclass(slots=True)
class _Touched:
    """What the plan records of one object and does to it.

    ``leaving`` is the move that takes its name away.
    """

    fingerprint: Fingerprint | None = None
    changes: list[Change] = field(default_factory=list)
    leaving: Change | None = None

    def planned_on(self) -> ObjectView | None:
        return self.fingerprint.view if self.fingerprint else self.changes[0].before


def check_plan(
    plan: Plan,
    backends: Mapping[str, Backend],
    parallelism: int = DEFAULT_PARALLELISM,
    *,
    secrets: Collection[str] = (),
) -> Collection[Key]:
    """Raise if an object of ``plan`` has moved; return those that do not exist.

    An object that one of the changes has already reached is accepted, so that an interrupted apply can go on. Storage
    is not opened here but right before each write.

    Args:
        plan: new, or read from a file.
        backends: the connection of every catalog of the plan, by the catalog's name.
        parallelism: how many objects are read at a time.
        secrets: texts that no message may show.

    Raises:
        StalePlanError: naming each object that moved, and its fields.
        CatalogError: an object could not be read.
    """
    touched = _touched(plan)

    tables = {summary.name: summary.tables for summary in plan.catalogs}
    concerned = list(dict.fromkeys(key[0] for key in touched))

    def read(catalog: str) -> _States:
        backend = backends[catalog]
        expected = {key[1:]: entry.planned_on() is not None for key, entry in touched.items() if key[0] == catalog}
        with catalog_errors(catalog, backend.impl, secrets):
            objects = load_all(backend, expected, tables.get(catalog, 0), parallelism)
            return {
                key: (live is None, _moved(touched[key], backend, live))
                for (kind, identifier), live in objects.items()
                for key in ((catalog, kind, identifier),)
            }

    states = {key: state for part in in_parallel(read, concerned, parallelism) for key, state in part.items()}
    stale = {key: fields for key in touched if (fields := states[key][1])}
    if stale:
        raise StalePlanError(
            f"{len(stale)} of {count(len(touched), 'object')} moved since it was made",
            *(scrub(line, secrets) for line in _lines(stale)),
            remedy="Plan again, or apply the manifest.",
        )
    return frozenset(key for key, (is_missing, _) in states.items() if is_missing)


def _touched(plan: Plan) -> dict[Key, _Touched]:
    """Return the objects with a fingerprint or a change, in order."""
    objects: defaultdict[Key, _Touched] = defaultdict(_Touched)
    for fingerprint in plan.fingerprints:
        objects[fingerprint.catalog, fingerprint.kind, fingerprint.identifier].fingerprint = fingerprint
    for change in plan.changes:
        objects[change.key].changes.append(change)
        if change.moved_from is not None:
            objects[change.catalog, change.kind, change.moved_from].leaving = change
    return {key: objects[key] for key in sorted(objects, key=lambda key: (key[0], key[2], key[1]))}


def _moved(touched: _Touched, backend: Backend, live: LiveNamespace | LiveTable | None) -> Sequence[MovedField]:
    fingerprint = touched.fingerprint
    safeguard = backend.capabilities().safeguard
    if fingerprint and fingerprint.is_of(view_of(live, fingerprint.managed_keys, safeguard)):
        return ()
    if touched.leaving is not None and _is_leaving(touched.leaving, live, backend):
        return ()
    if isinstance(live, LiveTable) and any(
        change.moved_from is not None and has_moved(change, live, backend) for change in touched.changes
    ):
        return ()
    views = ((change, view_of(live, change.managed_keys, safeguard)) for change in touched.changes)
    if any(precondition_of(change, view) is not Precondition.STALE for change, view in views):
        return ()
    about = fingerprint or touched.changes[0]
    return differences(about, touched.planned_on(), view_of(live, about.managed_keys, safeguard)) or [
        MovedField("state", "what the plan's fingerprint was taken of", "something else")
    ]


def _is_leaving(change: Change, live: LiveNamespace | LiveTable | None, backend: Backend) -> bool:
    """Return whether a move has begun: the old entry is marked, or renamed."""
    if isinstance(live, LiveTable):
        return is_as_planned(change, live, backend)
    moved = None if live is not None else load_table(backend, change.identifier)
    return moved is not None and has_moved(change, moved, backend)


def _lines(stale: Mapping[Key, Sequence[MovedField]]) -> Sequence[str]:
    rows = [
        (display.address(catalog, *identifier), display.printable(moved.field), display.printable(str(moved)))
        for (catalog, _, identifier), fields in stale.items()
        for moved in fields
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"  {address:<{widths[0]}}   {field:<{widths[1]}}   {text}" for address, field, text in rows]


def with_true_count(
    summary: CatalogSummary,
    limits: Thresholds,
    source: CatalogInput,
    removed: Collection[Identifier],
    backend: Backend,
    parallelism: int,
) -> CatalogSummary:
    """Return ``summary`` with ``removable_tables`` counted in the live catalog.

    A plan cannot prove this number, and one that is too high would lift the limit on removals. Tables that stay are
    counted first, as many as the limit takes; the whole catalog only if they are too few.

    Args:
        summary: what the plan records of a catalog.
        limits: how much may be removed.
        source: the planner's input for the catalog.
        removed: the tables that the plan deregisters or takes tags from, which count even if they are gone.
        backend: the catalog.
        parallelism: how many tables are read at a time.

    Raises:
        BackendError: the catalog could not be read.
    """
    percent, going = limits.max_removal_percent, summary.going
    if going * 100 <= max(limits.min_tables, going) * percent:
        return summary  # within the limit whatever the count
    context = CatalogContext.of(source)

    def counted(tables: Iterable[LiveTable]) -> int:
        return sum(context.is_removable(table.id, owner_of(table.properties)) for table in tables)

    if percent:
        needed = -(-going * 100 // percent) - going
        desired = source.desired.tables.values()
        expected = (table.id for table in desired if not (table.absent or table.id in removed))
        sample = islice(filter(context.select.contains, expected), 2 * needed)
        loaded = in_parallel(lambda identifier: load_table(backend, identifier), sample, parallelism)
        staying = counted(table for table in loaded if table is not None)
        if staying >= needed:
            return summary.model_copy(update={"removable_tables": going + staying})
    tables = backend.scan_readable(source.desired.scope).tables.values()
    staying = counted(table for table in tables if table.id not in removed)
    return summary.model_copy(update={"removable_tables": going + staying})
