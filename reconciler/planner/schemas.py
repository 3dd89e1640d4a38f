"""Compare the columns of data and of a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from reconciler.model.column_renames import sort_renames
from reconciler.model.columns import LAYOUTS, PRIMARY_KEY, Column, Schema, with_metadata
from reconciler.model.desired import DesiredTable, Evolve, ExtraColumns
from reconciler.model.live import Storage, StorageKind
from reconciler.model.reasons import Params
from reconciler.model.redaction import is_stand_in, redact_properties
from reconciler.model.secret_forms import REDACTED


class ColumnPair(NamedTuple):
    """A column as the block defines it, and ``actual``, the same column as the data has it.

    ``has_key``: some column of the data is in a primary key, which Lance never changes.
    """

    desired: Column
    actual: Column
    has_key: bool = False

    @property
    def is_renamed(self) -> bool:
        """Whether the data has the column under its old name."""
        return self.desired.name != self.actual.name

    @property
    def is_relaxed(self) -> bool:
        """Whether the column becomes nullable."""
        return self.desired.nullable and not self.actual.nullable

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata to set: what the block names and the data lacks or has otherwise."""
        return {key: text for key, text in self.desired.metadata.items() if self.actual.metadata.get(key) != text}

    @property
    def is_impossible(self) -> bool:
        """Whether no call can remove the difference: it is in the primary key, or in the layout of files."""
        in_key = any(key.startswith(PRIMARY_KEY) for key in self.actual.metadata)
        changes_key = self.has_key and any(key.startswith(PRIMARY_KEY) for key in self.metadata)
        return (in_key and self.is_relaxed) or changes_key or not LAYOUTS.isdisjoint(self.metadata)

    @property
    def is_redefined(self) -> bool:
        """Whether more than the name differs; metadata that the block does not name does not count."""
        desired, actual = self.desired, self.actual
        return (desired.type, desired.nullable) != (actual.type, actual.nullable) or bool(self.metadata)

    @property
    def is_in_place(self) -> bool:
        """Whether pylance makes the change without reading a row."""
        tightens = self.actual.nullable and not self.desired.nullable
        return self.desired.type == self.actual.type and not tightens and not self.is_impossible


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """The differences between the columns of a block and of data; false if there are none.

    ``missing`` are in the block only, ``extra`` in the data only. ``altered`` differ in ways that pylance changes
    without reading data: in name, in metadata, or in that the block allows nulls. ``changed`` differ in any other way.
    Of columns with ``renamed_from``, ``unclear`` may have been renamed already; ``renamed`` have been, which is no
    difference.
    """

    missing: Schema = ()
    altered: tuple[ColumnPair, ...] = ()
    changed: tuple[ColumnPair, ...] = ()
    extra: Schema = ()
    unclear: Schema = ()
    renamed: Schema = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.altered or self.changed or self.extra or self.unclear)

    @property
    def grows(self) -> bool:
        """Whether columns are added, or altered in place."""
        return bool(self.missing or self.altered)

    @property
    def commits(self) -> int:
        """The number of commits: to add columns, to rename or relax them, and to set metadata."""
        return sum(
            (
                bool(self.missing),
                any(pair.is_renamed or pair.is_relaxed for pair in self.altered),
                any(pair.metadata for pair in self.altered),
            )
        )

    def blocking(self, evolve: Evolve, extra_columns: ExtraColumns) -> SchemaDifference:
        """Return the part that blocks a table; the rest is applied, or left as it is."""
        additive = evolve is Evolve.ADDITIVE
        return SchemaDifference(
            tuple(column for column in self.missing if not (additive and column.nullable)),
            () if additive else self.altered,
            self.changed,
            () if extra_columns is ExtraColumns.KEEP else self.extra,
            self.unclear,
        )

    def texts(self, asked_by: str = "the block") -> Iterator[str]:
        """Yield a clause for each column, without secrets; ``asked_by`` stands for the block."""
        for column in self.missing:
            yield f"`{column.name}` ({_text(column)}) is not in the data"
        for pair in (*self.changed, *self.altered):
            desired, actual = pair.desired, pair.actual
            if pair.is_renamed:
                yield f"`{desired.name}` is called `{actual.name}` in the data"
            if pair.is_redefined:
                yield f"`{actual.name}` is {_text(actual)} in the data, {_text(desired)} in {asked_by}"
        for column in self.unclear:
            yield f"`{column.name}` has `renamed_from: {column.renamed_from}`, and the data may have it renamed already"
        for column in self.extra:
            yield f"`{column.name}` ({_text(column)}) is not in {asked_by}"


