"""Carry out one job of `maintain` after inspecting its dataset again.

A job compacts the dataset, or builds or optimizes one index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reconciler import storage
from reconciler.applier.datasets import expect_same_data
from reconciler.applier.live import load_table
from reconciler.applier.report import Status
from reconciler.applier.step import ChangeOutcome, StaleError, Target, append_text
from reconciler.model.desired import DesiredTable, Source
from reconciler.model.errors import BackendError, ConcurrentModificationError, TableAlreadyExistsError
from reconciler.model.figures import size
from reconciler.model.live import LiveTable
from reconciler.model.maintenance import Maintain, Upkeep
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action, Blocked, Change, UpkeepJob
from reconciler.planner.maintenance import jobs_of

_ATTEMPTS = 4
_MOST_NAMED = 10
_NO_SOURCE = Source("", 1)
"""The source of a block that is built from a job, which names no file."""


def carry_out_job(
    target: Target[LiveTable],
    job: UpkeepJob,
    record_intent: Callable[[LiveTable], None],
    executors: storage.Executors | None = None,
) -> ChangeOutcome:
    """Carry out a job of a table if it is still needed.

    A job that loses a race against another writer inspects the dataset again and starts over.

    Args:
        target: the table.
        job: the planned job.
        record_intent: is called with the live table before the first write.
        executors: do the work if there are any; the outcome then names the files that they have left.

    Raises:
        StaleError: the entry differs from the plan; or its dataset has other indices, another configuration or more
            than twice the work.
        BackendError: the catalog, storage or an executor failed.
    """
    target.expect_planned()
    live = target.existing
    if executors is None:
        return _attempt_job(target, job, record_intent)
    files = storage.NewFiles(live.location, target.backend.table_storage_options(live))
    try:
        outcome = _attempt_job(target, job, record_intent, executors)
    except (BackendError, StaleError) as error:
        if note := _unneeded_files_note(files):
            append_text(error, note)
        raise
    return replace(outcome, note=_unneeded_files_note(files))


def _unneeded_files_note(files: storage.NewFiles) -> str:
    """Return a note on the new files that the latest version does not need.

    Empty if there are none. Retried tasks and merged segments leave them. Some may be those of another writer.
    """
    names = files.unneeded()
    more = [f"{len(names) - _MOST_NAMED:,} more"] if len(names) > _MOST_NAMED else []
    return (
        f"new files that the latest version does not need: {', '.join([*names[:_MOST_NAMED], *more])}" if names else ""
    )


def _attempt_job(
    target: Target[LiveTable],
    job: UpkeepJob,
    record_intent: Callable[[LiveTable], None],
    executors: storage.Executors | None = None,
) -> ChangeOutcome:
    """Do the work of a job if it is still needed.

    It is attempted up to ``_ATTEMPTS`` times, since another writer's commit can make it fail. The entry and the
    dataset are checked before each attempt.
    """
    change, backend = target.change, target.backend
    for attempt in range(1, _ATTEMPTS + 1):
        live = target.existing
        needed = _needed_job(change, job, live, backend.table_storage_options(live))
        if needed is None:
            return ChangeOutcome(Status.ALREADY)
        if attempt == 1:
            record_intent(live)
        try:
            _write(change, job, live, backend.table_storage_options(live, writes=True), executors)
        except (ConcurrentModificationError, TableAlreadyExistsError):  # the latter of an index that another run built
            if attempt == _ATTEMPTS:
                raise
            target = replace(target, live=load_table(backend, target.identifier))
            target.expect_planned()
        else:
            return ChangeOutcome()
    raise AssertionError("unreachable")


def _needed_job(change: Change, job: UpkeepJob, live: LiveTable, options: dict[str, str]) -> UpkeepJob | None:
    """Inspect the dataset, and return the job as it would be planned now.

    The result is None if the job is not needed any more. Later versions of the planned dataset are accepted; only in
    the planned version itself must the costs be equal.

    Raises:
        StaleError: the dataset differs from the plan, so the job must not be carried out.
    """
    block = _block_for(change.action, job)
    upkeep = storage.upkeep_of(live.location, options, block)
    if isinstance(upkeep, Upkeep):
        expect_same_data(options, live.location, change.dataset, upkeep.version)
    planned = jobs_of(change.catalog, DesiredTable(change.identifier, _NO_SOURCE, maintain=block), live, upkeep)
    jobs = [
        entry.job
        for entry in planned
        if isinstance(entry, Change) and entry.action is change.action and entry.job is not None
    ]
    needed = next((candidate for candidate in jobs if candidate.index == job.index), None)
    blocked = (entry for entry in planned if isinstance(entry, Blocked) and entry.code is not ReasonCode.OLD_INDEX)
    obstacle = next(blocked, None)
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


def _block_for(action: Action, job: UpkeepJob) -> Maintain:
    """Return the part of the `maintain` block that this job is for.

    Inspecting a dataset for the rest takes time.
    """
    block = Maintain(copy_elsewhere=job.wanted.copy_elsewhere)
    if action is Action.COMPACT:
        return replace(block, compact=job.wanted.compact)
    if action is Action.BUILD_INDEX:
        return replace(block, indices=tuple(index for index in job.wanted.indices if index.name == job.index))
    return replace(block, max_unindexed_rows=job.wanted.max_unindexed_rows)


def _expect_planned(job: UpkeepJob, now: UpkeepJob, upkeep: Upkeep, *, costs_must_match: bool) -> None:
    """Raise StaleError if the job or the dataset differs from the plan.

    ``job`` is the planned job, ``now`` that of the dataset as inspected. The bytes to read and write are compared if
    ``costs_must_match``. In any case a job on an index must read no more than ``job.most_bytes``.

    No index of the plan may be missing or changed. A new one is tolerated on a column for which the block asks for an
    index, as another job of this plan may have built it.
    """
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
    # Compaction keeps to the limit itself.
    if job.index is not None and job.most_bytes is not None and (now.reads is None or now.reads > job.most_bytes):
        raise StaleError(f"bytes to read planned on {size(job.reads)}, now {size(now.reads)}, more than twice as many")


def _write(
    change: Change, job: UpkeepJob, live: LiveTable, options: dict[str, str], executors: storage.Executors | None
) -> None:
    """Compact the dataset, or build or optimize the job's index."""
    location, block = live.location, job.wanted
    if change.action is Action.COMPACT and block.compact is not None:
        if not storage.compact(location, options, block.compact, job.most_bytes, executors):
            raise StaleError(f"bytes to read planned on {size(job.reads)}, now no part is within twice as many")
    elif change.action is Action.BUILD_INDEX:
        index = next(index for index in block.indices if index.name == job.index)
        storage.build_index(location, options, index, executors)
    elif job.index is not None:
        storage.optimize_index(location, options, job.index, executors)
