"""Writing a dataset where there is none, and letting one grow: nothing is deleted or overwritten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from reconciler.model import locations
from reconciler.model.columns import Column, Schema
from reconciler.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableAlreadyExistsError,
    TableSchemaValidationError,
)
from reconciler.model.live import Storage, StorageKind
from reconciler.storage.commits import commit_first, is_latest, next_versions
from reconciler.storage.pylance import expression_problem, is_expressions_fault, open_dataset, translated
from reconciler.storage.reading import probe

if TYPE_CHECKING:
    import pyarrow as pa


GivenT = ParamSpec("GivenT")
ReturnedT = TypeVar("ReturnedT")

_TRIES = 5

MANAGED = (
    "the service keeps the versions of its data itself (`managed_versioning`), so that nothing is written to storage "
    "behind its back; write the dataset by way of the service, with pylance's "
    "`lance.write_dataset(..., namespace_client=..., table_id=...)`"
)
"""Why nothing is written to a table of which the catalog says so (``LiveTable.managed_versioning``), and what to do."""


def create_empty(location: str, schema: Schema, options: Mapping[str, str]) -> None:
    """Write an empty dataset of ``schema`` where nothing is.

    Raises:
        TableAlreadyExistsError: a dataset is there.
        InvalidTableStateError: something else is there.
        PermissionDeniedError, ServiceUnavailableError: storage refused.
    """
    from reconciler.arrow_types import to_arrow_schema

    _write_new(location, to_arrow_schema(schema).empty_table(), options)


def is_fresh(location: str, schema: Schema, options: Mapping[str, str]) -> bool:
    """Return whether ``location`` holds what :func:`create_empty` writes and nothing more.

    That is an empty dataset in its first version with exactly this schema: what a create-table that was cut off
    before its registration leaves.

    Raises:
        PermissionDeniedError, ServiceUnavailableError, InvalidTableStateError: storage did not let it be read.
    """
    if probe(location, options) != Storage(StorageKind.DATASET, schema):
        return False
    with translated(location, options):
        dataset = open_dataset(location, options)
        return bool(dataset.version == 1 and dataset.count_rows() == 0)


def write_stream(location: str, ipc_stream: bytes, options: Mapping[str, str]) -> int:
    """Write a new dataset from an Arrow IPC stream where nothing is, and return its version.

    Raises:
        InvalidInputError: ``ipc_stream`` is not an Arrow IPC stream.
        TableAlreadyExistsError, InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as
            :func:`create_empty`.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(ipc_stream).read_all()
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the data is not an Arrow IPC stream: {error}") from None
    return _write_new(location, table, options)


def _write_new(location: str, table: pa.Table, options: Mapping[str, str]) -> int:
    with translated(location, options):
        found = probe(location, options)
        shown = locations.redact(location)
        if found.kind is StorageKind.DATASET:
            raise TableAlreadyExistsError(f"{shown} already holds a Lance dataset")
        if found.kind is StorageKind.NOT_LANCE:
            raise InvalidTableStateError(f"{shown} is taken: {found.detail}")
        if not commit_first(location, table, options) or not is_latest(location, 1, options):
            raise TableAlreadyExistsError(f"{shown} holds a Lance dataset that somebody made just now")
    return 1


def _repeated(write: Callable[GivenT, ReturnedT]) -> Callable[GivenT, ReturnedT]:
    """Return ``write``, which looks at the dataset again and starts anew where somebody else has committed."""

    @wraps(write)
    def write_again(*given: GivenT.args, **named: GivenT.kwargs) -> ReturnedT:
        for _ in range(_TRIES - 1):
            with suppress(ConcurrentModificationError):
                return write(*given, **named)
        return write(*given, **named)

    return write_again


@_repeated
def add_columns(location: str, fields: Sequence[Column], options: Mapping[str, str]) -> None:
    """Add nullable columns to a dataset without rewriting data; columns it already has as wanted are left alone.

    Raises:
        ConcurrentModificationError: somebody else committed at each try.
        InvalidInputError: a field is not nullable, so that existing rows could not have it.
        TableSchemaValidationError: a column of this name is there with another type.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: see :func:`describe`.
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
            dataset.add_columns(pa.schema(list(to_arrow_schema(tuple(missing)))))


@_repeated
def compute_columns(location: str, expressions: Mapping[str, str], options: Mapping[str, str]) -> int:
    """Add columns whose values SQL ``expressions`` over the others give, and return the version that has them.

    No row is written anew: the values go into files of their own.

    Raises:
        ConcurrentModificationError: somebody else committed at each try.
        InvalidInputError: a column is there already, or is no expression on the columns of the dataset.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: see :func:`describe`.
    """
    with next_versions(location, options) as dataset:
        there = {name.casefold() for name in dataset.schema.names}
        taken = [name for name in expressions if name.casefold() in there]
        if taken:
            raise InvalidInputError(f"the table has a column `{taken[0]}` already")
        try:
            dataset.add_columns(dict(expressions))
        except (OSError, ValueError) as error:
            if not is_expressions_fault(error):
                raise
            reason = expression_problem(dataset.schema, lambda empty: empty.add_columns(dict(expressions)))
            raise InvalidInputError(f"an `expression` cannot be computed on this table: {reason}") from None
        return int(dataset.version)


@_repeated
def relax_columns(location: str, names: Sequence[str], options: Mapping[str, str]) -> None:
    """Let columns of a dataset be null, without rewriting data; those that may be null already are left alone.

    Raises:
        ConcurrentModificationError: somebody else committed at each try.
        TableSchemaValidationError: a column is not there.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: see :func:`describe`.
    """
    with next_versions(location, options) as dataset:
        nullable = {field.name: field.nullable for field in dataset.schema}
        gone = [name for name in names if name not in nullable]
        if gone:
            raise TableSchemaValidationError(f"{locations.redact(location)} has no column `{gone[0]}`")
        required = [name for name in names if not nullable[name]]
        if required:
            dataset.alter_columns(*({"path": name, "nullable": True} for name in required))
