"""What differs between two states of one object, field by field.

DeepDiff does the comparing. It is asked only about objects that an equality check has already found to differ, so
that unchanged ones, however many, never reach it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from reconciler.model import locations
from reconciler.model.columns import Column
from reconciler.model.redaction import redact_properties, redact_value
from reconciler.planner.views import FieldChange, ObjectView


def explain(
    before: ObjectView | None, after: ObjectView | None, address: str, secret: Collection[str] = ()
) -> tuple[FieldChange, ...]:
    """Return the fields in which two views differ, in order of their paths, with sensitive values replaced.

    Views of a creation or removal (one side None) have no fields to compare. ``address`` is the object's, ``secret``
    the property keys whose values are secrets whatever they are called.
    """
    if before is None or after is None:
        return ()
    from deepdiff import DeepDiff

    stays = locations.same(before.location, after.location)
    # Left to itself DeepDiff takes dictionaries with little in common as one value, secrets and all, and skips keys
    # that start with two underscores.
    difference = DeepDiff(
        _plain(before, address, stays=stays),
        _plain(after, address, stays=stays),
        view="tree",
        threshold_to_diff_deeper=0,
        ignore_private_variables=False,
    )
    found: list[FieldChange] = []
    for kind, items in difference.items():
        for item in items:
            path = item.path(output_format="list")
            key = str(path[-1])
            found.append(
                FieldChange(
                    path=".".join(map(str, path)),
                    before=None
                    if kind == "dictionary_item_added"
                    else redact_value(key, str(item.t1), address, secret),
                    after=None
                    if kind == "dictionary_item_removed"
                    else redact_value(key, str(item.t2), address, secret),
                )
            )
    return tuple(sorted(found, key=lambda field: field.path))


def _plain(view: ObjectView, address: str, *, stays: bool) -> dict[str, Any]:
    """Return ``view`` as it is compared; ``stays``: the entry is not moved, which changes what is recorded of it."""
    plain: dict[str, Any] = {
        "properties": view.properties,
        "safeguards": view.safeguards,
        "protect": str(view.protect).lower(),
        "schema": {column.name: _column_text(column, address) for column in view.columns or ()},
        "shown-columns": {column.name: column.type for column in view.shown_columns or ()},
    }
    if view.location is not None:
        plain["location"] = locations.redact(view.location)
    if stays and view.requested_location is not None:
        plain["requested-location"] = locations.redact(view.requested_location)
    if stays and view.chosen_location is not None:
        plain["chosen-location"] = locations.redact(view.chosen_location)
    if view.managed_by is not None:
        plain["managed-by"] = view.managed_by
    if view.mirror is not None:
        plain["mirror"] = view.mirror
    return plain


def _column_text(column: Column, address: str) -> str:
    text = column.type if column.nullable else f"{column.type} not null"
    if column.metadata:
        text += " " + " ".join(
            f"{key}={value}" for key, value in sorted(redact_properties(column.metadata, address).items())
        )
    return text
