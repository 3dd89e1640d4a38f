"""Catalogs in memory that can do what a service can, with every write in a ledger, and a storage that is a dictionary.

A crash is a state: what catalog and storage held right after a write (``World.moments``).
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar
from unittest import mock

from reconciler.backends import registry
from reconciler.backends.glue import GlueBackend
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.hive3 import Hive3Backend
from reconciler.backends.iceberg import IcebergBackend, generic
from reconciler.backends.memory import MemoryBackend, _stores_by_name
from reconciler.backends.unity import UnityBackend
from reconciler.model import locations
from reconciler.model.capabilities import Capabilities, LocationPolicy
from reconciler.model.columns import Column, Schema
from reconciler.model.errors import InvalidInputError, UnsupportedOperationError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier, join
from reconciler.model.tags import TagTarget
from tests.torture.model import arrow_type
from tests.torture.recorded import Recorded
from tests.torture.targets.base import Abilities, Path_, Room, State
from tests.unit.applier.world import FakeStorage, Ledger

__all__ = ["SECOND_SERVICES", "SERVICES", "Memory", "Moment", "memory"]

ResultT = TypeVar("ResultT")


class Moment(NamedTuple):
    """All that catalogs and storage held at one time."""

    catalogs: Sequence[tuple[Mapping[Any, Any], Mapping[Any, Any], Mapping[Any, Any]]]
    datasets: Mapping[str, Schema]
    used: Collection[str]
    tags: Mapping[str, Mapping[str, str]]


_REST = Capabilities(location_policy=LocationPolicy.UNDER_ROOT, may_manage_versions=True)
_ICEBERG = IcebergBackend.known_capabilities
_CAPABILITIES: Mapping[str, Capabilities] = {
    "dir": Capabilities(location_policy=LocationPolicy.UNDER_ROOT, one_name_space=True, rename_within=0),
    "glue": GlueBackend.known_capabilities,
    "hive2": Hive2Backend.known_capabilities,
    "hive3": Hive3Backend.known_capabilities,
    "iceberg": _ICEBERG,
    "nessie": replace(_ICEBERG, chooses_locations=True, relocate_table=False),
    "polaris": generic.CAPABILITIES,
    "unity": UnityBackend.known_capabilities,
    "rest": _REST,
    "rest-plain": replace(_REST, alter_namespace=False, alter_table=False, relocate_table=False),
}
_IMPLS = {"nessie": "iceberg", "polaris": "iceberg", "rest-plain": "rest"}
SERVICES = tuple(_CAPABILITIES)
SECOND_SERVICES = ("dir", "glue", "hive2", "rest")
"""Those that take every location below their root and every level of names."""
_LAKE = "/lake"
_ELSEWHERE = "/chosen"


class Service(MemoryBackend):
    """A catalog that refuses what its capabilities do not have, as the service itself does."""

    ledgers: ClassVar[dict[str, Ledger]] = {}
    """The ledger of each catalog, by its name."""

    def _write(self, name: str, do: Callable[[], ResultT]) -> ResultT:
        return self.ledgers[self.config.name].write(name, do)

    def _require(self, able: bool, what: str) -> None:
        if not able:
            raise UnsupportedOperationError(f"{self.impl}: cannot {what}")

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        self._require(len(identifier) > self.capabilities().fixed_levels, f"create {join(identifier)}")

        def do() -> LiveNamespace:
            made = MemoryBackend.insert_namespace(self, identifier, properties)
            self._store.namespaces[identifier] = replace(made, kind=kind)
            return self._store.namespaces[identifier]

        return self._write(f"insert_namespace {join(identifier)}", do)

    def remove_namespace(self, identifier: Identifier) -> None:
        self._require(len(identifier) > self.capabilities().fixed_levels, f"drop {join(identifier)}")
        self._write(f"remove_namespace {join(identifier)}", lambda: MemoryBackend.remove_namespace(self, identifier))

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        self._require(self.capabilities().alter_namespace, "alter a namespace")
        return self._write(
            f"alter_namespace {join(identifier)}", lambda: MemoryBackend.alter_namespace(self, identifier, changes)
        )

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        problem = self.location_problem(identifier, location)
        if problem is not None:
            raise InvalidInputError(problem)
        place = location
        if self.capabilities().chooses_locations:
            place = f"{_ELSEWHERE}/{self.config.name}/{join(identifier)}.lance"
        values = {**properties, **self._safe(properties)}
        return self._write(
            f"insert_table {join(identifier)}", lambda: MemoryBackend.insert_table(self, identifier, place, values)
        )

    def _safe(self, properties: Mapping[str, str]) -> dict[str, str]:
        guard = self.capabilities().safeguard
        return {} if guard is None else guard.applied_to(properties)

    def remove_table(self, identifier: Identifier) -> LiveTable:
        return self._write(f"remove_table {join(identifier)}", lambda: MemoryBackend.remove_table(self, identifier))

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        self._require(self.capabilities().alter_table, "alter a table")
        self._require(location is None or self.capabilities().relocate_table, "relocate a table")
        safe = self._safe({**self.load_table(identifier).properties, **changes.set})
        merged = replace(changes, set={**changes.set, **safe})
        return self._write(
            f"alter_table {join(identifier)}", lambda: MemoryBackend.alter_table(self, identifier, merged, location)
        )

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        self._require(self.capabilities().renames(identifier, to), f"rename {join(identifier)} to {join(to)}")
        return self._write(
            f"rename_table {join(identifier)} {join(to)}", lambda: MemoryBackend.rename_table(self, identifier, to)
        )

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return that a location is not below the root, where the service takes no other."""
        under_root = self.capabilities().location_policy is LocationPolicy.UNDER_ROOT
        if under_root and not location.startswith(f"{self.config.root}/"):
            return "it is not below the root"
        return None


