"""Spark's own servers on 127.0.0.1: a standalone cluster of a master and workers, and Spark Connect."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.servers.process import free_port, running
from tests.servers.spark_classes import JAVA_OPTIONS, driver_environment

__all__ = ["HOME", "Cluster", "spark_cluster", "spark_connect"]

HOME = Path(pyspark.__file__).parent
"""The Spark that comes with PySpark."""

_LISTENS = re.compile(r"Starting Spark master at (spark://\S+)")
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_REGISTERED = "Successfully registered with master"


@dataclass(frozen=True)
class Cluster:
    """``master`` is its URL; ``environment`` is what its processes and ``spark-submit`` are started with."""

    master: str
    environment: Mapping[str, str]


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run a master and ``workers`` of one core each for the block; their logs are in ``folder``."""
    environment = {
        **_environment(),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
    }
    with ExitStack() as stack:

        def start(name: str, said: str, *arguments: str) -> str:
            log = folder / f"{name}.log"
            command = [str(HOME / "bin/spark-class"), *arguments, "--host", "127.0.0.1", "--port", "0"]
            ready = running(
                [*command, "--webui-port", "0"],
                log,
                lambda: said in log.read_text("utf-8", "replace"),
                environment=environment,
                directory=folder,
            )
            stack.enter_context(ready)
            return log.read_text("utf-8", "replace")

        found = _LISTENS.search(start("master", "I have been elected leader", "org.apache.spark.deploy.master.Master"))
        assert found is not None
        for number in range(workers):
            of_worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker{number}"))
            start(f"worker{number}", _REGISTERED, "org.apache.spark.deploy.worker.Worker", found[1], *of_worker)
        yield Cluster(found[1], environment)


def _environment() -> dict[str, str]:
    """Return that of this process, without what it says of Spark and Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYTHON", "PYSPARK_"))}
    return {**kept, **driver_environment(), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def spark_connect(
    folder: Path, settings: Mapping[str, str], python: str = sys.executable, python_path: str = ""
) -> Iterator[str]:
    """Run a Spark Connect server on two cores for the block, and give its URL; its log is in ``folder``.

    ``settings`` are more of Spark's configuration, and ``python`` is what its workers run in, with ``python_path``.
    """
    port, log = free_port(), folder / "connect.log"
    given = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        **settings,
    }
    options = [text for key, value in given.items() for text in ("--conf", f"{key}={value}")]
    ready = running(
        [str(HOME / "bin/spark-submit"), "--class", _CONNECT, "--master", "local[2]", *options],
        log,
        lambda: "Spark Connect server started" in log.read_text("utf-8", "replace"),
        environment={**_environment(), "PYSPARK_PYTHON": python, "PYTHONPATH": python_path},
        directory=folder,
    )
    with ready:
        yield f"sc://127.0.0.1:{port}"
