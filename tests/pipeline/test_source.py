"""Catalogs read on Spark: whole, past what fails on the way, and without showing what they are reached with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.model.errors import LancensError
from reconciler.model.live import Snapshot
from reconciler.model.names import EVERYTHING
from reconciler.operations.connections import CatalogSpec
from reconciler.pipeline.data_source import register
from reconciler.pipeline.failures import spark_errors
from reconciler.pipeline.frames import Frame, frame_of_units
from reconciler.pipeline.reading import read_unit
from reconciler.pipeline.rows import COVERAGE, NAMESPACE, NOTE, ROWS, TABLE, live_table, namespace_of
from reconciler.pipeline.schemas import record_batches
from reconciler.pipeline.units import Unit, list_units
from tests.pipeline.troubled import SECRET, Troubled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


def live_rows(engine: SparkSession | None, specs: Collection[CatalogSpec], partitions: int = 256) -> Frame:
    """Return the rows of the catalogs on an engine."""

    def rows(unit: Unit, last_attempt: bool) -> Iterator[pa.RecordBatch]:
        return record_batches(read_unit(unit, last_attempt=last_attempt), ROWS)

    units = list_units(specs, partitions=partitions, in_process=engine is None)
    return frame_of_units(engine, units, rows, ROWS)


def read(frame: Frame) -> tuple[Snapshot, dict[tuple[str, ...], str | None]]:
    """Return what the rows say is there, each thing once, and the error of each namespace."""
    rows = frame.rows()
    namespaces = [namespace_of(row) for row in rows if row["kind"] == NAMESPACE]
    tables = [live_table((*row["namespace"], row["name"]), row) for row in rows if row["kind"] == TABLE]
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


def test_reading_in_units_is_reading_at_once(engine: SparkSession | None, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    for partitions in (2, 100):
        found, errors = read(live_rows(engine, catalog.specs(), partitions=partitions))
        assert found == catalog.whole()
        assert errors == {(): None, ("a",): None, ("b",): None, ("b", "deep"): None, ("empty",): None}


def test_nothing_to_read_is_nothing(engine: SparkSession | None) -> None:
    assert live_rows(engine, []).rows() == []


def test_a_flaky_namespace_is_read_again(engine: SparkSession | None, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=2).make()
    found, errors = read(live_rows(engine, catalog.specs()))
    assert (found, set(errors.values())) == (catalog.whole(), {None})
    assert catalog.reads() == {"root": 1, "a": 1, "b": 3, "b$deep": 1, "empty": 1}


def test_a_namespace_that_always_fails_is_a_row_with_its_error(
    engine: SparkSession | None, spark_log: Path, tmp_path: Path
) -> None:
    catalog = Troubled(tmp_path, times=100).make()
    frame = live_rows(engine, catalog.specs())
    found, errors = read(frame)
    assert {name: error for name, error in errors.items() if error} == {
        ("b",): "lake (troubled): no answer to (redacted)"
    }
    assert set(found.tables) == set(catalog.whole().tables) - {("b", "one")}
    assert catalog.reads()["b"] == 4

    if engine is not None:  # what it is reached with is neither in the plan nor in what Spark logged of the failures
        log = spark_log.read_text("utf-8")
        assert "no answer to (redacted)" in log
        assert SECRET not in log + explained(frame.content)


def test_a_killed_worker_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=1, kills=True).make()
    found, errors = read(live_rows(spark, catalog.specs()))
    assert (found, set(errors.values())) == (catalog.whole(), {None})
    assert catalog.reads()["b"] == 2


def test_memory_is_refused_in_one_line(spark: SparkSession) -> None:
    spec = CatalogSpec("lake", "memory", {"name": "shared"}, (), EVERYTHING)
    with pytest.raises(LancensError, match=r"^lake \(memory\): .*memory of one"):
        live_rows(spark, [spec])
    assert live_rows(None, [spec]).rows()


# ---- the format ------------------------------------------------------------------------------------------------------


@pytest.fixture
def lancens(spark: SparkSession) -> DataFrameReader:
    register(spark)
    return spark.read.format("lancens")


def test_each_view_has_its_rows(lancens: DataFrameReader, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    tables = lancens.option("manifest", str(catalog.path)).load()
    columns = "catalog namespace name location properties clone_of clone_version error"
    assert tables.columns == columns.split()
    assert SECRET not in explained(tables)
    shown = {(row.namespace, row.name) for row in tables.collect()}
    assert shown == {("", "top"), ("a", "one"), ("a", "two"), ("b", "one"), ("b$deep", "three")}
    namespaces = lancens.option("view", "namespaces").load().collect()
    assert {(row.namespace, row.name) for row in namespaces} == {("", "a"), ("", "b"), ("b", "deep"), ("", "empty")}
    covered = lancens.option("view", "coverage").load().collect()
    assert {row.namespace: (row.namespaces, row.tables, row.error) for row in covered} == {
        "": (3, 1, None), "a": (0, 2, None), "b": (1, 1, None), "b$deep": (0, 1, None), "empty": (0, 0, None)
    }  # fmt: skip


def test_pyspark_still_keeps_the_filters_of_one_query_for_the_next(spark: SparkSession) -> None:
    """Once this fails, PySpark is mended, and `_Reader` of data_source.py can take filters where it is."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

    class Reader(DataSourceReader):
        accepted: tuple[int, ...] = (1, 2)

        def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
            for each in filters:
                if isinstance(each, EqualTo):
                    self.accepted = (each.value,)
                else:
                    yield each

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield from ((number,) for number in self.accepted)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "lancens-pushing"

        def schema(self) -> str:
            return "number int"

        def reader(self, schema: object) -> Reader:
            return Reader()

    setting = "spark.sql.python.filterPushdown.enabled"
    assert spark.conf.get(setting) == "false"
    spark.dataSource.register(Source)
    spark.conf.set(setting, "true")
    try:
        numbers = spark.read.format("lancens-pushing").load()
        assert [row.number for row in numbers.where("number = 1").collect()] == [1]
        assert [row.number for row in numbers.collect()] == [1]  # 2 is lost
    finally:
        spark.conf.unset(setting)


