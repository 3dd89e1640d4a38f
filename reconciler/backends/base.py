"""The contract every backend keeps, and the Lance Namespace operations built on it.

The operations follow the Lance Namespace specification, "Namespace Operations", in today's names (DescribeTable for
GetTable, DescribeNamespace for GetNamespace).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from lance_namespace import (
    CreateNamespaceRequest,
    CreateNamespaceResponse,
    CreateTableRequest,
    CreateTableResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DeregisterTableRequest,
    DeregisterTableResponse,
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    DropNamespaceRequest,
    DropNamespaceResponse,
    DropTableRequest,
    DropTableResponse,
    LanceNamespace,
    ListNamespacesRequest,
    ListNamespacesResponse,
    ListTablesRequest,
    ListTablesResponse,
    NamespaceExistsRequest,
    NamespaceExistsResponse,
    RegisterTableRequest,
    RegisterTableResponse,
    TableExistsRequest,
    TableExistsResponse,
)
from lance_namespace.errors import (
    InvalidInputError,
    LanceNamespaceError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from reconciler import storage
from reconciler.backends.config import BackendConfig, parse_config
from reconciler.backends.identifiers import namespace_identifier, table_identifier
from reconciler.backends.paging import page_of
from reconciler.names import EVERYTHING, Identifier, Scope, join
from reconciler.state import Capabilities, LiveNamespace, LiveTable, PropertyChanges, Schema, Snapshot, StorageKind

__all__ = ["Backend", "NotLanceTableError"]


class NotLanceTableError(TableNotFoundError):
    """A table of another format has the name.

    To lancens such a table is not there. The operations that name one table answer InvalidInput instead, as the
    catalogs' specifications say under "DescribeTable" and "DeregisterTable".
    """


class Backend(LanceNamespace):
    """A Lance namespace that lancens can plan and apply against.

    A subclass MUST set ``impl``, ``capabilities`` and ``config_model`` and implement the methods marked *required*.
    It MAY override those marked *optional* where its system can do more. Everything else is built here once, so that
    every catalog behaves the same.

    Rules for the methods of a subclass:

    * identifiers they receive have been checked and folded (:meth:`table_id`, :meth:`namespace_id_of`);
    * they are safe to call from several threads at once;
    * they raise ``lance_namespace.errors`` types only, with the code the catalog's specification names, and no text
      they raise holds a secret;
    * every list goes to its last page, or raises;
    * no call deletes data, nor makes a server delete it.
    """

    impl: ClassVar[str]
    config_model: ClassVar[type[BackendConfig]] = BackendConfig
    capabilities: Capabilities

    parallelism: int = 8
    """How many requests a scan or a list has in flight; whoever connects may set another number."""

    def __init__(self, **properties: str) -> None:
        self.config = parse_config(self.config_model, self.impl, properties)

    # ---- what a subclass implements ------------------------------------------------------------------------------

    @abstractmethod
    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return every namespace and Lance table within ``scope`` (required).

        Takes as few calls as the service admits. A namespace is included when it is in ``scope`` or something in
        ``scope`` can stand below it, so that the ancestors of whatever is planned are known.

        Raises:
            LanceNamespaceError: naming what could not be read; never returns a part.
        """

    @abstractmethod
    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace (required).

        Raises:
            NamespaceNotFoundError: it or one of its parents does not exist.
        """

    @abstractmethod
    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table (required).

        Raises:
            TableNotFoundError: it does not exist.
            NotLanceTableError: it is no Lance table.
            NamespaceNotFoundError: its namespace does not exist, where the service tells.
        """

    @abstractmethod
    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        """Return the names directly below ``parent``, complete, in any order (required).

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
        """

    @abstractmethod
    def child_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names of the Lance tables in ``parent``, complete, in any order (required).

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
        """

    @abstractmethod
    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace (required).

        ``kind`` is one of ``capabilities.namespace_kinds``, or None for the backend's own choice; systems with one
        kind of namespace have no use for it.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            NamespaceNotFoundError: the parent does not exist.
        """

    @abstractmethod
    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove a namespace that holds no object of any kind, asked right before (required).

        Raises:
            NamespaceNotEmptyError: it holds something, foreign objects included.
            NamespaceNotFoundError: it does not exist.
        """

    @abstractmethod
    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the catalog entry of a table; storage is not touched (required).

        Returns the entry with the location in force.

        Raises:
            TableAlreadyExistsError: the name is taken, by a foreign table too.
            NamespaceNotFoundError: the namespace does not exist.
        """

    @abstractmethod
    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the catalog entry of a Lance table and return it; storage is not touched (required).

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is no Lance table; it stays.
        """

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties (optional: ``capabilities.alter_namespace``).

        Raises:
            NamespaceNotFoundError: it does not exist.
            ConcurrentModificationError: it was changed in between, where the service tells.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a namespace cannot be changed")

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's properties and, where given, move its entry to ``location`` (optional).

        See ``capabilities.alter_table`` and ``capabilities.relocate_table``. Everything else of the entry stays.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it was changed in between, where the service tells.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a table cannot be changed")

    def expect_roots(self, names: Iterable[str]) -> None:
        """Hear which names the manifest uses on the outermost level, for a service that cannot list it (optional)."""

    def default_location(self, identifier: Identifier) -> str | None:
        """Return where a table goes that names no location; None when it has to name one (optional).

        Raises:
            NamespaceNotFoundError: the place hangs on a namespace that does not exist.
        """
        return None

    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return the names of what a namespace holds beside Lance tables and namespaces (optional).

        Tables of other formats, views, functions: whatever keeps the namespace from being dropped.
        """
        return ()

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return, in sentences, what the catalog cannot show as it is of the tables about to be made (optional)."""
        return ()

    def storage_options(self) -> dict[str, str]:
        """Return the options for opening this catalog's datasets with pylance (optional)."""
        return dict(self.config.storage)

    def close(self) -> None:
        """Give back connections (optional). A closed backend is not used again."""

    # ---- identifiers ---------------------------------------------------------------------------------------------

    def namespace_id(self) -> str:
        """Return a text that names this connection: the implementation and the service, without secrets."""
        return f"{self.impl}: {self.config.identity()}"

    def namespace_id_of(self, names: Sequence[str] | None, *, root: bool = True) -> Identifier:
        """Return the checked, folded identifier of a namespace; the empty one is the root.

        Raises:
            InvalidInputError: a name or the depth is not possible here, or the root was given where it cannot be.
        """
        return namespace_identifier(self.impl, self.capabilities, names, root=root)

    def table_id(self, names: Sequence[str] | None) -> Identifier:
        """Return the checked, folded identifier of a table.

        Raises:
            InvalidInputError: a name or the depth is not possible here.
        """
        return table_identifier(self.impl, self.capabilities, names)

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        """ListNamespaces: names in order, a page of ``limit`` at a time."""
        parent = self.namespace_id_of(request.id)
        page = page_of(self.child_namespaces(parent), request.page_token, request.limit)
        return ListNamespacesResponse(namespaces=page.names, page_token=page.token)

    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        """DescribeNamespace: the properties of a namespace; the root has none."""
        identifier = self.namespace_id_of(request.id)
        if not identifier:
            return DescribeNamespaceResponse(properties={})
        return DescribeNamespaceResponse(properties=dict(self.load_namespace(identifier).properties))

    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """NamespaceExists: returns for an existing namespace, raises NamespaceNotFoundError otherwise."""
        identifier = self.namespace_id_of(request.id)
        if identifier:
            self.load_namespace(identifier)
        return NamespaceExistsResponse()

    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """CreateNamespace in modes create, exist_ok and overwrite.

        Overwrite replaces the properties of an existing namespace; it drops nothing.
        """
        identifier = self.namespace_id_of(request.id, root=False)
        mode = _choice("mode", request.mode, ("create", "existok", "overwrite"))
        properties = request.properties or {}
        try:
            made = self.insert_namespace(identifier, properties)
        except NamespaceAlreadyExistsError:
            if mode == "create":
                raise
            made = self.load_namespace(identifier)
            if mode == "overwrite":
                gone = frozenset(made.properties) - frozenset(properties)
                made = self.alter_namespace(identifier, PropertyChanges(properties, gone))
        return CreateNamespaceResponse(properties=dict(made.properties))

    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """DropNamespace in modes fail and skip, behaviours restrict and cascade.

        Cascade deregisters Lance tables, deepest first, and leaves all data where it is; it starts only when nothing
        but Lance tables and namespaces is below.
        """
        identifier = self.namespace_id_of(request.id, root=False)
        mode = _choice("mode", request.mode, ("fail", "skip"))
        behavior = _choice("behavior", request.behavior, ("restrict", "cascade"))
        try:
            properties = dict(self.load_namespace(identifier).properties)
            if behavior == "cascade":
                self._empty(identifier)
            self.remove_namespace(identifier)
        except NamespaceNotFoundError:
            if mode == "fail":
                raise
            return DropNamespaceResponse()
        return DropNamespaceResponse(properties=properties)

    def _empty(self, identifier: Identifier) -> None:
        """Deregister every table and drop every namespace below ``identifier``, or change nothing and raise."""
        below: list[Identifier] = []
        todo = [identifier]
        while todo:
            parent = todo.pop()
            foreign = self.foreign_objects(parent)
            if foreign:
                some = ", ".join(sorted(foreign)[:5])
                raise NamespaceNotEmptyError(f"{self.impl}: `{join(parent)}` holds what is not managed here: {some}")
            children = [(*parent, name) for name in self.child_namespaces(parent)]
            below += children
            todo += children
        for namespace in [*reversed(below), identifier]:
            for name in sorted(self.child_tables(namespace)):
                try:
                    self.remove_table((*namespace, name))
                except TableNotFoundError:
                    continue
            if namespace != identifier:
                self.remove_namespace(namespace)

    # ---- tables --------------------------------------------------------------------------------------------------

    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """ListTables: names in order; with ``include_declared`` false, only tables that have data."""
        parent = self.namespace_id_of(request.id)
        names = list(self.child_tables(parent))
        if request.include_declared is False:
            names = [name for name in names if self._has_data(self.load_table((*parent, name)))]
        page = page_of(names, request.page_token, request.limit)
        return ListTablesResponse(tables=page.names, page_token=page.token)

    def list_all_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """ListAllTables: the string identifiers of all tables below the root."""
        page = page_of(map(join, self.scan().tables), request.page_token, request.limit)
        return ListTablesResponse(tables=page.names, page_token=page.token)

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """DescribeTable: the catalog entry; with ``load_detailed_metadata`` or a version, the dataset's metadata too.

        Raises:
            TableNotFoundError: there is no such table.
            InvalidInputError: it is no Lance table.
            InvalidTableStateError: metadata was asked for and the location holds no Lance dataset.
        """
        identifier = self.table_id(request.id)
        with _other_formats_refused():
            table = self.load_table(identifier)
        response = DescribeTableResponse(
            table=identifier[-1],
            namespace=list(identifier[:-1]),
            location=table.location,
            table_uri=table.location if request.with_table_uri else None,
            storage_options=self.storage_options() or None,
            properties=dict(table.properties),
        )
        if request.check_declared:
            response.is_only_declared = not self._has_data(table)
        if request.load_detailed_metadata or request.version is not None:
            metadata = storage.describe(table.location, self.storage_options(), request.version)
            response.version = metadata.version
            response.var_schema = metadata.arrow_schema
            response.stats = metadata.stats
            response.metadata = metadata.metadata
        return response

    def _has_data(self, table: LiveTable) -> bool:
        return storage.probe(table.location, self.storage_options()).kind is not StorageKind.NOTHING

    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """TableExists: returns for an existing table, raises TableNotFoundError otherwise."""
        self.load_table(self.table_id(request.id))
        return TableExistsResponse()

    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """DeclareTable: an entry with a location and no data yet."""
        identifier = self.table_id(request.id)
        location = request.location or self._required_location(identifier)
        table = self.insert_table(identifier, location, request.properties or {})
        return DeclareTableResponse(
            location=table.location,
            properties=dict(table.properties),
            storage_options=self.storage_options() or None,
        )

    def register_table(self, request: RegisterTableRequest) -> RegisterTableResponse:
        """RegisterTable: an entry for data that is already there.

        Overwrite moves the entry of an existing table to the new location; the data stays at both.
        """
        identifier = self.table_id(request.id)
        mode = _choice("mode", request.mode, ("create", "overwrite"))
        properties = request.properties or {}
        try:
            table = self.insert_table(identifier, request.location, properties)
        except TableAlreadyExistsError:
            if mode == "create":
                raise
            gone = frozenset(self.load_table(identifier).properties) - frozenset(properties)
            table = self.alter_table(identifier, PropertyChanges(properties, gone), request.location)
        return RegisterTableResponse(location=table.location, properties=dict(table.properties))

    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """DeregisterTable: removes the entry; the data stays."""
        identifier = self.table_id(request.id)
        with _other_formats_refused():
            table = self.remove_table(identifier)
        return DeregisterTableResponse(id=list(identifier), location=table.location, properties=dict(table.properties))

    def create_table(self, request: CreateTableRequest, request_data: bytes) -> CreateTableResponse:
        """CreateTable in modes create and exist_ok, from an Arrow IPC stream.

        Overwrite would delete data and is not supported. Data that is already at the location is left alone and
        refused.
        """
        identifier = self.table_id(request.id)
        mode = _choice("mode", request.mode, ("create", "existok", "overwrite"))
        if mode == "overwrite":
            raise UnsupportedOperationError(f"{self.impl}: create_table with overwrite would delete data")
        options = {**self.storage_options(), **(request.storage_options or {})}
        version: int | None = None
        taken = TableAlreadyExistsError(f"{self.impl}: table `{join(identifier)}` already exists")
        try:
            table = self.load_table(identifier)
        except NotLanceTableError:
            raise taken from None
        except TableNotFoundError:
            table, version = self._create(identifier, request.properties or {}, request_data, options)
        else:
            if mode == "create":
                raise taken
        return CreateTableResponse(
            location=table.location,
            version=version,
            properties=dict(table.properties),
            storage_options=self.storage_options() or None,
        )

    def _create(
        self, identifier: Identifier, properties: Mapping[str, str], data: bytes, options: Mapping[str, str]
    ) -> tuple[LiveTable, int]:
        """Write a dataset and make its entry, in the order that never leaves an entry that points at nothing.

        Where the service chooses the location, only the entry says where the data goes.
        """
        location = self._required_location(identifier)
        if not self.capabilities.ignores_location:
            version = storage.write_stream(location, data, options)
            return self.insert_table(identifier, location, properties), version
        table = self.insert_table(identifier, location, properties)
        try:
            return table, storage.write_stream(table.location, data, options)
        except LanceNamespaceError:
            self.remove_table(identifier)
            raise

    def drop_table(self, request: DropTableRequest) -> DropTableResponse:
        """DropTable deletes data, so it is not supported: deregister_table removes the entry only."""
        raise UnsupportedOperationError(f"{self.impl}: drop_table would delete data; use deregister_table")

    def _required_location(self, identifier: Identifier) -> str:
        location = self.default_location(identifier)
        if location is None:
            raise InvalidInputError(
                f"{self.impl}: table `{join(identifier)}` needs a location: no `root` is configured"
            )
        return location


@contextmanager
def _other_formats_refused() -> Iterator[None]:
    try:
        yield
    except NotLanceTableError as error:
        raise InvalidInputError(str(error)) from None


def _choice(parameter: str, given: str | None, choices: tuple[str, ...]) -> str:
    """Return the choice ``given`` names, whatever its case and underscores; the first when none is given."""
    if given is None:
        return choices[0]
    plain = given.replace("_", "").lower()
    if plain not in choices:
        raise InvalidInputError(f"{parameter} `{given}` is not one of {', '.join(choices)}")
    return plain
