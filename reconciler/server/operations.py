"""The table of served operations: their names, routes, models and calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import lance_namespace as spec
from lance_namespace.errors import InvalidInputError
from pydantic import BaseModel, ConfigDict, Field, RootModel, StrictStr

from reconciler.backends.base import Backend
from reconciler.backends.placing import require_location
from reconciler.model.errors import ConcurrentModificationError
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import DELIMITER, join
from reconciler.model.redaction import redact_properties
from reconciler.namespace.shared import specification_errors
from reconciler.server.served import ServedNamespace

OperationCall = Callable[[ServedNamespace, Any, bytes], BaseModel]

_ALL_TABLES_PATH = "/v1/table"
_FORMERLY_GET = frozenset({"CountTableRows", "ListTableTags"})
_READS = re.compile(r"(List|Describe|Get|Count)\w+|\w+Exists")


class AlterNamespaceRequest(BaseModel):
    """A merge into the properties of a namespace: keys to set and keys to remove.

    ``expected_properties`` are the values, as described, that the client merges into; null for a key that is not there.
    """

    model_config = ConfigDict(extra="ignore")

    id: list[StrictStr] | None = None
    set_properties: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    unset_properties: list[StrictStr] = Field(default_factory=list)
    expected_properties: dict[StrictStr, StrictStr | None] = Field(default_factory=dict)

    def conditional_backend(self, backend: Backend, load: Callable[[], LiveNamespace | LiveTable]) -> Backend:
        """Return ``backend`` such that it changes only what has expected properties.

        ``load`` returns the object. Without expected properties, ``backend`` itself is returned.

        Raises:
            ConcurrentModificationError: the object has other values now.
        """

        def check(live: LiveNamespace | LiveTable) -> None:
            described = redact_properties(live.properties)
            keys = sorted(key for key, value in self.expected_properties.items() if described.get(key) != value)
            if keys:
                raise ConcurrentModificationError(
                    f"{backend.impl}: another client has changed `{join(live.id)}`: {', '.join(keys)}"
                )

        if not self.expected_properties:
            return backend
        check(load())
        return backend.checking(check)

    @property
    def changes(self) -> PropertyChanges:
        """The merge in the form that backends take."""
        return PropertyChanges(self.set_properties, frozenset(self.unset_properties))


class AlterTableRequest(AlterNamespaceRequest):
    """A merge into a table's properties, and optionally a new location."""

    location: StrictStr | None = None


class ListAllTablesRequest(spec.ListTablesRequest):
    """A page of all tables, whose identifiers are joined by ``delimiter``."""

    delimiter: StrictStr | None = Field(default=None, max_length=16)

    def with_client_delimiter(self, tables: list[str]) -> list[str]:
        """Return identifiers that are joined by `$` with the client's delimiter."""
        return [table.replace(DELIMITER, self.delimiter or DELIMITER) for table in tables]


class RowCount(RootModel[int]):
    """The answer of CountTableRows: a bare number."""


class SchemaMetadata(RootModel[dict[str, str]]):
    """The answer of UpdateTableSchemaMetadata: the bare metadata, as in the body of its route."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the specification, and how the server carries it out.

    ``path`` is its route, if it has one: ``{id}`` is the identifier, and other names in braces are fields of the
    request. Every operation is at ``POST /<name>``, too. ``run`` gets the catalog, the request and its rows.
    """

    name: str
    summary: str
    method: str
    path: str | None
    request: type[BaseModel]
    response: type[BaseModel]
    run: OperationCall

    @property
    def writes(self) -> bool:
        """Whether the operation needs a token that may write: all but known reads do."""
        return _READS.fullmatch(self.name) is None

    @property
    def routes(self) -> Mapping[str, Sequence[str]]:
        """The methods by path.

        lance-namespace 0.8 sends some reads by GET, or with a slash at the end of the path.
        """
        if self.path is None:
            return {}
        methods = [self.method, "GET"] if self.name in _FORMERLY_GET else [self.method]
        return {self.path: methods, **({f"{self.path}/": [self.method]} if self.path == _ALL_TABLES_PATH else {})}

    @property
    def takes_data(self) -> bool:
        """Whether the body is a stream of rows, not JSON."""
        return self.name == "CreateTable"

    @property
    def body_field(self) -> str | None:
        """The field that is the whole body at ``path``; None if it has all fields."""
        return "metadata" if self.name == "UpdateTableSchemaMetadata" else None

    @property
    def names_a_table(self) -> bool:
        """Whether the identifier is a table's, not a namespace's."""
        return self.name == "AlterTable" or (self.path is not None and self.path.startswith("/v1/table/{id}"))


def _alter_namespace(namespace: ServedNamespace, request: AlterNamespaceRequest, _data: bytes) -> BaseModel:
    namespace.check_namespace_properties(request.set_properties)
    with specification_errors():
        backend = namespace.backend
        identifier = backend.namespace_id_of(request.id, root=False)
        backend = request.conditional_backend(backend, partial(backend.load_namespace, identifier))
        live = backend.alter_namespace(identifier, request.changes)
    return spec.DescribeNamespaceResponse(properties=dict(live.properties))


