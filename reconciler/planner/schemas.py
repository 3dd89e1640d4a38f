"""Compare the columns of data and of a block, and say how to remove differences.

lancens rewrites no data itself. The pylance calls in remedies are complete, and tested by running them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from reconciler.arrow_types import TypeSyntaxError
from reconciler.arrow_types.conversion import column_code, field_code, mapping_code, text_code, type_code
from reconciler.arrow_types.syntax import parse_tree
from reconciler.arrow_types.tree import DECIMALS, INTEGERS, ArrowType, Child, FixedSizeList, ListOf, ScalarType, Struct
from reconciler.model import locations
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import DesiredTable, Evolve, ExtraColumns
from reconciler.model.live import Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.reasons import Params
from reconciler.model.redaction import redact_properties


class ColumnPair(NamedTuple):
    """One column as the block defines it and as the data has it."""

    desired: Column
    found: Column


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """The differences between data's and a block's columns; false if there are none.

    ``missing`` are in the block only, ``extra`` in the data only. ``relaxed`` differ only in that the block allows
    nulls; ``changed`` differ in any other way.
    """

    missing: Schema = ()
    relaxed: tuple[ColumnPair, ...] = ()
    changed: tuple[ColumnPair, ...] = ()
    extra: Schema = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.relaxed or self.changed or self.extra)

    @property
    def grows(self) -> bool:
        """Whether columns are added or become nullable."""
        return bool(self.missing or self.relaxed)

    def blocking(self, evolve: Evolve, extra_columns: ExtraColumns) -> SchemaDifference:
        """Return the part that blocks a table; the rest is applied, or left as it is."""
        additive = evolve is Evolve.ADDITIVE
        return SchemaDifference(
            tuple(column for column in self.missing if not (additive and column.nullable)),
            () if additive else self.relaxed,
            self.changed,
            () if extra_columns is ExtraColumns.KEEP else self.extra,
        )

    def texts(self, asked_by: str = "the block") -> Iterator[str]:
        """Yield one clause a column, secrets replaced; ``asked_by`` names the block."""
        for column in self.missing:
            yield f"`{column.name}` ({_text(column)}) is not in the data"
        for desired, found in (*self.changed, *self.relaxed):
            yield f"`{desired.name}` is {_text(found)} in the data, {_text(desired)} in {asked_by}"
        for column in self.extra:
            yield f"`{column.name}` ({_text(column)}) is not in {asked_by}"


def compare(desired: Schema, found: Schema) -> SchemaDifference:
    """Return how ``found`` (the data) differs from ``desired``; order does not count."""
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
    """Return ``found`` with only the metadata keys that ``desired`` names."""
    named = {column.name: column.metadata.keys() for column in desired}

    def metadata(column: Column) -> dict[str, str]:
        return {key: text for key, text in column.metadata.items() if key in named.get(column.name, ())}

    return tuple(replace(column, metadata=metadata(column)) for column in found)


def evolved(found: Schema, difference: SchemaDifference) -> Schema:
    """Return ``found`` with missing columns added and relaxed ones nullable."""
    relaxed = {pair.found.name for pair in difference.relaxed}
    kept = (replace(column, nullable=True) if column.name in relaxed else column for column in found)
    return (*kept, *difference.missing)


def planned(desired: DesiredTable, storage: Storage) -> Schema | None:
    """Return the columns of the data after the plan; None if unknown or blocked."""
    if storage.kind is StorageKind.NOTHING or desired.schema is None or storage.schema is None:
        return desired.schema if storage.kind is StorageKind.NOTHING else storage.schema
    difference = compare(desired.schema, named_metadata(storage.schema, desired.schema))
    blocking = difference.blocking(desired.evolve, desired.extra_columns)
    return None if blocking else evolved(storage.schema, difference)


def _agrees(desired: Column, found: Column) -> bool:
    """Return whether the data has the desired column; other metadata does not count."""
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


_FLOATS = ("float16", "float32", "float64")
_STRINGS = ("string", "large_string")
_DATES = ("date32", "date64")
_TIMES = ("time32", "time64")
_FAMILIES = (INTEGERS, _FLOATS, _STRINGS, ("binary", "large_binary"), _DATES, _TIMES, tuple(DECIMALS), ("timestamp",))
_BY_SQL = frozenset({"bool", *INTEGERS, *_FLOATS, *_STRINGS, *DECIMALS})
_SQL_NAMES = {
    "bool": "Boolean",
    "string": "Utf8",
    "large_string": "LargeUtf8",
    **{name: name.replace("uint", "UInt").replace("int", "Int") for name in INTEGERS},
}
_SQL_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_WRITTEN = 3
"""Of how many columns the lines to write are shown."""


def schema_remedy(
    blocking: SchemaDifference,
    extra: Schema,
    location: str,
    evolve: Evolve | None,
    served_as: Identifier | None = None,
) -> Params:
    """Return what to write or to run about a blocking difference.

    Args:
        blocking: the difference, not empty.
        extra: the columns that only the data has, blocking or not.
        location: where the dataset is.
        evolve: the block's ``evolve``; None if it does not apply.
        served_as: the table's identifier if its service keeps the data's versions, so that only the service may write.
    """
    calls = _Calls(location, served_as)
    params: Params = {}
    impossible = calls.add_all(blocking)
    if impossible:
        params["impossible"] = impossible
    if calls.made():
        params["code"] = calls.code()
    if calls.fills:
        params["fills"] = True
    renaming = rename_hint(blocking.missing, extra, location, served_as)
    return {**_to_write(blocking, evolve), **params, **renaming}


def code_by_service(table: Identifier, difference: SchemaDifference) -> str:
    """Return Python that applies ``difference`` through the table's service.

    Without a difference it creates the dataset.
    """
    if not difference:
        return f'lance.write_dataset(schema.empty_table(), mode="append", {_by_service(table)})'
    calls = _Calls("", table)
    calls.add_all(difference)
    return calls.code()


def _by_service(table: Identifier) -> str:
    return f"namespace_client=namespace, table_id=[{', '.join(map(text_code, table))}]"


def rename_hint(missing: Schema, extra: Schema, location: str, served_as: Identifier | None = None) -> Params:
    """Return what to run if missing columns exist under other names."""
    renames = {old: new for new, old in _renamed(missing, extra)}
    if not renames:
        return {}
    calls = _Calls(location, served_as, alters=[_rename(old, new) for old, new in renames.items()])
    return {"renames": renames, "rename_code": calls.code()}


def _to_write(blocking: SchemaDifference, evolve: Evolve | None) -> Params:
    missing = tuple(column.name for column in blocking.missing)
    if blocking.extra and not (blocking.missing or blocking.relaxed or blocking.changed):
        return {"extra": tuple(column.name for column in blocking.extra), "lines": _lines(blocking.extra)}
    if evolve is not None and not blocking.changed and not blocking.extra:
        required = tuple(column.name for column in blocking.missing if not column.nullable)
        params: Params = {"evolves": evolve is Evolve.NEVER}
        return {**params, "relaxed": required} if required else params
    there = [*(pair.found for pair in (*blocking.changed, *blocking.relaxed)), *blocking.extra]
    lines = _lines(there)
    if (there and not lines) or len(missing) > _MOST_WRITTEN:
        return {}
    return {"added": missing, "lines": lines}


def _lines(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return schema lines for ``columns``; nothing if they are many or too complex."""
    if len(columns) > _MOST_WRITTEN or any(column.metadata or "$" in column.name for column in columns):
        return ()
    return tuple(_line(column) for column in columns)


