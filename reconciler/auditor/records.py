"""What an audit knows of one table: its record, which the rules check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Literal, TypeAlias

from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.capabilities import Safeguard
from reconciler.model.columns import Schema
from reconciler.model.desired import NOTHING_EXPECTED, CloneAt, DesiredTable, Expectations
from reconciler.model.live import ForeignTable, LiveTable, StorageKind
from reconciler.model.names import Identifier, address
from reconciler.model.ownership import owner_of
from reconciler.planner.facts import EntryColumns
from reconciler.storage import NO_DEFECTS, Defects, Files, Index, Recovery, TaggedBase

OWNER = "owner"
"""The property with the owner of a table, or of the tables in a namespace."""

FEW_TABLES = 5_000
"""Up to this number of tables, one process has checked them before Spark has started (`benchmarks/small.py`)."""

ROUNDS = 30
"""How many audits with ``--since-last`` it takes to probe every dataset, changed or not."""


class Severity(Enum):
    """The severity of a finding: data at risk (error), a probable mistake (warning), or worth knowing (note)."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


FailOn: TypeAlias = Literal["error", "warning", "note", "never"]
"""The lowest severity whose findings fail an audit."""


@dataclass(frozen=True, slots=True)
class LocationContent:
    """The content of a location in storage.

    The figures are of the latest version, and None if no dataset could be opened.

    Args:
        kind: whether a dataset is there.
        detail: why no dataset could be opened.
        reserved: whether the place is marked for a declared table without data yet.
        version: the latest version.
        rows: the number of rows.
        bytes: the size of the data files.
        fragments: the number of fragments.
        schema: the columns.
        committed: the time of the commit, in UTC.
        small_fragments: the number of small fragments; None if it is unknown.
        indices: the indices.
        defects: what its manifest contradicts itself in.
        unversioned: whether there are data files without any version of a dataset.
        files: the listed files; None if they were not listed.
        recovery: of a dataset that cannot be opened, what can still be read.
        cleanup: the dataset's auto clean-up, if it has one.
        bases: the places outside its directory that it refers to, such as the dataset that it is a clone of.
        base: of a clone, the version that it was made of, with the tags there.
        state: the latest version as ``storage.latest_state`` names it, if audits are kept.
        carried_from: the start of the earlier audit whose result this is; None if this audit has probed it.
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
    defects: Defects = NO_DEFECTS
    unversioned: bool = False
    files: Files | None = None
    recovery: Recovery | None = None
    cleanup: AutoCleanup | None = None
    bases: tuple[str, ...] = ()
    base: TaggedBase | None = None
    state: str | None = None
    carried_from: datetime | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether it is a dataset, and nothing of it is known to be lost."""
        return self.kind is StorageKind.DATASET and (self.files is None or self.files.is_whole)


NOT_PROBED = LocationContent(StorageKind.UNKNOWN)
"""The content where the table has no location yet."""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """What an audit knows of one table, or of an unregistered dataset.

    Args:
        catalog: the catalog's name in the manifest.
        id: the identifier; of an orphan, the path below its root.
        owner: the manifest's marker for this catalog (``<manifest name>/<catalog>``).
        expect: the expectations of the manifest.
        team: the owner of the innermost namespace around the table that names one.
        location: the location; None for a table that is only in the manifest and has none yet.
        root: the root of the catalog, if it has one.
        place: the location, normalised and with symbolic links resolved.
        desired: the manifest's block.
        live: the catalog's entry.
        foreign: the catalog's entry, if it is not marked as a Lance table.
        stored: the content of the location.
        sharing: addresses of other tables at the same location, in order, at most a few.
        schemes: the schemes of all tables at the same location, in order.
        inside: addresses of tables whose location is above this one's, in order, at most a few.
        safeguard: the property that protects the catalog's tables from deletion of their data.
        entry_columns: the columns of the entry if they differ from the data's, or the error of reading them.
        tags: the targets of those tags of the data that the block names or the entry lists; None if they were not read.
        clone_at: of a clone, the version that the manifest asks for.
        lists_tags: whether the entries of the catalog can list the tags that lancens sets.
    """

    catalog: str
    id: Identifier
    owner: str
    location: str | None = None
    root: str | None = None
    desired: DesiredTable | None = None
    live: LiveTable | None = None
    foreign: ForeignTable | None = None
    stored: LocationContent = NOT_PROBED
    sharing: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    safeguard: Safeguard | None = None
    entry_columns: EntryColumns | str | None = None
    tags: Mapping[str, str] | None = None
    clone_at: CloneAt | None = None
    lists_tags: bool = True
    place: str | None = None
    team: str | None = None
    expect: Expectations = NOTHING_EXPECTED

    @property
    def address(self) -> str:
        """Return the address that people use for the table."""
        return address(self.catalog, self.id)

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the live properties; none without an entry."""
        return self.live.properties if self.live else {}

    @property
    def responsible(self) -> str | None:
        """Return the property ``owner`` of the table, of its block or of its namespace."""
        properties = self.desired.properties if self.desired is not None else {}
        return self.properties.get(OWNER) or properties.get(OWNER) or self.team

    @property
    def manager(self) -> str | None:
        """Return the manifest that manages the table, or will once it exists."""
        if self.live is None and self.desired is not None:
            return self.owner
        return owner_of(self.properties)
