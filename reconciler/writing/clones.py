"""Decide which imported tables are written as clones of tables of another catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.model import ownership
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier
from reconciler.planner.mirrors import with_sources
from reconciler.writing.export import scalar


@dataclass(frozen=True, slots=True)
class ImportedClones:
    """The clones of one catalog: the values of ``clone`` in their blocks, or comments, by table."""

    blocks: dict[Identifier, str] = field(default_factory=dict)
    comments: dict[Identifier, str] = field(default_factory=dict)


def find_clones(
    catalogs: Mapping[str, Iterable[LiveTable]],
    sources: Mapping[str, Iterable[str]],
    written: Callable[[str, Identifier], str | None],
) -> Mapping[str, ImportedClones]:
    """Return the clones among the tables of each catalog.

    A clone gets a comment if the manifest lacks its source, and if catalogs would clone tables of each other.

    Args:
        catalogs: the tables to write, by catalog.
        sources: the catalogs that each catalog of the manifest follows already.
        written: returns the address of a table as the manifest writes it; None if it has no such table.
    """
    needed = {name: set(sources.get(name, ())) for name in {*sources, *catalogs}}
    clones: dict[str, ImportedClones] = {}
    for name, tables in sorted(catalogs.items()):
        imported = clones[name] = ImportedClones()
        for table in tables:
            mark = ownership.clone_of(table.properties)
            catalog, *path = ownership.origin_of_clone(mark).split("/")
            version, of = ownership.version_of_clone(mark), written(catalog, tuple(path)) if path else None
            if version and of is not None and name not in with_sources(needed, [catalog]):
                needed[name].add(catalog)
                pin = ", pin: true" if ownership.is_pinned(mark) else ""
                imported.blocks[table.id] = f"{{of: {scalar(of)}, at: {{version: {version}}}{pin}}}"
            elif mark is not None:
                imported.comments[table.id] = f"a clone of {mark}, which this manifest cannot name"
    return clones
