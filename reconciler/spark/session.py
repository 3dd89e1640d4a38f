"""The Spark session that the pipeline runs in: a new one, or one that exists already.

On this machine a session needs nothing but Java. It listens on loopback only, tries a failed task again, and leaves
the terminal to the pipeline: what Spark itself has to say goes to a file, which is named when Spark fails.
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

from reconciler.model.errors import LancensError, MissingExtraError, installed_as
from reconciler.spark.failures import quiet, spark_errors
from reconciler.spark.progress import stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ATTEMPTS = 4
_SECONDS_TO_END = 10
_OLDEST_PYSPARK = (4, 1)
_OLDEST_JAVA = 17
_CONNECT_PORT = 15002
_SECONDS_TO_ANSWER = 10
_CONNECT_PACKAGES = ("grpc", "grpc_status", "google.rpc")

_SETTINGS: Mapping[str, str] = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_OWN_SETTINGS: Mapping[str, str] = {
    **_SETTINGS,
    "spark.app.name": "lancens",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # or a worker imports what lies in the folder it is started in
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS: Mapping[str, str] = {
    **_OWN_SETTINGS,
    "spark.driver.bindAddress": "127.0.0.1",
    # Half of the CPU seconds of a run of some minutes went into compiling what Spark runs for a last time (C2).
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), "lancens-warehouse")),  # or it is made right here
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs.

    ``master`` is a master URL of Spark's, or ``sc://HOST:PORT`` for Spark Connect; None is what ``spark-submit`` or
    ``SPARK_REMOTE`` says, and otherwise every core of this machine. ``conf`` is Spark's configuration, which comes
    before what lancens would set. ``show_log`` sends Spark's log to stderr instead of a file.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    show_log: bool = False


@contextmanager
def spark_session(options: SparkOptions | None = None) -> Iterator[SparkSession]:
    """Give a session for the block.

    One that is there already, in a notebook say, is used as it is and not stopped; one that is started is stopped.

    Raises:
        MissingExtraError: PySpark is not installed.
        LancensError: PySpark or Java is missing or too old, the session cannot be started, or Spark fails in the
            block; the message names Spark's log.
    """
    options = options or SparkOptions()
    _require_packages()
    there = session_there()
    if there is not None:
        with spark_errors():
            yield there
        return
    master = options.master or os.environ.get("SPARK_REMOTE")
    if master is not None and master.startswith("sc://"):
        _require_answer(master)
        _require_connect()
        opened = _built({"spark.remote": master, **_SETTINGS, **options.conf})
    elif "PYSPARK_GATEWAY_PORT" in os.environ:  # of the JVM that ``spark-submit`` started, with the master it was told
        opened = _built({**_OWN_SETTINGS, **options.conf})
    else:
        opened = _launched(master or "local[*]", options)
    with opened as spark:
        yield spark


def task_attempts(spark: SparkSession) -> int:
    """Return how often ``spark`` tries a task before it gives up the job."""
    master = spark.conf.get("spark.master", "") or ""
    if re.match(r"local(\[|$)", master):
        attempts = re.fullmatch(r"local\[[^,]*,\s*(\d+)\s*\]", master)
        return int(attempts[1]) if attempts else 1
    return int(spark.conf.get("spark.task.maxFailures", str(_ATTEMPTS)) or _ATTEMPTS)


def session_there() -> SparkSession | None:
    """Return the session that there is already; None where there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        return None


@contextmanager
def _built(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Have PySpark build a session, and stop it."""
    from pyspark.sql import SparkSession

    with spark_errors():
        spark = SparkSession.builder.config(map=dict(settings)).getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _launched(master: str, options: SparkOptions) -> Iterator[SparkSession]:
    """Start a JVM and a session in it, and stop both."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _require_java()
    local = master.startswith("local")
    conf = SparkConf(loadDefaults=False)
    for key, value in {**(_LOCAL_SETTINGS if local else _OWN_SETTINGS), **options.conf}.items():
        conf.set(key, value)
    conf.set("spark.master", _with_retries(master))
    with _log(options) as log, ExitStack() as stack:
        named = None if log is None else log.name
        if named is not None:
            stack.enter_context(quiet())
        # Spark's errors ask the JVM what they say, so they are translated before it goes.
        starting = stage(None, f"Starting Spark on {master}")
        changes = _launch_environment(local, options.conf)
        with (
            starting,
            spark_errors(named),
            _properties(conf.getAll()) as file,
            _environment({**changes, **_submit(file)}),
        ):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)  # the fork becomes a JVM
                # Not ``SparkSession.builder``: the JVM that it starts writes to our stdout and stderr, cannot be ended
                # before this process, and is not started at all where SPARK_REMOTE names a server.
                gateway = launch_gateway(None, {"stdout": log or sys.__stderr__, "stderr": log})
            stack.callback(_end, gateway)
            spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
        with spark_errors(named):
            try:
                yield spark
            finally:
                spark.stop()


