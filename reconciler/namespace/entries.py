"""The operations on the entries of tables; they change no file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import lance_namespace as spec
from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType
from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField
from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema
from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

from reconciler import storage
from reconciler.arrow_types import to_arrow_schema
from reconciler.backends.placing import require_location
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import TableAlreadyExistsError, TableNotFoundError, UnsupportedOperationError
from reconciler.model.live import LiveTable, PropertyChanges
from reconciler.model.names import join
from reconciler.namespace.shared import CatalogOperations, operation, page_of, parse_choice, reject_other_formats

if TYPE_CHECKING:
    import pyarrow as pa


class EntryOperations(CatalogOperations):
    """The operations that list, describe, register, rename and deregister tables."""

    @operation(spec.ListTablesRequest)
    def list_tables(self, request: spec.ListTablesRequest) -> spec.ListTablesResponse:
        """ListTables: return a page of names, on request of tables with data only.

        Where it takes a call to tell a Lance table from others, only the tables of the page are looked up.
        """
        parent = self.backend.namespace_id_of(request.id)
        # If there are none, the namespace may not exist: `child_tables` raises then.
        names = list(self.backend.candidate_tables(parent)) or self.backend.child_tables(parent)

        def select(candidates: Sequence[str]) -> Sequence[str]:
            tables = self.backend.confirmed_tables(parent, candidates)
            if request.include_declared is not False:
                return tables
            return self._select_with_data(tables, lambda name: self.backend.load_table((*parent, name)))

        page = page_of(names, request.page_token, request.limit, select)
        return spec.ListTablesResponse(tables=page.names, page_token=page.token)

    def _select_with_data(self, names: Sequence[str], load: Callable[[str], LiveTable]) -> Sequence[str]:
        """Return those of ``names`` whose tables have data.

        A table that ``load`` no longer finds has none.
        """

        def has_data(name: str) -> bool:
            try:
                return self._has_data(load(name))
            except TableNotFoundError:
                return False

        answers = in_parallel(has_data, names, self.backend.parallelism)
        return [name for name, answer in zip(names, answers, strict=True) if answer]

    @operation(spec.ListTablesRequest)
    def list_all_tables(self, request: spec.ListTablesRequest) -> spec.ListTablesResponse:
        """ListAllTables: return a page of identifiers as text, on request of tables with data only."""
        tables = {join(identifier): table for identifier, table in self.backend.scan().tables.items()}

        def select(candidates: Sequence[str]) -> Sequence[str]:
            if request.include_declared is not False:
                return candidates
            return self._select_with_data(candidates, tables.__getitem__)

        page = page_of(tables, request.page_token, request.limit, select)
        return spec.ListTablesResponse(tables=page.names, page_token=page.token)

    @operation(spec.DescribeTableRequest)
    def describe_table(self, request: spec.DescribeTableRequest) -> spec.DescribeTableResponse:
        """DescribeTable: return the entry and, on request, metadata of the dataset.

        ``load_detailed_metadata``, a version, a tag or a branch request metadata.

        Raises:
            TableNotFoundError: there is no such table.
            TableVersionNotFoundError, TableTagNotFoundError, TableBranchNotFoundError: its dataset has none such.
            InvalidInputError: it is not a Lance table, or a tag is combined with a version or a branch.
            InvalidTableStateError: metadata was requested and the location holds no Lance dataset.
        """
        table = self._load_lance_table(request.id)
        vends_credentials = request.vend_credentials is not False
        options = self.backend.own_storage_options(table)
        if vends_credentials:
            options = self.backend.table_storage_options(table, writes=True)
        response = spec.DescribeTableResponse(
            table=table.id[-1],
            namespace=list(table.id[:-1]),
            location=table.location,
            table_uri=table.location if request.with_table_uri else None,
            storage_options=options or None,
            properties=dict(table.properties),
            managed_versioning=table.managed_versioning,
        )
        if request.check_declared:
            response.is_only_declared = not self._has_data(table)
        reference = storage.Reference(request.version, request.tag, request.branch)
        if request.load_detailed_metadata or reference != storage.Reference():
            if not vends_credentials:
                options = self.backend.table_storage_options(table)
            with storage.opened(self._location_to_open(table), options, reference) as dataset:
                response.version = dataset.version
                response.var_schema = to_json_schema(dataset.schema)
                response.stats = TableBasicStats.model_validate(dataset.stats.dataset_stats())
                response.metadata = dataset.get_version()["metadata"]
        else:
            entry_schema = self.backend.shown_schema(table.id)
            response.var_schema = to_json_schema(to_arrow_schema(entry_schema)) if entry_schema else None
        return response

    @operation(spec.TableExistsRequest)
    def table_exists(self, request: spec.TableExistsRequest) -> spec.TableExistsResponse:
        """TableExists: raise if the table, or a given version, does not exist.

        Raises:
            TableNotFoundError: there is no such table.
            TableVersionNotFoundError: its dataset has no such version.
            InvalidTableStateError: a version was requested and the location holds no Lance dataset.
        """
        table = self.backend.load_table(self.backend.table_id(request.id))
        if request.version is not None:
            options = self.backend.table_storage_options(table)
            with storage.opened(self._location_to_open(table), options, storage.Reference(request.version)):
                pass
        return spec.TableExistsResponse()

    @operation(spec.RegisterTableRequest)
    def register_table(self, request: spec.RegisterTableRequest) -> spec.RegisterTableResponse:
        """RegisterTable: create an entry for existing data.

        Overwrite changes the location of an existing entry; the data stays at both.

        Raises:
            UnsupportedOperationError: the service put the entry elsewhere; the write was undone.
        """
        identifier = self.backend.table_id(request.id)
        mode = parse_choice("mode", request.mode, ("create", "overwrite"))
        properties, undo = request.properties or {}, None
        if self.backend.capabilities().chooses_locations:
            raise UnsupportedOperationError(
                f"{self.backend.impl}: the service chooses the location of every table, so existing data cannot be "
                "registered; create the table here and write the data into it"
            )
        try:
            table = self.backend.insert_table(identifier, request.location, properties)
        except TableAlreadyExistsError:
            if mode == "create":
                raise
            before = self.backend.load_table(identifier).properties
            changes = PropertyChanges(properties, frozenset(before) - frozenset(properties))
            table, undo = self.backend.alter_table(identifier, changes, request.location), changes.undone(before)
        require_location(self.backend, table, request.location, undo)
        return spec.RegisterTableResponse(location=table.location, properties=dict(table.properties))

    @operation(spec.DeregisterTableRequest)
    def deregister_table(self, request: spec.DeregisterTableRequest) -> spec.DeregisterTableResponse:
        """DeregisterTable: remove the entry; the data stays."""
        identifier = self.backend.table_id(request.id)
        with reject_other_formats():
            table = self.backend.remove_table(identifier)
        return spec.DeregisterTableResponse(
            id=list(identifier), location=table.location, properties=dict(table.properties)
        )

    @operation(spec.RenameTableRequest)
    def rename_table(self, request: spec.RenameTableRequest) -> spec.RenameTableResponse:
        """RenameTable: rename the entry, also across namespaces; the data stays.

        Raises:
            TableNotFoundError: there is no such table.
            TableAlreadyExistsError: the new name is taken.
            NamespaceNotFoundError: the new namespace does not exist.
            UnsupportedOperationError: the catalog cannot rename, or not between these namespaces.
        """
        identifier = self.backend.table_id(request.id)
        parent = identifier[:-1] if request.new_namespace_id is None else request.new_namespace_id
        renamed = self.backend.table_id([*parent, request.new_table_name])
        if not self.backend.capabilities().renames(identifier, renamed):
            raise UnsupportedOperationError(
                f"{self.backend.impl}: `{join(identifier)}` cannot be renamed to `{join(renamed)}` in place; register "
                "it under the new name and deregister it under the old one"
            )
        with reject_other_formats():
            self.backend.rename_table(identifier, renamed)
        return spec.RenameTableResponse()


_TYPE_NAMES = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "string": "utf8",
    "string_view": "utf8",
    "large_string": "large_utf8",
    "binary_view": "binary",
}
"""The names of types in the specification, where they differ from those of PyArrow."""


def to_json_schema(schema: pa.Schema) -> JsonArrowSchema:
    """Return ``schema`` in the JSON form of the Lance Namespace specification."""
    return JsonArrowSchema(fields=[_field_json(field) for field in schema], metadata=_decode_metadata(schema.metadata))


def _field_json(field: pa.Field) -> JsonArrowField:
    return JsonArrowField(
        name=field.name, nullable=field.nullable, type=_type_json(field.type), metadata=_decode_metadata(field.metadata)
    )


def _type_json(kind: pa.DataType) -> JsonArrowDataType:
    import pyarrow as pa

    if isinstance(kind, pa.DictionaryType):
        return _type_json(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _type_json(kind.storage_type)
    text = re.split(r"[\[<(]", str(kind), maxsplit=1)[0].strip()
    length: int | None = None
    if isinstance(kind, pa.Decimal128Type | pa.Decimal256Type):
        length = kind.precision * 1000 + kind.scale
    elif isinstance(kind, pa.FixedSizeListType):
        length = kind.list_size
    elif isinstance(kind, pa.FixedSizeBinaryType):
        length = kind.byte_width
    fields = [_field_json(kind.field(position)) for position in range(kind.num_fields)] or None
    return JsonArrowDataType(type=_TYPE_NAMES.get(text, text), length=length, fields=fields)


def _decode_metadata(metadata: dict[bytes, bytes] | None) -> dict[str, str] | None:
    if not metadata:
        return None
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in metadata.items()}
