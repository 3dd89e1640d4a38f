"""A backend as a Lance namespace: the operations of the specification, built once on the backend's contract.

The operations follow the Lance Namespace specification, "Namespace Operations", in today's names (DescribeTable for
GetTable, DescribeNamespace for GetNamespace).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAddColumnsResponse,
    CreateEmptyTableRequest,
    CreateEmptyTableResponse,
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
    RenameTableRequest,
    RenameTableResponse,
    TableExistsRequest,
    TableExistsResponse,
)
from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

from reconciler import storage
from reconciler.arrow_types import to_arrow_schema
from reconciler.backends.base import Backend
from reconciler.concurrency import in_parallel
from reconciler.errors import (
    BackendError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotLanceTableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.names import Identifier, join
from reconciler.namespace.datasets import DatasetOperations
from reconciler.namespace.json_arrow import to_json_schema
from reconciler.namespace.paging import page_of
from reconciler.namespace.requests import operation
from reconciler.state import LiveTable, PropertyChanges, StorageKind

__all__ = ["CatalogNamespace"]


class CatalogNamespace(DatasetOperations):
    """A catalog as every Lance tool takes it. Every operation raises ``lance_namespace.errors`` types only.

    It can be pickled: the copy connects anew.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def __reduce__(self) -> tuple[object, ...]:
        return CatalogNamespace, (self.backend,)

    def namespace_id(self) -> str:
        """Return a text that names this connection: the implementation and the service, without secrets."""
        return self.backend.namespace_id()

    def close(self) -> None:
        """Give back connections. A closed namespace is not used again."""
        self.backend.close()

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return what surrounds the work on a request with this ``context``: it goes to the catalog."""
        return self.backend.in_context(context)

    # ---- namespaces ----------------------------------------------------------------------------------------------

    @operation(ListNamespacesRequest)
    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        """ListNamespaces: names in order, a page of ``limit`` at a time."""
        parent = self.backend.namespace_id_of(request.id)
        page = page_of(self.backend.child_namespaces(parent), request.page_token, request.limit)
        return ListNamespacesResponse(namespaces=page.names, page_token=page.token)

    @operation(DescribeNamespaceRequest)
    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        """DescribeNamespace: the properties of a namespace; the root has none."""
        identifier = self.backend.namespace_id_of(request.id)
        if not identifier:
            return DescribeNamespaceResponse(properties={})
        return DescribeNamespaceResponse(properties=dict(self.backend.load_namespace(identifier).properties))

    @operation(NamespaceExistsRequest)
    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """NamespaceExists: returns for an existing namespace, raises NamespaceNotFoundError otherwise."""
        identifier = self.backend.namespace_id_of(request.id)
        if identifier:
            self.backend.load_namespace(identifier)
        return NamespaceExistsResponse()

    @operation(CreateNamespaceRequest)
    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """CreateNamespace in modes create, exist_ok and overwrite.

        Overwrite replaces the properties of an existing namespace; it drops nothing.
        """
        identifier = self.backend.namespace_id_of(request.id, root=False)
        mode = _choice("mode", request.mode, ("create", "existok", "overwrite"))
        properties = request.properties or {}
        try:
            made = self.backend.insert_namespace(identifier, self._direct_properties(identifier, properties))
        except NamespaceAlreadyExistsError:
            if mode == "create":
                raise
            made = self.backend.load_namespace(identifier)
            if mode == "overwrite":
                gone = frozenset(made.properties) - frozenset(properties)
                made = self.backend.alter_namespace(identifier, PropertyChanges(properties, gone))
        return CreateNamespaceResponse(properties=dict(made.properties))

    def _direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a new namespace, with what its catalog asks for."""
        return self.backend.direct_properties(identifier, properties)

    @operation(DropNamespaceRequest)
    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """DropNamespace in modes fail and skip, behaviours restrict and cascade.

        Cascade deregisters Lance tables, deepest first, and leaves all data where it is; it starts only when nothing
        but Lance tables and namespaces is below.
        """
        identifier = self.backend.namespace_id_of(request.id, root=False)
        default = "skip" if self.backend.drops_missing else "fail"
        mode = _choice("mode", request.mode or default, ("fail", "skip"))
        behavior = _choice("behavior", request.behavior, ("restrict", "cascade"))
        try:
            properties = dict(self.backend.load_namespace(identifier).properties)
            if behavior == "cascade":
                self._empty(identifier)
            self.backend.remove_namespace(identifier)
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
            foreign = self.backend.foreign_objects(parent)
            if foreign:
                some = ", ".join(sorted(foreign)[:5])
                raise NamespaceNotEmptyError(
                    f"{self.backend.impl}: `{join(parent)}` holds what is not managed here: {some}"
                )
            children = [(*parent, name) for name in self.backend.child_namespaces(parent)]
            below += children
            todo += children
        for namespace in [*reversed(below), identifier]:
            for name in sorted(self.backend.child_tables(namespace)):
                try:
                    self.backend.remove_table((*namespace, name))
                except TableNotFoundError:
                    continue
            if namespace != identifier:
                self.backend.remove_namespace(namespace)

    # ---- tables --------------------------------------------------------------------------------------------------

    @operation(ListTablesRequest)
    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """ListTables: names in order; with ``include_declared`` false, only tables that have data.

        A page costs the list, and looking at its own entries where that takes a call each.
        """
        parent = self.backend.namespace_id_of(request.id)
        # None at all may be those of a namespace that does not exist.
        names = list(self.backend.possible_tables(parent)) or self.backend.child_tables(parent)

        def chosen(some: Sequence[str]) -> Sequence[str]:
            tables = self.backend.tables_among(parent, some)
            return self._with_data(parent, tables) if request.include_declared is False else tables

        page = page_of(names, request.page_token, request.limit, chosen)
        return ListTablesResponse(tables=page.names, page_token=page.token)

    def _with_data(self, parent: Identifier, names: Sequence[str]) -> Sequence[str]:
        """Return those of the tables ``names`` in ``parent`` that have data; one that has gone meanwhile has none."""

        def has_data(name: str) -> bool:
            try:
                return self._has_data(self.backend.load_table((*parent, name)))
            except TableNotFoundError:
                return False

        found = in_parallel(has_data, names, self.backend.parallelism)
        return [name for name, has in zip(names, found, strict=True) if has]

    @operation(ListTablesRequest)
    def list_all_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """ListAllTables: the string identifiers of all tables below the root."""
        page = page_of(map(join, self.backend.scan().tables), request.page_token, request.limit)
        return ListTablesResponse(tables=page.names, page_token=page.token)

    @operation(DescribeTableRequest)
    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """DescribeTable: the catalog entry; the dataset's metadata too, where it is asked for.

        It is asked for with ``load_detailed_metadata``, or by a version, a tag or a branch.

        Raises:
            TableNotFoundError: there is no such table.
            TableVersionNotFoundError, TableTagNotFoundError, TableBranchNotFoundError: its dataset has none such.
            InvalidInputError: it is not a Lance table, or a tag stands beside a version or a branch.
            InvalidTableStateError: metadata was asked for and the location holds no Lance dataset.
        """
        identifier = self.backend.table_id(request.id)
        with _other_formats_refused():
            table = self.backend.load_table(identifier)
        gives_credentials = request.vend_credentials is not False
        options = self.backend.own_storage_options(table)
        if gives_credentials:
            options = self.backend.table_storage_options(table, writes=True)
        response = DescribeTableResponse(
            table=identifier[-1],
            namespace=list(identifier[:-1]),
            location=table.location,
            table_uri=table.location if request.with_table_uri else None,
            storage_options=options or None,
            properties=dict(table.properties),
            managed_versioning=table.managed_versioning or None,
        )
        if request.check_declared:
            response.is_only_declared = not self._has_data(table)
        reference = storage.Reference(request.version, request.tag, request.branch)
        if request.load_detailed_metadata or not reference.is_latest:
            if not gives_credentials:
                options = self.backend.table_storage_options(table)
            metadata = storage.describe(self._location_to_open(table), options, reference)
            response.version = metadata.version
            response.var_schema = to_json_schema(metadata.schema)
            response.stats = TableBasicStats(
                num_deleted_rows=metadata.num_deleted_rows, num_fragments=metadata.num_fragments
            )
            response.metadata = dict(metadata.summary)
        else:
            shown = self.backend.shown_schema(identifier)
            response.var_schema = to_json_schema(to_arrow_schema(shown)) if shown else None
        return response

    def _has_data(self, table: LiveTable) -> bool:
        found = storage.probe(self._location_to_open(table), self.backend.table_storage_options(table))
        return found.kind is not StorageKind.NOTHING

    def _location_to_open(self, table: LiveTable) -> str:
        """Return where the dataset of ``table`` is opened."""
        return table.location

    def _place(self, identifier: Sequence[str] | None) -> tuple[str, Mapping[str, str]]:
        with _other_formats_refused():
            table = self.backend.load_table(self.backend.table_id(identifier))
        return self._location_to_open(table), self.backend.table_storage_options(table)

    @operation(TableExistsRequest)
    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """TableExists: returns for an existing table, and version where one is given; raises otherwise.

        Raises:
            TableNotFoundError: there is no such table.
            TableVersionNotFoundError: its dataset has no such version.
            InvalidTableStateError: a version was asked for and the location holds no Lance dataset.
        """
        table = self.backend.load_table(self.backend.table_id(request.id))
        if request.version is not None:
            options = self.backend.table_storage_options(table)
            storage.require_version(self._location_to_open(table), options, request.version)
        return TableExistsResponse()

    @operation(DeclareTableRequest)
    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """DeclareTable: an entry with a location and no data yet; without one in the request, at a free place.

        The answer holds what opens the table, so that a client can write it.
        """
        identifier = self.backend.table_id(request.id)
        properties = request.properties or {}
        location = request.location or self._free_location(identifier)
        if location is None:
            table = self.backend.insert_table_anywhere(identifier, properties)
        else:
            table = self.backend.insert_table(identifier, location, properties)
        options = self.backend.own_storage_options(table)
        if request.vend_credentials is not False:
            # The entry is made: where the service hands out nothing now, DescribeTable says why.
            with suppress(BackendError):
                options = self.backend.table_storage_options(table, writes=True)
        return DeclareTableResponse(
            location=table.location,
            properties=dict(table.properties),
            storage_options=options or None,
            managed_versioning=table.managed_versioning or None,
        )

    @operation(CreateEmptyTableRequest)
    def create_empty_table(self, request: CreateEmptyTableRequest) -> CreateEmptyTableResponse:
        """CreateEmptyTable: the early name of DeclareTable, which it is answered as."""
        made = self.declare_table(DeclareTableRequest(id=request.id, properties=request.properties))
        return CreateEmptyTableResponse(
            location=made.location, properties=made.properties, storage_options=made.storage_options
        )

    @operation(RegisterTableRequest)
    def register_table(self, request: RegisterTableRequest) -> RegisterTableResponse:
        """RegisterTable: an entry for data that is already there.

        Overwrite moves the entry of an existing table to the new location; the data stays at both.
        """
        identifier = self.backend.table_id(request.id)
        mode = _choice("mode", request.mode, ("create", "overwrite"))
        properties = request.properties or {}
        try:
            table = self.backend.insert_table(identifier, request.location, properties)
        except TableAlreadyExistsError:
            if mode == "create":
                raise
            gone = frozenset(self.backend.load_table(identifier).properties) - frozenset(properties)
            table = self.backend.alter_table(identifier, PropertyChanges(properties, gone), request.location)
        return RegisterTableResponse(location=table.location, properties=dict(table.properties))

    @operation(DeregisterTableRequest)
    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """DeregisterTable: removes the entry; the data stays."""
        identifier = self.backend.table_id(request.id)
        with _other_formats_refused():
            table = self.backend.remove_table(identifier)
        return DeregisterTableResponse(id=list(identifier), location=table.location, properties=dict(table.properties))

    @operation(RenameTableRequest)
    def rename_table(self, request: RenameTableRequest) -> RenameTableResponse:
        """RenameTable: the entry gets another name, in another namespace where one is given; the data stays.

        Raises:
            TableNotFoundError: there is no such table.
            TableAlreadyExistsError: the new name is taken.
            NamespaceNotFoundError: the new namespace does not exist.
            UnsupportedOperationError: the catalog does not rename, or not from the one place to the other.
        """
        identifier = self.backend.table_id(request.id)
        above = identifier[:-1] if request.new_namespace_id is None else request.new_namespace_id
        to = self.backend.table_id([*above, request.new_table_name])
        if not self.backend.asked_capabilities().renames(identifier, to):
            raise UnsupportedOperationError(
                f"{self.backend.impl}: `{join(identifier)}` cannot be renamed to `{join(to)}` in place; register it "
                "under the new name and deregister it under the old one"
            )
        with _other_formats_refused():
            self.backend.rename_table(identifier, to)
        return RenameTableResponse()

    @operation(CreateTableRequest)
    def create_table(self, request: CreateTableRequest, request_data: bytes) -> CreateTableResponse:
        """CreateTable in modes create and exist_ok, from an Arrow IPC stream.

        Overwrite would delete data and is not supported. Data that is already at the location is left alone and
        refused.
        """
        identifier = self.backend.table_id(request.id)
        mode = _choice("mode", request.mode, ("create", "existok", "overwrite"))
        if mode == "overwrite":
            raise UnsupportedOperationError(f"{self.backend.impl}: create_table with overwrite would delete data")
        version: int | None = None
        taken = TableAlreadyExistsError(f"{self.backend.impl}: table `{join(identifier)}` already exists")
        try:
            table = self.backend.load_table(identifier)
        except NotLanceTableError:
            raise taken from None
        except TableNotFoundError:
            table, version = self._create(
                identifier, request.properties or {}, request_data, request.storage_options or {}
            )
        else:
            if mode == "create":
                raise taken
        return CreateTableResponse(
            location=table.location,
            version=version,
            properties=dict(table.properties),
            storage_options=self.backend.storage_options() or None,
        )

    def _create(
        self, identifier: Identifier, properties: Mapping[str, str], data: bytes, options: Mapping[str, str]
    ) -> tuple[LiveTable, int]:
        """Write a dataset and make its entry, in the order that never leaves an entry that points at nothing.

        Where the service chooses the location, only the entry says where the data goes; so it does where the service
        may keep the versions of the data itself. It is taken away again where it does: nothing can be written then.
        ``options`` are the client's.
        """
        location = self._free_location(identifier)
        able = self.backend.capabilities
        entry_first = able.ignores_location or (able.may_manage_versions and len(identifier) > 1)
        if location is not None and not entry_first:
            version = storage.write_stream(location, data, {**self.backend.storage_options(), **options})
            return self.backend.insert_table(identifier, location, properties), version
        if location is None:
            table = self.backend.insert_table_anywhere(identifier, properties)
        else:
            table = self.backend.insert_table(identifier, location, properties)
        try:
            if table.managed_versioning:
                raise UnsupportedOperationError(f"{self.backend.impl}: {storage.MANAGED}")
            own = self.backend.table_storage_options(table, writes=True)
            return table, storage.write_stream(table.location, data, {**own, **options})
        except BackendError:
            self.backend.remove_table(identifier)
            raise

    @operation(AlterTableAddColumnsRequest)
    def alter_table_add_columns(self, request: AlterTableAddColumnsRequest) -> AlterTableAddColumnsResponse:
        """AlterTableAddColumns: columns whose values expressions in SQL give; no row is written anew.

        Raises:
            InvalidInputError: none is named, one is there already, or is no expression on the columns of the table.
            UnsupportedOperationError: a column is to be kept up to date or comes of a program, a branch is named, or
                the service keeps the versions of the table itself.
        """
        identifier = self.backend.table_id(request.id)
        if request.branch is not None:
            raise UnsupportedOperationError("columns are added to the main branch only; open the dataset for another")
        expressions: dict[str, str] = {}
        for column in request.new_columns:
            if column.computed is not None or column.virtual_column is not None or column.expression is None:
                raise UnsupportedOperationError(
                    f"column `{column.name}` needs an `expression`: nothing here keeps a `computed` column up to date, "
                    "or runs what a `virtual_column` names"
                )
            if column.name in expressions:
                raise InvalidInputError(f"column `{column.name}` is named twice")
            expressions[column.name] = column.expression
        if not expressions:
            raise InvalidInputError("the request names no column")
        with _other_formats_refused():
            table = self.backend.load_table(identifier)
        if table.managed_versioning:
            raise UnsupportedOperationError(f"{self.backend.impl}: {storage.MANAGED}")
        options = self.backend.table_storage_options(table, writes=True)
        version = storage.compute_columns(self._location_to_open(table), expressions, options)
        return AlterTableAddColumnsResponse(version=version)

    @operation(DropTableRequest)
    def drop_table(self, request: DropTableRequest) -> DropTableResponse:
        """DropTable deletes data, so it is not supported: deregister_table removes the entry only."""
        raise UnsupportedOperationError(f"{self.backend.impl}: drop_table would delete data; use deregister_table")

    def _free_location(self, identifier: Identifier) -> str | None:
        """Return where a new table goes that names no location: a place that holds nothing.

        Data stays where it is when a table is deregistered. A table made again under the same name must not show it,
        so it gets a place beside the default one. None: the service chooses.

        Raises:
            TableAlreadyExistsError: there can be no such place.
        """
        default = self._direct_location(identifier)
        if default is None:
            return None
        if storage.probe(default, self.backend.storage_options()).kind is StorageKind.NOTHING:
            return default
        return self.backend.fresh_location(identifier, default)

    def _direct_location(self, identifier: Identifier) -> str | None:
        """Return where a new table goes by itself; None where the service chooses."""
        return self.backend.direct_location(identifier)


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
