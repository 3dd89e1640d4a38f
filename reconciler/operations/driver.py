"""Drive the planner through some catalogs: read them, answer its questions, and conclude each.

An engine reads catalogs and compares their tables, in this process or on executors. What the planner asks of a catalog
as a whole is answered here, whichever the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from reconciler.model.collector import collector_paused
from reconciler.model.concurrency import in_parallel
from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable
from reconciler.model.live import Snapshot, Storage
from reconciler.model.names import Identifier
from reconciler.operations.connections import Connection
from reconciler.operations.facts import answers_to, ask_occupants, find_possible_locations, links_to, stored_spellings
from reconciler.operations.probes import Probes
from reconciler.operations.profile import Profile
from reconciler.planner.catalog import compare_namespaces, conclude
from reconciler.planner.comparison import Outcomes, TableComparison
from reconciler.planner.facts import CatalogInput, Facts, LiveTables
from reconciler.planner.mirrors import NO_STORED_NAMES, waves
from reconciler.planner.moves import pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.planning import Planning

if TYPE_CHECKING:
    from reconciler.backends.base import Backend


_NO_SPELLINGS: Mapping[str, Mapping[Identifier, Identifier]] = {}


@dataclass(slots=True)
class ReadCatalog:
    """A catalog that an engine has read, on its way to a plan.

    Args:
        source: the planner's input, with the live namespaces, and with the live tables where others mirror it.
        context: what is the same for all objects of the catalog.
        compared: the comparison of its tables.
        namespaces: the comparison of its namespaces.
        tables: its live tables, at least those that compared objects depend on.
        facts: what it answers as a whole.
    """

    source: CatalogInput
    context: CatalogContext
    compared: TableComparison
    namespaces: Outcomes = field(default_factory=Outcomes)
    tables: LiveTables = field(default_factory=lambda: LiveTables({}))
    facts: Facts = field(default_factory=Facts)

    @property
    def planned_data(self) -> Mapping[Identifier, Storage]:
        """The data that the plan of a mirror's source writes, by the mirrored table."""
        return self.source.mirrored.planned_data if self.source.mirrored is not None else {}

    def missing(self) -> Iterator[DesiredNamespace | DesiredTable]:
        """Yield the blocks of objects that should exist and do not."""
        desired, live = self.source.desired, self.source.live
        for namespace in desired.namespaces.values():
            if not namespace.absent and namespace.id not in live.namespaces:
                yield namespace
        missing = self.compared.missing
        for table in desired.tables.values() if missing else ():
            if table.id in missing:
                yield table

    def places(self) -> Iterator[str]:
        """Yield the places of planned tables, and others where their data may be."""
        destinations = (entry.destination for entry in self.compared.outcomes.entries)
        yield from (location for location in destinations if location is not None)
        yield from chain.from_iterable(self.facts.possible_locations.values())