@contextmanager
def _properties(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Give a file of settings that only this user can read: on a command line, everybody sees what is secret."""
    with tempfile.TemporaryDirectory(prefix="lancens-spark-") as folder:
        file = Path(folder, "spark.properties")
        # Escaped as Java reads it: no key or value ends before its end, and none is split at another place.
        lines = (f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings)
        file.touch(0o600)
        file.write_text("".join(lines), "ascii")
        yield str(file)


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _submit(file: str) -> Mapping[str, str]:
    """Return what has ``spark-submit`` read ``file`` beside its defaults, and then what the user tells it."""
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    return {"PYSPARK_SUBMIT_ARGS": f"--properties-file {shlex.quote(file)} --load-spark-defaults {given}"}


def _end(gateway: Any) -> None:
    """Let the JVM go, which ends when nobody can write to it any more, and let PySpark forget it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway.shutdown()
    # PySpark keeps one JVM for the whole life of a process and has no public way to forget it: ``stop`` ends the
    # session alone and, when the JVM has crashed, not even that. Without this, the next session of this process would
    # talk to a JVM that is gone, and a later one could not have other settings for its JVM, such as its memory.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def _with_retries(master: str) -> str:
    """Return ``master`` with a number of attempts, which Spark does not take for a local one unless it is told."""
    match = re.fullmatch(r"local(?:\[\s*([^,\]]+?)\s*\])?", master)
    return master if match is None else f"local[{match[1] or 1},{_ATTEMPTS}]"


@contextmanager
def _log(options: SparkOptions) -> Iterator[IO[bytes] | None]:
    """Give a file for Spark's log, kept when an error names it; None where the log is to be seen."""
    if options.show_log:
        yield None
        return
    named = False
    with tempfile.NamedTemporaryFile(prefix="lancens-spark-", suffix=".log", delete=False) as log:
        try:
            yield log
        except LancensError as error:
            named = log.name in str(error)
            raise
        finally:
            if not named:
                Path(log.name).unlink(missing_ok=True)


def _launch_environment(local: bool, conf: Mapping[str, str]) -> dict[str, str | None]:
    """Return what the JVM finds changed in its environment, None being what it does not find at all.

    The Pythons that it starts import from where this process does: from the current folder only if somebody says so,
    and if this one takes nothing from its environment (``python -I``), they take nothing from it either. On this
    machine they are this very Python, unless something else is configured.

    PySpark takes the Python of the executors from the environment alone: ``spark.pyspark.python`` is read by the script
    ``spark-submit``, which did not start this process. What it names may be there on the executors only.
    """
    isolated = sys.flags.ignore_environment
    changes: dict[str, str | None] = {name: None for name in os.environ if name.startswith("PYTHON") and isolated}
    if not isolated and (path := os.environ.get("PYTHONPATH")):
        changes["PYTHONPATH"] = os.pathsep.join(filter(None, path.split(os.pathsep)))  # "" is the current folder
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
    """Return where the Spark of PySpark is, which looks first in the folder above the current one if left alone."""
    import pyspark

    package = Path(pyspark.__file__).parent
    places = (package / "spark-distribution", package, package.parent.parent)
    return next((place for place in places if (place / "bin/spark-submit").is_file()), package)


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change the environment of this process for the block."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# ---- what Spark needs ------------------------------------------------------------------------------------------------


def _require_packages() -> None:
    """Raise a MissingExtraError when PySpark is not installed, or a LancensError when it is too old."""
    if find_spec("pyspark") is None or find_spec("pandas") is None:  # PySpark takes no Arrow without pandas
        raise MissingExtraError("Spark", "spark")
    import pyspark

    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if found < _OLDEST_PYSPARK:
        oldest = ".".join(map(str, _OLDEST_PYSPARK))
        raise LancensError(
            f"PySpark {pyspark.__version__} is too old, lancens needs {oldest}: "
            f"pip install -U '{installed_as()}[spark]'"
        )


def _require_connect() -> None:
    """Raise a LancensError when what Spark Connect needs is not installed; PySpark itself may just exit then."""
    try:
        found = all(map(find_spec, _CONNECT_PACKAGES))
    except ModuleNotFoundError:  # of the package around it
        found = False
    if not found:
        raise LancensError(
            f"Spark Connect needs packages that are not installed: pip install 'pyspark[connect]=={version('pyspark')}'"
        )


def _require_answer(url: str) -> None:
    """Raise a LancensError when nobody answers at ``url``, which Spark Connect would try for many minutes."""
    place = urlsplit(url)
    try:
        host, port = place.hostname or "", place.port or _CONNECT_PORT
    except ValueError:
        raise LancensError("--master is not an address of Spark Connect: expected sc://HOST:PORT") from None
    if getproxies():
        return
    try:
        socket.create_connection((host, port), _SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise LancensError(f"no Spark Connect server answers at {host}:{port}: {error.strerror or error}") from None


def _require_java() -> None:
    """Raise a LancensError when there is no Java that Spark can run in."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin/java")) if home else shutil.which("java")
    advice = f"install Java {_OLDEST_JAVA} or 21 and set JAVA_HOME to it, or name a server with --master sc://HOST"
    if java is None:
        raise LancensError(f"Spark needs Java, and there is no `java` on the PATH: {advice}")
    try:
        # What it prints begins with: openjdk version "17.0.15" 2025-04-15
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        raise LancensError(f"Spark needs Java, and {java} does not run: {advice}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is not None and int(found[1]) < _OLDEST_JAVA:
        raise LancensError(f"Spark needs Java {_OLDEST_JAVA}, and {java} is Java {found[1]}: {advice}")
