"""Runs under faults: plan and apply again and again over a bad line, until it is done."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from reconciler import ApplyReport
from reconciler.model.errors import LancensError, StalePlanError
from reconciler.planner.plan import Plan
from tests.servers.fault_proxy import Call, Fault, FaultProxy
from tests.torture.manifests import SECOND
from tests.torture.others import Act
from tests.torture.play import IMPATIENT_SECONDS, Play, drawn, failures, plays_of, unread_in
from tests.torture.tally import Tally, Violation
from tests.torture.targets.base import Target

__all__ = ["BUSY", "run_faults"]

_CALM_TRIES = 3
_CALLS = 40
"""Others act at one of the first calls."""
BUSY = "it failed without a fault, and took longer than it had to wait: a busy machine, or not"
_AMID = 0.6
"""At how many of the calls that write others edit a table."""
_MAINTAIN_FAULTS = 4
_DYING_CALLS = 12
"""A second catalog dies at one of the first calls of an apply."""


@dataclass
class _Weather:
    """What goes wrong: up to ``left`` faults, at one in so many of the calls that read, and of those that write.

    Others act at call ``acts_at``. At call ``dies_at`` of an apply, the second catalog goes away until that one ends.
    """

    play: Play
    dice: random.Random
    tally: Tally
    left: int
    reads: float
    writes: float
    acts: Sequence[Act]
    acts_at: int
    dies_at: int | None = None
    second_calls: int = 0
    amid: list[Act] = field(default_factory=list)
    """What others do to the manifest's own tables, each right before a call that writes."""
    is_edited: bool = False
    """Whether they have done some of it since the last plan."""
    happened: list[str] = field(default_factory=list)

    def decide(self, call: Call) -> Fault | None:
        if call.number >= self.acts_at:
            self.others_act()
        if self.amid and self.play.target.is_write(call.action or call.name) and self.dice.random() < _AMID:
            act = self.amid.pop()
            self.is_edited = True
            self.happened.append(f"{call.number} {call.action or call.name}: others {act.what} {'/'.join(act.path)}")
            self.play.others_act([act])
            self.tally.acts += 1
        return self._fault(self.play.target, call)

    def decide_second(self, call: Call) -> Fault | None:
        assert self.play.second is not None
        self.second_calls += 1
        if self.dies_at is not None and self.second_calls > self.dies_at:
            self.tally.faults["second catalog gone"] += 1
            self.tally.drawn["second catalog dies"] += 1
            self.happened.append(f"second catalog gone at {call.action or call.name}")
            return Fault.RESET
        return self._fault(self.play.second, call)

    def _fault(self, target: Target, call: Call) -> Fault | None:
        writes = target.is_write(call.action or call.name)
        if self.left <= 0 or self.dice.random() >= (self.writes if writes else self.reads):
            return None
        fault = self.dice.choice(target.faults)
        self.left -= 1
        self.tally.faults[fault.value] += 1
        self.tally.lost += fault.loses_reply and writes
        self.happened.append(f"{call.number} {call.action or call.name}: {fault.value}")
        return fault

    def others_act(self) -> None:
        """Let others do what they have not done yet."""
        acts, self.acts = self.acts, ()
        self.play.others_act(acts)
        self.tally.acts += len(acts)

    @contextmanager
    def second_may_die(self) -> Iterator[None]:
        """Within this, let the second catalog go away in one of three times."""
        if self.play.second is not None and self.play.second.faults and self.dice.random() < 0.3:
            self.dies_at, self.second_calls = self.dice.randrange(1, _DYING_CALLS), 0
        try:
            yield
        finally:
            self.dies_at = None


def run_faults(target: Target, seed: int, tally: Tally) -> None:
    """Play a scenario under faults, and in some runs also without, and compare.

    Raises:
        Violation: a promise was not kept.
    """
    dice = random.Random(seed)
    scenario = drawn(target, dice, tally)
    with target.impatient(), target.proxy() as proxy, second_proxy(target) as second:
        plays = plays_of(target, scenario, dice, proxy.port, second.port if second else 0)
        for number, meanwhile in enumerate(scenario.meanwhile):
            for play in plays:
                play.begin(number)
                tally.acts += len(scenario.between) * number
                tally.refused += bool(number) and play.expect_refused()
            amid = [act for act in scenario.amid if not (target.loses_updates and act.what == "note")] * number
            _converge(plays[0], proxy, second, dice, tally, meanwhile, [] if plays[1:] else amid)
            for clean in plays[1:]:
                clean.others_act(meanwhile)
                clean.calm()
                plays[0].expect_same(clean)
            weather = _Weather(plays[0], dice, tally, _MAINTAIN_FAULTS, 0.1, 0.3, (), 0)
            proxy.reset(weather.decide)
            for play in plays:
                play.maintain(faulty_times=0 if plays[1:] else 2)  # a reply lost leaves a version more
    for play in plays:
        play.expect_files()
        play.forget()


