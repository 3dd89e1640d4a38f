"""What a session needs, said in one line where it is missing, and what Spark fails of."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError, PySparkValueError

from reconciler.model.errors import LancensError, pip_requirement
from reconciler.pipeline import session
from reconciler.pipeline.failures import quiet, spark_errors
from reconciler.pipeline.upkeep_tasks import pays_start
from tests.cli.running import Ran, lancens

Inventory = Callable[..., Ran]


@pytest.fixture
def inventory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Inventory:
    """Return a function that runs the command where no session is there yet."""
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text("version: 1\nname: store\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}}\n")
    (tmp_path / "lake").mkdir()
    monkeypatch.setattr(session, "active_session", lambda: None)
    monkeypatch.setattr(session, "getproxies", dict)
    for name in ("JAVA_HOME", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: lancens(capsys, "inventory", manifest, *arguments)


def java(folder: Path, script: str) -> Path:
    """Make a Java that does no more than ``script``, and return its folder."""
    folder.mkdir(parents=True)
    (folder / "java").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "java").chmod(0o755)
    return folder


ADVICE = "install Java 17 or 21 and set JAVA_HOME to it, name a server with --master sc://HOST, or pass --engine local"


def test_java_is_needed(inventory: Inventory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = inventory()
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(f"no `java` on the PATH: {ADVICE}\n")


@pytest.mark.parametrize(("version", "said"), [("11.0.2", "11"), ("1.8.0_292", "8")])
def test_an_old_java_is_not_enough(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, said: str
) -> None:
    place = java(tmp_path / "old/bin", f"""echo 'openjdk version "{version}" 2019-01-15' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(place.parent))
    assert inventory().err.endswith(f"Spark needs Java 17, and {place / 'java'} is Java {said}: {ADVICE}\n")


def test_a_broken_java_counts_as_missing(inventory: Inventory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = java(tmp_path / "bin", "exit 1")
    monkeypatch.setenv("PATH", str(place))
    assert inventory().err.endswith(f"Spark needs Java, and {place / 'java'} does not run: {ADVICE}\n")


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_a_missing_package_names_the_pip_command(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    ran = inventory("--engine", "spark")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(f": pip install '{pip_requirement()}[spark]'\n")


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_without_spark_the_same_is_done_in_this_process(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    local = inventory("--engine", "local")
    monkeypatch.setitem(sys.modules, package, None)
    ran = inventory()
    assert (ran.code, ran.out) == (0, local.out)
    assert f"pip install '{pip_requirement()}[spark]'" in ran.err
    assert "pip install" not in local.err


def test_options_of_spark_need_spark(inventory: Inventory) -> None:
    ran = inventory("--engine", "local", "--master", "local[2]")
    assert (ran.code, ran.out) == (1, "")
    assert "--engine spark" in ran.err


def test_an_old_pyspark_is_not_enough(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    old: Any = ModuleType("pyspark")
    old.__version__, old.__spec__ = "4.0.1", SimpleNamespace()
    monkeypatch.setitem(sys.modules, "pyspark", old)
    error = inventory().err
    assert "PySpark 4.0.1 is too old" in error
    assert error.endswith(f": pip install -U '{pip_requirement()}[spark]'\n")


def test_spark_connect_needs_packages_of_its_own(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ran = inventory("--master", f"sc://127.0.0.1:{server.getsockname()[1]}/;token=hunter2")
    assert (ran.code, ran.out) == (1, "")
    assert ": pip install 'pyspark[connect]==" in ran.err
    assert "hunter2" not in ran.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sc://127.0.0.1:1/;token=hunter2", "no Spark Connect server answers at 127.0.0.1:1: Connection refused\n"),
        ("sc://127.0.0.1:hunter2", "--master is not an address of Spark Connect: expected sc://HOST:PORT\n"),
        (
            "spark://127.0.0.1:1,127.0.0.1:2",
            "no Spark master answers at 127.0.0.1:1: Connection refused, 127.0.0.1:2: Connection refused\n",
        ),
    ],
)
def test_a_server_that_does_not_answer_is_not_waited_for(inventory: Inventory, url: str, said: str) -> None:
    ran = inventory("--master", url)
    assert (ran.code, ran.out, ran.err) == (1, "", said)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,7]", "local[2,7]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_tasks_are_tried_again(given: str, used: str) -> None:
    assert session._with_retries(given) == used


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [
        ({"spark.master": "local[2]"}, 1),
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[2, 3]"}, 3),
        ({"spark.master": "spark://host:7077"}, 4),
        ({"spark.master": "yarn", "spark.task.maxFailures": "9"}, 9),
        ({}, 4),
    ],
)
def test_how_often_a_task_is_tried_is_known(settings: dict[str, str], attempts: int) -> None:
    spark: Any = SimpleNamespace(conf=settings)
    assert session.task_attempts(spark) == attempts


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PySparkValueError(
                "\nAn exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
                '  File "x.py", line 9, in f\n    raise it\nreconciler.errors.CatalogError: no answer.\n'
            ),
            "no answer",
        ),
        (
            Py4JError(
                "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
                ": org.apache.spark.SparkException: Could not parse Master URL: 'local[x,4]'\n\tat org.apache.Spark\n"
            ),
            "Could not parse Master URL: 'local[x,4]'",
        ),
        (
            PySparkRuntimeError(
                "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
                '\tdetails = "no address for h"\n\tdebug_error_string = "x"\n>'
            ),
            "no address for h",
        ),
        (PySparkRuntimeError("just this"), "just this"),
        (
            PySparkRuntimeError(
                'Job aborted: java.io.IOException: Cannot run program "/nowhere/python": error=2, No such file\n'
                "Caused by: java.io.IOException: error=2, No such file or directory"
            ),
            "the Python `/nowhere/python` does not run",
        ),
        (
            PySparkRuntimeError(
                "Job aborted due to stage failure: org.apache.spark.api.python.PythonException: Traceback (most recent "
                "call last):\npyspark.serializers.SerializationError: Caused by Traceback (most recent call last):\n"
                "  File \"cloudpickle.py\", line 1, in subimport\nModuleNotFoundError: No module named 'reconciler'\n\n"
                "\tat org.apache.spark.api.python.BasePythonRunner\n"
            ),
            "the Python of an executor has no module `reconciler`; name one that has lancens",
        ),
        (
            Py4JNetworkError("gone"),
            "its JVM has ended, mostly for want of memory (--spark-conf spark.driver.memory=4g)",
        ),
        (ConnectionRefusedError(111, "refused"), "its JVM has ended, mostly for want of memory"),
    ],
)
def test_a_failure_is_one_line(error: Exception, said: str) -> None:
    with pytest.raises(LancensError) as refused, spark_errors("/tmp/spark.log"):
        raise error
    assert str(refused.value).startswith(f"Spark failed: {said}")
    assert str(refused.value).endswith("; its log is /tmp/spark.log")


