"""Create datasets at empty locations, and add, alter and annotate columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from reconciler.model import locations
from reconciler.model.column_renames import sort_renames
from reconciler.model.columns import Column, Schema
from reconciler.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableAlreadyExistsError,
    TableSchemaValidationError,
    UnsupportedOperationError,
)
from reconciler.model.live import Storage, StorageKind
from reconciler.storage.commits import commit_first, is_latest, next_versions
from reconciler.storage.opening import open_dataset
from reconciler.storage.pylance import (
    expression_problem,
    in_memory,
    is_expression_error,
    is_storage_error,
    message_of,
    reason_of,
    translated,
)
from reconciler.storage.reading import LEGACY_FORMAT, probe

if TYPE_CHECKING:
    import pyarrow as pa


ArgumentsT = ParamSpec("ArgumentsT")
ReturnedT = TypeVar("ReturnedT")

_ATTEMPTS = 5
_MAX_ROWS_WITHOUT_BYTES, _MAX_ROWS_PER_BYTE = 1_000_000, 8

MANAGED = (
    "the service manages its versions (`managed_versioning`), so lancens must not write to its storage; write the "
    "dataset through the service, with pylance's "
    "`lance.write_dataset(..., namespace_client=..., table_id=...)`"
)
"""Why lancens does not write to a table with ``LiveTable.managed_versioning``, and what to do instead."""


def create_empty(location: str, schema: Schema, options: Mapping[str, str]) -> None:
    """Write an empty dataset of ``schema`` at a location that holds nothing.

    Raises:
        TableAlreadyExistsError: it holds a dataset.
        InvalidTableStateError: it holds something else.
        PermissionDeniedError, ServiceUnavailableError: storage denied access or did not answer.
    """
    from reconciler.arrow_types import to_arrow_schema

    _write_new(location, to_arrow_schema(schema).empty_table(), options)


def is_fresh(location: str, schema: Schema, options: Mapping[str, str]) -> bool:
    """Return whether ``location`` holds exactly what :func:`create_empty` writes.

    An interrupted create-table leaves such a dataset: empty, of this schema, in its first version.

    Raises:
        PermissionDeniedError, ServiceUnavailableError, InvalidTableStateError: it cannot be read.
    """
    if probe(location, options) != Storage(StorageKind.DATASET, schema):
        return False
    with translated(location, options):
        dataset = open_dataset(location, options)
        return bool(dataset.version == 1 and dataset.count_rows() == 0)


def write_stream(location: str, ipc_stream: bytes, options: Mapping[str, str]) -> int:
    """Write a new dataset from an Arrow IPC stream, and return its version.

    Raises:
        InvalidInputError: ``ipc_stream`` is not an Arrow IPC stream, has billions of rows in next to no bytes, or a
            column of a type or name that Lance does not store.
        TableAlreadyExistsError, InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as
            :func:`create_empty`.
    """
    import pyarrow as pa

    # Buffers in a stream may be aligned to 8 bytes; pylance 14 panics on decimals that are not aligned to 16.
    aligned = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    try:
        table = pa.ipc.open_stream(ipc_stream, options=aligned).read_all()
        table.validate(full=True)  # pylance would follow an offset into the memory of this process
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the data is not an Arrow IPC stream: {error}") from None
    # A column of nulls takes no bytes, so no limit on bytes holds its rows back.
    if table.num_rows > max(_MAX_ROWS_WITHOUT_BYTES, _MAX_ROWS_PER_BYTE * table.nbytes):
        raise InvalidInputError(f"the data has {table.num_rows:,} rows in {table.nbytes:,} bytes: too many nulls")
    for name in table.column_names:
        expect_column_name(name)
    with translated(location, options):
        try:
            in_memory(table.schema.empty_table())
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"Lance does not store these columns: {reason_of(error)}") from None
    return _write_new(location, table, options)


def _write_new(location: str, table: pa.Table, options: Mapping[str, str]) -> int:
    with translated(location, options):
        storage = probe(location, options)
        shown = locations.redact(location)
        if storage.kind is StorageKind.DATASET:
            raise TableAlreadyExistsError(f"{shown} already holds a Lance dataset")
        if storage.kind is StorageKind.NOT_LANCE:
            raise InvalidTableStateError(f"{shown} is taken: {storage.detail}")
        if not commit_first(location, table, options) or not is_latest(location, 1, options):
            raise TableAlreadyExistsError(f"{shown} holds a Lance dataset that another writer has just created")
    return 1


def _retried(write: Callable[ArgumentsT, ReturnedT]) -> Callable[ArgumentsT, ReturnedT]:
    """Return ``write`` with retries after another writer's commit."""

    @wraps(write)
    def write_again(*args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs) -> ReturnedT:
        for _ in range(_ATTEMPTS - 1):
            with suppress(ConcurrentModificationError):
                return write(*args, **kwargs)
        return write(*args, **kwargs)

    return write_again


@_retried
def add_columns(location: str, fields: Sequence[Column], options: Mapping[str, str]) -> None:
    """Add nullable columns without rewriting data, except those that exist.

    Raises:
        ConcurrentModificationError: another writer committed during each attempt.
        InvalidInputError: a column is not nullable, which existing rows need.
        UnsupportedOperationError: the dataset's files cannot hold a column.
        TableSchemaValidationError: a column of this name exists with another type.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as for :func:`next_versions`.
    """
    import pyarrow as pa

    from reconciler.arrow_types import from_arrow_schema, to_arrow_schema

    with next_versions(location, options) as dataset:
        present = {field.name: field for field in from_arrow_schema(dataset.schema)}
        missing = []
        for field in fields:
            if field.name not in present:
                missing.append(field)
            elif present[field.name].type != field.type:
                raise TableSchemaValidationError(
                    f"{locations.redact(location)} has a column `{field.name}` of type "
                    f"{present[field.name].type}, not {field.type}"
                )
        required = [field.name for field in missing if not field.nullable]
        if required:
            raise InvalidInputError(f"columns added to existing rows must be nullable: {', '.join(required)}")
        if missing:
            new = pa.schema(list(to_arrow_schema(tuple(missing))))
            problem = addition_problem(dataset, new)
            if problem is not None:
                raise UnsupportedOperationError(
                    f"{locations.redact(location)}: {problem}; leave them out of the block, or write the dataset anew "
                    "with a later `data_storage_version`"
                )
            dataset.add_columns(new)


