"""Arrow types as text in manifests, and as pyarrow types in datasets.

The text follows pyarrow's own notation with the names of the Arrow format (``float32``, ``list<int32>``,
``struct<a: int32, b: string not null>``). Every type has one canonical text, so that schemas are compared as text.
Only types that Lance returns unchanged are accepted; an error names the nearest one.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.arrow_types.conversion import (
    BLOB_KEY,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    from_arrow_schema,
    to_arrow_schema,
)
from reconciler.arrow_types.syntax import TYPE_PATTERN, TypeSyntaxError, parse_tree
from reconciler.arrow_types.tree import BLOB
from reconciler.model.columns import PRIMARY_KEY, RESERVED_NAMES, Column

__all__ = [
    "TYPE_PATTERN",
    "TypeSyntaxError",
    "check_column_name",
    "from_arrow_schema",
    "make_column",
    "parse",
    "to_arrow_schema",
]


def parse(text: str) -> str:
    """Return the canonical text of the type in ``text``.

    Raises:
        TypeSyntaxError: ``text`` is not a type that Lance stores.
    """
    return str(parse_tree(text))


def check_column_name(name: str) -> str:
    """Return ``name`` if Lance accepts it as a column's name, and can read the dataset then.

    Raises:
        TypeSyntaxError: Lance does not, or cannot.
    """
    if not name:
        raise TypeSyntaxError("a column name cannot be empty")
    if "." in name:
        raise TypeSyntaxError(f"top-level column `{name}` cannot have `.` in its name; use a struct for nested fields")
    if "\0" in name:
        raise TypeSyntaxError("a column name cannot contain NUL")
    if "`" in name:
        raise TypeSyntaxError(f"pylance cannot read a dataset with the column `{name}`; use a name without a backtick")
    if name in RESERVED_NAMES:
        raise TypeSyntaxError(f"Lance keeps the column name `{name}` for itself")
    return name


def make_column(name: str, type_text: str, nullable: bool = True, metadata: Mapping[str, str] | None = None) -> Column:
    """Return a column in canonical form, with type and metadata as Lance returns them.

    Raises:
        TypeSyntaxError: ``type_text`` is not a type, or ``metadata`` contradicts it.
    """
    own_metadata = dict(metadata or {})
    if nullable and PRIMARY_KEY in own_metadata:
        raise TypeSyntaxError(f"`{PRIMARY_KEY}`: Lance takes no column that may be null; write `nullable: false`")
    for key in (EXTENSION_NAME, EXTENSION_METADATA):
        if key in own_metadata:
            raise TypeSyntaxError(f"`{key}` is part of the type; write `extension<name, storage>` or its short name")
    text = parse(type_text)
    if text == "null" and not nullable:
        raise TypeSyntaxError("type `null`: the column must be nullable")
    if BLOB_KEY in own_metadata:
        if text not in (BLOB, "large_binary") or own_metadata.pop(BLOB_KEY) != "true":
            raise TypeSyntaxError(f"`{BLOB_KEY}` marks a column of type `blob`; write that type and leave the key out")
        text = BLOB
    return Column(name, text, nullable, dict(sorted(own_metadata.items())))
