"""Leave invalid entries of Lance tables out of scans, with a note on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.model.errors import NotLanceTableError
from reconciler.model.live import OddEntry, Snapshot
from reconciler.model.names import Identifier, join
from reconciler.model.ownership import owner_of

NO_LOCATION = "marked as a Lance table, but has no location"
NOT_FOUND = "a table that the service lists and does not find"


class OddEntryError(NotLanceTableError):
    """An entry is marked as a Lance table but lacks, for example, a location."""

    def __init__(self, message: str, entry: OddEntry) -> None:
        super().__init__(message)
        self.entry = entry


def odd_entry(reason: str, properties: Mapping[str, str]) -> OddEntry:
    """Return an invalid entry: the ``reason``, and the owner in its properties."""
    return OddEntry(reason, owner_of(properties))


def left_out_note(identifier: Identifier, reason: str) -> str:
    """Return the note on an object that a scan leaves out for ``reason``."""
    return f"`{join(identifier)}` is left out: {reason}"


def with_odd_entries(snapshot: Snapshot, odd: Mapping[Identifier, OddEntry]) -> Snapshot:
    """Return ``snapshot`` with the invalid entries ``odd``, and a note on each."""
    notes = (left_out_note(identifier, odd[identifier].reason) for identifier in sorted(odd))
    return replace(snapshot, notes=(*snapshot.notes, *notes), odd=odd)
