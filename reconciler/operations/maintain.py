"""Plan and carry out the upkeep of datasets: compaction and indices."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reconciler import storage
from reconciler.applier.executor import execute
from reconciler.applier.journal import Journal
from reconciler.applier.report import ApplyReport, Event, Status
from reconciler.backends import optional
from reconciler.manifest import Manifest
from reconciler.model import locations, ownership
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.desired import DesiredCatalog, DesiredTable
from reconciler.model.display import count
from reconciler.model.errors import PlanFileError, StalePlanError
from reconciler.model.figures import size
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier, Scope
from reconciler.model.policies import Policies
from reconciler.model.reasons import NoteCode, Params
from reconciler.operations.apply import check_arguments, check_services, ignore_event
from reconciler.operations.connections import Connection, open_connections, places_of, read_all
from reconciler.operations.plan import check_globs, reference, selected_in, selection_of, summary_of
from reconciler.planner.entries import Blocked, Change, Key, Note
from reconciler.planner.maintenance import Decision, jobs_of, ordered
from reconciler.planner.placeholders import hide_places
from reconciler.planner.plan import Options, Plan


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The most bytes that a plan reads and writes, and the most tables with jobs; None: no limit."""

    max_bytes: int | None = None
    max_tables: int | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A live table with `maintain` in its block."""

    connection: Connection
    table: DesiredTable
    live: LiveTable


def _asks(desired: DesiredCatalog) -> bool:
    """Return whether a block or a policy of a catalog asks for upkeep."""
    blocks, policies = desired.tables.values(), desired.policies
    return any(one.maintain for one in blocks) or any(one.maintain for one in policies)


class _Blocks:
    """The blocks of a catalog's tables, and what its policies ask for those without one."""

    def __init__(self, desired: DesiredCatalog) -> None:
        self._tables, self._policies = desired.tables, Policies(desired.policies)

    def of(self, table: Identifier, owner: str | None = None) -> DesiredTable | None:
        """Return what holds for a table; a policy leaves one that has an ``owner`` alone."""
        policy = self._policies.of(table) if owner is None and table not in self._tables else None
        return self._tables.get(table) if policy is None else replace(policy.block, id=table)