ALL = {("", "top"), ("a", "one"), ("a", "two"), ("b", "one"), ("b$deep", "three")}
IN_A = {("a", "one"), ("a", "two")}
IN_B = {("b", "one")}


def names(frame: DataFrame) -> set[tuple[str, str]]:
    """Return the namespace and name of each row, of which no two are the same."""
    rows = [(row.namespace, row.name) for row in frame.collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.fixture
def tables(lancens: DataFrameReader, tmp_path: Path) -> DataFrame:
    return lancens.option("manifest", str(Troubled(tmp_path).make().path)).load()


def test_a_filter_leaves_the_table_whole(tables: DataFrame) -> None:
    assert names(tables.where("catalog = 'lake' and namespace = 'a'")) == IN_A
    assert names(tables) == ALL
    assert names(tables.where("namespace in ('b', 'nowhere')")) == IN_B
    assert names(tables.where("catalog = 'other'")) == set()
    assert names(tables.where("namespace is not null")) == ALL


def test_filtered_frames_go_together(tables: DataFrame) -> None:
    in_a, in_b = tables.where("namespace = 'a'"), tables.where("namespace = 'b'")
    assert names(in_a.union(in_b)) == IN_A | IN_B
    assert names(in_b.union(in_a)) == IN_A | IN_B
    assert names(tables) == ALL


def test_a_view_can_be_asked_in_sql(spark: SparkSession, tables: DataFrame) -> None:
    tables.createOrReplaceTempView("lance_tables")
    assert names(spark.sql("select * from lance_tables where namespace = 'a'")) == IN_A
    assert names(spark.sql("select * from lance_tables where namespace = 'b'")) == IN_B
    assert names(spark.sql("select * from lance_tables")) == ALL
    shared = spark.sql(
        "select l.namespace, r.namespace as other from lance_tables l join lance_tables r on l.name = r.name "
        "where l.namespace = 'a' and r.namespace <> 'a'"
    )
    assert [(row.namespace, row.other) for row in shared.collect()] == [("a", "b")]


def test_a_table_can_be_joined_with_itself(tables: DataFrame) -> None:
    left = tables.where("namespace = 'a'").alias("left")
    both = left.join(tables.where("namespace = 'b'").alias("right"), "name").select("left.namespace", "name")
    assert names(both) == {("a", "one")}
    assert names(tables.join(tables.where("namespace = 'a'"), ["namespace", "name"], "left_anti")) == ALL - IN_A


def test_a_cached_frame_is_what_it_was(tables: DataFrame) -> None:
    kept = tables.where("namespace = 'a'").cache()
    try:
        assert names(kept) == IN_A
        assert names(tables.where("namespace = 'b'")) == IN_B
        assert names(tables) == ALL
        assert names(kept) == IN_A
    finally:
        kept.unpersist()


def test_options_decide_what_is_read(lancens: DataFrameReader, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    other = tmp_path / "other"
    DirBackend(root=str(other)).insert_namespace(("b",), {})
    with catalog.path.open("a") as manifest:
        manifest.write("  other: {impl: dir, config: {root: ./other}}\n")
    lake = lancens.option("manifest", str(catalog.path)).option("catalog", "lake")
    in_b, in_a = lake.option("namespace", "b").load(), lake.option("namespace", "a").load()
    assert names(in_b) == IN_B
    assert catalog.reads() == {"b": 1}
    assert names(in_a.union(in_b)) == IN_A | IN_B
    assert names(in_b.where("name = 'two'")) == set()
    assert set(catalog.reads()) == {"a", "b"}
    below = lake.option("namespace", "b/**").option("catalog", "*").option("view", "coverage").load().collect()
    assert {(row.catalog, row.namespace) for row in below} == {("lake", "b"), ("lake", "b$deep"), ("other", "b")}
    with pytest.raises(LancensError, match=r"matches none in lake, other$"), spark_errors():
        lake.option("namespace", "nowhere").load().collect()


def test_a_loaded_table_shows_what_is_there_when_it_is_read(lancens: DataFrameReader, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    tables = lancens.option("manifest", str(catalog.path)).load()
    assert names(tables) == ALL
    lake = DirBackend(root=str(tmp_path / "lake"))
    lake.insert_namespace(("new",), {})
    for later in (("a", "later"), ("new", "later")):
        lake.insert_table(later, lake.default_location(later), {})
    assert names(tables) == ALL | {("a", "later"), ("new", "later")}


def test_a_flaky_namespace_is_read_again_there_too(lancens: DataFrameReader, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=1).make()
    rows = lancens.option("manifest", str(catalog.path)).load().collect()
    assert len(rows) == len(catalog.whole().tables)
    assert {row.error for row in rows} == {None}
    assert catalog.reads()["b"] == 2


def test_a_wrong_option_is_one_line(lancens: DataFrameReader) -> None:
    with pytest.raises(LancensError) as refused, spark_errors():
        lancens.option("view", "tabels").load()
    assert str(refused.value).endswith("did you mean `tables`?")
    with pytest.raises(LancensError) as refused, spark_errors():
        lancens.option("view", "tables").schema("name int").load().collect()
    assert "is string, not int" in str(refused.value)
