"""Runs under faults: plan and apply again and again over a bad line, until it is done."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from reconciler.model.errors import LancensError, StalePlanError
from reconciler.planner.plan import Plan
from tests.servers.fault_proxy import Call, Fault, FaultProxy
from tests.torture.play import IMPATIENT_SECONDS, Play, failures
from tests.torture.scenario import draw
from tests.torture.tally import Tally, Violation
from tests.torture.targets.base import Target

__all__ = ["run_faults"]

_CALM_TRIES = 3


@dataclass
class _Weather:
    """What goes wrong: up to ``left`` faults, at one in so many of the calls that read, and of those that write."""

    target: Target
    dice: random.Random
    tally: Tally
    left: int
    reads: float
    writes: float
    happened: list[str] = field(default_factory=list)

    def decide(self, call: Call) -> Fault | None:
        writes = self.target.is_write(call.action or call.name)
        if self.left <= 0 or self.dice.random() >= (self.writes if writes else self.reads):
            return None
        fault = self.dice.choice(self.target.faults)
        self.left -= 1
        self.tally.faults[fault.value] += 1
        self.tally.lost += fault.loses_reply and writes
        self.happened.append(f"{call.number} {call.action or call.name}: {fault.value}")
        return fault


def run_faults(target: Target, seed: int, tally: Tally) -> None:
    """Play a scenario under faults and without, and compare.

    Raises:
        Violation: a promise was not kept.
    """
    dice = random.Random(seed)
    scenario = draw(dice, target.abilities)
    clean = Play(target, scenario)
    with target.impatient(), target.proxy() as proxy:
        disturbed = Play(target, scenario, proxy.port)
        for wanted in scenario.manifests:
            clean.write(wanted)
            clean.calm()
            disturbed.write(wanted)
            _converge(disturbed, proxy, dice, tally)
            disturbed.expect_same(clean)
        clean.expect_files()
    clean.forget()
    disturbed.forget()


def _converge(play: Play, proxy: FaultProxy, dice: random.Random, tally: Tally) -> None:
    """Apply until there is nothing left to do."""
    weather = _Weather(
        play.target, dice, tally, dice.randrange(2, 10), dice.choice((0.0, 0.02, 0.1)), dice.choice((0.15, 0.3, 0.6))
    )
    proxy.reset(weather.decide)
    parallelism = dice.choice((1, 1, 4))
    saved: Plan | None = None
    try:
        for _ in range(weather.left + _CALM_TRIES):
            if saved is None or dice.random() < 0.5:
                saved = _planned(play, weather, parallelism)
            if saved is not None and _applied(play, saved, weather, parallelism, tally):
                play.expect_done()
                return
        raise Violation("it does not converge")
    except Violation as violation:
        raise Violation(f"{violation}\n  after {'; '.join(weather.happened) or 'no fault'}") from None


def _planned(play: Play, weather: _Weather, parallelism: int) -> Plan | None:
    """Return a plan, None where it failed for a fault."""
    before, started = len(weather.happened), time.monotonic()
    try:
        plan = play.plan(faulty=True, parallelism=parallelism)
    except LancensError as error:
        if len(weather.happened) == before and not _gave_up(started):
            raise Violation(f"a calm plan fails: {error}") from None
        return None
    play.expect_complete(plan)
    return Plan.from_json(plan.to_json())


def _applied(play: Play, plan: Plan, weather: _Weather, parallelism: int, tally: Tally) -> bool:
    """Apply ``plan``, and return whether all of it is done."""
    before, faults = play.state(), len(weather.happened)
    started = time.monotonic()
    tally.applies += 1
    problem = ""
    try:
        report = play.apply(plan, faulty=True, parallelism=parallelism)
        done = report.ok
        problem = failures(report)
    except StalePlanError as error:
        raise Violation(f"a plan is stale that nobody else has touched: {error}") from None
    except LancensError as error:
        done, problem = False, str(error)
    took_long = _gave_up(started)
    play.expect_only_planned(plan, before)
    play.expect_files()
    if not done and len(weather.happened) == faults and not took_long:
        raise Violation(f"a calm apply fails: {problem}")
    return done


def _gave_up(started: float) -> bool:
    """Return whether a call that began then may have run out of time by itself, as on a busy machine."""
    return time.monotonic() - started >= IMPATIENT_SECONDS
