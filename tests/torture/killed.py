"""Kills: `lancens apply` in a process of its own gets a signal at some call, then an apply goes on from there."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.model.errors import LancensError
from reconciler.planner.plan import Plan
from tests.servers.fault_proxy import Call, Fault, FaultProxy
from tests.torture.disk import DiskFault, is_there
from tests.torture.others import Act
from tests.torture.play import Play, drawn, failures, plays_of
from tests.torture.tally import Tally, Violation
from tests.torture.targets.base import Target
from tests.torture.workers import Ended, Run, Workers, run_behind

__all__ = ["apply_arguments", "expect_true", "run_kill"]


_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_MANIFEST, _PLAN = "lancens.yaml", "plan.json"
_WRITES = 1.2
"""How many calls that write a change takes, at least."""
_MAINTAIN_CALLS = 2_000
"""How many calls of functions jobs of `maintain` make, about."""
_LARGEST = (0, 1, 300, 600, 1_000, 3_000, 10_000)


def apply_arguments(play: Play, parallelism: int, what: str = _MANIFEST) -> list[str]:
    """Return the command line of an apply through the proxy."""
    options = ["--auto-approve", "--allow-mass-removal", "--journal=journal", f"--parallelism={parallelism}"]
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
    reads: bool
    """Whether the call may be one that reads."""
    saved: bool
    """Whether it applies a saved plan, and the next apply the same one."""
    largest: int | None = None
    """At how many bytes a file ends instead, as on a full disk, where nothing but a disk is in between."""
    fault: DiskFault | None = None
    """What the disk does instead, there too."""

    @property
    def disk(self) -> str:
        """What the tally counts a failing disk as, empty for a signal."""
        if self.disk_fault is not None:
            return self.disk_fault.name
        return "disk full" if self.largest is not None else ""

    @property
    def disk_fault(self) -> DiskFault | None:
        """The fault of the disk, where strace can make it."""
        return self.fault if is_there() else None

    @classmethod
    def drawn(cls, dice: random.Random) -> _End:
        largest = dice.choice(_LARGEST) if dice.random() < 0.4 else None
        fault = DiskFault.drawn(dice) if dice.random() < 0.5 else None
        answered, reads, saved = (dice.random() < 0.5 for _ in range(3))
        return cls(dice.random(), dice.choice(_SIGNALS), answered, reads, saved, largest, fault)


def run_kill(target: Target, seed: int, tally: Tally, ready: Workers) -> None:
    """Play a scenario with a kill in each of its applies, and in some runs also without, and compare.

    Raises:
        Violation: a promise was not kept.
    """
    dice = random.Random(seed)
    scenario = drawn(target, dice, tally)
    parallelism = dice.choice((1, 4))
    with target.proxy() as proxy:
        plays = plays_of(target, scenario, dice, proxy.port)
        killed = plays[0]
        for number, meanwhile in enumerate(scenario.meanwhile):
            for play in plays:
                play.begin(number)
            end = _End.drawn(dice)
            calls = [_applied(clean, parallelism, ready, meanwhile) for clean in plays[1:]]
            saved = _saved(killed, ready) if end.saved else None
            line = apply_arguments(killed, parallelism, _PLAN if saved else _MANIFEST)
            by: signal.Signals | None = end.number
            before = killed.look()
            if target.faults:
                at, ended = _killed_at_write(proxy, killed, saved, ready.run(killed.room.folder, line), end)
            else:
                by = None if end.disk else by
                at, ended = _killed_at_function(killed, line, ready, end, sum(calls))
            tally.faults[end.disk if by is None else by.name] += 1
            tally.applies += 1
            tally.acts += len(meanwhile)
            try:
                killed.expect_journalled(before, killed.state())
                expect_true(ended, by, killed)
                killed.others_act(meanwhile)
                killed.expect_files()
                _go_on(killed, saved, through_serve=end.reads)
                killed.expect_files()
                for clean in plays[1:]:
                    killed.expect_same(clean)
                _kill_maintain(killed, ready, end, parallelism)
                for play in plays:
                    play.maintain()
            except (Violation, LancensError) as violation:
                how = f"{end.number.name} at {at}{', saved plan' * end.saved}"
                raise Violation(f"{violation}\n  after {how}") from None
    for play in plays:
        play.forget()


def _applied(play: Play, parallelism: int, ready: Workers, meanwhile: Sequence[Act]) -> int:
    """Apply in peace, and return how many calls of functions that took."""
    play.others_act(meanwhile)
    ended = ready.run(play.room.folder, apply_arguments(play, parallelism), counted=not play.target.faults).ended()
    if ended.code != 0:
        raise Violation(f"a calm apply fails: {ended.text}")
    play.expect_modelled()
    return ended.calls


def _killed_at_write(proxy: FaultProxy, play: Play, saved: Path | None, run: Run, end: _End) -> tuple[str, Ended]:
    """End an apply at one of its calls that write, or at one of the next calls."""
    plan = Plan.from_json(saved.read_text("utf-8")) if saved else play.plan()
    bullet = _Bullet(run, play.target, end, int(end.where * _WRITES * len(plan.changes)))
    proxy.reset(bullet)
    ended = run.ended()
    proxy.settle()
    proxy.reset()
    return f"{bullet.at or 'no call'}, {len(plan.changes)} changes, answered={end.answered}", ended


def _killed_at_function(play: Play, line: list[str], ready: Workers, end: _End, calls: int) -> tuple[str, Ended]:
    """End an apply at one of the calls of functions that write, or let its disk fail."""
    if end.disk_fault is not None:
        ended = run_behind(end.disk_fault.before(play.room.lake), play.room.folder, line)
        if end.disk_fault.only_delays and ended.code != 0:
            raise Violation(f"a calm apply fails: {ended.text}")
        return str(end.disk_fault), ended
    if end.largest is not None:
        return f"{end.largest} bytes", ready.run(play.room.folder, line, largest=end.largest).ended()
    lives = 1 + int(end.where * max(1, calls))
    ended = ready.run(play.room.folder, line, lives=lives, counted=True, number=end.number).ended()
    return f"call {lives} of {calls}", ended


def _kill_maintain(play: Play, ready: Workers, end: _End, parallelism: int) -> None:
    """End `lancens maintain`, where there are jobs, at one of the calls of functions that do them."""
    if play.wanted.upkeep:
        line = ["maintain", _MANIFEST, "--auto-approve", "--journal=journal", f"--parallelism={parallelism}"]
        lives = 1 + int(end.where * _MAINTAIN_CALLS)
        with play.upkeep():
            run = ready.run(play.room.folder, [*line, *_variables(play)], lives=lives, counted=True, number=end.number)
            ended = run.ended()
        expect_true(ended, end.number, play)


def _saved(play: Play, ready: Workers) -> Path:
    """Save a plan as a user does, and return where."""
    arguments = ["plan", "lancens.yaml", "-o", _PLAN, "--allow-mass-removal", *_variables(play)]
    ended = ready.run(play.room.folder, arguments).ended()
    if ended.code not in (0, 3):
        raise Violation(f"a calm plan fails: {ended.text}")
    return play.room.folder / _PLAN


def _go_on(play: Play, saved: Path | None, *, through_serve: bool) -> None:
    """Make it whole: by the same saved plan, or by a fresh one, which may go through `lancens serve`."""
    if saved is None:
        play.calm(through_serve=through_serve)
        return
    for _ in range(2):  # once it is done, it is done
        report = play.apply(Plan.from_json(saved.read_text("utf-8")), faulty=True, patient=True)  # as it was planned
        if not report.ok:
            raise Violation(f"a calm apply of the saved plan fails: {failures(report)}")
    play.expect_done()


def expect_true(ended: Ended, by: signal.Signals | None, play: Play) -> None:
    """Check that an apply says how it ended, unless SIGKILL ended it, and that it is done if it says so."""
    if ended.code is None and by is not signal.SIGKILL:
        raise Violation(f"it dies{f' of {by.name}' if by else ''}, and says nothing")
    if ended.code == 0:
        play.expect_modelled()


@dataclass
class _Bullet:
    """Ends the process of ``run`` at a call that comes after ``writes`` calls that write.

    The server carries that one out, or never sees it. A process that is asked to end may finish what is in flight, and
    every later call is answered.
    """

    run: Run
    target: Target
    end: _End
    writes: int
    at: str = ""

    def __call__(self, call: Call) -> Fault | None:
        name = call.action or call.name
        is_last = not self.at and self.writes == 0 and (self.target.is_write(name) or self.end.reads)
        self.writes -= self.writes > 0 and self.target.is_write(name)
        if is_last:
            self.at = name
            self.run.kill(self.end.number)
        if not self.at or self.end.number is not signal.SIGKILL:
            return None
        return Fault.LOST if is_last and self.end.answered else Fault.RESET
