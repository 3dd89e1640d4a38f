"""Decide whether a change of a dataset breaks the block of another table at the same location."""

from __future__ import annotations

from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, ExtraColumns
from reconciler.planner.entries import Change
from reconciler.planner.schemas import ColumnPair, compare, named_metadata, without_renames
from reconciler.planner.views import ObjectView


def changes_columns(change: Change) -> bool:
    """Return whether ``change`` alters the columns of existing data."""
    before = change.before_columns
    return before is not None and change.after_columns not in (None, before)


def changes_tags(change: Change) -> bool:
    """Return whether ``change`` sets, moves or removes tags of the data."""
    return change.after is not None and change.after.tags is not None


def breaks_block(change: Change, changed: DesiredTable, other: DesiredTable) -> bool:
    """Return whether ``change`` makes the data differ from what ``other`` asks for.

    ``changed`` is the block of the changed table, ``other`` that of another table at its location. Differences that
    ``other`` had before do not count.
    """
    before, after = change.before or ObjectView(), change.after or ObjectView()
    if other.absent or not other.probe:
        return False
    old_tags, new_tags = before.tags or {}, after.tags or {}
    if changes_tags(change) and any(
        new_tags.get(name) not in (old_tags.get(name), target) for name, target in other.tags.items()
    ):
        return True
    columns = change.before_columns
    if not (columns and after.columns and changed.schema and other.schema):
        return False
    # The columns of a change have only the metadata that its block names.
    schema = named_metadata(other.schema, changed.schema)
    old_differences = _differences(other, schema, columns)
    new_differences = _differences(other, schema, without_renames(after.columns))
    return any(difference not in old_differences for difference in new_differences)


def _differences(table: DesiredTable, schema: Schema, columns: Schema) -> list[Column | ColumnPair]:
    """Return where ``columns`` differ from ``schema``; extra columns only if the block refuses them."""
    difference = compare(schema, columns)
    extra = difference.extra if table.extra_columns is ExtraColumns.CONFLICT else ()
    return [*difference.missing, *difference.altered, *difference.changed, *difference.unclear, *extra]
