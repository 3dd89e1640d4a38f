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
from contextlib import suppress
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from queue import SimpleQueue
from types import MappingProxyType
from typing import TypeVar

from reconciler.applier.journal import Journal
from reconciler.applier.live import CheckedObjects, Precondition, load_namespace, load_table
from reconciler.applier.maintaining import carry_out_job
from reconciler.applier.move_steps import move_of
from reconciler.applier.report import ApplyReport, ChangeResult, Event, Status
from reconciler.applier.step import (
    NO_SOURCES,
    WORTH_REPEATING,
    ChangedSinceCheckError,
    ChangeOutcome,
    CloneSources,
    LiveT,
    StaleError,
    Step,
    Target,
)
from reconciler.applier.steps import change_namespace, change_table
from reconciler.backends.base import Backend
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import (
    ApplyError,
    BackendError,
    NamespaceNotFoundError,
    PlanFileError,
    TableNotFoundError,
)
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.redaction import is_stand_in, scrub
from reconciler.model.secret_forms import REDACTED
from reconciler.planner.entries import Action, Change
from reconciler.planner.plan import Plan
from reconciler.storage import Executors

ItemT = TypeVar("ItemT")

_ALWAYS_CARRIED_OUT = frozenset(
    {Action.CREATE_TABLE, Action.ALTER_TABLE, Action.DEREGISTER_TABLE, Action.DROP_NAMESPACE}
)
"""The actions to carry out even if the entry is in its planned state.

Its data may still be missing, and a read may hide an entry or namespace that is left. So are changes of shown columns
and of tags carried out, which no read of the entry tells.
"""
_FAILS_IF_TAKEN = frozenset({Action.CREATE_NAMESPACE, Action.DECLARE_TABLE, Action.REGISTER_TABLE})
"""The actions that the catalog rejects if the name is taken, and that write nothing before: no read is needed."""


def execute(
    plan: Plan,
    backends: Mapping[str, Backend],
    *,
    journal: Journal,
    stop: threading.Event,
    parallelism: int = DEFAULT_PARALLELISM,
    on_event: Callable[[Event], None] = lambda _: None,
    secrets: Collection[str] = (),
    checked: CheckedObjects = MappingProxyType({}),
    executors: Executors | None = None,
    sources: CloneSources = NO_SOURCES,
) -> ApplyReport:
    """Carry out the changes of ``plan`` and return how each ended.

    Each object is read again right before its write, unless the catalog rejects the write if the object exists. A
    catalog that can reads it once more in the commit (``Backend.checking``). If a change writes the entry only, that
    read is the only one, as long as it finds what ``check_plan`` read. Nothing is rolled back or retried here:
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
        checked: what ``check_plan`` returned.
        executors: do the work of jobs; this process does if there are none.
        sources: what clones were made from, to remove the tags of those whose entries end.

    Raises:
        ApplyError: the plan cannot be carried out at all; nothing was changed.
        PlanFileError: the plan has a dependency cycle; nothing was changed.
    """
    _refuse_redacted(plan)
    run = _Run(plan.changes, backends, journal, secrets, checked, executors, sources)
    run.carry_out(max(1, parallelism), stop, on_event)
    report = ApplyReport(run.results_in_order(), journal.location, interrupted=stop.is_set())
    try:
        journal.summary(report)
    except ApplyError as error:  # the run reads as unfinished, and in object storage the last outcomes are missing
        return replace(report, journal_error=str(error))
    return report


def _drain(queue: SimpleQueue[ItemT]) -> list[ItemT]:
    """Remove and return all items of ``queue``; wait until there is at least one."""
    items = [queue.get()]
    while not queue.empty():
        items.append(queue.get())
    return items


