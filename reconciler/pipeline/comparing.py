"""Read tables and compare them with their blocks, on the executors.

A task reads its unit, pairs the tables with the blocks that came with it, and compares them at once. It hands back the
tables that need an answer from storage or from the catalog: these are spread evenly over further tasks, since one unit
may have all of them. It also hands back what only the driver can pair: moved tables, and namespaces that were not
listed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, TypeAlias

from reconciler import storage
from reconciler.model import locations
from reconciler.model.collector import collector_paused
from reconciler.model.desired import DesiredTable
from reconciler.model.errors import CatalogError
from reconciler.model.live import LiveNamespace, LiveTable, OddEntry, Snapshot, Storage
from reconciler.model.names import Identifier, Scope, folded, selecting
from reconciler.operations.connections import CatalogSpec
from reconciler.operations.driver import ReadCatalog
from reconciler.operations.facts import answers_to, links_to
from reconciler.operations.probes import Probes
from reconciler.pipeline.reading import readings_of
from reconciler.pipeline.schemas import chunks
from reconciler.pipeline.tasks import packed, unpacked
from reconciler.pipeline.units import Listing, Unit, units_in
from reconciler.planner.comparison import TableComparison
from reconciler.planner.conflicts import hiding_changes
from reconciler.planner.entries import Action, Change
from reconciler.planner.facts import Facts
from reconciler.planner.moves import NO_MOVES, TablePair, pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.sharing import changes_columns, changes_tags

if TYPE_CHECKING:
    from reconciler.backends.base import Backend


_OPEN_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class OpenTables:
    """Some tables whose comparison needs answers from storage or the catalog.

    ``load`` has the packed tables: the driver passes them on without reading them.
    """

    count: int
    load: bytes


# ---- reading and comparing -------------------------------------------------------------------------------------------


def units_with_blocks(
    listing: Listing, size: int, tables: Mapping[Identifier, DesiredTable]
) -> tuple[list[Unit], dict[Identifier, DesiredTable]]:
    """Return the units of one catalog with their blocks, and other blocks.

    Those are the blocks in namespaces that were not listed. The units travel as data, so their ``spec`` holds only the
    name and the kind of the catalog, and no secret.

    Args:
        listing: the namespaces of the catalog.
        size: how many of them a task reads.
        tables: the desired tables.
    """
    spec = CatalogSpec(listing.spec.name, listing.spec.impl)
    blocks_of: defaultdict[Identifier, list[DesiredTable]] = defaultdict(list)
    for block in tables.values():
        blocks_of[block.id[:-1]].append(block)
    units = []
    for unit in units_in(listing, size):
        nearby = chain.from_iterable(blocks_of.get(namespace, ()) for namespace in unit.namespaces)
        units.append(replace(unit, spec=spec, blocks=tuple(block for block in nearby if unit.has(block.id))))
    unlisted = blocks_of.keys() - listing.children.keys()
    return units, {block.id: block for namespace in unlisted for block in blocks_of[namespace]}


@dataclass(slots=True)
class ComparedUnits:
    """The content of some units of a catalog, and its comparison.

    Args:
        compared: the outcomes of the tables compared so far.
        open: the tables whose comparison needs answers.
        maybe_moved: the tables that a move of the manifest may concern: the driver pairs them.
        counts: the number of tables in each namespace.
        namespaces: the live namespaces.
        notes: the notes of the scans.
        odd: the entries that the scans leave out.
        unlisted_tables: the tables of namespaces that were not listed.
        tables: all tables, where the driver needs them.
        selected: the globs that match a table.
        failures: what could not be read, each with the first namespace concerned.
    """

    compared: TableComparison = field(default_factory=TableComparison)
    open: list[OpenTables] = field(default_factory=list)
    maybe_moved: list[TablePair] = field(default_factory=list)
    counts: Counter[Identifier] = field(default_factory=Counter)
    namespaces: dict[Identifier, LiveNamespace] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)
    odd: dict[Identifier, OddEntry] = field(default_factory=dict)
    unlisted_tables: dict[Identifier, LiveTable] = field(default_factory=dict)
    tables: dict[Identifier, LiveTable] = field(default_factory=dict)
    selected: set[Scope] = field(default_factory=set)
    failures: list[tuple[Identifier, CatalogError]] = field(default_factory=list)

    @property
    def snapshot(self) -> Snapshot:
        """The live state that the driver needs."""
        return Snapshot(self.namespaces, self.tables, tuple(sorted(self.notes)), self.odd)

    @property
    def count(self) -> int:
        """The number of tables."""
        return self.counts.total()

    def compare(self, context: CatalogContext, tables: Iterable[TablePair]) -> None:
        """Compare the tables that need no answer.

        Keep those that do in ``open``, and others in ``maybe_moved``.
        """
        unmoved: list[TablePair] = []
        for pair in tables:
            block = pair.desired or pair.live
            is_moved = block is not None and bool(context.moves) and context.moves.concerns(block.id)
            (self.maybe_moved if is_moved else unmoved).append(pair)
        self.compared.compare(context, unmoved)
        self.open += (OpenTables(len(chunk), packed(chunk)) for chunk in chunks(self.compared.open, _OPEN_TOGETHER))
        self.compared.open.clear()

    def merge(self, other: ComparedUnits) -> None:
        """Add the content of other units of the same catalog."""
        self.compared.merge(other.compared)
        self.open += other.open
        self.maybe_moved += other.maybe_moved
        self.counts.update(other.counts)
        self.namespaces.update(other.namespaces)
        self.notes |= other.notes
        self.odd.update(other.odd)
        self.unlisted_tables.update(other.unlisted_tables)
        self.tables.update(other.tables)
        self.selected |= other.selected
        self.failures += other.failures


@dataclass(frozen=True, slots=True)
class UnitComparer:
    """Read units and compare them with their blocks, on the executors.

    Args:
        specs: the catalogs by name.
        contexts: the rules of the comparison for each catalog.
        whole: the names of the catalogs of which the driver needs every table.
        globs: the globs of each catalog to match its tables with.
    """

    specs: Mapping[str, CatalogSpec]
    contexts: Mapping[str, CatalogContext]
    whole: Collection[str]
    globs: Mapping[str, Collection[Scope]]

    def __call__(self, unit: Unit, last_attempt: bool) -> ComparedUnits:
        """Return the content of a unit, with the tables compared that need no answer."""
        with collector_paused():
            return self._read(unit, last_attempt)

    def _read(self, unit: Unit, last_attempt: bool) -> ComparedUnits:
        name, content = unit.spec.name, ComparedUnits()
        listed_tables: dict[Identifier, LiveTable] = {}
        blocks = {block.id: block for block in unit.blocks}
        for reading in readings_of(replace(unit, spec=self.specs[name]), last_attempt=last_attempt):
            if isinstance(reading.content, CatalogError):
                content.failures.append((min(reading.namespaces), reading.content))
                continue
            content.namespaces.update(reading.content.namespaces)
            content.notes.update(reading.content.notes)
            content.odd.update(reading.content.odd)
            is_known = set(reading.namespaces) <= set(unit.namespaces)
            (listed_tables if is_known else content.unlisted_tables).update(reading.content.tables)
        content.counts.update(table[:-1] for table in chain(listed_tables, content.unlisted_tables))
        if name in self.whole:
            content.tables = {**listed_tables, **content.unlisted_tables}
        content.selected |= selecting(self.globs[name], chain(listed_tables, content.unlisted_tables))
        name_holders = Snapshot(odd=content.odd).name_holders
        content.compare(self.contexts[name], pairs(NO_MOVES, blocks, listed_tables, name_holders))
        return content


# ---- asking ----------------------------------------------------------------------------------------------------------


OpenBatch: TypeAlias = tuple[str, tuple[bytes, ...]]
"""A catalog, and the loads of some of its :class:`OpenTables`."""


def open_batches(catalog: str, open_tables: Sequence[OpenTables], size: int) -> Iterator[OpenBatch]:
    """Yield the open tables of a catalog in groups of about ``size``."""
    before = accumulate((tables.count for tables in open_tables), initial=0)
    for _, group in groupby(zip(before, open_tables, strict=False), key=lambda pair: pair[0] // size):
        yield catalog, tuple(tables.load for _, tables in group)


@dataclass(frozen=True, slots=True)
class OpenTableComparer:
    """Ask storage and the catalogs about open tables, and compare them.

    It runs on the executors, and on the driver.

    Args:
        specs: the catalogs by name.
        contexts: the rules of the comparison for each catalog.
        spaces: the live namespaces of each catalog.
        written: what the source of a mirror will have written by then, by table, for each catalog.
    """

    specs: Mapping[str, CatalogSpec]
    contexts: Mapping[str, CatalogContext]
    spaces: Mapping[str, frozenset[Identifier]]
    planned_data: Mapping[str, Mapping[Identifier, Storage]]

    def __call__(self, batch: OpenBatch, _: bool) -> TableComparison | CatalogError:
        """Return the comparison of some tables, or the error of the catalog."""
        name, loads = batch
        compared = TableComparison(open=[table for load in loads for table in unpacked(load)])
        try:
            with self.specs[name].connect() as backend:
                self.compare_open(compared, name, backend, Probes())
        except CatalogError as error:
            return error
        return compared

    def compare_open(self, compared: TableComparison, name: str, backend: Backend, probes: Probes) -> None:
        """Answer the questions about the open tables of ``compared``, and compare them.

        Raises:
            BackendError: the catalog could not say where a table goes, or what has its name.
        """
        questions = compared.questions()
        spaces, planned = self.spaces[name], self.planned_data[name]
        answers = answers_to(questions, backend, spaces, planned, backend.parallelism, probes)
        compared.answer(self.contexts[name], questions, answers)


# ---- finding clashing tables -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClashLookup:
    """The names and places at which changes may clash with live tables.

    The driver needs these tables. ``folded`` are names in lower case, of new tables in a catalog that tells cases
    apart.
    """

    names: frozenset[Identifier]
    places: frozenset[str]
    folded: frozenset[Identifier]

    @classmethod
    def of(cls, catalog: ReadCatalog) -> ClashLookup:
        """Return the names and places that the changes of ``catalog`` may clash with."""
        source, changes = catalog.source, catalog.compared.outcomes.changes
        new = source.desired.namespaces.keys() - source.live.namespaces.keys()
        place_of = Facts(places=links_to(catalog.places(), ())).place_of
        destinations = (change.destination for change in changes if _may_conflict(change))
        written = chain(destinations, *catalog.facts.possible_locations.values())
        missing = () if source.capabilities.folds_case else (block.id for block in catalog.missing())
        hiding = hiding_changes(source.capabilities, changes, place_of)
        return cls(
            frozenset(new if source.capabilities.one_name_space else ()),
            frozenset({*hiding, *(place_of(location) for location in written if location is not None)}),
            frozenset(map(folded, missing)),
        )

    def __bool__(self) -> bool:
        """Return whether any table may clash."""
        return bool(self.names or self.places or self.folded)

    def clashing(self, tables: Mapping[Identifier, LiveTable]) -> Iterator[LiveTable]:
        """Yield those of ``tables`` that have one of the names or places."""
        links = storage.resolved_links(table.location for table in tables.values()) if self.places else {}
        for name, table in tables.items():
            if name in self.names or (self.folded and folded(name) in self.folded):
                yield table
            elif self.places:
                place = locations.normalise(table.location)
                if links.get(place, place) in self.places:
                    yield table


def _may_conflict(change: Change) -> bool:
    """Return whether a change may conflict with other tables at its location."""
    is_entered = change.action is Action.REGISTER_TABLE
    return is_entered or change.is_first_data or changes_columns(change) or changes_tags(change)


@dataclass(frozen=True, slots=True)
class ClashFinder:
    """Read units once more for the tables that changes may clash with.

    It runs on the executors.
    """

    specs: Mapping[str, CatalogSpec]
    lookups: Mapping[str, ClashLookup]

    def __call__(self, unit: Unit, last_attempt: bool) -> list[LiveTable] | CatalogError:
        """Return the tables of a unit that the driver needs, or the error."""
        name, live = unit.spec.name, list[LiveTable]()
        for reading in readings_of(replace(unit, spec=self.specs[name]), last_attempt=last_attempt):
            if isinstance(reading.content, CatalogError):
                return reading.content
            live += self.lookups[name].clashing(reading.content.tables)
        return live
