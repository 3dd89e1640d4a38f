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
from functools import partial

from tests.torture.disk import is_there
from tests.torture.running import missing, on_server, one_by_one, seeds_of, side_by_side
from tests.torture.sabotages import SABOTAGES
from tests.torture.tally import table
from tests.torture.targets.servers import SERVERS, WITHOUT_REGISTRY


def main() -> int:
    """Run what the command line says; return 1 after a violation, 2 where a server is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("servers", nargs="*", choices=[*SERVERS, []], metavar="SERVER", help=", ".join(SERVERS))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--races", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run on a server after so many")
    parser.add_argument("--at-once", type=int, default=2, help="how many servers run side by side")
    parser.add_argument("--sabotage", choices=SABOTAGES, help="break lancens, to see that the harness sees it")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what there is until then is printed
    counts = {"runs": told.runs, "kills": told.kills, "races": told.races}
    print(f"seed {told.seed}")
    names = list(told.servers or SERVERS)
    if "dir" in names and not is_there():
        print("strace is missing or may not trace: the disk of dir gets full, and no other call fails")
    seeds = {what: seeds_of(told.seed, number) for what, number in counts.items()}
    gone = list(missing([name for name in names if name not in WITHOUT_REGISTRY]))
    if gone:
        print("these servers cannot be started:", *gone, sep="\n")
        return 2
    play = partial(on_server, seeds=seeds, minutes=told.minutes, sabotage=told.sabotage)
    at_once = min(told.at_once, len(names))
    tallies = list(side_by_side(names, play, at_once) if at_once > 1 else one_by_one(names, play))
    print(table(tallies))
    return 1 if any(tally.violations for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