def addition_problem(dataset: Any, new: pa.Schema) -> str | None:
    """Return why pylance cannot write or read the nulls of ``new`` columns in a dataset's format; None if it can.

    pylance 14 adds any column to any dataset but one of format 0.1, such as a struct to one of version 2.0. Afterwards
    its updates and compactions of rows fail, or leave rows that no scan can read.
    """
    import pyarrow as pa

    version, names = dataset.data_storage_version, ", ".join(f"`{name}`" for name in new.names)
    if version == LEGACY_FORMAT:
        return f"it has files of version {version}, to which pylance cannot add columns of nulls such as {names}"
    if not dataset.count_rows():
        return None
    schema = pa.schema([pa.field("_".join(("row", *new.names)), pa.int8()), *new])
    rows = pa.Table.from_arrays([pa.nulls(2, kind) for kind in schema.types], schema=schema)
    try:
        trial = in_memory(rows, data_storage_version=version, max_rows_per_file=1)
        trial.optimize.compact_files()
        trial.to_table()
    except BaseException as error:
        if not is_storage_error(error):
            raise
        reason, rows = message_of(error, "", {}), f"rows with new columns {names}"
        return f"it has files of version {version}, in which pylance cannot rewrite {rows}: {reason}"
    return None


@_retried
def compute_columns(location: str, expressions: Mapping[str, str], options: Mapping[str, str]) -> int:
    """Add columns that SQL ``expressions`` compute, and return the new version.

    Existing files are not rewritten; the values go into files of their own.

    Raises:
        ConcurrentModificationError: another writer committed during each attempt.
        InvalidInputError: Lance cannot have a name, it is taken, or an expression does not fit the columns.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as for :func:`next_versions`.
    """
    with next_versions(location, options) as dataset:
        taken = {name.casefold() for name in dataset.schema.names}
        for name in expressions:
            expect_column_name(name)
            if name.casefold() in taken:
                raise InvalidInputError(f"the table has a column `{name}` already")
            taken.add(name.casefold())
        try:
            dataset.add_columns(dict(expressions))
        except (OSError, ValueError) as error:
            if not is_expression_error(error):
                raise
            reason = expression_problem(dataset.schema, lambda empty: empty.add_columns(dict(expressions)))
            raise InvalidInputError(f"an `expression` cannot be computed on this table: {reason}") from None
        return int(dataset.version)


def expect_column_name(name: str) -> None:
    """Raise InvalidInputError if Lance cannot have a column of this name."""
    from reconciler.arrow_types import TypeSyntaxError, check_column_name

    try:
        check_column_name(name)
    except TypeSyntaxError as error:
        raise InvalidInputError(str(error)) from None


@_retried
def evolve_columns(location: str, columns: Sequence[Column], options: Mapping[str, str]) -> None:
    """Rename columns from ``renamed_from`` and make columns nullable, in one commit that reads no row.

    A column keeps its field id, and so its data and its indices. What is done already is skipped.

    Raises:
        ConcurrentModificationError: another writer committed during each attempt.
        TableSchemaValidationError: a column does not exist, or has another type.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as for :func:`next_versions`.
    """
    from reconciler.arrow_types import from_arrow_schema

    with next_versions(location, options) as dataset:
        existing = {column.name: column for column in from_arrow_schema(dataset.schema)}
        renames = sort_renames(
            {column.name: column.renamed_from for column in columns if column.renamed_from is not None}, existing
        )
        alterations = []
        for column in columns:
            name = renames.pending.get(column.name, column.name)
            if name not in existing or existing[name].type != column.type:
                missing = f"no column `{name}` of type {column.type}"
                raise TableSchemaValidationError(f"{locations.redact(location)} has {missing}")
            if column.name in renames.unclear:
                both = f"`{column.name}` and `{column.renamed_from}`, which was to be renamed"
                raise TableSchemaValidationError(f"{locations.redact(location)} has the columns {both}")
            renamed = {"name": column.name} if name != column.name else {}
            relaxed = {"nullable": True} if column.nullable and not existing[name].nullable else {}
            if renamed or relaxed:
                alterations.append({"path": _column_path(name), **renamed, **relaxed})
        if alterations:
            dataset.alter_columns(*alterations)


@_retried
def annotate_columns(location: str, metadata: Mapping[str, Mapping[str, str]], options: Mapping[str, str]) -> None:
    """Set keys in the metadata of columns; other keys stay.

    Raises:
        ConcurrentModificationError: another writer committed during each attempt.
        TableSchemaValidationError: a column does not exist.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as for :func:`next_versions`.
    """
    with next_versions(location, options) as dataset:
        gone = [name for name in metadata if name not in dataset.schema.names]
        if gone:
            raise TableSchemaValidationError(f"{locations.redact(location)} has no column `{gone[0]}`")
        dataset.update_field_metadata({_column_path(name): dict(texts) for name, texts in metadata.items() if texts})


def _column_path(name: str) -> str:
    """Return the path of a top-level column, whose name may have a backtick."""
    return f"`{name.replace('`', '``')}`"
