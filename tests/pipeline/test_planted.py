"""A folder of somebody who means harm: nothing in it runs, neither in the command nor in a process of Spark's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from reconciler.backends.dir import DirBackend
from tests.pipeline.conftest import SETTINGS
from tests.planted_modules import imported, plant
from tests.soak import in_full

LANCENS = (str(Path(sys.executable).with_name("lancens")),)
ISOLATED = (sys.executable, "-I", "-c", "from reconciler.cli import main; main()")
"""How a user starts the command, and how the GitHub Action does."""

QUERY = """\
from reconciler.cli import main
from reconciler.spark import SparkOptions, register, spark_session

with spark_session(SparkOptions("local[1]", {"spark.sql.shuffle.partitions": "1"})) as spark:
    register(spark)
    tables = spark.read.format("lancens").option("manifest", "lancens.yaml").load()
    print([row.name for row in tables.collect()], flush=True)
    main(["audit", "--out", "report"])
"""


@pytest.fixture
def folder(java: None, tmp_path: Path) -> Path:
    """Return a folder with a manifest of one table, planted modules, and above it what looks like Spark."""
    folder = tmp_path / "checkout" / "folder"
    folder.mkdir(parents=True)
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("a",), {})
    backend.insert_table(("a", "one"), backend.default_location(("a", "one")), {})
    (folder / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs:\n  lake: {impl: dir, config: {root: ../../lake}}\n"
    )
    log = plant(folder)
    shutil.copy(folder / "json.py", folder / "pyspark_planted.py")  # where PySpark looks for data sources
    for place in (folder, folder / "conf", folder / "bin", folder.parent / "bin"):
        place.mkdir(exist_ok=True)
        for name in ("spark-submit", "spark-env.sh", "java"):
            (place / name).write_text(f"#!/bin/sh\necho {name} >> {log}\nexit 1\n")
            (place / name).chmod(0o755)
    for above in (folder, folder.parent):
        (above / "jars").mkdir()
    return folder


def run(folder: Path, *command: str | Path, **environment: str) -> tuple[str, list[str]]:
    """Run a command in ``folder``; return what it printed, and what of the folder was run."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    ran = imported(folder.with_name(f"{folder.name}-imported.log"))
    assert ran or done.returncode in (0, 2), done.stderr[-2000:]
    return done.stdout, ran


@pytest.mark.soak
@pytest.mark.parametrize(
    ("command", "environment"),
    [
        pytest.param((*ISOLATED, "audit", "--out", "report"), {"PYTHONPATH": os.pathsep}, id="audit", marks=in_full),
        pytest.param(
            (*LANCENS, "inventory"),
            {"SPARK_HOME": "", "PYSPARK_PYTHON": "", "JAVA_HOME": ""},  # empty is not "here"
            id="inventory",
            marks=in_full,
        ),
        pytest.param((*LANCENS, "plan", "--engine", "spark"), {}, id="plan", marks=in_full),
    ],
)
def test_nothing_planted_runs(folder: Path, command: tuple[str, ...], environment: dict[str, str]) -> None:
    settings = [text for key, value in SETTINGS.items() for text in ("--spark-conf", f"{key}={value}")]
    assert run(folder, *command, "--master", "local[2]", *settings, **environment)[1] == []


def test_an_isolated_driver_has_isolated_workers(folder: Path) -> None:
    environment = {"PYTHONPATH": os.pathsep + str(folder)}
    out, ran = run(folder, sys.executable, "-I", "-c", QUERY, **environment)
    assert (out.startswith("['one']\n"), "\nChecked 1 table" in out, ran) == (True, True, [])


def test_spark_submit_says_where_to_run_and_runs_nothing_planted(folder: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("from reconciler.cli import main\nmain(['inventory', '-o', 'inventory.json'])\n")
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    given = {**SETTINGS, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    settings = [text for key, value in given.items() for text in ("--conf", f"{key}={value}")]
    out, ran = run(
        folder,
        submit,
        "--master",
        "local[1,2]",
        *settings,
        job,
        PYSPARK_PYTHON=sys.executable,
        SPARK_HOME=str(submit.parents[1]),
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert ran == []
    assert "Starting Spark" not in out
    assert "Reading 2 namespaces: 1 table" in out  # where Spark sends stderr, too
    assert len((folder / "inventory.json").read_text().splitlines()) == 4
