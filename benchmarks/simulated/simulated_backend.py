"""Simulate a catalog and its storage of any size, computed on each read.

It has as many tables as its config says, 1,000 in a namespace. One in 1,000 lacks a property, and beside each
namespace's tables is a dataset without an entry. The datasets are ``LEVELS`` directories below the root.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from reconciler.backends.base import snapshot_within
from reconciler.backends.memory import MemoryBackend, MemoryConfig
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, Snapshot, StorageKind
from reconciler.model.names import EVERYTHING, Identifier, Scope

ROOT = "/simulated/lake"
TABLES_A_NAMESPACE = 1_000
LEVELS = int(os.environ.get("SIMULATED_LEVELS", "2"))
_BETWEEN = "".join(f"/d{level}" for level in range(LEVELS - 2))
_COMMITTED = datetime.now(UTC)


class SimulatedConfig(MemoryConfig):
    """``tables`` is the number of tables."""

    tables: int

    def identity(self) -> str:
        return ROOT


class SimulatedBackend(MemoryBackend):
    """A catalog that computes its namespaces and tables on each read."""

    impl = "simulated"
    config_model = SimulatedConfig  # type: ignore[assignment]  # made with another key
    config: SimulatedConfig
    in_process = False

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``."""
        spaces = [LiveNamespace((name,)) for name in self.child_namespaces(()) if _is_relevant(scope, (name,))]
        tables = (table for space in spaces if scope.reaches(space.id) for table in self._tables(space.id[0]))
        return snapshot_within(scope, spaces, tables)

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace, which exists."""
        return LiveNamespace(identifier)

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the namespaces."""
        return [] if parent else [f"n{number:06}" for number in range(-(-self.config.tables // TABLES_A_NAMESPACE))]

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the tables in ``parent``."""
        return [table.id[1] for table in self._tables(parent[0])] if parent else []

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return no table of another format."""
        return []

    def roots(self) -> tuple[str, ...]:
        """Return the only root."""
        return (ROOT,)

    def _tables(self, namespace: str) -> list[LiveTable]:
        return [
            LiveTable((namespace, name), f"{ROOT}/{namespace}{_BETWEEN}/{name}", {"tier": "gold"} if number else {})
            for number, name in enumerate(_names(namespace, self.config.tables))
        ]


def _is_relevant(scope: Scope, identifier: Identifier) -> bool:
    return scope.contains(identifier) or scope.reaches(identifier)


def _names(namespace: str, tables: int) -> list[str]:
    first = int(namespace[1:]) * TABLES_A_NAMESPACE
    return [f"t{number:08}" for number in range(first, min(first + TABLES_A_NAMESPACE, tables))]


def simulate(tables: int) -> None:
    """Replace storage in this process by that of a catalog of ``tables`` tables."""
    from reconciler import storage
    from reconciler.auditor import storage_probe
    from reconciler.auditor.records import LocationContent
    from reconciler.storage import DirectoryContent

    spaces = tuple(f"{ROOT}/n{number:06}" for number in range(-(-tables // TABLES_A_NAMESPACE)))

    counted = _counter("directories"), _counter("versions"), _counter("probes")

    def classify_directory(directory: str, _options: Mapping[str, str]) -> DirectoryContent:
        counted[0]()
        names = directory.removeprefix(ROOT).strip("/").split("/")
        if names == [""]:
            return DirectoryContent(is_dataset=False, below=spaces)
        if len(names) >= LEVELS:
            return DirectoryContent(is_dataset=True)
        below = (*_names(names[0], tables), "lost") if len(names) == LEVELS - 1 else (f"d{len(names) - 1}",)
        return DirectoryContent(is_dataset=False, below=tuple(f"{directory}/{name}" for name in below))

    sound = LocationContent(
        StorageKind.DATASET, version=7, rows=1_000_000, bytes=2**30, fragments=8, committed=_COMMITTED
    )
    setattr(storage, "classify_directory", classify_directory)  # noqa: B010 - not the signature that mypy knows
    setattr(storage, "latest_state", lambda *_: counted[1]() and "7")  # noqa: B010
    setattr(storage_probe, "probe", lambda *_: counted[2]() and sound)  # noqa: B010


def _counter(calls: str) -> Callable[[], int]:
    """Return a function that adds a byte to a file, which counts the calls of all processes."""
    file = os.open(Path(os.environ["SIMULATED_CALLS"], calls), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return lambda: os.write(file, b".")
