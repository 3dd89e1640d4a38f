"""Plan on an assumed state of catalogs and storage, as a test of a manifest describes it; nothing is asked.

What the description leaves out is as the manifest wants it, so that a test says only what it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from reconciler.model import locations, ownership
from reconciler.model.clones import CloneBase
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable, Thresholds
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot, Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.tags import FoundTags
from reconciler.planner.catalog import plan_catalog
from reconciler.planner.facts import (
    Answers,
    CatalogInput,
    LiveTables,
    Questions,
    StorageQuestion,
    TableFacts,
    open_table,
)
from reconciler.planner.mirrors import waves
from reconciler.planner.moves import moves_of, pairs
from reconciler.planner.plan import ManifestRef, Plan
from reconciler.planner.planning import Planning

_NOTHING = Storage(StorageKind.NOTHING)


@dataclass(frozen=True, slots=True)
class AssumedObject:
    """A namespace, or a table's entry with its data; None leaves a value to the block.

    ``managed``: by the manifest that is planned, whatever ``owner`` is.
    """

    catalog: str
    identifier: Identifier
    location: str | None = None
    owner: str | None = None
    managed: bool = False
    mirror: str | None = None
    clone: str | None = None
    protect: bool | None = None
    properties: Mapping[str, str] | None = None
    schema: Schema | None = None
    data: bool = True


@dataclass(frozen=True, slots=True)
class AssumedCatalog:
    """A catalog's input without its live state, and that state.

    ``data`` is data without an entry. ``root`` is the directory of tables without a location, if there is one.
    """

    source: CatalogInput
    root: str | None = None
    tables: Sequence[AssumedObject] = ()
    namespaces: Sequence[AssumedObject] = ()
    data: Sequence[AssumedObject] = ()

    def default_location(self, table: Identifier, namespaces: Mapping[Identifier, LiveNamespace]) -> str | None:
        """Return the location of a table without one: below that of its namespace or below the root."""
        parent = table[:-1]
        block = self.source.desired.namespaces.get(parent)
        live = namespaces.get(parent)
        properties = {**(live.properties if live else {}), **(block.properties if block else {})}
        for key in sorted(self.source.capabilities.namespace_places & properties.keys()):
            return locations.join(properties[key], table[-1])
        return None if self.root is None else locations.join(self.root, *parent, f"{table[-1]}.lance")

    def snapshot(self, desired: DesiredCatalog) -> Snapshot:
        """Return the live state; ``desired`` has the blocks and the mirrored tables."""
        able, moves = self.source.capabilities, moves_of(desired)
        spaces = {assumed.identifier: assumed for assumed in self.namespaces}
        for below in (*self.tables, *self.namespaces):
            for depth in range(1, len(below.identifier)):
                above = AssumedObject(below.catalog, below.identifier[:depth], owner=below.owner, managed=below.managed)
                spaces.setdefault(above.identifier, above)
        parents = {name[:-1] for name in spaces}
        namespaces: dict[Identifier, LiveNamespace] = {}
        for name, assumed in sorted(spaces.items()):
            block = desired.namespaces.get(moves.namespace_target_of(name) or name)
            is_marked = able.namespace_markers and len(name) > able.fixed_levels
            kind = block.kind if block else None
            if able.namespace_kinds and kind is None:
                kind = able.namespace_kinds[0 if name in parents else 1]
            namespaces[name] = LiveNamespace(name, _properties(desired, assumed, block, is_marked=is_marked), kind)
        tables: dict[Identifier, LiveTable] = {}
        for assumed in self.tables:
            name = assumed.identifier
            table_block = desired.tables.get(moves.target_of(name) or name)
            location = assumed.location or (table_block.location if table_block else None)
            location = location or self.default_location(name, namespaces) or "/".join((desired.name, *name))
            properties = _properties(desired, assumed, table_block, is_marked=able.table_markers)
            if able.safeguard is not None:
                properties = {**able.safeguard.applied_to(properties), **properties}
            tables[name] = LiveTable(name, location, properties)
        return Snapshot(namespaces, tables)


def _properties(
    desired: DesiredCatalog, assumed: AssumedObject, block: DesiredNamespace | DesiredTable | None, *, is_marked: bool
) -> dict[str, str]:
    """Return the properties of an object, with the marks that lancens would have left."""
    owner = desired.owner if assumed.managed else assumed.owner
    properties = dict(block.properties if block and assumed.properties is None else assumed.properties or {})
    if owner is None or not is_marked:
        return properties
    secret = block.secret_keys if block else ()
    protect = block.protect if block and assumed.protect is None else assumed.protect
    marks = {
        **ownership.owner_marks(owner, None),
        ownership.KEYS: ownership.encode_keys(properties, secret) if properties else None,
        ownership.MIRROR: assumed.mirror,
        ownership.CLONE: assumed.clone,
        ownership.DATA: "true" if isinstance(block, DesiredTable) and assumed.data else None,
        ownership.PROTECT: "true" if protect else None,
    }
    return {**{key: value for key, value in marks.items() if value is not None}, **properties}


def plan_assumed(
    catalogs: Mapping[str, AssumedCatalog], manifest: ManifestRef, thresholds: Thresholds
) -> tuple[Plan, list[tuple[CatalogInput, LiveTables]]]:
    """Return the plan of the assumed catalogs, and these as the planner sees them."""
    planning = Planning()
    planned: list[tuple[CatalogInput, LiveTables]] = []
    data: dict[str, Schema | None] = {}
    """The columns of the data at each place; None if they are those of the block."""
    for name in chain.from_iterable(waves({name: catalog.source.desired for name, catalog in catalogs.items()})):
        catalog = catalogs[name]
        source = planning.with_planned_data(planning.with_mirror(catalog.source))
        source = replace(source, live=catalog.snapshot(source.desired))
        live = source.live.tables
        for assumed in (*catalog.data, *(table for table in catalog.tables if table.data)):
            entry = live.get(assumed.identifier)
            location = assumed.location or (entry.location if entry else None)
            location = location or catalog.default_location(assumed.identifier, source.live.namespaces)
            data[locations.place(location or "")] = assumed.schema
        answers = Answers(dict(_answers(catalogs, catalog, source, data)))
        planning.add(source, plan_catalog(source, answers))
        planned.append((source, LiveTables(live)))
    return planning.plan(manifest, thresholds), planned


def _answers(
    catalogs: Mapping[str, AssumedCatalog],
    catalog: AssumedCatalog,
    source: CatalogInput,
    data: Mapping[str, Schema | None],
) -> Iterator[tuple[Identifier, TableFacts]]:
    """Yield what storage holds for each table in question."""
    live, select = source.live, source.options.select
    opened = (open_table(pair, select) for pair in pairs(moves_of(source.desired), source.desired.tables, live.tables))
    planned_data = source.mirrored.planned_data if source.mirrored else {}
    for question in Questions.about([table for table in opened if table is not None]).storage:
        table = question.table
        location = question.location or catalog.default_location(table.id, live.namespaces)
        storage = planned_data.get(table.id) or _stored(question, location, data, source)
        tags = FoundTags(table.tags if question.live else {}) if table.tags or question.recorded_tags else None
        facts, clone = TableFacts(location, storage, tags=tags), table.clones
        if clone is not None and clone.location is not None:
            origin = catalogs[clone.origin.catalog].source.desired.tables.get(clone.origin.identifier)
            columns = data.get(locations.place(clone.location)) or (origin.schema if origin else None) or table.schema
            base = CloneBase(clone.location, clone.at.version or 1, "", clone.at.tag, columns=columns)
            facts = replace(facts, base=None if question.live else base, clone=base if question.live else None)
        yield table.id, facts


def _stored(
    question: StorageQuestion, location: str | None, data: Mapping[str, Schema | None], source: CatalogInput
) -> Storage:
    if location is None or not question.table.probe:
        return _NOTHING if source.capabilities.places_tables else Storage(StorageKind.UNKNOWN)
    place = locations.place(location)
    return Storage(StorageKind.DATASET, data[place] or question.table.schema) if place in data else _NOTHING
