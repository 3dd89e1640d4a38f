"""Read tables and compare them with their blocks, on the executors.

A task reads its unit, pairs the tables with the blocks that came with it, and compares them at once. It hands back the
tables that need an answer from storage or from the catalog: these are spread evenly over further tasks, since one unit
may have all of them. It also hands back what only the driver can pair: moved tables, and namespaces that were not
listed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, TypeAlias

from reconciler import storage
from reconciler.manifest import collector_paused
from reconciler.model import locations
from reconciler.model.columns import Schema
from reconciler.model.desired import DesiredNamespace, DesiredTable
from reconciler.model.errors import CatalogError
from reconciler.model.live import LiveNamespace, LiveTable, OddEntry, Snapshot, Storage
from reconciler.model.names import Identifier, Scope, folded
from reconciler.operations.connections import CatalogSpec
from reconciler.operations.facts import ask_held, ask_storage, links_to, missing_blocks, schemas_to_show
from reconciler.planner.comparison import Outcomes
from reconciler.planner.conflicts import hiding_places
from reconciler.planner.entries import Action, Change
from reconciler.planner.facts import (
    CatalogInput,
    Facts,
    Stored,
    TableFacts,
    names_in_question,
    new_names,
    storage_question,
)
from reconciler.planner.moves import NO_MOVES, MovedTable, pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.sharing import changes_columns, changes_tags
from reconciler.spark.reading import readings_of
from reconciler.spark.schemas import chunks
from reconciler.spark.tasks import packed, unpacked
from reconciler.spark.units import Listing, Unit, grouped

if TYPE_CHECKING:
    from reconciler.backends.base import Backend


_QUESTIONS_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Questions:
    """Some tables whose comparison needs an answer; ``load`` has them, packed."""

    count: int
    load: bytes


@dataclass(slots=True)
class Compared:
    """The comparison of some tables of a catalog.

    Args:
        outcomes: the changes and the blocked tables.
        schemas: the schemas of the entries to be created.
        counts: the number of live tables in each namespace.
        missing: the desired tables that no scan found.
        new: those of them whose data may be elsewhere (see ``facts.new_names``).
        aside: the tables that may have had another name.
        questions: the tables that are not compared yet.
    """

    outcomes: Outcomes = field(default_factory=Outcomes)
    schemas: Counter[Schema] = field(default_factory=Counter)
    counts: Counter[Identifier] = field(default_factory=Counter)
    missing: set[Identifier] = field(default_factory=set)
    new: dict[Identifier, Identifier | None] = field(default_factory=dict)
    aside: list[MovedTable] = field(default_factory=list)
    questions: list[Questions] = field(default_factory=list)

    def merge(self, other: Compared) -> None:
        """Add the comparison of other tables of the same catalog."""
        self.outcomes.merge(other.outcomes)
        self.schemas.update(other.schemas)
        self.counts.update(other.counts)
        self.missing |= other.missing
        self.new.update(other.new)
        self.aside += other.aside
        self.questions += other.questions

    def compare(self, context: CatalogContext, found: Iterable[MovedTable]) -> None:
        """Compare the tables that need no answer, and keep the others."""
        waiting: list[MovedTable] = []
        for pair in found:
            one = pair.desired or pair.live
            if one is not None and context.moves and context.moves.concerns(one.id):
                self.aside.append(pair)
            elif _is_in_question(pair, context.select):
                waiting.append(pair)
            else:
                self._add(context, pair, None)
        self.questions += (Questions(len(some), packed(some)) for some in chunks(waiting, _QUESTIONS_TOGETHER))

    def ask(
        self,
        context: CatalogContext,
        together: Sequence[MovedTable],
        spaces: Collection[Identifier],
        written: Mapping[Identifier, Storage],
        connect: Callable[[], AbstractContextManager[Backend]],
    ) -> None:
        """Compare tables, and ask storage and the catalog where that is needed.

        Args:
            context: the rules of the comparison.
            together: the tables.
            spaces: the live namespaces.
            written: what storage will hold by the plan of another catalog.
            connect: opens a connection to the catalog; called only if there is a question.

        Raises:
            CatalogError: the catalog could not say where a table goes, or what has its name.
        """
        asked = [question for pair in together if (question := storage_question(pair, context.select))]
        names = [*names_in_question(together, context.select)]
        facts: Mapping[Identifier, TableFacts] = {}
        held: Mapping[Identifier, str] = {}
        if asked or names:
            with connect() as backend:
                facts = ask_storage(backend, asked, backend.parallelism, written)
                held = ask_held(backend, names, spaces, backend.parallelism)
        self.schemas.update(schemas_to_show(asked, facts))
        for pair in together:
            name = pair.desired.id if pair.desired else ()
            self._add(context, replace(pair, held=held.get(name, pair.held)), facts.get(name))

    def unfound(self, source: CatalogInput) -> list[DesiredNamespace | DesiredTable]:
        """Return the blocks of the namespaces and tables that were not found."""
        blocks = missing_blocks(source.desired, source.live)
        return [block for block in blocks if isinstance(block, DesiredNamespace) or block.id in self.missing]

    def _add(self, context: CatalogContext, pair: MovedTable, facts: TableFacts | None) -> None:
        self.counts.update(live.id[:-1] for live in (pair.live, pair.origin) if live is not None)
        self.outcomes.compare(context, pair, facts)
        if pair.desired is not None and pair.live is None and not pair.desired.absent:
            self.missing.add(pair.desired.id)
            self.new.update(new_names([pair], context.select))


def _is_in_question(pair: MovedTable, select: Scope) -> bool:
    return storage_question(pair, select) is not None or any(True for _ in names_in_question([pair], select))


# ---- reading and comparing -------------------------------------------------------------------------------------------


def units_with_blocks(
    listing: Listing, size: int, tables: Mapping[Identifier, DesiredTable]
) -> tuple[list[Unit], dict[Identifier, DesiredTable]]:
    """Return the units of one catalog with their blocks, and the other blocks.

    The other blocks are those in namespaces that were not listed.

    The units travel as data, so their ``spec`` holds the catalog's name and no secret.

    Args:
        listing: the namespaces of the catalog.
        size: how many of them a task reads.
        tables: the desired tables.
    """
    spec = CatalogSpec(listing.spec.name, listing.spec.impl)
    homes: defaultdict[Identifier, list[DesiredTable]] = defaultdict(list)
    for block in tables.values():
        homes[block.id[:-1]].append(block)
    units = []
    for unit in grouped(listing, size):
        found = chain.from_iterable(homes.get(namespace, ()) for namespace in unit.namespaces)
        units.append(replace(unit, spec=spec, blocks=tuple(block for block in found if unit.has(block.id))))
    homeless = homes.keys() - listing.children.keys()
    return units, {block.id: block for home in homeless for block in homes[home]}


@dataclass(slots=True)
class ComparedUnits:
    """The content of some units of a catalog, and its comparison.

    Args:
        compared: the comparison.
        namespaces: the live namespaces.
        notes: the notes of the scans.
        odd: the entries that the scans leave out.
        late: the tables of namespaces that were not listed.
        tables: all tables, where the driver needs them.
        selected: the globs that match a table.
        failures: what could not be read, each with the first namespace concerned.
        count: the number of tables.
    """

    compared: Compared = field(default_factory=Compared)
    namespaces: dict[Identifier, LiveNamespace] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)
    odd: dict[Identifier, OddEntry] = field(default_factory=dict)
    late: dict[Identifier, LiveTable] = field(default_factory=dict)
    tables: dict[Identifier, LiveTable] = field(default_factory=dict)
    selected: set[Scope] = field(default_factory=set)
    failures: list[tuple[Identifier, CatalogError]] = field(default_factory=list)
    count: int = 0

    def merge(self, other: ComparedUnits) -> None:
        """Add the content of other units of the same catalog."""
        self.compared.merge(other.compared)
        self.namespaces.update(other.namespaces)
        self.notes |= other.notes
        self.odd.update(other.odd)
        self.late.update(other.late)
        self.tables.update(other.tables)
        self.selected |= other.selected
        self.failures += other.failures
        self.count += other.count


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads units and compares them with their blocks; runs on the executors.

    Args:
        specs: the catalogs by name.
        contexts: the rules of the comparison for each catalog.
        whole: the catalogs of which the driver needs every table.
        globs: the globs of each catalog to match its tables with.
    """

    specs: Mapping[str, CatalogSpec]
    contexts: Mapping[str, CatalogContext]
    whole: Collection[str]
    globs: Mapping[str, Collection[Scope]]

    def __call__(self, unit: Unit, last_attempt: bool) -> ComparedUnits:
        """Return the content of a unit, compared as far as no answer is needed."""
        with collector_paused():
            return self._read(unit, last_attempt)

    def _read(self, unit: Unit, last_attempt: bool) -> ComparedUnits:
        name, found = unit.spec.name, ComparedUnits()
        here: dict[Identifier, LiveTable] = {}
        blocks = {block.id: block for block in unit.blocks}
        for reading in readings_of(replace(unit, spec=self.specs[name]), last_attempt=last_attempt):
            if isinstance(reading.found, CatalogError):
                found.failures.append((min(reading.namespaces), reading.found))
                continue
            found.namespaces.update(reading.found.namespaces)
            found.notes.update(reading.found.notes)
            found.odd.update(reading.found.odd)
            is_known = set(reading.namespaces) <= set(unit.namespaces)
            (here if is_known else found.late).update(reading.found.tables)
        found.count = len(here) + len(found.late)
        if name in self.whole:
            found.tables = {**here, **found.late}
        for scope in self.globs[name]:
            if any(map(scope.contains, (*here, *found.late))):
                found.selected.add(scope)
        held = Snapshot(odd=found.odd).held
        found.compared.compare(self.contexts[name], pairs(NO_MOVES, blocks, here, held))
        return found


