"""What an entry of a plan is about in detail, with nothing in it that must not be shown.

The values here are redacted and otherwise as they are: each renderer escapes them for its own format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.model import locations
from reconciler.model.columns import Column
from reconciler.model.redaction import redact_properties, redact_value
from reconciler.planner.entries import Action, Change
from reconciler.planner.views import ObjectView

_PROPERTY = "properties."
_SAFEGUARD = "safeguards."
_LOCATIONS = frozenset({"location", "requested-location", "chosen-location"})
_SCHEMA = "schema"
_OWN_FIELDS = _LOCATIONS | {"protect", "managed-by", "kind", "mirror"}


@dataclass(frozen=True, slots=True)
class ShownField:
    """One field; ``before`` None where it is added, ``after`` None where it is removed."""

    label: str
    before: str | None
    after: str | None
    is_location: bool = False


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """One column: ``symbol`` is ``+`` for an added, ``-`` for a removed and ``~`` for a changed one."""

    symbol: str
    name: str
    text: str


def differences(change: Change) -> tuple[ShownField, ...]:
    """Return the fields that an update changes, without the schema (see :func:`columns`)."""
    return tuple(
        ShownField(
            _label(field.path),
            _redacted(change, field.path, field.before),
            _redacted(change, field.path, field.after),
            is_location=field.path == "location",
        )
        for field in change.fields
        if field.path.partition(".")[0] != _SCHEMA
    )


def settings(change: Change) -> tuple[ShownField, ...]:
    """Return what a creation sets, or what goes with a removal; nothing for an update."""
    if change.before is None and change.after is not None:
        return tuple(ShownField(label, None, text) for label, text in _settings_of(change, change.after))
    if change.after is None and change.before is not None:
        return tuple(ShownField(label, text, None) for label, text in _settings_of(change, change.before))
    return ()


def _settings_of(change: Change, view: ObjectView) -> Iterator[tuple[str, str]]:
    if view.kind is not None:
        yield "kind", view.kind
    if view.protect:
        yield "protect", "true"
    for key, value in sorted(redact_properties(view.properties, change.address, change.secret_keys).items()):
        yield _label(_PROPERTY + key), value


def place(change: Change) -> tuple[str, str] | None:
    """Return what can be said of a table's location, and the location; None where none is known or it moves."""
    view = change.after or change.before
    if view is None or view.location is None:
        return None
    location = locations.redact(view.location)
    if change.action in (Action.DEREGISTER_TABLE, Action.MOVE_TABLE):
        return "data stays at", location
    if change.action is Action.REGISTER_TABLE:
        return "data is at", location
    if change.action in (Action.CREATE_TABLE, Action.DECLARE_TABLE):
        return "at", location
    return None


def columns(change: Change) -> tuple[ColumnDifference, ...]:
    """Return the columns that are added, removed or changed; all of them, added, for a table that gets its first."""
    if change.after is None or change.after.columns is None:
        return ()
    before: Mapping[str, Column] = {}
    if change.before is not None and change.before.columns is not None:
        before = {column.name: column for column in change.before.columns}
    after = {column.name: column for column in change.after.columns}
    found: list[ColumnDifference] = []
    for name, column in after.items():
        there = before.get(name)
        if there is None:
            found.append(ColumnDifference("+", name, _column_text(change, column)))
        elif there != column:
            found.append(
                ColumnDifference("~", name, f"{_column_text(change, there)} -> {_column_text(change, column)}")
            )
    gone = (column for name, column in before.items() if name not in after)
    return (*found, *(ColumnDifference("-", column.name, _column_text(change, column)) for column in gone))


def _column_text(change: Change, column: Column) -> str:
    text = column.type if column.nullable else f"{column.type} not null"
    if column.metadata:
        metadata = sorted(redact_properties(column.metadata, change.address).items())
        text += " {" + ", ".join(f"{key}: {value}" for key, value in metadata) + "}"
    return text


def _label(path: str) -> str:
    """Return a property's key alone, unless it could be mistaken for a field of the object itself."""
    if path.startswith(_SAFEGUARD):
        return path.removeprefix(_SAFEGUARD)
    key = path.removeprefix(_PROPERTY)
    return path if key in _OWN_FIELDS or key.startswith(_PROPERTY) else key


def _redacted(change: Change, path: str, value: str | None) -> str | None:
    if value is None:
        return None
    if path in _LOCATIONS:
        return locations.redact(value)
    key = path.removeprefix(_PROPERTY)
    return value if key == path else redact_value(key, value, change.address, change.secret_keys)
