"""The format ``lancens`` as Spark calls it, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, Filter, In, InputPartition
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from reconciler.auditor.history_source import HistoryDataSource
from reconciler.backends.dir import DirBackend
from reconciler.model.errors import LancensError
from reconciler.model.names import Identifier
from reconciler.pipeline.data_source import LancensDataSource

SECRET = "hunter2-correct-horse"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a manifest of two catalogs, of which the first holds something: to be read only."""
    place = tmp_path_factory.mktemp("made")
    backend = DirBackend(root=str(place / "lake"))
    namespaces: tuple[Identifier, ...] = (("a",), ("b",), ("b", "deep"))
    tables: tuple[Identifier, ...] = (("top",), ("a", "one"), ("b", "two"), ("b", "deep", "three"))
    for name in namespaces:
        backend.insert_namespace(name, {"token": SECRET})
    for table in tables:
        backend.insert_table(table, backend.default_location(table), {"api-key": SECRET, "tier": "gold"})
    path = place / "lancens.yaml"
    path.write_text(
        """\
version: 1
name: store
catalogs:
  lake: {impl: dir, config: {root: "./${var:Place}"}}
  pond: {impl: dir, config: {root: ./pond}}
"""
    )
    return path


def source(manifest: Path, **options: str) -> LancensDataSource:
    return LancensDataSource({"manifest": str(manifest), "variables": '{"Place": "lake"}', **options})


def rows_of(source: LancensDataSource, columns: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return what Spark would get, in order."""
    schema = source.schema()
    reader = source.reader(StructType([schema[name] for name in columns or schema.names]))
    batches: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted((row for batch in batches for row in batch.to_pylist()), key=repr)


def test_it_shows_no_secret(manifest: Path) -> None:
    for view in ("tables", "namespaces", "coverage"):
        rows = rows_of(source(manifest, view=view))
        assert rows
        assert SECRET not in repr(rows)


def test_filters_are_left_to_spark(manifest: Path) -> None:
    filters: list[Filter] = [EqualTo(("catalog",), "lake"), In(("namespace",), ("b", "x"))]
    reader = source(manifest).reader(StructType([StructField("name", StringType())]))
    assert list(reader.pushFilters(filters)) == filters


@pytest.mark.parametrize(
    ("globs", "names"),
    [
        ("b", ["two"]),
        ("a, b/deep", ["one", "three"]),
        ("", ["top"]),
        (",?", ["one", "top", "two"]),
        ("b/**", ["three", "two"]),
        ("*", ["one", "two"]),
        ("**", ["one", "three", "top", "two"]),
    ],
)
def test_globs_select_namespaces(manifest: Path, globs: str, names: list[str]) -> None:
    rows = rows_of(source(manifest, namespace=globs), ("name",))
    assert [row["name"] for row in rows] == names


@pytest.mark.parametrize(("globs", "names"), [("p*", {"pond"}), ("pond", {"pond"}), ("pond, lake", {"lake", "pond"})])
def test_globs_select_catalogs(manifest: Path, globs: str, names: set[str]) -> None:
    rows = rows_of(source(manifest, view="coverage", catalog=globs), ("catalog",))
    assert {row["catalog"] for row in rows} == names


def test_a_namespace_that_cannot_be_read_is_a_row_of_every_view(manifest: Path, tmp_path: Path) -> None:
    own = shutil.copytree(manifest.parent, tmp_path / "own") / manifest.name
    lance.write_dataset(pa.table({"other": [1]}), own.parent / "pond/__manifest")
    for view in ("tables", "namespaces", "coverage"):
        rows = [row for row in rows_of(source(own, view=view), ("catalog", "error")) if row["error"]]
        assert [row["catalog"] for row in rows] == ["pond"], view
        assert rows[0]["error"].startswith("pond (dir): ")


def test_a_partition_does_not_say_what_is_in_it(manifest: Path) -> None:
    reader = source(manifest).reader(StructType([StructField("name", StringType())]))
    assert {repr(part) for part in reader.partitions()} == {"lancens"}
    assert all(isinstance(part, InputPartition) for part in reader.partitions())


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("view", "tabels", "no view `tabels` in the format lancens; did you mean `tables`?"),
        ("columns", "nmae", "no column `nmae` in the format lancens; did you mean `name`?"),
        ("manifst", "x", "no option `manifst` in the format lancens; did you mean `manifest`?"),
        ("partitions", "0", "the option `partitions` is expected to be a number from 1 on, not `0`"),
        ("parallelism", "-1", "the option `parallelism` is expected to be a number from 1 to 256, not `-1`"),
        ("parallelism", "9999", "the option `parallelism` is expected to be a number from 1 to 256, not `9999`"),
        ("catalog", "x*", "the option `catalog` matches none of lake, pond"),
        ("namespace", "c, b/x", "the option `namespace` matches none in lake, pond"),
        ("variables", "{", 'the option `variables` is expected to be JSON such as {"region": "eu"}'),
        ("variables", '{"Place": 1}', 'the option `variables` is expected to be JSON such as {"region": "eu"}'),
    ],
)
def test_a_wrong_option_is_named(manifest: Path, option: str, value: str, message: str) -> None:
    with pytest.raises(LancensError) as refused:
        rows_of(source(manifest, **{option: value}))
    assert str(refused.value) == message


def test_a_schema_of_other_types_is_named(manifest: Path) -> None:
    with pytest.raises(LancensError, match=r"`name` .* is string, not int"):
        source(manifest).reader(StructType([StructField("name", IntegerType())]))


def test_there_are_no_streams(manifest: Path) -> None:
    for format_ in (source(manifest), HistoryDataSource({"path": "audits.lance"})):
        with pytest.raises(LancensError, match=r"use `spark\.read` instead"):
            format_.streamReader(StructType()).initialOffset()


def test_a_manifest_is_needed() -> None:
    with pytest.raises(LancensError, match=r"^no manifest is given: spark\.read"):
        rows_of(LancensDataSource({}))


def test_a_stream_is_refused() -> None:
    reader = LancensDataSource({}).streamReader(StructType())

    with pytest.raises(LancensError, match=r"use `spark\.read` instead"):
        reader.initialOffset()
