"""Checks of a plan against the live catalogs, before the first write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from reconciler.applier.live import (
    CheckedObjects,
    Precondition,
    StaleField,
    differences,
    load_all,
    load_table,
    precondition_of,
)
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
from reconciler.planner.entries import Action, Change, Fingerprint, Key
from reconciler.planner.facts import CatalogInput
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import CatalogSummary, Plan
from reconciler.planner.views import ObjectView, view_of

_WRITE_ENTRY_ONLY = frozenset({Action.UPDATE_TABLE, Action.DEREGISTER_TABLE})
"""The actions that write a table's entry, and nothing else but tags and shown columns."""


@dataclass(slots=True)
class _PlannedObject:
    """A plan's fingerprint of an object and its changes.

    ``move_away`` is the move that takes its name away.
    """

    fingerprint: Fingerprint | None = None
    changes: list[Change] = field(default_factory=list)
    move_away: Change | None = None

    def planned_on(self) -> ObjectView | None:
        """Return the state that the plan was made on; None if the object did not exist."""
        return self.fingerprint.view if self.fingerprint else self.changes[0].before


def check_plan(
    plan: Plan,
    backends: Mapping[str, Backend],
    parallelism: int = DEFAULT_PARALLELISM,
    *,
    secrets: Collection[str] = (),
) -> CheckedObjects:
    """Raise StalePlanError if an object of ``plan`` changed since.

    Return the missing objects, and the tables that are next read in the commit of their one change. An object on which
    one of its changes is already done is accepted, so that an interrupted apply can go on. Storage is not read here but
    right before each write.

    Args:
        plan: new, or read from a file.
        backends: the connection of every catalog of the plan, by the catalog's name.
        parallelism: how many objects are read at a time.
        secrets: texts that no message may show.

    Raises:
        StalePlanError: naming each object that differs from the plan, and its fields.
        CatalogError: an object could not be read.
    """
    planned = _planned_objects(plan)

    tables = {summary.name: summary.tables for summary in plan.catalogs}
    catalogs = list(dict.fromkeys(key[0] for key in planned))

    def read(catalog: str) -> tuple[Mapping[Key, Sequence[StaleField]], CheckedObjects]:
        backend = backends[catalog]
        expected = {key[1:]: entry.planned_on() is not None for key, entry in planned.items() if key[0] == catalog}
        with catalog_errors(catalog, backend.impl, secrets):
            loaded = load_all(backend, expected, tables.get(catalog, 0), parallelism)
            objects = {(catalog, *key): live for key, live in loaded.items()}
            differing = {key: _stale_fields(planned[key], backend, live) for key, live in objects.items()}
            return (
                {key: fields for key, fields in differing.items() if fields},
                {
                    key: live
                    for key, live in objects.items()
                    if live is None or _is_next_read_in_commit(planned[key], backend, live)
                },
            )

    results = in_parallel(read, catalogs, parallelism)
    stale = {key: fields for differing, _ in results for key, fields in differing.items()}
    if stale:
        raise StalePlanError(
            f"{len(stale)} of {count(len(planned), 'object')} changed since it was made",
            *(scrub(line, secrets) for line in _stale_lines(stale)),
            remedy="Plan again, or apply the manifest.",
        )
    return {key: live for _, checked in results for key, live in checked.items()}


def _planned_objects(plan: Plan) -> dict[Key, _PlannedObject]:
    """Return the objects with a fingerprint or a change, sorted by name."""
    objects: defaultdict[Key, _PlannedObject] = defaultdict(_PlannedObject)
    for fingerprint in plan.fingerprints:
        objects[fingerprint.catalog, fingerprint.kind, fingerprint.identifier].fingerprint = fingerprint
    for change in plan.changes:
        objects[change.key].changes.append(change)
        if change.moved_from is not None:
            objects[change.catalog, change.kind, change.moved_from].move_away = change
    return {key: objects[key] for key in sorted(objects, key=lambda key: (key[0], key[2], key[1]))}


