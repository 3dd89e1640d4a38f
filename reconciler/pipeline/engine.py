"""Make a plan on Spark: executors compare tables, the driver decides the rest.

A task reads its unit of a catalog, compares the tables with the blocks that came with it, and returns changes and
counts; nothing is shuffled. Further tasks ask storage and the catalogs, and look for tables that new ones may clash
with. All else is done by the driver of every plan (``operations.driver``), so the plan is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

from reconciler.manifest import Manifest
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.desired import DesiredTable
from reconciler.model.display import count
from reconciler.model.names import Identifier, Scope
from reconciler.operations.connections import CatalogSpec, Connection
from reconciler.operations.driver import ReadCatalog
from reconciler.operations.plan import plan_with
from reconciler.operations.probes import Probes
from reconciler.operations.profile import Profile
from reconciler.pipeline.comparing import (
    ClashFinder,
    ClashLookup,
    ComparedUnits,
    OpenTableComparer,
    UnitComparer,
    open_batches,
    units_with_blocks,
)
from reconciler.pipeline.progress import stage
from reconciler.pipeline.session import OLDEST_WITH_FORMATS, require_pyspark
from reconciler.pipeline.tasks import in_tasks, probe_tasks, tasks_at_once
from reconciler.pipeline.units import Listing, Unit, list_catalogs, require_reachable
from reconciler.planner.comparison import TableComparison
from reconciler.planner.facts import CatalogInput, LiveTables
from reconciler.planner.moves import NO_MOVES, pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import Options, Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNITS_A_CORE = 8


def plan_on_spark(
    spark: SparkSession,
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
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

    def engine_of(connections: Mapping[str, Connection], selections: Sequence[Scope]) -> SparkEngine:
        mirrored = frozenset[str]().union(*(connection.desired.sources for connection in connections.values()))
        return SparkEngine(spark, connections, mirrored, selections)

    return plan_with(
        engine_of,
        manifest,
        Options(
            select=tuple(select),
            exclude=tuple(exclude),
            adopt=adopt,
            take_over=take_over,
            recreate_lost=tuple(recreate_lost),
        ),
        allow_mass_removal=allow_mass_removal,
        parallelism=parallelism,
        profile=Profile(),
    )


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Read catalogs and compare their tables on executors.

    An engine of ``operations.driver``.

    Args:
        spark: the session to work in.
        connections: the catalogs by name.
        mirrored: the names of the catalogs that others mirror: the driver needs all their tables.
        selections: the user's globs, and what is left of all.
    """

    spark: SparkSession
    connections: Mapping[str, Connection]
    mirrored: frozenset[str]
    selections: Sequence[Scope]
    _listings: dict[str, Listing] = field(default_factory=dict)
    _units: dict[str, list[Unit]] = field(default_factory=dict)
    _contents: dict[str, ComparedUnits] = field(default_factory=dict)

    reads_together = True

    def read_ahead(self, connection: Connection) -> None:
        """Read nothing: executors read, with the blocks."""

    def read(self, sources: Mapping[str, CatalogInput]) -> dict[str, ReadCatalog]:
        """Read catalogs, and compare their tables where they are read.

        Tables that need answers are left open.
        """
        specs = {name: self.connections[name].spec for name in sources}
        contexts = {name: CatalogContext.of(source) for name, source in sources.items()}
        globs = {name: self._scopes(source) for name, source in sources.items()}
        with stage(self.spark, f"Reading {_catalogs(specs)}") as note:
            unlisted: dict[str, dict[Identifier, DesiredTable]] = {}
            listings = self._listings_of(specs.values())
            size = ceil(sum(len(listing.children) for listing in listings) / self._tasks)
            for listing in listings:
                name, blocks = listing.spec.name, sources[listing.spec.name].desired.tables
                self._units[name], unlisted[name] = units_with_blocks(listing, max(size, 1), blocks)
            units = [unit for name in sources for unit in self._units[name]]
            self._contents.update({name: ComparedUnits() for name in sources})
            reader = UnitComparer(specs, contexts, self.mirrored, globs)
            for unit, part in zip(units, in_tasks(self.spark, units, reader), strict=True):
                self._contents[unit.spec.name].merge(part)
            read = {name: self._contents[name] for name in sources}
            note(count(sum(catalog.count for catalog in read.values()), "table"))
            failed = [(name, *failure) for name, catalog in read.items() for failure in catalog.failures]
            if failed:
                raise min(failed, key=lambda failure: failure[:2])[2]
            for name, catalog in read.items():
                catalog.compare(
                    contexts[name],
                    pairs(NO_MOVES, unlisted[name], catalog.unlisted_tables, catalog.snapshot.name_holders),
                )
                self._compare_maybe_moved(sources[name], contexts[name], catalog)
            note(_changes(catalog.compared for catalog in read.values()))
        return {
            name: ReadCatalog(replace(source, live=read[name].snapshot), contexts[name], read[name].compared)
            for name, source in sources.items()
        }

    def _compare_maybe_moved(self, source: CatalogInput, context: CatalogContext, read: ComparedUnits) -> None:
        """Pair the tables that a move may concern, over all units, and compare them."""
        blocks = {pair.desired.id: pair.desired for pair in read.maybe_moved if pair.desired is not None}
        live = {pair.live.id: pair.live for pair in read.maybe_moved if pair.live is not None}
        read.compared.compare(context, pairs(context.moves, blocks, live, read.snapshot.name_holders))

    @property
    def _tasks(self) -> int:
        return _UNITS_A_CORE * tasks_at_once(self.spark)

    def _listings_of(self, specs: Iterable[CatalogSpec]) -> list[Listing]:
        """Return the namespaces of some catalogs; each catalog is listed once."""
        catalogs = list(specs)
        require_reachable(catalogs)
        for listing in list_catalogs([spec for spec in catalogs if spec.name not in self._listings]):
            self._listings[listing.spec.name] = listing
        return [self._listings[spec.name] for spec in catalogs]

    def _scopes(self, source: CatalogInput) -> list[Scope]:
        """Return what each of the user's selections contains in a catalog."""
        return [scope for scope in map(source.selected, self.selections) if scope.patterns]

    def ask(self, catalogs: Mapping[str, ReadCatalog], probes: Probes) -> None:
        """Compare the open tables, spread evenly over tasks.

        Those that a move may concern are compared on the driver.
        """
        comparer = OpenTableComparer(
            {name: self.connections[name].spec for name in catalogs},
            {name: catalog.context for name, catalog in catalogs.items()},
            {name: frozenset(catalog.source.live.namespaces) for name, catalog in catalogs.items()},
            {name: catalog.planned_data for name, catalog in catalogs.items()},
        )
        total = sum(tables.count for name in catalogs for tables in self._contents[name].open)
        if total:
            size = ceil(total / max(probe_tasks(total), min(tasks_at_once(self.spark), total)))
            work = [batch for name in catalogs for batch in open_batches(name, self._contents[name].open, size)]
            for name in catalogs:
                self._contents[name].open.clear()
            with stage(self.spark, f"Looking at storage for {count(total, 'table')}") as note:
                for (name, _), part in zip(work, in_tasks(self.spark, work, comparer), strict=True):
                    catalogs[name].compared.merge(part)
                note(_changes(catalog.compared for catalog in catalogs.values()))
        for name, catalog in catalogs.items():
            connection = self.connections[name]
            with connection.spec.errors():
                comparer.compare_open(catalog.compared, name, connection.backend, probes)

    def live_tables(self, catalogs: Mapping[str, ReadCatalog]) -> Mapping[str, LiveTables]:
        """Return the live tables that the driver needs.

        Units are read again for those that changes may clash with.
        """
        lookups = {name: ClashLookup.of(catalog) for name, catalog in catalogs.items() if name not in self.mirrored}
        searches = {name: lookup for name, lookup in lookups.items() if lookup}
        tables = {name: dict(self._contents[name].tables) for name in catalogs}
        units = [replace(unit, blocks=()) for name in searches for unit in self._units[name]]
        if units:
            finder = ClashFinder({name: self.connections[name].spec for name in searches}, searches)
            with stage(self.spark, f"Looking for clashing tables in {_catalogs(searches)}"):
                for unit, clashing in zip(units, in_tasks(self.spark, units, finder), strict=True):
                    tables[unit.spec.name].update((table.id, table) for table in clashing)
        return {
            name: LiveTables(tables[name], self._contents[name].counts, self._contents[name].selected)
            for name in catalogs
        }


def _changes(compared: Iterable[TableComparison]) -> str:
    return count(sum(len(tables.outcomes.changes) for tables in compared), "change")


def _catalogs(names: Collection[str]) -> str:
    return next(iter(names)) if len(names) == 1 else f"{len(names)} catalogs"
