"""The operations that are served, in one table: names, routes, models, and what each asks of a catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAddColumnsResponse,
    CountTableRowsRequest,
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
    DescribeTableIndexStatsRequest,
    DescribeTableIndexStatsResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    DescribeTableVersionRequest,
    DescribeTableVersionResponse,
    DropNamespaceRequest,
    DropNamespaceResponse,
    DropTableRequest,
    DropTableResponse,
    GetTableStatsRequest,
    GetTableStatsResponse,
    GetTableTagVersionRequest,
    GetTableTagVersionResponse,
    ListNamespacesRequest,
    ListNamespacesResponse,
    ListTableBranchesRequest,
    ListTableBranchesResponse,
    ListTableIndicesRequest,
    ListTableIndicesResponse,
    ListTablesRequest,
    ListTablesResponse,
    ListTableTagsRequest,
    ListTableTagsResponse,
    ListTableVersionsRequest,
    ListTableVersionsResponse,
    NamespaceExistsRequest,
    NamespaceExistsResponse,
    RegisterTableRequest,
    RegisterTableResponse,
    RenameTableRequest,
    RenameTableResponse,
    TableExistsRequest,
    TableExistsResponse,
)
from lance_namespace.errors import InvalidInputError
from pydantic import BaseModel, ConfigDict, Field, RootModel, StrictStr

from reconciler.namespace.requests import specification_errors
from reconciler.server.places import ServedNamespace
from reconciler.state import PropertyChanges

__all__ = ["ALIASES", "OPERATIONS", "REFUSED", "Operation", "offered"]

RequestT = TypeVar("RequestT", bound=BaseModel)


class AlterNamespaceRequest(BaseModel):
    """A merge into the properties of a namespace: keys to set, keys to remove, every other one stays."""

    model_config = ConfigDict(extra="ignore")

    id: list[StrictStr] | None = None
    set_properties: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    unset_properties: list[StrictStr] = Field(default_factory=list)

    @property
    def changes(self) -> PropertyChanges:
        """The merge."""
        return PropertyChanges(self.set_properties, frozenset(self.unset_properties))


class AlterTableRequest(AlterNamespaceRequest):
    """A merge into the properties of a table's entry and, where given, its new location; the data stays."""

    location: StrictStr | None = None


class RowCount(RootModel[int]):
    """The answer of CountTableRows: a number by itself."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the specification.

    ``path`` is today's route, None for one that has none: ``{id}`` is where the identifier stands, and other names in
    braces are fields of the request. Every operation is at ``POST /<name>`` as well. ``run`` takes the catalog, the
    request and the body that is not JSON.
    """

    name: str
    summary: str
    method: str
    path: str | None
    request: type[BaseModel]
    response: type[BaseModel]
    run: Callable[[ServedNamespace, Any, bytes], BaseModel]
    writes: bool = False
    takes_data: bool = False

    @property
    def names_a_table(self) -> bool:
        """Whether the identifier is that of a table, not of a namespace."""
        return self.name == "AlterTable" or (self.path is not None and self.path.startswith(_TABLE))


def _alter_namespace(namespace: ServedNamespace, request: AlterNamespaceRequest, _data: bytes) -> BaseModel:
    with specification_errors():
        identifier = namespace.backend.namespace_id_of(request.id, root=False)
        live = namespace.backend.alter_namespace(identifier, request.changes)
    return DescribeNamespaceResponse(properties=dict(live.properties))


def _alter_table(namespace: ServedNamespace, request: AlterTableRequest, _data: bytes) -> BaseModel:
    location = namespace.checked(request.location)
    with specification_errors():
        identifier = namespace.backend.table_id(request.id)
        live = namespace.backend.alter_table(identifier, request.changes, location)
    return DescribeTableResponse(
        table=identifier[-1],
        namespace=list(identifier[:-1]),
        location=live.location,
        properties=dict(live.properties),
    )


def _declare_table(namespace: ServedNamespace, request: DeclareTableRequest, _data: bytes) -> BaseModel:
    namespace.checked(request.location)
    return namespace.declare_table(request.model_copy(update={"vend_credentials": False}))


def _register_table(namespace: ServedNamespace, request: RegisterTableRequest, _data: bytes) -> BaseModel:
    namespace.checked(request.location)
    return namespace.register_table(request)


def _create_table(namespace: ServedNamespace, request: CreateTableRequest, data: bytes) -> BaseModel:
    if request.storage_options:
        raise InvalidInputError("storage options of a client are not used here: the server writes with its own")
    return namespace.create_table(request, data)


def _describe_table(namespace: ServedNamespace, request: DescribeTableRequest, _data: bytes) -> BaseModel:
    """Answer without what the catalog hands out to this server: it is not passed on, so it is not asked for."""
    return namespace.describe_table(request.model_copy(update={"vend_credentials": False}))


def _count_table_rows(namespace: ServedNamespace, request: CountTableRowsRequest, _data: bytes) -> BaseModel:
    return RowCount(namespace.count_table_rows(request).count or 0)


