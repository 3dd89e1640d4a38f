"""The sentences under a plan: what was left alone, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.model.names import Identifier
from reconciler.model.reasons import NoteCode
from reconciler.planner.entries import Note
from reconciler.planner.facts import CatalogInput
from reconciler.planner.outcome import Tally
from reconciler.planner.remarks import SENTENCES

_NAMESPACES_NAMED = 5


def notes_on(source: CatalogInput, remarks: Mapping[tuple[NoteCode, Identifier], Tally]) -> Iterator[Note]:
    """Yield the notes of a scan, one for each topic and namespace of ``remarks``, and what cannot be promised.

    A topic of many namespaces is one note.
    """
    catalog, owner = source.desired.name, source.desired.owner.partition("/")[0]
    for message in source.live.notes:
        yield Note(catalog=catalog, code=NoteCode.SCAN, message=message)
    safeguard = source.capabilities.safeguard
    guarded = {}
    if safeguard is not None:
        guarded = {"safeguard": f"{safeguard.key}={safeguard.value}", "danger": safeguard.danger}
        guarded["hazard"] = f"{safeguard.hazard}=true"
    for topic, where, tally in _counted(catalog, remarks):
        one, several = SENTENCES[topic]
        about = {
            "where": where,
            "count": f"{tally.count:,}",
            "name": tally.first.identifier[-1],
            "detail": tally.first.detail,
            "owner": owner,
            "catalog": catalog,
        }
        filled = (one if tally.count == 1 else several).format(**about, **guarded)
        yield Note(catalog=catalog, code=topic, message=filled)
    protected = sum(1 for table in source.desired.tables.values() if table.protect)
    if protected and not source.capabilities.table_markers:
        message = (
            f"`protect` holds only while it is written for {protected} of the tables: this catalog keeps no marks."
        )
        yield Note(catalog=catalog, code=NoteCode.UNPROTECTABLE, message=message)


def _counted(
    catalog: str, remarks: Mapping[tuple[NoteCode, Identifier], Tally]
) -> Iterator[tuple[NoteCode, str, Tally]]:
    """Yield each topic, where something is to be said of it, and of how many objects."""
    for topic in sorted({topic for topic, _ in remarks}):
        found = sorted(key for key in remarks if key[0] == topic)
        if len(found) > _NAMESPACES_NAMED:
            total = sum(remarks[key].count for key in found)
            yield topic, f"{len(found):,} namespaces of {catalog}", replace(remarks[found[0]], count=total)
            continue
        for key in found:
            yield topic, "/".join((catalog, *key[1])), remarks[key]
