"""Tell what a change of a dataset does to another table whose entry has the same location."""

from __future__ import annotations

from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, ExtraColumns
from reconciler.planner.entries import Change
from reconciler.planner.schemas import ColumnPair, compare, named_metadata, without_renames
from reconciler.planner.views import ObjectView


def changes_columns(change: Change) -> bool:
    """Return whether the columns of existing data change."""
    before, after = change.before or ObjectView(), change.after or ObjectView()
    return None not in (before.columns, after.columns) and before.columns != after.columns


def changes_tags(change: Change) -> bool:
    """Return whether tags are set, moved or removed."""
    before, after = change.before or ObjectView(), change.after or ObjectView()
    return after.tags is not None and after.tags != (before.tags or {})


def spoils(change: Change, mine: DesiredTable, other: DesiredTable) -> bool:
    """Return whether the change of ``mine`` makes the data differ from what ``other`` asks for."""
    before, after = change.before or ObjectView(), change.after or ObjectView()
    if changes_tags(change):
        was, becomes = before.tags or {}, after.tags or {}
        if any(becomes.get(name) not in (was.get(name), target) for name, target in other.tags.items()):
            return True
    if mine.schema is None or other.schema is None or before.columns is None or after.columns is None:
        return False
    # The columns of a change have only the metadata that its block names.
    schema = named_metadata(other.schema, mine.schema)
    wrong = _differences(other, schema, before.columns)
    return any(one not in wrong for one in _differences(other, schema, without_renames(after.columns)))


def _differences(other: DesiredTable, schema: Schema, columns: Schema) -> list[Column | ColumnPair]:
    found = compare(schema, columns)
    extra = found.extra if other.extra_columns is ExtraColumns.CONFLICT else ()
    return [*found.missing, *found.altered, *found.changed, *found.unclear, *extra]