def _alter_table(namespace: ServedNamespace, request: AlterTableRequest, _data: bytes) -> BaseModel:
    location = namespace.check_location(request.location)
    backend = namespace.backend
    with specification_errors():
        identifier = backend.table_id(request.id)
        backend = request.conditional_backend(backend, partial(backend.load_table, identifier))
        before = {} if location is None else backend.load_table(identifier).properties
        live = backend.alter_table(identifier, request.changes, location)
        if location is not None:
            require_location(backend, live, location, request.changes.undone(before))
    return spec.DescribeTableResponse(
        table=identifier[-1],
        namespace=list(identifier[:-1]),
        location=live.location,
        properties=dict(live.properties),
    )


def _declare_table(namespace: ServedNamespace, request: spec.DeclareTableRequest, _data: bytes) -> BaseModel:
    namespace.check_location(request.location)
    return namespace.declare_table(request.model_copy(update={"vend_credentials": False}))


def _register_table(namespace: ServedNamespace, request: spec.RegisterTableRequest, _data: bytes) -> BaseModel:
    namespace.check_location(request.location)
    return namespace.register_table(request)


def _create_table(namespace: ServedNamespace, request: spec.CreateTableRequest, data: bytes) -> BaseModel:
    if request.storage_options:
        raise InvalidInputError("the server writes with its own storage options: send none")
    return namespace.create_table(request, data)


def _describe_table(namespace: ServedNamespace, request: spec.DescribeTableRequest, _data: bytes) -> BaseModel:
    """Describe a table without vending credentials, which the response would leave out."""
    return namespace.describe_table(request.model_copy(update={"vend_credentials": False}))


def _count_table_rows(namespace: ServedNamespace, request: spec.CountTableRowsRequest, _data: bytes) -> BaseModel:
    return RowCount(namespace.count_table_rows(request).count or 0)


def _update_schema_metadata(
    namespace: ServedNamespace, request: spec.UpdateTableSchemaMetadataRequest, _data: bytes
) -> BaseModel:
    return SchemaMetadata(namespace.update_table_schema_metadata(request).metadata or {})


_CALLS: Mapping[str, OperationCall] = {
    "AlterNamespace": _alter_namespace,
    "AlterTable": _alter_table,
    "CountTableRows": _count_table_rows,
    "CreateEmptyTable": _declare_table,
    "CreateTable": _create_table,
    "DeclareTable": _declare_table,
    "DescribeTable": _describe_table,
    "RegisterTable": _register_table,
    "UpdateTableSchemaMetadata": _update_schema_metadata,
}
"""The calls of operations that need more than the catalog's method of their name."""

_MODELS: Mapping[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "AlterNamespace": (AlterNamespaceRequest, spec.DescribeNamespaceResponse),
    "AlterTable": (AlterTableRequest, spec.DescribeTableResponse),
    "CountTableRows": (spec.CountTableRowsRequest, RowCount),
    "CreateEmptyTable": (spec.DeclareTableRequest, spec.DeclareTableResponse),
    "ListAllTables": (ListAllTablesRequest, spec.ListTablesResponse),
    "UpdateTableSchemaMetadata": (spec.UpdateTableSchemaMetadataRequest, SchemaMetadata),
}
"""The models of operations that have none of their name in the specification."""


def _operation(name: str, route: str, summary: str) -> Operation:
    """Return an operation; by default, its models and its method are those of its name."""
    method_name = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()

    def call_method(namespace: ServedNamespace, request: BaseModel, _data: bytes) -> BaseModel:
        response: BaseModel = getattr(namespace, method_name)(request)
        return response

    request_model, response_model = _MODELS.get(name) or (
        getattr(spec, f"{name}Request"),
        getattr(spec, f"{name}Response"),
    )
    method, _, path = route.partition(" ")
    call = _CALLS.get(name, call_method)
    return Operation(name, summary, method, path or None, request_model, response_model, call)


