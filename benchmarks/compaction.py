"""What Spark saves where one dataset is large: `python -m benchmarks.compaction [ROUNDS]`.

Copies of one dataset of ROWS rows in FRAGMENTS fragments are compacted in turns: by `lancens maintain` in one process,
by the same on `local[2]`, and by pylance's own `compact_files` in one process, which runs tasks side by side. All of
them may use every core: a single task of pylance's has threads of its own. The seconds of the job, from which the ratio
is, are without the start of Python and of Spark's JVM; CPU seconds and those of the command are with both.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.page import Goal, Section, spread, table, used_by

ROWS = 20_000_000
FRAGMENTS = 100
ROUNDS = 3
MOST = 0.65
ONE, SPARK, BARE = "`lancens maintain`", "`lancens maintain --engine spark`, local[2]", "pylance's `compact_files`"
NAMES = {ONE: "one", SPARK: "spark", BARE: "bare"}
MANIFEST = """\
version: 1
name: store
catalogs: {lake: {impl: dir, config: {root: ./lake}, tables: {big: {maintain: {compact: {}}}}}}
"""
WORK = """
import os, sys, time
import lance
from reconciler import load
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.spark.session import SparkOptions
from reconciler.spark.upkeep_tasks import executors_of

def timed(act):
    began, before = time.perf_counter(), lance.dataset("lake/big.lance").count_rows()
    act()
    after = lance.dataset("lake/big.lance")
    assert (after.count_rows(), len(after.get_fragments()) < 30) == (before, True)
    print(time.perf_counter() - began)

def job(executors=None):
    assert maintain(made, manifest, executors=executors).ok

how, manifest = sys.argv[1], load("lancens.yaml")
made = plan_maintenance(manifest)
if how == "one":
    timed(job)
elif how == "bare":
    timed(lance.dataset("lake/big.lance").optimize.compact_files)
else:
    with executors_of(SparkOptions("local[2]")) as executors:
        timed(lambda: job(executors))
"""


def write(folder: Path) -> None:
    """Write the dataset and its manifest."""
    import lance
    import numpy as np
    import pyarrow as pa

    (folder / "lancens.yaml").write_text(MANIFEST)
    random, number = np.random.default_rng(1), ROWS // FRAGMENTS
    for at in range(FRAGMENTS):
        names = np.char.add("user ", random.integers(0, ROWS, number).astype(str))
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(number * 8, dtype=np.float32)), 8)
        ids = np.arange(at * number, (at + 1) * number)
        made = pa.table({"id": ids, "score": random.random(number), "name": names, "vector": vectors})
        lance.write_dataset(made, str(folder / "lake/big.lance"), mode="append" if at else "create")


def section(rounds: int = ROUNDS) -> Section:
    """Measure and return the part of the page."""
    jobs: dict[str, list[float]] = {name: [] for name in NAMES}
    used = {name: list[float]() for name in NAMES}
    cpu = {name: list[float]() for name in NAMES}
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        written = Path(name, "written")
        written.mkdir()
        write(written)
        for _ in range(rounds):
            for how, argument in NAMES.items():
                copy = Path(name, "copy")
                shutil.copytree(written, copy, copy_function=os.link)  # data files are never written again
                done = used_by([sys.executable, "-c", WORK, argument], directory=copy)
                jobs[how].append(float(done.output))
                used[how].append(done.seconds)
                cpu[how].append(done.cpu)
                shutil.rmtree(copy)
    ratios = {how: [one / plain for one, plain in zip(jobs[how], jobs[ONE], strict=True)] for how in NAMES}
    lines = [[how, spread(ratios[how]), *(spread(one[how]) for one in (jobs, cpu, used))] for how in NAMES]
    took, more = (f"{median(jobs[how]):.1f} s" for how in NAMES), median(cpu[SPARK]) - median(cpu[ONE])
    why = "{1} against {0} in one process, whose pylance has threads, and {2} of `compact_files`".format(*took)
    why += f"; the JVM and the Pythons of two tasks took {more:.1f} s of CPU more"
    goal = Goal(f"compaction of {ROWS:,} rows on local[2], against one process", median(ratios[SPARK]), MOST, why)
    about = (
        (__doc__ or "").partition("\n\n")[2].strip().replace("ROWS", f"{ROWS:,}").replace("FRAGMENTS", str(FRAGMENTS))
    )
    text = f"{about}\n\n{table(['compaction', 'ratio', 'job, s', 'command, CPU s', 'command, s'], lines)}"
    return Section("Compaction on Spark", "python -m benchmarks.compaction", text, [goal])


if __name__ == "__main__":
    print(section(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS).text)
