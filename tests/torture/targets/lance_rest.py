"""``lancens serve`` with ``impl: rest`` in front of it; what is behind it, a directory, is read as files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reconciler.backends.dir import DirBackend
from tests.catalogs.hive.files import digests
from tests.servers.fault_proxy import JSON_FAULTS
from tests.servers.lance_rest import served
from tests.torture.targets.base import CANARY, STORAGE_SECRET, Abilities, Path_, Room
from tests.torture.targets.directory import Directory

__all__ = ["SecondServe", "Serve", "serve", "serve_beside"]

_TOKEN = f"{CANARY}-token-8c21f0a7d4"


class Serve(Directory):
    """Namespaces of one root whose names begin with the room's."""

    name = "serve + rest"
    impl = "rest"
    abilities = replace(Directory.abilities, releases=())
    faults = JSON_FAULTS
    writes = re.compile(r"^POST .*(/create|/declare|/register|/deregister|/drop|/alter|Alter\w+)($|\?)", re.IGNORECASE)

    def __init__(self, folder: Path, root: Path, url: str) -> None:
        super().__init__(folder)
        self._root, self._url = root, url

    @property
    def port(self) -> int:
        return urlsplit(self._url).port or 0

    def lake_of(self, token: str) -> Path:
        return self._root / f"_{token}_data"

    def root(self, room: Room) -> str:
        return str(self._root)

    def _is_of(self, room: Room, object_id: str) -> bool:
        return object_id.startswith(room.token)

    def files(self, room: Room) -> Mapping[str, str]:
        """Return what is below the root in directories of the room's, wherever they stand."""
        found = {name: digest for name, digest in digests(self._root).items() if self.is_data(name)}
        return {name: digest for name, digest in found.items() if room.token in name}

    def identifier(self, room: Room, path: Path_) -> Path_:
        return (f"{room.token}_{path[0]}", *path[1:])

    def scope(self, room: Room) -> list[str]:
        return [f"{room.token}_*", f"{room.token}_*/**"]

    def config(self, room: Room) -> Mapping[str, Any]:
        return {
            "uri": "http://127.0.0.1:${var:port}",
            "auth_token": _TOKEN,
            "root": str(self._root),
            "read_timeout": "${var:patience}",
            **STORAGE_SECRET,
        }


class SecondServe(Serve):
    """A server beside another catalog, over a directory that has the data of all rooms."""

    abilities = Abilities(depth=2, foreign=False, names_locations=True, data_first=False)


@contextmanager
def serve(folder: Path) -> Iterator[Serve]:
    """Run lancens' server over a directory."""
    root = folder / "root"
    root.mkdir()
    with _serving(root) as url, serve_beside(folder) as second:
        made = Serve(folder, root, url)
        made.second = second
        yield made


@contextmanager
def serve_beside(folder: Path) -> Iterator[SecondServe]:
    """Run lancens' server over the folder of another catalog's rooms."""
    with _serving(folder) as url:
        yield SecondServe(folder, folder, url)


def _serving(root: Path) -> AbstractContextManager[str]:
    # The core collects this module, and needs no server.
    from reconciler.server.catalogs import OneCatalog
    from reconciler.server.guard import Settings, Tokens

    return served(OneCatalog(DirBackend(root=str(root))), Settings(tokens=Tokens(read_write=[_TOKEN])))
