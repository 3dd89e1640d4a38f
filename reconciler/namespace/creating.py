"""The operations that create tables or write to their datasets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import lance_namespace as spec

from reconciler import storage
from reconciler.model import errors
from reconciler.model.live import LiveTable, PropertyChanges, StorageKind
from reconciler.model.names import Identifier, join
from reconciler.namespace.shared import CatalogOperations, operation, parse_choice


class CreatingOperations(CatalogOperations):
    """The operations that declare and create tables, and that add columns."""

    @operation(spec.DeclareTableRequest)
    def declare_table(self, request: spec.DeclareTableRequest) -> spec.DeclareTableResponse:
        """DeclareTable: create an entry without data, by default at an empty location.

        The answer has the storage options with which a client can write the data.
        """
        identifier = self.backend.table_id(request.id)
        properties = request.properties or {}
        location = request.location or self._free_location(identifier)
        table = self.backend.enter_table(identifier, location, properties)
        options = self.backend.own_storage_options(table)
        if request.vend_credentials is not False:
            # The entry exists by now, so a refusal to vend credentials is no error; DescribeTable raises it.
            with suppress(errors.BackendError):
                options = self.backend.table_storage_options(table, writes=True)
        return spec.DeclareTableResponse(
            location=table.location,
            properties=dict(table.properties),
            storage_options=options or None,
            managed_versioning=table.managed_versioning,
        )

    @operation(spec.CreateEmptyTableRequest)
    def create_empty_table(self, request: spec.CreateEmptyTableRequest) -> spec.CreateEmptyTableResponse:
        """CreateEmptyTable: do the same as DeclareTable, its present name."""
        declared = self.declare_table(spec.DeclareTableRequest(id=request.id, properties=request.properties))
        return spec.CreateEmptyTableResponse(
            location=declared.location, properties=declared.properties, storage_options=declared.storage_options
        )

    @operation(spec.CreateTableRequest)
    def create_table(self, request: spec.CreateTableRequest, request_data: bytes) -> spec.CreateTableResponse:
        """CreateTable: write an Arrow IPC stream as a new or a declared table.

        The modes are create and exist_ok; overwrite would delete data. A location that holds data is rejected.
        """
        identifier = self.backend.table_id(request.id)
        mode = parse_choice("mode", request.mode, ("create", "existok", "overwrite"))
        if mode == "overwrite":
            raise errors.UnsupportedOperationError(
                f"{self.backend.impl}: create_table with overwrite would delete data"
            )
        options = request.storage_options or {}
        already_exists = errors.TableAlreadyExistsError(
            f"{self.backend.impl}: table `{join(identifier)}` already exists"
        )
        try:
            table = self.backend.load_table(identifier)
        except errors.NotLanceTableError:
            raise already_exists from None
        except errors.TableNotFoundError:
            existing: LiveTable | None = None
            try:
                return self._create_response(
                    *self._create_table(identifier, request.properties or {}, request_data, options)
                )
            except errors.TableAlreadyExistsError:
                if mode == "existok":  # another client was first
                    with suppress(errors.TableNotFoundError):
                        existing = self.backend.load_table(identifier)
                if existing is None:
                    raise
            table = existing
        table, version = self._fill_declared_table(table, request.properties or {}, request_data, options)
        if version is None and mode == "create":
            raise already_exists
        if version is None:
            with storage.opened(*self._read_target(identifier)):  # unless there is a dataset, the rows would be lost
                pass
        return self._create_response(table, version)

    def _create_response(self, table: LiveTable, version: int | None) -> spec.CreateTableResponse:
        return spec.CreateTableResponse(
            location=table.location,
            version=version,
            properties=dict(table.properties),
            storage_options=self.backend.storage_options() or None,
        )

    def _create_table(
        self, identifier: Identifier, properties: Mapping[str, str], data: bytes, options: Mapping[str, str]
    ) -> tuple[LiveTable, int | None]:
        """Write a dataset and create its entry; return the table and the dataset's version.

        The entry is created last, so that it never points at nothing. Where it must come first
        (``Capabilities.comes_before_data``), it is removed again if the write fails, unless another client has written
        a dataset there. ``options`` are the client's.
        """
        location = self._free_location(identifier)
        if location is not None and not self.backend.capabilities().comes_before_data(identifier, location):
            options = self.backend.storage_options().updated(options)
            version = self._run_on_client_data(storage.write_stream, location, data, options)
            return self.backend.insert_table(identifier, location, properties), version
        table = self.backend.enter_table(identifier, location, properties)
        try:
            return table, self._write_rows(table, data, options)
        except errors.BackendError:
            if self._probe(table).kind is not StorageKind.DATASET:
                self.backend.remove_table(identifier)
            raise

    def _fill_declared_table(
        self, table: LiveTable, properties: Mapping[str, str], data: bytes, options: Mapping[str, str]
    ) -> tuple[LiveTable, int | None]:
        """Write the rows and properties of a declared table; return it with its version.

        The version is None, and nothing is written, if the table may have rows already.

        Raises:
            UnsupportedOperationError: the properties differ, and the catalog cannot change them.
        """
        if self._has_data(table):
            return table, None
        changes_properties = not properties.items() <= table.properties.items()
        if changes_properties and not self.backend.capabilities().alter_table:
            raise errors.UnsupportedOperationError(
                f"{self.backend.impl}: the table is declared, and its properties cannot be changed; send none"
            )
        try:
            version = self._write_rows(table, data, options)
        except errors.TableAlreadyExistsError:  # another client wrote it first
            return table, None
        if changes_properties:
            table = self.backend.alter_table(table.id, PropertyChanges(properties))
        return table, version

    def _write_rows(self, table: LiveTable, data: bytes, options: Mapping[str, str]) -> int:
        self._require_unmanaged(table)
        table_options = self.backend.table_storage_options(table, writes=True)
        return int(
            self._run_on_client_data(
                storage.write_stream, self._location_to_open(table), data, table_options.updated(options)
            )
        )

    @operation(spec.AlterTableAddColumnsRequest)
    def alter_table_add_columns(self, request: spec.AlterTableAddColumnsRequest) -> spec.AlterTableAddColumnsResponse:
        """AlterTableAddColumns: add columns computed by SQL expressions.

        Raises:
            InvalidInputError: no column is named, one exists already, or its expression does not fit the table.
            UnsupportedOperationError: a column is virtual or to be kept up to date, a branch is named, or the service
                keeps the versions of the table.
        """
        expressions: dict[str, str] = {}
        for column in request.new_columns:
            if column.computed is not None or column.virtual_column is not None or column.expression is None:
                raise errors.UnsupportedOperationError(
                    f"column `{column.name}` needs an `expression`: nothing here keeps a `computed` column up to date, "
                    "or runs what a `virtual_column` names"
                )
            if column.name in expressions:
                raise errors.InvalidInputError(f"column `{column.name}` is named twice")
            expressions[column.name] = column.expression
        if not expressions:
            raise errors.InvalidInputError("the request names no column")
        location, options = self._write_target(request.id, request.branch)
        arguments = location, expressions, options
        version = self._run_on_client_data(storage.compute_columns, *arguments, expressions=expressions.values())
        return spec.AlterTableAddColumnsResponse(version=version)

    @operation(spec.DropTableRequest)
    def drop_table(self, request: spec.DropTableRequest) -> spec.DropTableResponse:
        """DropTable: raise UnsupportedOperationError, as it would delete data."""
        raise errors.UnsupportedOperationError(
            f"{self.backend.impl}: drop_table would delete data; use deregister_table"
        )

    def _free_location(self, identifier: Identifier) -> str | None:
        """Return a location without data for a new table; None if the service chooses it.

        A deregistered table leaves its data at the default location. A new table of that name must not show that data,
        so it gets another location.

        Raises:
            TableAlreadyExistsError: the catalog has no other location for this name.
            BackendError: the default location cannot be read.
        """
        default = self._new_table_location(identifier)
        if default is None:
            return None
        options = self.backend.storage_options()
        data = storage.probe(default, options)
        if data.kind is StorageKind.NOTHING:
            return default
        if data.kind in (StorageKind.DENIED, StorageKind.UNKNOWN):
            try:
                with storage.opened(default, options):
                    pass
            except errors.BackendError as error:
                # A client would retry after ServiceUnavailableError, though the location will stay unreadable.
                is_retried = isinstance(error, errors.ServiceUnavailableError)
                error_type = errors.InvalidInputError if is_retried else type(error)
                raise error_type(f"{error}; name a `location` for the table, or let storage be read") from None
        return self.backend.fresh_location(identifier, default)
