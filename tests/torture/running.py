"""Servers under faults, kills and races: one after the other, or several at once."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pytest

from tests.cost import tree_seconds
from tests.torture.faulted import run_faults
from tests.torture.killed import run_kill
from tests.torture.raced import run_race
from tests.torture.sabotages import SABOTAGES
from tests.torture.tally import Tally, Violation, again, table
from tests.torture.targets.base import Target
from tests.torture.targets.servers import SERVERS
from tests.torture.workers import workers

__all__ = ["missing", "on_server", "one_by_one", "seeds_of", "side_by_side", "tortured"]

Run = Callable[[Target, int, Tally], None]


def tortured(
    name: str, seeds: Mapping[str, Sequence[int]], tally: Tally, until: float, *, to_the_first: bool = False
) -> None:
    """Run the seeds on one server; none begins after ``until``, or with ``to_the_first`` after a violation."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix=f"torture-{name}-") as folder,
        workers(Path(folder)) as ready,
        SERVERS[name](Path(folder)) as target,
    ):
        runs: dict[str, Run] = {
            **({"runs": run_faults} if target.faults else {}),
            "kills": partial(run_kill, ready=ready),
            "races": partial(run_race, ready=ready),
        }
        for what, seed in _mixed({what: seeds[what] for what in runs}):
            at, cpu = time.monotonic(), tree_seconds()
            if at > until:
                return
            ended = _played(name, what, partial(runs[what], target, seed, tally), tally, seed)
            took = f"{time.monotonic() - at:.1f} s, {tree_seconds() - cpu:.1f} of CPU"
            print(f"{name} {what} seed {seed}: {took}: {ended}", flush=True)
            if to_the_first and tally.violations:
                print(f"seen after {time.monotonic() - began:.0f} s")
                return


def seeds_of(seed: int, number: int) -> list[int]:
    """Return as many seeds: ``seed``, which alone plays a run again, and others that no neighbouring seed draws."""
    return [seed, *random.Random(seed).sample(range(2**32), 99_999)][:number]


def _mixed(seeds: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    """Return every kind of run with its seeds, evenly mixed, so that less time is less of each."""
    return [
        (what, seed)
        for _, what, seed in sorted(
            ((number + 0.5) / len(some), what, seed) for what, some in seeds.items() for number, seed in enumerate(some)
        )
    ]


def _played(name: str, what: str, run: Callable[[], None], tally: Tally, seed: int) -> str:
    """Play one run, and return how it ended."""
    try:
        run()
    except Violation as violation:
        ended = f"VIOLATION {violation}"
        tally.violations.append(f"{again(name, what, seed)}: {violation}")
    except Exception as error:  # noqa: BLE001 - a harness that breaks down has shown nothing
        ended = f"BROKE DOWN {''.join(traceback.format_exception(error))}"
        tally.violations.append(f"{again(name, what, seed)}: the harness broke down: {error!r}")
    else:
        tally.converged += 1
        ended = "ok"
    tally.runs[what] += 1
    return ended


def missing(names: Sequence[str]) -> Iterator[str]:
    """Yield the servers that cannot be started, each with the reason; each is started and stopped."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"torture-{name}-") as folder:
            try:
                with SERVERS[name](Path(folder)):
                    pass
            except (pytest.skip.Exception, pytest.fail.Exception, OSError, RuntimeError) as error:
                yield f"{name}: {error}"


def on_server(name: str, seeds: Mapping[str, Sequence[int]], minutes: float, sabotage: str | None) -> Tally:
    """Run the seeds on one server and print what happened, until the last of them or an interrupt."""
    tally, until = Tally(name), time.monotonic() + minutes * 60
    try:
        with SABOTAGES[sabotage]() if sabotage else nullcontext():
            tortured(name, seeds, tally, until, to_the_first=bool(sabotage))
    except pytest.skip.Exception as skipped:
        tally.skipped = str(skipped)
    except KeyboardInterrupt:
        tally.interrupted = True
        print(f"{name} is interrupted: this is what there was until then")
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the other servers go on
        tally.violations.append(f"the server broke down: {error!r}")
    print(table([tally]), flush=True)
    return tally


def one_by_one(names: Sequence[str], play: Callable[[str], Tally]) -> Iterator[Tally]:
    """Yield the tally of each server, the last being that of one that is interrupted."""
    for name in names:
        yield (tally := play(name))
        if tally.interrupted:
            return


def side_by_side(names: Sequence[str], play: Callable[[str], Tally], at_once: int) -> Iterator[Tally]:
    """Yield the tally of each server as it ends; an interrupt ends those that have begun, and no other begins."""
    waiting, running = deque(names), set[Future[Tally]]()
    options: Any = {"mp_context": get_context("spawn"), "initializer": _leave_the_terminal, "max_tasks_per_child": 1}
    with ProcessPoolExecutor(at_once, **options) as processes:
        try:
            while waiting or running:
                running |= {processes.submit(play, waiting.popleft()) for _ in range(at_once - len(running)) if waiting}
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except KeyboardInterrupt:
            for process in active_children():  # each has a server, as it ends with it
                process.terminate()
            yield from (future.result() for future in running)


def _leave_the_terminal() -> None:
    """Let an interrupt of the terminal reach the parent alone, which passes it on once."""
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
