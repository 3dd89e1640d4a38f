"""The registry of checks, and the context that each runs in."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Required, TypedDict, Unpack

import lance
import lance_namespace
import pyarrow as pa
from lance_namespace import DescribeTableResponse, LanceNamespace
from lance_namespace.errors import InvalidInputError, NamespaceNotFoundError, UnsupportedOperationError

from reconciler import storage
from reconciler.backends.base import Backend
from reconciler.conformance.expectations import NotApplicable, NotInSpecificationError, ViolationError, equal, need
from reconciler.conformance.others import OthersNamespace
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace

AddForeign = Callable[["Backend", Identifier], Callable[[], None]]
"""Adds an object that is not a Lance table at an identifier, without the backend; returns a function to remove it."""


Offer = Callable[["Backend"], LanceNamespace]
"""Returns the namespace to check for a backend."""


def offered(backend: Backend) -> LanceNamespace:
    """Return ``backend`` as a ``LanceNamespace``."""
    return backend.client if isinstance(backend, OthersNamespace) else CatalogNamespace(backend)


_SERVICES_OWN = "metadata"


@dataclass(frozen=True)
class CheckContext:
    """The context of one check.

    ``base`` is an empty namespace that can hold tables, created for this check. The methods are short forms of the
    operations: identifiers in, plain values out, errors of the namespace.
    """

    backend: Backend
    connect: Callable[[], Backend]
    base: Identifier
    scratch: str
    add_foreign: AddForeign | None = None
    offer: Offer = offered

    @property
    def namespace(self) -> LanceNamespace:
        """The backend as a ``LanceNamespace``."""
        return self.offer(self.backend)

    # ---- capabilities ----------------------------------------------------------------------------------------------

    @property
    def nests(self) -> bool:
        """Whether ``base`` can hold namespaces."""
        if not self.is_ours:
            return self._can_nest()
        able = self.backend.capabilities()
        return able.namespace_kinds is None and (able.max_depth is None or len(self.base) < able.max_depth)

    @property
    def renames(self) -> bool:
        """Whether tables can be renamed in place, within ``base`` and into a sibling."""
        return self.backend.capabilities().renames((*self.base, "table"), (*self.base[:-1], "other", "table"))

    @property
    def registers(self) -> bool:
        """Whether the service registers data at a given location."""
        return not self.backend.capabilities().chooses_locations

    @property
    def is_ours(self) -> bool:
        """Whether it is a backend, which promises more than the specification."""
        return not isinstance(self.backend, OthersNamespace)

    def gives_place(self, table: Identifier) -> bool:
        """Whether a table without a location gets a default one."""
        return not self.is_ours or self.backend.default_location(table) is not None

    def _can_nest(self) -> bool:
        """Return whether a namespace can be created below ``base``, by creating one."""
        tried = (*self.base, "lancens_nests")
        try:
            self.create(tried)
            self.clear(tried)
        except Exception:  # noqa: BLE001 - others raise any error
            return False
        return True

    def nested(self, name: str = "inner", *, with_tables: bool = False) -> Identifier:
        """Return the identifier of a namespace below ``base``.

        The check does not apply if none can be created. With ``with_tables``, both ``base`` and the namespace must be
        able to hold tables.
        """
        need(self.nests, "namespaces do not nest here")
        most = self.backend.capabilities().table_depths[1]
        fits = most is None or len(self.base) < most
        need(fits or not with_tables, "a namespace that holds namespaces holds no tables here")
        return (*self.base, name)

    # ---- locations and data ----------------------------------------------------------------------------------------

    def place(self, identifier: Identifier, suffix: str = "") -> str:
        """Return a location that the catalog accepts, one for each ``suffix``."""
        if not self.is_ours:
            return locations.join(self._place_of_others(), f"{identifier[-1]}{suffix}_{uuid.uuid4().hex[:8]}.lance")
        default = self.backend.default_location(identifier)
        if default is not None:
            return default if not suffix else f"{default.removesuffix('.lance')}_{suffix}.lance"
        bound = self.backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT
        need(not bound, "the catalog takes locations under its root only and has no default")
        return self._in_scratch(identifier, suffix)

    def _in_scratch(self, identifier: Identifier, suffix: str = "") -> str:
        return locations.join(self.scratch, *identifier[:-1], f"{identifier[-1]}{suffix}.lance")

    def _place_of_others(self) -> str:
        """Return the directory in which the namespace itself creates tables."""
        table = (*self.base, "lancens_place")
        location = self.declare(table)
        self.take_out(table)
        return location.rstrip("/").rpartition("/")[0]

    def write(self, location: str, rows: int = 3, mode: str = "create") -> None:
        """Write a dataset with ``rows`` rows or, in mode ``append``, its next version."""
        options = self.backend.storage_options() or None
        data = pa.table({"id": list(range(rows))})
        lance.write_dataset(data, storage.pylance_uri(location), mode=mode, storage_options=options)

    def real_table(self, identifier: Sequence[str], rows: int = 3) -> str:
        """Register a dataset with ``rows`` rows and return its location.

        If the service chooses locations, the dataset is written to the chosen one.
        """
        if self.backend.capabilities().ignores_location:
            location = self.declare(identifier)
            self.write(location, rows)
        else:
            location = self.place(tuple(identifier))
            self.write(location, rows)
            self.register(identifier, location)
        return location

    def rows(self, location: str) -> int:
        """Return the number of rows of the dataset at ``location``."""
        return int(storage.open_dataset(location, self.backend.storage_options()).count_rows())

    def data(self, location: str) -> Mapping[str, str]:
        """Return a digest of each file of a dataset, or its rows if it is remote.

        The folder `metadata`, which Iceberg services write below a table's location, does not count.
        """
        root = storage.local_path(location)
        if root is None:
            table: pa.Table = storage.open_dataset(location, self.backend.storage_options()).to_table()
            return {"rows": repr(table.to_pylist())}
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(root.rglob("*"))
            if path.is_file()
            and not path.name.startswith(".lance-")
            and path.relative_to(root).parts[0] != _SERVICES_OWN
        }

    @contextmanager
    def untouched(self, *datasets: str) -> Iterator[None]:
        """Raise ViolationError if the block changes a byte of the datasets at ``datasets``."""
        before = [self.data(location) for location in datasets]
        yield
        equal("the data files", [self.data(location) for location in datasets], before)

    # ---- operations ----------------------------------------------------------------------------------------------

    def call(self, operation: str, identifier: Sequence[str], **fields: Any) -> Any:
        """Return the response of an operation, such as ``describe_table``."""
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
        """Return the properties of a namespace in ``keys``; services add others."""
        properties = self.namespace_properties(identifier)
        return {key: properties.get(key) for key in keys}

    def namespaces(self, parent: Sequence[str]) -> list[str]:
        """ListNamespaces; returns the names of all pages."""
        return list(self.call("list_namespaces", parent).namespaces)

    def tables(self, parent: Sequence[str]) -> list[str]:
        """ListTables; returns the names of all pages."""
        return list(self.call("list_tables", parent).tables)

    def declare(
        self, identifier: Sequence[str], properties: Mapping[str, str] | None = None, location: str | None = None
    ) -> str:
        """DeclareTable; returns the location in force."""
        requested = location or self._needed_location(tuple(identifier))
        return self.call("declare_table", identifier, location=requested, properties=properties).location or ""

    def _needed_location(self, identifier: Identifier) -> str | None:
        """Return a location for a table if the catalog has no default one."""
        if not self.is_ours or self.backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT:
            return None
        try:
            default = self.backend.default_location(self.backend.table_id(identifier))
        except Exception:  # noqa: BLE001 - declaring reports an invalid identifier
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
            # Directories register their own content by its relative path.
            self.call("register_table", identifier, location=location.rpartition("/")[2], **fields)

    def deregister(self, identifier: Sequence[str]) -> Any:
        """DeregisterTable."""
        return self.call("deregister_table", identifier)

    def take_out(self, identifier: Sequence[str]) -> None:
        """Remove a table: by DeregisterTable, or by DropTable if that is unsupported."""
        try:
            self.deregister(identifier)
        except (NotImplementedError, UnsupportedOperationError):
            self.call("drop_table", identifier)

    def clear(self, identifier: Identifier) -> None:
        """Drop a namespace and its content one by one, without CASCADE."""
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
        response: DescribeTableResponse = self.call("describe_table", identifier, **fields)
        return response

    def detailed(self, identifier: Sequence[str]) -> DescribeTableResponse:
        """DescribeTable with the metadata of a dataset that is there.

        The check does not apply to others that describe the entry alone: specifications of some catalogs allow that.
        """
        if self.is_ours:
            return self.describe(identifier, load_detailed_metadata=True)
        self.describe(identifier)
        try:
            response = self.describe(identifier, load_detailed_metadata=True)
        except Exception as error:
            raise NotApplicable(f"no load_detailed_metadata: {type(error).__name__}: {error}") from error
        need(response.version is not None, "load_detailed_metadata is ignored")
        return response

    def properties(self, identifier: Sequence[str], keys: Iterable[str]) -> dict[str, str]:
        """Return those properties of a table that ``keys`` names; engines add others."""
        properties = self.describe(identifier).properties or {}
        return {key: properties[key] for key in keys if key in properties}

    def is_at(self, identifier: Sequence[str], location: str | None) -> None:
        """Raise ViolationError unless a table's entry has ``location``."""
        self.same("the location", self.describe(identifier).location, location)

    def same(self, label: str, actual: str | None, expected: str | None) -> None:
        """Raise ViolationError unless two locations are the same."""
        if not locations.same(actual, expected):
            raise ViolationError(f"{label}: expected {expected!r}, got {actual!r}")

    def pages(self, operation: str, names: Sequence[str]) -> None:
        """Raise ViolationError unless pages of any size together hold ``names`` in order."""
        kind = operation.removeprefix("list_")
        for limit in (1, 2, 5, 100):
            names_seen: list[str] = []
            token: str | None = ""
            while token is not None:
                page = self.call(operation, self.base, limit=limit, page_token=token or None)
                listed = getattr(page, kind)
                if len(listed) > limit:
                    raise ViolationError(f"a page of {len(listed)} names where {limit} were asked for")
                names_seen += listed
                token = page.page_token or None
            equal(f"the {kind} in pages of {limit}", names_seen, list(names))

    # ---- temporary objects -----------------------------------------------------------------------------------------

    def beside(self, suffix: str) -> Identifier:
        """Return the identifier of a sibling of ``base``, which every catalog can hold."""
        return (*self.base[:-1], self.base[-1] + suffix)

    @contextmanager
    def second(self, properties: Mapping[str, str] | None = None, *, is_made: bool = True) -> Iterator[Identifier]:
        """Yield a sibling of ``base``, created if ``is_made``, and clear it at the end."""
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
        """Yield the identifier of an object in ``base`` that is not a Lance table."""
        if self.add_foreign is None:
            raise NotApplicable("the caller passed no add_foreign")
        identifier = (*self.base, "theirs")
        take_away = self.add_foreign(self.backend, identifier)
        try:
            yield identifier
        finally:
            take_away()


