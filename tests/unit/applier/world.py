"""A catalog and a storage to apply plans to, which count every write and can die or refuse at any of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from reconciler import storage
from reconciler.applier.check import check_plan
from reconciler.applier.executor import execute
from reconciler.applier.journal import Journal
from reconciler.applier.report import ApplyReport, Event, Status
from reconciler.backends.memory import MemoryBackend
from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredCatalog, Thresholds
from reconciler.model.errors import BackendError, ServiceUnavailableError, TableAlreadyExistsError
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges, Snapshot, Storage, StorageKind
from reconciler.model.names import Identifier, join
from reconciler.model.tags import FoundTags, TagTarget
from reconciler.operations.connections import CatalogSpec, Connection
from reconciler.operations.driver import Driver, LocalEngine
from reconciler.operations.plan import input_of
from reconciler.planner.facts import PlanOptions
from reconciler.planner.plan import ManifestRef, Plan
from tests.unit.planner.building import CATALOG, MANIFEST

ResultT = TypeVar("ResultT")


class Crash(BaseException):
    """The process is killed."""


class WriteFault(Enum):
    """What happens to a write in a process that goes on."""

    FAILS = auto()
    LOSES_RESPONSE = auto()


@dataclass
class Ledger:
    """Every write that happened, in order, such as ``insert_table a$t``.

    ``crash_after``: die right after that many writes. ``refuse``: raise instead of the write of this name. ``fault``:
    says of each write whether it fails, or is carried out and its response lost. ``before``: called with the name of
    each write before it happens; ``after``: once it has.
    """

    writes: list[str] = field(default_factory=list)
    crash_after: int | None = None
    refuse: dict[str, Exception] = field(default_factory=dict)
    fault: Callable[[], WriteFault | None] = lambda: None
    before: Callable[[str], None] = lambda _: None
    after: Callable[[], None] = lambda: None
    dead: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def write(self, name: str, do: Callable[[], ResultT]) -> ResultT:
        self.before(name)
        with self._lock:
            if self.dead:
                raise Crash
            if name in self.refuse:
                raise self.refuse[name]
            fault = self.fault()
            if fault is WriteFault.FAILS:
                raise ServiceUnavailableError(f"{name} fails")
            result = do()
            self.writes.append(name)
            self.after()
            if fault is WriteFault.LOSES_RESPONSE:
                raise ServiceUnavailableError(f"the response to {name} is lost")
            if self.crash_after is not None and len(self.writes) >= self.crash_after:
                self.dead = True
                raise Crash
            return result

    def revive(self) -> None:
        """Start a new process after a crash."""
        self.dead, self.crash_after = False, None


class LedgerBackend(MemoryBackend):
    """The memory backend with its writes in a ledger; it may put tables under ``/elsewhere``."""

    def __init__(self, ledger: Ledger, capabilities: Capabilities | None = None) -> None:
        super().__init__(root="/data")
        self.known_capabilities = capabilities or Capabilities()
        self.ledger = ledger
        self.kinds: dict[Identifier, str | None] = {}

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        name = f"insert_namespace {join(identifier)}"
        self.kinds[identifier] = kind
        made = self.ledger.write(name, lambda: super(LedgerBackend, self).insert_namespace(identifier, properties))
        return replace(made, kind=kind)

    def remove_namespace(self, identifier: Identifier) -> None:
        name = f"remove_namespace {join(identifier)}"
        self.ledger.write(name, lambda: super(LedgerBackend, self).remove_namespace(identifier))

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        name = f"alter_namespace {join(identifier)}"
        return self.ledger.write(name, lambda: super(LedgerBackend, self).alter_namespace(identifier, changes))

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        place = f"/elsewhere/{join(identifier)}" if self._is_ignored(location) else location
        name = f"insert_table {join(identifier)}"
        return self.ledger.write(name, lambda: super(LedgerBackend, self).insert_table(identifier, place, properties))

    def remove_table(self, identifier: Identifier) -> LiveTable:
        name = f"remove_table {join(identifier)}"
        return self.ledger.write(name, lambda: super(LedgerBackend, self).remove_table(identifier))

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        place = None if location is None or self._is_ignored(location) else location
        name = f"alter_table {join(identifier)}"
        return self.ledger.write(name, lambda: super(LedgerBackend, self).alter_table(identifier, changes, place))

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        name = f"rename_table {join(identifier)} {join(to)}"
        return self.ledger.write(name, lambda: super(LedgerBackend, self).rename_table(identifier, to))

    def _is_ignored(self, location: str) -> bool:
        return self.capabilities().ignores_location and not location.startswith("/honoured/")


LATEST = 9
"""The version up to which every dataset has all versions."""

_FAKED = (
    "probe",
    "probe_table",
    "create_empty",
    "is_fresh",
    "add_columns",
    "evolve_columns",
    "annotate_columns",
    "find_tags",
    "write_tags",
)


@dataclass
class FakeStorage:
    """Datasets by location: their schema, and whether anything was done to them since they were made."""

    ledger: Ledger
    datasets: dict[str, Schema] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    other: dict[str, Storage] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)

    def put(self, location: str, schema: Schema) -> None:
        """A dataset with rows, made by someone else."""
        self.datasets[locations.normalise(location)] = schema
        self.used.add(locations.normalise(location))

    def probe(self, location: str, options: Mapping[str, str]) -> Storage:
        place = locations.normalise(location)
        if place in self.other:
            return self.other[place]
        schema = self.datasets.get(place)
        return Storage(StorageKind.NOTHING) if schema is None else Storage(StorageKind.DATASET, schema)

    def probe_table(
        self, location: str, options: Mapping[str, str], desired: Mapping[str, str], recorded: Iterable[str], _: object
    ) -> storage.TableContent:
        content = self.probe(location, options)
        has_tags = content.schema is not None and bool({*desired, *recorded})
        return storage.TableContent(content, self.find_tags(location, options, desired, recorded) if has_tags else None)

    def create_empty(self, location: str, schema: Schema, options: Mapping[str, str]) -> None:
        place = locations.normalise(location)

        def write() -> None:
            if place in self.datasets:
                raise TableAlreadyExistsError("a dataset is there")
            self.datasets[place] = schema

        self.ledger.write(f"create_empty {place}", write)

    def is_fresh(self, location: str, schema: Schema, options: Mapping[str, str]) -> bool:
        place = locations.normalise(location)
        return self.datasets.get(place) == schema and place not in self.used

    def add_columns(self, location: str, fields: tuple[Column, ...], options: Mapping[str, str]) -> None:
        place = locations.normalise(location)

        def write() -> None:
            there = {column.name for column in self.datasets[place]}
            self.datasets[place] += tuple(column for column in fields if column.name not in there)
            self.used.add(place)

        self.ledger.write(f"add_columns {place}", write)

    def evolve_columns(self, location: str, columns: Iterable[Column], options: Mapping[str, str]) -> None:
        place, by_old_name = locations.normalise(location), {one.renamed_from or one.name: one for one in columns}

        def write() -> None:
            there = self.datasets[place]
            assert by_old_name.keys() <= {column.name for column in there}
            altered = [(column, by_old_name.get(column.name, column)) for column in there]
            self.datasets[place] = tuple(
                replace(old, name=new.name, nullable=old.nullable or new.nullable) for old, new in altered
            )
            self.used.add(place)

        self.ledger.write(f"alter_columns {place}", write)

    def annotate_columns(
        self, location: str, metadata: Mapping[str, Mapping[str, str]], options: Mapping[str, str]
    ) -> None:
        place = locations.normalise(location)

        def write() -> None:
            self.datasets[place] = tuple(
                replace(column, metadata={**column.metadata, **metadata.get(column.name, {})})
                for column in self.datasets[place]
            )
            self.used.add(place)

        self.ledger.write(f"annotate_columns {place}", write)

    def find_tags(
        self, location: str, options: Mapping[str, str], wanted: Mapping[str, str], others: Iterable[str] = ()
    ) -> FoundTags:
        there = self.tags.get(locations.normalise(location), {})
        found = {name: there[name] for name in sorted({*wanted, *others}) if name in there}
        return FoundTags(found, tuple(name for name, target in wanted.items() if TagTarget.of(target).version > LATEST))

    def write_tags(self, location: str, targets: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        assert locations.normalise(location) in self.datasets
        there = self.tags.setdefault(locations.normalise(location), {})

        for name, target in targets.items():
            write = partial(there.pop, name) if target is None else partial(there.__setitem__, name, target)
            self.ledger.write(f"write_tags {name}", write)

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in _FAKED:
                patch.setattr(storage, name, getattr(self, name))
            yield


class World:
    """One catalog, one storage, and the journals of what was applied to them."""

    def __init__(self, folder: Path, capabilities: Capabilities | None = None) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self.backend = LedgerBackend(self.ledger, capabilities)
        self.storage = FakeStorage(self.ledger)

    @property
    def writes(self) -> list[str]:
        return self.ledger.writes

    @property
    def backends(self) -> dict[str, LedgerBackend]:
        return {CATALOG: self.backend}

    def has(self, snapshot: Snapshot) -> World:
        """Put objects there, outside the ledger."""
        for identifier in sorted(snapshot.namespaces, key=len):
            namespace = snapshot.namespaces[identifier]
            MemoryBackend.insert_namespace(self.backend, identifier, namespace.properties)
        for table in snapshot.tables.values():
            MemoryBackend.insert_table(self.backend, table.id, table.location, table.properties)
        return self

    def plan(self, wanted: DesiredCatalog, **options: Any) -> Plan:
        connection = Connection(CatalogSpec(CATALOG, "memory"), wanted, self.backend)
        connections = {CATALOG: connection}
        driver = Driver(LocalEngine(connections, 1), connections, 1)
        # Every world is a service of its own, and plans of two worlds are compared.
        driver.plan({CATALOG: replace(input_of(connection, PlanOptions(**options)), service="")})
        reference = ManifestRef(name=MANIFEST, digest="d" * 64, files=("lancens.yaml",))
        return driver.planning.plan(reference, Thresholds(100, 10))

    def apply(
        self,
        plan: Plan,
        *,
        parallelism: int = 1,
        stop: threading.Event | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
        check: bool = True,
        secrets: tuple[str, ...] = (),
    ) -> ApplyReport:
        checked = check_plan(plan, self.backends, parallelism) if check else {}
        with Journal.open(self.folder, plan) as journal:
            return execute(
                plan,
                self.backends,
                parallelism=parallelism,
                journal=journal,
                stop=stop or threading.Event(),
                on_event=on_event,
                secrets=secrets,
                checked=checked,
            )

    def state(self) -> Snapshot:
        return self.backend.scan()

    def table(self, path: str) -> LiveTable:
        return self.state().tables[tuple(path.split("/"))]

    def namespace(self, path: str) -> LiveNamespace:
        return self.state().namespaces[tuple(path.split("/"))]

    def alter(self, path: str, *, location: str | None = None, remove: str | None = None, **properties: str) -> None:
        """Change a table behind the plan's back."""
        changes = PropertyChanges(properties, frozenset([remove] if remove else []))
        MemoryBackend.alter_table(self.backend, tuple(path.split("/")), changes, location)

    def refuse(self, write: str, error: BackendError | Exception) -> None:
        self.ledger.refuse[write] = error

    def revive(self) -> None:
        """Start a new process after a crash."""
        self.ledger.revive()


def statuses(report: ApplyReport) -> dict[str, Status]:
    """The end of each change by its path."""
    return {"/".join(result.change.identifier): result.status for result in report.results}


def capable(**changes: bool | int) -> Capabilities:
    return replace(Capabilities(), **changes)  # type: ignore[arg-type]  # every flag given is a bool or a number
