"""Find backends by name among the entry points of the group ``lancens.backends``.

An entry point names a :class:`~reconciler.backends.base.Backend` and, in brackets, the extra with the packages that it
needs: ``glue = "reconciler.backends.glue:GlueBackend [glue]"``. Backends import those packages in their constructor, so
that ``backend_class`` works without them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import TYPE_CHECKING

from reconciler.model.display import did_you_mean
from reconciler.model.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from reconciler.backends.base import Backend


GROUP = "lancens.backends"

_OTHER_NAMES: Mapping[tuple[str, ...], str] = {
    (
        "hive",
        "hms",
        "metastore",
        "hive_metastore",
        "hive-metastore",
        "thrift",
        "hive4",
        "dataproc",
        "emr",
        "hdinsight",
    ): (
        "`hive2` for databases of a Hive Metastore 2, 3 or 4 (the specification's `hive`), or `hive3` for those of "
        "Hive 3 and 4 in catalogs"
    ),
    ("databricks", "uc", "unity_catalog", "unity-catalog", "unitycatalog"): "`unity`",
    ("aws", "aws_glue", "aws-glue", "glue_catalog", "athena", "lakeformation"): "`glue`",
    (
        "s3",
        "gcs",
        "gs",
        "azure",
        "abfss",
        "minio",
        "local",
        "file",
        "filesystem",
        "fs",
        "directory",
        "folder",
        "path",
    ): ("`dir`, whose `root` is a folder or a bucket"),
    (
        "polaris",
        "nessie",
        "gravitino",
        "lakekeeper",
        "snowflake",
        "s3tables",
        "s3-tables",
        "biglake",
        "iceberg-rest",
        "iceberg_rest",
    ): ("`iceberg`, which speaks to every Iceberg REST catalog"),
    (
        "lancedb",
        "lance",
        "http",
        "https",
        "lance-rest",
        "lance_rest",
    ): "`rest`, which speaks to every Lance REST server",
}
"""What to write for other names of the services."""


def names() -> list[str]:
    """Return the valid values of ``impl``, sorted."""
    return sorted({entry.name for entry in registered_points(tuple(sys.path))})


def backend_class(impl: str) -> type[Backend]:
    """Return the backend class of ``impl``.

    Raises:
        ConfigError: no backend of this name is installed.
        MissingExtraError: it needs an extra that is not installed.
    """
    entry = _entry(impl)
    with _naming_missing_extra(entry):
        loaded = entry.load()
    from reconciler.backends.base import Backend

    if not (isinstance(loaded, type) and issubclass(loaded, Backend)):
        raise ConfigError(f"impl `{impl}`: {entry.value} is not a subclass of reconciler.backends.base.Backend")
    return loaded


def connect(impl: str, properties: Mapping[str, str]) -> Backend:
    """Return a new connection with ``properties``; it sends no request yet.

    Raises:
        ConfigError, MissingExtraError: see :func:`backend_class`.
        InvalidInputError: ``properties`` are incomplete or invalid; the text names every error.
    """
    cls = backend_class(impl)
    with _naming_missing_extra(_entry(impl)):
        return cls(**properties)


@cache
def registered_points(path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of backends on ``path``, a copy of ``sys.path``.

    Cached, because a search opens the metadata of every installed package.
    """
    del path  # only the key of the cache: entry_points reads sys.path itself
    return entry_points(group=GROUP)


def _entry(impl: str) -> EntryPoint:
    for entry in registered_points(tuple(sys.path)).select(name=impl):
        return entry
    known = names()
    other_name = next((hint for others, hint in _OTHER_NAMES.items() if impl.lower() in others), None)
    if other_name is not None:
        raise ConfigError(f"unknown impl `{impl}`: write {other_name}")
    hint = f"{did_you_mean(impl.lower(), known)} installed: {', '.join(known)}".lstrip()
    raise ConfigError(f"unknown impl `{impl}`; {hint}")


@contextmanager
def _naming_missing_extra(entry: EntryPoint) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        if entry.extras:
            raise MissingExtraError(f"impl `{entry.name}`", entry.extras[0]) from error
        raise ConfigError(f"impl `{entry.name}` ({entry.value}) cannot be loaded: {error}") from error
