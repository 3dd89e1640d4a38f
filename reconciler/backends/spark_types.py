"""Convert Arrow types to those of Spark, Unity and Hive, and back.

Spark has no fixed-size list, no unsigned or half-precision number, no time of day and one unit of time. Such types
become the nearest one that it has; :mod:`reconciler.backends.unity.columns` keeps the exact type beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.arrow_types import TypeSyntaxError, tree
from reconciler.arrow_types.syntax import parse_tree
from reconciler.model.columns import Schema, ShownColumn, ShownColumns, comment_of

_MOST_DIGITS = 38
_LONGEST_TYPE = 32_000
"""In characters: below the limits of Glue and of every metastore's database."""


@dataclass(frozen=True, slots=True)
class SparkType:
    """A Spark type in every notation.

    ``name`` and ``text`` are Unity's ``ARRAY`` and ``array<int>``, ``json`` is Spark's schema JSON, ``hive`` the form
    of Hive and Glue.
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


def _spark_decimal(precision: int, scale: int) -> SparkType:
    text = f"decimal({precision},{scale})"
    return SparkType("DECIMAL", text, text, text, precision, scale)


_BYTE = _simple("BYTE", "tinyint", "byte")
_SHORT = _simple("SHORT", "smallint", "short")
_INT = _simple("INT", "int", "integer")
_LONG = _simple("LONG", "bigint", "long")
_FLOAT = _simple("FLOAT", "float")
_STRING = _simple("STRING", "string")
_BINARY = _simple("BINARY", "binary")
_TIMESTAMP = _simple("TIMESTAMP", "timestamp")
_TIMESTAMP_NTZ = _simple("TIMESTAMP_NTZ", "timestamp_ntz", hive="timestamp")
_BOOLEAN = _simple("BOOLEAN", "boolean")
_DAY_TIME = "interval day to second"

_EQUIVALENTS: Mapping[str, SparkType] = {
    "null": _simple("NULL", "void"),
    "bool": _BOOLEAN,
    "int8": _BYTE,
    "int16": _SHORT,
    "int32": _INT,
    "int64": _LONG,
    "float32": _FLOAT,
    "float64": _simple("DOUBLE", "double"),
    "string": _STRING,
    "binary": _BINARY,
    "date32": _simple("DATE", "date"),
}
_TO_SPARK: Mapping[str, SparkType] = {
    **_EQUIVALENTS,
    **dict.fromkeys(("large_string", "json"), _STRING),
    **dict.fromkeys(("large_binary", "fixed_size_binary", "blob", "uuid"), _BINARY),
    **dict.fromkeys(("float16", "bfloat16"), _FLOAT),
    "bool8": _BOOLEAN,
    "uint8": _SHORT,
    "uint16": _INT,
    "uint32": _LONG,
    "uint64": _spark_decimal(20, 0),
    "date64": _EQUIVALENTS["date32"],
    "time32": _INT,
    "time64": _LONG,
    "duration": SparkType("INTERVAL", _DAY_TIME, _DAY_TIME, "bigint", interval="DAY TO SECOND"),
}
_FROM_SPARK: Mapping[str, tree.ScalarType] = {
    **{
        str(notation): tree.ScalarType(name)
        for name, kind in _EQUIVALENTS.items()
        for notation in (kind.name.lower(), kind.text, kind.json)
    },
    "timestamp": tree.ScalarType("timestamp", ("us", "UTC")),
    "timestamp_ntz": tree.ScalarType("timestamp", ("us",)),
    _DAY_TIME: tree.ScalarType("duration", ("us",)),
}
_FALLBACK = tree.ScalarType("string")
"""The type for Unity's types without an Arrow equivalent: ``variant``, ``char``, user-defined ones."""


def parse_arrow_type(text: str) -> tree.ArrowType:
    """Return the Arrow type that ``text`` names, ``ForeignType`` if it is unknown."""
    try:
        return parse_tree(text)
    except TypeSyntaxError:
        return tree.ForeignType(text)


