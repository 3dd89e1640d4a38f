"""Runs in the environment of PySpark 3.5: SQL comes in as lines of JSON, what it answers goes out as such.

``python spark_driver.py JARS PORT_FILE``; a line is ``{"catalog": [NAME, URI]}`` or ``{"sql": STATEMENT}``, and the
answer ``{"rows": [[…]]}`` or ``{"error": TEXT}``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

_CATALOG = "org.lance.spark.LanceNamespaceSparkCatalog"


def _session(jars: str) -> SparkSession:
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short life is not worth more
        "spark.driver.extraClassPath": jars,  # before Spark's own, whose Arrow is older
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": "org.lance.spark.extensions.LanceSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _answer(spark: SparkSession, asked: dict[str, Any]) -> dict[str, object]:
    if "catalog" in asked:
        name, uri = asked["catalog"]
        spark.conf.set(f"spark.sql.catalog.{name}", _CATALOG)
        spark.conf.set(f"spark.sql.catalog.{name}.impl", "rest")
        spark.conf.set(f"spark.sql.catalog.{name}.uri", uri)
        return {"rows": []}
    try:
        return {"rows": [list(row) for row in spark.sql(asked["sql"]).collect()]}
    except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
        return {"error": f"{type(error).__name__}: {error}"}


def _main() -> None:
    spark = _session(sys.argv[1])
    spark.sparkContext.setLogLevel("ERROR")
    print(json.dumps({"rows": []}), flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(spark, json.loads(line))), flush=True)
    spark.stop()


_main()
