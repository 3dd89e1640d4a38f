"""Carrying out a plan: in dependency order, several changes at a time, one failure stopping only what needs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from reconciler.applier.journal import Journal
from reconciler.applier.live import load_namespace, load_table
from reconciler.applier.move_steps import move_of
from reconciler.applier.namespace_steps import step_of_namespace
from reconciler.applier.precondition import Precondition
from reconciler.applier.report import ApplyReport, Event, Finished, Result, Started, Status
from reconciler.applier.schedule import Schedule
from reconciler.applier.step import LiveT, Outcome, StaleError, Step, Target
from reconciler.applier.table_steps import step_of_table
from reconciler.backends.base import Backend
from reconciler.errors import ApplyError, BackendError, ErrorCode
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from reconciler.redaction import REDACTED, is_stand_in, scrub
from reconciler.state import DEFAULT_PARALLELISM

__all__ = ["StopSignal", "execute"]

_TAKEN_ANYWAY = frozenset({Action.CREATE_TABLE, Action.ALTER_TABLE, Action.DROP_NAMESPACE})
"""Taken even where the entry is as it is to be: data may be missing, and a leftover may not count as there.

So is what changes the columns that an entry shows, which are read apart."""
_WORTH_REPEATING = frozenset({ErrorCode.CONCURRENT_MODIFICATION, ErrorCode.SERVICE_UNAVAILABLE, ErrorCode.THROTTLING})


class StopSignal(Protocol):
    """Says whether to start nothing new; a ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Return whether the run is to come to its end."""


def execute(
    plan: Plan,
    backends: Mapping[str, Backend],
    *,
    journal: Journal,
    stop: StopSignal,
    parallelism: int = DEFAULT_PARALLELISM,
    on_event: Callable[[Event], None] = lambda _: None,
    secrets: Collection[str] = (),
) -> ApplyReport:
    """Carry out every change of ``plan`` that can be, and return how each ended.

    Each object is read again right before its own write. Nothing is rolled back and nothing is tried twice here:
    backends repeat what is safe to repeat, and a second apply goes on where this one ended.

    Args:
        plan: with its sensitive values (see ``reconciler.planner.integrity`` for a plan read from a file).
        backends: the connection of every catalog of the plan, by the catalog's name.
        journal: where intents and outcomes are recorded.
        stop: once set, what is in flight ends and nothing new starts; the rest is skipped, without an event each.
        parallelism: how many changes are in flight at most, over all catalogs.
        on_event: told of every start and end, in the calling thread.
        secrets: texts that no message may show.

    Raises:
        ApplyError: the plan cannot be carried out at all; nothing was changed.
        PlanFileError: the plan has a dependency cycle; nothing was changed.
    """
    _refuse_unusable(plan, backends)
    run = _Run(plan, backends, journal, tuple(secrets))
    schedule = Schedule(plan.changes)
    with ThreadPoolExecutor(max_workers=max(1, parallelism), thread_name_prefix="apply") as pool:
        in_flight: dict[Future[Result], int] = {}
        while schedule:
            while (
                not stop.is_set() and len(in_flight) < max(1, parallelism) and (position := schedule.take()) is not None
            ):
                if obstacle := run.obstacle(position):
                    on_event(Finished(run.skip(position, obstacle)))
                    schedule.end(position)
                else:
                    on_event(Started(plan.changes[position]))
                    in_flight[pool.submit(run.perform, position)] = position
            if not in_flight and stop.is_set():
                break
            ended, _ = wait(in_flight, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=in_flight.__getitem__):
                position = in_flight.pop(future)
                on_event(Finished(run.record(position, future.result())))
                schedule.end(position)
    report = ApplyReport(run.in_order(), journal.path, interrupted=stop.is_set())
    with suppress(ApplyError):  # every change is recorded; without the last line the run reads as cut off
        journal.summary(report)
    return report


def _refuse_unusable(plan: Plan, backends: Mapping[str, Backend]) -> None:
    for change in plan.changes:
        if change.catalog not in backends:
            raise ApplyError(
                f"{change.address}: there is no catalog `{change.catalog}` to apply to. Nothing was changed."
            )
        if change.after and change.after.location and REDACTED in change.after.location:
            raise ApplyError(
                f"{change.address}: its location holds credentials, which a saved plan does not keep; apply the "
                "manifest instead. Nothing was changed."
            )
        for key, value in (change.after.properties if change.after else {}).items():
            if is_stand_in(value):
                raise ApplyError(
                    f"{change.address}: the value of `{key}` is not in the plan, which keeps no secrets, "
                    "and was not given again. Nothing was changed."
                )


class _Run:
    """The changes of one run and what became of them so far."""

    def __init__(self, plan: Plan, backends: Mapping[str, Backend], journal: Journal, secrets: Collection[str]) -> None:
        self._changes = plan.changes
        self._backends = backends
        self._journal = journal
        self._secrets = secrets
        self._results: dict[int, Result] = {}

    def in_order(self) -> tuple[Result, ...]:
        return tuple(
            self._results.get(position) or Result(change, Status.SKIPPED, "stopped before it began")
            for position, change in enumerate(self._changes)
        )

    def obstacle(self, position: int) -> str:
        """Return why a change cannot be tried, empty when it can."""
        for needed in self._changes[position].depends_on:
            result = self._results[needed]
            if not result.status.satisfies:
                ended = "failed" if result.status is Status.FAILED else "was skipped"
                return f"it needs {result.change.address}, which {ended}"
        return ""

    def skip(self, position: int, why: str) -> Result:
        return self.record(position, self._journalled(position, Result(self._changes[position], Status.SKIPPED, why)))

    def record(self, position: int, result: Result) -> Result:
        self._results[position] = result
        return result

    def perform(self, position: int) -> Result:
        """Carry out one change, in a worker thread."""
        began = time.monotonic()
        outcome = self._outcome(position)
        result = Result(
            self._changes[position],
            outcome.status,
            self._one_line(outcome.message),
            self._one_line(outcome.note),
            time.monotonic() - began,
        )
        return self._journalled(position, result)

    def _one_line(self, text: str) -> str:
        return " ".join(scrub(text, self._secrets).split())

    def _journalled(self, position: int, result: Result) -> Result:
        try:
            self._journal.outcome(position, result)
        except ApplyError as error:
            if str(error) not in result.message:
                return replace(result, note="; ".join(filter(None, (result.note, str(error)))))
        return result

    def _outcome(self, position: int) -> Outcome:
        try:
            return self._carry_out(position)
        except (StaleError, ApplyError) as error:
            return Outcome(Status.FAILED, str(error))
        except BackendError as error:
            advice = "; run apply again" if error.code in _WORTH_REPEATING else ""
            return Outcome(Status.FAILED, f"{error}{advice}")
        except Exception as error:  # noqa: BLE001 - a fault in one change must not take the others along
            return Outcome(Status.FAILED, f"unexpected {type(error).__name__}: {error}")

    def _carry_out(self, position: int) -> Outcome:
        change = self._changes[position]
        backend = self._backends[change.catalog]
        if change.kind == "namespace":
            namespace_id = backend.namespace_id_of(change.identifier, root=False)
            namespace = Target(change, backend, namespace_id, load_namespace(backend, namespace_id))
            return self._take(position, namespace, step_of_namespace)
        if change.moved_from is not None:
            move = move_of(change, backend)
            if move.is_done:
                return Outcome(Status.ALREADY)
            self._journal.intent(position, change, move.origin or move.live)
            return move.carry_out()
        table_id = backend.table_id(change.identifier)
        table = Target(change, backend, table_id, load_table(backend, table_id))
        return self._take(position, table, step_of_table)

    def _take(self, position: int, target: Target[LiveT], step_of: Callable[[Target[LiveT]], Step[LiveT]]) -> Outcome:
        target.expect_planned()
        is_taken_anyway = target.change.action in _TAKEN_ANYWAY or target.after.shown_columns is not None
        if target.precondition is Precondition.APPLIED and not is_taken_anyway:
            return Outcome(Status.ALREADY)
        step = step_of(target)
        self._journal.intent(position, target.change, target.live)
        return step(target)