def test_why_no_jvm_came_up_stands_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text('WARNING: something\nException in thread "main" org.apache.spark.SparkException: Master must be\n')
    with pytest.raises(LancensError, match=r"^Spark failed: Master must be; its log"), spark_errors(str(log)):
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})


def test_errors_of_others_stay_what_they_are() -> None:
    for error in (LancensError("mine"), BrokenPipeError(), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised, spark_errors():
            raise error
        assert raised.value is error


def test_what_pyspark_logs_of_a_failure_is_kept_off_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    def log(module: str) -> None:
        root = logging.getLogger()
        root.handle(root.makeRecord("root", logging.ERROR, f"/lib/{module}.py", 1, f"of {module}", (), None))

    with quiet():
        log("clientserver")
        log("mine")
        logging.getLogger("py4j.clientserver").error("of an interrupted call")
    log("java_gateway")
    assert [record.message for record in caplog.records] == ["of mine", "of java_gateway"]


@pytest.mark.parametrize(
    ("jobs", "master", "environment", "pays"),
    [
        ([(4 << 30, None)], None, {}, False),
        ([(4 << 30, None), (1, None)], None, {}, True),
        ([(4 << 30, None)], "spark://host:7077", {}, False),
        ([(1, None), (64 << 20, "v_idx")], None, {}, True),
        ([(64 << 20, "v_idx")], None, {}, False),
        ([(0, None), (None, None)], None, {}, True),
        ([(1, None)], "sc://host", {}, True),
        ([(1, None)], None, {"SPARK_REMOTE": "sc://host"}, True),
        ([(1, None)], None, {"PYSPARK_GATEWAY_PORT": "1"}, True),
    ],
)
def test_spark_starts_for_jobs_that_take_longer(
    monkeypatch: pytest.MonkeyPatch,
    jobs: list[tuple[int | None, str | None]],
    master: str | None,
    environment: dict[str, str],
    pays: bool,
) -> None:
    monkeypatch.setattr(session, "active_session", lambda: None)
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    costs: Any = [SimpleNamespace(bytes=size, index=index) for size, index in jobs]
    assert pays_start(costs, session.SparkOptions(master)) is pays
