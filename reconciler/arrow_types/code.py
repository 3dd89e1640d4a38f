"""Types and columns as the Python that makes them with pyarrow, for the calls that a person is told to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from reconciler.arrow_types.conversion import to_arrow_field
from reconciler.arrow_types.syntax import parse_tree
from reconciler.arrow_types.tree import Child
from reconciler.model.columns import Column
from reconciler.model.redaction import redact_properties

if TYPE_CHECKING:
    import pyarrow as pa


_RENAMED = {"bool": "bool_", "halffloat": "float16", "float": "float32", "double": "float64"}
"""pyarrow's own names of types that its functions call otherwise."""


def column_code(column: Column) -> str:
    """Return the Python that makes the pyarrow field of ``column``; sensitive metadata is replaced.

    Raises:
        TypeSyntaxError: its type is none that Lance stores.
    """
    return field_code(Child(column.name, parse_tree(column.type), column.nullable), redact_properties(column.metadata))


def type_code(text: str) -> str:
    """Return the Python that makes the pyarrow type of canonical text ``text``, without what a field's metadata says.

    Raises:
        TypeSyntaxError: it is none that Lance stores.
    """
    return _type(to_arrow_field(Child("", parse_tree(text))).type)


def field_code(child: Child, metadata: Mapping[str, str] | None = None) -> str:
    """Return the Python that makes the pyarrow field of ``child``."""
    return _field(to_arrow_field(child, metadata))


def text_code(text: str) -> str:
    """Return ``text`` as a Python literal, in the double quotes of an example where it can be read so."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else ascii(text)


def mapping_code(texts: Mapping[str, str]) -> str:
    """Return ``texts`` as a Python literal."""
    return f"{{{', '.join(f'{text_code(key)}: {text_code(value)}' for key, value in texts.items())}}}"


def _field(field: pa.Field) -> str:
    parts = [text_code(field.name), _type(field.type)]
    if not field.nullable:
        parts.append("nullable=False")
    if field.metadata:
        metadata = {key.decode(): value.decode() for key, value in field.metadata.items()}
        parts.append(f"metadata={mapping_code(metadata)}")
    return f"pa.field({', '.join(parts)})"


def _item(field: pa.Field) -> str:
    """Return what stands for the items of a list: their type alone, where a list makes the same field of it."""
    plain = field.name == "item" and field.nullable and not field.metadata
    return _type(field.type) if plain else _field(field)


def _type(kind: pa.DataType) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_nested(kind):
        return _nested(kind)
    if types.is_dictionary(kind):
        return f"pa.dictionary({_type(kind.index_type)}, {_type(kind.value_type)})"
    if types.is_decimal(kind):
        return f"pa.decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if types.is_fixed_size_binary(kind):
        return f"pa.binary({kind.byte_width})"
    name = str(kind).partition("[")[0]
    if types.is_timestamp(kind) and kind.tz is not None:
        return f"pa.timestamp({text_code(kind.unit)}, tz={text_code(kind.tz)})"
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        return f"pa.{name}({text_code(kind.unit)})"
    return f"pa.{_RENAMED.get(name, name)}()"


def _nested(kind: pa.DataType) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_fixed_size_list(kind):
        return f"pa.list_({_item(kind.value_field)}, {kind.list_size})"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"pa.{'list_' if types.is_list(kind) else 'large_list'}({_item(kind.value_field)})"
    if types.is_map(kind):
        return f"pa.map_({_field(kind.key_field)}, {_field(kind.item_field)})"
    return f"pa.struct([{', '.join(_field(kind.field(number)) for number in range(kind.num_fields))}])"
