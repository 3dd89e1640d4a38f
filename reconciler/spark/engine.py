"""Make a plan on Spark: executors compare tables, the driver decides the rest.

A task reads its unit of a catalog, compares the tables with the blocks that came with it, and returns changes and
counts; nothing is shuffled. Further tasks ask storage and the catalogs, and look for tables that new ones may clash
with. The driver pairs moved and mirrored tables, compares the namespaces, decides what only the whole catalog can
decide, and orders the changes, with the code of the local engine. So the plan is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING

from reconciler.backends import optional
from reconciler.manifest import Manifest
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.desired import DesiredTable
from reconciler.model.display import count
from reconciler.model.live import LiveTable, Snapshot, Storage
from reconciler.model.names import Identifier, Scope
from reconciler.operations.connections import CatalogSpec, Connection, open_connections, places_of
from reconciler.operations.facts import ask_occupants, check_selection, find_stored, links_to, names_kept
from reconciler.operations.plan import input_of, options_in, reference, selected_catalogs
from reconciler.planner.catalog import CatalogPlan, compare_namespaces, conclude
from reconciler.planner.facts import CatalogInput, Facts, LiveTables, Stored, TablesInMemory
from reconciler.planner.mirrors import waves
from reconciler.planner.moves import NO_MOVES, pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.placeholders import hide_places
from reconciler.planner.plan import Options, Plan, check_removals
from reconciler.planner.planning import Planning
from reconciler.spark.comparing import (
    Asker,
    Compared,
    ComparedUnits,
    Finder,
    Lookup,
    Reader,
    asked_together,
    units_with_blocks,
)
from reconciler.spark.progress import stage
from reconciler.spark.session import OLDEST_WITH_FORMATS, require_pyspark
from reconciler.spark.tasks import in_tasks, probe_tasks, tasks_at_once
from reconciler.spark.units import Listing, Unit, list_catalogs, require_reachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.backends.base import Backend


_UNITS_A_CORE = 8
_NOTHING_KEPT: Mapping[str, Mapping[Identifier, Identifier]] = {}


def plan_on_spark(
    spark: SparkSession,
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    adopt: bool = False,
    take_over: bool = False,
    recreate_lost: Sequence[str] = (),
    allow_mass_removal: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
) -> Plan:
    """Return the plan that :func:`reconciler.plan` returns, computed on Spark.

    Args:
        spark: the session to work in.
        manifest: from :func:`reconciler.load`.
        parallelism: how many requests and storage probes each task runs at once.

    The other arguments and the errors raised are those of :func:`reconciler.plan`.
    """
    require_pyspark(OLDEST_WITH_FORMATS)
    _, concerned = selected_catalogs(manifest, select)
    asked = Options(select=tuple(select), adopt=adopt, take_over=take_over, recreate_lost=tuple(recreate_lost))
    with ExitStack() as stack:
        connections = stack.enter_context(
            open_connections(manifest, concerned, parallelism=parallelism, as_planned=True)
        )
        desired = {name: connection.desired for name, connection in connections.items()}
        mirrored = frozenset(one.mirror.origin for one in desired.values() if one.mirror is not None)
        globs = [*select, *recreate_lost]
        fleet = _Fleet(spark, connections, mirrored, globs)
        planning, sources = Planning(), list[tuple[CatalogInput, LiveTables]]()
        for names in waves(desired):
            group = {name: input_of(one, options_in(one, asked)) for name in names for one in (connections[name],)}
            for source, tables, plan in fleet.planned(group, planning):
                planning.add(source, plan)
                sources.append((source, tables))
        check_selection(globs, sources)
    made = planning.plan(reference(manifest), manifest.thresholds, asked)
    if not allow_mass_removal:
        check_removals(made)
    return hide_places(made, places_of(manifest))


@dataclass(frozen=True, slots=True)
class _Tables(TablesInMemory):
    """The live tables of one catalog; in memory are only those that the driver needs.

    ``counts`` is the number of tables in each namespace; ``selected`` are the globs of the user that match a table.
    """

    counts: Mapping[Identifier, int] = field(default_factory=dict)
    selected: Collection[Scope] = ()

    def count_in(self, namespaces: Collection[Identifier]) -> Mapping[Identifier, int]:
        """Return the number of tables directly in each of ``namespaces``."""
        return {namespace: self.counts.get(namespace, 0) for namespace in namespaces}

    def any_in(self, scope: Scope) -> bool:
        """Return whether ``scope``, a glob of the user, contains a table."""
        return scope in self.selected


@dataclass(slots=True)
class _Read:
    """Catalogs that have been read.

    Args:
        units: the units they were read in.
        found: the content of each catalog, and its comparison.
        sources: the planner's input for each catalog.
        stored: other places where the data of new tables may be.
    """

    units: list[Unit]
    found: Mapping[str, ComparedUnits]
    sources: dict[str, CatalogInput]
    stored: dict[str, Stored] = field(default_factory=dict)

    def compared(self, name: str) -> Compared:
        return self.found[name].compared

    def places(self, name: str) -> list[str]:
        """Return the places of planned tables, and others where their data may be."""
        views = (change.after for change in self.compared(name).outcomes.changes)
        planned = [view.location for view in views if view is not None and view.location is not None]
        return [*planned, *chain.from_iterable(self.stored[name].values())]


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The catalogs of a manifest, and the session that reads them.

    ``mirrored`` are those that others mirror; ``select`` are the user's globs.
    """

    spark: SparkSession
    connections: Mapping[str, Connection]
    mirrored: frozenset[str]
    select: Sequence[str]
    _listings: dict[str, Listing] = field(default_factory=dict)

    def planned(
        self,
        own: Mapping[str, CatalogInput],
        planning: Planning,
        kept: Mapping[str, Mapping[Identifier, Identifier]] = _NOTHING_KEPT,
    ) -> Iterator[tuple[CatalogInput, LiveTables, CatalogPlan]]:
        """Yield the planner's input, the live tables and the plan of each catalog.

        Args:
            own: the catalogs, without what they mirror; none mirrors another of them.
            planning: the plans of the catalogs that they mirror.
            kept: the names that the service of a catalog keeps in another form.
        """
        read = self._read({name: planning.with_mirror(source, kept.get(name, {})) for name, source in own.items()})
        self._ask(read)
        for name, source in read.sources.items():
            self._compare_aside(source, read.compared(name))
            connection, others = self.connections[name], self.connections.values()
            with connection.spec.errors():
                new = read.compared(name).new
                read.stored[name] = find_stored(connection, new, others, connection.backend.parallelism)
        tables = self._known(read)
        kept_names: dict[str, Mapping[Identifier, Identifier]] = {}
        for name, source in read.sources.items():
            with self.connections[name].spec.errors():
                missing = read.compared(name).unfound(source)
                there = [*source.live.namespaces, *tables[name]]
                names = names_kept(self.connections[name].backend, missing, there)
            if names:
                kept_names[name] = names
        again = self.planned({name: own[name] for name in kept_names}, planning, kept_names) if kept_names else iter(())
        for name, source in read.sources.items():
            if name in kept_names:
                yield next(again)
                continue
            compared = read.compared(name)
            places = read.places(name)
            links = links_to(places, tables[name].values())
            known = _Tables(tables[name], links, compared.counts, read.found[name].selected)
            facts = Facts(places=links, stored=read.stored[name])
            whole = planning.with_written(replace(source, facts=facts))
            plan = _conclude(whole, self.connections[name], compared, known)
            # Mirrors of this catalog are paired on the driver, which needs its tables for that.
            mirrored = tables[name] if name in self.mirrored else {}
            yield replace(source, live=replace(source.live, tables=mirrored)), known, plan

    def _read(self, sources: Mapping[str, CatalogInput]) -> _Read:
        """Read the catalogs, and compare the tables where they are read.

        Raises:
            CatalogError: something could not be read.
        """
        specs = {name: self.connections[name].spec for name in sources}
        contexts = {name: CatalogContext.of(source) for name, source in sources.items()}
        globs = {name: self._globs(source) for name, source in sources.items()}
        found = {name: ComparedUnits() for name in sources}
        with stage(self.spark, f"Reading {_catalogs(specs)}") as note:
            units: list[Unit] = []
            homeless: dict[str, dict[Identifier, DesiredTable]] = {}
            listings = self._listed(specs.values())
            size = ceil(sum(len(listing.children) for listing in listings) / self._tasks)
            for listing in listings:
                name = listing.spec.name
                own, homeless[name] = units_with_blocks(listing, max(size, 1), sources[name].desired.tables)
                units += own
            reader = Reader(specs, contexts, self.mirrored, globs)
            for unit, one in zip(units, in_tasks(self.spark, units, reader), strict=True):
                found[unit.spec.name].merge(one)
            note(count(sum(one.count for one in found.values()), "table"))
            failed = [(name, *failure) for name, one in found.items() for failure in one.failures]
            if failed:
                raise min(failed, key=lambda failure: failure[:2])[2]
            for name, one in found.items():
                one.compared.compare(contexts[name], pairs(NO_MOVES, homeless[name], one.late))
            note(count(sum(len(one.compared.outcomes.changes) for one in found.values()), "change"))
        snapshots = {
            name: Snapshot(one.namespaces, notes=tuple(sorted(one.notes)), odd=one.odd) for name, one in found.items()
        }
        return _Read(units, found, {name: replace(one, live=snapshots[name]) for name, one in sources.items()})

    @property
    def _tasks(self) -> int:
        return _UNITS_A_CORE * tasks_at_once(self.spark)

    def _listed(self, specs: Iterable[CatalogSpec]) -> list[Listing]:
        """Return the namespaces of some catalogs; each catalog is listed once."""
        asked = list(specs)
        require_reachable(asked)
        for listing in list_catalogs([spec for spec in asked if spec.name not in self._listings]):
            self._listings[listing.spec.name] = listing
        return [self._listings[spec.name] for spec in asked]

    def _globs(self, source: CatalogInput) -> list[Scope]:
        """Return the scope that each of the user's globs selects in a catalog."""
        globs = [Scope((pattern,)).below(source.desired.name) for pattern in self.select]
        return [glob.folded() if source.capabilities.folds_case else glob for glob in globs if glob.patterns]

    def _ask(self, read: _Read) -> None:
        """Compare the tables that need an answer, spread evenly over tasks.

        Raises:
            CatalogError: a catalog could not say where a table goes, or what has its name.
        """
        total = sum(some.count for name in read.sources for some in read.compared(name).questions)
        if not total:
            return
        size = ceil(total / max(probe_tasks(total), min(tasks_at_once(self.spark), total)))
        work = [one for name in read.sources for one in asked_together(name, read.compared(name).questions, size)]
        for name in read.sources:
            read.compared(name).questions.clear()
        asker = Asker(
            {name: self.connections[name].spec for name in read.sources},
            {name: CatalogContext.of(source) for name, source in read.sources.items()},
            {name: frozenset(source.live.namespaces) for name, source in read.sources.items()},
            {name: _written(source) for name, source in read.sources.items()},
        )
        with stage(self.spark, f"Looking at storage for {count(total, 'table')}") as note:
            for (name, _), answer in zip(work, in_tasks(self.spark, work, asker), strict=True):
                read.compared(name).merge(answer)
            note(count(sum(len(one.compared.outcomes.changes) for one in read.found.values()), "change"))

    def _compare_aside(self, source: CatalogInput, compared: Compared) -> None:
        """Compare the tables that may have had another name, on the driver."""
        context, connection = CatalogContext.of(source), self.connections[source.desired.name]
        blocks = {pair.desired.id: pair.desired for pair in compared.aside if pair.desired is not None}
        live = {pair.live.id: pair.live for pair in compared.aside if pair.live is not None}

        @contextmanager
        def connect() -> Iterator[Backend]:
            with connection.spec.errors():
                yield connection.backend

        together = [*pairs(context.moves, blocks, live, source.live.held)]
        compared.ask(context, together, source.live.namespaces, _written(source), connect)

    def _known(self, read: _Read) -> Mapping[str, Mapping[Identifier, LiveTable]]:
        """Return the live tables of each catalog that the driver needs.

        Raises:
            CatalogError: something could not be read again.
        """
        lookups = {
            name: Lookup.of(source, read.compared(name), read.places(name), read.stored[name])
            for name, source in read.sources.items()
            if name not in self.mirrored
        }
        asked = {name: lookup for name, lookup in lookups.items() if lookup}
        tables = {name: dict(read.found[name].tables) for name in read.sources}
        if not asked:
            return tables
        units = [replace(unit, blocks=()) for unit in read.units if unit.spec.name in asked]
        finder = Finder({name: self.connections[name].spec for name in asked}, asked)
        with stage(self.spark, f"Looking for clashing tables in {_catalogs(asked)}"):
            for unit, answer in zip(units, in_tasks(self.spark, units, finder), strict=True):
                tables[unit.spec.name].update((table.id, table) for table in answer)
        return tables


def _written(source: CatalogInput) -> Mapping[Identifier, Storage]:
    return source.mirrored.written if source.mirrored is not None else {}


def _conclude(source: CatalogInput, connection: Connection, compared: Compared, tables: LiveTables) -> CatalogPlan:
    """Return the plan of a catalog whose tables have been compared."""
    backend, namespaces = connection.backend, compare_namespaces(source)
    with connection.spec.errors():
        notes = optional.schema_notes(backend, compared.schemas.elements())
        occupants = ask_occupants(backend, source, namespaces.drops, backend.parallelism)
        leftovers = optional.leftovers(backend, source.desired.scope)
    source = replace(
        source,
        live=replace(source.live, notes=(*source.live.notes, *notes)),
        facts=replace(source.facts, occupants=occupants, leftovers=leftovers),
    )
    compared.outcomes.merge(namespaces)
    return conclude(source, compared.outcomes, tables)


def _catalogs(names: Collection[str]) -> str:
    return next(iter(names)) if len(names) == 1 else f"{len(names)} catalogs"
