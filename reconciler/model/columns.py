"""The columns of a table, and the columns that its catalog entry shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

COMMENT = "comment"
"""The metadata key of a column's comment, which catalogs show."""

_LONGEST_COMMENT = 255

PRIMARY_KEY = "lance-schema:unenforced-primary-key"
"""The metadata key, and the beginning of other ones, that make a column part of the unenforced primary key."""

RESERVED_NAMES = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
"""The names of columns that Lance keeps for itself."""


LAYOUTS = frozenset({"packed", "lance-encoding:packed"})
"""The metadata keys that say how files hold a struct: set on data of the other layout, its values read as null."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; ``type`` is the canonical text of its Arrow type (see ``reconciler.arrow_types``).

    ``renamed_from`` is the name that it had before, in a block and in the planned state of a rename.
    """

    name: str
    type: str
    nullable: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    renamed_from: str | None = None


Schema: TypeAlias = tuple[Column, ...]


def is_readable(name: str) -> bool:
    """Return whether pylance 14 reads a dataset with a top-level column of this name, which it may have written."""
    return bool(name) and "`" not in name and name not in RESERVED_NAMES


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """One column as the entry of a table shows it; ``type`` is the catalog's own name of the type."""

    name: str
    type: str
    comment: str | None = None

    def shows(self, other: ShownColumn) -> bool:
        """Return whether both are one column to a catalog, which may change the case of names and types.

        A comment counts if ``other`` has one.
        """
        return self._plain == other._plain and other.comment in (None, self.comment)

    @property
    def text(self) -> str:
        """The type, and the comment if there is one."""
        return self.type if self.comment is None else f"{self.type} ({self.comment})"

    @property
    def _plain(self) -> tuple[str, str]:
        return self.name.casefold(), "".join(self.type.casefold().replace("`", "").split())


def comment_of(column: Column) -> str | None:
    """Return the comment that catalogs show of a column: one line of the length that Hive and Glue take."""
    line = " ".join(column.metadata.get(COMMENT, "").split())
    return line[:_LONGEST_COMMENT] if line and line.isprintable() else None


ShownColumns: TypeAlias = tuple[ShownColumn, ...]
