"""Conditions and values in SQL over the columns of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.model.errors import InvalidInputError
from reconciler.storage.commits import in_memory
from reconciler.storage.metadata import Reference, opened
from reconciler.storage.pylance import is_expressions_fault, reason_of_clients_fault

if TYPE_CHECKING:
    import pyarrow as pa


def count_rows(
    location: str, options: Mapping[str, str], version: int | None, branch: str | None, predicate: str | None
) -> int:
    """Return how many rows a version of a dataset has, or for how many of them ``predicate`` holds.

    Raises:
        InvalidInputError: it is no condition on the columns, or not for the values in them.
        BackendError: see :func:`opened`.
    """
    with opened(location, options, Reference(version, branch=branch)) as dataset:
        try:
            return int(dataset.count_rows(filter=predicate))
        except (OSError, ValueError) as error:
            if predicate is None or not is_expressions_fault(error):
                raise
            reason = fault_in(dataset.schema, lambda empty: empty.count_rows(filter=predicate))
            raise InvalidInputError(f"`predicate` is not a condition on this table: {reason}") from None


def fault_in(schema: pa.Schema, evaluate: Callable[[Any], object]) -> str:
    """Return what is wrong with an expression that a dataset of ``schema`` refused, without a value of its rows.

    The engine says it of a dataset without rows; what it says of one with rows may hold values.
    """
    try:
        evaluate(in_memory(schema.empty_table()))
    except (OSError, ValueError) as error:
        reason = reason_of_clients_fault(error)
        if reason is not None:
            return reason
    return "a value in its rows does not fit"
