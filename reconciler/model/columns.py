"""The columns of a table, and the columns that its catalog entry shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; ``type`` is the canonical text of its Arrow type."""

    name: str
    type: str
    nullable: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


Schema: TypeAlias = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """One column as the entry of a table shows it; ``type`` is the catalog's own name of the type."""

    name: str
    type: str
    comment: str | None = None

    def shows(self, other: ShownColumn) -> bool:
        """Return whether both are one column to a catalog, which may change the case of names and types."""
        return self._plain == other._plain

    @property
    def _plain(self) -> tuple[str, str]:
        return self.name.casefold(), "".join(self.type.casefold().replace("`", "").split())


ShownColumns: TypeAlias = tuple[ShownColumn, ...]