def _plain(
    method: Callable[[ServedNamespace, RequestT], BaseModel],
) -> Callable[[ServedNamespace, RequestT, bytes], BaseModel]:
    def run(namespace: ServedNamespace, request: RequestT, _data: bytes) -> BaseModel:
        return method(namespace, request)

    return run


_NAMESPACE = "/v1/namespace/{id}"
_TABLE = "/v1/table/{id}"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "ListNamespaces",
        "The names of the namespaces directly below one, in pages.",
        "GET",
        f"{_NAMESPACE}/list",
        ListNamespacesRequest,
        ListNamespacesResponse,
        _plain(lambda namespace, request: namespace.list_namespaces(request)),
    ),
    Operation(
        "DescribeNamespace",
        "The properties of a namespace.",
        "POST",
        f"{_NAMESPACE}/describe",
        DescribeNamespaceRequest,
        DescribeNamespaceResponse,
        _plain(lambda namespace, request: namespace.describe_namespace(request)),
    ),
    Operation(
        "NamespaceExists",
        "Whether a namespace exists.",
        "POST",
        f"{_NAMESPACE}/exists",
        NamespaceExistsRequest,
        NamespaceExistsResponse,
        _plain(lambda namespace, request: namespace.namespace_exists(request)),
    ),
    Operation(
        "CreateNamespace",
        "Creates a namespace; overwrite replaces the properties of one and drops nothing.",
        "POST",
        f"{_NAMESPACE}/create",
        CreateNamespaceRequest,
        CreateNamespaceResponse,
        _plain(lambda namespace, request: namespace.create_namespace(request)),
        writes=True,
    ),
    Operation(
        "AlterNamespace",
        "Merges into the properties of a namespace.",
        "POST",
        None,
        AlterNamespaceRequest,
        DescribeNamespaceResponse,
        _alter_namespace,
        writes=True,
    ),
    Operation(
        "DropNamespace",
        "Drops a namespace; cascade deregisters the Lance tables in it and leaves all data.",
        "POST",
        f"{_NAMESPACE}/drop",
        DropNamespaceRequest,
        DropNamespaceResponse,
        _plain(lambda namespace, request: namespace.drop_namespace(request)),
        writes=True,
    ),
    Operation(
        "ListTables",
        "The names of the tables in a namespace, in pages.",
        "GET",
        f"{_NAMESPACE}/table/list",
        ListTablesRequest,
        ListTablesResponse,
        _plain(lambda namespace, request: namespace.list_tables(request)),
    ),
    Operation(
        "ListAllTables",
        "The identifiers of all tables, in pages.",
        "GET",
        "/v1/table",
        ListTablesRequest,
        ListTablesResponse,
        _plain(lambda namespace, request: namespace.list_all_tables(request)),
    ),
    Operation(
        "DescribeTable",
        "The location and the properties of a table; the metadata of its dataset where asked for.",
        "POST",
        f"{_TABLE}/describe",
        DescribeTableRequest,
        DescribeTableResponse,
        _describe_table,
    ),
    Operation(
        "TableExists",
        "Whether a table exists.",
        "POST",
        f"{_TABLE}/exists",
        TableExistsRequest,
        TableExistsResponse,
        _plain(lambda namespace, request: namespace.table_exists(request)),
    ),
    Operation(
        "ListTableVersions",
        "The versions of a table's dataset, in pages.",
        "POST",
        f"{_TABLE}/version/list",
        ListTableVersionsRequest,
        ListTableVersionsResponse,
        _plain(lambda namespace, request: namespace.list_table_versions(request)),
    ),
    Operation(
        "DescribeTableVersion",
        "One version of a table's dataset.",
        "POST",
        f"{_TABLE}/version/describe",
        DescribeTableVersionRequest,
        DescribeTableVersionResponse,
        _plain(lambda namespace, request: namespace.describe_table_version(request)),
    ),
    Operation(
        "ListTableTags",
        "The tags of a table's dataset, in pages.",
        "POST",
        f"{_TABLE}/tags/list",
        ListTableTagsRequest,
        ListTableTagsResponse,
        _plain(lambda namespace, request: namespace.list_table_tags(request)),
    ),
    Operation(
        "GetTableTagVersion",
        "The version that a tag names.",
        "POST",
        f"{_TABLE}/tags/version",
        GetTableTagVersionRequest,
        GetTableTagVersionResponse,
        _plain(lambda namespace, request: namespace.get_table_tag_version(request)),
    ),
    Operation(
        "ListTableBranches",
        "The branches of a table's dataset, in pages.",
        "POST",
        f"{_TABLE}/branches/list",
        ListTableBranchesRequest,
        ListTableBranchesResponse,
        _plain(lambda namespace, request: namespace.list_table_branches(request)),
    ),
    Operation(
        "ListTableIndices",
        "The indices of a table's dataset, in pages.",
        "POST",
        f"{_TABLE}/index/list",
        ListTableIndicesRequest,
        ListTableIndicesResponse,
        _plain(lambda namespace, request: namespace.list_table_indices(request)),
    ),
    Operation(
        "DescribeTableIndexStats",
        "The type and the coverage of an index.",
        "POST",
        f"{_TABLE}/index/{{index_name}}/stats",
        DescribeTableIndexStatsRequest,
        DescribeTableIndexStatsResponse,
        _plain(lambda namespace, request: namespace.describe_table_index_stats(request)),
    ),
    Operation(
        "GetTableStats",
        "Rows, bytes and fragments of a table's dataset.",
        "POST",
        f"{_TABLE}/stats",
        GetTableStatsRequest,
        GetTableStatsResponse,
        _plain(lambda namespace, request: namespace.get_table_stats(request)),
    ),
    Operation(
        "CountTableRows",
        "The number of rows of a table, or of those for which a condition holds.",
        "POST",
        f"{_TABLE}/count_rows",
        CountTableRowsRequest,
        RowCount,
        _count_table_rows,
    ),
    Operation(
        "DeclareTable",
        "Makes the entry of a table that has no data yet.",
        "POST",
        f"{_TABLE}/declare",
        DeclareTableRequest,
        DeclareTableResponse,
        _declare_table,
        writes=True,
    ),
    Operation(
        "CreateEmptyTable",
        "The early name of DeclareTable.",
        "POST",
        f"{_TABLE}/create-empty",
        DeclareTableRequest,
        DeclareTableResponse,
        _declare_table,
        writes=True,
    ),
    Operation(
        "RegisterTable",
        "Makes the entry of a table whose data is there.",
        "POST",
        f"{_TABLE}/register",
        RegisterTableRequest,
        RegisterTableResponse,
        _register_table,
        writes=True,
    ),
    Operation(
        "CreateTable",
        "Writes an Arrow IPC stream as a new table; overwrite is not supported.",
        "POST",
        f"{_TABLE}/create",
        CreateTableRequest,
        CreateTableResponse,
        _create_table,
        writes=True,
        takes_data=True,
    ),
    Operation(
        "AlterTableAddColumns",
        "Adds columns whose values expressions in SQL give; no row is written anew.",
        "POST",
        f"{_TABLE}/add_columns",
        AlterTableAddColumnsRequest,
        AlterTableAddColumnsResponse,
        _plain(lambda namespace, request: namespace.alter_table_add_columns(request)),
        writes=True,
    ),
    Operation(
        "AlterTable",
        "Merges into the properties of a table's entry, or moves the entry; the data stays.",
        "POST",
        None,
        AlterTableRequest,
        DescribeTableResponse,
        _alter_table,
        writes=True,
    ),
    Operation(
        "RenameTable",
        "Gives a table another name; the data stays.",
        "POST",
        f"{_TABLE}/rename",
        RenameTableRequest,
        RenameTableResponse,
        _plain(lambda namespace, request: namespace.rename_table(request)),
        writes=True,
    ),
    Operation(
        "DeregisterTable",
        "Removes the entry of a table; the data stays.",
        "POST",
        f"{_TABLE}/deregister",
        DeregisterTableRequest,
        DeregisterTableResponse,
        _plain(lambda namespace, request: namespace.deregister_table(request)),
        writes=True,
    ),
    Operation(
        "DropTable",
        "Not supported: it would delete data.",
        "POST",
        f"{_TABLE}/drop",
        DropTableRequest,
        DropTableResponse,
        _plain(lambda namespace, request: namespace.drop_table(request)),
        writes=True,
    ),
)

