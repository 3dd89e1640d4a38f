"""Small work where Spark is installed: `python -m benchmarks small`.

Whole commands with `--engine spark` on `local[2]`, in one process, and with Spark forced whatever the size, which finds
the sizes from which it pays. An audit of 52 tables names no engine: beside it, a session of Spark starts and ends.
Audits are of tables of one file; a compaction is of measurements as in the part on compaction, an index an IVF_PQ on
vectors of 128 floats. Seconds to lines are from the start of the command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import compaction
from benchmarks.page import Goal, ProcessUsage, Section, about, run_measured, table
from benchmarks.scale import fill_catalog

FEW = 52
AUDITED = (5_000, 20_000)
ROWS = (2_000_000, 20_000_000)
VECTORS = (20_000, 120_000)
MAIN = "from reconciler.cli import main; main()"
FORCED = (
    "from reconciler.auditor import entries; from reconciler.pipeline import upkeep_tasks as tasks; "
    f"entries._FEW_UNITS = entries.FEW_TABLES = tasks._FEW_BYTES = 0; {MAIN}"
)
SPARK = ("--engine", "spark", "--master", "local[2]")
WAYS: Mapping[str, tuple[str, Sequence[str]]] = {
    "one process": (MAIN, ()),
    "Spark, forced": (FORCED, SPARK),
    "`--engine spark`": (MAIN, SPARK),
}
SESSION = "from reconciler.pipeline.session import SparkOptions, spark_session\nwith spark_session(): pass"


def write_lake(folder: Path, tables: int) -> None:
    """Write a directory catalog; the first of its tables has no data."""
    import lance
    import pyarrow as pa

    fill_catalog(folder / "lake", tables, 0, owned=False)
    lance.write_dataset(pa.table({"id": [1]}), str(folder / "one.lance"))
    for at in range(1, tables):
        shutil.copytree(folder / "one.lance", folder / f"lake/data/{at}.lance", copy_function=os.link)
    _write_manifest(folder, {})


def _write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    catalogs = {"lake": {"impl": "dir", "config": {"root": "./lake"}, **content}}
    (folder / "lancens.yaml").write_text(json.dumps({"version": 1, "name": "bench", "catalogs": catalogs}))


def write_fragments(folder: Path, rows: int) -> None:
    """Write a dataset to compact."""
    compaction.write_dataset(folder, "measurements", rows)


def write_vectors(folder: Path, rows: int) -> None:
    """Write a dataset to index."""
    import lance
    import numpy as np
    import pyarrow as pa

    vectors = np.random.default_rng(1).random(rows * 128, dtype=np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors), 128)
    lance.write_dataset(pa.table({"v": column}), str(folder / "lake/big.lance"))
    _write_manifest(folder, {"tables": {"big": {"maintain": {"indices": {"v": {"type": "IVF_PQ"}}}}}})


def measure_ways(write: Callable[[Path, int], None], size: int, *command: str) -> Iterator[tuple[str, ProcessUsage]]:
    """Yield the usage of a command in each way, on a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        written = Path(name, "written")
        written.mkdir()
        write(written, size)
        for way, (code, options) in WAYS.items():
            copy = Path(name, "copy")
            shutil.copytree(written, copy, copy_function=os.link)
            yield way, run_measured([sys.executable, "-c", code, *command, *options], directory=copy)
            shutil.rmtree(copy)


def first_lines(folder: Path) -> tuple[float, float]:
    """Return the seconds to the first line, and to the first finding, of an audit that names no engine."""
    command = [sys.executable, "-c", MAIN, "audit", "--skip-rule", "unmanaged"]
    began = perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines = [(perf_counter() - began, line) for line in process.stdout]
    assert "--engine local" in lines[0][1], lines[0]
    return lines[0][0], next(seconds for seconds, line in lines if "dangling" in line)


def section() -> Section:
    """Measure and return the section of the page."""
    lines, goals = [], []
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        write_lake(Path(name), FEW)
        session = run_measured([sys.executable, "-c", SESSION])
        audit = run_measured([sys.executable, "-c", MAIN, "audit"], directory=Path(name))
        line, finding = first_lines(Path(name))
        lines.append(["a session alone", "", f"{session.cpu:.1f}", f"{session.seconds:.1f}"])
        lines.append([f"audit, {FEW} tables", "no engine named", f"{audit.cpu:.1f}", f"{audit.seconds:.1f}"])
        goals.append(Goal(f"audit of {FEW} tables, against a bare session by CPU", audit.cpu / session.cpu, 2.5))
        goals.append(Goal(f"audit of {FEW} tables: seconds to the line on where it runs", line, 1))
        goals.append(Goal(f"audit of {FEW} tables: seconds to the first finding", finding, 3))
    upkeep = ("maintain", "--auto-approve")
    works: list[tuple[str, Callable[[Path, int], None], Sequence[int], tuple[str, ...]]] = [
        ("audit, {:,} tables", write_lake, AUDITED, ("audit", "--skip-rule", "unmanaged")),
        ("compaction, {:,} rows", write_fragments, ROWS, upkeep),
        ("index, {:,} vectors", write_vectors, VECTORS, upkeep),
    ]
    for what, write, sizes, command in works:
        for size in sizes:
            used = dict(measure_ways(write, size, *command))
            for way, usage in used.items():
                lines.append([what.format(size), way, f"{usage.cpu:.1f}", f"{usage.seconds:.1f}"])
            forced, chosen = used["Spark, forced"], used["`--engine spark`"]
            least = min(forced.seconds, used["one process"].seconds)
            goals.append(
                Goal(f"{what.format(size)}: `--engine spark` against the better way", chosen.seconds / least, 1.25)
            )
    text = f"{about(__doc__)}\n\n{table(['work', 'way', 'CPU s', 's'], lines)}"
    return Section("Small work on Spark", "python -m benchmarks small", text, goals)


if __name__ == "__main__":
    print(section().text)
