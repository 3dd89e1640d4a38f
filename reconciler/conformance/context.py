"""What a check works with: a namespace of its own in the catalog under test, and places for real data."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DescribeTableResponse,
    DropNamespaceRequest,
    LanceNamespace,
    ListNamespacesRequest,
    ListTablesRequest,
    RegisterTableRequest,
    RenameTableRequest,
)

from reconciler import locations, storage
from reconciler.names import Identifier
from reconciler.namespace import CatalogNamespace
from reconciler.state import LocationPolicy

if TYPE_CHECKING:
    import pyarrow as pa

    from reconciler.backends.base import Backend

__all__ = ["AddForeign", "CheckContext", "NotApplicable", "Offer", "prepared"]

AddForeign = Callable[["Backend", Identifier], Callable[[], None]]
"""Puts an object that is not a Lance table at an identifier, past the backend, and returns what takes it away again."""


Offer = Callable[["Backend"], LanceNamespace]
"""Returns a backend as the namespace whose operations are checked."""


class NotApplicable(Exception):  # noqa: N818 - it is not an error
    """The backend's capabilities say that it cannot do this; the message says which."""


@dataclass(frozen=True)
class CheckContext:
    """Where a check works. ``base`` is an empty namespace that can hold tables, made for this check alone.

    The methods are the operations in short: identifiers in, plain values out, errors as the backend raises them.
    """

    backend: Backend
    connect: Callable[[], Backend]
    base: Identifier
    scratch: str
    add_foreign: AddForeign | None = None
    offer: Offer = CatalogNamespace

    @property
    def namespace(self) -> LanceNamespace:
        """The backend as other Lance tools take it."""
        return self.offer(self.backend)

    # ---- what can be done here -----------------------------------------------------------------------------------

    @property
    def nests(self) -> bool:
        """Whether ``base`` can hold namespaces: where there are two kinds, the one that holds tables cannot."""
        able = self.backend.capabilities
        return able.namespace_kinds is None and (able.max_depth is None or len(self.base) < able.max_depth)

    @property
    def renames(self) -> bool:
        """Whether tables are renamed in place within ``base`` and beside it."""
        return self.backend.asked_capabilities().renames((*self.base, "table"), (*self.base[:-1], "other", "table"))

    def nested(self, name: str = "inner", *, with_tables: bool = False) -> Identifier:
        """Return the identifier of a namespace below ``base``; the check does not apply where there can be none.

        With ``with_tables`` both ``base`` and the namespace have to be able to hold tables.
        """
        if not self.nests:
            raise NotApplicable("namespaces do not nest here")
        most = self.backend.capabilities.table_depths[1]
        if with_tables and most is not None and len(self.base) + 1 > most:
            raise NotApplicable("a namespace that holds namespaces holds no tables here")
        return (*self.base, name)

    # ---- places and data -----------------------------------------------------------------------------------------

    def place(self, identifier: Identifier, suffix: str = "") -> str:
        """Return a location the catalog takes for a table, another one for each ``suffix``."""
        default = self.backend.default_location(identifier)
        if default is not None:
            return default if not suffix else f"{default.removesuffix('.lance')}_{suffix}.lance"
        if self.backend.capabilities.location_policy is LocationPolicy.UNDER_ROOT:
            raise NotApplicable("the catalog takes locations under its root only and has no default")
        return locations.join(self.scratch, *self.base, f"{identifier[-1]}{suffix}.lance")

    def write(self, location: str, rows: int = 3) -> None:
        """Write a real dataset with ``rows`` rows."""
        self._write(location, rows, "create")

    def append(self, location: str, rows: int) -> None:
        """Append ``rows`` rows to a real dataset: its next version."""
        self._write(location, rows, "append")

    def _write(self, location: str, rows: int, mode: str) -> None:
        import lance
        import pyarrow as pa

        options = self.backend.storage_options() or None
        data = pa.table({"id": list(range(rows))})
        lance.write_dataset(data, storage.pylance_uri(location), mode=mode, storage_options=options)

    def real_table(self, identifier: Sequence[str], rows: int = 3) -> str:
        """Register a real dataset with ``rows`` rows and return where it is.

        Where the service chooses the location, the dataset is written to the one it chose.
        """
        if self.backend.capabilities.ignores_location:
            place = self.declare(identifier)
            self.write(place, rows)
        else:
            place = self.place(tuple(identifier))
            self.write(place, rows)
            self.register(identifier, place)
        return place

    def rows(self, location: str) -> int:
        """Return how many rows the dataset at ``location`` has."""
        return int(storage.open_dataset(location, self.backend.storage_options()).count_rows())

    def data(self, location: str) -> Mapping[str, str]:
        """Return a digest of each file of the dataset at ``location``; of its rows where it is not on this machine."""
        root = storage.local_path(location)
        if root is None:
            table: pa.Table = storage.open_dataset(location, self.backend.storage_options()).to_table()
            return {"rows": repr(table.to_pylist())}
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.name.startswith(".lance-")
        }

    # ---- operations ----------------------------------------------------------------------------------------------

    def create(
        self, identifier: Sequence[str], properties: Mapping[str, str] | None = None, mode: str | None = None
    ) -> dict[str, str]:
        """CreateNamespace; returns the properties."""
        request = CreateNamespaceRequest(
            id=list(identifier), properties=None if properties is None else dict(properties), mode=mode
        )
        return self.namespace.create_namespace(request).properties or {}

    def drop(self, identifier: Sequence[str], mode: str | None = None, behavior: str | None = None) -> object:
        """DropNamespace."""
        return self.namespace.drop_namespace(DropNamespaceRequest(id=list(identifier), mode=mode, behavior=behavior))

    def namespace_properties(self, identifier: Sequence[str]) -> dict[str, str]:
        """DescribeNamespace; returns the properties."""
        return self.namespace.describe_namespace(DescribeNamespaceRequest(id=list(identifier))).properties or {}

    def namespaces(self, parent: Sequence[str]) -> list[str]:
        """ListNamespaces; returns the names of all pages."""
        return self.namespace.list_namespaces(ListNamespacesRequest(id=list(parent))).namespaces

    def tables(self, parent: Sequence[str]) -> list[str]:
        """ListTables; returns the names of all pages."""
        return self.namespace.list_tables(ListTablesRequest(id=list(parent))).tables

    def declare(
        self, identifier: Sequence[str], properties: Mapping[str, str] | None = None, location: str | None = None
    ) -> str:
        """DeclareTable, at a place the catalog takes when none is given; returns the location in force."""
        request = DeclareTableRequest(
            id=list(identifier),
            location=location or self._needed_location(identifier),
            properties=None if properties is None else dict(properties),
        )
        return self.namespace.declare_table(request).location or ""

    def register(
        self,
        identifier: Sequence[str],
        location: str,
        properties: Mapping[str, str] | None = None,
        mode: str | None = None,
    ) -> str:
        """RegisterTable; returns the location in force."""
        request = RegisterTableRequest(
            id=list(identifier),
            location=location,
            mode=mode,
            properties=None if properties is None else dict(properties),
        )
        return self.namespace.register_table(request).location or ""

    def deregister(self, identifier: Sequence[str]) -> Any:
        """DeregisterTable."""
        return self.namespace.deregister_table(DeregisterTableRequest(id=list(identifier)))

    def rename(self, identifier: Sequence[str], to: Sequence[str]) -> None:
        """RenameTable."""
        above = None if list(to[:-1]) == list(identifier[:-1]) else list(to[:-1])
        self.namespace.rename_table(
            RenameTableRequest(id=list(identifier), new_table_name=to[-1], new_namespace_id=above)
        )

    def describe(self, identifier: Sequence[str], **request: Any) -> DescribeTableResponse:
        """DescribeTable."""
        return self.namespace.describe_table(DescribeTableRequest(id=list(identifier), **request))

    def properties(self, identifier: Sequence[str], keys: Mapping[str, str]) -> dict[str, str]:
        """Return those of a table's properties that ``keys`` names; engines add others."""
        found = self.describe(identifier).properties or {}
        return {key: found[key] for key in keys if key in found}

    def _needed_location(self, identifier: Sequence[str]) -> str | None:
        """Return a location where the catalog has no default; identifiers that cannot be are left to the backend."""
        if len(identifier) != len(self.base) + 1:
            return None if self.backend.capabilities.location_policy is LocationPolicy.UNDER_ROOT else self.scratch
        names = tuple(identifier)
        try:
            default = self.backend.default_location(self.backend.table_id(names))
        except Exception:  # noqa: BLE001 - what is wrong with the identifier is for the declare to say
            return None
        return None if default is not None else locations.join(self.scratch, *names[:-1], f"{names[-1]}.lance")


@contextmanager
def prepared(
    backend: Backend,
    connect: Callable[[], Backend],
    namespace: Identifier,
    scratch: str,
    add_foreign: AddForeign | None = None,
    offer: Offer = CatalogNamespace,
) -> Iterator[CheckContext]:
    """Give a check a new namespace below ``namespace`` and take away all entries it left there.

    Data is never deleted, so what a check writes under the catalog's own root stays.
    """
    fewest = backend.capabilities.table_depths[0]
    levels = max(1, fewest - len(namespace), backend.capabilities.fixed_levels + 1 - len(namespace))
    base = (*namespace, *(f"lancens_check_{uuid.uuid4().hex[:12]}" for _ in range(levels)))
    offered = offer(backend)
    for depth in range(len(namespace) + 1, len(base) + 1):
        offered.create_namespace(CreateNamespaceRequest(id=list(base[:depth])))
    try:
        yield CheckContext(backend, connect, base, scratch, add_foreign, offer)
    finally:
        for depth in range(len(base), len(namespace), -1):
            offered.drop_namespace(DropNamespaceRequest(id=list(base[:depth]), mode="skip", behavior="cascade"))
