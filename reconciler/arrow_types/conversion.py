"""Between the tree and pyarrow. Extension types travel as field metadata, so that none needs to be registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reconciler.arrow_types.tree import (
    BLOB,
    KNOWN_EXTENSIONS,
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

if TYPE_CHECKING:
    import pyarrow as pa


BLOB_KEY = "lance-encoding:blob"
EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"

_LANCE_BLOB = "lance.blob.v2"
_SHORT_NAMES = {full: short for short, full in KNOWN_EXTENSIONS.items()}
_STORAGE = {
    "bfloat16": ScalarType("fixed_size_binary", (2,)),
    "bool8": ScalarType("int8"),
    "json": ScalarType("string"),
    "uuid": ScalarType("fixed_size_binary", (16,)),
}


def to_arrow_field(child: Child, metadata: Mapping[str, str] | None = None) -> pa.Field:
    """Return the pyarrow field; what marks an extension is added to ``metadata``."""
    import pyarrow as pa

    kind, marks = child.type, dict(metadata or {})
    if kind == ScalarType(BLOB):
        kind = ScalarType("large_binary")
        marks[BLOB_KEY] = "true"
    elif isinstance(kind, ScalarType) and kind.name in KNOWN_EXTENSIONS:
        # The empty metadata is what pyarrow adds for a registered type; without it Lance sees two types.
        marks |= {EXTENSION_NAME: KNOWN_EXTENSIONS[kind.name], EXTENSION_METADATA: ""}
        kind = _STORAGE[kind.name]
    elif isinstance(kind, Extension):
        marks[EXTENSION_NAME] = kind.name
        if kind.metadata:
            marks[EXTENSION_METADATA] = kind.metadata
        kind = kind.storage
    return pa.field(child.name, _to_arrow(kind), child.nullable, metadata=marks or None)


def _to_arrow(kind: ArrowType) -> pa.DataType:
    import pyarrow as pa

    match kind:
        case ScalarType():
            return _scalar_to_arrow(kind)
        case ListOf(item=item, name=name):
            return (pa.list_ if name == "list" else pa.large_list)(to_arrow_field(item))
        case FixedSizeList(item=item_type, size=size):
            return pa.list_(to_arrow_field(Child("item", item_type)), size)
        case Struct(children=children):
            return pa.struct([to_arrow_field(child) for child in children])
        case MapOf(key=key, value=value):
            return pa.map_(to_arrow_field(Child("key", key, nullable=False)), to_arrow_field(value))
        case Dictionary(values=values, indices=indices):
            return pa.dictionary(_to_arrow(ScalarType(indices)), _to_arrow(values))
        case Extension(storage=storage):
            return _to_arrow(storage)
        case Foreign(text=text):
            raise ValueError(f"`{text}` cannot be written")


def _scalar_to_arrow(kind: ScalarType) -> pa.DataType:
    import pyarrow as pa

    if kind.name == "bool":
        return pa.bool_()
    if kind.name == "fixed_size_binary":
        return pa.binary(*kind.arguments)
    return getattr(pa, kind.name)(*kind.arguments)


def from_arrow_field(field: pa.Field) -> tuple[Child, dict[str, str]]:
    """Return the tree of a pyarrow field, and its metadata without what the type says already."""
    import pyarrow as pa

    metadata = {_text(key): _text(value) for key, value in (field.metadata or {}).items()}
    name = metadata.pop(EXTENSION_NAME, "")
    extension_metadata = metadata.pop(EXTENSION_METADATA, "")
    storage = field.type
    if isinstance(storage, pa.BaseExtensionType):
        name, extension_metadata = storage.extension_name, _serialized(storage)
        storage = storage.storage_type
    if name == _LANCE_BLOB or (pa.types.is_large_binary(storage) and metadata.get(BLOB_KEY) == "true"):
        metadata.pop(BLOB_KEY, None)
        kind: ArrowType = ScalarType(BLOB)
    elif name in _SHORT_NAMES:
        kind = ScalarType(_SHORT_NAMES[name])
    else:
        kind = _from_arrow(storage)
        if name:
            kind = Extension(name, kind, extension_metadata)
    return Child(field.name, kind, field.nullable), metadata


def _from_arrow(kind: pa.DataType) -> ArrowType:
    import pyarrow as pa

    types = pa.types
    if types.is_fixed_size_list(kind):
        return FixedSizeList(_child(kind.value_field).type, kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return ListOf(_child(kind.value_field), "list" if types.is_list(kind) else "large_list")
    if types.is_struct(kind):
        return Struct(tuple(_child(kind.field(position)) for position in range(kind.num_fields)))
    if types.is_map(kind):
        value = _child(kind.item_field)
        return MapOf(_child(kind.key_field).type, Child("value", value.type, value.nullable))
    if types.is_dictionary(kind):
        return Dictionary(_from_arrow(kind.value_type), str(kind.index_type))
    return _scalar_from_arrow(kind)


def _scalar_from_arrow(kind: pa.DataType) -> ArrowType:
    import pyarrow as pa

    types = pa.types
    if types.is_decimal128(kind) or types.is_decimal256(kind):
        return ScalarType(f"decimal{kind.bit_width}", (kind.precision, kind.scale))
    if types.is_fixed_size_binary(kind):
        return ScalarType("fixed_size_binary", (kind.byte_width,))
    if types.is_timestamp(kind):
        return ScalarType("timestamp", (kind.unit,) if kind.tz is None else (kind.unit, kind.tz))
    if types.is_duration(kind):
        return ScalarType("duration", (kind.unit,))
    if types.is_time(kind):
        return ScalarType(f"time{kind.bit_width}", (kind.unit,))
    if types.is_floating(kind):
        return ScalarType(f"float{kind.bit_width}")
    if types.is_date(kind):
        return ScalarType(f"date{kind.bit_width}")
    text = str(kind)
    return ScalarType(text) if text.isidentifier() else Foreign(text)


def _child(field: pa.Field) -> Child:
    return from_arrow_field(field)[0]


def _serialized(kind: pa.BaseExtensionType) -> str:
    """Return an extension's metadata; pyarrow does not tell that of the types it defines itself."""
    import pyarrow as pa

    return _text(kind.__arrow_ext_serialize__()) if isinstance(kind, pa.ExtensionType) else ""


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
