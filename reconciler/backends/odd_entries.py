"""Entries that a service describes without what a Lance table needs: every scan leaves them out, with a note."""

from __future__ import annotations

from reconciler.model.names import Identifier, join

NO_LOCATION = "marked as a Lance table, but has no location"
NOT_FOUND = "a table that the service lists and does not find"


def left_out(identifier: Identifier, reason: str) -> str:
    """Return the note on an entry that is left out."""
    return f"`{join(identifier)}` is left out: {reason}"
