"""Convert columns between Unity's form and Lance's.

``type_json`` of a column has Spark's field. If Unity has no type equal to the dataset's, the field's metadata has the
exact one under :data:`ARROW_TYPE`, so that reading the columns returns the schema that was written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.arrow_types.tree import ArrowType, ForeignType
from reconciler.backends.spark_types import SparkType, from_json, from_name, parse_arrow_type, to_spark
from reconciler.model.columns import Column, Schema, ShownColumn, ShownColumns

ARROW_TYPE = "lancens.arrow-type"
_COMMENT = "comment"


def to_columns(schema: Schema) -> list[dict[str, Any]]:
    """Return the ``columns`` of a CreateTable request."""
    return [_column(field, position) for position, field in enumerate(schema)]


def schema_of(columns: Iterable[Mapping[str, Any]]) -> Schema:
    """Return the schema for Unity's ``columns``, in the order of their positions.

    Columns of other writers get the nearest Arrow type.
    """
    return tuple(map(_field, sorted(columns, key=_position)))


def shown_columns(columns: Iterable[Mapping[str, Any]]) -> ShownColumns:
    """Return the names, Unity's types and comments of an entry's columns."""
    return tuple(
        ShownColumn(
            str(column.get("name", "")),
            f"{column.get('type_text', '')}{'' if column.get('nullable', True) else ' not null'}",
            column.get("comment"),
        )
        for column in sorted(columns, key=_position)
    )


def nearest_types(schemas: Iterable[Schema]) -> Sequence[str]:
    """Return a sentence for each Arrow type that Unity has no equal of."""
    counts: Counter[tuple[str, str]] = Counter()
    for schema in schemas:
        for field in schema:
            kind = parse_arrow_type(field.type)
            if not _is_exact(kind):
                counts[field.type, to_spark(kind).text] += 1
    return [
        f"{count} {'column' if count == 1 else 'columns'} of type {kind}: Unity shows {shown}, the nearest type "
        "it has; the data keeps its own"
        for (kind, shown), count in sorted(counts.items())
    ]


def _is_exact(kind: ArrowType) -> bool:
    return from_json(to_spark(kind).json) == kind


def _column(field: Column, position: int) -> dict[str, Any]:
    kind = parse_arrow_type(field.type)
    shown = to_spark(kind)
    metadata = dict(field.metadata)
    if not _is_exact(kind) and not isinstance(kind, ForeignType):
        metadata[ARROW_TYPE] = field.type
    spark_field = {"name": field.name, "type": shown.json, "nullable": field.nullable, "metadata": metadata}
    column = {
        "name": field.name,
        "type_text": shown.text,
        "type_json": json.dumps(spark_field, ensure_ascii=False, separators=(",", ":")),
        "type_name": shown.name,
        "position": position,
        "nullable": field.nullable,
        **_details(shown),
    }
    if _COMMENT in metadata:
        column["comment"] = metadata[_COMMENT]
    return column


def _details(shown: SparkType) -> dict[str, Any]:
    details = {"type_precision": shown.precision, "type_scale": shown.scale, "type_interval_type": shown.interval}
    return {key: value for key, value in details.items() if value is not None}


def _position(column: Mapping[str, Any]) -> int:
    position = column.get("position")
    return position if isinstance(position, int) else 0


def _field(column: Mapping[str, Any]) -> Column:
    spark_field = _spark_field(column.get("type_json"))
    written = spark_field.get("metadata") or {}
    metadata = {key: text for key, text in written.items() if isinstance(text, str)}
    exact = metadata.pop(ARROW_TYPE, "")
    if isinstance(column.get("comment"), str):
        metadata[_COMMENT] = column["comment"]
    nullable = column.get("nullable", spark_field.get("nullable"))
    return Column(
        str(column.get("name", "")),
        _type_of(column, spark_field, exact),
        nullable is not False,
        dict(sorted(metadata.items())),
    )


def _type_of(column: Mapping[str, Any], spark_field: Mapping[str, Any], exact: str) -> str:
    """Return the recorded Arrow type if it still fits Unity's, else the nearest one."""
    try:
        recorded = parse_arrow_type(exact)
        if not isinstance(recorded, ForeignType) and to_spark(recorded).json == spark_field.get("type"):
            return str(recorded)
        nearest = str(from_json(spark_field["type"]) if "type" in spark_field else _type_by_name(column))
        return "string" if isinstance(parse_arrow_type(nearest), ForeignType) else nearest
    except RecursionError:  # nested deeper than any type that can be worked with
        return "string"


def _spark_field(type_json: object) -> Mapping[str, Any]:
    """Return the field of a ``type_json``, which may hold only its type."""
    try:
        value = json.loads(type_json) if isinstance(type_json, str) else None
    except (ValueError, RecursionError):
        value = type_json
    if isinstance(value, Mapping) and "name" in value and "type" in value:
        metadata = value.get("metadata")
        return {**value, "metadata": metadata if isinstance(metadata, Mapping) else None}
    return {} if value is None else {"type": value}


def _type_by_name(column: Mapping[str, Any]) -> ArrowType:
    precision, scale = column.get("type_precision"), column.get("type_scale")
    return from_name(
        str(column.get("type_name", "")),
        precision if isinstance(precision, int) else None,
        scale if isinstance(scale, int) else None,
    )
