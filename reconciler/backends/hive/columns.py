"""The columns that an entry shows, and how they are replaced where the server compares the new with the old."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from reconciler.model.columns import ShownColumn, ShownColumns

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import FieldSchema, Table


LONGEST_COLUMN: Final = 767
_PENDING: Final = "lancens.columns"
"""Marks an entry whose columns were taken away to write others: without it, one that shows none is to show none."""


def columns_of(table: Table) -> ShownColumns | None:
    """Return the columns that an entry shows; None for one that shows none, and for one with keys of partitions."""
    if table.partitionKeys or not (table.sd.cols or _PENDING in (table.parameters or {})):
        return None
    return tuple(ShownColumn(field.name, field.type or "", field.comment) for field in table.sd.cols or ())


def comments_of(table: Table) -> dict[str, str | None]:
    """Return the comment of each column that an entry shows, by its name."""
    return {field.name: field.comment for field in table.sd.cols or ()}


def with_columns(table: Table, columns: ShownColumns, comments: Mapping[str, str | None]) -> Table:
    """Return a copy of ``table`` that shows ``columns``; ``comments`` has names as the server keeps them."""
    from reconciler.backends.hive.gen.ttypes import FieldSchema

    altered = deepcopy(table)
    altered.sd.cols = [
        FieldSchema(column.name, column.type, column.comment or comments.get(column.name.lower())) for column in columns
    ]
    altered.parameters.pop(_PENDING, None)
    return altered


def with_leading_columns(table: Table, columns: ShownColumns) -> Table | None:
    """Return a copy of ``table`` with the columns alone that ``columns`` begins with; None if it has no others.

    A server that refuses to give a column another type compares them by their positions, as far as both lists go. So
    the columns from the first difference on are taken away before others are written.
    """

    def stays(pair: tuple[FieldSchema, ShownColumn]) -> bool:
        field, column = pair
        return column.shows(ShownColumn(field.name, field.type or ""))

    fields = table.sd.cols or []
    kept = [field for field, _ in takewhile(stays, zip(fields, columns, strict=False))]
    if len(kept) == len(fields):
        return None
    altered = deepcopy(table)
    altered.sd.cols = kept
    altered.parameters[_PENDING] = "pending"
    return altered
