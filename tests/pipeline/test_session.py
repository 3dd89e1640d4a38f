"""Sessions as they are started, found and handed over."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.pipeline.progress import stage
from reconciler.pipeline.session import SparkOptions, spark_session, task_attempts
from tests.cli.running import shell
from tests.pipeline.conftest import SECRET_SETTINGS, SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Return a manifest of a directory with one table."""
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("a",), {})
    backend.insert_table(("a", "one"), backend.default_location(("a", "one")), {})
    path = tmp_path / "lancens.yaml"
    path.write_text("version: 1\nname: store\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}}\n")
    return path


def test_a_session_that_is_there_is_used_and_left_running(spark: SparkSession) -> None:
    with spark_session(SparkOptions("local[7]")) as found:
        assert found is spark
    assert spark.range(3).count() == 3


def test_a_local_session_is_set_up_without_being_asked(spark: SparkSession) -> None:
    def python(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    found = spark.range(0, 1, 1, 1).mapInArrow(python, "python string").collect()
    assert [row.python for row in found] == [sys.executable]
    assert task_attempts(spark) == 4
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None


def test_spark_knows_a_stage_by_its_name(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    context = spark.sparkContext
    with stage(spark, "Counting to three"):
        assert context.getLocalProperty("spark.job.description") == "Counting to three"
        group = context.getLocalProperty("spark.jobGroup.id")
        spark.range(3).count()
        assert context.statusTracker().getJobIdsForGroup(group)
    assert context.getLocalProperty("spark.job.description") is None
    assert capsys.readouterr().err.startswith("Counting to three  ")


def test_the_command_line_starts_one_and_keeps_its_noise_away(java: None, manifest: Path, tmp_path: Path) -> None:
    here, scratch = tmp_path / "here", tmp_path / "scratch"
    here.mkdir()
    scratch.mkdir()
    settings = [text for key, value in SETTINGS.items() for text in ("--spark-conf", f"{key}={value}")]
    ran = shell("inventory", manifest, "--master", "local[2]", *settings, folder=here, TMPDIR=str(scratch))
    assert ran.code == 0
    assert [json.loads(line)["kind"] for line in ran.out.splitlines()].count("table") == 1
    assert [line.rpartition("  ")[0] for line in ran.err.splitlines()] == [
        "Starting Spark on local[2]",
        "Listing the namespaces of 1 catalog",
        "Reading 2 namespaces: 1 table",
    ]
    assert list(here.iterdir()) == []
    assert list(scratch.glob("*lancens*")) == []


def test_a_bad_master_is_one_line_and_a_log(java: None, manifest: Path, tmp_path: Path) -> None:
    ran = shell("inventory", manifest, "--master", "nonsense", TMPDIR=str(tmp_path))
    assert (ran.code, ran.out) == (1, "")
    (line,) = ran.err.splitlines()
    assert line.startswith("Spark failed: Master must ")
    assert "; its log is " in line
    assert "Master must either be yarn" in Path(line.rpartition(" ")[2]).read_text()


def test_settings_are_on_no_command_line_and_reach_the_jvm_as_they_are(spark: SparkSession, spark_folder: Path) -> None:
    spark.range(3).count()
    seen = [path for name in ("cmdline", "environ") for path in Path("/proc").glob(f"[0-9]*/{name}") if shows(path)]
    assert seen == []
    assert list(spark_folder.glob("*/spark.properties")) == []
    assert {key: spark.sparkContext.getConf().get(key) for key in SECRET_SETTINGS} == SECRET_SETTINGS


def shows(path: Path) -> bool:
    """Return whether a file of a process, if it is still there, has a value of the settings."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return any(value.encode() in content for value in SECRET_SETTINGS.values())
