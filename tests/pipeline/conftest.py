"""The session that the tests of this folder share: one JVM, started for the first of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconciler.pipeline.session import SparkOptions, spark_session
from tests.servers.require import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGINS = Path(__file__).with_name("plugins")
"""A folder as pip would make it: backends of the tests' own, which the processes of Spark find as well."""

DAEMON = Path(__file__).with_name("daemon")
"""The folder of the daemon of ``PRELOADED``."""
PRELOADED: Mapping[str, str] = {"spark.python.daemon.module": "preloaded_daemon"}
"""A worker imports for two seconds of CPU, and tests end many of them."""

SETTINGS: Mapping[str, str] = {"spark.sql.shuffle.partitions": "2"}
SECRET_SETTINGS: Mapping[str, str] = {
    "spark.hadoop.fs.s3a.secret.key": "hadoop-secret-31",
    "spark.lancens.odd": " a=b:c#d!\\u0041 \n\u00fc\U0001f600 ",
}
"""Settings of the shared session that nobody may read on a command line, and that are hard to hand over."""
_CHEAP: Mapping[str, str] = {
    # Planning each stage anew takes a seventh of an audit here. Servers and sessions of commands do it.
    "spark.sql.adaptive.enabled": "false",
    **PRELOADED,
}


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the session keeps its log."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture
def spark_log(spark: SparkSession, spark_folder: Path) -> Path:
    """Return the log of the session."""
    (log,) = spark_folder.glob("lancens-spark-*.log")
    return log


@pytest.fixture(scope="session")
def java() -> None:
    """Skip what needs Java where there is none."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing("Java is not installed")


@pytest.fixture(scope="session")
def plugins() -> Iterator[None]:
    """Let this process and those of Spark find the backends of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        places = [str(PLUGINS), str(DAEMON), os.environ.get("PYTHONPATH")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))
        patch.syspath_prepend(str(PLUGINS))
        yield


@pytest.fixture(scope="session")
def spark(java: None, plugins: None, spark_folder: Path) -> Iterator[SparkSession]:
    """Give a session on two cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(spark_folder))
        with spark_session(SparkOptions("local[2]", {**SETTINGS, **SECRET_SETTINGS, **_CHEAP})) as session:
            yield session


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest, plugins: None) -> SparkSession | None:
    """Give each engine: None, which is this process, and the session."""
    session: SparkSession | None = request.getfixturevalue("spark") if request.param == "spark" else None
    return session