def _line(column: Column) -> str:
    parts = [f"name: {_scalar(column.name)}", f"type: {_scalar(column.type)}"]
    return f"{{{', '.join(parts if column.nullable else [*parts, 'nullable: false'])}}}"


def _scalar(text: str) -> str:
    return text if _WORD.fullmatch(text) else json.dumps(text)


def _renamed(missing: Schema, extra: Schema) -> Iterator[tuple[str, str]]:
    """Yield the new and the old name of columns that can only be one renamed column."""
    for column in missing:
        alike = [other for other in extra if (other.type, other.nullable) == (column.type, column.nullable)]
        rivals = [other for other in missing if (other.type, other.nullable) == (column.type, column.nullable)]
        if len(alike) == 1 and len(rivals) == 1:
            yield column.name, alike[0].name


@dataclass(slots=True)
class _Calls:
    """pylance calls on the dataset at ``location``, as Python.

    With ``served_as`` they go through the table's service.
    """

    location: str
    served_as: Identifier | None = None
    alters: list[str] = field(default_factory=list)
    tightened: list[str] = field(default_factory=list)
    adds: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    drops: list[str] = field(default_factory=list)
    fills: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)

    def add_all(self, difference: SchemaDifference) -> tuple[str, ...]:
        """Add calls that apply ``difference``; return the columns without one."""
        pairs = (*difference.changed, *difference.relaxed)
        impossible = [pair.desired.name for pair in pairs if not self._change(pair)]
        impossible += [column.name for column in difference.missing if not self._add(column)]
        self.drops += [text_code(column.name) for column in difference.extra]
        return tuple(impossible)

    def made(self) -> list[str]:
        """Return the calls in execution order."""
        made = [f"alter_columns({', '.join(self.alters)})"] if self.alters else []
        made += [f"alter_columns({', '.join(self.tightened)})"] if self.tightened else []
        made += [f"update_field_metadata({{{', '.join(self.metadata)}}})"] if self.metadata else []
        made += [f"add_columns(pa.schema([{', '.join(self.adds)}]))"] if self.adds else []
        made += [f"add_columns({{{', '.join(self.fills)}}})"] if self.fills else []
        made += self.copies
        return [*made, f"drop_columns([{', '.join(self.drops)}])"] if self.drops else made

    def code(self) -> str:
        """Return the Python of all calls; if one fails, those before it stay applied."""
        made = self.made()
        opened = text_code(locations.redact(locations.pylance_uri(self.location)))
        dataset = f"lance.dataset({_by_service(self.served_as) if self.served_as else opened})"
        if len(made) == 1:
            return f"{dataset}.{made[0]}"
        return "; ".join((f"ds = {dataset}", *(f"ds.{call}" for call in made)))

    def _add(self, column: Column) -> bool:
        """Add a missing column: with nulls, or with a constant if it is not nullable."""
        if column.nullable:
            self.adds.append(column_code(column))
            return True
        value = _value(parse_tree(column.type))
        if value is None or column.metadata:
            return False
        self.fills.append(f"{text_code(column.name)}: {text_code(value)}")
        return True

    def _change(self, pair: ColumnPair) -> bool:
        desired, found = pair
        named = {key: text for key, text in desired.metadata.items() if found.metadata.get(key) != text}
        try:
            one, other = Child("", parse_tree(desired.type), desired.nullable), parse_tree(found.type)
        except TypeSyntaxError:
            return False
        if not (self._alter((desired.name,), one, Child("", other, found.nullable)) or self._copy(pair, one, other)):
            return False
        if named:
            self.metadata.append(f"{text_code(desired.name)}: {mapping_code(redact_properties(named))}")
        return True

    def _alter(self, path: tuple[str, ...], desired: Child, found: Child) -> bool:
        """Alter a column, or a field inside one, in place; False if pylance cannot."""
        where = f'"path": {text_code(".".join(path))}'
        parts = []
        if desired.type != found.type:
            if not _casts(found.type, desired.type):
                return self._alter_inside(path, desired, found)
            parts.append(f'"data_type": {type_code(str(desired.type))}')
        if desired.nullable and not found.nullable:
            parts.append('"nullable": True')
        elif found.nullable and not desired.nullable:  # pylance takes this in no call that casts
            self.tightened.append(f'{{{where}, "nullable": False}}')
        if parts:
            self.alters.append(f"{{{', '.join((where, *parts))}}}")
        return True

    def _alter_inside(self, path: tuple[str, ...], desired: Child, found: Child) -> bool:
        """Alter the fields of a struct or a list; return False if one cannot be altered."""
        children, there = _children(desired.type), _children(found.type)
        if children is None or there is None or desired.nullable != found.nullable:
            return False
        after = [name for name in there if name in children] + [name for name in children if name not in there]
        if after != list(children) or any("." in name or "`" in name for name in (*children, *there)):
            return False
        new = [child for name, child in children.items() if name not in there]
        if not all(child.nullable for child in new) or (new and len(path) > 1):
            return False
        done = all(self._alter((*path, name), child, there[name]) for name, child in children.items() if name in there)
        self.adds += [field_code(Child(path[0], Struct((child,)))) for child in new]
        self.drops += [text_code(".".join((*path, name))) for name in there if name not in children]
        return done

    def _copy(self, pair: ColumnPair, desired: Child, found: ArrowType) -> bool:
        """Change a type that pylance cannot cast, through a second column."""
        name, other = pair.desired.name, f"{pair.desired.name}_new"
        by_sql = all(isinstance(kind, ScalarType) and kind.name in _BY_SQL for kind in (desired.type, found))
        if not by_sql or "`" in name or desired.nullable != pair.found.nullable or pair.found.metadata:
            return False
        quoted = name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"
        value = f"arrow_cast({quoted}, '{_sql(desired.type)}')"
        self.copies += [
            f"add_columns({{{text_code(other)}: {text_code(value)}}})",
            f"drop_columns([{text_code(name)}])",
            f"alter_columns({_rename(other, name)})",
        ]
        return True


