"""Spark's classes as the JVM keeps them (class data sharing): with them, Spark starts in half of the CPU seconds.

``python -m tests.servers.spark_classes`` has Spark do what the tests have it do, and leaves the classes that this took
in the environment of this Python, where every Spark of the tests finds them. All goes without them, but slower.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from contextlib import chdir, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ARCHIVE", "JAVA_OPTIONS", "SHORT_LIFE", "driver_environment"]

_EXAMPLE = Path(__file__).parents[2] / "examples/pipeline"
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# What does not fit this JVM is not used, and a warning of it would be in what a test reads.
_SHARED = (f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable") if ARCHIVE.is_file() else ()
JAVA_OPTIONS = " ".join((*SHORT_LIFE, *_SHARED))
"""The options of any JVM of Spark's."""


def driver_environment() -> dict[str, str]:
    """Return what ``spark-submit`` takes the options of a driver's JVM from, started by PySpark or by hand."""
    return {"SPARK_SUBMIT_OPTS": JAVA_OPTIONS}


def _work() -> None:
    """Have Spark do what the example of the pipeline does, in the current folder."""
    import lance
    import pyarrow as pa

    from reconciler.cli import main

    shutil.copytree(_EXAMPLE, Path.cwd(), dirs_exist_ok=True)
    lance.write_dataset(pa.table({"page": ["home", "cart"]}), "lake/clicks.lance")
    lance.write_dataset(pa.table({"page": ["home"]}), "lake/scratch/copy.lance")
    audit = "audit --out report --history audits.lance --fail-on never"
    for command in ("inventory -o inventory.parquet", audit, "plan --engine spark"):
        with suppress(SystemExit):
            main(command.split())
    for script in ("tables.py", "queries.py"):
        sys.argv = [script]
        runpy.run_path(script)


def _end(spark: SparkSession) -> None:
    """End the JVM in the way in which it writes down its classes, which takes longer than lancens would wait."""
    from py4j.protocol import Py4JError

    gateway: Any = spark.sparkContext._gateway
    machine: Any = spark._jvm
    with suppress(Py4JError, OSError):  # nobody is there to answer
        machine.java.lang.System.exit(0)
    gateway.proc.wait()


def _main() -> None:
    from reconciler.model.errors import LancensError
    from reconciler.pipeline.session import SparkOptions, spark_session

    with tempfile.TemporaryDirectory(prefix="lancens-classes-") as scratch, chdir(scratch):
        made = Path(scratch) / "made.jsa"
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join((*SHORT_LIFE, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"))
        settings = {"spark.sql.shuffle.partitions": "2"}
        with suppress(LancensError), spark_session(SparkOptions("local[2]", settings)) as spark:
            _work()
            _end(spark)
        shutil.move(made, ARCHIVE)


if __name__ == "__main__":
    _main()
