"""Iceberg's own Spark runtime on an Iceberg REST catalog: a client, and a cleaner, that knows nothing of Lance.

The newest Spark that Iceberg has a runtime for is older than the PySpark of the tests, so it comes from Maven.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.jars import jars
from tests.servers.process import HUNG_SECONDS
from tests.servers.require import tool
from tests.servers.spark_classes import SHORT_LIFE

__all__ = ["iceberg_spark"]

_HERE = Path(__file__).parent
_OPENED = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "sun.nio.ch", "sun.util.calendar")
"""The packages of the JDK that Spark reaches into."""


def iceberg_spark(url: str, warehouse: str, statements: Sequence[str], *, bearer: str = "none") -> list[str]:
    """Return what Spark answers to each statement: ``OK`` and the number of rows, or ``REFUSED`` and why.

    Args:
        url: the Iceberg REST service's.
        warehouse: its tables are in the catalog ``cat``.
        statements: SQL, one line each.
        bearer: the token that the service wants to see.
    """
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    classes = ["-cp", f"{jars(_HERE / 'iceberg-spark-pom.xml')}/*", str(_HERE / "IcebergSpark.java")]
    done = subprocess.run(
        [tool("java"), "-Xmx512m", *SHORT_LIFE, *opened, *classes, url, warehouse, bearer],
        input="".join(f"{statement}\n" for statement in statements),
        capture_output=True,
        text=True,
        timeout=HUNG_SECONDS,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith(("OK ", "REFUSED "))]
    if len(answers) != len(statements):
        raise RuntimeError(f"Spark failed:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return answers
