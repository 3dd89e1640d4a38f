"""The two engines of `lancens plan` side by side: `python -m benchmarks.fleet [TABLES ...]`.

For each size a manifest is written and a directory catalog is filled with as many tables, of which one in a hundred
differs. `lancens plan` then runs once with each engine, each in a process of its own; on Spark with two cores and a
driver heap of 2 GiB. Reported are the seconds, the peak of the memory of each whole tree of processes (proportional
set size, so that pages shared between them count once) and of the largest process in it, and the ratio of the times.
The two plans are compared byte for byte.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.scale import fill_catalog, write_manifest

SIZES = (10_000, 100_000, 1_000_000)
SPARK = ("--engine", "spark", "--master", "local[2]", "--spark-conf", "spark.driver.memory=2g")
LOCAL = ("--engine", "local")


@dataclass(frozen=True)
class Run:
    seconds: float
    peak_mib: int
    largest_mib: int
    plan: bytes


def tree(root: int) -> Iterator[int]:
    """Yield a process and all below it that still live."""
    yield root
    for task in Path(f"/proc/{root}/task").glob("*"):
        for child in (task / "children").read_text().split():
            yield from tree(int(child))


def memory_of(root: int) -> list[int]:
    """Return the proportional set size of a process and of each below it, in KiB."""
    found = []
    try:
        for process in tree(root):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            found.append(sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")))
    except OSError:  # it ended while it was looked at
        pass
    return found


def run(manifest: Path, engine: tuple[str, ...]) -> Run:
    """Plan once and measure."""
    out = manifest.with_name("plan.json")
    lancens = Path(sys.executable).with_name("lancens")
    command = [str(lancens), "plan", str(manifest), "--format", "json", "-o", str(out), *engine]
    started = perf_counter()
    with subprocess.Popen(command, cwd=manifest.parent, stdout=subprocess.DEVNULL) as process:
        peak = largest = 0
        done = threading.Event()

        def watch() -> None:
            nonlocal peak, largest
            while not done.wait(0.2):
                found = memory_of(process.pid)
                peak, largest = max(peak, sum(found)), max([largest, *found])

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        seconds = perf_counter() - started
        done.set()
        watcher.join()
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return Run(seconds, peak >> 10, largest >> 10, out.read_bytes())


def main(sizes: tuple[int, ...]) -> None:
    columns = "local s", "Spark s", "time, local/Spark", "local MiB", "Spark MiB", "Spark's largest process MiB"
    print(f"| tables | changes | {' | '.join(columns)} |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for size in sizes:
        different = size // 100
        with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
            manifest = write_manifest(Path(name), size)
            fill_catalog(Path(name) / "lake", size, different)
            local, spark = run(manifest, LOCAL), run(manifest, SPARK)
        if local.plan != spark.plan:
            raise SystemExit(f"{size:,} tables: the two plans differ")
        cells = [
            f"{size:,}",
            f"{different:,}",
            f"{local.seconds:.1f}",
            f"{spark.seconds:.1f}",
            f"{local.seconds / spark.seconds:.2f}",
            f"{local.peak_mib:,}",
            f"{spark.peak_mib:,}",
            f"{spark.largest_mib:,}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(tuple(int(argument.replace(",", "").replace("_", "")) for argument in sys.argv[1:]) or SIZES)