@contextmanager
def second_proxy(target: Target) -> Iterator[FaultProxy | None]:
    """Run a proxy in front of the second catalog, if there is one that has a port."""
    if target.second is None or not target.second.port:
        yield None
        return
    with target.second.impatient(), target.second.proxy() as proxy:
        yield proxy


def _converge(
    play: Play,
    proxy: FaultProxy,
    second: FaultProxy | None,
    dice: random.Random,
    tally: Tally,
    meanwhile: Sequence[Act],
    amid: list[Act],
) -> None:
    """Apply until there is nothing left to do."""
    faults, reads, writes = dice.randrange(2, 10), dice.choice((0.0, 0.02, 0.1)), dice.choice((0.15, 0.3, 0.6))
    weather = _Weather(play, dice, tally, faults, reads, writes, meanwhile, dice.randrange(_CALLS), amid=amid)
    proxy.reset(weather.decide)
    if second is not None:
        second.reset(weather.decide_second)
    parallelism = dice.choice((1, 1, 4))
    saved: Plan | None = None
    try:
        for _ in range(weather.left + len(amid) + 2 * _CALM_TRIES):
            if saved is None or weather.is_edited or dice.random() < 0.5:
                weather.is_edited = False
                saved = _planned(play, weather, parallelism)
            if saved is not None and _applied(play, saved, weather, parallelism, tally) and not weather.is_edited:
                weather.others_act()
                play.expect_done()
                return
        raise Violation("it does not converge")
    except Violation as violation:
        raise Violation(f"{violation}\n  after {'; '.join(weather.happened) or 'no fault'}") from None


def _planned(play: Play, weather: _Weather, parallelism: int) -> Plan | None:
    """Return a plan, None where a fault has made it fail or block tables."""
    before, started = len(weather.happened), time.monotonic()
    try:
        plan = play.plan(faulty=True, parallelism=parallelism)
    except LancensError as error:
        if len(weather.happened) == before:
            if not _gave_up(started):
                raise Violation(f"a calm plan fails: {error}") from None
            weather.tally.limits[BUSY] += 1
        return None
    play.expect_complete(plan)
    return None if unread_in(plan) else Plan.from_json(plan.to_json())


def _applied(play: Play, plan: Plan, weather: _Weather, parallelism: int, tally: Tally) -> bool:
    """Apply ``plan``, and return whether all of it is done."""
    before, faults = play.look(), len(weather.happened)
    started = time.monotonic()
    tally.applies += 1
    problem = ""
    try:
        with weather.second_may_die():
            report = play.apply(plan, faulty=True, parallelism=parallelism)
        done = report.ok
        problem = failures(report)
    except StalePlanError as error:
        raise Violation(f"a plan is stale that nobody else has touched: {error}") from None
    except LancensError as error:
        done, problem = False, str(error)
    else:
        if all(SECOND in one for one in weather.happened[faults:]) and not _gave_up(started):
            _expect_first_done(report)
    took_long = _gave_up(started)
    play.expect_only_planned(plan, before)
    play.expect_files()
    if not done and len(weather.happened) == faults:
        if not took_long:
            raise Violation(f"a calm apply fails: {problem}")
        tally.limits[BUSY] += 1
    return done


def _expect_first_done(report: ApplyReport) -> None:
    """Check that what happens to a second catalog stops nothing in the first one."""
    left = [one for one in report.results if one.change.catalog != SECOND and not one.status.satisfies]
    if left:
        raise Violation(f"a second catalog that goes away stops the first one: {failures(report)}")


def _gave_up(started: float) -> bool:
    """Return whether a call that began then may have run out of time by itself, as on a busy machine."""
    return time.monotonic() - started >= IMPATIENT_SECONDS
