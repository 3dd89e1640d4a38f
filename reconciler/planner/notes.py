"""The sentences under a plan: what was left alone, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.names import Identifier
from reconciler.planner.entries import Note
from reconciler.planner.facts import CatalogInput
from reconciler.planner.remarks import SENTENCES

__all__ = ["notes_on"]


def notes_on(source: CatalogInput, remarks: Mapping[tuple[str, Identifier], int]) -> Iterator[Note]:
    """Yield the notes of a scan, one for each topic and namespace of ``remarks``, and what cannot be promised."""
    catalog, owner = source.desired.name, source.desired.owner.partition("/")[0]
    for message in source.live.notes:
        yield Note(catalog=catalog, message=message)
    safeguard = source.capabilities.safeguard
    guarded = {"safeguard": f"{safeguard.key}={safeguard.value}", "danger": safeguard.danger} if safeguard else {}
    for (topic, parent), count in sorted(remarks.items()):
        one, several = SENTENCES[topic]
        where = "/".join((catalog, *parent))
        sentence = one if count == 1 else several
        filled = sentence.format(where=where, count=count, owner=owner, catalog=catalog, **guarded)
        yield Note(catalog=catalog, message=filled)
    protected = sum(1 for table in source.desired.tables.values() if table.protect)
    if protected and not source.capabilities.table_markers:
        message = (
            f"`protect` holds only while it is written for {protected} of the tables: this catalog keeps no marks."
        )
        yield Note(catalog=catalog, message=message)