def plan_maintenance(
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    limits: WorkLimits = WorkLimits(),
    parallelism: int = DEFAULT_PARALLELISM,
) -> Plan:
    """Return the jobs that the datasets need, with their costs; change nothing.

    Args:
        manifest: its live tables with `maintain`, in a block or a policy, are looked at.
        select: globs over ``catalog/namespace/table``.
        limits: jobs beyond them are left out, with a note.
        parallelism: how many datasets are looked at at once.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob matches no table with `maintain`.
    """
    selection = selection_of(select)
    asking = [name for name, catalog in manifest.catalogs.items() if _asks(catalog.desired)]
    concerned = [name for name in asking if selection.below(name).patterns]
    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        read = read_all(connections.values(), lambda one: _maintained(one, selection), parallelism)
        found = _once_each([one for _, tables in read for one in tables])
        named = [(one.connection.spec.name, *one.table.id) for one in found]
        check_globs(select, named, "matches no live table with `maintain` in its block or policy")
        looked = in_parallel(_decisions, found, parallelism)
        catalogs = tuple(
            summary_of(one, 0, tables, len(of)) for one, (tables, of) in zip(connections.values(), read, strict=True)
        )
    decisions = [one for decided in looked for one in decided]
    jobs, notes = _within(limits, [one for one in decisions if isinstance(one, Change)])
    made = Plan(
        manifest=reference(manifest),
        catalogs=catalogs,
        changes=ordered(jobs),
        blocked=tuple(one for one in decisions if isinstance(one, Blocked)),
        notes=(*(one for one in decisions if isinstance(one, Note)), *notes),
        thresholds=manifest.thresholds,
        options=Options(select=tuple(select), maintain=True),
    )
    return hide_places(made, places_of(manifest))


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

    Each dataset is looked at again before each of its jobs. Jobs that have not begun at ``until`` are left out of the
    report. The work of a job is done on ``executors``, such as Spark's, if there are any; this process commits.

    Raises:
        StalePlanError: the manifest has changed, asks for no such job, or a catalog is another one.
        PlanFileError: the plan is one of `apply`.
        ApplyError: the journal cannot be written.
    """
    check_arguments(plan, manifest)
    _check_wanted(plan, manifest)
    stop = stop or threading.Event()
    with open_connections(manifest, plan.concerned, parallelism=parallelism) as connections:
        check_services(plan, manifest, connections)
        with Journal.open(journal, plan) as opened:
            report = execute(
                plan,
                {name: connection.backend for name, connection in connections.items()},
                parallelism=parallelism,
                journal=opened,
                on_event=on_event,
                stop=_Deadline(stop, until),
                secrets=[secret for connection in connections.values() for secret in connection.spec.secrets],
                executors=executors,
            )
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


def _check_wanted(plan: Plan, manifest: Manifest) -> None:
    """Raise PlanFileError for a plan of `apply`, and StalePlanError if a block does not ask for its job."""
    if not plan.options.maintain:
        raise PlanFileError("this is no plan of `lancens maintain`; `lancens apply` carries it out")
    blocks = {name: _Blocks(catalog.desired) for name, catalog in manifest.catalogs.items()}
    for change in plan.changes:
        table = blocks[change.catalog].of(change.identifier) if change.catalog in blocks else None
        if change.job is None or table is None or change.job.wanted != table.maintain:
            raise StalePlanError(
                f"the block of {change.address} asks for other upkeep than the plan. Plan again. Nothing was changed."
            )


def _maintained(connection: Connection, selection: Scope) -> tuple[int, list[_Found]]:
    """Return how many tables a catalog has, and those to look at."""
    selected = selected_in(connection, selection)
    live = connection.spec.scan(connection.backend, connection.desired.scope).tables
    blocks, found = _Blocks(connection.desired), []
    for key in sorted(live):
        table = blocks.of(key, ownership.owner_of(live[key].properties)) if selected.contains(key) else None
        if table is not None and table.maintain:
            found.append(_Found(connection, table, live[key]))
    return len(live), found


def _once_each(found: Sequence[_Found]) -> list[_Found]:
    """Return each dataset once, where several entries point to it."""
    return list({locations.normalise(one.live.location): one for one in reversed(found)}.values())[::-1]


def _decisions(one: _Found) -> list[Decision]:
    with one.connection.spec.errors():
        options = optional.table_storage_options(one.connection.backend, one.live)
        found = storage.upkeep_of(one.live.location, options, one.table.maintain, explain=True)
        return jobs_of(one.connection.spec.name, one.table, one.live, found)


def _within(limits: WorkLimits, jobs: Sequence[Change]) -> tuple[list[Change], list[Note]]:
    """Return the jobs within the limits, and notes about the others."""
    taken: list[Change] = []
    left: dict[NoteCode, list[Change]] = {NoteCode.JOBS_LEFT: [], NoteCode.JOBS_TOO_LARGE: []}
    work, tables = 0, set[Key]()
    for change in jobs:
        cost = change.job.reads + change.job.writes if change.job else 0
        if limits.max_bytes is not None and cost > limits.max_bytes:
            left[NoteCode.JOBS_TOO_LARGE].append(change)
            continue
        is_over = limits.max_bytes is not None and work + cost > limits.max_bytes
        is_over |= limits.max_tables is not None and len(tables | {change.key}) > limits.max_tables
        if is_over:
            left[NoteCode.JOBS_LEFT].append(change)
            continue
        taken.append(change)
        tables.add(change.key)
        work += cost
    said = [] if limits.max_bytes is None else [size(limits.max_bytes)]
    said += [] if limits.max_tables is None else [count(limits.max_tables, "table")]
    notes = []
    for code, found in left.items():
        if found:
            detail = said[0] if code is NoteCode.JOBS_TOO_LARGE else " or ".join(said)
            params = Params(count=len(found), detail=detail, name=found[0].address)
            notes.append(Note(catalog=found[0].catalog, code=code, params=params))
    return taken, notes