def _refuse_redacted(plan: Plan) -> None:
    """Raise ApplyError if a change needs a secret that the plan does not keep."""
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
    """The changes of one run, and the results so far by position in the plan."""

    def __init__(
        self,
        changes: Sequence[Change],
        backends: Mapping[str, Backend],
        journal: Journal,
        secrets: Collection[str],
        checked: CheckedObjects,
        executors: Executors | None,
        sources: CloneSources,
    ) -> None:
        self.changes, self.backends, self.journal = changes, backends, journal
        self.secrets, self.checked, self.executors, self.sources = secrets, checked, executors, sources
        self.results: dict[int, ChangeResult] = {}
        self.slots = threading.Semaphore()

    def carry_out(self, parallelism: int, stop: threading.Event, on_event: Callable[[Event], None]) -> None:
        """Carry out all changes, ``parallelism`` at a time.

        Start no other one once ``stop`` is set. Changes that a catalog commits together count as one. A change holds
        one of the ``slots`` while it uses the catalog. More changes than that are in flight if the journal is slow: the
        others wait for it.
        """
        changes, schedule = self.changes, Schedule(self.changes)
        is_upkeep = any(change.job is not None for change in changes)  # which commits to datasets, not to a catalog
        widths = {name: 1 if is_upkeep else backend.commits_together for name, backend in self.backends.items()}
        widest = max(widths.values(), default=1)
        # Where a catalog commits many changes together, enough of them wait anyway.
        limit = parallelism * (self.journal.in_flight_factor if widest == 1 else 1)
        self.slots, started = threading.Semaphore(parallelism * widest), Counter[str]()
        with ThreadPoolExecutor(max_workers=limit * widest, thread_name_prefix="apply") as pool:
            positions: dict[Future[ChangeResult], int] = {}
            ended: SimpleQueue[Future[ChangeResult]] = SimpleQueue()

            def fits(position: int) -> bool:
                """Return whether one more change stays within the limit of commits in flight."""
                catalog = changes[position].catalog
                in_flight = ((started[name] + (name == catalog), width) for name, width in widths.items())
                return sum(-(-number // width) for number, width in in_flight) <= limit

            while schedule:
                while not stop.is_set() and (position := schedule.take(fits)) is not None:
                    if obstacle := self._obstacle(position):
                        skipped = ChangeResult(changes[position], Status.SKIPPED, obstacle)
                        self.results[position] = self._recorded(position, skipped)
                        on_event(self.results[position])
                        schedule.end(position)
                        continue
                    on_event(changes[position])
                    future = pool.submit(self._result_of, position)
                    positions[future] = position
                    started[changes[position].catalog] += 1
                    future.add_done_callback(ended.put)
                if not positions:
                    break  # stopped, or the rest was skipped
                for future in sorted(_drain(ended), key=positions.__getitem__):
                    position = positions.pop(future)
                    started[changes[position].catalog] -= 1
                    self.results[position] = future.result()
                    on_event(self.results[position])
                    schedule.end(position)

    def results_in_order(self) -> tuple[ChangeResult, ...]:
        """Return the results in the plan's order; a change that did not start is skipped."""
        return tuple(
            self.results.get(position) or ChangeResult(change, Status.SKIPPED, "stopped before it began")
            for position, change in enumerate(self.changes)
        )

    def _obstacle(self, position: int) -> str:
        """Return which failed or skipped change this one needs; empty if it can start."""
        if self.changes[position].job is not None:  # a job of `maintain` only waits for the jobs before it
            return ""
        for needed in self.changes[position].depends_on:
            result = self.results[needed]
            if not result.status.satisfies:
                ended = "failed" if result.status is Status.FAILED else "was skipped"
                return f"it needs {result.change.address}, which {ended}"
        return ""

    def _result_of(self, position: int) -> ChangeResult:
        """Carry out one change in a worker thread; return its recorded result."""
        began = time.monotonic()
        outcome = self._outcome_of(position)
        message, note = self._one_line(outcome.message), self._one_line(outcome.note)
        kept = outcome.kept_tag and replace(outcome.kept_tag, reason=self._one_line(outcome.kept_tag.reason))
        result = ChangeResult(self.changes[position], outcome.status, message, note, time.monotonic() - began, kept)
        return self._recorded(position, result)

    def _one_line(self, text: str) -> str:
        """Return ``text`` on one line, without secrets."""
        return " ".join(scrub(text, self.secrets).split())

    def _recorded(self, position: int, result: ChangeResult) -> ChangeResult:
        """Write ``result`` to the journal, and return it; a note says so if that failed."""
        try:
            self.journal.outcome(position, result)
        except ApplyError as error:
            if str(error) not in result.message:
                return replace(result, note="; ".join(filter(None, (result.note, str(error)))))
        return result

    def _outcome_of(self, position: int) -> ChangeOutcome:
        """Carry out one change, and return its outcome; an error becomes a failed one."""
        self.slots.acquire()
        try:
            return self._carry_out(position)
        except StaleError as error:
            return ChangeOutcome(Status.FAILED, f"stale: {error}")
        except ApplyError as error:
            return ChangeOutcome(Status.FAILED, str(error))
        except BackendError as error:
            command = "apply" if self.changes[position].job is None else "maintain"
            advice = f"; run {command} again" if error.code in WORTH_REPEATING else ""
            return ChangeOutcome(Status.FAILED, f"{error}{advice}")
        except Exception as error:  # noqa: BLE001 - a bug in one change must not stop the others
            return ChangeOutcome(Status.FAILED, f"unexpected {type(error).__name__}: {error}")
        finally:
            self.slots.release()

    def _record_intent(self, position: int, live: LiveNamespace | LiveTable | None) -> None:
        """Write the intent of a change to the journal.

        Meanwhile another change may use the catalog.
        """
        self.slots.release()
        try:
            self.journal.intent(position, self.changes[position], live)
        finally:
            self.slots.acquire()

    def _carry_out(self, position: int) -> ChangeOutcome:
        """Read the live object of a change and carry out its move, job or step.

        Raises:
            StaleError: the object differs from the plan.
            BackendError: the catalog or the storage failed.
            ApplyError: the intent cannot be written to the journal.
        """
        change = self.changes[position]
        backend = self.backends[change.catalog]
        if change.moved_from is not None:
            move = move_of(change, backend)
            if move.is_done:
                return ChangeOutcome(Status.ALREADY)
            self._record_intent(position, move.origin or move.live)
            return move.carry_out()
        is_missing = change.is_new and change.action in _FAILS_IF_TAKEN and change.key in self.checked
        if change.kind == "namespace":
            namespace_id = backend.namespace_id_of(change.identifier, root=False)
            namespace = None if is_missing else load_namespace(backend, namespace_id)
            return self._carry_out_step(position, Target(change, backend, namespace_id, namespace), change_namespace)
        table_id = backend.table_id(change.identifier)
        checked = self.checked.get(change.key)
        if isinstance(checked, LiveTable):
            with suppress(ChangedSinceCheckError, TableNotFoundError, NamespaceNotFoundError):
                self._record_intent(position, checked)
                return change_table(Target(change, backend, table_id, checked).with_only_commit_check())
        live = None if is_missing else load_table(backend, table_id)
        table = Target(change, backend, table_id, live, sources=self.sources)
        if change.job is not None:
            return carry_out_job(table, change.job, partial(self._record_intent, position), self.executors)
        return self._carry_out_step(position, table, change_table)

    def _carry_out_step(self, position: int, target: Target[LiveT], step: Step[LiveT]) -> ChangeOutcome:
        """Check the object of ``target``, record the intent and call ``step``.

        If the change is done already, nothing is written.
        """
        target.expect_planned()
        may_be_incomplete = target.change.action in _ALWAYS_CARRIED_OUT or target.after.writes_beside_entry
        if target.precondition is Precondition.APPLIED and not may_be_incomplete:
            return ChangeOutcome(Status.ALREADY)
        self._record_intent(position, target.live)
        return step(target.with_commit_check())


class Schedule:
    """The order of the changes of a run: by dependency, then by position.

    False once all have ended.

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
        """Return the position of the next change.

        The result is None if no change is ready, or the next does not ``fit``.
        """
        for position in self._sorter.get_ready():
            heapq.heappush(self._ready, position)
        return heapq.heappop(self._ready) if self._ready and fits(self._ready[0]) else None

    def end(self, position: int) -> None:
        """Mark the change at ``position`` as ended, whatever its status.

        The changes that wait for it become ready.
        """
        self._sorter.done(position)
