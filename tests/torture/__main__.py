"""``make torture``: every server under faults, kills and races.

python -m tests.torture                                  # all of it
python -m tests.torture hive-4.1 --runs 10 --kills 2     # less of it
python -m tests.torture unity --races 1 --seed 81723     # one seed again
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.cost import tree_seconds
from tests.torture.disk import is_there
from tests.torture.faulted import run_faults
from tests.torture.killed import run_kill
from tests.torture.raced import run_race
from tests.torture.sabotages import SABOTAGES
from tests.torture.tally import Tally, Violation, again, table
from tests.torture.targets.base import Target
from tests.torture.targets.servers import SERVERS, WITHOUT_REGISTRY
from tests.torture.workers import workers

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


def main() -> int:
    """Run what the command line says; return 1 after a violation, 2 where a server is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("servers", nargs="*", choices=[*SERVERS, []], metavar="SERVER", help=", ".join(SERVERS))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--races", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run on a server after so many")
    parser.add_argument("--sabotage", choices=SABOTAGES, help="break lancens, to see that the harness sees it")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what there is until then is printed
    counts = {"runs": told.runs, "kills": told.kills, "races": told.races}
    print(f"seed {told.seed}")
    if "dir" in (told.servers or SERVERS) and not is_there():
        print("strace is missing or may not trace: the disk of dir gets full, and no other call fails")
    seeds = {what: seeds_of(told.seed, number) for what, number in counts.items()}
    tallies = [Tally(name) for name in told.servers or SERVERS]
    gone = list(missing([tally.server for tally in tallies if tally.server not in WITHOUT_REGISTRY]))
    if gone:
        print("these servers cannot be started:", *gone, sep="\n")
        return 2
    try:
        for tally in tallies:
            try:
                with SABOTAGES[told.sabotage]() if told.sabotage else nullcontext():
                    until = time.monotonic() + told.minutes * 60
                    tortured(tally.server, seeds, tally, until, to_the_first=bool(told.sabotage))
            except pytest.skip.Exception as skipped:
                tally.skipped = str(skipped)
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the other servers go on
                tally.violations.append(f"the server broke down: {error!r}")
            print(table([tally]), flush=True)
    except KeyboardInterrupt:
        print("interrupted: this is what there was until then")
    finally:
        print(table(tallies))
    return 1 if any(tally.violations for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
