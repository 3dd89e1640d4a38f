from __future__ import annotations

import threading
from pathlib import Path

import pytest

from reconciler.applier.journal_reader import read_journal
from reconciler.applier.report import ChangeResult, Event, Status
from reconciler.model.errors import ApplyError, PermissionDeniedError, PlanFileError
from reconciler.planner.entries import Change
from reconciler.planner.plan import Plan
from tests.unit.applier.world import LedgerBackend, World, statuses
from tests.unit.planner.building import OWNER, claim, desired, live, live_table, table


def test_results_come_in_the_order_of_the_plan(world: World) -> None:
    plan = world.plan(desired(*(table(f"n{number % 3}/t{number}") for number in range(30))))
    report = world.apply(plan, parallelism=8)
    assert tuple(result.change for result in report.results) == plan.changes
    assert report.counts[Status.DONE] == len(plan.changes) == 33


def test_parents_are_made_before_their_children_however_many_run_at_once(world: World) -> None:
    deep = [table("/".join(["a", "b", "c", f"d{number}", "t"])) for number in range(20)]
    assert world.apply(world.plan(desired(*deep)), parallelism=8).ok
    made = [name.split()[1].split("$") for name in world.writes]
    for at, path in enumerate(made):
        assert len(path) == 1 or path[:-1] in made[:at]


def test_no_more_run_at_once_than_asked_for_and_that_many_do(world: World) -> None:
    """Three writers meet at a barrier; were fewer at work, it would break."""
    meeting = threading.Barrier(3, timeout=20)
    at_work, most, lock = 0, 0, threading.Lock()

    def busy(name: str) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        meeting.wait()
        with lock:
            at_work -= 1
        meeting.wait()

    world.ledger.before = busy
    plan = world.plan(desired(*(table(f"t{number}") for number in range(6))))
    assert world.apply(plan, parallelism=3).ok
    assert most == 3


def test_changes_that_a_catalog_commits_together_count_as_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six writers meet at a barrier; were fewer at work, it would break."""
    monkeypatch.setattr(LedgerBackend, "commits_together", 3)
    meeting = threading.Barrier(6, timeout=20)

    def meet(_: str) -> None:
        meeting.wait()

    world.ledger.before = meet
    assert world.apply(world.plan(desired(*(table(f"t{number}") for number in range(12)))), parallelism=2).ok


def test_a_failure_stops_what_depends_on_it_and_nothing_else(world: World) -> None:
    world.has(live(live_table("old/t", owner=OWNER)))
    world.refuse("insert_namespace bad", PermissionDeniedError("memory: not you"))
    plan = world.plan(desired(table("bad/worse/t"), table("good/t"), claim("old")))
    report = world.apply(plan, parallelism=4)
    assert statuses(report) == {
        "bad": Status.FAILED,
        "bad/worse": Status.SKIPPED,
        "bad/worse/t": Status.SKIPPED,
        "good": Status.DONE,
        "good/t": Status.DONE,
        "old/t": Status.DONE,
    }
    messages = {result.change.address: result.message for result in report.results}
    assert messages["lake/bad/worse"] == "it needs lake/bad, which failed"
    assert messages["lake/bad/worse/t"].startswith("it needs lake/bad/worse, ")
    assert not report.ok


def test_after_the_stop_signal_what_is_in_flight_ends_and_nothing_new_starts(world: World) -> None:
    stop = threading.Event()
    world.ledger.before = lambda _: stop.set()
    plan = world.plan(desired(table("t1"), table("t2"), table("t3")))
    report = world.apply(plan, stop=stop)
    assert statuses(report) == {"t1": Status.DONE, "t2": Status.SKIPPED, "t3": Status.SKIPPED}
    assert report.interrupted
    assert not report.ok
    assert world.writes == ["insert_table t1"]
    record = read_journal(report.journal)
    assert record.finished
    assert set(record.outcomes) == {0}


def test_a_fault_of_a_worker_is_a_failed_change_without_the_secret(world: World) -> None:
    world.refuse("insert_table t1", KeyError("hunter2 is missing"))
    report = world.apply(world.plan(desired(table("t1"), table("t2"))), secrets=("hunter2",))
    assert statuses(report) == {"t1": Status.FAILED, "t2": Status.DONE}
    assert "KeyError: '(redacted) is missing'" in report.results[0].message


def test_every_change_is_announced_once_and_ended_once_in_the_calling_thread(world: World) -> None:
    events: list[Event] = []
    threads: set[int] = set()

    def on_event(event: Event) -> None:
        events.append(event)
        threads.add(threading.get_ident())

    world.refuse("insert_namespace bad", PermissionDeniedError("no"))
    plan = world.plan(desired(table("bad/t"), table("good/t")))
    report = world.apply(plan, parallelism=4, on_event=on_event)
    started = {event.address for event in events if isinstance(event, Change)}
    ended = [event.change.address for event in events if isinstance(event, ChangeResult)]
    assert started == {"lake/bad", "lake/good", "lake/good/t"}
    assert sorted(ended) == sorted(result.change.address for result in report.results)
    assert threads == {threading.get_ident()}


def test_a_secret_that_a_saved_plan_leaves_out_is_never_written_as_its_stand_in(world: World) -> None:
    plan = Plan.from_json(world.plan(desired(table("t", {"api_token": "hunter2"}))).to_json())
    with pytest.raises(ApplyError, match="the value of `api_token` is not in") as caught:
        world.apply(plan)
    assert "hunter2" not in str(caught.value)
    assert world.writes == []


def test_a_saved_plan_has_the_digest_it_was_saved_with(world: World) -> None:
    plan = world.plan(desired(table("t", {"api_token": "hunter2"})))
    assert Plan.from_json(plan.to_json()).digest() == plan.digest()


def test_changes_that_wait_for_each_other_are_refused_and_do_not_hang(world: World) -> None:
    plan = world.plan(desired(claim("a"), claim("b")))
    cycle = tuple(
        change.model_copy(update={"depends_on": (1 - position,)}) for position, change in enumerate(plan.changes)
    )
    with pytest.raises(PlanFileError, match="dependency cycle: lake/"):
        world.apply(plan.model_copy(update={"changes": cycle}))
    assert world.writes == []


def test_a_change_does_not_go_on_without_its_intent_on_disk(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = world.plan(desired(claim("a")))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    def apply_on_a_full_disk(event: Event) -> None:
        monkeypatch.setattr("os.fsync", full)

    [result] = world.apply(plan, on_event=apply_on_a_full_disk).results
    assert result.status is Status.FAILED
    assert "cannot be written" in result.message
    assert "No space left on device" in result.message
    assert world.writes == []