def to_spark(kind: tree.ArrowType) -> SparkType:
    """Return the Spark type that is equal or nearest to ``kind``."""
    match kind:
        case tree.ScalarType(name="decimal128" | "decimal256", arguments=(int(precision), int(scale))):
            return _nearest_decimal(precision, scale)
        case tree.ScalarType(name="timestamp", arguments=arguments):
            return _TIMESTAMP if len(arguments) == 2 else _TIMESTAMP_NTZ
        case tree.ScalarType(name=name):
            return _TO_SPARK.get(name, _STRING)
        case tree.ListType(item=item):
            return _array(to_spark(item.type), item.nullable)
        case tree.FixedSizeListType(item=item_type):
            return _array(to_spark(item_type), nullable=True)
        case tree.StructType(children=children):
            return _struct(children)
        case tree.MapType(key=key, value=value):
            return _map(to_spark(key), to_spark(value.type), value.nullable)
        case tree.DictionaryType(values=stored) | tree.ExtensionType(storage=stored):
            return to_spark(stored)
        case tree.ForeignType():
            return _STRING


def _nearest_decimal(precision: int, scale: int) -> SparkType:
    """Return the nearest decimal type of at most 38 digits.

    Its scale is from 0 to the number of digits.
    """
    if scale < 0:
        precision, scale = precision - scale, 0
    return _spark_decimal(min(max(precision, scale), _MOST_DIGITS), min(scale, _MOST_DIGITS))


def _array(item: SparkType, nullable: bool) -> SparkType:
    json = {"type": "array", "elementType": item.json, "containsNull": nullable}
    return SparkType("ARRAY", f"array<{item.text}>", json, f"array<{item.hive}>")


def _map(key: SparkType, value: SparkType, nullable: bool) -> SparkType:
    json = {"type": "map", "keyType": key.json, "valueType": value.json, "valueContainsNull": nullable}
    return SparkType("MAP", f"map<{key.text},{value.text}>", json, f"map<{key.hive},{value.hive}>")


def _struct(children: tuple[tree.ChildField, ...]) -> SparkType:
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
    return name if tree.WORD.fullmatch(name) else f"`{name.replace('`', '``')}`"


def from_json(value: object) -> tree.ArrowType:
    """Return the Arrow type for the JSON of a Spark type; string for an unknown one."""
    match value:
        case str():
            return _scalar(value)
        case {"type": "array", "elementType": item, **rest}:
            return tree.ListType(tree.ChildField("item", from_json(item), rest.get("containsNull") is not False))
        case {"type": "map", "keyType": key, "valueType": item, **rest}:
            return tree.MapType(
                from_json(key), tree.ChildField("value", from_json(item), rest.get("valueContainsNull") is not False)
            )
        case {"type": "struct", "fields": [*fields]}:
            return tree.StructType(tuple(_child(field) for field in fields if isinstance(field, Mapping)))
        case _:
            return _FALLBACK


def _child(field: Mapping[str, Any]) -> tree.ChildField:
    return tree.ChildField(str(field.get("name", "")), from_json(field.get("type")), field.get("nullable") is not False)


def _scalar(text: str) -> tree.ScalarType:
    plain = text.strip().lower()
    if plain in _FROM_SPARK:
        return _FROM_SPARK[plain]
    if plain.startswith("decimal"):
        digits = [part.strip() for part in plain.removeprefix("decimal").strip("()").split(",")]
        if digits == [""]:
            return tree.ScalarType("decimal128", (10, 0))
        if len(digits) == 2 and all(part.isascii() and part.isdigit() for part in digits):
            return _arrow_decimal(int(digits[0]), int(digits[1]))
    return _FALLBACK


def _arrow_decimal(precision: int, scale: int) -> tree.ScalarType:
    """Return the Arrow type of a Spark decimal; the fallback type if Spark has no such precision."""
    return tree.ScalarType("decimal128", (precision, scale)) if 1 <= precision <= _MOST_DIGITS else _FALLBACK


def from_name(name: str, precision: int | None, scale: int | None) -> tree.ArrowType:
    """Return the Arrow type for Unity's ``type_name``, if its JSON is unreadable."""
    if name.upper() == "DECIMAL":
        return _arrow_decimal(precision or 10, scale or 0)
    return _scalar(name)


def hive_columns(schema: Schema, longest_name: int) -> ShownColumns | None:
    """Return the columns to store in an entry of Hive or Glue for ``schema``.

    None if an entry cannot store them: Hive folds names to lower case, and limits their length and characters.
    """
    shown = tuple(
        ShownColumn(field.name, to_spark(parse_arrow_type(field.type)).hive, comment_of(field)) for field in schema
    )
    names = [column.name for column in shown]
    if len({name.lower() for name in names}) < len(names) or not all(0 < len(name) <= longest_name for name in names):
        return None
    fits = all(
        column.name.isprintable() and column.type.isprintable() and len(column.type) <= _LONGEST_TYPE
        for column in shown
    )
    return shown if fits else None
