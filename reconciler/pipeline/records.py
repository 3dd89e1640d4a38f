"""What an audit knows of one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from reconciler.names import Identifier, address
from reconciler.ownership import owner_of
from reconciler.planner.facts import EntryColumns
from reconciler.state import DesiredTable, ForeignTable, LiveTable, Safeguard, Schema, StorageKind

__all__ = ["EntryColumns", "ForeignTable", "Severity", "Stored", "TableRecord"]


class Severity(Enum):
    """How much a finding matters: data at risk or unusable, likely a mistake, worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Stored:
    """What storage holds at a location, and how much of it.

    ``bytes`` counts the data files of the latest version; ``committed`` is when that was written, in UTC. All but
    ``kind`` are None where no dataset could be opened; ``detail`` then says why. ``reserved``: the place is marked as a
    declared table's, without data yet.
    """

    kind: StorageKind
    detail: str = ""
    reserved: bool = False
    version: int | None = None
    rows: int | None = None
    bytes: int | None = None
    fragments: int | None = None
    schema: Schema | None = None
    committed: datetime | None = None


@dataclass(frozen=True, slots=True)
class TableRecord:
    """Everything an audit knows of one table, or of a dataset that no table points at.

    Args:
        catalog: its name in the manifest.
        id: the identifier; of an orphan, the path below its root.
        owner: the manifest's marker for this catalog (``<manifest name>/<catalog>``).
        location: where it is; None for a table that is only in the manifest and has no place yet.
        root: the root of the catalog, where it has one.
        desired: the manifest's block.
        live: the catalog's entry.
        foreign: the catalog's entry, where it is not marked as a Lance table.
        stored: what storage holds; None when it was not looked at.
        sharing: addresses of other tables at the same location, in order; of very many, the first few.
        schemes: the schemes with which tables at the same location are registered, its own included, in order.
        inside: addresses of tables whose location this one's lies below, in order; of very many, the first few.
        safeguard: the property without which the catalog's tables are not safe.
        shown: the columns that the entry shows where they are not the data's, or why they could not be read.
    """

    catalog: str
    id: Identifier
    owner: str
    location: str | None = None
    root: str | None = None
    desired: DesiredTable | None = None
    live: LiveTable | None = None
    foreign: ForeignTable | None = None
    stored: Stored | None = None
    sharing: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    safeguard: Safeguard | None = None
    shown: EntryColumns | str | None = None

    @property
    def address(self) -> str:
        """Return what a person calls the table."""
        return address(self.catalog, self.id)

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the live properties; none where there is no entry."""
        return self.live.properties if self.live else {}

    @property
    def manager(self) -> str | None:
        """Return the manifest that manages the table, or would if it were there; None when nobody does."""
        if self.live is None and self.desired is not None:
            return self.owner
        return owner_of(self.properties)
