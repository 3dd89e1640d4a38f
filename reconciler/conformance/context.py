"""What a check is, and what it works with: a namespace of its own in the catalog under test, places for real data."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

import lance_namespace
from lance_namespace import DescribeTableResponse, LanceNamespace
from lance_namespace.errors import InvalidInputError, NamespaceNotFoundError, UnsupportedOperationError

from reconciler import storage
from reconciler.backends import optional
from reconciler.conformance.expectations import FaultError, NotApplicable, NotAsked, equal, need
from reconciler.conformance.others import OthersNamespace
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace

if TYPE_CHECKING:
    import pyarrow as pa

    from reconciler.backends.base import Backend


AddForeign = Callable[["Backend", Identifier], Callable[[], None]]
"""Puts an object that is not a Lance table at an identifier, past the backend, and returns what takes it away again."""


Offer = Callable[["Backend"], LanceNamespace]
"""Returns a backend as the namespace whose operations are checked."""


def offered(backend: Backend) -> LanceNamespace:
    """Return ``backend`` as other Lance tools take it; a namespace of others is one already."""
    return backend.client if isinstance(backend, OthersNamespace) else CatalogNamespace(backend)


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
    offer: Offer = offered

    @property
    def namespace(self) -> LanceNamespace:
        """The backend as other Lance tools take it."""
        return self.offer(self.backend)

    # ---- what can be done here -----------------------------------------------------------------------------------

    @property
    def nests(self) -> bool:
        """Whether ``base`` can hold namespaces: where there are two kinds, the one that holds tables cannot."""
        if not self.is_ours:
            return self._can_nest()
        able = self.backend.capabilities
        return able.namespace_kinds is None and (able.max_depth is None or len(self.base) < able.max_depth)

    @property
    def renames(self) -> bool:
        """Whether tables are renamed in place within ``base`` and beside it."""
        return optional.asked_capabilities(self.backend).renames(
            (*self.base, "table"), (*self.base[:-1], "other", "table")
        )

    @property
    def registers(self) -> bool:
        """Whether the service makes entries for data that is somewhere."""
        return not optional.asked_capabilities(self.backend).chooses_locations

    @property
    def is_ours(self) -> bool:
        """Whether it is a backend, which promises more than the specification, and not a namespace of others."""
        return not isinstance(self.backend, OthersNamespace)

    def gives_place(self, table: Identifier) -> bool:
        """Whether a table that names no location gets one."""
        return not self.is_ours or self.backend.default_location(table) is not None

    def _can_nest(self) -> bool:
        """Return whether a namespace can be made below ``base``, by making one: nobody else says."""
        tried = (*self.base, "lancens_nests")
        try:
            self.create(tried)
            self.clear(tried)
        except Exception:  # noqa: BLE001 - others raise what they like for it
            return False
        return True

    def nested(self, name: str = "inner", *, with_tables: bool = False) -> Identifier:
        """Return the identifier of a namespace below ``base``; the check does not apply where there can be none.

        With ``with_tables`` both ``base`` and the namespace have to be able to hold tables.
        """
        need(self.nests, "namespaces do not nest here")
        most = self.backend.capabilities.table_depths[1]
        fits = most is None or len(self.base) < most
        need(fits or not with_tables, "a namespace that holds namespaces holds no tables here")
        return (*self.base, name)

    # ---- places and data -----------------------------------------------------------------------------------------

    def place(self, identifier: Identifier, suffix: str = "") -> str:
        """Return a location the catalog takes for a table, another one for each ``suffix``."""
        if not self.is_ours:
            return locations.join(self._place_of_others(), f"{identifier[-1]}{suffix}_{uuid.uuid4().hex[:8]}.lance")
        default = self.backend.default_location(identifier)
        if default is not None:
            return default if not suffix else f"{default.removesuffix('.lance')}_{suffix}.lance"
        bound = self.backend.capabilities.location_policy is LocationPolicy.UNDER_ROOT
        need(not bound, "the catalog takes locations under its root only and has no default")
        return self._in_scratch(identifier, suffix)

    def _in_scratch(self, identifier: Identifier, suffix: str = "") -> str:
        return locations.join(self.scratch, *identifier[:-1], f"{identifier[-1]}{suffix}.lance")

    def _place_of_others(self) -> str:
        """Return a directory in which the namespace itself puts a table."""
        table = (*self.base, "lancens_place")
        location = self.declare(table)
        self.take_out(table)
        return location.rstrip("/").rpartition("/")[0]

    def write(self, location: str, rows: int = 3, mode: str = "create") -> None:
        """Write a real dataset with ``rows`` rows, or, in mode ``append``, its next version."""
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

    @contextmanager
    def untouched(self, *places: str) -> Iterator[None]:
        """Find fault unless the datasets at ``places`` are afterwards, to the byte, what they were."""
        before = [self.data(place) for place in places]
        yield
        equal("the data files", [self.data(place) for place in places], before)

    # ---- operations ----------------------------------------------------------------------------------------------

    def call(self, operation: str, identifier: Sequence[str], **fields: Any) -> Any:
        """Return the response to an operation of the specification, such as ``describe_table``."""
        return getattr(self.namespace, operation)(_request(operation, identifier, fields))

    def create(
        self, identifier: Sequence[str], properties: Mapping[str, str] | None = None, mode: str | None = None
    ) -> None:
        """CreateNamespace."""
        self.call("create_namespace", identifier, properties=properties, mode=mode)

    def drop(self, identifier: Sequence[str], mode: str | None = None, behavior: str | None = None) -> None:
        """DropNamespace."""
        self.call("drop_namespace", identifier, mode=mode, behavior=behavior)

    def namespace_properties(self, identifier: Sequence[str]) -> dict[str, str]:
        """DescribeNamespace; returns the properties."""
        return self.call("describe_namespace", identifier).properties or {}

    def kept(self, identifier: Sequence[str], keys: Iterable[str]) -> dict[str, str | None]:
        """Return the properties of a namespace that ``keys`` names; services add others."""
        found = self.namespace_properties(identifier)
        return {key: found.get(key) for key in keys}

    def namespaces(self, parent: Sequence[str]) -> list[str]:
        """ListNamespaces; returns the names of all pages."""
        return list(self.call("list_namespaces", parent).namespaces)

    def tables(self, parent: Sequence[str]) -> list[str]:
        """ListTables; returns the names of all pages."""
        return list(self.call("list_tables", parent).tables)

    def declare(
        self, identifier: Sequence[str], properties: Mapping[str, str] | None = None, location: str | None = None
    ) -> str:
        """DeclareTable, at a place the catalog takes when none is given; returns the location in force."""
        place = location or self._needed_location(tuple(identifier))
        return self.call("declare_table", identifier, location=place, properties=properties).location or ""

    def _needed_location(self, identifier: Identifier) -> str | None:
        """Return a location where the catalog has no default for a table."""
        if not self.is_ours or self.backend.capabilities.location_policy is LocationPolicy.UNDER_ROOT:
            return None
        try:
            default = self.backend.default_location(self.backend.table_id(identifier))
        except Exception:  # noqa: BLE001 - what is wrong with the identifier is for the declare to say
            return None
        return None if default is not None else self._in_scratch(identifier)

    def register(
        self,
        identifier: Sequence[str],
        location: str,
        properties: Mapping[str, str] | None = None,
        mode: str | None = None,
    ) -> None:
        """RegisterTable."""
        fields = {"mode": mode, "properties": properties}
        try:
            self.call("register_table", identifier, location=location, **fields)
        except InvalidInputError:
            if self.is_ours:
                raise
            # Directories take what lies in them by its path there.
            self.call("register_table", identifier, location=location.rpartition("/")[2], **fields)

    def deregister(self, identifier: Sequence[str]) -> Any:
        """DeregisterTable."""
        return self.call("deregister_table", identifier)

    def take_out(self, identifier: Sequence[str]) -> None:
        """Take a table out of the catalog: by DeregisterTable, or by DropTable where there is no such operation."""
        try:
            self.deregister(identifier)
        except (NotImplementedError, UnsupportedOperationError):
            self.call("drop_table", identifier)

    def clear(self, identifier: Identifier) -> None:
        """Drop a namespace with what is in it, one by one: CASCADE may take more than a check has made."""
        try:
            tables = self.tables(identifier)
        except NamespaceNotFoundError:
            return
        for name in tables:
            self.take_out((*identifier, name))
        try:
            below = self.namespaces(identifier)
        except Exception:
            if self.is_ours and self.nests:
                raise
            below = []
        for name in below:
            self.clear((*identifier, name))
        self.drop(identifier, mode="skip")

    def rename(self, identifier: Sequence[str], to: Sequence[str]) -> None:
        """RenameTable."""
        above = None if list(to[:-1]) == list(identifier[:-1]) else list(to[:-1])
        self.call("rename_table", identifier, new_table_name=to[-1], new_namespace_id=above)

    def describe(self, identifier: Sequence[str], **fields: Any) -> DescribeTableResponse:
        """DescribeTable."""
        found: DescribeTableResponse = self.call("describe_table", identifier, **fields)
        return found

    def properties(self, identifier: Sequence[str], keys: Iterable[str]) -> dict[str, str]:
        """Return those of a table's properties that ``keys`` names; engines add others."""
        found = self.describe(identifier).properties or {}
        return {key: found[key] for key in keys if key in found}

    def is_at(self, identifier: Sequence[str], location: str | None) -> None:
        """Find fault unless a table's entry has ``location``."""
        self.same("the location", self.describe(identifier).location, location)

    def same(self, what: str, actual: str | None, wanted: str | None) -> None:
        """Find fault unless two locations are one."""
        if not locations.same(actual, wanted):
            raise FaultError(f"{what}: expected {wanted!r}, got {actual!r}")

    def pages(self, operation: str, names: Sequence[str]) -> None:
        """Find fault unless the pages of a list, of any size, together hold ``names`` in their order."""
        kind = operation.removeprefix("list_")
        for limit in (1, 2, 5, 100):
            found: list[str] = []
            token: str | None = ""
            while token is not None:
                page = self.call(operation, self.base, limit=limit, page_token=token or None)
                listed = getattr(page, kind)
                if len(listed) > limit:
                    raise FaultError(f"a page of {len(listed)} names where {limit} were asked for")
                found += listed
                token = page.page_token or None
            equal(f"the {kind} in pages of {limit}", found, list(names))

    # ---- what is there for a while -------------------------------------------------------------------------------

    def beside(self, suffix: str) -> Identifier:
        """Return the identifier of a namespace beside ``base``: every catalog can hold that one."""
        return (*self.base[:-1], self.base[-1] + suffix)

    @contextmanager
    def second(self, properties: Mapping[str, str] | None = None, *, is_made: bool = True) -> Iterator[Identifier]:
        """Give the identifier of another namespace, and clear it in the end; it is made here if ``is_made``."""
        other = self.beside("_second")
        try:
            if is_made:
                self.create(other, properties)
            yield other
        finally:
            with suppress(NamespaceNotFoundError):
                self.clear(other)

    @contextmanager
    def foreign(self) -> Iterator[Identifier]:
        """Give the identifier of an object in ``base`` that is not a Lance table."""
        if self.add_foreign is None:
            raise NotApplicable("no way was given to make a foreign object")
        identifier = (*self.base, "theirs")
        take_away = self.add_foreign(self.backend, identifier)
        try:
            yield identifier
        finally:
            take_away()


