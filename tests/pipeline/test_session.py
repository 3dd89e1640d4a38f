"""Sessions as they are started, found and handed over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.spark.progress import stage
from reconciler.spark.session import SparkOptions, spark_session, task_attempts
from tests.cli.running import shell
from tests.pipeline.conftest import SETTINGS

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


WATCHED = """
import json, sys, tempfile, threading
from pathlib import Path
from reconciler.spark.session import SparkOptions, spark_session

settings, seen, stop = json.loads(sys.stdin.read()), set(), threading.Event()

def look():
    while not stop.wait(0.01):
        for name in ("cmdline", "environ"):
            for path in Path("/proc").glob(f"[0-9]*/{name}"):
                try:
                    seen.update(key for key, value in settings.items() if value.encode() in path.read_bytes())
                except OSError:
                    pass

watching = threading.Thread(target=look)
watching.start()
with spark_session(SparkOptions("local[1]", conf=settings)) as spark:
    spark.range(3).count()
    left = [path.name for path in Path(tempfile.gettempdir()).glob("*/spark.properties")]
    known = {key: spark.sparkContext.getConf().get(key) for key in settings}
stop.set()
watching.join()
print(json.dumps({"seen": sorted(seen), "left": left, "known": known}))
"""


def test_settings_are_on_no_command_line_and_reach_the_jvm_as_they_are(java: None, tmp_path: Path) -> None:
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "hadoop-secret-31",
        "spark.lancens.odd": " a=b:c#d!\\u0041 \n\u00fc\U0001f600 ",
    }
    command = [sys.executable, "-c", WATCHED]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        command, input=json.dumps(settings), env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout.splitlines()[-1]) == {"seen": [], "left": [], "known": settings}


def test_spark_submit_says_where_to_run(java: None, manifest: Path, tmp_path: Path) -> None:
    script, out = tmp_path / "job.py", tmp_path / "inventory.json"
    script.write_text(f"from reconciler.cli import main\nmain(['inventory', {str(manifest)!r}, '-o', {str(out)!r}])\n")
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    given = {**SETTINGS, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    settings = [text for key, value in given.items() for text in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [submit, "--master", "local[1,2]", *settings, script],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Starting Spark" not in done.stdout
    assert "Reading 2 namespaces: 1 table" in done.stdout  # where Spark sends both
    assert len(out.read_text().splitlines()) == 4
