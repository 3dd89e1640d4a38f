"""Convert between type trees and pyarrow types, and write the Python code of a type, for remedies.

Extension types are written as field metadata, so that none needs to be registered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from reconciler.arrow_types import tree
from reconciler.arrow_types.syntax import TypeSyntaxError, parse_tree
from reconciler.arrow_types.tree import BLOB, KNOWN_EXTENSIONS, ArrowType, ChildField, ScalarType
from reconciler.model.columns import Column, Schema
from reconciler.model.redaction import redact_properties

if TYPE_CHECKING:
    import pyarrow as pa


_Pyarrow: TypeAlias = Any
"""The module pyarrow, or its stand-in whose functions return their code in place of fields and types."""

BLOB_KEY = "lance-encoding:blob"
EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"

_LANCE_BLOB = "lance.blob.v2"
_SHORT_NAMES = {full: short for short, full in KNOWN_EXTENSIONS.items()}
_STORAGE = {
    "bfloat16": ScalarType("fixed_size_binary", (2,)),
    "blob": ScalarType("large_binary"),
    "bool8": ScalarType("int8"),
    "json": ScalarType("string"),
    "uuid": ScalarType("fixed_size_binary", (16,)),
}
_FUNCTIONS = {"bool": "bool_", "fixed_size_binary": "binary", "list": "list_"}
"""The functions of pyarrow whose name differs from their type's."""


def to_arrow_schema(schema: Schema) -> pa.Schema:
    """Return the pyarrow schema to write an empty dataset with.

    Raises:
        TypeSyntaxError: Lance does not store the type of a column.
    """
    import pyarrow as pa

    return pa.schema([_build_column(pa, column) for column in schema])


def _build_column(pa: _Pyarrow, column: Column) -> Any:
    """Return the field of ``column`` as ``pa`` builds it: an object or code.

    Raises:
        TypeSyntaxError: Lance does not store its type.
    """
    return _build_field(pa, ChildField(column.name, parse_tree(column.type), column.nullable), column.metadata)


def _build_field(pa: _Pyarrow, child: ChildField, metadata: Mapping[str, str] | None = None) -> Any:
    """Return the field of ``child`` as ``pa`` builds it, with ``metadata`` and that of its extension type."""
    options: dict[str, Any] = {} if child.nullable else {"nullable": False}
    marks = {**(metadata or {}), **_marks(child.type)}
    if marks:
        options["metadata"] = marks
    return pa.field(child.name, _build_type(pa, child.type), **options)


def _build_type(pa: _Pyarrow, kind: ArrowType) -> Any:
    """Return the type as ``pa`` builds it; for an extension, the type of its storage.

    Raises:
        ValueError: it is ``ForeignType``, or holds such a type.
    """
    match kind:
        case ScalarType(name) if name in _STORAGE:
            return _build_type(pa, _STORAGE[name])
        case ScalarType("timestamp", (unit, zone)):
            return pa.timestamp(unit, tz=zone)
        case ScalarType(name, arguments):
            return getattr(pa, _FUNCTIONS.get(name, name))(*arguments)
        case tree.ListType(item, name):
            return getattr(pa, _FUNCTIONS.get(name, name))(_list_item(pa, item))
        case tree.FixedSizeListType(item_type, size):
            return pa.list_(_list_item(pa, ChildField("item", item_type)), size)
        case tree.StructType(children):
            return pa.struct([_build_field(pa, child) for child in children])
        case tree.MapType(key, value):
            return pa.map_(_build_field(pa, ChildField("key", key, nullable=False)), _build_field(pa, value))
        case tree.DictionaryType(values, indices):
            return pa.dictionary(_build_type(pa, ScalarType(indices)), _build_type(pa, values))
        case tree.ExtensionType(storage=storage):
            return _build_type(pa, storage)
    raise ValueError(f"`{kind}` cannot be written")


def _list_item(pa: _Pyarrow, item: ChildField) -> Any:
    """Return the field of a list's items as ``pa`` builds it, or only their type if that gives the same list."""
    is_plain = item == ChildField("item", item.type) and not _marks(item.type)
    return _build_type(pa, item.type) if is_plain else _build_field(pa, item)


def _marks(kind: ArrowType) -> dict[str, str]:
    """Return the field metadata that tells an extension type or blob from its storage type."""
    match kind:
        case ScalarType(name) if name == BLOB:
            return {BLOB_KEY: "true"}
        case ScalarType(name) if name in KNOWN_EXTENSIONS:
            # pyarrow adds the empty metadata for a registered type; without it Lance sees two types.
            return {EXTENSION_NAME: KNOWN_EXTENSIONS[name], EXTENSION_METADATA: ""}
        case tree.ExtensionType(name, metadata=metadata):
            return {EXTENSION_NAME: name, **({EXTENSION_METADATA: metadata} if metadata else {})}
    return {}


