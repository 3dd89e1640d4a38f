"""Comparing the columns of a table's data with those that its block gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, Evolve, ExtraColumns
from reconciler.model.live import Storage, StorageKind
from reconciler.model.redaction import redact_properties


class ColumnPair(NamedTuple):
    """One column as the block gives it and as the data has it."""

    desired: Column
    found: Column


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """What separates the columns of data from those of a block; false where nothing does.

    ``missing`` are in the block only, ``extra`` in the data only. ``relaxed`` may be null in the block and not in the
    data, and are the same otherwise; ``changed`` differ in any other way.
    """

    missing: Schema = ()
    relaxed: tuple[ColumnPair, ...] = ()
    changed: tuple[ColumnPair, ...] = ()
    extra: Schema = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.relaxed or self.changed or self.extra)

    def blocking(self, evolve: Evolve, extra_columns: ExtraColumns) -> SchemaDifference:
        """Return the part that a table cannot be planned with; the rest is made so, or left as it is."""
        additive = evolve is Evolve.ADDITIVE
        return SchemaDifference(
            tuple(column for column in self.missing if not (additive and column.nullable)),
            () if additive else self.relaxed,
            self.changed,
            () if extra_columns is ExtraColumns.KEEP else self.extra,
        )

    def texts(self, asked_by: str = "the block") -> Iterator[str]:
        """Yield one clause a column, with sensitive metadata replaced; ``asked_by`` is what gives the columns."""
        for column in self.missing:
            yield f"`{column.name}` ({_text(column)}) is not in the data"
        for desired, found in (*self.changed, *self.relaxed):
            yield f"`{desired.name}` is {_text(found)} in the data, {_text(desired)} in {asked_by}"
        for column in self.extra:
            yield f"`{column.name}` ({_text(column)}) is not in {asked_by}"


def compare(desired: Schema, found: Schema) -> SchemaDifference:
    """Return what separates ``found`` (the data) from ``desired`` (the block); the order of columns does not count."""
    live = {column.name: column for column in found}
    missing: list[Column] = []
    relaxed: list[ColumnPair] = []
    changed: list[ColumnPair] = []
    for column in desired:
        there = live.pop(column.name, None)
        if there is None:
            missing.append(column)
        elif not _agrees(column, there):
            may_be_null = column.nullable and _agrees(column, replace(there, nullable=True))
            (relaxed if may_be_null else changed).append(ColumnPair(column, there))
    return SchemaDifference(tuple(missing), tuple(relaxed), tuple(changed), tuple(live.values()))


def named_metadata(found: Schema, desired: Schema) -> Schema:
    """Return ``found`` with the metadata that ``desired`` names, by which it is compared, and no other."""
    named = {column.name: column.metadata.keys() for column in desired}

    def metadata(column: Column) -> dict[str, str]:
        return {key: text for key, text in column.metadata.items() if key in named.get(column.name, ())}

    return tuple(replace(column, metadata=metadata(column)) for column in found)


def evolved(found: Schema, difference: SchemaDifference) -> Schema:
    """Return the columns that data with ``found`` has once missing ones are added and others may be null."""
    relaxed = {pair.found.name for pair in difference.relaxed}
    kept = (replace(column, nullable=True) if column.name in relaxed else column for column in found)
    return (*kept, *difference.missing)


def planned(desired: DesiredTable, storage: Storage) -> Schema | None:
    """Return the columns that data has once its table is as planned; None where none are known or it is blocked."""
    if storage.kind is StorageKind.NOTHING or desired.schema is None or storage.schema is None:
        return desired.schema if storage.kind is StorageKind.NOTHING else storage.schema
    difference = compare(desired.schema, named_metadata(storage.schema, desired.schema))
    blocking = difference.blocking(desired.evolve, desired.extra_columns)
    return None if blocking else evolved(storage.schema, difference)


def _agrees(desired: Column, found: Column) -> bool:
    """Return whether the data has what is desired; metadata that engines add beside the named keys does not count."""
    return (desired.type, desired.nullable) == (found.type, found.nullable) and all(
        found.metadata.get(key) == value for key, value in desired.metadata.items()
    )


def _text(column: Column) -> str:
    text = column.type if column.nullable else f"{column.type} not null"
    if column.metadata:
        text += " with metadata " + ", ".join(
            f"{key}={text}" for key, text in redact_properties(column.metadata).items()
        )
    return text