def compare(desired: Schema, actual: Schema) -> SchemaDifference:
    """Return how ``actual``, the columns of data, differ from ``desired``; their order does not count."""
    live = {column.name: column for column in actual}
    renames = sort_renames(
        {column.name: column.renamed_from for column in desired if column.renamed_from is not None}, live
    )
    old_names = {*renames.pending.values()}
    has_key = any(key.startswith(PRIMARY_KEY) for column in actual for key in column.metadata)
    missing: list[Column] = []
    altered: list[ColumnPair] = []
    changed: list[ColumnPair] = []
    for column in desired:
        origin = renames.pending.get(column.name)
        actual_column = live.get(origin or column.name) if origin or column.name not in old_names else None
        if actual_column is None:
            missing.append(column)
            continue
        pair = ColumnPair(column, actual_column, has_key)
        if column.name not in renames.unclear and (pair.is_renamed or pair.is_redefined):
            (altered if pair.is_in_place else changed).append(pair)
    known = {*(column.name for column in desired), *old_names, *renames.unclear.values()}
    return SchemaDifference(
        tuple(column for column in missing if column.name not in renames.unclear),
        tuple(altered),
        tuple(changed),
        tuple(column for column in actual if column.name not in known),
        tuple(column for column in desired if column.name in renames.unclear),
        tuple(column for column in desired if column.name in renames.done),
    )


def named_metadata(actual: Schema, desired: Schema) -> Schema:
    """Return ``actual`` with only the metadata keys that ``desired`` names, and those of the primary key."""
    named: dict[str, set[str]] = {}
    for column in desired:
        for name in (column.name, column.renamed_from):
            named.setdefault(name or "", set()).update(column.metadata)

    def metadata(column: Column) -> Mapping[str, str]:
        known = named.get(column.name, ())
        return {key: text for key, text in column.metadata.items() if key in known or key.startswith(PRIMARY_KEY)}

    return with_metadata(actual, metadata)


def growth_of(difference: SchemaDifference) -> Params:
    """Return the columns that are added, and altered in place, as parameters of a reason."""
    pairs = difference.altered
    params: Params = {}
    if difference.missing:
        params["added"] = tuple(column.name for column in difference.missing)
    if renamed := tuple(pair.desired.name for pair in pairs if pair.is_renamed):
        params["renamed"] = renamed
    if relaxed := tuple(pair.desired.name for pair in pairs if pair.is_relaxed):
        params["relaxed"] = relaxed
    if annotated := tuple(pair.desired.name for pair in pairs if pair.metadata):
        params["annotated"] = annotated
    return params


def without_renames(schema: Schema) -> Schema:
    """Return a block's columns without ``renamed_from``, as a new dataset gets them."""
    if all(column.renamed_from is None for column in schema):
        return schema
    return tuple(replace(column, renamed_from=None) for column in schema)


def evolved(actual: Schema, difference: SchemaDifference) -> Schema:
    """Return the columns of the data once altered columns are changed and missing ones added."""
    altered = {pair.actual.name: pair for pair in difference.altered}
    changed = (_altered(column, altered[column.name]) if column.name in altered else column for column in actual)
    return (*changed, *without_renames(difference.missing))


def _altered(column: Column, pair: ColumnPair) -> Column:
    return Column(
        pair.desired.name,
        column.type,
        pair.desired.nullable,
        {**column.metadata, **pair.desired.metadata},
        column.name if pair.is_renamed else None,
    )


def planned_columns(desired: DesiredTable, storage: Storage) -> Schema | None:
    """Return the columns that the data of a table has after apply; None if unknown or blocked."""
    if storage.kind is StorageKind.NOTHING:
        return None if desired.schema is None else without_renames(desired.schema)
    if desired.schema is None or storage.schema is None:
        return storage.schema
    difference = compare(desired.schema, named_metadata(storage.schema, desired.schema))
    blocking = difference.blocking(desired.evolve, desired.extra_columns)
    return None if blocking else evolved(storage.schema, difference)


def _text(column: Column) -> str:
    """Return the type, nullability and metadata of a column in words, without secrets."""
    text = column.type if column.nullable else f"{column.type} not null"
    if column.metadata:
        shown = redact_properties(column.metadata).items()  # a saved plan has stand-ins
        text += " with metadata " + ", ".join(
            f"{key}={REDACTED if is_stand_in(value) else value}" for key, value in shown
        )
    return text
