"""Hive Metastores, filled and read over Thrift."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.backends.hive.entries import catalog_name, wire_name
from tests.catalogs.hive.raw import drop, fetch, fetch_by, fetch_database, plain_table, put, raw
from tests.servers.fault_proxy import THRIFT_FAULTS
from tests.servers.hive import Metastore, Version, metastore
from tests.torture.targets.base import STORAGE_SECRET, THEIR_SECRET, Abilities, Path_, Room, State, Target
from tests.torture.targets.directory import SecondDirectory

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import Table

__all__ = ["Hive", "hive"]

_LAST_CHANGE = "transient_lastDdlTime"
_STATISTICS = re.compile(rf"{_LAST_CHANGE}|numFiles.*|totalSize|bucketing_version")
_HELPER = re.compile(r"lancens_[0-9a-f]{32}")
_NEW_PLACE = re.compile(r"\.lancens_[0-9a-f]{32}")


class Hive(Target):
    """A metastore with catalogs: each room is one, which the manifest makes where nobody else has."""

    name = "hive"
    impl = "hive3"
    speaks = "thrift"
    faults = THRIFT_FAULTS
    abilities = Abilities()
    can_be_pointed = True
    writes = re.compile(r"^(create|alter|drop)_")

    def __init__(self, folder: Path, server: Metastore) -> None:
        super().__init__(folder)
        self.server = server

    @property
    def port(self) -> int:
        return self.server.port

    def above(self, room: Room) -> Path_:
        return (room.token,)

    def config(self, room: Room) -> Mapping[str, Any]:
        return {
            "uri": "thrift://127.0.0.1:${var:port}",
            "root": str(room.lake),
            "client.timeout": "${var:patience}",
            **STORAGE_SECRET,
        }

    def prepare(self, room: Room) -> None:
        from reconciler.backends.hive.gen.ttypes import Catalog, CreateCatalogRequest

        with raw(self.server.uri) as client:
            client.create_catalog(CreateCatalogRequest(Catalog(room.token, "", str(room.lake / room.token))))

    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        from reconciler.backends.hive.gen.ttypes import Database

        database = self.identifier(room, path)
        place = str(room.lake / room.token / f"{path[-1]}.db")
        with raw(self.server.uri) as client:
            client.create_database(
                Database(path[-1], None, place, dict(properties), catalogName=catalog_name(database))
            )

    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        marked = {"EXTERNAL": "TRUE", "table_type": "lance", **properties}
        put(self.server.uri, plain_table(self.identifier(room, path), location, marked))

    def add_foreign(self, room: Room, path: Path_) -> None:
        place = str(room.lake / "foreign" / path[-1])
        put(self.server.uri, plain_table(self.identifier(room, path), place, {"EXTERNAL": "TRUE"}))

    def change(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        entry = fetch(self.server.uri, self.identifier(room, path))
        entry.parameters = {**entry.parameters, **properties}
        self._alter(room, path, entry)

    def point(self, room: Room, path: Path_, place: str) -> None:
        entry = fetch(self.server.uri, self.identifier(room, path))
        entry.sd.location = place
        self._alter(room, path, entry)

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Leave the clock as it is: a real server's seconds are waited for."""
        yield

    def describe(self, room: Room, path: Path_) -> None:
        entry = fetch(self.server.uri, self.identifier(room, path))
        entry.owner, entry.retention = "somebody", 30
        entry.parameters = {**entry.parameters, **THEIR_SECRET}
        entry.sd.parameters = {"by": "the descriptor"}
        entry.sd.serdeInfo.parameters = {"field.delim": ","}
        entry.sd.numBuckets = 7
        self._alter(room, path, entry)

    def _alter(self, room: Room, path: Path_, entry: Any) -> None:
        from reconciler.backends.hive.gen.ttypes import EnvironmentContext

        identifier = self.identifier(room, path)
        entry.parameters.pop(_LAST_CHANGE, None)  # which Hive and Spark leave to the server, too
        with raw(self.server.uri) as client:
            database, context = wire_name(identifier[:-1]), EnvironmentContext()
            client.alter_table_with_environment_context(database, identifier[-1], entry, context)

    def remove(self, room: Room, path: Path_) -> None:
        drop(self.server.uri, self.identifier(room, path))

    def place_of(self, room: Room, path: Path_) -> str:
        return str(fetch(self.server.uri, self.identifier(room, path)).sd.location)

    def state(self, room: Room) -> State:
        from reconciler.backends.hive.gen.ttypes import GetCatalogRequest

        found: dict[str, Any] = {}
        with raw(self.server.uri) as client:
            everywhere = [
                (name, database) for name in client.get_catalogs().names for database in _databases(client, name)
            ]
            found |= {f"helper {'/'.join(names)}": "" for names in everywhere if _HELPER.fullmatch(names[-1])}
            if room.token not in client.get_catalogs().names:
                return found
            catalog = client.get_catalog(GetCatalogRequest(room.token)).catalog
            found[f"namespace {room.token}"] = {"location": catalog.locationUri, "description": catalog.description}
            for name in _databases(client, room.token):
                identifier = (room.token, name)
                database = fetch_database(self.server.uri, identifier)
                found[f"namespace {room.token}/{name}"] = {
                    "location": _NEW_PLACE.sub("NEW", database.locationUri or ""),
                    "description": database.description,
                    "properties": dict(database.parameters or {}),
                }
                for table in client.get_all_tables(wire_name(identifier)):
                    found[f"table {room.token}/{name}/{table}"] = self._table(fetch_by(client, (*identifier, table)))
        return found

    def _table(self, entry: Table) -> Mapping[str, Any]:
        properties = {key: value for key, value in entry.parameters.items() if not _STATISTICS.fullmatch(key)}
        columns = [f"{column.name}: {column.type}" for column in entry.sd.cols]
        return {
            "location": entry.sd.location,
            "type": entry.tableType,
            "properties": properties,
            "columns": columns,
            "kept": {
                "owners": [entry.owner],
                "retention": entry.retention,
                "buckets": entry.sd.numBuckets,
                "sd.parameters": dict(entry.sd.parameters or {}),
                "serde": [entry.sd.serdeInfo.serializationLib, dict(entry.sd.serdeInfo.parameters or {})],
                **{f"column {column.name}": [column.type, column.comment] for column in entry.sd.cols},
            },
        }

    def implied(self, room: Room, planned: Collection[str]) -> set[str]:
        """A catalog has a `default` from the start, and is pointed at its home before something is made in it."""
        return {f"namespace {room.token}", f"namespace {room.token}/default"} if planned else set()

    def forget(self, room: Room) -> None:
        with raw(self.server.uri) as client:
            if room.token in client.get_catalogs().names:
                for name in _databases(client, room.token):
                    client.drop_database(f"@{room.token}#{name}", False, True)
                # The catalog itself stays, empty: to drop it deletes the directory it points at.
        super().forget(room)


def _databases(client: Any, catalog: str) -> list[str]:
    return list(client.get_databases(f"@{catalog}#*"))


@contextmanager
def hive(version: Version, folder: Path) -> Iterator[Hive]:
    """Run a metastore."""
    (folder / "server").mkdir()
    with metastore(version, folder / "server") as server:
        made = Hive(folder, server)
        made.loses_updates = version == "3.1"
        made.second = SecondDirectory(folder)
        yield made
