"""Between Arrow types and Spark's, which Unity has too and Hive nearly: name, SQL text and JSON of each.

None of them has a fixed-size list, an unsigned or half-precision number, a time of day or more than one unit of time.
What they cannot express becomes the nearest type they have; :mod:`reconciler.backends.unity.columns` keeps the exact
one beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.arrow_types import TypeSyntaxError
from reconciler.arrow_types.syntax import parse_tree
from reconciler.arrow_types.tree import (
    WORD,
    ArrowType,
    Child,
    Dictionary,
    Extension,
    FixedSizeList,
    Foreign,
    ListOf,
    MapOf,
    ScalarType,
    Struct,
)

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class SparkType:
    """A type as Unity says it three times over: ``ARRAY``, ``array<int>`` and the JSON value of a Spark schema.

    ``hive`` is what Hive and Glue call it.
    """

    name: str
    text: str
    json: str | Mapping[str, Any]
    hive: str
    precision: int | None = None
    scale: int | None = None
    interval: str | None = None


def _simple(name: str, text: str, json: str | None = None, hive: str | None = None) -> SparkType:
    return SparkType(name, text, json or text, hive or text)


def _decimal(precision: int, scale: int) -> SparkType:
    text = f"decimal({precision},{scale})"
    return SparkType("DECIMAL", text, text, text, precision, scale)


_BYTE = _simple("BYTE", "tinyint", "byte")
_SHORT = _simple("SHORT", "smallint", "short")
_INT = _simple("INT", "int", "integer")
_LONG = _simple("LONG", "bigint", "long")
_FLOAT = _simple("FLOAT", "float")
_STRING = _simple("STRING", "string")
_BINARY = _simple("BINARY", "binary")
_DATE = _simple("DATE", "date")
_TIMESTAMP = _simple("TIMESTAMP", "timestamp")
_TIMESTAMP_NTZ = _simple("TIMESTAMP_NTZ", "timestamp_ntz", hive="timestamp")
_BOOLEAN = _simple("BOOLEAN", "boolean")
_DOUBLE = _simple("DOUBLE", "double")
_VOID = _simple("NULL", "void")
_DAY_TIME = "interval day to second"

_TO_SPARK: Mapping[str, SparkType] = {
    "null": _VOID,
    "bool": _BOOLEAN,
    "bool8": _BOOLEAN,
    "int8": _BYTE,
    "int16": _SHORT,
    "int32": _INT,
    "int64": _LONG,
    "uint8": _SHORT,
    "uint16": _INT,
    "uint32": _LONG,
    "uint64": _decimal(20, 0),
    "float16": _FLOAT,
    "bfloat16": _FLOAT,
    "float32": _FLOAT,
    "float64": _DOUBLE,
    "string": _STRING,
    "large_string": _STRING,
    "json": _STRING,
    "binary": _BINARY,
    "large_binary": _BINARY,
    "fixed_size_binary": _BINARY,
    "blob": _BINARY,
    "uuid": _BINARY,
    "date32": _DATE,
    "date64": _DATE,
    "time32": _INT,
    "time64": _LONG,
    "duration": SparkType("INTERVAL", _DAY_TIME, _DAY_TIME, "bigint", interval="DAY TO SECOND"),
}

_FROM_JSON: Mapping[str, ScalarType] = {
    "void": ScalarType("null"),
    "null": ScalarType("null"),
    "boolean": ScalarType("bool"),
    "byte": ScalarType("int8"),
    "tinyint": ScalarType("int8"),
    "short": ScalarType("int16"),
    "smallint": ScalarType("int16"),
    "integer": ScalarType("int32"),
    "int": ScalarType("int32"),
    "long": ScalarType("int64"),
    "bigint": ScalarType("int64"),
    "float": ScalarType("float32"),
    "double": ScalarType("float64"),
    "string": ScalarType("string"),
    "binary": ScalarType("binary"),
    "date": ScalarType("date32"),
    "timestamp": ScalarType("timestamp", ("us", "UTC")),
    "timestamp_ntz": ScalarType("timestamp", ("us",)),
    _DAY_TIME: ScalarType("duration", ("us",)),
}
_ANYTHING = ScalarType("string")
"""What is read as text: types of Unity's that Arrow has no counterpart of (``variant``, ``char``, user-defined)."""


def tree_of(text: str) -> ArrowType:
    """Return the Arrow type that ``text`` says, in whatever way it does."""
    try:
        return parse_tree(text)
    except TypeSyntaxError:
        return Foreign(text)


