"""The two engines of `lancens plan` side by side: `python -m benchmarks.fleet [--before DIR] [TABLES ...]`.

For each size a manifest is written and a directory catalog is filled with as many tables, of which one in a hundred
differs, and then 10,000 of them. `lancens plan` runs once with each engine, each in a process of its own; on Spark with
two cores and a driver heap of 2 GiB. With `--before`, the local engine of another checkout runs in between.

Reported are the CPU seconds of each whole tree of processes, the seconds without starting Spark, and the peak of the
memory of the largest process and of the whole tree (proportional set size, so that pages shared between processes count
once). All plans are compared byte for byte; that of another checkout but for the digests of manifest and plan, which
are not made in the same way in every version.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.scale import fill_catalog, write_manifest

SIZES = (10_000, 100_000, 1_000_000)
MANY = 10_000
SPARK = ("--engine", "spark", "--master", "local[2]", "--spark-conf", "spark.driver.memory=2g")
LOCAL = ("--engine", "local")
LANCENS = (sys.executable, "-c", "from reconciler.cli import main; main()")


@dataclass(frozen=True)
class Run:
    """A measured plan; ``seconds`` are without the start of Spark."""

    cpu: float
    seconds: float
    peak_mib: int
    largest_mib: int
    plan: bytes


def process_tree(root: int) -> Iterator[int]:
    """Yield the ids of a process and its live descendants."""
    yield root
    for task in Path(f"/proc/{root}/task").glob("*"):
        for child in (task / "children").read_text().split():
            yield from process_tree(int(child))


def process_memory(root: int) -> list[int]:
    """Return the proportional set sizes of a process and its descendants, in KiB."""
    found = []
    try:
        for process in process_tree(root):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            found.append(sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")))
    except OSError:  # it ended while it was looked at
        pass
    return found


def run(manifest: Path, engine: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> Run:
    """Run one plan and measure its processes."""
    out = manifest.with_name("plan.json")
    command = [*LANCENS, "plan", str(manifest), "--format", "json", "-o", str(out), *engine]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    with (
        tempfile.TemporaryFile("w+") as stderr,
        subprocess.Popen(
            command, cwd=manifest.parent, stdout=subprocess.DEVNULL, stderr=stderr, env=environment
        ) as process,
    ):
        peak = largest = 0
        done = threading.Event()

        def watch() -> None:
            nonlocal peak, largest
            while not done.wait(0.2):
                found = process_memory(process.pid)
                peak, largest = max(peak, sum(found)), max([largest, *found])

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        seconds = perf_counter() - started
        done.set()
        watcher.join()
        stderr.seek(0)
        stages = stderr.read()
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}:\n{stages}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    start = sum(map(float, re.findall(r"^Starting Spark .* ([\d.]+) s$", stages, re.MULTILINE)))
    return Run(cpu, seconds - start, peak >> 10, largest >> 10, out.read_bytes())


def cells(made: Run) -> list[str]:
    return [f"{made.cpu:.1f}", f"{made.seconds:.1f}", f"{made.largest_mib:,}"]


def _without_digests(plan: bytes) -> bytes:
    return re.sub(rb'"digest": *"[0-9a-f]{64}"', b"", plan)


def main(sizes: tuple[int, ...], before: str | None) -> None:
    """Print a table with a row for each size and number of changes."""
    engines = ["before, local"] if before else []
    engines += ["local", "Spark"]
    columns = [f"{engine} {what}" for engine in engines for what in ("CPU s", "s", "largest MiB")]
    print(f"| tables | changes | {' | '.join(columns)} | Spark, all processes MiB | Spark/{engines[0]} time |")
    print("|---:" * (len(columns) + 4) + "|")
    for size in sizes:
        for different in sorted({size // 100, min(MANY, size)}):
            with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
                manifest = write_manifest(Path(name), size)
                fill_catalog(Path(name) / "lake", size, different)
                made = [run(manifest, LOCAL, {**os.environ, "PYTHONPATH": before})] if before else []
                made += [run(manifest, LOCAL), run(manifest, SPARK)]
            if len({one.plan for one in made[-2:]}) > 1 or len({_without_digests(one.plan) for one in made}) > 1:
                raise SystemExit(f"{size:,} tables: the plans differ")
            spark = made[-1]
            row = [f"{size:,}", f"{different:,}", *(cell for one in made for cell in cells(one))]
            row += [f"{spark.peak_mib:,}", f"{spark.seconds / made[0].seconds:.2f}"]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    other = None
    if arguments[:1] == ["--before"]:
        other, arguments = arguments[1], arguments[2:]
    main(tuple(int(argument.replace(",", "").replace("_", "")) for argument in arguments) or SIZES, other)
