"""Run the changes of a plan in dependency order, several at a time.

A failure stops only what depends on it.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from queue import SimpleQueue
from typing import TypeVar

from reconciler.applier.journal import Journal
from reconciler.applier.live import Precondition, load_namespace, load_table
from reconciler.applier.maintaining import carry_out_job
from reconciler.applier.move_steps import move_of
from reconciler.applier.report import ApplyReport, ChangeResult, Event, Status
from reconciler.applier.step import ChangeOutcome, LiveT, StaleError, Step, Target
from reconciler.applier.steps import change_namespace, change_table
from reconciler.backends.base import Backend
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import ApplyError, BackendError, ErrorCode, PlanFileError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.redaction import REDACTED, is_stand_in, scrub
from reconciler.planner.entries import Action, Change, Key
from reconciler.planner.plan import Plan
from reconciler.storage import Executors

ItemT = TypeVar("ItemT")

_TAKEN_ANYWAY = frozenset({Action.CREATE_TABLE, Action.ALTER_TABLE, Action.DEREGISTER_TABLE, Action.DROP_NAMESPACE})
"""Carried out even if the entry is in its final state: data may be missing, and reads may hide a leftover.

So are changes of shown columns and of tags, which separate calls read."""
_IS_ITS_OWN_CHECK = frozenset({Action.CREATE_NAMESPACE, Action.DECLARE_TABLE, Action.REGISTER_TABLE})
"""The catalog rejects these if the name is taken, and nothing is written before."""
_WORTH_REPEATING = frozenset({ErrorCode.CONCURRENT_MODIFICATION, ErrorCode.SERVICE_UNAVAILABLE, ErrorCode.THROTTLING})


def execute(
    plan: Plan,
    backends: Mapping[str, Backend],
    *,
    journal: Journal,
    stop: threading.Event,
    parallelism: int = DEFAULT_PARALLELISM,
    on_event: Callable[[Event], None] = lambda _: None,
    secrets: Collection[str] = (),
    missing: Collection[Key] = (),
    executors: Executors | None = None,
) -> ApplyReport:
    """Carry out the changes of ``plan`` and return how each ended.

    Each object is read again right before its write, unless the catalog rejects the write if the object exists. A
    catalog that can checks once more in the commit (``Backend.checking``). Nothing is rolled back or retried here:
    backends retry what is safe, and a second apply goes on where this one ended.

    Args:
        plan: with its sensitive values (see ``reconciler.planner.integrity`` for a plan read from a file).
        backends: the connection of every catalog of the plan, by the catalog's name.
        journal: where intents and outcomes are recorded.
        stop: once set, changes in flight end and the rest is skipped, without an event each.
        parallelism: how many changes are in flight at most, over all catalogs; those that a catalog takes into one
            commit count as one (``Backend.commits_together``).
        on_event: gets every start and end, in the calling thread.
        secrets: texts that no message may show.
        missing: objects that ``check_plan`` has just found missing.
        executors: do the work of jobs; this process does if there are none.

    Raises:
        ApplyError: the plan cannot be carried out at all; nothing was changed.
        PlanFileError: the plan has a dependency cycle; nothing was changed.
    """
    _refuse_unusable(plan)
    run = _Run(plan.changes, backends, journal, secrets, frozenset(missing), executors)
    run.carry_out(max(1, parallelism), stop, on_event)
    report = ApplyReport(run.in_order(), journal.location, interrupted=stop.is_set())
    try:
        journal.summary(report)
    except ApplyError as error:  # the run reads as unfinished, and in object storage the last outcomes are missing
        return replace(report, journal_error=str(error))
    return report


def _all_in(queue: SimpleQueue[ItemT]) -> list[ItemT]:
    """Wait for an item in ``queue``, and return all there are."""
    items = [queue.get()]
    while not queue.empty():
        items.append(queue.get())
    return items


def _refuse_unusable(plan: Plan) -> None:
    for change in plan.changes:
        if change.after and change.after.location and REDACTED in change.after.location:
            raise ApplyError(
                f"{change.address}: its location holds credentials, which a saved plan does not keep; apply the "
                "manifest instead. Nothing was changed."
            )
        for key, value in (change.after.properties if change.after else {}).items():
            was = change.before.properties.get(key) if change.before else None
            if is_stand_in(value) and value != was:  # a value that the service hides stays as it is
                raise ApplyError(
                    f"{change.address}: the value of `{key}` is not in the plan, which keeps no secrets, "
                    "and was not given again. Nothing was changed."
                )


class _Run:
    """The changes of one run and their results so far."""

    def __init__(
        self,
        changes: Sequence[Change],
        backends: Mapping[str, Backend],
        journal: Journal,
        secrets: Collection[str],
        missing: Collection[Key],
        executors: Executors | None,
    ) -> None:
        self.changes, self.backends, self.journal = changes, backends, journal
        self.secrets, self.missing, self.executors = secrets, missing, executors
        self.results: dict[int, ChangeResult] = {}
        self.working = threading.Semaphore()

    def carry_out(self, most: int, stop: threading.Event, on_event: Callable[[Event], None]) -> None:
        """Perform changes, ``most`` at a time, until none can start.

        Changes that a catalog commits together count as one.
        """
        changes, schedule = self.changes, Schedule(self.changes)
        is_upkeep = any(change.job is not None for change in changes)  # which commits to datasets, not to a catalog
        widths = {name: 1 if is_upkeep else backend.commits_together for name, backend in self.backends.items()}
        widest = max(widths.values(), default=1)
        ahead = most * (self.journal.ahead if widest == 1 else 1)  # a wide one has many waiting anyway
        self.working, started = threading.Semaphore(most * widest), Counter[str]()
        with ThreadPoolExecutor(max_workers=ahead * widest, thread_name_prefix="apply") as pool:
            in_flight: dict[Future[ChangeResult], int] = {}
            ended: SimpleQueue[Future[ChangeResult]] = SimpleQueue()

            def fits(position: int) -> bool:
                """Return whether a change can start, where those that are committed together are one."""
                next_one = changes[position].catalog
                begun = ((started[name] + (name == next_one), width) for name, width in widths.items())
                return sum(-(-number // width) for number, width in begun) <= ahead

            while schedule:
                while not stop.is_set() and (position := schedule.take(fits)) is not None:
                    if obstacle := self._obstacle(position):
                        skipped = ChangeResult(changes[position], Status.SKIPPED, obstacle)
                        self.results[position] = self._journalled(position, skipped)
                        on_event(self.results[position])
                        schedule.end(position)
                        continue
                    on_event(changes[position])
                    future = pool.submit(self._perform, position)
                    in_flight[future] = position
                    started[changes[position].catalog] += 1
                    future.add_done_callback(ended.put)
                if not in_flight:
                    break  # stopped, or the rest was skipped
                for future in sorted(_all_in(ended), key=in_flight.__getitem__):
                    position = in_flight.pop(future)
                    started[changes[position].catalog] -= 1
                    self.results[position] = future.result()
                    on_event(self.results[position])
                    schedule.end(position)

    def in_order(self) -> tuple[ChangeResult, ...]:
        return tuple(
            self.results.get(position) or ChangeResult(change, Status.SKIPPED, "stopped before it began")
            for position, change in enumerate(self.changes)
        )

    def _obstacle(self, position: int) -> str:
        """Return why a change cannot start; empty if it can, as a job of `maintain` does after one that failed."""
        if self.changes[position].job is not None:
            return ""
        for needed in self.changes[position].depends_on:
            result = self.results[needed]
            if not result.status.satisfies:
                ended = "failed" if result.status is Status.FAILED else "was skipped"
                return f"it needs {result.change.address}, which {ended}"
        return ""

    def _perform(self, position: int) -> ChangeResult:
        """Carry out one change, in a worker thread."""
        began = time.monotonic()
        outcome = self._outcome(position)
        message, note = self._one_line(outcome.message), self._one_line(outcome.note)
        result = ChangeResult(self.changes[position], outcome.status, message, note, time.monotonic() - began)
        return self._journalled(position, result)

    def _one_line(self, text: str) -> str:
        return " ".join(scrub(text, self.secrets).split())

    def _journalled(self, position: int, result: ChangeResult) -> ChangeResult:
        try:
            self.journal.outcome(position, result)
        except ApplyError as error:
            if str(error) not in result.message:
                return replace(result, note="; ".join(filter(None, (result.note, str(error)))))
        return result

    def _outcome(self, position: int) -> ChangeOutcome:
        self.working.acquire()
        try:
            return self._take(position)
        except StaleError as error:
            return ChangeOutcome(Status.FAILED, f"stale: {error}")
        except ApplyError as error:
            return ChangeOutcome(Status.FAILED, str(error))
        except BackendError as error:
            command = "apply" if self.changes[position].job is None else "maintain"
            advice = f"; run {command} again" if error.code in _WORTH_REPEATING else ""
            return ChangeOutcome(Status.FAILED, f"{error}{advice}")
        except Exception as error:  # noqa: BLE001 - a bug in one change must not stop the others
            return ChangeOutcome(Status.FAILED, f"unexpected {type(error).__name__}: {error}")
        finally:
            self.working.release()

    def _announce(self, position: int, live: LiveNamespace | LiveTable | None) -> None:
        """Write the intent of a change; meanwhile another one may use the catalog."""
        self.working.release()
        try:
            self.journal.intent(position, self.changes[position], live)
        finally:
            self.working.acquire()

    def _take(self, position: int) -> ChangeOutcome:
        change = self.changes[position]
        backend = self.backends[change.catalog]
        if change.moved_from is not None:
            move = move_of(change, backend)
            if move.is_done:
                return ChangeOutcome(Status.ALREADY)
            self._announce(position, move.origin or move.live)
            return move.carry_out()
        # If another writer creates the object first, the catalog rejects this write.
        is_new = change.is_new and change.action in _IS_ITS_OWN_CHECK and change.key in self.missing
        if change.kind == "namespace":
            namespace_id = backend.namespace_id_of(change.identifier, root=False)
            namespace = None if is_new else load_namespace(backend, namespace_id)
            return self._take_step(position, Target(change, backend, namespace_id, namespace), change_namespace)
        table_id = backend.table_id(change.identifier)
        live = None if is_new else load_table(backend, table_id)
        table = Target(change, backend, table_id, live)
        if change.job is not None:
            return carry_out_job(table, change.job, partial(self._announce, position), self.executors)
        return self._take_step(position, table, change_table)

    def _take_step(self, position: int, target: Target[LiveT], step: Step[LiveT]) -> ChangeOutcome:
        target.expect_planned()
        is_taken_anyway = target.change.action in _TAKEN_ANYWAY or target.after.beside_entry
        if target.precondition is Precondition.APPLIED and not is_taken_anyway:
            return ChangeOutcome(Status.ALREADY)
        self._announce(position, target.live)
        return step(target.checked_on_commit())


class Schedule:
    """The order of a run, by dependency and by position; true until all ended.

    Raises:
        PlanFileError: the changes have a dependency cycle.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self._sorter: TopologicalSorter[int] = TopologicalSorter(
            {position: change.depends_on for position, change in enumerate(changes)}
        )
        try:
            self._sorter.prepare()
        except CycleError as error:
            cycle = ", ".join(changes[position].address for position in dict.fromkeys(error.args[1]))
            raise PlanFileError(f"the plan is damaged: its changes have a dependency cycle: {cycle}") from None
        self._ready: list[int] = []

    def __bool__(self) -> bool:
        return self._sorter.is_active()

    def take(self, fits: Callable[[int], bool]) -> int | None:
        """Return the position of the next change; None if it must wait."""
        for position in self._sorter.get_ready():
            heapq.heappush(self._ready, position)
        return heapq.heappop(self._ready) if self._ready and fits(self._ready[0]) else None

    def end(self, position: int) -> None:
        """Mark a change as ended, whatever its status."""
        self._sorter.done(position)
