"""Catalogs read on Spark: whole, past what fails on the way, and without showing what they are reached with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.errors import LancensError
from reconciler.names import EVERYTHING
from reconciler.pipeline.catalogs import CatalogSpec
from reconciler.pipeline.failures import spark_errors
from reconciler.pipeline.rows import COVERAGE, NAMESPACE, NOTE, TABLE, namespace_of, table_of
from reconciler.pipeline.source import live_rows, register
from reconciler.state import Snapshot
from tests.pipeline.troubled import SECRET, Troubled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


def read(frame: DataFrame) -> tuple[Snapshot, dict[tuple[str, ...], str | None]]:
    """Return what the rows say is there, each thing once, and the error of each namespace."""
    rows = [row.asDict() for row in frame.collect()]
    namespaces = [namespace_of(row) for row in rows if row["kind"] == NAMESPACE]
    tables = [table_of(row) for row in rows if row["kind"] == TABLE]
    notes = {row["message"] for row in rows if row["kind"] == NOTE}
    found = Snapshot({live.id: live for live in namespaces}, {live.id: live for live in tables}, tuple(sorted(notes)))
    assert (len(found.namespaces), len(found.tables)) == (len(namespaces), len(tables))
    errors = {tuple(row["namespace"]): row["message"] for row in rows if row["kind"] == COVERAGE}
    return found, errors


def explained(frame: DataFrame) -> str:
    """Return all that Spark says of how it reads ``frame``."""
    java: Any = frame._jdf
    return str(java.queryExecution().toString())


# ---- rows for the pipeline -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [2, 100])
def test_reading_in_units_is_reading_at_once(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    catalog = Troubled(tmp_path).make()
    found, errors = read(live_rows(spark, catalog.specs(), partitions=partitions))
    assert found == catalog.whole()
    assert errors == {(): None, ("a",): None, ("b",): None, ("b", "deep"): None, ("empty",): None}


def test_nothing_to_read_is_nothing(spark: SparkSession) -> None:
    assert live_rows(spark, []).collect() == []


def test_a_flaky_namespace_is_read_again_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=2).make()
    found, errors = read(live_rows(spark, catalog.specs()))
    assert (found, set(errors.values())) == (catalog.whole(), {None})
    assert catalog.reads() == {"root": 1, "a": 1, "b": 3, "b$deep": 1, "empty": 1}


def test_a_namespace_that_always_fails_is_a_row_with_its_error(
    spark: SparkSession, spark_log: Path, tmp_path: Path
) -> None:
    catalog = Troubled(tmp_path, times=100).make()
    frame = live_rows(spark, catalog.specs())
    found, errors = read(frame)
    assert {name: error for name, error in errors.items() if error} == {
        ("b",): "lake (troubled): no answer to (redacted)"
    }
    assert set(found.tables) == set(catalog.whole().tables) - {("b", "one")}
    assert catalog.reads()["b"] == 4

    # What it is reached with is neither in the plan nor in what Spark logged of the failures.
    log = spark_log.read_text("utf-8")
    assert "no answer to (redacted)" in log
    assert SECRET not in log + explained(frame)


def test_a_killed_worker_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=1, kills=True).make()
    found, errors = read(live_rows(spark, catalog.specs()))
    assert (found, set(errors.values())) == (catalog.whole(), {None})
    assert catalog.reads()["b"] == 2


def test_memory_is_refused_in_one_line(spark: SparkSession) -> None:
    spec = CatalogSpec("lake", "memory", {"name": "shared"}, (), EVERYTHING)
    with pytest.raises(LancensError, match=r"^lake \(memory\): the catalog lives in the memory of one process"):
        live_rows(spark, [spec])


# ---- the format ------------------------------------------------------------------------------------------------------


@pytest.fixture
def lancens(spark: SparkSession) -> DataFrameReader:
    register(spark)
    return spark.read.format("lancens")


def test_each_view_has_its_rows(lancens: DataFrameReader, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    tables = lancens.option("manifest", str(catalog.path)).load()
    assert tables.columns == ["catalog", "namespace", "name", "location", "properties", "error"]
    assert SECRET not in explained(tables)
    shown = {(row.namespace, row.name) for row in tables.collect()}
    assert shown == {("", "top"), ("a", "one"), ("a", "two"), ("b", "one"), ("b$deep", "three")}
    namespaces = lancens.option("view", "namespaces").load().collect()
    assert {(row.namespace, row.name) for row in namespaces} == {("", "a"), ("", "b"), ("b", "deep"), ("", "empty")}
    covered = lancens.option("view", "coverage").load().collect()
    assert {row.namespace: (row.namespaces, row.tables, row.error) for row in covered} == {
        "": (3, 1, None), "a": (0, 2, None), "b": (1, 1, None), "b$deep": (0, 1, None), "empty": (0, 0, None)
    }  # fmt: skip


def test_a_filter_decides_what_is_read(lancens: DataFrameReader, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    frame = lancens.option("manifest", str(catalog.path)).load()
    found = frame.where("catalog = 'lake' and namespace in ('b', 'nowhere') and name <> 'two'").collect()
    assert [(row.namespace, row.name) for row in found] == [("b", "one")]
    assert catalog.reads() == {"b": 1}
    assert frame.where("catalog = 'other'").collect() == []
    assert frame.where("namespace = 'b' and namespace = 'a'").collect() == []
    assert catalog.reads() == {"b": 1}


def test_a_flaky_namespace_is_read_again_there_too(lancens: DataFrameReader, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=1).make()
    rows = lancens.option("manifest", str(catalog.path)).load().collect()
    assert len(rows) == len(catalog.whole().tables)
    assert {row.error for row in rows} == {None}
    assert catalog.reads()["b"] == 2


def test_a_wrong_option_is_one_line(lancens: DataFrameReader) -> None:
    with pytest.raises(LancensError) as refused, spark_errors():
        lancens.option("view", "tabels").load()
    assert str(refused.value) == "Spark failed: no view `tabels` in the format lancens; did you mean `tables`?"
