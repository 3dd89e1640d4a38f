"""What an audit knows of one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.capabilities import Safeguard
from reconciler.model.columns import Schema
from reconciler.model.desired import NOTHING_EXPECTED, DesiredTable, Expectations
from reconciler.model.live import ForeignTable, LiveTable, StorageKind
from reconciler.model.names import Identifier, address
from reconciler.model.ownership import owner_of
from reconciler.planner.facts import EntryColumns
from reconciler.storage import Files, Index

OWNER = "owner"
"""The property that says who answers for a table, or for those in a namespace."""


class Severity(Enum):
    """How much a finding matters: data at risk or unusable, likely a mistake, worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Depth(Enum):
    """How closely each dataset is looked at: its latest manifest, or that and one listing of its files."""

    QUICK = "quick"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class Stored:
    """What storage holds at a location, and how much of it.

    ``bytes`` counts the data files of the latest version; ``committed`` is when that was written, in UTC. All but
    ``kind`` are None where no dataset could be opened; ``detail`` then says why. ``reserved``: the place is marked as a
    declared table's, without data yet. ``unversioned``: files of data are there, and no version of a dataset. ``files``
    is None where they were not listed, ``cleanup`` where the dataset does not clean itself up.
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
    small_fragments: int | None = None
    indices: tuple[Index, ...] | None = None
    unversioned: bool = False
    files: Files | None = None
    cleanup: AutoCleanup | None = None


NOT_LOOKED_AT = Stored(StorageKind.UNKNOWN)
"""Of a table that has no place yet."""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """Everything an audit knows of one table, or of a dataset that no table points at.

    Args:
        catalog: its name in the manifest.
        id: the identifier; of an orphan, the path below its root.
        owner: the manifest's marker for this catalog (``<manifest name>/<catalog>``).
        expect: what the manifest expects of its data.
        team: who answers for the namespace the table is in, as the nearest one's property ``owner`` says.
        location: where it is; None for a table that is only in the manifest and has no place yet.
        root: the root of the catalog, where it has one.
        place: the location normalised, wherever symbolic links lead.
        desired: the manifest's block.
        live: the catalog's entry.
        foreign: the catalog's entry, where it is not marked as a Lance table.
        stored: what storage holds.
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
    stored: Stored = NOT_LOOKED_AT
    sharing: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    safeguard: Safeguard | None = None
    shown: EntryColumns | str | None = None
    place: str | None = None
    team: str | None = None
    expect: Expectations = NOTHING_EXPECTED

    @property
    def address(self) -> str:
        """Return what a person calls the table."""
        return address(self.catalog, self.id)

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the live properties; none where there is no entry."""
        return self.live.properties if self.live else {}

    @property
    def responsible(self) -> str | None:
        """Return who answers for the table, as its property ``owner`` says, or its block's, or the namespace's."""
        wanted = self.desired.properties if self.desired is not None else {}
        return self.properties.get(OWNER) or wanted.get(OWNER) or self.team

    @property
    def manager(self) -> str | None:
        """Return the manifest that manages the table, or would if it were there; None when nobody does."""
        if self.live is None and self.desired is not None:
            return self.owner
        return owner_of(self.properties)
