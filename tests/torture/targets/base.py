"""What the harness asks of a server: where it is, how it is filled, and what is truly there, past lancens' backends."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from tests.catalogs.hive.files import digests
from tests.clock import simulated_time
from tests.servers.fault_proxy import JSON_FAULTS, Fault, FaultProxy, Speaks, fault_proxy

__all__ = [
    "CANARY",
    "OWNER",
    "STORAGE_SECRET",
    "THEIR_SECRET",
    "Abilities",
    "Path_",
    "Room",
    "State",
    "Target",
    "datasets",
    "insist",
    "write_versions",
]

Path_: TypeAlias = tuple[str, ...]
"""The names of an object below what stands above a room, as a scenario writes them."""

State: TypeAlias = Mapping[str, Any]
"""What a server holds of a room: ``table a/users`` and what is said of it. A name that is there twice has two keys."""

OWNER = "torture/lake"
CANARY = "canary-51c0ffee"
"""What every secret has in it."""
STORAGE_SECRET: Mapping[str, str] = {"storage.session_token": f"{CANARY}-of-storage"}
"""A storage option that must be shown nowhere."""
THEIR_SECRET: Mapping[str, str] = {"db.password": f"{CANARY}-of-others"}
"""A property that others set on entries."""
_TOKEN = 9
_NO_TABLE = ".lance-deregistered"
_INSISTENCE = 20
_ROWS = 4


@dataclass(frozen=True)
class Abilities:
    """What a scenario may ask for on a server."""

    depth: int = 1
    """How deep namespaces nest below what stands above a room."""
    updates: bool = True
    """Whether properties of a table can be changed."""
    updates_namespaces: bool = True
    """Whether properties of a namespace can be changed."""
    relocates: bool = True
    registers: bool = True
    """Whether a table can be where its data is: not where the server chooses."""
    names_locations: bool = False
    """Whether every table has to name its location."""
    foreign: bool = True
    """Whether other sorts of tables can be there."""
    root_tables: bool = False
    """Whether tables can be directly under the root."""
    known_places: bool = True
    """Whether a plan knows where a table will be."""
    data_first: bool = True
    """Whether a table gets its data before its entry, which then says that there is data."""
    breaks: bool = False
    """Whether an entry can have a location that no client can open."""
    releases: Sequence[str] = ()
    """The older pylance releases whose catalogs a room may have been made by."""


@dataclass(frozen=True)
class Room:
    """A part of a server for one run, whose names are those of every other room but for ``token``.

    ``folder`` is for the manifest and the journal, ``lake`` for data.
    """

    token: str
    folder: Path
    lake: Path

    def plain(self, text: str) -> str:
        """Return ``text`` as it would be in any other room."""
        return text.replace(self.token, "ROOM")


class Target(ABC):
    """A running server."""

    name: ClassVar[str]
    impl: ClassVar[str]
    speaks: ClassVar[Speaks] = "http"
    faults: ClassVar[Sequence[Fault]] = JSON_FAULTS
    abilities: ClassVar[Abilities]
    writes: ClassVar[re.Pattern[str]]
    """What the calls that change something are named."""
    can_be_pointed: ClassVar[bool] = False
    """Whether other clients can point an entry elsewhere."""
    loses_updates: bool = False
    """Whether a write of lancens may undo one that comes between its last read and that write, as docs say."""
    limits: ClassVar[Mapping[str, str]] = {}
    """Limits that are documented: what an error of them says, and their name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.second: Target | None = None
        """The other catalog that a manifest may have; it shares the rooms of this one."""

    @property
    @abstractmethod
    def port(self) -> int:
        """Where the server listens."""

    def room(self) -> Room:
        """Make a room in which nothing is."""
        token = f"r{uuid.uuid4().hex[:_TOKEN]}"
        folder = self.folder / token
        folder.mkdir()
        made = Room(token, folder, self.lake_of(token))
        made.lake.mkdir()
        return made

    def lake_of(self, token: str) -> Path:
        """Return where the data of a room is to be."""
        return self.folder / token / "lake"

    @abstractmethod
    def above(self, room: Room) -> Path_:
        """Return the levels that stand above a room's own namespaces."""

    def identifier(self, room: Room, path: Path_) -> Path_:
        """Return what the object at ``path`` of a scenario is called in a room."""
        return (*self.above(room), *path)

    @abstractmethod
    def config(self, room: Room) -> Mapping[str, Any]:
        """Return the ``config`` block; ``${var:port}`` stands for the port, ``${var:patience}`` for seconds to wait."""

    def scope(self, room: Room) -> Sequence[str]:
        """Return the globs of what is a room's."""
        above = "/".join(self.above(room))
        return [above, f"{above}/**"]

    def prepare(self, room: Room) -> None:
        """Make what stands above a room where lancens does not."""
        assert not self.above(room)

    def unpack(self, room: Room, release: str) -> None:
        """Let a room begin as a catalog of an older pylance, where ``abilities`` name its release."""
        raise NotImplementedError

    @abstractmethod
    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None: ...

    @abstractmethod
    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        """Make the entry of a Lance table as another client does."""

    def change(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        """Set properties of a table as another client does, where ``abilities`` say that they can be changed."""
        raise NotImplementedError

    def point(self, room: Room, path: Path_, place: str) -> None:
        """Point the entry of a table elsewhere as another client does, where it ``can_be_pointed``."""
        raise NotImplementedError

    def describe(self, room: Room, path: Path_) -> None:  # noqa: B027 - many entries have nothing else
        """Set a secret property and every field of a table's entry that lancens does not manage, where it has any."""

    @abstractmethod
    def remove(self, room: Room, path: Path_) -> None:
        """Remove the entry of a table as another client does."""

    @abstractmethod
    def place_of(self, room: Room, path: Path_) -> str:
        """Return where the entry of a table points."""

    def compact(self, room: Room) -> None:  # noqa: B027 - most catalogs are no dataset
        """Compact what the catalog itself is kept in, and clean it up, where it is kept in a dataset."""

    def add_foreign(self, room: Room, path: Path_) -> None:
        """Make a table that is not a Lance table, where ``abilities`` say that there are any."""
        raise NotImplementedError

    @abstractmethod
    def state(self, room: Room) -> State:
        """Return everything that the server has of a room; ``kept`` of an entry is what lancens does not manage."""

    def implied(self, room: Room, planned: Collection[str]) -> set[str]:
        """Return the keys of ``state`` that change with those that are planned."""
        return set()

    def forget_entries(self, room: Room) -> None:  # noqa: B027 - many go with the room's folder
        """Take a room out of a second catalog."""

    def forget(self, room: Room) -> None:
        """Take a room out of the server again, so that it does not fill up."""
        shutil.rmtree(room.folder)
        shutil.rmtree(room.lake, ignore_errors=True)

    # ---- data ----------------------------------------------------------------------------------------------------

    def default_place(self, room: Room, path: Path_) -> str:
        """Return where a scenario puts a table that has to name its location."""
        return str(room.lake.joinpath("tables", *path)) + ".lance"

    def write_dataset(self, room: Room, name: str, rows: int) -> str:
        """Write a dataset of two versions that is there before lancens comes, and return where it is."""
        place = self.raw_place(room, name)
        if not Path(place).exists():
            write_versions(place, rows, self.options())
        return place

    def raw_place(self, room: Room, name: str) -> str:
        """Return where a dataset is that is there before."""
        return str(room.lake / "raw" / f"{name}.lance")

    def append(self, room: Room, name: str, by: str) -> None:
        """Append rows to a dataset as ``by`` does, compact it and remove its old versions."""
        import lance
        import pyarrow as pa

        place, options = self.raw_place(room, name), dict(self.options())
        rows = pa.table({"id": list(range(_ROWS))})
        if by == "lancedb":
            import lancedb

            folder = place.removesuffix(f"/{name}.lance")
            table = lancedb.connect(folder, storage_options=options or None).open_table(name)
            table.add(rows)
            table.optimize()
            dataset = lance.dataset(place, storage_options=options or None)
        else:
            dataset = lance.write_dataset(rows, place, mode="append", storage_options=options or None)
            dataset.optimize.compact_files()
        dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)

    def label(self, room: Room, name: str, tag: str) -> None:
        """Tag the first version of a dataset."""
        import lance

        lance.dataset(self.raw_place(room, name), storage_options=dict(self.options()) or None).tags.create(tag, 1)

    def options(self) -> Mapping[str, str]:
        """Return what pylance needs to reach the data."""
        return {}

    def files(self, room: Room) -> Mapping[str, str]:
        """Return a digest of every file of data."""
        return {name: digest for name, digest in digests(room.lake).items() if self.is_data(name)}

    def is_data(self, name: str) -> bool:
        """Return whether the file ``name`` below the lake is data, and not a catalog's own."""
        return not name.startswith("__manifest/")

    def data(self, room: Room) -> Mapping[str, Any]:
        """Return every dataset with its columns, rows and versions, and every file that is no dataset's."""
        return datasets(str(room.lake), list(self.files(room)), {})

    # ---- calls ---------------------------------------------------------------------------------------------------

    def edit(self, request: bytes) -> bytes:
        """Return what is sent to the server instead of ``request``."""
        return request

    def proxy(self) -> AbstractContextManager[FaultProxy]:
        """Return a proxy in front of the server."""
        return fault_proxy(self.port, self.speaks, self.edit)

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Within this process, let lancens not wait before it sends a request again."""
        with simulated_time():
            yield

    def is_write(self, name: str) -> bool:
        return self.writes.search(name) is not None


def insist(call: Callable[[], object], done: str = "") -> None:
    """Call until it succeeds, as another client does whose commit loses a race.

    Where an earlier attempt may have succeeded, an error that says ``done`` is a success.
    """
    for attempt in range(_INSISTENCE):
        try:
            call()
        except Exception as error:
            if attempt and done and done in str(error).lower():
                return
            if attempt == _INSISTENCE - 1:
                raise
        else:
            return


def write_versions(place: str, rows: int, options: Mapping[str, str]) -> None:
    """Write a dataset of one column, and a row more as its second version."""
    import lance
    import pyarrow as pa

    for mode, numbers in (("create", list(range(rows))), ("append", [rows])):
        lance.write_dataset(pa.table({"id": numbers}), place, mode=mode, storage_options=dict(options) or None)


def datasets(root: str, files: Sequence[str], options: Mapping[str, str]) -> dict[str, Any]:
    """Return what lies below ``root``: datasets, read by pylance itself, and files that are of none.

    Marks that a directory is no table are left out where it holds directories of tables: order decides whether it has
    one, and nobody looks at it while an entry is in it.
    """
    import lance

    places = sorted({name.partition("/_versions/")[0] for name in files if "/_versions/" in name})
    found: dict[str, Any] = {}
    for place in places:
        dataset = lance.dataset(f"{root}/{place}", storage_options=dict(options) or None)
        found[f"dataset {place}"] = {
            "columns": [f"{field.name}: {field.type}" for field in dataset.schema],
            "rows": dataset.count_rows(),
            "versions": len(dataset.versions()),
            "tags": {name: tag["version"] for name, tag in dataset.tags.list().items()},
        }
    stray = [name for name in files if not any(name.startswith(f"{place}/") for place in places)]
    stray = [name for name in stray if not name.endswith(_NO_TABLE) or name.endswith(f".lance/{_NO_TABLE}")]
    return found | {f"file {name}": "" for name in stray}


def plain_state(room: Room, state: State) -> dict[str, Any]:
    """Return ``state`` as it would be in any other room."""
    plain: dict[str, Any] = json.loads(room.plain(json.dumps(state, sort_keys=True)))
    return plain
