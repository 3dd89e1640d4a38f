"""A directory on a disk in memory, with every write of catalog and storage in a ledger."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from reconciler import storage
from reconciler.backends.dir.listing import Directory as Listing
from reconciler.backends.dir.manifest import DirManifest
from tests.torture.recorded import Recorded
from tests.torture.targets.base import Room
from tests.torture.targets.directory import Directory
from tests.unit.applier.world import Ledger

__all__ = ["DirectoryInMemory"]

_WRITES = (
    *((DirManifest, name) for name in ("commit", "end_cleanup")),
    *((Listing, name) for name in ("_write_marker", "unmark")),
    *((storage, name) for name in ("create_empty", "add_columns", "evolve_columns", "annotate_columns", "write_tags")),
    *((storage, name) for name in ("compact", "build_index", "optimize_index")),
)


class DirectoryInMemory(Directory, Recorded):
    """A `dir` catalog. It has one room at a time, whose moments are copies of its files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ledger = Ledger()
        self._room: Room | None = None
        self._copies = 0

    def room(self) -> Room:
        self.ledger.revive()
        self._room = super().room()
        return self._room

    @property
    def _lake(self) -> Path:
        assert self._room is not None
        return self._room.lake

    @property
    def moment(self) -> Path:
        self._copies += 1
        return Path(shutil.copytree(self._lake, self._lake.parent / f"moment{self._copies}"))

    def go_back(self, moment: Any) -> None:
        shutil.rmtree(self._lake)
        shutil.copytree(moment, self._lake)

    @contextmanager
    def installed(self) -> Iterator[None]:
        with ExitStack() as stack:
            for holder, name in _WRITES:
                recorded = _recorded(self.ledger, name.strip("_"), getattr(holder, name))
                stack.enter_context(mock.patch.object(holder, name, recorded))
            yield


def _recorded(ledger: Ledger, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``write``, each call of which is in the ledger."""

    def record(*args: Any, **kwargs: Any) -> Any:
        return ledger.write(name, lambda: write(*args, **kwargs))

    return record
