"""The sentences under a plan: what was left alone, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from reconciler.planner.facts import CatalogInput
from reconciler.planner.outcome import Remark
from reconciler.planner.plan import Note
from reconciler.planner.remarks import SENTENCES

__all__ = ["notes_on"]

_UNKEPT = "`protect` holds only while it is written for {count} of the {what}: this catalog keeps no marks."


def notes_on(source: CatalogInput, remarks: Iterable[Remark]) -> Iterator[Note]:
    """Yield the notes of a scan, one for each topic and namespace of ``remarks``, and what cannot be promised."""
    catalog, owner = source.desired.name, source.desired.owner.partition("/")[0]
    for message in source.live.notes:
        yield Note(catalog=catalog, message=message)
    counts = Counter((remark.topic, remark.identifier[:-1]) for remark in remarks)
    for (topic, parent), count in sorted(counts.items()):
        one, several = SENTENCES[topic]
        where = "/".join((catalog, *parent))
        sentence = one if count == 1 else several
        yield Note(catalog=catalog, message=sentence.format(where=where, count=count, owner=owner, catalog=catalog))
    protected = sum(1 for table in source.desired.tables.values() if table.protect)
    if protected and not source.capabilities.table_markers:
        message = (
            f"`protect` holds only while it is written for {protected} of the tables: this catalog keeps no marks."
        )
        yield Note(catalog=catalog, message=message)
