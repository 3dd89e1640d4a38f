"""Executors that wait for storage: `python -m benchmarks.waiting [LOCATIONS]`.

A manifest declares missing tables, so `lancens plan --engine spark` probes the location of each. `sitecustomize` makes
each probe of a worker take 50 milliseconds more; nothing else is changed. It runs with one, two and four tasks at once,
in turns. That is waiting and hardly any work, so two cores are enough for four.

The efficiency is how much faster the stage is than with one, by how many there are. Each number is the best of its
rounds: what else the machine does can only make it slower.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LOCATIONS = 20_000
ROUNDS = 2
TASKS = (1, 2, 4)
MILLISECONDS = 50
LANCENS = (sys.executable, "-c", "from reconciler.cli import main; main()")
STAGE = re.compile(r"^Looking at storage for .* ([\d.]+) s$", re.MULTILINE)
SLOW = f"""\
import time

from reconciler import storage
from reconciler.storage import reading


def slowly(location, options, read, examine=reading.examine):
    time.sleep({MILLISECONDS / 1000})
    return examine(location, options, read)


storage.examine = reading.examine = slowly
"""


def prepare(folder: Path, locations: int) -> None:
    """Write a manifest of missing tables, and the module that slows down probes."""
    (folder / "slow").mkdir()
    (folder / "slow/sitecustomize.py").write_text(SLOW)
    tables = "".join(f"          t{number}: {{}}\n" for number in range(locations))
    (folder / "lancens.yaml").write_text(
        "version: 1\nname: waiting\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        f"    namespaces:\n      a:\n        tables:\n{tables}"
    )


def stage_seconds(folder: Path, tasks: int) -> float:
    """Plan with ``tasks`` concurrent tasks; return the seconds of the probe stage."""
    command = [*LANCENS, "plan", "--engine", "spark", "--master", f"local[{tasks}]", "-o", "plan.json"]
    path = os.pathsep.join(filter(None, [str(folder / "slow"), str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    found = STAGE.search(done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return float(found[1])


def main(locations: int) -> None:
    """Print a table with a row for each number of tasks."""
    seconds_by_tasks: dict[int, list[float]] = {tasks: [] for tasks in TASKS}
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        prepare(Path(name), locations)
        for _ in range(ROUNDS):
            for tasks, seconds in seconds_by_tasks.items():
                seconds.append(stage_seconds(Path(name), tasks))
    print(f"{locations:,} locations probed, {MILLISECONDS} ms more each:\n")
    print("| tasks at once | s | locations/s | times faster | efficiency |")
    print("|---:|---:|---:|---:|---:|")
    for tasks, seconds in seconds_by_tasks.items():
        best = min(seconds)
        faster = min(seconds_by_tasks[1]) / best
        print(f"| {tasks} | {best:.1f} | {locations / best:,.0f} | {faster:.2f} | {faster / tasks:.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1].replace(",", "").replace("_", "")) if len(sys.argv) > 1 else LOCATIONS)
