"""Iceberg REST catalogs, Apache's and Nessie, filled and read over plain HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from tests.servers.iceberg import IcebergServer, iceberg_server
from tests.servers.nessie import NessieServer, nessie_server
from tests.torture.targets.base import (
    CANARY,
    STORAGE_SECRET,
    THEIR_SECRET,
    Abilities,
    Path_,
    Room,
    State,
    Target,
    datasets,
)
from tests.torture.targets.directory import SecondDirectory
from tests.torture.targets.http import Plain

__all__ = ["Apache", "Nessie", "apache", "nessie"]

_CREDENTIAL = f"lancens:{CANARY}"
_SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}]}
_VOLATILE = re.compile(r"created-at|nessie\..*")
_PAGE_SIZE = re.compile(rb"(?<=pageSize=)\d+")
_UNIQUE = re.compile(r"_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _Iceberg(Target):
    impl = "iceberg"
    writes = re.compile(r"^(POST|DELETE) (?!.*/oauth/)")

    def _plain(self, room: Room) -> Plain:
        raise NotImplementedError

    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        names = list(self.identifier(room, path)[1:])
        self._plain(room)("POST", "/namespaces", {"namespace": names, "properties": dict(properties)})

    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        self._add(room, path, {"location": location}, {"table_type": "lance", **properties})

    def add_foreign(self, room: Room, path: Path_) -> None:
        self._add(room, path, {}, {"theirs": "yes"})

    def _add(self, room: Room, path: Path_, more: Mapping[str, str], properties: Mapping[str, str]) -> None:
        body = {"name": path[-1], "schema": _SCHEMA, "stage-create": False, "properties": dict(properties), **more}
        self._plain(room)("POST", f"/namespaces/{self._route(room, path[:-1])}/tables", body)

    def _route(self, room: Room, path: Path_) -> str:
        return "%1F".join(quote(name, safe="") for name in self.identifier(room, path)[1:])

    def change(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        self._update(room, path, {"action": "set-properties", "updates": dict(properties)})

    def point(self, room: Room, path: Path_, place: str) -> None:
        self._update(room, path, {"action": "set-location", "location": place})

    def describe(self, room: Room, path: Path_) -> None:
        self.change(room, path, THEIR_SECRET)

    def _update(self, room: Room, path: Path_, *updates: Mapping[str, Any]) -> None:
        self._plain(room)("POST", self._table_route(room, path), {"requirements": [], "updates": updates})

    def remove(self, room: Room, path: Path_) -> None:
        self._plain(room)("DELETE", f"{self._table_route(room, path)}?purgeRequested=false")

    def place_of(self, room: Room, path: Path_) -> str:
        return str(self._plain(room)("GET", self._table_route(room, path))["metadata"]["location"])

    def _table_route(self, room: Room, path: Path_) -> str:
        return f"/namespaces/{self._route(room, path[:-1])}/tables/{quote(path[-1], safe='')}"

    def state(self, room: Room) -> State:
        found: dict[str, Any] = {}
        for names in self._namespaces(room, ()):
            told = self._plain(room)("GET", f"/namespaces/{'%1F'.join(names)}")
            properties = {key: value for key, value in told["properties"].items() if not _VOLATILE.fullmatch(key)}
            path = "/".join((self._warehouse(room), *names))
            found[f"namespace {path}"] = properties
            listed = self._plain(room)("GET", f"/namespaces/{'%1F'.join(names)}/tables?pageToken=&pageSize=1000")
            for entry in listed["identifiers"]:
                key = f"table {path}/{entry['name']}"
                found[key if key not in found else f"{key} again"] = self._table(room, names, entry["name"])
        return found

    def _namespaces(self, room: Room, parent: Path_) -> Iterator[Path_]:
        query = {"pageToken": "", "pageSize": "1000", **({"parent": "\x1f".join(parent)} if parent else {})}
        for names in self._plain(room)("GET", f"/namespaces?{urlencode(query)}")["namespaces"]:
            if self._is_of(room, names):
                yield tuple(names)
                yield from self._namespaces(room, tuple(names))

    def _table(self, room: Room, names: Path_, name: str) -> Mapping[str, Any]:
        metadata = self._plain(room)("GET", f"/namespaces/{'%1F'.join(names)}/tables/{quote(name, safe='')}")[
            "metadata"
        ]
        return {
            "location": _UNIQUE.sub("_UNIQUE", metadata["location"]),
            "properties": {
                key: _UNIQUE.sub("_UNIQUE", value)
                for key, value in metadata["properties"].items()
                if not _VOLATILE.fullmatch(key)
            },
            "columns": [f"{field['name']}: {field['type']}" for field in metadata["schemas"][-1]["fields"]],
            "kept": {
                "format": metadata["format-version"],
                **{key: metadata.get(key) for key in ("partition-specs", "default-spec-id", "sort-orders")},
                **{f"column {one['name']}": one.get("doc") for one in metadata["schemas"][-1]["fields"]},
            },
        }

    def _warehouse(self, room: Room) -> str:
        raise NotImplementedError

    def _is_of(self, room: Room, names: list[str]) -> bool:
        raise NotImplementedError


class Apache(_Iceberg):
    """Apache's adapter, behind a login: each room is a warehouse of its own."""

    name = "iceberg"
    abilities = Abilities(depth=2, known_places=False, data_first=False)
    can_be_pointed = True

    def __init__(self, folder: Path, server: IcebergServer) -> None:
        super().__init__(folder)
        self.server = server

    @property
    def port(self) -> int:
        return urlsplit(self.server.url).port or 0

    @cached_property
    def _token(self) -> str:
        client, _, secret = _CREDENTIAL.partition(":")
        form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}
        answer = urllib3.request("POST", f"{self.server.url}/v1/oauth/tokens?{urlencode(form)}", timeout=30)
        return str(answer.json()["access_token"])

    def _plain(self, room: Room) -> Plain:
        return Plain(f"{self.server.url}/v1/{room.token}", Authorization=f"Bearer {self._token}")

    def _warehouse(self, room: Room) -> str:
        return room.token

    def _is_of(self, room: Room, names: list[str]) -> bool:
        return True

    def above(self, room: Room) -> Path_:
        return (room.token,)

    def prepare(self, room: Room) -> None:
        """A warehouse is there once it is named."""

    def describe(self, room: Room, path: Path_) -> None:
        """Give an entry comments, a partition spec and a sort order, too; Nessie refuses these updates."""
        super().describe(room, path)
        metadata = self._plain(room)("GET", self._table_route(room, path))["metadata"]
        schema = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
        fields = [{**field, "doc": "the key"} for field in schema["fields"]]
        key = {"source-id": fields[0]["id"], "transform": "identity"}
        order = {"order-id": 1, "fields": [{**key, "direction": "desc", "null-order": "nulls-last"}]}
        self._update(
            room,
            path,
            {"action": "add-schema", "schema": {**schema, "fields": fields}},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 1, "fields": [{**key, "name": "part"}]}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": order},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        )

    def edit(self, request: bytes) -> bytes:
        """Ask for small pages, so that every list has some."""
        return _PAGE_SIZE.sub(b"2", request)

    def config(self, room: Room) -> Mapping[str, Any]:
        return {
            "endpoint": "http://127.0.0.1:${var:port}",
            "credential": _CREDENTIAL,
            "root": str(room.lake),
            "read_timeout": "${var:patience}000",
            **STORAGE_SECRET,
        }


