"""Plan and carry out the upkeep of datasets: compaction and indices."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from reconciler import storage
from reconciler.applier.report import ApplyReport, Event, Status
from reconciler.manifest import Manifest
from reconciler.model import locations
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.desired import DesiredCatalog, DesiredTable
from reconciler.model.errors import PlanFileError, SelectionError
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier, Scope
from reconciler.operations.apply import carry_out, check_arguments, ignore_event, replan_verified
from reconciler.operations.connections import Connection, open_connections, read_all, shown_locations_of
from reconciler.operations.plan import (
    check_begins_with_catalog,
    check_globs,
    checkable,
    input_of,
    reference,
    selected_in,
    selection_of,
    summary_of,
)
from reconciler.planner.facts import PlanOptions
from reconciler.planner.maintenance import MaintainedTable, UpkeepBlocks, plan_jobs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.placeholders import hide_locations
from reconciler.planner.plan import Options, Plan, WorkLimits

_NO_LIMITS = WorkLimits()


@dataclass(frozen=True, slots=True)
class _MaintainedEntry:
    """A live table with `maintain` in its block or a policy."""

    connection: Connection
    context: CatalogContext
    table: DesiredTable
    live: LiveTable


class _ReadEntries(NamedTuple):
    """The number of tables of a catalog, the names of those with `maintain`, and the selected ones of these."""

    tables: int
    with_upkeep: Sequence[Identifier]
    selected: Sequence[_MaintainedEntry]


def _has_upkeep(desired: DesiredCatalog) -> bool:
    """Return whether a block or a policy of a catalog asks for upkeep."""
    blocks, policies = desired.tables.values(), desired.policies
    return any(block.maintain for block in blocks) or any(block.maintain for block in policies)


def plan_maintenance(
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    limits: WorkLimits = _NO_LIMITS,
    parallelism: int = DEFAULT_PARALLELISM,
) -> Plan:
    """Return the jobs that the datasets need, with their costs; change nothing.

    Args:
        manifest: its live tables with `maintain`, in a block or a policy, are looked at.
        select: globs over ``catalog/namespace/table``.
        exclude: globs like those of ``select``; their matches are left out.
        limits: jobs beyond them are left out, with a note.
        parallelism: how many datasets are looked at at once.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob matches no table with `maintain`, one to exclude begins with no catalog, or nothing is
            left.
    """
    check_begins_with_catalog(exclude, manifest)
    selection = selection_of(select, exclude)
    with_upkeep = [name for name, catalog in manifest.catalogs.items() if _has_upkeep(catalog.desired)]
    concerned = [name for name in with_upkeep if selection.below(name).patterns]
    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        read = read_all(
            connections.values(), lambda connection: _entries_to_maintain(connection, selection), parallelism
        )
        found = [(connection, each.with_upkeep) for connection, each in zip(connections.values(), read, strict=True)]
        globs = [*select, *checkable(exclude, manifest, concerned)]
        check_globs(globs, found, "matches no live table with `maintain` in its block or policy")
        entries = _distinct_datasets([entry for each in read for entry in each.selected])
        if select and exclude and not entries:
            raise SelectionError("`--exclude` leaves nothing of what `--select` names")
        tables = in_parallel(_with_upkeep, entries, parallelism)
        catalogs = [
            summary_of(connection, 0, each.tables, len(each.selected))
            for connection, each in zip(connections.values(), read, strict=True)
        ]
    options = Options(select=tuple(select), exclude=tuple(exclude), maintain=True, limits=limits)
    manifest_ref = reference(manifest).model_copy(update={"upkeep": manifest.upkeep_digest})
    planned = plan_jobs(manifest_ref, manifest.thresholds, options, catalogs, tables)
    return hide_locations(planned, shown_locations_of(manifest))


def maintain(
    plan: Plan,
    manifest: Manifest,
    *,
    journal: str | os.PathLike[str] = ".lancens",
    until: datetime | None = None,
    parallelism: int = DEFAULT_PARALLELISM,
    on_event: Callable[[Event], None] = ignore_event,
    stop: threading.Event | None = None,
    executors: storage.Executors | None = None,
) -> ApplyReport:
    """Carry out the jobs of :func:`plan_maintenance`, those of one dataset one after the other.

    The plan is checked as one of `apply` is. Each entry and its dataset are looked at again before each job. Jobs that
    have not begun at ``until`` are left out of the report. The work of a job is done on ``executors``, such as Spark's,
    if there are any; this process commits.

    Raises:
        StalePlanError: the manifest, the entry of a table or a catalog has changed since; nothing was written.
        PlanFileError: the plan is one of `apply`, or was edited.
        ApplyError: the journal cannot be written.
    """
    check_arguments(plan, manifest)
    if not plan.options.maintain:
        raise PlanFileError("this is no plan of `lancens maintain`; `lancens apply` carries it out")
    stop = stop or threading.Event()
    with open_connections(manifest, plan.concerned, parallelism=parallelism) as connections:
        replanned, _ = replan_verified(plan, manifest, connections, parallelism)
        deadline = _Deadline(stop, until)
        report = carry_out(replanned, plan, connections, parallelism, journal, on_event, deadline, executors=executors)
    if stop.is_set() or not report.interrupted:
        return report
    begun = tuple(result for result in report.results if result.status is not Status.SKIPPED)
    return replace(report, results=begun, interrupted=False)


class _Deadline(threading.Event):
    """Set once ``stop`` is, or at the time ``until``."""

    def __init__(self, stop: threading.Event, until: datetime | None) -> None:
        super().__init__()
        self._stop, self._until = stop, until

    def is_set(self) -> bool:
        return self._stop.is_set() or (self._until is not None and datetime.now(self._until.tzinfo) >= self._until)


def _entries_to_maintain(connection: Connection, selection: Scope) -> _ReadEntries:
    """Read a catalog, and return its tables with `maintain`."""
    source = input_of(connection, PlanOptions(select=selected_in(connection, selection)))
    upkeep_blocks, context = UpkeepBlocks(source.desired), CatalogContext.of(source)
    live = connection.spec.scan(connection.backend, connection.desired.scope).tables
    blocks = ((live[key], upkeep_blocks.block_of(live[key])) for key in sorted(live))
    entries = [_MaintainedEntry(connection, context, block, table) for table, block in blocks if block is not None]
    selected = [entry for entry in entries if source.options.select.contains(entry.live.id)]
    return _ReadEntries(len(live), [entry.live.id for entry in entries], selected)


def _distinct_datasets(entries: Sequence[_MaintainedEntry]) -> list[_MaintainedEntry]:
    """Return ``entries`` with one entry for each dataset, the first."""
    return list({locations.normalise(entry.live.location): entry for entry in reversed(entries)}.values())[::-1]


def _with_upkeep(entry: _MaintainedEntry) -> MaintainedTable:
    with entry.connection.spec.errors():
        options = entry.connection.backend.table_storage_options(entry.live)
        upkeep = storage.upkeep_of(entry.live.location, options, entry.table.maintain, explain=True)
    return MaintainedTable(entry.context, entry.table, entry.live, upkeep)