class Engine(Protocol):
    """Reads catalogs, and compares their tables with their blocks."""

    @property
    def reads_together(self) -> bool:
        """Whether catalogs that do not mirror each other share tasks; if not, each is read on its own."""

    def read_ahead(self, connection: Connection) -> None:
        """Read a catalog before anything is asked of it, where it is read as a whole.

        Raises:
            BackendError: something could not be read.
        """

    def read(self, sources: Mapping[str, CatalogInput]) -> dict[str, ReadCatalog]:
        """Read catalogs, and compare the tables that need no answer.

        Raises:
            CatalogError: something could not be read.
        """

    def ask(self, catalogs: Mapping[str, ReadCatalog], probes: Probes) -> None:
        """Compare the other tables with the answers of storage and of their catalog.

        ``probes`` are those of catalogs that are compared in this process.

        Raises:
            CatalogError: a catalog could not say where a table goes, or what has its name.
        """

    def live_tables(self, catalogs: Mapping[str, ReadCatalog]) -> Mapping[str, LiveTables]:
        """Return the live tables of each catalog, at least those that compared objects depend on.

        Raises:
            CatalogError: something could not be read again.
        """


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Reads catalogs and compares their tables in this process."""

    connections: Mapping[str, Connection]
    parallelism: int
    profile: Profile = field(default_factory=Profile)
    _scans: dict[str, Snapshot] = field(default_factory=dict)

    reads_together = False

    def read_ahead(self, connection: Connection) -> None:
        """Scan a catalog, once: what a scan shows of a service need not be asked."""
        if connection.spec.name not in self._scans:
            with self.profile.stage("scan", connection), connection.spec.errors():
                self._scans[connection.spec.name] = connection.spec.scan(connection.backend, connection.desired.scope)

    def read(self, sources: Mapping[str, CatalogInput]) -> dict[str, ReadCatalog]:
        """Scan catalogs that were not scanned yet, and compare the tables that need no answer."""
        return {name: self._read(self.connections[name], source) for name, source in sources.items()}

    def _read(self, connection: Connection, source: CatalogInput) -> ReadCatalog:
        self.read_ahead(connection)
        live = self._scans[connection.spec.name]
        compared = TableComparison(is_whole=True)
        with self.profile.stage("compare", connection), collector_paused():
            context = CatalogContext.of(source)
            compared.compare(context, pairs(context.moves, source.desired.tables, live.tables, live.name_holders))
        return ReadCatalog(replace(source, live=live), context, compared)

    def ask(self, catalogs: Mapping[str, ReadCatalog], probes: Probes) -> None:
        """Compare the other tables, with the answers to one set of questions a catalog."""
        for name, catalog in catalogs.items():
            connection, questions = self.connections[name], catalog.compared.questions()
            with self.profile.stage("storage", connection), connection.spec.errors():
                spaces, planned = catalog.source.live.namespaces, catalog.planned_data
                answers = answers_to(questions, connection.backend, spaces, planned, self.parallelism, probes)
            with self.profile.stage("compare", connection), collector_paused():
                catalog.compared.answer(catalog.context, questions, answers)

    def live_tables(self, catalogs: Mapping[str, ReadCatalog]) -> Mapping[str, LiveTables]:
        """Return all live tables."""
        return {name: LiveTables(catalog.source.live.tables) for name, catalog in catalogs.items()}


@dataclass(frozen=True, slots=True)
class Driver:
    """Plans catalogs, each after the one that it mirrors.

    ``keeps_probes``: the catalogs will be planned :meth:`again`.
    """

    engine: Engine
    connections: Mapping[str, Connection]
    parallelism: int
    profile: Profile = field(default_factory=Profile)
    planning: Planning = field(default_factory=Planning)
    keeps_probes: bool = False
    _probes: Probes = field(default_factory=Probes)

    def again(self, blocks: Mapping[str, DesiredCatalog]) -> Driver:
        """Return a driver that plans other blocks of these catalogs on what this one has read.

        Raises:
            TypeError: this one has read them on executors.
        """
        if not isinstance(self.engine, LocalEngine):
            raise TypeError("only what was read in this process can be planned again")
        connections = {name: replace(self.connections[name], desired=desired) for name, desired in blocks.items()}
        engine = replace(self.engine, connections=connections)
        return replace(self, engine=engine, connections=connections, planning=Planning())

    def plan(self, sources: Mapping[str, CatalogInput]) -> list[tuple[CatalogInput, LiveTables]]:
        """Add the plan of each catalog to ``planning``; return the catalogs as read.

        Args:
            sources: the catalogs, with their own blocks only and without live state.

        Raises:
            CatalogError: something could not be read.
        """
        read: list[tuple[CatalogInput, LiveTables]] = []
        for names in waves({name: source.desired for name, source in sources.items()}):
            group = {name: sources[name] for name in names}
            groups = [group] if self.engine.reads_together else [{name: source} for name, source in group.items()]
            answered = chain.from_iterable(in_parallel(self._read_and_ask, groups, self.parallelism))
            read += [(self._conclude(catalog), catalog.tables) for catalog in answered]
        return read

    def _read_and_ask(
        self,
        sources: Mapping[str, CatalogInput],
        spellings: Mapping[str, Mapping[Identifier, Identifier]] = _NO_SPELLINGS,
    ) -> list[ReadCatalog]:
        """Return catalogs with all that their plans need.

        Args:
            sources: the catalogs, with their own blocks only; none mirrors another of them.
            spellings: for catalogs that are read again, the names that their service keeps in another form.
        """
        catalogs = self.engine.read(
            {
                name: self.planning.with_mirror(source, spellings.get(name, NO_STORED_NAMES))
                for name, source in sources.items()
            }
        )
        probes = self._probes if self.keeps_probes or len(self.connections) > 1 else Probes(keeps=False)
        self.engine.ask(catalogs, probes)
        for name, catalog in catalogs.items():
            with self._questions(name) as connection:
                new, connections = catalog.compared.new, self.connections.values()
                possible = find_possible_locations(connection, new, connections, self.parallelism, probes)
                catalog.facts = Facts(possible_locations=possible)
        for name, tables in self.engine.live_tables(catalogs).items():
            catalogs[name].tables = tables
        respelled: dict[str, Mapping[Identifier, Identifier]] = {}
        for name, catalog in catalogs.items():
            with self._questions(name) as connection:
                live_names = chain(catalog.source.live.namespaces, catalog.tables.tables)
                kept = stored_spellings(connection.backend, catalog.missing(), live_names)
                if kept:
                    respelled[name] = kept
                else:
                    self._gather_facts(catalog, connection.backend)
        if respelled:
            read_again = self._read_and_ask({name: sources[name] for name in respelled}, respelled)
            catalogs |= dict(zip(respelled, read_again, strict=True))
        return [*catalogs.values()]

    @contextmanager
    def _questions(self, name: str) -> Iterator[Connection]:
        connection = self.connections[name]
        with self.profile.stage("questions", connection), connection.spec.errors():
            yield connection

    def _gather_facts(self, catalog: ReadCatalog, backend: Backend) -> None:
        """Answer what the planner asks of a catalog as a whole."""
        source = catalog.source
        catalog.namespaces = compare_namespaces(source)
        catalog.facts = Facts(
            occupants=ask_occupants(backend, source, catalog.namespaces.drops, self.parallelism),
            leftovers=backend.leftovers(source.desired.scope),
            places=links_to(catalog.places(), catalog.tables.tables.values()),
            possible_locations=catalog.facts.possible_locations,
            notes=backend.schema_notes(catalog.compared.schemas),
        )

    def _conclude(self, catalog: ReadCatalog) -> CatalogInput:
        """Add the plan of a catalog, and return what it was made from."""
        with self.profile.stage("compare", self.connections[catalog.source.desired.name]), collector_paused():
            source = self.planning.with_planned_data(catalog.source, catalog.facts)
            plan = conclude(source, catalog.compared.outcomes, catalog.namespaces, catalog.tables)
            self.planning.add(source, plan)
        return source