def _abilities(able: Capabilities) -> Abilities:
    fewest, most = able.table_depths
    return Abilities(
        depth=1 if able.namespace_kinds or most == max(fewest, 1) else 2,
        updates=able.alter_table,
        updates_namespaces=able.alter_namespace,
        relocates=able.relocate_table,
        registers=not able.chooses_locations,
        root_tables=not fewest,
        known_places=not (able.chooses_locations or able.ignores_location),
        data_first=able.location_policy is not LocationPolicy.UNDER_ROOT and not able.ignores_location,
    )


class Memory(Recorded):
    """A catalog in memory with the capabilities of a service. It has one room at a time."""

    service: ClassVar[type[Service]]
    writes = re.compile(r"^(insert|alter|rename|remove)_")

    def __init__(self, folder: Path, suffix: str = "", beside: Memory | None = None) -> None:
        super().__init__(folder)
        self._suffix = suffix
        self.ledger = Ledger() if beside is None else beside.ledger
        self.storage: FakeStorage = FakeStorage(self.ledger) if beside is None else beside.storage
        self._store = MemoryBackend()._store
        able = self.service.known_capabilities
        self._levels = max(able.fixed_levels, able.table_depths[0] - 1)
        self._kind = able.namespace_kinds[1] if able.namespace_kinds else None

    @property
    def port(self) -> int:
        return 0

    def room(self) -> Room:
        """Make a room, with nothing in the catalogs and in storage."""
        for catalog in self._catalogs:
            catalog._store = MemoryBackend()._store
        self.ledger.revive()
        self.go_back(Moment([({}, {}, {})] * len(self._catalogs), {}, (), {}))
        token = f"r{uuid.uuid4().hex[:9]}"
        folder = self.folder / token
        folder.mkdir()
        return Room(token, folder, Path(_LAKE, token))

    def above(self, room: Room) -> Path_:
        return (room.token,) * self._levels

    def config(self, room: Room) -> Mapping[str, Any]:
        name = f"{room.token}{self._suffix}"
        self._store = _stores_by_name.setdefault(name, self._store)
        Service.ledgers[name] = self.ledger
        return {"name": name, "root": str(room.lake)}

    def scope(self, room: Room) -> Sequence[str]:
        return super().scope(room) if self._levels else ["**"]

    def prepare(self, room: Room) -> None:
        for depth in range(self._levels):
            self._store.namespaces[self.above(room)[: depth + 1]] = LiveNamespace(self.above(room)[: depth + 1])

    def add_namespace(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        name = self.identifier(room, path)
        self._store.namespaces[name] = LiveNamespace(name, dict(properties), self._kind)

    def add_lance(self, room: Room, path: Path_, location: str, properties: Mapping[str, str]) -> None:
        name = self.identifier(room, path)
        self._store.tables[name] = LiveTable(name, location, dict(properties))

    def add_foreign(self, room: Room, path: Path_) -> None:
        name = self.identifier(room, path)
        self._store.foreign[name] = ForeignTable(name, None, "view")

    def change(self, room: Room, path: Path_, properties: Mapping[str, str]) -> None:
        table = self._store.tables[self.identifier(room, path)]
        self._store.tables[table.id] = replace(table, properties={**table.properties, **properties})

    def remove(self, room: Room, path: Path_) -> None:
        del self._store.tables[self.identifier(room, path)]

    def place_of(self, room: Room, path: Path_) -> str:
        return self._store.tables[self.identifier(room, path)].location

    def state(self, room: Room) -> State:
        store = self._store
        return {
            **{f"namespace {'/'.join(name)}": {"properties": one.properties} for name, one in store.namespaces.items()},
            **{f"table {'/'.join(name)}": {"location": ""} for name in store.foreign},
            **{
                f"table {'/'.join(name)}": {"location": one.location, "properties": one.properties}
                for name, one in store.tables.items()
            },
        }

    def forget_entries(self, room: Room) -> None:
        name = f"{room.token}{self._suffix}"
        _stores_by_name.pop(name, None)
        Service.ledgers.pop(name, None)

    def forget(self, room: Room) -> None:
        for catalog in self._catalogs:
            catalog.forget_entries(room)
        shutil.rmtree(room.folder)

    # ---- data ----------------------------------------------------------------------------------------------------

    def write_dataset(self, room: Room, name: str, rows: int) -> str:
        place = self.raw_place(room, name)
        self.storage.put(place, (Column("id", "int64"),))
        return place

    def append(self, room: Room, name: str, by: str) -> None:
        """Others write rows: nothing that a dictionary has."""

    def label(self, room: Room, name: str, tag: str) -> None:
        self.storage.tags.setdefault(locations.normalise(self.raw_place(room, name)), {})[tag] = "1"

    def files(self, room: Room) -> Mapping[str, str]:
        return {}

    def data(self, room: Room) -> Mapping[str, Any]:
        return {
            f"dataset {place.removeprefix(f'{room.lake}/')}": {
                "columns": [f"{column.name}: {arrow_type(column.type)}" for column in schema],
                "tags": {
                    name: TagTarget.of(target).version for name, target in self.storage.tags.get(place, {}).items()
                },
            }
            for place, schema in self.storage.datasets.items()
        }

    # ---- crashes -------------------------------------------------------------------------------------------------

    @property
    def _catalogs(self) -> Sequence[Memory]:
        return [one for one in (self, self.second) if isinstance(one, Memory)]

    @property
    def moment(self) -> Moment:
        tags = {place: dict(tags) for place, tags in self.storage.tags.items()}
        stores = (catalog._store for catalog in self._catalogs)
        held = [(dict(store.namespaces), dict(store.tables), dict(store.foreign)) for store in stores]
        return Moment(held, dict(self.storage.datasets), set(self.storage.used), tags)

    def go_back(self, moment: Any) -> None:
        for catalog, (namespaces, tables, foreign) in zip(self._catalogs, moment.catalogs, strict=True):
            store = catalog._store
            store.namespaces, store.tables, store.foreign = dict(namespaces), dict(tables), dict(foreign)
        self.storage.datasets, self.storage.used = dict(moment.datasets), set(moment.used)
        self.storage.tags = {place: dict(tags) for place, tags in moment.tags.items()}

    @contextmanager
    def installed(self) -> Iterator[None]:
        classes = {catalog.impl: catalog.service for catalog in self._catalogs}
        with ExitStack() as stack:
            stack.enter_context(self.storage.installed())
            stack.enter_context(mock.patch.object(registry, "backend_class", classes.__getitem__))
            yield


def memory(name: str, folder: Path, second: str = "") -> Memory:
    """Return a catalog with the capabilities of the service ``name``, and perhaps a second one beside it."""
    made = _target(name)(folder)
    if second:
        made.second = _target(second)(folder, f"-{second}", made)
    return made


@cache
def _target(name: str) -> type[Memory]:
    impl, able = _IMPLS.get(name, name), _CAPABILITIES[name]
    service = type(f"{name.title()}Service", (Service,), {"impl": impl, "known_capabilities": able})
    held = {"name": name, "impl": impl, "service": service, "abilities": _abilities(able)}
    return type(f"{name.title()}InMemory", (Memory,), held)
