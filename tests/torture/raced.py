"""Races: two to eight `lancens apply` of one manifest at once, each in a process of its own."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from tests.servers.fault_proxy import Call, Decide
from tests.torture.killed import apply_arguments
from tests.torture.play import Play
from tests.torture.scenario import draw
from tests.torture.tally import Tally, Violation
from tests.torture.targets.base import Target
from tests.torture.workers import Ended, Worker, Workers

__all__ = ["run_race"]

_MOST = 8


def run_race(target: Target, seed: int, tally: Tally, ready: Workers, most: int = _MOST) -> None:
    """Play a scenario with two to ``most`` applies at once, and with one, and compare.

    They meet at the first call that writes, so that they are in it together. Some of them may fail, each with its
    reason; an apply that goes alone then has to make it whole.

    Raises:
        Violation: a promise was not kept.
    """
    dice = random.Random(seed)
    scenario = draw(dice, target.abilities)
    number = dice.randrange(2, most + 1)
    clean, raced = Play(target, scenario), Play(target, scenario)
    for wanted in scenario.manifests:
        clean.write(wanted)
        clean.calm()
        raced.write(wanted)
        ended = _race(target, raced, ready, number)
        tally.racers += number
        limit = _limit(target, [one.text for one in ended])
        try:
            raced.expect_files()
            raced.calm()
            raced.expect_files()
            raced.expect_same(clean)
        except Exception as error:
            named = limit or _limit(target, [str(error)])
            if named is None:
                said = "\n".join(f"  {one.code}: {one.text[-400:]}" for one in ended)
                raise Violation(f"{error}\n  after {number} at once, which said\n{said}") from error
            tally.limits[named] += 1
            break
    clean.forget()
    raced.forget()


def _limit(target: Target, texts: list[str]) -> str | None:
    """Return the documented limit that one of the texts tells of."""
    return next((name for part, name in target.limits.items() if any(part in text for text in texts)), None)


def _race(target: Target, play: Play, ready: Workers, number: int) -> list[Ended]:
    """Let so many applies go at once; each has a proxy of its own, which holds its first write until all are there."""
    runners = ready.take(number)
    together = threading.Barrier(number)
    with ExitStack() as stack:
        lines: list[list[str]] = []
        for _ in runners:
            proxy = stack.enter_context(target.proxy())
            proxy.reset(_held(target, together))
            play.faulty_port = proxy.port
            lines.append(apply_arguments(play, 4))
        with ThreadPoolExecutor(number) as pool:

            def run(one: Worker, line: list[str]) -> Ended:
                try:
                    return one.run(play.room.folder, line)
                finally:
                    together.abort()  # whoever had nothing to write is not waited for

            return list(pool.map(run, runners, lines))


def _held(target: Target, together: threading.Barrier) -> Decide:
    """Return what holds the first call that writes."""
    held = False

    def decide(call: Call) -> None:
        nonlocal held
        if not held and target.is_write(call.action or call.name):
            held = True
            with suppress(threading.BrokenBarrierError):
                together.wait()

    return decide
