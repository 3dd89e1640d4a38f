"""Entries that a service describes without what a Lance table needs: every scan leaves them out, with a note."""

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
    """The service describes an entry without what a Lance table needs."""

    def __init__(self, message: str, entry: OddEntry) -> None:
        super().__init__(message)
        self.entry = entry


def odd_entry(reason: str, properties: Mapping[str, str]) -> OddEntry:
    """Return an entry that is left out for ``reason``."""
    return OddEntry(reason, owner_of(properties))


def left_out(identifier: Identifier, reason: str) -> str:
    """Return the note on an object that is left out."""
    return f"`{join(identifier)}` is left out: {reason}"


def leaving_out(snapshot: Snapshot, odd: Mapping[Identifier, OddEntry]) -> Snapshot:
    """Return ``snapshot`` with the entries that it leaves out, and a note on each."""
    notes = (left_out(identifier, odd[identifier].reason) for identifier in sorted(odd))
    return replace(snapshot, notes=(*snapshot.notes, *notes), odd=odd)
