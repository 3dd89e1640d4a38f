"""The columns of a table, and the columns that its catalog entry shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

COMMENT = "comment"
"""The metadata key of a column's comment, which catalogs show."""

_LONGEST_COMMENT = 255

PRIMARY_KEY = "lance-schema:unenforced-primary-key"
"""The metadata key, also the prefix of others, that makes a column part of the unenforced primary key."""

RESERVED_NAMES = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
"""The column names that Lance reserves."""


LAYOUTS = frozenset({"packed", "lance-encoding:packed"})
"""The metadata keys for the layout of a struct in files; changing one makes existing values read as null."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; ``type`` is the canonical text of its Arrow type (see ``reconciler.arrow_types``).

    ``renamed_from`` is the column's old name, in a block and in the planned state of a rename.
    """

    name: str
    type: str
    nullable: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    renamed_from: str | None = None


Schema: TypeAlias = tuple[Column, ...]


def with_metadata(schema: Schema, metadata_of: Callable[[Column], Mapping[str, str]]) -> Schema:
    """Return ``schema`` with other metadata on the columns that have some.

    There may be millions of columns: those without metadata are shared, not copied.
    """
    if not any(column.metadata for column in schema):
        return schema
    return tuple(replace(column, metadata=metadata_of(column)) if column.metadata else column for column in schema)


def is_readable(name: str) -> bool:
    """Return whether pylance 14 can read a dataset with a top-level column of this name; it writes more names."""
    return bool(name) and "`" not in name and name not in RESERVED_NAMES


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """One column as the entry of a table shows it; ``type`` is the catalog's own name for the type."""

    name: str
    type: str
    comment: str | None = None

    def shows(self, other: ShownColumn) -> bool:
        """Return whether this live column is ``other`` as a catalog stores it.

        Catalogs may change the case of names and types. A comment is compared only if ``other`` has one.
        """
        return self._folded == other._folded and other.comment in (None, self.comment)

    @property
    def text(self) -> str:
        """The type, and the comment if there is one."""
        return self.type if self.comment is None else f"{self.type} ({self.comment})"

    @property
    def _folded(self) -> tuple[str, str]:
        """The name and type without case, backticks and spaces."""
        return self.name.casefold(), "".join(self.type.casefold().replace("`", "").split())


def comment_of(column: Column) -> str | None:
    """Return the comment that catalogs show for a column: one line, cut to the length that Hive and Glue accept."""
    line = " ".join(column.metadata.get(COMMENT, "").split())
    return line[:_LONGEST_COMMENT] if line and line.isprintable() else None


ShownColumns: TypeAlias = tuple[ShownColumn, ...]