def _rename(old: str, new: str) -> str:
    return f'{{"path": {text_code(old)}, "name": {text_code(new)}}}'


def _children(kind: ArrowType) -> dict[str, Child] | None:
    if isinstance(kind, Struct):
        return {child.name: child for child in kind.children}
    return {kind.item.name: kind.item} if isinstance(kind, ListOf) and kind.name == "list" else None


def _casts(found: ArrowType, desired: ArrowType) -> bool:
    """Return whether pylance's ``alter_columns`` casts ``found`` to ``desired``."""
    match found, desired:
        case ScalarType(name=one), ScalarType(name=other):
            together = any(one in family and other in family for family in _FAMILIES)
            return together or (one in _DATES and other == "timestamp") or (one == "timestamp" and other in _DATES)
        case FixedSizeList(item=one_item, size=size), FixedSizeList(item=other_item, size=other_size):
            return size == other_size and _casts(one_item, other_item)
        case ListOf(item=one_child), ListOf(item=other_child):
            same = (one_child.name, one_child.nullable) == (other_child.name, other_child.nullable)
            return same and (one_child.type == other_child.type or _casts(one_child.type, other_child.type))
    return False


def _value(kind: ArrowType) -> str | None:
    """Return SQL for a value of a type; None if SQL has no name for the type."""
    if not isinstance(kind, ScalarType) or kind.name not in _BY_SQL:
        return None
    value = {"bool": "false", "string": "''", "large_string": "''"}.get(kind.name, "0")
    return f"arrow_cast({value}, '{_sql(kind)}')"


def _sql(kind: ArrowType) -> str:
    """Return DataFusion's name for a type of ``_BY_SQL``."""
    if not isinstance(kind, ScalarType):
        return str(kind)
    if kind.name in DECIMALS:
        return f"{kind.name.capitalize()}({kind.arguments[0]}, {kind.arguments[1]})"
    return _SQL_NAMES.get(kind.name, kind.name.capitalize())
