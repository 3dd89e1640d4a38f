"""``impl: memory`` with a canary tour around it: its commands run in the process of the test."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from reconciler.backends.memory import MemoryBackend
from tests.torture.targets.base import Abilities, Path_, Room, State, Target

__all__ = ["in_memory"]


class _InMemory(Target):
    """A catalog of a name for each room. Nothing is sent anywhere."""

    name: ClassVar[str] = "memory"
    impl: ClassVar[str] = "memory"
    abilities: ClassVar[Abilities] = Abilities(depth=2, foreign=False, root_tables=True)
    writes: ClassVar[re.Pattern[str]] = re.compile("(?!)")

    @property
    def port(self) -> int:
        return 0

    def above(self, room: Room) -> Path_:
        return ()

    def config(self, room: Room) -> Mapping[str, Any]:
        return {"name": room.token, "root": str(room.lake)}

    def scope(self, room: Room) -> Sequence[str]:
        return ["**"]

    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        MemoryBackend(name=room.token).insert_namespace(path, properties)

    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        MemoryBackend(name=room.token).insert_table(path, location, properties)

    def remove(self, room: Room, path: Path_) -> None:
        MemoryBackend(name=room.token).remove_table(path)

    def place_of(self, room: Room, path: Path_) -> str:
        return MemoryBackend(name=room.token).load_table(path).location

    def state(self, room: Room) -> State:
        found = MemoryBackend(name=room.token).scan()
        return {"/".join(path): table.location for path, table in found.tables.items()}


@contextmanager
def in_memory(folder: Path) -> Iterator[Target]:
    """A process is all it takes."""
    yield _InMemory(folder)
