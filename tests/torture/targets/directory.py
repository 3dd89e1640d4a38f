"""``impl: dir``, on this machine and in an object store; read as the files it is, with pylance for the datasets."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

from tests.servers.fault_proxy import Fault
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
    insist,
    write_versions,
)

__all__ = ["Directory", "DirectoryInS3", "SecondDirectory", "directory", "directory_in_s3"]

_MANIFEST = "__manifest"
_OLD = Path(__file__).parents[2] / "old_data"
_HASH = re.compile(r"\b[0-9a-f]{8}_(?=\S*\$)")
_REQUIRED = ("object_id", "object_type", "location", "metadata")


class Directory(Target):
    """A directory on this machine, one for each room. Nothing stands between it and lancens: only kills disturb it."""

    name: ClassVar[str] = "dir"
    impl: ClassVar[str] = "dir"
    faults: ClassVar[Sequence[Fault]] = ()
    abilities: ClassVar[Abilities] = Abilities(
        depth=2, foreign=False, root_tables=True, data_first=False, releases=("1.0.0", "4.0.0")
    )
    writes: ClassVar[re.Pattern[str]] = re.compile(r"^(PUT|POST|DELETE) ")

    @property
    def port(self) -> int:
        return 0

    def root(self, room: Room) -> str:
        """Return where a room's catalog is."""
        return str(room.lake)

    def above(self, room: Room) -> Path_:
        return ()

    def config(self, room: Room) -> Mapping[str, Any]:
        return {"root": self.root(room), **STORAGE_SECRET}

    def scope(self, room: Room) -> Sequence[str]:
        return ["**"]

    def unpack(self, room: Room, release: str) -> None:
        with tarfile.open(_OLD / f"directory-{release}.tar.xz") as packed:
            packed.extractall(room.lake, filter="data")

    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        from lance_namespace import CreateNamespaceRequest

        names = self.identifier(room, path)
        request = CreateNamespaceRequest(id=list(names))
        insist(lambda: self._namespace(room).create_namespace(request), done="already exists")
        self._set_properties(room, names, properties)

    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        from lance_namespace import RegisterTableRequest

        names = self.identifier(room, path)
        relative = location.removeprefix(self.root(room)).lstrip("/")
        request = RegisterTableRequest(id=list(names), location=relative)
        insist(lambda: self._namespace(room).register_table(request), done="already exists")
        self._set_properties(room, names, properties)

    def _namespace(self, room: Room) -> Any:
        import lance_namespace

        storage = {f"storage.{key}": value for key, value in self.options().items()}
        return lance_namespace.connect("dir", {"root": self.root(room), **storage})

    def _set_properties(self, room: Room, names: Path_, properties: Mapping[str, str]) -> None:
        if properties:
            told = json.dumps(properties).replace("'", "''")
            which = f"object_id = '{'$'.join(names)}'"
            insist(lambda: self._rows(room).update({"metadata": f"'{told}'"}, where=which))

    def change(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        names = self.identifier(room, path)
        held = json.loads(self._row(room, names)["metadata"] or "{}")
        self._set_properties(room, names, {**held, **properties})

    def describe(self, room: Room, path: Path_) -> None:
        self.change(room, path, THEIR_SECRET)

    def remove(self, room: Room, path: Path_) -> None:
        from lance_namespace import DeregisterTableRequest

        names = list(self.identifier(room, path))
        insist(lambda: self._namespace(room).deregister_table(DeregisterTableRequest(id=names)), done="not found")

    def place_of(self, room: Room, path: Path_) -> str:
        return f"{self.root(room)}/{self._row(room, self.identifier(room, path))['location']}"

    def _row(self, room: Room, names: Path_) -> Mapping[str, Any]:
        [row] = self._rows(room).to_table(filter=f"object_id = '{'$'.join(names)}'").to_pylist()
        return cast("Mapping[str, Any]", row)

    def compact(self, room: Room) -> None:
        if self._has_manifest(room):
            insist(lambda: self._rows(room).optimize.compact_files())  # noqa: PLW0108 - each time of the newest version
            insist(lambda: self._rows(room).cleanup_old_versions(older_than=timedelta(seconds=10)))

    def _rows(self, room: Room) -> Any:
        import lance

        return lance.dataset(f"{self.root(room)}/{_MANIFEST}", storage_options=dict(self.options()) or None)

    def state(self, room: Room) -> State:
        if not self._has_manifest(room):
            return {}
        found: dict[str, Any] = {}
        for row in self._rows(room).to_table(columns=list(_REQUIRED)).to_pylist():
            if not self._is_of(room, row["object_id"]):
                continue
            key = f"{row['object_type']} {row['object_id'].replace('$', '/')}"
            while key in found:
                key += " again"
            metadata = json.loads(row["metadata"] or "{}")
            found[key] = {"location": _HASH.sub("HASH_", row["location"] or ""), "properties": metadata}
        return found

    def _has_manifest(self, room: Room) -> bool:
        return any(Path(self.root(room), _MANIFEST, "_versions").glob("*.manifest"))

    def _is_of(self, room: Room, object_id: str) -> bool:
        return True

    def data(self, room: Room) -> Mapping[str, Any]:
        return self._plain(datasets(self.root(room), list(self.files(room)), self.options()))

    @staticmethod
    def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
        return {_HASH.sub("HASH_", name): value for name, value in found.items()}


class DirectoryInS3(Directory):
    """A directory in moto's S3, behind the proxy."""

    name = "dir on S3"
    abilities: ClassVar[Abilities] = replace(Directory.abilities, releases=())
    faults = (
        Fault.RESET,
        Fault.LOST,
        Fault.CUT,
        Fault.BROKEN_OFF,
        Fault.SLOW,
        Fault.THROTTLED,
        Fault.UNAVAILABLE,
        Fault.LATER,
        Fault.BAD_GATEWAY,
    )

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder)
        self._port = port

    @property
    def port(self) -> int:
        return self._port

    def root(self, room: Room) -> str:
        return f"s3://lake/{room.token}"

    def options(self, port: str = "") -> Mapping[str, str]:
        return {
            "aws_endpoint": f"http://127.0.0.1:{port or self._port}",
            "aws_access_key_id": "AKIDEXAMPLE",
            "aws_secret_access_key": f"{CANARY}-of-s3",
            "aws_region": "us-east-1",
            "allow_http": "true",
            "client_max_retries": "1",
        }

    def config(self, room: Room) -> Mapping[str, Any]:
        storage = {f"storage.{key}": value for key, value in self.options("${var:port}").items()}
        return {"root": self.root(room), **storage}

    def write_dataset(self, room: Room, name: str, rows: int) -> str:
        place = self.raw_place(room, name)
        if not self._keys(room, f"raw/{name}.lance/"):
            write_versions(place, rows, self.options())
        return place

    def raw_place(self, room: Room, name: str) -> str:
        return f"{self.root(room)}/raw/{name}.lance"

    @cached_property
    def _s3(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self._port}",
            region_name="us-east-1",
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key=f"{CANARY}-of-s3",
        )

    def make_bucket(self) -> None:
        self._s3.create_bucket(Bucket="lake")

    def _keys(self, room: Room, below: str = "") -> Mapping[str, str]:
        """Return the ETag of every object, by its key."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=f"{room.token}/{below}")
        return {entry["Key"]: entry["ETag"] for page in pages for entry in page.get("Contents", ())}

    def _has_manifest(self, room: Room) -> bool:
        return bool(self._keys(room, f"{_MANIFEST}/_versions/"))

    def files(self, room: Room) -> Mapping[str, str]:
        found = {key.partition("/")[2]: digest for key, digest in self._keys(room).items()}
        return {name: digest for name, digest in found.items() if self.is_data(name)}

    def default_place(self, room: Room, path: Path_) -> str:
        return "/".join((self.root(room), "tables", *path)) + ".lance"

    def forget(self, room: Room) -> None:
        keys = list(self._keys(room))
        for start in range(0, len(keys), 1000):
            some: Any = {"Objects": [{"Key": key} for key in keys[start : start + 1000]]}
            self._s3.delete_objects(Bucket="lake", Delete=some)
        super().forget(room)


class SecondDirectory(Directory):
    """A directory beside another catalog, around the data of its rooms."""

    abilities: ClassVar[Abilities] = Abilities(depth=2, foreign=False, names_locations=True, data_first=False)


@contextmanager
def directory(folder: Path) -> Iterator[Directory]:
    """A folder is all it takes."""
    yield Directory(folder)


@contextmanager
def directory_in_s3(folder: Path) -> Iterator[DirectoryInS3]:
    """Run the S3."""
    from tests.servers.moto_s3 import moto_s3

    with moto_s3(folder) as url:
        made = DirectoryInS3(folder, urlsplit(url).port or 0)
        made.make_bucket()
        yield made
