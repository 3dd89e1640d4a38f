"""Write the pylance calls and the lines of a block that remove differences of columns.

lancens rewrites no data itself. The calls in remedies are complete, and tested by running them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reconciler.arrow_types import TypeSyntaxError
from reconciler.arrow_types.conversion import column_code, field_code, mapping_code, text_code, type_code
from reconciler.arrow_types.syntax import parse_tree
from reconciler.arrow_types.tree import (
    DECIMALS,
    INTEGERS,
    ArrowType,
    ChildField,
    FixedSizeListType,
    ListType,
    ScalarType,
    StructType,
)
from reconciler.model import locations
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import Evolve
from reconciler.model.names import Identifier
from reconciler.model.reasons import Params
from reconciler.model.redaction import redact_properties
from reconciler.planner.schemas import ColumnPair, SchemaDifference

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
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_LINES = 3
"""Lines are shown for up to this many columns."""


def schema_remedy(
    blocking: SchemaDifference,
    extra: Schema,
    location: str,
    evolve: Evolve | None,
    served_as: Identifier | None = None,
) -> Params:
    """Return the parameters of a remedy: lines to write or calls to run for a blocking difference.

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
    if calls.in_order():
        params["code"] = calls.code()
    if calls.fills:
        params["fills"] = True
    if calls.rewritten:
        params["rewritten"] = tuple(calls.rewritten)
    renaming = rename_hint(blocking.missing, extra, location, served_as)
    return {**_manifest_lines(blocking, evolve), **params, **renaming}


def code_by_service(table: Identifier, difference: SchemaDifference) -> str:
    """Return Python that applies ``difference`` through the table's service.

    Without a difference it creates the dataset.
    """
    if not difference:
        return f'lance.write_dataset(schema.empty_table(), mode="append", {_by_service(table)})'
    calls = _Calls("", table)
    calls.add_all(difference)
    return calls.code()


def dataset_code(location: str) -> str:
    """Return Python that opens the dataset at ``location``."""
    return f"lance.dataset({text_code(locations.redact(locations.pylance_uri(location)))})"


def _by_service(table: Identifier) -> str:
    return f"namespace_client=namespace, table_id=[{', '.join(map(text_code, table))}]"


def rename_hint(missing: Schema, extra: Schema, location: str, served_as: Identifier | None = None) -> Params:
    """Return calls that rename columns if missing ones seem to exist under old names; else nothing."""
    renames = {old: new for new, old in _likely_renames(missing, extra)}
    if not renames:
        return {}
    calls = _Calls(location, served_as, alters=[_rename(old, new) for old, new in renames.items()])
    return {"renames": renames, "rename_code": calls.code()}


def _manifest_lines(blocking: SchemaDifference, evolve: Evolve | None) -> Params:
    missing = tuple(column.name for column in blocking.missing)
    if blocking.unclear:
        return {"unclear": tuple(column.name for column in blocking.unclear)}
    if blocking.extra and not (blocking.missing or blocking.altered or blocking.changed):
        return {"extra": tuple(column.name for column in blocking.extra), "lines": _lines(blocking.extra)}
    if evolve is not None and not blocking.changed and not blocking.extra:
        required = tuple(column.name for column in blocking.missing if not column.nullable)
        params: Params = {"evolves": evolve is Evolve.NEVER}
        return {**params, "relaxed": required} if required else params
    live = [*(pair.actual for pair in (*blocking.changed, *blocking.altered)), *blocking.extra]
    lines = _lines(live)
    if (live and not lines) or len(missing) > _MOST_LINES:
        return {}
    return {"added": missing, "lines": lines}


