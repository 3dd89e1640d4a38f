"""A catalog as it stands in a file: any process reads the same from it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from reconciler.backends.memory import MemoryBackend, MemoryConfig
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema
from reconciler.model.live import Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope


def freeze(path: Path, live: Snapshot, capabilities: Capabilities, foreign: Sequence[Identifier] = ()) -> None:
    """Write the file."""
    path.write_bytes(pickle.dumps((live, capabilities, foreign)))


class FrozenConfig(MemoryConfig):
    """``state`` is the file."""

    state: str

    def identity(self) -> str:
        return self.state


class FrozenBackend(MemoryBackend):
    """Starts with what the file holds; what is written stays in this process."""

    impl = "frozen"
    config_model = FrozenConfig  # type: ignore[assignment]  # made with another key
    config: FrozenConfig
    in_process = False

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        live, self.known_capabilities, foreign = pickle.loads(Path(self.config.state).read_bytes())  # noqa: S301 - our own
        self._notes, self._odd = live.notes, live.odd
        for namespace in sorted(live.namespaces.values(), key=lambda namespace: len(namespace.id)):
            self.insert_namespace(namespace.id, namespace.properties)
        for table in live.tables.values():
            self.insert_table(table.id, table.location, table.properties)
        for identifier in foreign:
            self.add_foreign(identifier)

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``, and all notes."""
        odd = {identifier: entry for identifier, entry in self._odd.items() if scope.contains(identifier)}
        return replace(super().scan(scope), notes=self._notes, odd=odd)

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return how many columns there are."""
        return [f"{sum(map(len, schemas))} columns are new here"]
