"""Checks for what Spark needs, each with an error that says what to install."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from reconciler.model.errors import LancensError, MissingExtraError, installed_as

_OLDEST_PYSPARK = (4, 1)
_OLDEST_JAVA = 17
_CONNECT_PORT = 15002
_SECONDS_TO_ANSWER = 10
_CONNECT_PACKAGES = ("grpc", "grpc_status", "google.rpc")


def require_packages() -> None:
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


def require_connect() -> None:
    """Raise a LancensError when what Spark Connect needs is not installed; PySpark itself may just exit then."""
    try:
        found = all(map(find_spec, _CONNECT_PACKAGES))
    except ModuleNotFoundError:  # of the package around it
        found = False
    if not found:
        raise LancensError(
            f"Spark Connect needs packages that are not installed: pip install 'pyspark[connect]=={version('pyspark')}'"
        )


def require_answer(url: str) -> None:
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


def require_java() -> None:
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