def to_spark(kind: ArrowType) -> SparkType:
    """Return Spark's type for ``kind``, the nearest one where it has no equal."""
    match kind:
        case ScalarType(name="decimal128" | "decimal256", arguments=(int(precision), int(scale))):
            return _nearest_decimal(precision, scale)
        case ScalarType(name="timestamp", arguments=arguments):
            return _TIMESTAMP if len(arguments) == 2 else _TIMESTAMP_NTZ
        case ScalarType(name=name):
            return _TO_SPARK.get(name, _STRING)
        case ListOf(item=item):
            return _array(to_spark(item.type), item.nullable)
        case FixedSizeList(item=item_type):
            return _array(to_spark(item_type), nullable=True)
        case Struct(children=children):
            return _struct(children)
        case MapOf(key=key, value=value):
            return _map(to_spark(key), to_spark(value.type), value.nullable)
        case Dictionary(values=inner) | Extension(storage=inner):
            return to_spark(inner)
        case Foreign():
            return _STRING


def _nearest_decimal(precision: int, scale: int) -> SparkType:
    """Return the decimal type nearest to Arrow's: it has 38 digits, and no scale below 0 or above them."""
    if scale < 0:
        precision, scale = precision - scale, 0
    return _decimal(min(max(precision, scale), _MOST_DIGITS), min(scale, _MOST_DIGITS))


def _array(item: SparkType, nullable: bool) -> SparkType:
    json = {"type": "array", "elementType": item.json, "containsNull": nullable}
    return SparkType("ARRAY", f"array<{item.text}>", json, f"array<{item.hive}>")


def _map(key: SparkType, value: SparkType, nullable: bool) -> SparkType:
    json = {"type": "map", "keyType": key.json, "valueType": value.json, "valueContainsNull": nullable}
    return SparkType("MAP", f"map<{key.text},{value.text}>", json, f"map<{key.hive},{value.hive}>")


def _struct(children: tuple[Child, ...]) -> SparkType:
    fields = [(child, to_spark(child.type)) for child in children]
    text = ",".join(f"{_quoted(child.name)}:{kind.text}" for child, kind in fields)
    hive = ",".join(f"{_quoted(child.name)}:{kind.hive}" for child, kind in fields)
    json = {
        "type": "struct",
        "fields": [
            {"name": child.name, "type": kind.json, "nullable": child.nullable, "metadata": {}}
            for child, kind in fields
        ],
    }
    return SparkType("STRUCT", f"struct<{text}>", json, f"struct<{hive}>")


def _quoted(name: str) -> str:
    return name if WORD.fullmatch(name) else f"`{name.replace('`', '``')}`"


def from_json(value: object) -> ArrowType:
    """Return the Arrow type for the JSON of a Spark type; what is not known is read as text."""
    match value:
        case str():
            return _scalar(value)
        case {"type": "array", "elementType": item, **rest}:
            return ListOf(Child("item", from_json(item), rest.get("containsNull") is not False))
        case {"type": "map", "keyType": key, "valueType": item, **rest}:
            return MapOf(from_json(key), Child("value", from_json(item), rest.get("valueContainsNull") is not False))
        case {"type": "struct", "fields": [*fields]}:
            return Struct(tuple(_child(field) for field in fields if isinstance(field, Mapping)))
        case _:
            return _ANYTHING


def _child(field: Mapping[str, Any]) -> Child:
    return Child(str(field.get("name", "")), from_json(field.get("type")), field.get("nullable") is not False)


def _scalar(text: str) -> ScalarType:
    plain = text.strip().lower()
    if plain in _FROM_JSON:
        return _FROM_JSON[plain]
    if plain.startswith("decimal"):
        digits = [part.strip() for part in plain.removeprefix("decimal").strip("()").split(",")]
        if digits == [""]:
            return ScalarType("decimal128", (10, 0))
        if len(digits) == 2 and all(part.isascii() and part.isdigit() for part in digits):
            return _decimal_of(int(digits[0]), int(digits[1]))
    return _ANYTHING


def _decimal_of(precision: int, scale: int) -> ScalarType:
    return ScalarType("decimal128", (precision, scale)) if 1 <= precision <= _MOST_DIGITS else _ANYTHING


def from_name(name: str, precision: int | None, scale: int | None) -> ArrowType:
    """Return the Arrow type for a ``type_name`` alone, for columns whose JSON cannot be read."""
    if name.upper() == "DECIMAL":
        return _decimal_of(precision or 10, scale or 0)
    return _scalar("void" if name.upper() == "NULL" else name)
