"""lance-spark with PySpark 3.5, which is older than the tests' own, in an environment of its own."""

# ruff: noqa: S608 - the names in these statements are the tests' own

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from reconciler.model.names import Identifier
from tests.clients.environments import environment
from tests.clients.walk import Refused
from tests.servers.jars import jars
from tests.servers.require import tool

__all__ = ["SparkSession", "SparkSql", "spark_session"]

_HERE = Path(__file__).parent
_STOP_SECONDS = 30


class SparkSession:
    """A Spark that runs."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self.answer()

    def answer(self) -> list[list[object]]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Spark ended:\n{self._log.read_text('utf-8', 'replace')[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        rows: list[list[object]] = answer["rows"]
        return rows

    def ask(self, **asked: object) -> list[list[object]]:
        """Return the rows that Spark answers; :class:`Refused` when it answers an error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self.answer()


@contextmanager
def spark_session(directory: Path) -> Iterator[SparkSession]:
    """Run a Spark with lance-spark until the block ends; ``directory`` is its own."""
    tool("java")
    python = environment("spark35") / "bin/python"
    classes = f"{jars(_HERE / 'lance-spark-pom.xml')}/*"
    log = directory / "spark.log"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [python, _HERE / "spark_driver.py", classes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
            cwd=directory,
            env={**kept, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(directory), "NO_PROXY": "127.0.0.1"},
        )
    try:
        yield SparkSession(process, log)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class SparkSql:
    """SQL on a catalog of Spark's that is ``lancens serve`` at ``uri``."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._catalog = "c" + hashlib.sha256(uri.encode()).hexdigest()[:12]
        spark.ask(catalog=[self._catalog, uri])

    def _name(self, identifier: Identifier) -> str:
        return ".".join(f"`{name}`" for name in (self._catalog, *identifier))

    def _sql(self, statement: str) -> list[list[object]]:
        return self._spark.ask(sql=statement)

    def create_namespace(self, namespace: Identifier) -> None:
        self._sql(f"CREATE NAMESPACE {self._name(namespace)}")

    def create(self, table: Identifier, ids: Sequence[int]) -> None:
        self._sql(f"CREATE TABLE {self._name(table)} (id BIGINT, vector ARRAY<FLOAT>)")
        self.append(table, ids)

    def ids(self, table: Identifier) -> list[int]:
        return [int(str(row[0])) for row in self._sql(f"SELECT id FROM {self._name(table)} ORDER BY id")]

    def _rows(self, ids: Sequence[int]) -> str:
        return ", ".join(f"({one}L, array(float({one}), float(0)))" for one in ids)

    def comments(self, table: Identifier) -> dict[str, str]:
        """Return the comment of each column that has one."""
        described = self._sql(f"DESCRIBE TABLE {self._name(table)}")
        return {str(name): str(comment) for name, _, comment in described if comment}

    def append(self, table: Identifier, ids: Sequence[int]) -> None:
        self._sql(f"INSERT INTO {self._name(table)} VALUES {self._rows(ids)}")

    def overwrite(self, table: Identifier, ids: Sequence[int]) -> None:
        self._sql(f"INSERT OVERWRITE {self._name(table)} VALUES {self._rows(ids)}")

    def search(self, table: Identifier, wanted: int) -> int:
        rows = self._sql(f"SELECT id FROM {self._name(table)} WHERE vector[0] = {wanted}")
        return int(str(rows[0][0]))

    def tables(self, namespace: Identifier) -> list[str]:
        return [str(row[1]) for row in self._sql(f"SHOW TABLES IN {self._name(namespace)}")]

    def create_from_query(self, table: Identifier, source: Identifier, wanted: int) -> None:
        query = f"SELECT * FROM {self._name(source)} WHERE id = {wanted}"
        self._sql(f"CREATE TABLE {self._name(table)} AS {query}")

    def rename(self, table: Identifier, name: str) -> None:
        self._sql(f"ALTER TABLE {self._name(table)} RENAME TO {self._name((*table[:-1], name))}")

    def drop(self, table: Identifier) -> None:
        self._sql(f"DROP TABLE {self._name(table)}")

    def instead_of_drop(self, table: Identifier) -> None:
        raise AssertionError("DROP TABLE is to work")