# ---- asking ----------------------------------------------------------------------------------------------------------


Asked: TypeAlias = tuple[str, tuple[bytes, ...]]
"""A catalog, and the loads of some of its :class:`Questions`."""


def asked_together(catalog: str, questions: Sequence[Questions], size: int) -> Iterator[Asked]:
    """Yield the questions about a catalog in groups of about ``size`` tables."""
    before = accumulate((some.count for some in questions), initial=0)
    for _, together in groupby(zip(before, questions, strict=False), key=lambda pair: pair[0] // size):
        yield catalog, tuple(some.load for _, some in together)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks storage and the catalogs, and compares; see :meth:`Compared.ask`."""

    specs: Mapping[str, CatalogSpec]
    contexts: Mapping[str, CatalogContext]
    spaces: Mapping[str, frozenset[Identifier]]
    written: Mapping[str, Mapping[Identifier, Storage]]

    def __call__(self, asked: Asked, _: bool) -> Compared | CatalogError:
        """Return the comparison of some tables, or the error of the catalog."""
        (name, loads), compared = asked, Compared()
        together = [pair for load in loads for pair in unpacked(load)]
        try:
            compared.ask(self.contexts[name], together, self.spaces[name], self.written[name], self.specs[name].connect)
        except CatalogError as error:
            return error
        return compared


# ---- finding clashing tables -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lookup:
    """The identifiers and places of the live tables that the driver needs."""

    names: frozenset[Identifier]
    places: frozenset[str]
    folded: frozenset[Identifier]

    @classmethod
    def of(cls, source: CatalogInput, compared: Compared, places: Sequence[str], stored: Stored) -> Lookup:
        """Return the names and places that new objects of the plan may clash with.

        Args:
            source: the catalog.
            compared: its comparison.
            places: the places of all tables of the plan.
            stored: other places where the data of new tables may be.
        """
        new = source.desired.namespaces.keys() - source.live.namespaces.keys()
        place_of = Facts(places=links_to(places, ())).place_of
        destinations = (change.destination for change in compared.outcomes.changes if _may_conflict(change))
        written = chain(destinations, *stored.values())
        unfound = () if source.capabilities.folds_case else (block.id for block in compared.unfound(source))
        hiding = hiding_places(source.capabilities, compared.outcomes.changes, place_of)
        return cls(
            frozenset(new if source.capabilities.one_name_space else ()),
            frozenset({*hiding, *(place_of(place) for place in written if place is not None)}),
            frozenset(map(folded, unfound)),
        )

    def __bool__(self) -> bool:
        """Return whether it asks for any table."""
        return bool(self.names or self.places or self.folded)

    def among(self, tables: Mapping[Identifier, LiveTable]) -> Iterator[LiveTable]:
        """Yield those of ``tables`` that the driver needs."""
        links = storage.real_places(table.location for table in tables.values()) if self.places else {}
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
class Finder:
    """Reads units once more for what :class:`Lookup` asks for; runs on the executors."""

    specs: Mapping[str, CatalogSpec]
    lookups: Mapping[str, Lookup]

    def __call__(self, unit: Unit, last_attempt: bool) -> list[LiveTable] | CatalogError:
        """Return the tables of a unit that the driver needs, or the error."""
        name, live = unit.spec.name, list[LiveTable]()
        for reading in readings_of(replace(unit, spec=self.specs[name]), last_attempt=last_attempt):
            if isinstance(reading.found, CatalogError):
                return reading.found
            live += self.lookups[name].among(reading.found.tables)
        return live
