"""Every client on every catalog: how each is connected, what is tried in `make test`, and what is refused and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import reconciler
from tests.clients.catalogs import CATALOGS, Catalog
from tests.clients.in_python import LanceDb, Pylance
from tests.clients.spark import SparkSession, SparkSql
from tests.clients.walk import OPERATIONS, Client, Result, walk
from tests.server.command import started

__all__ = ["ALL", "CLIENTS", "REFUSALS", "SAMPLE", "Refusal", "Trial", "outcome", "refusal_of", "serving", "tried"]

LANCEDB, LANCEDB_SERVED = "LanceDB, in process", "LanceDB, through `serve`"
PYLANCE, PYLANCE_SERVED = "pylance, in process", "pylance, through `serve`"
SPARK = "lance-spark, through `serve`"
CLIENTS = (LANCEDB, LANCEDB_SERVED, PYLANCE, PYLANCE_SERVED, SPARK)
_IN_PROCESS = (LANCEDB, PYLANCE)


@dataclass(frozen=True, slots=True)
class Trial:
    """One client on one catalog."""

    catalog: str
    client: str

    def __str__(self) -> str:
        return f"{self.client}-{self.catalog}"


ALL = tuple(Trial(catalog, client) for catalog in CATALOGS for client in CLIENTS)
SAMPLE = (
    *(Trial(catalog, client) for catalog in ("memory", "dir", "rest", "Glue") for client in _IN_PROCESS),
    Trial("dir", LANCEDB_SERVED),
    Trial("dir", SPARK),
    Trial("rest", PYLANCE_SERVED),
    Trial("Hive 2.3", PYLANCE_SERVED),
    Trial("Hive 4.1", LANCEDB),  # whose backend is that of 3.1
    Trial("Hive 4.1", LANCEDB_SERVED),
    Trial("Iceberg REST", LANCEDB_SERVED),
    Trial("Iceberg REST", PYLANCE),
    Trial("Unity", LANCEDB),
    Trial("Unity", PYLANCE_SERVED),
)
"""What `make test` tries: everything in this process where that is cheap, one or two clients on what runs in a JVM."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operation that cannot be, on the catalogs and with the clients named here.

    ``message`` is a pattern for what the user reads, ``note`` what the page says: why, and what to do.
    """

    operation: str
    clients: Sequence[str]
    catalogs: Sequence[str]
    message: str
    note: str


_PYTHON = (LANCEDB, LANCEDB_SERVED, PYLANCE, PYLANCE_SERVED)
REFUSALS = (
    Refusal(
        "drop",
        _PYTHON,
        tuple(CATALOGS),
        r"drop_table would delete data; use deregister_table",
        "Their `drop_table` deletes data: call `deregister_table` on the namespace client (LanceDB: "
        "`db.namespace_client()`). It removes the entry and leaves the data, as lance-spark's `DROP TABLE` does.",
    ),
    Refusal(
        "rename",
        _PYTHON,
        ("rest", "Glue", "Unity"),
        r"cannot be renamed to .* in place; register it under the new name and deregister it under the old one",
        "The service renames no table: `register_table` under the new name, then `deregister_table` the old one, or "
        "use `moved` in a manifest.",
    ),
    Refusal(
        "rename",
        (SPARK,),
        tuple(CATALOGS),
        r"Table renaming is not supported",
        "lance-spark 0.4.0 renames no table: rename with another client, or with `moved` in a manifest.",
    ),
)


def refusal_of(trial: Trial, operation: str) -> Refusal | None:
    """Return why an operation is refused, None where it is to work."""
    return next(
        (
            refusal
            for refusal in REFUSALS
            if refusal.operation == operation and trial.client in refusal.clients and trial.catalog in refusal.catalogs
        ),
        None,
    )


def outcome(trial: Trial, results: Sequence[Result]) -> list[str]:
    """Return what is wrong with the results of a trial: refusals in other words, or where none was to be."""
    wrong = []
    for result in results:
        expected = refusal_of(trial, result.operation)
        if expected is None and result.refusal is not None:
            wrong.append(f"{result.operation} was refused: {result.refusal}")
        elif expected is not None and result.refusal is None:
            wrong.append(f"{result.operation} works; its refusal can go from tests/clients/trials.py")
        elif expected is not None and not re.search(expected.message, result.refusal or "", re.DOTALL):
            wrong.append(f"{result.operation} was refused in other words: {result.refusal}")
    assert [result.operation for result in results] == list(OPERATIONS)
    return wrong


@contextmanager
def serving(catalog: Catalog, directory: Path) -> Iterator[str]:
    """Run ``lancens serve`` over the catalog until the block ends; yields its address."""
    config = [word for key, value in catalog.config.items() for word in ("--config", f"{key}={value}")]
    with started("--impl", catalog.impl, *config, folder=directory) as (_, url):
        yield url


def tried(trial: Trial, catalog: Catalog, url: str, spark: SparkSession | None) -> list[Result]:
    """Return the results of a trial; ``url`` is the server's, ``spark`` what runs where the client is lance-spark."""
    return walk(_client(trial.client, catalog, url, spark), catalog.new_namespace())


def _client(name: str, catalog: Catalog, url: str, spark: SparkSession | None) -> Client:
    if name == SPARK:
        assert spark is not None
        return SparkSql(spark, url)
    reconciler.register_impls()
    make = LanceDb if name in (LANCEDB, LANCEDB_SERVED) else Pylance
    return make(f"lancens.{catalog.impl}", catalog.config) if name in _IN_PROCESS else make("rest", {"uri": url})
