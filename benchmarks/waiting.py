"""Executors that wait for storage: `python -m benchmarks.waiting [LOOKS]`.

A manifest asks for tables that are not there yet, so `lancens plan --engine spark` looks at the place of each. Every
such look takes 50 milliseconds more than it would: the workers find that in their `sitecustomize`, and nothing else is
changed. It runs with one, two and four tasks at once, in turns. That is waiting and hardly any work, so two cores are
enough for four.

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

LOOKS = 20_000
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


def prepare(folder: Path, looks: int) -> None:
    """Write a manifest of as many tables that are not there, and what makes workers slow."""
    (folder / "slow").mkdir()
    (folder / "slow/sitecustomize.py").write_text(SLOW)
    tables = "".join(f"          t{number}: {{}}\n" for number in range(looks))
    (folder / "lancens.yaml").write_text(
        "version: 1\nname: waiting\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        f"    namespaces:\n      a:\n        tables:\n{tables}"
    )


def looking(folder: Path, tasks: int) -> float:
    """Return the seconds that the stage takes."""
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


def main(looks: int) -> None:
    """Print a table with a row for each number of tasks."""
    taken: dict[int, list[float]] = {tasks: [] for tasks in TASKS}
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        prepare(Path(name), looks)
        for _ in range(ROUNDS):
            for tasks, seconds in taken.items():
                seconds.append(looking(Path(name), tasks))
    print(f"{looks:,} looks at storage, {MILLISECONDS} ms more each:\n")
    print("| tasks at once | s | looks/s | times faster | efficiency |")
    print("|---:|---:|---:|---:|---:|")
    for tasks, seconds in taken.items():
        best = min(seconds)
        faster = min(taken[1]) / best
        print(f"| {tasks} | {best:.1f} | {looks / best:,.0f} | {faster:.2f} | {faster / tasks:.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1].replace(",", "").replace("_", "")) if len(sys.argv) > 1 else LOOKS)
