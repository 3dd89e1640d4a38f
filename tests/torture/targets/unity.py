"""Unity Catalog, the reference server or the stand-in for it, filled through it and read over plain HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tests.servers.unity import ReferenceServer, reference_server, required_home
from tests.servers.unity_contract import API, Contract
from tests.servers.unity_contract_server import serving
from tests.torture.targets.base import STORAGE_SECRET, Abilities, Path_, Room, State, Target
from tests.torture.targets.http import Plain
from tests.torture.targets.lance_rest import serve_beside

__all__ = ["Unity", "unity", "unity_stand_in"]


class Unity(Target):
    """Release 0.6: each room is a catalog."""

    name = "unity"
    impl = "unity"
    abilities = Abilities(updates=False, relocates=False)
    writes = re.compile(r"^(POST|PATCH|DELETE) ")
    limits: ClassVar[Mapping[str, str]] = {
        "is there twice": "two creates of one name at once both succeed (docs/catalogs/unity.md)"
    }

    def __init__(self, folder: Path, server: Contract | ReferenceServer, url: str) -> None:
        super().__init__(folder)
        self.server, self._url = server, url
        self._plain = Plain(f"{url}{API}")

    @property
    def port(self) -> int:
        return urlsplit(self._url).port or 0

    def above(self, room: Room) -> Path_:
        return (room.token,)

    def config(self, room: Room) -> Mapping[str, Any]:
        return {
            "endpoint": "http://127.0.0.1:${var:port}",
            "catalog": room.token,
            "root": str(room.lake),
            "read_timeout": "${var:patience}",
            **STORAGE_SECRET,
        }

    def prepare(self, room: Room) -> None:
        self.server.add_catalog(room.token)

    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        self.server.add_schema(room.token, path[-1], **properties)

    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        self._add(room, path, f"file://{location}", "TEXT", {"table_type": "lance", **properties})

    def add_foreign(self, room: Room, path: Path_) -> None:
        self._add(room, path, f"file://{room.lake}/foreign/{path[-1]}", "CSV", {})

    def _add(self, room: Room, path: Path_, place: str, kind: str, properties: Mapping[str, str]) -> None:
        told: dict[str, Any] = {"table_type": "EXTERNAL", "data_source_format": kind, "properties": properties}
        self.server.add_table(room.token, *path, storage_location=place, **told)

    def remove(self, room: Room, path: Path_) -> None:
        self._plain("DELETE", f"/tables/{self._full_name(room, path)}")

    def place_of(self, room: Room, path: Path_) -> str:
        return str(self._plain("GET", f"/tables/{self._full_name(room, path)}")["storage_location"])

    def _full_name(self, room: Room, path: Path_) -> str:
        return ".".join(self.identifier(room, path))

    def state(self, room: Room) -> State:
        found: dict[str, Any] = {}
        for schema in self._listed("schemas", catalog_name=room.token):
            path = f"{room.token}/{schema['name']}"
            _put(found, f"namespace {path}", {"properties": schema.get("properties") or {}})
            for entry in self._listed("tables", catalog_name=room.token, schema_name=schema["name"]):
                told = {
                    "location": entry["storage_location"],
                    "type": [entry["table_type"], entry["data_source_format"]],
                    "properties": entry.get("properties") or {},
                    "columns": [f"{column['name']}: {column['type_text']}" for column in entry.get("columns") or ()],
                }
                _put(found, f"table {path}/{entry['name']}", told)
        return found

    def _listed(self, what: str, **query: str) -> list[Any]:
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        answer = self._plain("GET", f"/{what}?{asked}&max_results=0")
        assert not answer.get("next_page_token"), "a room is more than a page"
        return list(answer[what])

    def forget(self, room: Room) -> None:
        """A catalog that holds a table twice cannot be removed, and steps aside by staying."""
        self._plain("DELETE", f"/catalogs/{room.token}?force=true", may=(500,))
        super().forget(room)


def _put(found: dict[str, Any], key: str, value: object) -> None:
    while key in found:
        key += " again"
    found[key] = value


@contextmanager
def unity(folder: Path) -> Iterator[Unity]:
    """Run the server; skip where the environment names none."""
    with reference_server(required_home(), folder / "server") as server, serve_beside(folder) as second:
        made = Unity(folder, server, server.url)
        made.second = second
        yield made


@contextmanager
def unity_stand_in(folder: Path) -> Iterator[Unity]:
    """Run the stand-in, which answers as the server was recorded."""
    with serving(Contract()) as server, serve_beside(folder) as second:
        made = Unity(folder, server.contract, server.url)
        made.second = second
        yield made
