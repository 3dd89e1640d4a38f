"""The servers, each with its own way of being filled and read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from tests.torture.targets.base import Target
from tests.torture.targets.directory import directory, directory_in_s3
from tests.torture.targets.glue import glue
from tests.torture.targets.hive import hive
from tests.torture.targets.iceberg import apache, nessie
from tests.torture.targets.lance_rest import serve
from tests.torture.targets.unity import unity, unity_stand_in

__all__ = ["SERVERS", "WITHOUT_REGISTRY"]

SERVERS: dict[str, Callable[[Path], AbstractContextManager[Target]]] = {
    "hive-3.1": partial(hive, "3.1"),
    "hive-4.1": partial(hive, "4.1"),
    "iceberg": apache,
    "nessie": nessie,
    "glue": glue,
    "unity": unity,
    "unity-stand-in": unity_stand_in,
    "serve": serve,
    "dir-s3": directory_in_s3,
    "dir": directory,
}
"""How each server is started, by its name on the command line; each takes a folder of its own."""

WITHOUT_REGISTRY = frozenset({"unity"})
"""Those that no registry has: skipped where nobody names one that is there."""
