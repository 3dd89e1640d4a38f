"""What an audit costs beside a start of Spark, or a plan, in CPU seconds of all processes, measured in the same run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from tests.soak import in_full

PLAIN = """\
from pyspark.sql import SparkSession

def same(batches):
    yield from batches

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
frame = spark.createDataFrame([(number, str(number)) for number in range(5)], "a long, b string")
assert frame.mapInArrow(same, frame.schema).count() == 5
gateway = spark.sparkContext._gateway
spark.stop()
gateway.proc.stdin.close()
gateway.proc.wait()  # or the usage of the JVM is not counted
"""
LANCENS = "from reconciler.cli import main; main()"


def cpu_of(folder: Path, *arguments: str) -> float:
    """Return the CPU seconds of a Python and of all that it starts."""
    plain = {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}  # as a user starts it
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**plain, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture
def five_tables(tmp_path: Path) -> Path:
    """A folder with a manifest of a directory of five tables."""
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("a",), {})
    for number in range(5):
        place = backend.default_location(("a", f"t{number}"))
        lance.write_dataset(pa.table({"id": range(10)}), place)
        backend.insert_table(("a", f"t{number}"), place, {})
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}}\n"
    )
    return tmp_path


@pytest.mark.soak
@in_full
def test_an_audit_of_five_tables_costs_at_most_twice_a_start_of_spark(java: None, five_tables: Path) -> None:
    start = cpu_of(five_tables, "-c", PLAIN)
    audit = cpu_of(five_tables, "-c", LANCENS, "audit", "--master", "local[2]", "--out", "report", "--fail-on", "never")
    print(f"start {start:.1f} s, audit {audit:.1f} s: {audit / start:.2f}")
    assert audit <= 2 * start


def test_an_audit_of_five_tables_without_spark_costs_at_most_three_plans(five_tables: Path) -> None:
    plan = cpu_of(five_tables, "-c", LANCENS, "plan")
    audit = cpu_of(five_tables, "-c", LANCENS, "audit", "--engine", "local", "--out", "report", "--fail-on", "never")
    print(f"plan {plan:.1f} s, audit {audit:.1f} s: {audit / plan:.2f}")
    assert audit <= 3 * plan
