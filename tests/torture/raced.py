"""Races: two to eight `lancens apply` at once, each in a process of its own, of one manifest or of two."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from tests.servers.fault_proxy import Call, Decide
from tests.torture.killed import apply_arguments
from tests.torture.others import Act
from tests.torture.play import Play, drawn, plays_of
from tests.torture.scenario import Scenario
from tests.torture.tally import Tally, Violation
from tests.torture.targets.base import Target
from tests.torture.workers import Ended, Run, Workers

__all__ = ["run_race"]

_MOST = 8
_MANIFEST, _OTHER = "lancens.yaml", "other.yaml"


def run_race(target: Target, seed: int, tally: Tally, ready: Workers, most: int = _MOST) -> None:
    """Play a scenario with two to ``most`` applies at once, in some runs also with one, and compare.

    They meet at the first call that writes, so that they are in it together, and other clients act meanwhile. Some of
    them may fail, each with its reason; an apply that goes alone then has to make it whole. Where no name moves, half
    of them may apply the edited manifest at once with the first one, which leaves other data than one after the other.

    Raises:
        Violation: a promise was not kept.
    """
    dice = random.Random(seed)
    scenario = drawn(target, dice, tally)
    number = dice.randrange(2, most + 1)
    if dice.random() < 0.3 and _are_simple(scenario):
        raced = Play(target, scenario)
        _run_two_manifests(target, raced, ready, number, tally)
        raced.forget()
        return
    plays = plays_of(target, scenario, dice)
    raced = plays[0]
    for at, meanwhile in enumerate(scenario.meanwhile):
        for play in plays:
            play.begin(at)
        for clean in plays[1:]:
            clean.others_act(meanwhile)
            clean.calm()
        before = raced.look()
        ended = _race(target, raced, ready, [_MANIFEST] * number, meanwhile)
        tally.racers += number
        tally.acts += len(meanwhile)
        limit = _limit(target, [one.text for one in ended])
        try:
            raced.expect_files()
            raced.expect_journalled(before, raced.state())
            if all(one.code == 0 for one in ended):  # each says that it is done
                raced.expect_modelled()
            raced.calm()
            raced.expect_files()
            for clean in plays[1:]:
                raced.expect_same(clean)
        except Exception as error:
            named = limit or _limit(target, [str(error)])
            if named is None:
                said = "\n".join(f"  {one.code}: {one.text[-400:]}" for one in ended)
                raise Violation(f"{error}\n  after {number} at once, which said\n{said}") from error
            tally.limits[named] += 1
            raced.expect_files()  # which no limit excuses
            break
    for play in plays:
        play.forget()


def _are_simple(scenario: Scenario) -> bool:
    """Return whether the edited manifest leaves the same whether or not the first one was applied before."""
    wanted = (*scenario.manifests, *scenario.second)
    return not (scenario.is_tagged or any(one.moves or one.blocked for one in wanted))


def _run_two_manifests(target: Target, play: Play, ready: Workers, number: int, tally: Tally) -> None:
    """Race the two manifests of one owner, then make the second one whole, and ask the model."""
    play.write(0)
    shutil.copyfile(play.room.folder / _MANIFEST, play.room.folder / _OTHER)
    play.storage = None  # an apply of either may have made a dataset whose entry the other one then removed
    play.model.may_have(play.wanted)
    if play.second_model is not None and play.second_wanted is not None:
        play.second_model.may_have(play.second_wanted)
    play.write(1)
    files = [_MANIFEST if one % 2 else _OTHER for one in range(number)]
    meanwhile = play.scenario.meanwhile[0]
    before = play.look()
    ended = _race(target, play, ready, files, meanwhile)
    tally.racers += number
    tally.acts += len(meanwhile)
    try:
        play.expect_files()
        play.expect_journalled(before, play.state())
        if all(one.code == 0 for one in ended):
            play.expect_agreed()
        play.calm()
        play.expect_files()
    except Exception as error:
        named = _limit(target, [str(error), *(one.text for one in ended)])
        if named is None:
            said = "\n".join(f"  {one.code}: {one.text[-400:]}" for one in ended)
            raise Violation(f"{error}\n  after two manifests at once, which said\n{said}") from error
        tally.limits[named] += 1
        play.expect_files()


def _limit(target: Target, texts: list[str]) -> str | None:
    """Return the documented limit that one of the texts tells of."""
    return next((name for part, name in target.limits.items() if any(part in text for text in texts)), None)


def _race(target: Target, play: Play, ready: Workers, files: Sequence[str], meanwhile: Sequence[Act]) -> list[Ended]:
    """Let an apply of each file go at once; each has a proxy of its own, which holds its first write for the others.

    Other clients act as soon as they are let go.
    """
    number = len(files)
    together = threading.Barrier(number)
    with ExitStack() as stack:
        runs: list[Run] = []
        for file in files:
            proxy = stack.enter_context(target.proxy())
            proxy.reset(_held(target, together))
            play.faulty_port = proxy.port
            runs.append(ready.run(play.room.folder, apply_arguments(play, 4, file)))
        with ThreadPoolExecutor(number) as pool:

            def ended(run: Run) -> Ended:
                try:
                    return run.ended()
                finally:
                    together.abort()  # whoever had nothing to write is not waited for

            running = pool.map(ended, runs)
            play.others_act(meanwhile)
            return list(running)


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
