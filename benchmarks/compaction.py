"""What Spark saves where one dataset is large, and not where it is small: `python -m benchmarks.compaction [ROUNDS]`.

Copies of a dataset of ROWS rows in FRAGMENTS fragments are compacted in turns: by `lancens maintain` in one process, by
the same on `local[2]`, and by pylance's own `compact_files` in one process. Documents have an id and a text of 0.8 KB;
measurements have an id, a number, a short name and a vector of eight floats, 50 bytes in all. The ratio is of
the seconds of the job, without the start of Python, of Spark's JVM and of its Python workers; the seconds of the
command are with them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.page import Goal, Section, run_measured, spread, table

ROWS = 10_000_000
FRAGMENTS = 100
ROUNDS = 1
MOST = 0.65
ONE, SPARK, BARE = "`lancens maintain`", "the same on Spark, local[2]", "pylance's `compact_files`"
NAMES = {ONE: "one", SPARK: "spark", BARE: "bare"}


class Run(NamedTuple):
    """The seconds of one compaction, and of the whole command."""

    job: float
    command: float


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
from reconciler.pipeline.session import SparkOptions
from reconciler.pipeline.upkeep_tasks import executors_of

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
        executors(lambda _: lance.__version__, [1, 2])  # starts the workers
        timed(lambda: job(executors))
"""


def write_dataset(folder: Path, shape: str, number: int = ROWS) -> None:
    """Write a dataset of ``number`` rows, and its manifest."""
    import lance

    (folder / "lancens.yaml").write_text(MANIFEST)
    rows = SHAPES[shape](np.random.default_rng(1), number // FRAGMENTS)
    for at in range(FRAGMENTS):
        ids = pa.array(np.arange(at * rows.num_rows, (at + 1) * rows.num_rows))
        made = rows.append_column("id", ids)
        lance.write_dataset(made, str(folder / "lake/big.lance"), mode="append" if at else "create")


def _documents(random: np.random.Generator, number: int) -> pa.Table:
    letters = np.array([*"abcdefghijklmnopqrstuvwxyz"])
    words = pa.array(["".join(random.choice(letters, random.integers(2, 11))) for _ in range(20_000)])
    places = (np.minimum(random.zipf(1.3, number), len(words)) - 1 for _ in range(110))
    text = pc.binary_join_element_wise(*(words.take(pa.array(place)) for place in places), " ")
    return pa.table({"text": text})


def _measurements(random: np.random.Generator, number: int) -> pa.Table:
    names = np.char.add("user ", random.integers(0, ROWS, number).astype(str))
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(number * 8, dtype=np.float32)), 8)
    return pa.table({"score": random.random(number), "name": names, "vector": vectors})


SHAPES = {"documents": _documents, "measurements": _measurements}


def compaction_runs(shape: str, rounds: int) -> dict[str, list[Run]]:
    """Compact copies of a dataset in each way, in turns; return the runs."""
    runs: dict[str, list[Run]] = {how: [] for how in NAMES}
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        written = Path(name, "written")
        written.mkdir()
        write_dataset(written, shape)
        for _ in range(rounds):
            for how, argument in NAMES.items():
                os.sync()
                copy = Path(name, "copy")
                shutil.copytree(written, copy, copy_function=os.link)  # data files are never written again
                done = run_measured([sys.executable, "-c", WORK, argument], directory=copy)
                runs[how].append(Run(float(done.output), done.seconds))
                shutil.rmtree(copy)
    return runs


def section(rounds: int = ROUNDS, shapes: Sequence[str] = tuple(SHAPES)) -> Section:
    """Measure and return the section of the page."""
    lines, goals = [], []
    for shape in shapes:
        runs = compaction_runs(shape, rounds)
        ratios = {how: [run.job / one.job for run, one in zip(runs[how], runs[ONE], strict=True)] for how in NAMES}
        lines += [[shape, how, spread(ratios[how]), *map(spread, zip(*runs[how], strict=True))] for how in NAMES]
        one, spark = (median(run.job for run in runs[how]) for how in (ONE, SPARK))
        why = f"{spark:.1f} s against {one:.1f} s in one process"
        if shape == "documents":  # `maintain` does the jobs of measurements without Spark
            what = f"compaction of {ROWS:,} {shape} on local[2], against one process"
            goals.append(Goal(what, median(ratios[SPARK]), MOST, why))
    about = (__doc__ or "").partition("\n\n")[2].strip()
    about = about.replace("ROWS", f"{ROWS:,}").replace("FRAGMENTS", str(FRAGMENTS))
    head = ["rows", "compaction", "ratio", "job, s", "command, s"]
    return Section("Compaction on Spark", "python -m benchmarks.compaction", f"{about}\n\n{table(head, lines)}", goals)


if __name__ == "__main__":
    named = tuple(argument for argument in sys.argv[1:] if argument in SHAPES)
    numbers = [int(argument) for argument in sys.argv[1:] if argument not in SHAPES]
    print(section(numbers[0] if numbers else ROUNDS, named or tuple(SHAPES)).text)