class CheckOptions(TypedDict, total=False):
    """The options of a check.

    ``namespace``: the parent of the namespaces that checks create; ``scratch``: a directory or URI for datasets if the
    catalog has no default location; ``add_foreign`` adds objects that are not Lance tables; ``offer`` returns the
    namespace to check.
    """

    namespace: Sequence[str]
    scratch: Required[str]
    add_foreign: AddForeign | None
    offer: Offer


def _request(operation: str, identifier: Sequence[str], fields: Mapping[str, Any]) -> Any:
    model = "".join(part.title() for part in operation.split("_"))
    values = {key: dict(value) if isinstance(value, Mapping) else value for key, value in fields.items()}
    return getattr(lance_namespace, f"{model}Request")(id=list(identifier), **values)


@contextmanager
def prepared(
    backend: Backend, connect: Callable[[], Backend], **options: Unpack[CheckOptions]
) -> Iterator[CheckContext]:
    """Yield the context of a check, and remove the entries that it created.

    Data is never deleted, so datasets under the catalog's own root stay.
    """
    namespace, capabilities = tuple(options.get("namespace", ())), backend.capabilities()
    levels = max(1, capabilities.table_depths[0] - len(namespace), capabilities.fixed_levels + 1 - len(namespace))
    base = (*namespace, *(f"lancens_check_{uuid.uuid4().hex[:12]}" for _ in range(levels)))
    offer = options.get("offer", offered)
    context = CheckContext(backend, connect, base, options["scratch"], options.get("add_foreign"), offer)
    try:
        for depth in range(len(namespace) + 1, len(base) + 1):
            context.create(base[:depth])
        yield context
    finally:
        for depth in range(len(base), len(namespace), -1):
            context.clear(base[:depth])


# ---- checks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A rule of the contract, stated by ``title`` and grouped by ``operation``."""

    name: str
    operation: str
    title: str
    run: Callable[[CheckContext], None]

    def __str__(self) -> str:
        return self.name


REGISTERED: list[ConformanceCheck] = []
"""The checks in the order of their definition."""

CheckFunction = Callable[[CheckContext], None]


def check(operation: str, *, promised: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as a check of ``operation``.

    Its docstring is the title. A check with ``promised`` tests a promise of lancens, not of the specification, and runs
    against backends only.
    """

    def register(function: CheckFunction) -> CheckFunction:
        def run(context: CheckContext) -> None:
            if promised and not context.is_ours:
                raise NotInSpecificationError("lancens promises this of its backends, the specification does not")
            function(context)

        title = (function.__doc__ or "").strip()
        REGISTERED.append(ConformanceCheck(function.__name__, operation, title, run))
        return function

    return register