def from_arrow_schema(schema: pa.Schema) -> Schema:
    """Return the columns of a dataset, without metadata of the schema and of nested fields."""
    fields = map(_from_arrow_field, schema)
    return tuple(
        Column(child.name, str(child.type), child.nullable, dict(sorted(metadata.items())))
        for child, metadata in fields
    )


def _from_arrow_field(field: pa.Field) -> tuple[ChildField, dict[str, str]]:
    """Return the tree of a pyarrow field, and its metadata without the marks of the type."""
    import pyarrow as pa

    metadata = {_text(key): _text(value) for key, value in (field.metadata or {}).items()}
    name = metadata.pop(EXTENSION_NAME, "")
    extension_metadata = metadata.pop(EXTENSION_METADATA, "")
    storage = field.type
    if isinstance(storage, pa.BaseExtensionType):
        name = storage.extension_name
        # pyarrow does not expose the metadata of its own extension types.
        extension_metadata = _text(storage.__arrow_ext_serialize__()) if isinstance(storage, pa.ExtensionType) else ""
        storage = storage.storage_type
    if name == _LANCE_BLOB or (pa.types.is_large_binary(storage) and metadata.get(BLOB_KEY) == "true"):
        metadata.pop(BLOB_KEY, None)
        kind: ArrowType = ScalarType(BLOB)
    elif name in _SHORT_NAMES:
        kind = ScalarType(_SHORT_NAMES[name])
    else:
        kind = _from_arrow(storage)
        if name:
            kind = tree.ExtensionType(name, kind, extension_metadata)
    return ChildField(field.name, kind, field.nullable), metadata


def _from_arrow(kind: pa.DataType) -> ArrowType:
    """Return the tree of a pyarrow type that is no extension type."""
    import pyarrow as pa

    types = pa.types
    if types.is_fixed_size_list(kind):
        return tree.FixedSizeListType(_child(kind.value_field).type, kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return tree.ListType(_child(kind.value_field), "list" if types.is_list(kind) else "large_list")
    if types.is_struct(kind):
        return tree.StructType(tuple(map(_child, kind.fields)))
    if types.is_map(kind):
        value = _child(kind.item_field)
        return tree.MapType(_child(kind.key_field).type, ChildField("value", value.type, value.nullable))
    if types.is_dictionary(kind):
        return tree.DictionaryType(_from_arrow(kind.value_type), str(kind.index_type))
    return _childless_type(kind)


@lru_cache(512)  # datasets have many columns of few types
def _childless_type(kind: pa.DataType) -> ArrowType:
    """Return the tree of a type without children; ``ForeignType`` if no manifest can declare it."""
    try:
        return parse_tree(str(kind))
    except TypeSyntaxError:
        return tree.ForeignType(str(kind))


def _child(field: pa.Field) -> ChildField:
    return _from_arrow_field(field)[0]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


# ---- as Python ----------------------------------------------------------------------------------------------------


class _Code(str):
    """Python code; other texts are written as literals."""

    __slots__ = ()


class _PyarrowCode:
    """Stands in for pyarrow: each function returns the code of its call."""

    def __getattr__(self, function: str) -> Callable[..., _Code]:
        def written(*values: object, **options: object) -> _Code:
            arguments = [*map(_literal, values), *(f"{name}={_literal(value)}" for name, value in options.items())]
            return _Code(f"pa.{function}({', '.join(arguments)})")

        return written


_PYARROW_CODE = _PyarrowCode()


def column_code(column: Column) -> str:
    """Return the code of the pyarrow field of ``column``, with sensitive metadata redacted.

    Raises:
        TypeSyntaxError: Lance does not store its type.
    """
    return str(_build_column(_PYARROW_CODE, replace(column, metadata=redact_properties(column.metadata))))


def type_code(text: str) -> str:
    """Return the code of the pyarrow type with the canonical text ``text``.

    For an extension type it is the code of its storage: only the fields inside a type can have metadata.

    Raises:
        TypeSyntaxError: Lance does not store it.
    """
    return str(_build_type(_PYARROW_CODE, parse_tree(text)))


def field_code(child: ChildField) -> str:
    """Return the code of the pyarrow field of ``child``.

    Raises:
        ValueError: its type is ``ForeignType``, or holds such a type.
    """
    return str(_build_field(_PYARROW_CODE, child))


def text_code(text: str) -> str:
    """Return ``text`` as a Python expression, in double quotes where it is printable.

    A remedy stands in backticks, which end at the first one.
    """
    if "`" in text:
        return f"chr(96).join([{', '.join(map(text_code, text.split('`')))}])"
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else ascii(text)


def mapping_code(texts: Mapping[str, str]) -> str:
    """Return ``texts`` as a Python literal."""
    return f"{{{', '.join(f'{text_code(key)}: {text_code(value)}' for key, value in texts.items())}}}"


def _literal(value: object) -> str:
    match value:
        case _Code():
            return str(value)
        case str():
            return text_code(value)
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return mapping_code(value)
    return repr(value)
