"""The operations that make tables, and that write to their datasets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import lance_namespace as spec

from reconciler import storage
from reconciler.backends import optional
from reconciler.model.errors import (
    BackendError,
    InvalidInputError,
    NotLanceTableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import Identifier, join
from reconciler.namespace.shared import CatalogOperations, choice, operation


class CreatingOperations(CatalogOperations):
    """The operations that declare and create tables, and that add columns."""

    @operation(spec.DeclareTableRequest)
    def declare_table(self, request: spec.DeclareTableRequest) -> spec.DeclareTableResponse:
        """DeclareTable: an entry with a location and no data yet; without one in the request, at a free place.

        The answer holds what opens the table, so that a client can write it.
        """
        identifier = self.backend.table_id(request.id)
        properties = request.properties or {}
        location = request.location or self._free_location(identifier)
        table = optional.insert_table(self.backend, identifier, location, properties)
        options = optional.own_storage_options(self.backend, table)
        if request.vend_credentials is not False:
            # The entry is made: where the service hands out nothing now, DescribeTable says why.
            with suppress(BackendError):
                options = optional.table_storage_options(self.backend, table, writes=True)
        return spec.DeclareTableResponse(
            location=table.location,
            properties=dict(table.properties),
            storage_options=options or None,
            managed_versioning=table.managed_versioning or None,
        )

    @operation(spec.CreateEmptyTableRequest)
    def create_empty_table(self, request: spec.CreateEmptyTableRequest) -> spec.CreateEmptyTableResponse:
        """CreateEmptyTable: the early name of DeclareTable, which it is answered as."""
        made = self.declare_table(spec.DeclareTableRequest(id=request.id, properties=request.properties))
        return spec.CreateEmptyTableResponse(
            location=made.location, properties=made.properties, storage_options=made.storage_options
        )

    @operation(spec.CreateTableRequest)
    def create_table(self, request: spec.CreateTableRequest, request_data: bytes) -> spec.CreateTableResponse:
        """CreateTable in modes create and exist_ok, from an Arrow IPC stream; it fills a table that is declared only.

        Overwrite would delete data and is not supported. Data that is already at the location is left alone and
        refused.
        """
        identifier = self.backend.table_id(request.id)
        mode = choice("mode", request.mode, ("create", "existok", "overwrite"))
        if mode == "overwrite":
            raise UnsupportedOperationError(f"{self.backend.impl}: create_table with overwrite would delete data")
        options = request.storage_options or {}
        taken = TableAlreadyExistsError(f"{self.backend.impl}: table `{join(identifier)}` already exists")
        try:
            table = self.backend.load_table(identifier)
        except NotLanceTableError:
            raise taken from None
        except TableNotFoundError:
            table, version = self._create(identifier, request.properties or {}, request_data, options)
        else:
            version = self._fill(table, request_data, options)
            if version is None and mode == "create":
                raise taken
            if version is None:
                with storage.opened(*self._place(identifier)):  # else the rows are nowhere
                    pass
        return spec.CreateTableResponse(
            location=table.location,
            version=version,
            properties=dict(table.properties),
            storage_options=self.backend.storage_options() or None,
        )

    def _create(
        self, identifier: Identifier, properties: Mapping[str, str], data: bytes, options: Mapping[str, str]
    ) -> tuple[LiveTable, int | None]:
        """Write a dataset and make its entry, in the order that never leaves an entry that points at nothing.

        An entry that is made first (``Capabilities.comes_before_data``) is taken away again where nothing can be
        written. ``options`` are the client's.
        """
        location = self._free_location(identifier)
        if location is not None and not self.backend.capabilities.comes_before_data(identifier):
            options = {**self.backend.storage_options(), **options}
            version = self._compute(storage.write_stream, location, data, options)
            return self.backend.insert_table(identifier, location, properties), version
        table = optional.insert_table(self.backend, identifier, location, properties)
        try:
            return table, self._write(table, data, options)
        except BackendError:
            self.backend.remove_table(identifier)
            raise

    def _fill(self, table: LiveTable, data: bytes, options: Mapping[str, str]) -> int | None:
        """Write the rows of a table that is declared only; return None where it may have some already."""
        if self._has_data(table):
            return None
        try:
            return self._write(table, data, options)
        except TableAlreadyExistsError:  # another client was faster
            return None

    def _write(self, table: LiveTable, data: bytes, options: Mapping[str, str]) -> int:
        self._require_unmanaged(table)
        own = optional.table_storage_options(self.backend, table, writes=True)
        return int(self._compute(storage.write_stream, self._location_to_open(table), data, {**own, **options}))

    def _require_unmanaged(self, table: LiveTable) -> None:
        if table.managed_versioning:
            raise UnsupportedOperationError(f"{self.backend.impl}: {storage.MANAGED}")

    @operation(spec.AlterTableAddColumnsRequest)
    def alter_table_add_columns(self, request: spec.AlterTableAddColumnsRequest) -> spec.AlterTableAddColumnsResponse:
        """AlterTableAddColumns: columns whose values expressions in SQL give; no row is written anew.

        Raises:
            InvalidInputError: none is named, one is there already, or is no expression on the columns of the table.
            UnsupportedOperationError: a column is to be kept up to date or comes of a program, a branch is named, or
                the service keeps the versions of the table itself.
        """
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
        table = self._lance_table(request.id)
        self._require_unmanaged(table)
        options = optional.table_storage_options(self.backend, table, writes=True)
        asked = self._location_to_open(table), expressions, dict(options)
        version = self._compute(storage.compute_columns, *asked, expressions=expressions.values())
        return spec.AlterTableAddColumnsResponse(version=version)

    @operation(spec.DropTableRequest)
    def drop_table(self, request: spec.DropTableRequest) -> spec.DropTableResponse:
        """DropTable deletes data, so it is not supported: deregister_table removes the entry only."""
        raise UnsupportedOperationError(f"{self.backend.impl}: drop_table would delete data; use deregister_table")

    def _free_location(self, identifier: Identifier) -> str | None:
        """Return where a new table goes that names no location: a place that holds nothing.

        Data stays where it is when a table is deregistered. A table made again under the same name must not show it,
        so it gets a place beside the default one. None: the service chooses.

        Raises:
            TableAlreadyExistsError: there can be no such place.
            BackendError: storage does not let the default place be looked at.
        """
        default = self._direct_location(identifier)
        if default is None:
            return None
        options = self.backend.storage_options()
        found = storage.probe(default, options)
        if found.kind is StorageKind.NOTHING:
            return default
        if found.kind in (StorageKind.DENIED, StorageKind.UNKNOWN):
            try:
                with storage.opened(default, options):
                    pass
            except BackendError as error:
                raise type(error)(f"{error}; name a `location` for the table, or let storage be read") from None
        return optional.fresh_location(self.backend, identifier, default)