OPERATIONS: tuple[Operation, ...] = tuple(
    _operation(*row)
    for row in (
        ("ListNamespaces", "GET /v1/namespace/{id}/list", "The names of the namespaces directly below one, in pages."),
        ("DescribeNamespace", "POST /v1/namespace/{id}/describe", "The properties of a namespace."),
        ("NamespaceExists", "POST /v1/namespace/{id}/exists", "Whether a namespace exists."),
        ("CreateNamespace", "POST /v1/namespace/{id}/create", "Creates a namespace, or replaces its properties."),
        ("AlterNamespace", "POST", "Merges into the properties of a namespace."),
        ("DropNamespace", "POST /v1/namespace/{id}/drop", "Drops a namespace; cascade deregisters its Lance tables."),
        ("ListTables", "GET /v1/namespace/{id}/table/list", "The names of the tables in a namespace, in pages."),
        ("ListAllTables", "GET /v1/table", "The identifiers of all tables, in pages."),
        (
            "DescribeTable",
            "POST /v1/table/{id}/describe",
            "The location, properties and, if asked, metadata of a table.",
        ),
        ("TableExists", "POST /v1/table/{id}/exists", "Whether a table exists."),
        ("ListTableVersions", "POST /v1/table/{id}/version/list", "The versions of a table's dataset, in pages."),
        ("DescribeTableVersion", "POST /v1/table/{id}/version/describe", "One version of a table's dataset."),
        ("ListTableTags", "POST /v1/table/{id}/tags/list", "The tags of a table's dataset, in pages."),
        ("GetTableTagVersion", "POST /v1/table/{id}/tags/version", "The version that a tag names."),
        ("ListTableBranches", "POST /v1/table/{id}/branches/list", "The branches of a table's dataset, in pages."),
        ("ListTableIndices", "POST /v1/table/{id}/index/list", "The indices of a table's dataset, in pages."),
        ("DescribeTableIndexStats", "POST /v1/table/{id}/index/{index_name}/stats", "The coverage of an index."),
        ("GetTableStats", "POST /v1/table/{id}/stats", "Rows, bytes and fragments of a table's dataset."),
        ("CountTableRows", "POST /v1/table/{id}/count_rows", "The number of rows, or of those that match a filter."),
        ("DeclareTable", "POST /v1/table/{id}/declare", "Makes the entry of a table that has no data yet."),
        ("CreateEmptyTable", "POST /v1/table/{id}/create-empty", "The early name of DeclareTable."),
        ("RegisterTable", "POST /v1/table/{id}/register", "Makes the entry of a table whose data is there."),
        ("CreateTable", "POST /v1/table/{id}/create", "Writes an Arrow IPC stream as a new table; never overwrites."),
        ("AlterTableAddColumns", "POST /v1/table/{id}/add_columns", "Adds columns computed by SQL expressions."),
        ("AlterTableAlterColumns", "POST /v1/table/{id}/alter_columns", "Renames columns, and changes nullability."),
        ("CreateTableTag", "POST /v1/table/{id}/tags/create", "Creates a tag of a version."),
        ("UpdateTableTag", "POST /v1/table/{id}/tags/update", "Moves a tag to another version."),
        ("DeleteTableTag", "POST /v1/table/{id}/tags/delete", "Deletes a tag; the version stays."),
        ("CreateTableBranch", "POST /v1/table/{id}/branches/create", "Creates a branch of a version."),
        ("RestoreTable", "POST /v1/table/{id}/restore", "Commits an earlier version again; all versions stay."),
        (
            "UpdateTableSchemaMetadata",
            "POST /v1/table/{id}/schema_metadata/update",
            "Replaces the metadata of the schema.",
        ),
        ("UpdateFieldMetadata", "POST /v1/table/{id}/update_field_metadata", "Changes the metadata of columns."),
        ("AlterTable", "POST", "Merges into the properties of a table's entry, or moves the entry; the data stays."),
        ("RenameTable", "POST /v1/table/{id}/rename", "Gives a table another name; the data stays."),
        ("DeregisterTable", "POST /v1/table/{id}/deregister", "Removes the entry of a table; the data stays."),
        ("DropTable", "POST /v1/table/{id}/drop", "Not supported: it would delete data."),
    )
)

ALIASES = {"GetNamespace": "DescribeNamespace", "GetTable": "DescribeTable"}
"""Early names of operations (Lance Namespace specification, "Namespace Operations")."""


NEVER_SUPPORTED = frozenset({"DropTable"})
"""Operations that no catalog supports; their routes answer why."""


def supported_operations(namespaces: Collection[ServedNamespace]) -> list[str]:
    """Return the names of the operations that all ``namespaces`` support.

    Raises:
        LanceNamespaceError: the capabilities of a catalog could not be read.
    """
    with specification_errors():
        capabilities_of_all = [namespace.backend.capabilities() for namespace in namespaces]
    excluded = set(NEVER_SUPPORTED)
    if any(capabilities.makes_no_tables for capabilities in capabilities_of_all):
        excluded |= {"DeclareTable", "CreateEmptyTable", "RegisterTable", "CreateTable"}
    if any(capabilities.chooses_locations for capabilities in capabilities_of_all):
        excluded.add("RegisterTable")
    if not all(capabilities.alter_namespace for capabilities in capabilities_of_all):
        excluded.add("AlterNamespace")
    if not all(capabilities.alter_table and capabilities.relocate_table for capabilities in capabilities_of_all):
        excluded.add("AlterTable")
    if any(capabilities.rename_within is None for capabilities in capabilities_of_all):
        excluded.add("RenameTable")
    return ["ListOperations", *(operation.name for operation in OPERATIONS if operation.name not in excluded)]
