"""Kills: `lancens apply` in a process of its own gets a signal at some call, then an apply goes on from there."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path

from reconciler.model.errors import LancensError
from reconciler.planner.plan import Plan
from tests.servers.fault_proxy import Call, Fault, FaultProxy
from tests.torture.disk import DiskFault, is_there
from tests.torture.play import Play, drawn, failures
from tests.torture.tally import Tally, Violation
from tests.torture.targets.base import Target
from tests.torture.workers import Ended, Worker, Workers

__all__ = ["apply_arguments", "expect_true", "run_kill"]


_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_MANIFEST, _PLAN = "lancens.yaml", "plan.json"
_LARGEST = (0, 1, 300, 600, 1_000, 3_000, 10_000)


def apply_arguments(play: Play, parallelism: int, what: str = _MANIFEST) -> list[str]:
    """Return the command line of an apply through the proxy."""
    options = ["--auto-approve", "--allow-mass-removal", f"--parallelism={parallelism}"]
    options += ["--skip-blocked"] if play.skips else []
    return ["apply", what, *options, *_variables(play)]


def _variables(play: Play) -> list[str]:
    return [f"--var={name}={value}" for name, value in play.variables(faulty=True).items()]


@dataclass(frozen=True)
class _End:
    """How an apply is ended: at which share of its calls, by which signal, and whether that call is answered."""

    where: float
    number: signal.Signals
    answered: bool
    saved: bool
    """Whether it applies a saved plan, and the next apply the same one."""
    largest: int | None = None
    """At how many bytes a file ends instead, as on a full disk, where nothing but a disk is in between."""
    fault: DiskFault | None = None
    """What the disk does instead, there too."""

    @classmethod
    def drawn(cls, dice: random.Random) -> _End:
        largest = dice.choice(_LARGEST) if dice.random() < 0.4 else None
        fault = DiskFault.drawn(dice) if dice.random() < 0.5 else None
        return cls(dice.random(), dice.choice(_SIGNALS), dice.random() < 0.5, dice.random() < 0.5, largest, fault)


def run_kill(target: Target, seed: int, tally: Tally, ready: Workers) -> None:
    """Play a scenario with a kill in each of its applies, and without, and compare.

    Raises:
        Violation: a promise was not kept.
    """
    dice = random.Random(seed)
    scenario = drawn(target, dice, tally)
    parallelism = dice.choice((1, 4))
    with target.proxy() as proxy:
        clean, killed = Play(target, scenario, proxy.port), Play(target, scenario, proxy.port)
        for number, meanwhile in enumerate(scenario.meanwhile):
            for play in (clean, killed):
                play.write(number)
                if number:
                    play.others_act(scenario.between, cleans_up=True)
            end = _End.drawn(dice)
            by: signal.Signals | None = end.number
            clean.others_act(meanwhile)
            saved = _saved(ready.take(1)[0], killed) if end.saved else None
            if target.faults:
                at, ended = _killed_at_call(proxy, clean, killed, ready, parallelism, end)
            else:
                counted = _apply(ready.take(1)[0], clean, parallelism, counted=True)
                _expect_ok(counted)
                lives = 1 + int(end.where * max(1, counted.calls))
                worker = ready.take(1)[0]
                line = apply_arguments(killed, parallelism, _PLAN if end.saved else _MANIFEST)
                if end.fault is not None and is_there():
                    with ready.behind(end.fault.before(killed.room.lake)) as unlucky:
                        ended = unlucky.run(killed.room.folder, line)
                    if end.fault.only_delays:
                        _expect_ok(ended)
                    by = None
                    tally.faults[end.fault.name] += 1
                elif end.largest is not None:
                    ended = worker.run(killed.room.folder, line, largest=end.largest)
                    by = None
                    tally.faults["disk full"] += 1
                else:
                    ended = worker.run(killed.room.folder, line, lives=lives, counted=True, number=end.number)
                    worker.end()
                at = f"call {lives} of {counted.calls}, or {end.fault or end.largest}"
            clean.expect_modelled()
            tally.applies += 1
            tally.acts += len(meanwhile)
            try:
                expect_true(ended, by, killed)
                killed.others_act(meanwhile)
                killed.expect_files()
                _go_on(killed, saved)
                killed.expect_files()
                killed.expect_same(clean)
            except (Violation, LancensError) as violation:
                how = f"{end.number.name} at {at}{', saved plan' * end.saved}"
                raise Violation(f"{violation}\n  after {how}") from None
    clean.forget()
    killed.forget()


def _killed_at_call(
    proxy: FaultProxy, clean: Play, killed: Play, ready: Workers, parallelism: int, end: _End
) -> tuple[str, Ended]:
    """Apply in peace in one room, and count the calls; in the other one, end the apply at one of them."""
    target = clean.target
    proxy.reset()
    _expect_ok(_apply(ready.take(1)[0], clean, parallelism))
    calls = proxy.calls
    first = next((at for at, name in enumerate(calls) if target.is_write(name)), 0)
    lives = first + int(end.where * (len(calls) - first))
    worker = ready.take(1)[0]
    proxy.reset(lambda call: _kill(worker, call, lives, end))
    ended = _apply(worker, killed, parallelism, saved=end.saved)
    worker.end()
    name = (proxy.calls[lives:] or ["-"])[0]
    proxy.reset()
    return f"call {lives} of {len(calls)}, {name}, answered={end.answered}", ended


def _saved(worker: Worker, play: Play) -> Path:
    """Save a plan as a user does, and return where."""
    arguments = ["plan", "lancens.yaml", "-o", _PLAN, "--allow-mass-removal", *_variables(play)]
    ended = worker.run(play.room.folder, arguments)
    if ended.code not in (0, 3):
        raise Violation(f"a calm plan fails: {ended.text}")
    return play.room.folder / _PLAN


def _go_on(play: Play, saved: Path | None) -> None:
    """Make it whole: by the same saved plan, or by a fresh one."""
    if saved is None:
        play.calm()
        return
    report = play.apply(Plan.from_json(saved.read_text("utf-8")), faulty=True, patient=True)  # as it was planned
    if not report.ok:
        raise Violation(f"a calm apply of the saved plan fails: {failures(report)}")
    play.expect_done()


def _apply(
    worker: Worker,
    play: Play,
    parallelism: int,
    *,
    saved: bool = False,
    counted: bool = False,
) -> Ended:
    line = apply_arguments(play, parallelism, _PLAN if saved else _MANIFEST)
    return worker.run(play.room.folder, line, counted=counted)


def _expect_ok(ended: Ended) -> None:
    if ended.code != 0:
        raise Violation(f"a calm apply fails: {ended.text}")


def expect_true(ended: Ended, by: signal.Signals | None, play: Play) -> None:
    """Check that an apply says how it ended, unless SIGKILL ended it, and that it is done if it says so."""
    if ended.code is None and by is not signal.SIGKILL:
        raise Violation(f"it dies{f' of {by.name}' if by else ''}, and says nothing")
    if ended.code == 0:
        play.expect_modelled()


def _kill(worker: Worker, call: Call, lives: int, end: _End) -> Fault | None:
    """End the process at its call number ``lives``; the server carries that one out, or never sees it.

    One that is asked to end may finish what is in flight, and every later call is answered.
    """
    if call.number == lives:
        os.kill(worker.pid, end.number)
    if call.number < lives or end.number is not signal.SIGKILL:
        return None
    if call.number == lives:
        return Fault.LOST if end.answered else Fault.RESET
    return Fault.RESET
