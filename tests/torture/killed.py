"""Kills: `lancens apply` in a process of its own gets SIGKILL at some call, then an apply goes on from there."""

from __future__ import annotations

import os
import random
import signal

from tests.servers.fault_proxy import Call, Fault
from tests.torture.play import Play
from tests.torture.scenario import draw
from tests.torture.tally import Tally, Violation
from tests.torture.targets.base import Target
from tests.torture.workers import Ended, Worker, Workers

__all__ = ["apply_arguments", "run_kill"]


def apply_arguments(play: Play, parallelism: int) -> list[str]:
    """Return the command line of an apply through the proxy."""
    variables = [f"--var={name}={value}" for name, value in play.variables(faulty=True).items()]
    options = ["--auto-approve", "--allow-mass-removal", f"--parallelism={parallelism}"]
    return ["apply", "lancens.yaml", *options, *variables]


def run_kill(target: Target, seed: int, tally: Tally, ready: Workers) -> None:
    """Play a scenario with a kill in each of its applies, and without, and compare.

    Raises:
        Violation: a promise was not kept.
    """
    dice = random.Random(seed)
    scenario = draw(dice, target.abilities)
    parallelism = dice.choice((1, 4))
    with target.proxy() as proxy:
        clean, killed = Play(target, scenario, proxy.port), Play(target, scenario, proxy.port)
        for wanted in scenario.manifests:
            clean.write(wanted)
            killed.write(wanted)
            where = dice.random()
            if target.faults:
                proxy.reset()
                _expect_ok(_apply(ready.take(1)[0], clean, parallelism))
                clean.model.expect(wanted, clean.state())
                calls = proxy.calls
                first = next((at for at, name in enumerate(calls) if target.is_write(name)), 0)
                lives = first + int(where * (len(calls) - first))
                worker = ready.take(1)[0]
                answered = dice.random() < 0.5
                proxy.reset(lambda call: _kill(worker, call, lives, answered=answered))  # noqa: B023
                _apply(worker, killed, parallelism)
                at = f"call {lives} of {len(calls)}, {(proxy.calls[lives:] or ['-'])[0]}, {answered=}"
                proxy.reset()
            else:
                counted = _apply(ready.take(1)[0], clean, parallelism, counted=True)
                _expect_ok(counted)
                clean.model.expect(wanted, clean.state())
                lives = 1 + int(where * max(1, counted.calls))
                _apply(ready.take(1)[0], killed, parallelism, lives=lives, counted=True)
                at = f"call {lives} of {counted.calls}"
            tally.applies += 1
            try:
                killed.expect_files()
                killed.calm()
                killed.expect_files()
                killed.expect_same(clean)
            except Violation as violation:
                raise Violation(f"{violation}\n  after a kill at {at}") from None
    clean.forget()
    killed.forget()


def _apply(worker: Worker, play: Play, parallelism: int, *, lives: int | None = None, counted: bool = False) -> Ended:
    line = apply_arguments(play, parallelism)
    return worker.run(play.room.folder, line, lives=lives, counted=counted)


def _expect_ok(ended: Ended) -> None:
    if ended.code != 0:
        raise Violation(f"a calm apply fails: {ended.text}")


def _kill(worker: Worker, call: Call, lives: int, *, answered: bool) -> Fault | None:
    """Kill the process at its call number ``lives``; the server carries that one out, or never sees it."""
    if call.number < lives:
        return None
    if call.number == lives:
        os.kill(worker.pid, signal.SIGKILL)
        return Fault.LOST if answered else Fault.RESET
    return Fault.RESET