class Where(TypedDict, total=False):
    """Where checks work, and on what.

    ``namespace``: below which each makes its own; ``scratch``: a directory or URI for real datasets where the catalog
    has no default location; ``add_foreign`` makes objects that are not Lance tables; ``offer`` returns the namespace
    whose operations are checked.
    """

    namespace: Sequence[str]
    scratch: Required[str]
    add_foreign: AddForeign | None
    offer: Offer


def _request(operation: str, identifier: Sequence[str], fields: Mapping[str, Any]) -> Any:
    model = "".join(part.title() for part in operation.split("_"))
    given = {key: dict(value) if isinstance(value, Mapping) else value for key, value in fields.items()}
    return getattr(lance_namespace, f"{model}Request")(id=list(identifier), **given)


@contextmanager
def prepared(backend: Backend, connect: Callable[[], Backend], **where: Unpack[Where]) -> Iterator[CheckContext]:
    """Give a check a new namespace and take away all entries that it left there.

    Data is never deleted, so what a check writes under the catalog's own root stays.
    """
    namespace = tuple(where.get("namespace", ()))
    fewest = backend.capabilities.table_depths[0]
    levels = max(1, fewest - len(namespace), backend.capabilities.fixed_levels + 1 - len(namespace))
    base = (*namespace, *(f"lancens_check_{uuid.uuid4().hex[:12]}" for _ in range(levels)))
    offer = where.get("offer", offered)
    context = CheckContext(backend, connect, base, where["scratch"], where.get("add_foreign"), offer)
    for depth in range(len(namespace) + 1, len(base) + 1):
        context.create(base[:depth])
    try:
        yield context
    finally:
        for depth in range(len(base), len(namespace), -1):
            context.clear(base[:depth])


# ---- checks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """One promise of the contract. ``operation`` groups checks in a report; ``title`` says what holds."""

    name: str
    operation: str
    title: str
    run: Callable[[CheckContext], None]

    def __str__(self) -> str:
        return self.name


_registered: list[ConformanceCheck] = []

CheckFunction = Callable[[CheckContext], None]


def check(operation: str, *, promised: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Register the decorated function as a check of ``operation``; its docstring is the title.

    What is ``promised`` by lancens of its backends, and not by the specification, is not asked of namespaces of others.
    """

    def register(function: CheckFunction) -> CheckFunction:
        def run(context: CheckContext) -> None:
            if promised and not context.is_ours:
                raise NotAsked("lancens promises this of its backends, the specification does not")
            function(context)

        title = (function.__doc__ or "").strip()
        _registered.append(ConformanceCheck(function.__name__, operation, title, run))
        return function

    return register


def registered() -> tuple[ConformanceCheck, ...]:
    """Return the checks registered so far, in the order of their definition."""
    return tuple(_registered)
