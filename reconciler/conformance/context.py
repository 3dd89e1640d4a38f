"""Register checks, and provide the context that each runs in."""

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
from reconciler.conformance.expectations import (
    NotApplicable,
    NotInSpecificationError,
    ViolationError,
    equal,
    require,
)
from reconciler.conformance.others import OthersNamespace
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace

AddForeign = Callable[["Backend", Identifier], Callable[[], None]]
"""Creates an object that is not a Lance table, by other means than the backend; returns a function to remove it."""


Offer = Callable[["Backend"], LanceNamespace]
"""Returns the ``LanceNamespace`` to check for a backend."""


def as_namespace(backend: Backend) -> LanceNamespace:
    """Return ``backend`` as a ``LanceNamespace``."""
    return backend.client if isinstance(backend, OthersNamespace) else CatalogNamespace(backend)


_SERVICE_FOLDER = "metadata"


@dataclass(frozen=True)
class CheckContext:
    """The context of one check.

    ``base`` is an empty namespace for tables, created for this check; ``scratch`` the directory or URI for datasets
    outside of the catalog. The methods call one operation each: they take identifiers, return plain values and raise
    the errors of the namespace.
    """

    backend: Backend
    connect: Callable[[], Backend]
    base: Identifier
    scratch: str
    add_foreign: AddForeign | None = None
    offer: Offer = as_namespace

    @property
    def namespace(self) -> LanceNamespace:
        """The backend as a ``LanceNamespace``."""
        return self.offer(self.backend)

    # ---- capabilities ----------------------------------------------------------------------------------------------

    @property
    def can_nest(self) -> bool:
        """Whether namespaces can be created in ``base``."""
        if not self.is_backend:
            return self._can_nest()
        able = self.backend.capabilities()
        return able.namespace_kinds is None and (able.max_depth is None or len(self.base) < able.max_depth)

    @property
    def can_rename(self) -> bool:
        """Whether tables can be renamed in place, within ``base`` and into a sibling."""
        return self.backend.capabilities().renames((*self.base, "table"), (*self.base[:-1], "other", "table"))

    @property
    def can_register(self) -> bool:
        """Whether RegisterTable accepts a given location."""
        return not self.backend.capabilities().chooses_locations

    @property
    def is_backend(self) -> bool:
        """Whether a backend is checked, which promises more than the specification."""
        return not isinstance(self.backend, OthersNamespace)

    def has_default_location(self, table: Identifier) -> bool:
        """Return whether ``table`` can be created without a location."""
        return not self.is_backend or self.backend.default_location(table) is not None

    def _can_nest(self) -> bool:
        """Create a namespace in ``base`` and remove it; return whether that succeeds."""
        tried = (*self.base, "lancens_nests")
        try:
            self.create(tried)
            self.remove_namespace(tried)
        except Exception:  # noqa: BLE001 - others raise any error
            return False
        return True

    def nested_namespace(self, name: str = "inner", *, with_tables: bool = False) -> Identifier:
        """Return the identifier for a namespace in ``base``; it is not created.

        Raise NotApplicable if none can be created. With ``with_tables``, both ``base`` and the namespace must be
        able to hold tables.
        """
        require(self.can_nest, "namespaces do not nest here")
        most = self.backend.capabilities().table_depths[1]
        fits = most is None or len(self.base) < most
        require(fits or not with_tables, "a namespace that holds namespaces holds no tables here")
        return (*self.base, name)

    # ---- locations and data ----------------------------------------------------------------------------------------

    def new_location(self, identifier: Identifier, suffix: str = "") -> str:
        """Return a location that the catalog accepts for a table, another one for each ``suffix``."""
        if not self.is_backend:
            return locations.join(self._directory_of_others(), f"{identifier[-1]}{suffix}_{uuid.uuid4().hex[:8]}.lance")
        default = self.backend.default_location(identifier)
        if default is not None:
            return default if not suffix else f"{default.removesuffix('.lance')}_{suffix}.lance"
        bound = self.backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT
        require(not bound, "the catalog takes locations under its root only and has no default")
        return self._in_scratch(identifier, suffix)

    def _in_scratch(self, identifier: Identifier, suffix: str = "") -> str:
        return locations.join(self.scratch, *identifier[:-1], f"{identifier[-1]}{suffix}.lance")

    def _directory_of_others(self) -> str:
        """Return the directory where the namespace creates tables, by declaring one."""
        table = (*self.base, "lancens_place")
        location = self.declare(table)
        self.remove_table(table)
        return location.rstrip("/").rpartition("/")[0]

    def write(self, location: str, rows: int = 3, mode: str = "create") -> None:
        """Write a dataset with ``rows`` rows or, in mode ``append``, its next version."""
        options = self.backend.storage_options() or None
        data = pa.table({"id": list(range(rows))})
        lance.write_dataset(data, storage.pylance_uri(location), mode=mode, storage_options=options)

    def create_table_with_data(self, identifier: Sequence[str], rows: int = 3) -> str:
        """Write and register a dataset with ``rows`` rows; return its location.

        If the service chooses locations, the dataset is written to the chosen one.
        """
        if self.backend.capabilities().ignores_location:
            location = self.declare(identifier)
            self.write(location, rows)
        else:
            location = self.new_location(tuple(identifier))
            self.write(location, rows)
            self.register(identifier, location)
        return location

    def rows(self, location: str) -> int:
        """Return the number of rows of the dataset at ``location``."""
        return int(storage.open_dataset(location, self.backend.storage_options()).count_rows())

    def file_digests(self, location: str) -> Mapping[str, str]:
        """Return a digest of each file of a dataset by its path, or its rows if it is remote.

        The folder `metadata`, which Iceberg services write below a table's location, is left out.
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
            and path.relative_to(root).parts[0] != _SERVICE_FOLDER
        }

    @contextmanager
    def data_unchanged(self, *datasets: str) -> Iterator[None]:
        """Raise ViolationError if the block changes a file of the datasets."""
        before = [self.file_digests(location) for location in datasets]
        yield
        equal("the data files", [self.file_digests(location) for location in datasets], before)

    # ---- operations ----------------------------------------------------------------------------------------------

    def call(self, operation: str, identifier: Sequence[str], **fields: Any) -> Any:
        """Call an operation, such as ``describe_table``, and return its response."""
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

    def namespace_properties_in(self, identifier: Sequence[str], keys: Iterable[str]) -> dict[str, str | None]:
        """Return the properties of a namespace for ``keys``; services add others."""
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
        if not self.is_backend or self.backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT:
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
            if self.is_backend:
                raise
            # Directories register their own content by its relative path.
            self.call("register_table", identifier, location=location.rpartition("/")[2], **fields)

    def deregister(self, identifier: Sequence[str]) -> Any:
        """DeregisterTable."""
        return self.call("deregister_table", identifier)

    def remove_table(self, identifier: Sequence[str]) -> None:
        """Remove a table: by DeregisterTable, or by DropTable if that is unsupported."""
        try:
            self.deregister(identifier)
        except (NotImplementedError, UnsupportedOperationError):
            self.call("drop_table", identifier)

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop a namespace and its content one by one, without CASCADE."""
        try:
            tables = self.tables(identifier)
        except NamespaceNotFoundError:
            return
        for name in tables:
            self.remove_table((*identifier, name))
        try:
            below = self.namespaces(identifier)
        except Exception:
            if self.is_backend and self.can_nest:
                raise
            below = []
        for name in below:
            self.remove_namespace((*identifier, name))
        self.drop(identifier, mode="skip")

    def rename(self, identifier: Sequence[str], to: Sequence[str]) -> None:
        """RenameTable."""
        above = None if list(to[:-1]) == list(identifier[:-1]) else list(to[:-1])
        self.call("rename_table", identifier, new_table_name=to[-1], new_namespace_id=above)

    def describe(self, identifier: Sequence[str], **fields: Any) -> DescribeTableResponse:
        """DescribeTable."""
        response: DescribeTableResponse = self.call("describe_table", identifier, **fields)
        return response

    def describe_dataset(self, identifier: Sequence[str]) -> DescribeTableResponse:
        """DescribeTable with ``load_detailed_metadata``, of a table with data.

        Raise NotApplicable if a namespace of others ignores the option, which specifications of some catalogs allow.
        """
        if self.is_backend:
            return self.describe(identifier, load_detailed_metadata=True)
        self.describe(identifier)
        try:
            response = self.describe(identifier, load_detailed_metadata=True)
        except Exception as error:
            raise NotApplicable(f"no load_detailed_metadata: {type(error).__name__}: {error}") from error
        require(response.version is not None, "load_detailed_metadata is ignored")
        return response

    def properties(self, identifier: Sequence[str], keys: Iterable[str]) -> dict[str, str]:
        """Return the properties of a table for ``keys``; engines add others."""
        properties = self.describe(identifier).properties or {}
        return {key: properties[key] for key in keys if key in properties}

    def expect_location(self, identifier: Sequence[str], location: str | None) -> None:
        """Raise ViolationError unless a table's entry has ``location``."""
        self.expect_same_location("the location", self.describe(identifier).location, location)

    def expect_same_location(self, label: str, actual: str | None, expected: str | None) -> None:
        """Raise ViolationError unless two locations are the same."""
        if not locations.same(actual, expected):
            raise ViolationError(f"{label}: expected {expected!r}, got {actual!r}")

    def expect_pages(self, operation: str, names: Sequence[str]) -> None:
        """Raise ViolationError unless pages of each size together list ``names`` in order."""
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

    def sibling(self, suffix: str) -> Identifier:
        """Return the identifier for a namespace beside ``base``; it is not created."""
        return (*self.base[:-1], self.base[-1] + suffix)

    @contextmanager
    def second_namespace(
        self, properties: Mapping[str, str] | None = None, *, is_made: bool = True
    ) -> Iterator[Identifier]:
        """Yield a namespace beside ``base``, created if ``is_made``; remove it at the end."""
        other = self.sibling("_second")
        try:
            if is_made:
                self.create(other, properties)
            yield other
        finally:
            with suppress(NamespaceNotFoundError):
                self.remove_namespace(other)

    @contextmanager
    def foreign_object(self) -> Iterator[Identifier]:
        """Create an object in ``base`` that is not a Lance table; yield its identifier."""
        if self.add_foreign is None:
            raise NotApplicable("the caller passed no add_foreign")
        identifier = (*self.base, "theirs")
        remove = self.add_foreign(self.backend, identifier)
        try:
            yield identifier
        finally:
            remove()


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
def check_context(
    backend: Backend, connect: Callable[[], Backend], **options: Unpack[CheckOptions]
) -> Iterator[CheckContext]:
    """Create the namespace of a check, yield its context, and remove its entries.

    Data is never deleted, so datasets under the catalog's own root stay.
    """
    namespace, capabilities = tuple(options.get("namespace", ())), backend.capabilities()
    levels = max(1, capabilities.table_depths[0] - len(namespace), capabilities.fixed_levels + 1 - len(namespace))
    base = (*namespace, *(f"lancens_check_{uuid.uuid4().hex[:12]}" for _ in range(levels)))
    offer = options.get("offer", as_namespace)
    context = CheckContext(backend, connect, base, options["scratch"], options.get("add_foreign"), offer)
    try:
        for depth in range(len(namespace) + 1, len(base) + 1):
            context.create(base[:depth])
        yield context
    finally:
        for depth in range(len(base), len(namespace), -1):
            context.remove_namespace(base[:depth])


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
            if promised and not context.is_backend:
                raise NotInSpecificationError("lancens promises this of its backends, the specification does not")
            function(context)

        title = (function.__doc__ or "").strip()
        REGISTERED.append(ConformanceCheck(function.__name__, operation, title, run))
        return function

    return register
