"""The sentences under a plan: what was left alone, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.model.names import Identifier
from reconciler.model.reasons import NoteCode, Params
from reconciler.planner.entries import Note
from reconciler.planner.facts import CatalogInput
from reconciler.planner.outcome import Tally

_NAMESPACES_NAMED = 5


def notes_on(source: CatalogInput, remarks: Mapping[tuple[NoteCode, Identifier], Tally]) -> Iterator[Note]:
    """Yield the notes of a scan, one for each topic and namespace of ``remarks``, and what cannot be promised.

    A topic of many namespaces is one note.
    """
    catalog, owner = source.desired.name, source.desired.owner.partition("/")[0]
    for said in source.live.notes:
        yield Note(catalog=catalog, code=NoteCode.SCAN, params={"detail": said})
    safeguard = source.capabilities.safeguard
    guards: dict[NoteCode, Params] = {}
    if safeguard is not None:
        unsafe: Params = {"key": safeguard.key, "value": safeguard.value, "detail": safeguard.danger}
        hazardous: Params = {"key": safeguard.hazard or "", "detail": safeguard.danger}
        guards = {NoteCode.UNSAFE: unsafe, NoteCode.HAZARDOUS: hazardous}
    for topic, where, tally in _counted(catalog, remarks):
        about: Params = {"where": where, "count": tally.count, "name": tally.first.identifier[-1]}
        if topic is NoteCode.UNMANAGED:
            about |= {"owner": owner, "catalog": catalog}
        yield Note(catalog=catalog, code=topic, params={**about, **guards.get(topic, {}), **tally.first.params})
    protected = sum(1 for table in source.desired.tables.values() if table.protect)
    if protected and not source.capabilities.table_markers:
        yield Note(catalog=catalog, code=NoteCode.UNPROTECTABLE_TABLES, params={"count": protected})


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