class Nessie(_Iceberg):
    """Nessie with moto as its S3: a room is a namespace of the one warehouse, which chooses where tables are."""

    name = "nessie"
    abilities = Abilities(depth=2, relocates=False, registers=False, known_places=False, data_first=False)

    def __init__(self, folder: Path, server: NessieServer) -> None:
        super().__init__(folder)
        self.server = server

    @property
    def port(self) -> int:
        return urlsplit(self.server.url).port or 0

    def _plain(self, room: Room) -> Plain:
        return Plain(f"{self.server.url}/v1/main%7C{self.server.warehouse}")

    def _warehouse(self, room: Room) -> str:
        return self.server.warehouse

    def _is_of(self, room: Room, names: list[str]) -> bool:
        return bool(names[0] == room.token)

    def above(self, room: Room) -> Path_:
        return (self.server.warehouse, room.token)

    def scope(self, room: Room) -> list[str]:
        return [self.server.warehouse, *super().scope(room)]

    def prepare(self, room: Room) -> None:
        self._plain(room)("POST", "/namespaces", {"namespace": [room.token], "properties": {}})

    def config(self, room: Room) -> Mapping[str, Any]:
        return {
            "endpoint": "http://127.0.0.1:${var:port}/iceberg",
            "root": f"s3://lake/root/{room.token}",
            "read_timeout": "${var:patience}000",
            **self.server.storage,
        }

    @cached_property
    def _s3(self) -> Any:
        import boto3

        told = {key.removeprefix("storage."): value for key, value in self.server.storage.items()}
        return boto3.client(
            "s3",
            endpoint_url=told["aws_endpoint"],
            region_name=told["aws_region"],
            aws_access_key_id=told["aws_access_key_id"],
            aws_secret_access_key=told["aws_secret_access_key"],
        )

    def files(self, room: Room) -> Mapping[str, str]:
        """Return the objects below the room's namespace and root, without Iceberg's own metadata."""
        found: dict[str, str] = {}
        for prefix in (f"w/{room.token}", f"root/{room.token}"):
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=prefix):
                found |= {entry["Key"]: entry["ETag"] for entry in page.get("Contents", ())}
        return {name: digest for name, digest in found.items() if not name.endswith(".metadata.json")}

    def data(self, room: Room) -> Mapping[str, Any]:
        options = {key.removeprefix("storage."): value for key, value in self.server.storage.items()}
        found: dict[str, Any] = {}
        for name, value in datasets("s3://lake", list(self.files(room)), options).items():
            key = _UNIQUE.sub("_UNIQUE", name)
            while key in found:
                key += " again"
            found[key] = value
        return found


@contextmanager
def apache(folder: Path) -> Iterator[Apache]:
    """Run Apache's adapter."""
    with iceberg_server(folder, prefix="{warehouse}", client=_CREDENTIAL) as server:
        made = Apache(folder, server)
        made.second = SecondDirectory(folder)
        yield made


@contextmanager
def nessie(folder: Path) -> Iterator[Nessie]:
    """Run Nessie and its S3."""
    with nessie_server(folder) as server:
        yield Nessie(folder, server)
