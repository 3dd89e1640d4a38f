"""The Glue of the tests, filled and read with boto3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

from tests.servers.glue import ACCESS_KEY, REGION, SECRET_KEY, GlueServer, glue_server
from tests.torture.targets.base import STORAGE_SECRET, THEIR_SECRET, Abilities, Path_, Room, State, Target
from tests.torture.targets.lance_rest import serve_beside

__all__ = ["Glue", "glue"]

_PAGE_SIZE = re.compile(rb'"MaxResults": ?100(?=[,}])')
_COLUMN = {"Name": "id", "Type": "bigint", "Comment": "the key", "Parameters": {"pii": "no"}}
_FIELDS = {"Description": "of others", "Owner": "somebody", "Retention": 30}
_DESCRIPTOR = {
    "Parameters": {"by": "the descriptor"},
    "SerdeInfo": {"Name": "lance", "SerializationLibrary": "org.lance.SerDe", "Parameters": {"field.delim": ","}},
    "Compressed": True,
    "NumberOfBuckets": 7,
}
_TIMES = ("CreateTime", "UpdateTime", "VersionId", "CatalogId", "CreatedBy", "IsRegisteredWithLakeFormation")


class Glue(Target):
    """Databases whose names begin with the room's."""

    name = "glue"
    impl = "glue"
    abilities = Abilities(names_locations=True, breaks=True)
    can_be_pointed = True
    writes = re.compile(r"^(Create|Update|Delete|BatchDelete)")

    def __init__(self, folder: Path, server: GlueServer) -> None:
        super().__init__(folder)
        self.server = server

    @property
    def port(self) -> int:
        return urlsplit(self.server.endpoint).port or 0

    def above(self, room: Room) -> Path_:
        return ()

    def identifier(self, room: Room, path: Path_) -> Path_:
        return (f"{room.token}_{path[0]}", *path[1:])

    def config(self, room: Room) -> Mapping[str, Any]:
        return {
            "endpoint": "http://127.0.0.1:${var:port}",
            "region": REGION,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            **STORAGE_SECRET,
        }

    def scope(self, room: Room) -> list[str]:
        return [f"{room.token}_*", f"{room.token}_*/**"]

    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        given: Any = {"Name": self.identifier(room, path)[0], "Parameters": dict(properties), "Description": "theirs"}
        self.server.client.create_database(DatabaseInput=given)

    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        self._add(room, path, location, {"table_type": "LANCE", **properties})

    def add_foreign(self, room: Room, path: Path_) -> None:
        self._add(room, path, str(room.lake / "foreign" / path[-1]), {"classification": "csv"})

    def _add(self, room: Room, path: Path_, location: str, parameters: Mapping[str, str]) -> None:
        database, name = self.identifier(room, path)
        given: Any = {
            "Name": name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": dict(parameters),
            **_FIELDS,
            "StorageDescriptor": {"Location": location, "Columns": [_COLUMN], **_DESCRIPTOR},
        }
        self.server.client.create_table(DatabaseName=database, TableInput=given)

    def _table(self, room: Room, path: Path_) -> Any:
        database, name = self.identifier(room, path)
        return self.server.client.get_table(DatabaseName=database, Name=name)["Table"]

    def change(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        entry = self._table(room, path)
        self._update(entry, {"Parameters": {**entry["Parameters"], **properties}})

    def point(self, room: Room, path: Path_, place: str) -> None:
        entry = self._table(room, path)
        self._update(entry, {"StorageDescriptor": {**entry["StorageDescriptor"], "Location": place}})

    def describe(self, room: Room, path: Path_) -> None:
        entry = self._table(room, path)
        descriptor = {**entry["StorageDescriptor"], **_DESCRIPTOR}
        self._update(
            entry, {**_FIELDS, "StorageDescriptor": descriptor, "Parameters": {**entry["Parameters"], **THEIR_SECRET}}
        )

    def _update(self, entry: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        given: Any = {key: value for key, value in entry.items() if key not in (*_TIMES, "DatabaseName")}
        self.server.client.update_table(DatabaseName=entry["DatabaseName"], TableInput=given | fields)

    def remove(self, room: Room, path: Path_) -> None:
        database, name = self.identifier(room, path)
        self.server.client.delete_table(DatabaseName=database, Name=name)

    def place_of(self, room: Room, path: Path_) -> str:
        return str(self._table(room, path)["StorageDescriptor"]["Location"])

    def edit(self, request: bytes) -> bytes:
        """Ask for small pages, so that every list has some."""
        return _PAGE_SIZE.sub(lambda found: found[0][:-3] + b"  2", request)

    def state(self, room: Room) -> State:
        found: dict[str, Any] = {}
        for page in self.server.client.get_paginator("get_databases").paginate():
            for database in page["DatabaseList"]:
                if not database["Name"].startswith(room.token):
                    continue
                found[f"namespace {database['Name']}"] = _entry(database)
                for tables in self.server.client.get_paginator("get_tables").paginate(DatabaseName=database["Name"]):
                    for table in tables["TableList"]:
                        key = f"table {database['Name']}/{table['Name']}"
                        found[key if key not in found else f"{key} again"] = _entry(table)
        return found

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Let boto3 wait as long for an answer as the others do, which no configuration says here."""
        with mock.patch("reconciler.backends.glue.client.READ_SECONDS", 2):
            yield

    def forget_entries(self, room: Room) -> None:
        for key in self.state(room):
            if key.startswith("namespace "):
                self.server.client.delete_database(Name=key.partition(" ")[2])

    def forget(self, room: Room) -> None:
        self.forget_entries(room)
        super().forget(room)


def _entry(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without times, and what of it lancens does not manage, by path."""
    entry = {key: value for key, value in response.items() if key not in _TIMES}
    kept = {key: entry[key] for key in ("Description", *_FIELDS) if key in entry}
    descriptor = entry.get("StorageDescriptor", {})
    kept |= {f"StorageDescriptor.{key}": descriptor[key] for key in _DESCRIPTOR if key in descriptor}
    kept |= {f"column {column['Name']}": column for column in descriptor.get("Columns", ())}
    return {**entry, "kept": kept}


@contextmanager
def glue(folder: Path) -> Iterator[Glue]:
    """Run the server."""
    with glue_server(folder) as server, serve_beside(folder) as second:
        made = Glue(folder, server)
        made.second = second
        yield made
