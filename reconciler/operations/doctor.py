"""Diagnose each catalog without changing it: service, permissions, limits."""

from __future__ import annotations

import statistics
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Literal, TypeVar

from reconciler import storage
from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.display import count
from reconciler.model.errors import CatalogError, ErrorCode, LancensError
from reconciler.model.live import Snapshot, StorageKind
from reconciler.model.names import join
from reconciler.operations.connections import CatalogSpec, catalog_specs, missing_root, secret_locations_of
from reconciler.planner.placeholders import location_hider

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest


ResultT = TypeVar("ResultT")

Status = Literal["ok", "warning", "failed"]

_SKEW_SECONDS = 60  # AWS and most tokens allow five minutes; warn well before that.
_ROUND_TRIPS = 3
_MISSING = {ErrorCode.TABLE_NOT_FOUND, ErrorCode.NAMESPACE_NOT_FOUND}
_REFUSED = {ErrorCode.PERMISSION_DENIED, ErrorCode.UNAUTHENTICATED}


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The result of one check.

    ``failed``: no plan can be made; ``warning``: something will not work.
    """

    catalog: str
    name: str
    status: Status
    detail: str
    seconds: float | None = None


def doctor(manifest: Manifest, *, parallelism: int = DEFAULT_PARALLELISM) -> list[DoctorCheck]:
    """Return the checks of every catalog, sorted by catalog.

    Permissions to write are tested on names that do not exist, so nothing can change.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
    """
    specs = catalog_specs(manifest, parallelism=parallelism)
    catalogs = in_parallel(lambda spec: list(_catalog_checks(spec)), specs, parallelism)
    hide = location_hider(secret_locations_of(manifest))
    return [replace(check, detail=hide(check.detail)) for checks in catalogs for check in checks]


def _catalog_checks(spec: CatalogSpec) -> Iterator[DoctorCheck]:
    try:
        with spec.connect() as backend:
            yield DoctorCheck(spec.name, "service", "ok", backend.namespace_id())
            yield from _Doctor(spec, backend).checks()
    except LancensError as error:
        yield DoctorCheck(spec.name, "service", "failed", str(error))


class _Doctor:
    """The checks of one catalog; a failed one ends those that depend on it."""

    def __init__(self, spec: CatalogSpec, backend: Backend) -> None:
        self._spec = spec
        self._backend = backend

    def checks(self) -> Iterator[DoctorCheck]:
        capabilities, seconds = self._timed(self._backend.capabilities)
        if isinstance(capabilities, CatalogError):
            yield self._check("connection", "failed", str(capabilities), seconds)
            return
        yield from self._latency()
        snapshot, seconds = self._timed(lambda: self._spec.scan(self._backend, self._spec.scope))
        if isinstance(snapshot, CatalogError):
            yield self._check("reading", "failed", str(snapshot), seconds)
            return
        read = f"{count(len(snapshot.namespaces), 'namespace')}, {count(len(snapshot.tables), 'table')}"
        yield self._check("reading", "ok", read, seconds)
        for note in snapshot.notes:
            yield self._check("reading", "warning", note)
        yield from self._paging(snapshot)
        yield from self._storage_checks(snapshot)
        yield from self._writing(snapshot, capabilities)
        yield from self._clock()
        for sentence in _limits(capabilities):
            yield self._check("limits", "warning", sentence)

    def _check(self, name: str, status: Status, detail: str, seconds: float | None = None) -> DoctorCheck:
        return DoctorCheck(self._spec.name, name, status, detail, None if seconds is None else round(seconds, 4))

    def _timed(self, call: Callable[[], ResultT]) -> tuple[ResultT | CatalogError, float]:
        """Return the result of ``call``, or its error, and the seconds that it took."""
        began = perf_counter()
        try:
            with self._spec.errors():
                return call(), perf_counter() - began
        except CatalogError as error:
            return error, perf_counter() - began

    def _latency(self) -> Iterator[DoctorCheck]:
        times = []
        for _ in range(_ROUND_TRIPS):
            listed, seconds = self._timed(lambda: list(self._backend.child_namespaces(())))
            if isinstance(listed, CatalogError):
                yield self._check("latency", "failed", str(listed), seconds)
                return
            times.append(seconds)
        yield self._check(
            "latency", "ok", f"a list of the root, the middle one of {_ROUND_TRIPS}", statistics.median(times)
        )

    def _paging(self, snapshot: Snapshot) -> Iterator[DoctorCheck]:
        """Compare the bulk read of the largest namespace with a list of it.

        Both must reach the last page.
        """
        sizes = Counter(identifier[:-1] for identifier in snapshot.tables)
        if not sizes or not self._spec.scope.is_everything:
            return
        largest = max(sorted(sizes), key=sizes.__getitem__)
        listed, seconds = self._timed(lambda: list(self._backend.child_tables(largest)))
        namespace = f"`{join(largest)}`" if largest else "the root"
        if isinstance(listed, CatalogError):
            yield self._check("paging", "failed", str(listed), seconds)
        elif len(listed) == sizes[largest]:
            yield self._check(
                "paging", "ok", f"both ways of listing {namespace} show {count(len(listed), 'table')}", seconds
            )
        else:
            detail = f"a list of {namespace} has {count(len(listed), 'table')}, the bulk read {sizes[largest]:,}"
            yield self._check("paging", "warning", f"{detail}: it is changing, or a page was lost", seconds)

    def _storage_checks(self, snapshot: Snapshot) -> Iterator[DoctorCheck]:
        """Open the data of one table, look for the root, and list each root.

        A location without data is no fault: a declared table has none until somebody writes to it.
        """
        for table in sorted(snapshot.tables.values(), key=lambda table: table.id)[:1]:
            began = perf_counter()
            data = storage.probe(table.location, self._backend.table_storage_options(table))
            opened = data.kind in (StorageKind.DATASET, StorageKind.NOTHING)
            detail = ", ".join(filter(None, (f"{locations.redact(table.location)}: {data.kind.value}", data.detail)))
            yield self._check("storage", "ok" if opened else "warning", detail, perf_counter() - began)
        if (missing := missing_root(self._backend)) is not None:
            yield self._check("storage", "warning", f"the root {missing} does not exist; the first apply creates it")
        for root in self._backend.roots():
            listed, seconds = self._timed(partial(storage.classify_directory, root, self._backend.storage_options()))
            if isinstance(listed, CatalogError):
                yield self._check("storage", "warning", str(listed), seconds)

    def _writing(self, snapshot: Snapshot, capabilities: Capabilities) -> Iterator[DoctorCheck]:
        """Try writes on names that do not exist, which cannot change anything."""
        name = f"lancens_doctor_{uuid.uuid4().hex[:12]}"
        homes = [
            key for key in ((), *sorted(snapshot.namespaces)) if capabilities.table_depth_problem(len(key)) is None
        ]
        if not homes:
            yield self._check("writing", "warning", "not tried: there is no namespace in which a table could be")
            return
        for action, call in self._backend.permission_probes((*homes[-1], name)).items():
            yield self._write_check(action, call)

    def _write_check(self, action: str, call: Callable[[], object]) -> DoctorCheck:
        answer, seconds = self._timed(call)
        if not isinstance(answer, CatalogError) or answer.code in _MISSING:
            return self._check("writing", "ok", f"{action}: not refused on a name that does not exist", seconds)
        endings = {ErrorCode.UNSUPPORTED: " is not offered", **dict.fromkeys(_REFUSED, f" is refused: {answer}")}
        return self._check("writing", "warning", action + endings.get(answer.code, f": {answer}"), seconds)

    def _clock(self) -> Iterator[DoctorCheck]:
        server_time, _ = self._timed(self._backend.server_time)
        if isinstance(server_time, CatalogError) or server_time is None:
            return
        skew = (datetime.now(UTC) - server_time).total_seconds()
        status: Status = "ok" if abs(skew) < _SKEW_SECONDS else "warning"
        direction = "ahead of" if skew > 0 else "behind"
        about = "the same time as" if abs(skew) < 2 else f"{abs(skew):.0f} s {direction}"
        yield self._check("clock", status, f"this machine is {about} the service")


def _limits(capabilities: Capabilities) -> Iterator[str]:
    """Yield what a manifest could ask for and the catalog cannot do."""
    for is_possible, sentence in (
        (
            capabilities.table_markers,
            "tables keep no mark: none is ever pruned, and `protect` holds only while written",
        ),
        (capabilities.namespace_markers, "namespaces keep no mark: none is pruned"),
        (capabilities.alter_table, "the properties of a table cannot be changed once it is there"),
        (capabilities.alter_namespace, "the properties of a namespace cannot be changed once it is there"),
        (capabilities.relocate_table, "a table cannot be moved to another location in place"),
        (not capabilities.chooses_locations, "the service chooses where a new table is, whatever is asked for"),
    ):
        if not is_possible:
            yield sentence
