"""Open the Spark session of the pipeline, or use the one that exists.

On this machine a session needs nothing but Java. It listens on loopback only and retries failed tasks. Spark's own log
goes to a file instead of the terminal; the error names the file when Spark fails.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from reconciler.model.errors import LancensError, MissingExtraError, pip_requirement
from reconciler.pipeline.failures import quiet, spark_errors
from reconciler.pipeline.progress import stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OLDEST_WITH_FORMATS = (4, 0)
"""The first PySpark with data sources in Python, and with tables of Arrow's on the driver."""

_ATTEMPTS = 4
_LOCAL_MASTER = re.compile(r"local(\[|$)")
_SECONDS_TO_END = 10
_OLDEST_PYSPARK = (4, 1)
_OLDEST_JAVA = 17
_CONNECT_PORT = 15002
_SECONDS_TO_ANSWER = 10
_CONNECT_PACKAGES = ("grpc", "grpc_status", "google.rpc")

_SETTINGS: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),  # otherwise Spark measures a batch for each row of it
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_OWN_SETTINGS: Mapping[str, str] = {
    **_SETTINGS,
    "spark.app.name": "lancens",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # or a worker imports modules from its working directory
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS: Mapping[str, str] = {
    **_OWN_SETTINGS,
    "spark.driver.bindAddress": "127.0.0.1",
    # The C2 compiler took half of the CPU seconds of runs of some minutes.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), "lancens-warehouse")),  # not where we run
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs.

    Args:
        master: a master URL of Spark's, or ``sc://HOST:PORT`` for Spark Connect; None for that of ``spark-submit`` or
            ``SPARK_REMOTE``, and otherwise every core of this machine.
        conf: Spark's configuration; it overrides the settings of lancens.
        show_log: whether Spark's log goes to stderr instead of a file.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    show_log: bool = False


def is_installed() -> bool:
    """Return whether PySpark is installed with what it needs."""
    return all(map(find_spec, ("pyspark", "pandas")))  # PySpark takes no Arrow without pandas


@contextmanager
def spark_session(options: SparkOptions | None = None) -> Iterator[SparkSession]:
    """Yield a session for the block.

    A session that exists already, as in a notebook, is used as it is and not stopped. A new one is stopped.

    Raises:
        MissingExtraError: PySpark is not installed.
        LancensError: PySpark or Java is missing or too old, the session cannot be started, or Spark fails in the
            block; the message names Spark's log.
    """
    options = options or SparkOptions()
    require_pyspark()
    existing = active_session()
    if existing is not None:
        with spark_errors():
            yield existing
        return
    master = options.master or os.environ.get("SPARK_REMOTE")
    if master is not None and master.startswith("sc://"):
        _require_connect_server(master)
        _require_connect()
        opened = _built_session({"spark.remote": master, **_SETTINGS, **options.conf})
    elif "PYSPARK_GATEWAY_PORT" in os.environ:  # ``spark-submit`` started the JVM and set its master
        opened = _built_session({**_OWN_SETTINGS, **options.conf})
    else:
        opened = _launched_session(master or "local[*]", options)
    with opened as spark:
        yield spark


def starts_jvm(options: SparkOptions, *, local: bool = False) -> bool:
    """Return whether :func:`spark_session` would start Spark's JVM, which takes some seconds.

    With ``local``, only if the executors are on this machine, too. So this process reaches all that they reach.
    """
    master = options.master or os.environ.get("SPARK_REMOTE") or "local[*]"
    if (
        master.startswith("sc://")
        or "PYSPARK_GATEWAY_PORT" in os.environ
        or (local and not _LOCAL_MASTER.match(master))
    ):
        return False
    require_pyspark()
    return active_session() is None


def task_attempts(spark: SparkSession) -> int:
    """Return how often ``spark`` attempts a task before the job fails."""
    master = spark.conf.get("spark.master", "") or ""
    if _LOCAL_MASTER.match(master):
        attempts = re.fullmatch(r"local\[[^,]*,\s*(\d+)\s*\]", master)
        return int(attempts[1]) if attempts else 1
    return int(spark.conf.get("spark.task.maxFailures", str(_ATTEMPTS)) or _ATTEMPTS)


def active_session() -> SparkSession | None:
    """Return the session of this process; None if there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        return None


@contextmanager
def _built_session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session that PySpark builds with ``settings``.

    Stop it at the end of the block.
    """
    from pyspark.sql import SparkSession

    with spark_errors():
        spark = SparkSession.builder.config(map=dict(settings)).getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _launched_session(master: str, options: SparkOptions) -> Iterator[SparkSession]:
    """Yield a session on ``master`` in a new JVM; stop both at the end of the block."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _require_java()
    _require_master(master)
    local = master.startswith("local")
    conf = SparkConf(loadDefaults=False)
    for key, value in {**(_LOCAL_SETTINGS if local else _OWN_SETTINGS), **options.conf}.items():
        conf.set(key, value)
    conf.set("spark.master", _with_retries(master))
    with _log_file(options) as log, ExitStack() as stack:
        log_name = None if log is None else log.name
        if log_name is not None:
            stack.enter_context(quiet())
        # Spark's errors get their text from the JVM, so they are translated before it ends.
        starting = stage(None, f"Starting Spark on {master}")
        changes = _launch_environment(local, options.conf)
        with (
            starting,
            spark_errors(log_name),
            _properties_file(conf.getAll()) as file,
            _environment({**changes, **_submit_variables(file)}),
        ):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)  # the fork runs a JVM
                # ``SparkSession.builder`` would start a JVM that writes to our stdout and stderr and lives as long as
                # this process, and none at all where SPARK_REMOTE names a server.
                gateway = launch_gateway(None, {"stdout": log or sys.__stderr__, "stderr": log})
            stack.callback(_end_jvm, gateway)
            spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
        with spark_errors(log_name):
            try:
                yield spark
            finally:
                spark.stop()


@contextmanager
def _properties_file(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a private file with ``settings``: other users can read a command line."""
    with tempfile.TemporaryDirectory(prefix="lancens-spark-") as folder:
        file = Path(folder, "spark.properties")
        # Every character is escaped as Java reads it, so that none ends or splits a key or a value.
        lines = (f"{_java_escapes(key)}={_java_escapes(value)}\n" for key, value in settings)
        file.touch(0o600)
        file.write_text("".join(lines), "ascii")
        yield str(file)


def _java_escapes(text: str) -> str:
    r"""Return ``text`` with every character as ``\uXXXX``."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _submit_variables(file: str) -> Mapping[str, str]:
    """Return the variable that makes ``spark-submit`` read ``file``."""
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    return {"PYSPARK_SUBMIT_ARGS": f"--properties-file {shlex.quote(file)} --load-spark-defaults {arguments}"}


def _end_jvm(gateway: Any) -> None:
    """End the JVM of ``gateway`` by closing its stdin, and make PySpark forget it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway.shutdown()
    # PySpark keeps one JVM for the life of a process and has no public way to forget it: ``stop`` ends the session
    # alone and, when the JVM has crashed, not even that. Without this, the next session of this process would use a JVM
    # that has ended, and could not have other settings for its JVM, such as its memory.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def _with_retries(master: str) -> str:
    """Return ``master``, with a number of attempts if it is local.

    Without that number, a local master retries no task.
    """
    match = re.fullmatch(r"local(?:\[\s*([^,\]]+?)\s*\])?", master)
    return master if match is None else f"local[{match[1] or 1},{_ATTEMPTS}]"


@contextmanager
def _log_file(options: SparkOptions) -> Iterator[IO[bytes] | None]:
    """Yield a file for Spark's log; None if the log goes to stderr.

    The file is removed at the end of the block, unless an error of the block names it.
    """
    if options.show_log:
        yield None
        return
    is_named = False
    with tempfile.NamedTemporaryFile(prefix="lancens-spark-", suffix=".log", delete=False) as log:
        try:
            yield log
        except LancensError as error:
            is_named = log.name in str(error)
            raise
        finally:
            if not is_named:
                Path(log.name).unlink(missing_ok=True)


def _launch_environment(local: bool, conf: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables to change for the JVM; None removes one.

    The Pythons that it starts import from the same places as this process: from the working directory only if
    ``PYTHONPATH`` names it, and with nothing from the environment if this process ignores it (``python -I``). On this
    machine they are this very Python, unless another is configured.

    PySpark takes the Python of the executors from the environment alone: only the script ``spark-submit``, which did
    not start this process, reads ``spark.pyspark.python``. The path may exist on the executors only.
    """
    isolated = sys.flags.ignore_environment
    changes: dict[str, str | None] = {name: None for name in os.environ if name.startswith("PYTHON") and isolated}
    if not isolated and (path := os.environ.get("PYTHONPATH")):
        changes["PYTHONPATH"] = os.pathsep.join(filter(None, path.split(os.pathsep)))  # "" is the working directory
    changes["PYTHONSAFEPATH"] = "1"
    if sys.flags.no_user_site:
        changes["PYTHONNOUSERSITE"] = "1"
    python = conf.get("spark.pyspark.python")
    if python:
        changes |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    elif local and not os.environ.get("PYSPARK_PYTHON"):
        changes["PYSPARK_PYTHON"] = sys.executable
    if not os.environ.get("SPARK_HOME"):
        changes["SPARK_HOME"] = str(_spark_home())
    return changes


def _spark_home() -> Path:
    """Return the home of PySpark's own Spark.

    PySpark itself looks above the working directory first.
    """
    import pyspark

    package = Path(pyspark.__file__).parent
    homes = (package / "spark-distribution", package, package.parent.parent)
    return next((home for home in homes if (home / "bin/spark-submit").is_file()), package)


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change variables of this process for the block; None removes one."""
    before = {name: os.environ.get(name) for name in changes}
    _set_variables(changes)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# ---- what Spark needs ------------------------------------------------------------------------------------------------


def require_pyspark(oldest: tuple[int, int] = _OLDEST_PYSPARK) -> None:
    """Raise a LancensError when PySpark is missing or too old."""
    if not is_installed():
        raise MissingExtraError("Spark", "spark")
    import pyspark

    installed = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if installed < oldest:
        requirement = f"{pip_requirement()}[spark]"
        needed = ".".join(map(str, oldest))
        raise LancensError(
            f"PySpark {pyspark.__version__} is too old, this needs {needed}: pip install -U '{requirement}'"
        )


def _require_connect() -> None:
    """Raise a LancensError when packages that Spark Connect needs are missing.

    Without this check, PySpark may just exit.
    """
    try:
        has_packages = all(map(find_spec, _CONNECT_PACKAGES))
    except ModuleNotFoundError:  # the parent package is missing
        has_packages = False
    if not has_packages:
        raise LancensError(
            f"Spark Connect needs packages that are not installed: pip install 'pyspark[connect]=={version('pyspark')}'"
        )


def _require_connect_server(url: str) -> None:
    """Raise a LancensError when no server of Spark Connect answers at ``url``.

    Without this check, Spark Connect would retry for many minutes.
    """
    server = urlsplit(url)
    try:
        host, port = server.hostname or "", server.port or _CONNECT_PORT
    except ValueError:
        raise LancensError("--master is not an address of Spark Connect: expected sc://HOST:PORT") from None
    problem = None if getproxies() else _connection_problem(host, port)
    if problem is not None:
        raise LancensError(f"no Spark Connect server answers at {problem}")


def _require_master(url: str) -> None:
    """Raise a LancensError when no master of a standalone cluster answers.

    Without this check, Spark would wait for more than a minute, and its error would name no master.
    """
    masters = re.findall(r"([^/,]+):(\d+)", url.removeprefix("spark://")) if url.startswith("spark://") else []
    problems = [_connection_problem(host.strip("[]"), int(port)) for host, port in masters]
    if problems and all(problems):
        raise LancensError(f"no Spark master answers at {', '.join(filter(None, problems))}")


def _connection_problem(host: str, port: int) -> str | None:
    """Return the address of a server and why it takes no connection.

    The result is None if it takes one.
    """
    try:
        socket.create_connection((host, port), _SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        return f"{host}:{port}: {getattr(error, 'strerror', None) or error}"
    return None


def _require_java() -> None:
    """Raise a LancensError when there is no Java that Spark can run in."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin/java")) if home else shutil.which("java")
    advice = (
        f"install Java {_OLDEST_JAVA} or 21 and set JAVA_HOME to it, name a server with --master sc://HOST, or pass "
        "--engine local"
    )
    if java is None:
        raise LancensError(f"Spark needs Java, and there is no `java` on the PATH: {advice}")
    try:
        # What it prints begins with: openjdk version "17.0.15" 2025-04-15
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        raise LancensError(f"Spark needs Java, and {java} does not run: {advice}") from None
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is not None and int(match[1]) < _OLDEST_JAVA:
        raise LancensError(f"Spark needs Java {_OLDEST_JAVA}, and {java} is Java {match[1]}: {advice}")
