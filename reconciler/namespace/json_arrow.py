"""Arrow schemas in the JSON form of a DescribeTable answer.

The form and its names are those of pylance's own namespaces: a type has a name, and where it needs them a length and
fields. Units, time zones and dictionary indices have no place in it; a decimal's length is
``precision * 1000 + scale``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType
from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField
from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema

if TYPE_CHECKING:
    import pyarrow as pa


_NAMES = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "string": "utf8",
    "string_view": "utf8",
    "large_string": "large_utf8",
    "binary_view": "binary",
}


def to_json_schema(schema: pa.Schema) -> JsonArrowSchema:
    """Return the JSON form of ``schema``."""
    return JsonArrowSchema(fields=[_field(field) for field in schema], metadata=_texts(schema.metadata))


def _field(field: pa.Field) -> JsonArrowField:
    return JsonArrowField(
        name=field.name, nullable=field.nullable, type=_type(field.type), metadata=_texts(field.metadata)
    )


def _type(kind: pa.DataType) -> JsonArrowDataType:
    import pyarrow as pa

    if isinstance(kind, pa.DictionaryType):
        return _type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _type(kind.storage_type)
    text = re.split(r"[\[<(]", str(kind), maxsplit=1)[0].strip()
    length: int | None = None
    if isinstance(kind, pa.Decimal128Type | pa.Decimal256Type):
        length = kind.precision * 1000 + kind.scale
    elif isinstance(kind, pa.FixedSizeListType):
        length = kind.list_size
    elif isinstance(kind, pa.FixedSizeBinaryType):
        length = kind.byte_width
    fields = [_field(kind.field(position)) for position in range(kind.num_fields)] or None
    return JsonArrowDataType(type=_NAMES.get(text, text), length=length, fields=fields)


def _texts(metadata: dict[bytes, bytes] | None) -> dict[str, str] | None:
    if not metadata:
        return None
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in metadata.items()}
