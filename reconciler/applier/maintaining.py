"""Carry out one job of `maintain`: look at its dataset again, then compact it or see to one index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reconciler import storage
from reconciler.applier.datasets import expect_same_data
from reconciler.applier.live import load_table
from reconciler.applier.report import Status
from reconciler.applier.step import ChangeOutcome, StaleError, Target
from reconciler.model.desired import DesiredTable, Source
from reconciler.model.errors import BackendError, ConcurrentModificationError, TableAlreadyExistsError
from reconciler.model.figures import size
from reconciler.model.live import LiveTable
from reconciler.model.maintenance import Maintain, Upkeep
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action, Blocked, Change, UpkeepJob
from reconciler.planner.maintenance import jobs_of

_ATTEMPTS = 4
_NAMED = 10
_NOWHERE = Source("", 1)


def carry_out_job(
    target: Target[LiveTable],
    job: UpkeepJob,
    announce: Callable[[LiveTable], None],
    executors: storage.Executors | None = None,
) -> ChangeOutcome:
    """Carry out a job if it is still needed; ``announce`` is called before the first write.

    A job that loses a race against another writer starts over with what is there then. The work is done on
    ``executors`` if there are any, and the files that they leave are named.

    Raises:
        StaleError: the entry is another one; or its dataset has other indices, another configuration or more than
            twice the work.
        BackendError: the catalog, storage or an executor failed.
    """
    target.expect_planned()
    live = target.existing
    if executors is None:
        return _carried_out(target, job, announce)
    files = storage.NewFiles(live.location, target.backend.table_storage_options(live))
    try:
        outcome = _carried_out(target, job, announce, executors)
    except (BackendError, StaleError) as error:
        left = _left(files)
        raise type(error)(f"{error}; {left}" if left else str(error)) from None
    return replace(outcome, note=_left(files))


def _left(files: storage.NewFiles) -> str:
    """Return the names of files that retried tasks and merged segments leave; they may be another writer's, too."""
    names = files.unneeded()
    more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
    return f"new files that the latest version does not need: {', '.join([*names[:_NAMED], *more])}" if names else ""


def _carried_out(
    target: Target[LiveTable],
    job: UpkeepJob,
    announce: Callable[[LiveTable], None],
    executors: storage.Executors | None = None,
) -> ChangeOutcome:
    change, backend = target.change, target.backend
    for left in reversed(range(_ATTEMPTS)):
        live = target.existing
        needed = _needed(change, job, live, backend.table_storage_options(live))
        if needed is None:
            return ChangeOutcome(Status.ALREADY)
        if left == _ATTEMPTS - 1:
            announce(live)
        try:
            _work(change, job, live, backend.table_storage_options(live, writes=True), executors)
        except (ConcurrentModificationError, TableAlreadyExistsError):  # the latter of an index that another run built
            if not left:
                raise
            target = replace(target, live=load_table(backend, target.identifier))
            target.expect_planned()
        else:
            return ChangeOutcome()
    raise AssertionError("unreachable")


def _needed(change: Change, job: UpkeepJob, live: LiveTable, options: dict[str, str]) -> UpkeepJob | None:
    """Return the job as it would be planned now; None if it is not needed any more.

    Raises:
        StaleError: it must not be carried out.
    """
    block = _part(change.action, job)
    upkeep = storage.upkeep_of(live.location, options, block)
    if isinstance(upkeep, Upkeep):
        expect_same_data(options, live.location, change.dataset, upkeep.version)
    planned = jobs_of(change.catalog, DesiredTable(change.identifier, _NOWHERE, maintain=block), live, upkeep)
    jobs = [
        entry.job
        for entry in planned
        if isinstance(entry, Change) and entry.action is change.action and entry.job is not None
    ]
    needed = next((candidate for candidate in jobs if candidate.index == job.index), None)
    obstacle = next((entry for entry in planned if isinstance(entry, Blocked)), None)
    if needed is None and obstacle is not None:
        raise StaleError(obstacle.reason)
    if isinstance(upkeep, Upkeep):
        if needed is not None:
            is_later = change.code in (ReasonCode.SMALL_FRAGMENTS_LATER, ReasonCode.INDEX_STALE_LATER)
            costs_must_match = upkeep.version == change.dataset and not is_later
            _expect_planned(job, needed, upkeep, costs_must_match=costs_must_match)
        elif change.action is Action.OPTIMIZE_INDEX and job.index not in {index.name for index in upkeep.indices}:
            raise StaleError(f"index {job.index} planned on there, now nothing")
    return needed


def _part(action: Action, job: UpkeepJob) -> Maintain:
    """Return what the block asks of this job: to look at the rest takes time."""
    block = Maintain(copy_elsewhere=job.wanted.copy_elsewhere)
    if action is Action.COMPACT:
        return replace(block, compact=job.wanted.compact)
    if action is Action.BUILD_INDEX:
        return replace(block, indices=tuple(index for index in job.wanted.indices if index.name == job.index))
    return replace(block, max_unindexed_rows=job.wanted.max_unindexed_rows)


def _expect_planned(job: UpkeepJob, now: UpkeepJob, upkeep: Upkeep, *, costs_must_match: bool) -> None:
    if costs_must_match and (now.reads, now.writes) != (job.reads, job.writes):
        raise StaleError(
            f"bytes to read and write planned on {job.reads} and {job.writes}, now {now.reads} and {now.writes}"
        )
    if upkeep.config != job.config:
        raise StaleError(f"configuration planned on {job.config}, now {upkeep.config}")
    columns = {index.column for index in job.wanted.indices}
    added = {index.signature for index in upkeep.indices if not columns.intersection(index.columns)}
    unplanned = {*(set(job.indices) - set(now.indices)), *(added - set(job.indices))}
    if unplanned:
        raise StaleError(f"indices: {', '.join(sorted(unplanned))}")
    # Compaction is told its limit.
    if job.index is not None and job.most_bytes is not None and (now.reads is None or now.reads > job.most_bytes):
        raise StaleError(f"bytes to read planned on {size(job.reads)}, now {size(now.reads)}, more than twice as many")


def _work(
    change: Change, job: UpkeepJob, live: LiveTable, options: dict[str, str], executors: storage.Executors | None
) -> None:
    location, block = live.location, job.wanted
    if change.action is Action.COMPACT and block.compact is not None:
        if not storage.compact(location, options, block.compact, job.most_bytes, executors):
            raise StaleError(f"bytes to read planned on {size(job.reads)}, now no part is within twice as many")
    elif change.action is Action.BUILD_INDEX:
        index = next(index for index in block.indices if index.name == job.index)
        storage.build_index(location, options, index, executors)
    elif job.index is not None:
        storage.optimize_index(location, options, job.index, executors)