ALIASES = {"GetNamespace": "DescribeNamespace", "GetTable": "DescribeTable"}
"""Early names of operations (Lance Namespace specification, "Namespace Operations")."""


REFUSED = frozenset({"DropTable"})
"""Operations that no catalog here supports, each with a route of its own that says why."""


def offered(namespaces: Collection[ServedNamespace]) -> list[str]:
    """Return the names for ListOperations: what every one of ``namespaces`` can do.

    Raises:
        LanceNamespaceError: a catalog that only knows it itself does not answer.
    """
    with specification_errors():
        able = [namespace.backend.asked_capabilities() for namespace in namespaces]
    excluded = set(REFUSED)
    if any(capabilities.makes_no_tables for capabilities in able):
        excluded |= {"DeclareTable", "CreateEmptyTable", "RegisterTable", "CreateTable"}
    if any(capabilities.chooses_locations for capabilities in able):
        excluded.add("RegisterTable")
    if not all(capabilities.alter_namespace for capabilities in able):
        excluded.add("AlterNamespace")
    if not all(capabilities.alter_table and capabilities.relocate_table for capabilities in able):
        excluded.add("AlterTable")
    if any(capabilities.rename_within is None for capabilities in able):
        excluded.add("RenameTable")
    return ["ListOperations", *(operation.name for operation in OPERATIONS if operation.name not in excluded)]
