"""The columns of a dataset as Hive and Glue show them: a name, in any case of letters, and a type of Hive's."""

from __future__ import annotations

from reconciler.backends.spark_types import to_spark, tree_of
from reconciler.model.columns import Schema, ShownColumn, ShownColumns

_LONGEST_TYPE = 32_000
"""Below what any database keeps of a metastore's, and what Glue takes."""


def hive_columns(schema: Schema, longest_name: int) -> ShownColumns | None:
    """Return the columns of data with ``schema``, each with the nearest type that Hive has.

    None where no entry can show them: names that differ in capitals only are one name there, and names and types have
    a length and no control characters.
    """
    shown = tuple(ShownColumn(field.name, to_spark(tree_of(field.type)).hive) for field in schema)
    names = [column.name for column in shown]
    if len({name.lower() for name in names}) < len(names) or not all(0 < len(name) <= longest_name for name in names):
        return None
    fits = all(
        column.name.isprintable() and column.type.isprintable() and len(column.type) <= _LONGEST_TYPE
        for column in shown
    )
    return shown if fits else None
