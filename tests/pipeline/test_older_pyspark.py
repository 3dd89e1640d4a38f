"""The PySpark of managed platforms: audits and inventories run from 3.5 on, formats and plans from 4.0 on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import reconciler
from reconciler.pipeline import frames
from reconciler.pipeline.schemas import MOMENT, STRING_MAP, STRINGS
from tests.pipeline.troubled import Troubled
from tests.servers.require import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """\
import json
import sys

from pyspark.sql import SparkSession

import reconciler
from reconciler.spark import plan_on_spark

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
manifest = reconciler.load("lancens.yaml")
found = reconciler.audit(manifest, spark=spark)
told = {
    "version": spark.version,
    "findings": sorted(map(list, found.findings.select("rule", "address").collect())),
    "tables": found.tables.count(),
    "inventory": sorted(row.kind for row in reconciler.inventory(manifest, spark=spark).collect()),
}
try:
    from reconciler.spark import register
    register(spark)
    told["format"] = spark.read.format("lancens").option("manifest", "lancens.yaml").load().count()
    told["plan"] = len(plan_on_spark(spark, manifest).changes)
    from reconciler.auditor import history
    from reconciler.auditor.history_source import register_history
    history.append("audits.lance", found.document, {})
    register_history(spark)
    told["runs"] = spark.read.format("lancens-history").load("audits.lance").count()
except reconciler.LancensError as error:
    told["refused"] = str(error)
print(json.dumps(told))
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("LANCENS_SOAK"), reason="`make soak` downloads other PySparks")
@pytest.mark.parametrize(
    ("folder", "version", "has_formats"), [("pyspark-35", "3.5", False), ("pyspark-40", "4.0", True)]
)
def test_an_older_pyspark_audits(
    java: None, plugins: None, tmp_path: Path, folder: str, version: str, has_formats: bool
) -> None:
    place = Path(sys.prefix, folder)
    if not place.is_dir():
        missing(f"`make {place}/.installed` installs PySpark {version}")
    manifest = Troubled(tmp_path).make().manifest()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(place), os.environ["PYTHONPATH"]]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(place / "pyspark"),
    }
    done = subprocess.run(
        [sys.executable, "-c", JOB], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    here = reconciler.audit(manifest)
    assert told["version"].startswith(f"{version}.")
    assert told["findings"] == sorted([one.rule, one.address] for one in here.document.findings)
    assert told["tables"] == here.tables.num_rows
    assert told["inventory"] == sorted(reconciler.inventory(manifest)["kind"].to_pylist())
    if has_formats:
        assert (told["format"], told["plan"], told["runs"]) == (5, 0, 1)
    else:
        assert f"PySpark {told['version']} is too old" in told["refused"]


def test_rows_travel_without_tables_of_arrow(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("name", STRINGS), ("when", MOMENT), ("properties", STRING_MAP), ("load", pa.binary())])
    table = pa.table([[["a", "b"], None], [0, None], [[("k", "v")], []], [b"\0", None]], schema=schema)
    monkeypatch.setattr(frames, "_knows_arrow", lambda: False)
    assert frames.frame_of(spark, table).rows() == table.to_pylist()
