"""One core against two on the storage probe: `python -m benchmarks.probe [DATASETS]`.

Local datasets of three shapes are opened on Spark, by a process that may use one core and by one that may use two,
in turns. The efficiency is how much faster two cores are, by two: of each round, and of the fastest round of each,
which other work on the machine disturbed least.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

DATASETS = 2_000
ROUNDS = 9
WARM_UPS = 2


def make_datasets(folder: Path, number: int) -> None:
    """Fill ``folder`` with copies of a plain dataset, one of many versions and fragments, and one with deletions."""
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


def serve(cores: int, folder: Path, number: int) -> None:
    """Look at every dataset whenever a line comes in, and say how many seconds that took."""
    from reconciler.pipeline.packs import look_tasks
    from reconciler.pipeline.session import SparkOptions, spark_session
    from reconciler.pipeline.storage_probe import with_stored

    places = [("lake", str(folder / "data" / f"{position}.lance")) for position in range(number)]
    with spark_session(SparkOptions(f"local[{cores}]", {"spark.driver.memory": "1g"})) as spark:
        frame = (
            spark.createDataFrame(places, "catalog string, location string").repartition(look_tasks(number)).persist()
        )
        frame.count()
        looked = with_stored(frame, {"lake": {}})
        for _ in sys.stdin:
            started = perf_counter()
            looked.write.format("noop").mode("overwrite").save()
            print(json.dumps(perf_counter() - started), flush=True)


def started(cores: int, folder: Path, number: int) -> subprocess.Popen[str]:
    """Start :func:`serve` on the first ``cores`` cores of the machine, the JVM and its Python workers with it."""
    command = [sys.executable, "-m", "benchmarks.probe", "--serve", str(cores), str(folder), str(number)]
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(process.pid, allowed)
    return process


def seconds(process: subprocess.Popen[str]) -> float:
    """Let a server look at all datasets once."""
    ask, answer = process.stdin, process.stdout
    assert ask is not None
    assert answer is not None
    ask.write("\n")
    ask.flush()
    return float(json.loads(answer.readline()))


def main(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        make_datasets(Path(name), number)
        servers = {cores: started(cores, Path(name), number) for cores in (1, 2)}
        try:
            for _ in range(WARM_UPS):
                for server in servers.values():
                    seconds(server)
            print("| round | 1 core s | 2 cores s | datasets/s on 2 | efficiency |")
            print("|---:|---:|---:|---:|---:|")
            taken = []
            for turn in range(1, ROUNDS + 1):
                one, two = seconds(servers[1]), seconds(servers[2])
                taken.append((one, two))
                print(f"| {turn} | {one:.2f} | {two:.2f} | {number / two:,.0f} | {one / two / 2:.2f} |", flush=True)
            least = [min(each) for each in zip(*taken, strict=True)]
            middle = median(one / two / 2 for one, two in taken)
            print(f"\nefficiency on two cores: {least[0] / least[1] / 2:.2f} (median of the rounds {middle:.2f})")
        finally:
            for server in servers.values():
                assert server.stdin is not None
                server.stdin.close()
                server.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else DATASETS)