def _lines(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return schema lines for ``columns``; nothing if they are many or too complex."""
    if len(columns) > _MOST_LINES or any(column.metadata or "$" in column.name for column in columns):
        return ()
    return tuple(_line(column) for column in columns)


def _line(column: Column) -> str:
    parts = [f"name: {_scalar(column.name)}", f"type: {_scalar(column.type)}"]
    return f"{{{', '.join(parts if column.nullable else [*parts, 'nullable: false'])}}}"


def _scalar(text: str) -> str:
    return text if _WORD.fullmatch(text) else json.dumps(text)


def _likely_renames(missing: Schema, extra: Schema) -> Iterator[tuple[str, str]]:
    """Yield the new and the old name of each missing column that has one match among ``extra``."""
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
    renames: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    """The names of the columns whose data the calls rewrite."""

    def add_all(self, difference: SchemaDifference) -> tuple[str, ...]:
        """Add calls that apply ``difference``; return the columns without one."""
        pairs = (*difference.changed, *difference.altered)
        impossible = [pair.desired.name for pair in pairs if not self._change(pair)]
        impossible += [column.name for column in difference.missing if not self._add(column)]
        # pylance 14 drops no column whose name has a backtick, however it is quoted, and reports no error.
        impossible += [column.name for column in difference.extra if "`" in column.name]
        self.drops += [text_code(column.name) for column in difference.extra if "`" not in column.name]
        return tuple(impossible)

    def in_order(self) -> list[str]:
        """Return the calls in execution order."""
        calls = [f"alter_columns({', '.join(self.alters)})"] if self.alters else []
        calls += [f"alter_columns({', '.join(self.tightened)})"] if self.tightened else []
        calls += [f"update_field_metadata({{{', '.join(self.metadata)}}})"] if self.metadata else []
        calls += [f"add_columns(pa.schema([{', '.join(self.adds)}]))"] if self.adds else []
        calls += [f"add_columns({{{', '.join(self.fills)}}})"] if self.fills else []
        calls += self.copies
        calls += [f"alter_columns({', '.join(self.renames)})"] if self.renames else []
        return [*calls, f"drop_columns([{', '.join(self.drops)}])"] if self.drops else calls

    def code(self) -> str:
        """Return the Python of all calls; if one fails, those before it stay applied."""
        calls = self.in_order()
        dataset = f"lance.dataset({_by_service(self.served_as)})" if self.served_as else dataset_code(self.location)
        if len(calls) == 1:
            return f"{dataset}.{calls[0]}"
        return "; ".join((f"ds = {dataset}", *(f"ds.{call}" for call in calls)))

    def _add(self, column: Column) -> bool:
        """Add a missing column, filled with nulls or a constant; return False if pylance cannot."""
        if column.nullable:
            self.adds.append(column_code(column))
            return True
        value = _value(parse_tree(column.type))
        if value is None or column.metadata or "`" in column.name:  # pylance finds no such column here
            return False
        self.fills.append(f"{text_code(column.name)}: {text_code(value)}")
        return True

    def _change(self, pair: ColumnPair) -> bool:
        """Add the calls that change a column; return False if there are none that can."""
        desired, live = pair.desired, pair.actual
        if pair.is_impossible:
            return False
        try:
            new, old = ChildField("", parse_tree(desired.type), desired.nullable), parse_tree(live.type)
        except TypeSyntaxError:
            return False
        if not (self._alter((live.name,), new, ChildField("", old, live.nullable)) or self._copy(pair, new, old)):
            return False
        if desired.type != live.type:
            self.rewritten.append(live.name)
        if pair.metadata:
            self.metadata.append(f"{_path_code(live.name)}: {mapping_code(redact_properties(pair.metadata))}")
        if pair.is_renamed:
            self.renames.append(_rename(live.name, desired.name))
        return True

    def _alter(self, path: tuple[str, ...], desired: ChildField, live: ChildField) -> bool:
        """Alter a column, or a field inside one, in place; False if pylance cannot."""
        target = f'"path": {_path_code(".".join(path))}'
        parts = []
        if desired.type != live.type:
            if not _casts(live.type, desired.type):
                return self._alter_inside(path, desired, live)
            parts.append(f'"data_type": {type_code(str(desired.type))}')
        if desired.nullable and not live.nullable:
            parts.append('"nullable": True')
        elif live.nullable and not desired.nullable:  # pylance takes this in no call that casts
            self.tightened.append(f'{{{target}, "nullable": False}}')
        if parts:
            self.alters.append(f"{{{', '.join((target, *parts))}}}")
        return True

    def _alter_inside(self, path: tuple[str, ...], desired: ChildField, live: ChildField) -> bool:
        """Alter the fields of a struct or a list; return False if one cannot be altered."""
        children, live_children = _children(desired.type), _children(live.type)
        if children is None or live_children is None or desired.nullable != live.nullable:
            return False
        after = [name for name in live_children if name in children] + [
            name for name in children if name not in live_children
        ]
        if after != list(children) or any("." in name or "`" in name for name in (*path, *children, *live_children)):
            return False
        new = [child for name, child in children.items() if name not in live_children]
        if not all(child.nullable for child in new) or (new and len(path) > 1):
            return False
        done = all(
            self._alter((*path, name), child, live_children[name])
            for name, child in children.items()
            if name in live_children
        )
        self.adds += [field_code(ChildField(path[0], StructType((child,)))) for child in new]
        self.drops += [text_code(".".join((*path, name))) for name in live_children if name not in children]
        return done

    def _copy(self, pair: ColumnPair, desired: ChildField, live: ArrowType) -> bool:
        """Change a type that pylance cannot cast, through a second column."""
        name, other = pair.actual.name, f"{pair.actual.name}_new"
        by_sql = all(isinstance(kind, ScalarType) and kind.name in _BY_SQL for kind in (desired.type, live))
        if not by_sql or "`" in name or desired.nullable != pair.actual.nullable or pair.actual.metadata:
            return False
        quoted = name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"
        value = f"arrow_cast({quoted}, '{_sql(desired.type)}')"
        self.copies += [
            f"add_columns({{{text_code(other)}: {text_code(value)}}})",
            f"drop_columns([{text_code(name)}])",
            f"alter_columns({_rename(other, name)})",
        ]
        return True


def _path_code(path: str) -> str:
    """Return the path of a column, quoted if its name has a backtick, or of a field inside one."""
    return text_code(f"`{path.replace('`', '``')}`" if "`" in path else path)


def _rename(old: str, new: str) -> str:
    return f'{{"path": {_path_code(old)}, "name": {text_code(new)}}}'


def _children(kind: ArrowType) -> dict[str, ChildField] | None:
    if isinstance(kind, StructType):
        return {child.name: child for child in kind.children}
    return {kind.item.name: kind.item} if isinstance(kind, ListType) and kind.name == "list" else None


def _casts(live: ArrowType, desired: ArrowType) -> bool:
    """Return whether pylance's ``alter_columns`` casts type ``live`` to ``desired``."""
    match live, desired:
        case ScalarType(name=source), ScalarType(name=target):
            together = any(source in family and target in family for family in _FAMILIES)
            return (
                together or (source in _DATES and target == "timestamp") or (source == "timestamp" and target in _DATES)
            )
        case FixedSizeListType(item=one_item, size=size), FixedSizeListType(item=other_item, size=other_size):
            return size == other_size and _casts(one_item, other_item)
        case ListType(item=one_child), ListType(item=other_child):
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
