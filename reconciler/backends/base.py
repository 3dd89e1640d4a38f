"""The base of every backend: the Lance Namespace operations, built on the methods of the contract.

The operations follow the Lance Namespace specification, "Namespace Operations", in today's names (DescribeTable for
GetTable, DescribeNamespace for GetNamespace).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
from reconciler.backends.contract import Contract, NotLanceTableError
from reconciler.backends.paging import page_of
from reconciler.names import Identifier, join
from reconciler.state import LiveTable, PropertyChanges, StorageKind

__all__ = ["Backend", "NotLanceTableError"]


class Backend(Contract):
    """A Lance namespace that lancens can plan and apply against.

    A subclass implements the methods of :class:`~reconciler.backends.contract.Contract`; its docstring says which.
    """

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
