"""Audits and inventories in this process and on Spark: the same answers, on the command line and in Python."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.pipeline.session import SparkOptions
from tests.cli.running import Ran, lancens
from tests.pipeline.troubled import Troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = re.compile(r"[0-9a-f]{32}|\d{4}-\d\d-\d\d[T ][\d:.]+Z?")
"""What each run has of its own: its id, and the times of it and of the datasets."""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a manifest and a catalog with tables of several defects, and an orphan."""
    monkeypatch.chdir(tmp_path)
    backend = DirBackend(root=str(tmp_path / "lake"))
    for namespace in (("a",), ("b",), ("b", "c")):
        backend.insert_namespace(namespace, {"owner": "".join(namespace)})
    for name in ("good", "good/inner", "lost", "left"):
        lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "lake/data" / name))
    for identifier, place in {
        ("a", "good"): "good",
        ("b", "same"): "good",
        ("b", "c", "inner"): "good/inner",
        ("a", "lost"): "lost",
        ("a", "nowhere"): "nowhere",
    }.items():
        backend.insert_table(identifier, str(tmp_path / "lake/data" / place), {})
    for file in (tmp_path / "lake/data/lost/data").iterdir():
        file.unlink()
    Path("lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}, namespaces: "
        "{a: {tables: {good: {schema: [{name: id, type: string}]}, wanted: {}}}}}}\n"
    )
    return tmp_path


def test_reports_and_history_are_the_same(
    lake: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def audits(*options: str) -> dict[str, Ran]:
        return {
            engine: lancens(
                capsys, "audit", "--engine", engine, "--out", engine, "--history", f"{engine}.lance", *options
            )
            for engine in ("local", "spark")
        }

    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", 2**40)  # no turn comes by chance
    audits()
    ran = audits("--since-last")
    assert ran["local"].code == 0, ran["local"].err
    assert "3 tables without a new version" in ran["local"].out
    assert OWN.sub("", ran["local"].out.replace("local", "spark")) == OWN.sub("", ran["spark"].out)
    for name in ("audit.json", "audit.sarif", "audit.junit.xml"):
        local, on_spark = (OWN.sub("", Path(engine, name).read_text("utf-8")) for engine in ran)
        assert local == on_spark
    assert {finding["rule"] for finding in json.loads(Path("local/audit.json").read_text("utf-8"))["findings"]} >= {
        *("dangling", "missing", "missing-files", "nested-location", "orphan", "schema-drift", "shared-location"),
    }
    for name in ("findings.parquet", "tables.parquet"):
        local_rows, spark_rows = (
            pq.read_table(Path(engine, name)).drop_columns(["run_id", "finished", "carried_from"]) for engine in ran
        )
        assert local_rows == spark_rows
    runs = [lance.dataset(f"{engine}.lance").to_table().to_pylist() for engine in ran]
    local_run, spark_run = (OWN.sub("", json.dumps(rows, default=datetime.isoformat)) for rows in runs)
    assert local_run == spark_run


@pytest.mark.parametrize(("units", "tables", "starts"), [(9, 9, 0), (3, 9, 1), (9, 4, 1), (9, 1, 1)])
def test_an_audit_starts_spark_once_the_catalogs_are_large(
    lake: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    units: int,
    tables: int,
    starts: int,
) -> None:
    started: list[SparkOptions] = []

    def start(options: SparkOptions) -> nullcontext[SparkSession]:
        started.append(options)
        return nullcontext(spark)

    monkeypatch.setattr("reconciler.pipeline.session.active_session", lambda: None)
    monkeypatch.setattr("reconciler.auditor.entries.spark_session", start)
    monkeypatch.setattr("reconciler.auditor.entries._FEW_UNITS", units)
    monkeypatch.setattr("reconciler.auditor.entries.FEW_TABLES", tables)
    local, ran = (
        lancens(capsys, "audit", "--rule", "dangling", "--rule", "orphan", *options)
        for options in (("--engine", "local"), ())
    )
    assert (ran.code, OWN.sub("", ran.out), len(started)) == (0, OWN.sub("", local.out), starts)
    assert ("--engine local saves" in ran.err.splitlines()[0], "without Spark" in ran.err) == (True, not starts)


@pytest.mark.parametrize("times", [0, 100])
def test_inventories_are_the_same(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], times: int
) -> None:
    catalog = Troubled(tmp_path, times=times).make()
    local, on_spark = (lancens(capsys, "inventory", catalog.path, "--engine", engine) for engine in ("local", "spark"))
    assert local.code == on_spark.code == (1 if times else 0)
    assert sorted(local.out.splitlines()) == sorted(on_spark.out.splitlines())


def rows_in(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a table of Arrow's or a DataFrame."""
    table = frame if isinstance(frame, pa.Table) else frame.toArrow()
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_python_gives_dataframes_with_spark_and_arrow_tables_without(
    lake: Path, engine: SparkSession | None, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = reconciler.load("lancens.yaml")
    found = reconciler.audit(manifest, spark=engine, rules=["dangling", "shared-location"])
    assert isinstance(found.findings, pa.Table) == isinstance(found.tables, pa.Table) == (engine is None)
    assert [(row["rule"], row["address"]) for row in rows_in(found.findings)] == [
        ("dangling", "lake/a/nowhere"),
        ("shared-location", "lake/a/good"),
        ("shared-location", "lake/b/same"),
    ]
    assert found.document.complete
    assert {row["address"]: row["rows"] for row in rows_in(found.tables)}["lake/b/c/inner"] == 1

    printed = lancens(capsys, "inventory", "--engine", "local").out.splitlines()
    rows = rows_in(reconciler.inventory(manifest, spark=engine))
    assert len(rows) == len(printed)
    assert {row["location"] for row in rows} == {json.loads(line).get("location") for line in printed}


def test_a_rule_that_does_not_exist_is_an_error(lake: Path) -> None:
    with pytest.raises(reconciler.LancensError, match="no rule dangle"):
        reconciler.audit(reconciler.load("lancens.yaml"), rules=["dangle"])


def test_a_catalog_in_memory_is_audited_in_this_process(tmp_path: Path) -> None:
    path = tmp_path / "lancens.yaml"
    path.write_text("version: 1\nname: store\ncatalogs: {lake: {impl: memory, config: {name: audited}}}\n")
    assert reconciler.audit(reconciler.load(path)).document.complete
