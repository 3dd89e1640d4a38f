"""One core against two on the storage probe: `python -m benchmarks.probe [DATASETS]`.

Local datasets of three shapes are opened on Spark, by a process that may use one core and by one that may use two,
in turns. The efficiency is how much faster two cores are, by two.

Two cores of a machine that does other work as well are not two. So plain computing, which needs nothing in common, is
parted among the same cores in every round, and the efficiency is also given of what that gets out of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

DATASETS = 2_000
ROUNDS = 9
WARM_UPS = 2
COMPUTING = 40_000_000


def make_datasets(folder: Path, number: int) -> None:
    """Fill ``folder`` with copies of three datasets: plain, many versions, deletions."""
    import lance
    import pyarrow as pa

    rows = pa.table({"id": range(1_000), "score": [0.5] * 1_000})
    prototypes = [folder / name for name in ("plain", "grown", "thinned")]
    for place in prototypes:
        lance.write_dataset(rows, str(place))
    for _ in range(20):
        lance.write_dataset(rows.slice(0, 10), str(prototypes[1]), mode="append")
    lance.dataset(str(prototypes[2])).delete("id % 3 = 0")
    for position in range(number):
        prototype = prototypes[position % len(prototypes)]
        shutil.copytree(prototype, folder / "data" / f"{position}.lance", copy_function=os.link)


def probe_on_request(cores: int, folder: Path, number: int) -> None:
    """For each line on stdin, probe every dataset and print the seconds."""
    import pyarrow as pa

    from reconciler.auditor.storage_probe import probe
    from reconciler.pipeline.schemas import LONG, spark_schema
    from reconciler.pipeline.session import SparkOptions, spark_session
    from reconciler.pipeline.tasks import probe_tasks

    counts = pa.schema([("rows", LONG)])

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [probe(place, {}) for place in batch.column("location").to_pylist()]
            yield pa.RecordBatch.from_pylist([{"rows": one.rows} for one in found], schema=counts)

    places = [("lake", str(folder / "data" / f"{position}.lance")) for position in range(number)]
    with spark_session(SparkOptions(f"local[{cores}]", {"spark.driver.memory": "1g"})) as spark:
        frame = spark.createDataFrame(places, "catalog string, location string").repartition(probe_tasks(number))
        frame.persist().count()
        looked = frame.mapInArrow(rows, spark_schema(counts))
        for _ in sys.stdin:
            started = perf_counter()
            looked.write.format("noop").mode("overwrite").save()
            print(json.dumps(perf_counter() - started), flush=True)


def start_on_cores(cores: int, *command: str) -> subprocess.Popen[str]:
    """Start a process that, with its children, may use the first ``cores`` cores."""
    process = subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[:cores])
    return process


def probe_seconds(server: subprocess.Popen[str]) -> float:
    """Let a server probe all datasets; return the seconds."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\n")
    server.stdin.flush()
    return float(json.loads(server.stdout.readline()))


def counting_seconds(cores: int) -> float:
    """Count a fixed number on ``cores`` cores in parallel; return the seconds."""
    started = perf_counter()
    counting = [start_on_cores(cores, "-c", f"for _ in range({COMPUTING // cores}): pass") for _ in range(cores)]
    for process in counting:
        process.communicate()
    return perf_counter() - started


def measure(servers: dict[int, subprocess.Popen[str]], number: int) -> None:
    for _ in range(WARM_UPS):
        for server in servers.values():
            probe_seconds(server)
    print("| round | 1 core s | 2 cores s | datasets/s on 2 | times faster | plain computing |")
    print("|---:|---:|---:|---:|---:|---:|")
    probed, computed = [], []
    for turn in range(1, ROUNDS + 1):
        one, two = probe_seconds(servers[1]), probe_seconds(servers[2])
        probed.append(one / two)
        computed.append(counting_seconds(1) / counting_seconds(2))
        cells = f"{one:.2f} | {two:.2f} | {number / two:,.0f} | {probed[-1]:.2f} | {computed[-1]:.2f}"
        print(f"| {turn} | {cells} |", flush=True)
    times, possible = median(probed), median(computed)
    print(
        f"\nefficiency on two cores: {times / 2:.2f}; of what plain computing gets out of them: {times / possible:.2f}"
    )


def main(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        make_datasets(Path(name), number)
        serving = ("-m", "benchmarks.probe", "--serve")
        servers = {cores: start_on_cores(cores, *serving, str(cores), name, str(number)) for cores in (1, 2)}
        try:
            measure(servers, number)
        finally:
            for server in servers.values():
                server.communicate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        probe_on_request(int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else DATASETS)
