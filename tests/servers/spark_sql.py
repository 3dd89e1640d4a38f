"""Spark SQL on a Hive Metastore: a client that knows nothing of this project. Runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.process import HUNG_SECONDS
from tests.servers.require import tool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_sql"]


def spark_sql(uri: str, statements: Sequence[str], directory: Path) -> list[list[list[str]]]:
    """Return the rows of each statement, every value as text.

    Args:
        uri: the metastore's.
        statements: SQL, run one after the other; what begins with ``HIVE `` goes to the Hive driver inside Spark,
            since Spark's own parser does not take every table property.
        directory: where Spark may put files of its own.
    """
    tool("java")
    done = subprocess.run(
        [sys.executable, "-m", "tests.servers.spark_sql", uri, str(directory)],
        input=json.dumps(list(statements)),
        capture_output=True,
        text=True,
        timeout=HUNG_SECONDS,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )
    if done.returncode != 0:
        raise RuntimeError(f"Spark SQL failed:\n{done.stderr[-3000:]}")
    rows: list[list[list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def _rows(spark: SparkSession, statement: str) -> list[list[str]]:
    if statement.startswith("HIVE "):
        catalog = spark._jsparkSession.sharedState().externalCatalog().unwrapped()
        machine: Any = spark._jvm
        machine.java.lang.System.setProperty("spark.testing", "true")  # which the Hive driver is kept for
        catalog.client().runSqlHive(statement.removeprefix("HIVE "))
        return []
    return [[str(value) for value in row] for row in spark.sql(statement).collect()]


def _main(uri: str, directory: str) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.hadoop.hive.metastore.uris", uri)
        .config("spark.hadoop.hive.exec.scratchdir", f"{directory}/scratch")
        .config("spark.hadoop.hive.exec.local.scratchdir", f"{directory}/scratch")
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={directory}")
        .enableHiveSupport()
        .getOrCreate()
    )
    try:
        answers = [_rows(spark, statement) for statement in json.load(sys.stdin)]
    finally:
        spark.stop()
    print(json.dumps(answers))


if __name__ == "__main__":
    _main(*sys.argv[1:])