def _stale_fields(
    planned: _PlannedObject, backend: Backend, live: LiveNamespace | LiveTable | None
) -> Sequence[StaleField]:
    """Return the fields of ``live`` that differ from the plan.

    The result is empty if the plan or one of its changes explains it.
    """
    fingerprint = planned.fingerprint
    safeguard = backend.capabilities().safeguard
    if fingerprint and fingerprint.matches(view_of(live, fingerprint.managed_keys, safeguard)):
        return ()
    if planned.move_away is not None and _can_move_away(planned.move_away, live, backend):
        return ()
    if isinstance(live, LiveTable) and any(
        change.moved_from is not None and has_moved(change, live, backend) for change in planned.changes
    ):
        return ()
    views = ((change, view_of(live, change.managed_keys, safeguard)) for change in planned.changes)
    if any(precondition_of(change, view) is not Precondition.STALE for change, view in views):
        return ()
    entry = fingerprint or planned.changes[0]
    return differences(entry, planned.planned_on(), view_of(live, entry.managed_keys, safeguard)) or [
        StaleField("state", "what the plan's fingerprint was taken of", "something else")
    ]


def _is_next_read_in_commit(planned: _PlannedObject, backend: Backend, live: LiveNamespace | LiveTable | None) -> bool:
    """Return whether the commit of an object's one change is the next to read it.

    Its only write must be to the entry, as planned.
    """
    if len(planned.changes) != 1 or planned.move_away is not None or not backend.checks_at_commit:
        return False
    [change] = planned.changes
    if change.unpinned is not None:  # the tag is removed first
        return False
    if change.action not in _WRITE_ENTRY_ONLY or (change.after is not None and change.after.writes_beside_entry):
        return False
    view = view_of(live, change.managed_keys, backend.capabilities().safeguard)
    return precondition_of(change, view) is Precondition.PENDING


def _can_move_away(move: Change, live: LiveNamespace | LiveTable | None, backend: Backend) -> bool:
    """Return whether the entry with the old name can be moved, or has been.

    It must be as planned on, or marked by an interrupted move.
    """
    if isinstance(live, LiveTable):
        return is_as_planned(move, live, backend)
    renamed = None if live is not None else load_table(backend, move.identifier)
    return renamed is not None and has_moved(move, renamed, backend)


def _stale_lines(stale: Mapping[Key, Sequence[StaleField]]) -> Sequence[str]:
    """Return a line for each stale field, in columns.

    The columns are the address, the field, and its planned and live values.
    """
    rows = [
        (
            display.address(catalog, *identifier),
            display.printable(stale_field.field),
            display.printable(str(stale_field)),
        )
        for (catalog, _, identifier), fields in stale.items()
        for stale_field in fields
    ]
    widths = [max(display.width_of(row[column]) for row in rows) for column in (0, 1)]
    return [f"  {'   '.join((*map(display.padded, row, widths), row[2]))}" for row in rows]


def with_live_count(
    summary: CatalogSummary,
    limits: Thresholds,
    source: CatalogInput,
    removed: Collection[Identifier],
    backend: Backend,
    parallelism: int,
) -> CatalogSummary:
    """Return ``summary`` with ``removable_tables`` counted in the live catalog.

    Nothing in a plan proves this number, and one that is too high would lift the limit on removals. A sample of the
    tables that stay is counted first; the whole catalog only if the sample does not show that the limit is kept.

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
    percent, removals = limits.max_removal_percent, summary.total_removed
    if removals * 100 <= max(limits.min_tables, removals) * percent:
        return summary  # within the limit whatever the count
    context = CatalogContext.of(source)

    def count_removable(tables: Iterable[LiveTable]) -> int:
        return sum(context.is_removable(table.id, owner_of(table.properties)) for table in tables)

    if percent:
        needed = -(-removals * 100 // percent) - removals
        desired = source.desired.tables.values()
        expected = (table.id for table in desired if not (table.absent or table.id in removed))
        sample = islice(filter(context.select.contains, expected), 2 * needed)
        loaded = in_parallel(lambda identifier: load_table(backend, identifier), sample, parallelism)
        staying = count_removable(table for table in loaded if table is not None)
        if staying >= needed:
            return summary.model_copy(update={"removable_tables": removals + staying})
    tables = backend.scan_readable(source.desired.scope).tables.values()
    staying = count_removable(table for table in tables if table.id not in removed)
    return summary.model_copy(update={"removable_tables": removals + staying})
