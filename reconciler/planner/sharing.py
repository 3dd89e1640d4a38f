"""Tell what a change of a dataset does to another table whose entry has the same location."""

from __future__ import annotations

from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, ExtraColumns
from reconciler.planner.entries import Change
from reconciler.planner.schemas import ColumnPair, compare, named_metadata, without_renames
from reconciler.planner.views import ObjectView


def changes_columns(change: Change) -> bool:
    """Return whether the columns of existing data change."""
    before = change.before.columns if change.before else None
    return before is not None and change.after_columns not in (None, before)


def changes_tags(change: Change) -> bool:
    """Return whether tags are set, moved or removed."""
    return change.after is not None and change.after.tags is not None


def spoils(change: Change, mine: DesiredTable, other: DesiredTable) -> bool:
    """Return whether the change of ``mine`` makes the data differ from what ``other`` asks for."""
    before, after = change.before or ObjectView(), change.after or ObjectView()
    if other.absent or not other.probe:
        return False
    was, tags = before.tags or {}, after.tags or {}
    if changes_tags(change) and any(tags.get(key) not in (was.get(key), text) for key, text in other.tags.items()):
        return True
    if not (before.columns and after.columns and mine.schema and other.schema):
        return False
    # The columns of a change have only the metadata that its block names.
    schema = named_metadata(other.schema, mine.schema)
    wrong = _differences(other, schema, before.columns)
    return any(one not in wrong for one in _differences(other, schema, without_renames(after.columns)))


def _differences(other: DesiredTable, schema: Schema, columns: Schema) -> list[Column | ColumnPair]:
    difference = compare(schema, columns)
    extra = difference.extra if other.extra_columns is ExtraColumns.CONFLICT else ()
    return [*difference.missing, *difference.altered, *difference.changed, *difference.unclear, *extra]
