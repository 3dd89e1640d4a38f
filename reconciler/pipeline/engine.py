"""The Spark engine of ``lancens plan``: the same planner, with the tables compared where they are read.

Desired and live tables meet in a full outer join, and the executors compare them one by one. What comes back is what
has to change, and counts; the driver decides what only the whole catalog can decide and puts it in order, with the
code of the local engine. So the plan is the same, byte for byte. Namespaces are few; they are compared on the driver.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reconciler import locations
from reconciler.display import count
from reconciler.errors import CatalogError
from reconciler.names import Identifier, split
from reconciler.operations.connections import CatalogSpec, Connection, open_connections, places_of
from reconciler.operations.facts import ask_occupants, ask_storage, check_selection, schemas_to_show
from reconciler.operations.plan import plan_options, reference, selected_catalogs
from reconciler.pipeline import rows
from reconciler.pipeline.desired import desired_tables
from reconciler.pipeline.live_state import LiveState, Lookup, TablesOnSpark
from reconciler.pipeline.progress import stage
from reconciler.pipeline.schemas import INT, STRING, Row, record_batch, spark_schema
from reconciler.planner import assemble
from reconciler.planner.catalog import CatalogPlan, conclude
from reconciler.planner.comparison import Comparison, Outcomes, comparison_of
from reconciler.planner.entries import Action
from reconciler.planner.facts import CatalogInput, Facts, StorageQuestion, storage_question
from reconciler.planner.live_tables import LiveTables, TablesInMemory
from reconciler.planner.places import hide_places
from reconciler.planner.plan import Options, Plan
from reconciler.planner.safety import check_removals
from reconciler.state import DEFAULT_PARALLELISM, DesiredTable, LiveTable, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest

__all__ = ["plan_on_spark"]

_PAIRS_A_PARTITION = 50_000
_SHUFFLE = "spark.sql.shuffle.partitions"
_COMPARED = pa.schema([("catalog", STRING), ("part", pa.binary()), ("error", STRING), ("code", INT)])


@dataclass(slots=True)
class _Compared:
    """What comparing some tables of a catalog came to.

    ``schemas`` are those the catalog will be told of; ``counts`` says how many live tables are in each namespace.
    """

    outcomes: Outcomes = field(default_factory=Outcomes)
    schemas: Counter[Schema] = field(default_factory=Counter)
    counts: Counter[Identifier] = field(default_factory=Counter)

    def merge(self, other: _Compared) -> None:
        self.outcomes.merge(other.outcomes)
        self.schemas.update(other.schemas)
        self.counts.update(other.counts)


def plan_on_spark(
    spark: SparkSession,
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    adopt: bool = False,
    take_over: bool = False,
    allow_mass_removal: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
) -> Plan:
    """Return the plan that :func:`reconciler.plan` returns, made on Spark.

    Args:
        spark: the session to work in.
        parallelism: how many requests and storage probes each task runs at once.

    The other arguments and the errors raised are those of :func:`reconciler.plan`.
    """
    selection, concerned = selected_catalogs(manifest, select)
    with ExitStack() as stack:
        connections = stack.enter_context(open_connections(manifest, concerned, parallelism=parallelism))
        specs = [connection.spec for connection in connections.values()]
        live = stack.enter_context(LiveState(spark, specs))
        live.read(_catalogs(specs))
        sources = {
            name: CatalogInput(
                connection.desired,
                live.snapshot(name),
                connection.backend.capabilities,
                connection.spec.impl,
                options=plan_options(connection, selection, adopt=adopt, take_over=take_over),
                service=connection.service,
            )
            for name, connection in connections.items()
        }
        nothing = TablesInMemory({})
        asked = [(source, TablesOnSpark(live, name, {}, nothing)) for name, source in sources.items()]
        check_selection(select, asked)
        parts = _compare(spark, specs, sources, live)
        found = live.find({name: _lookup(source, parts[name]) for name, source in sources.items()})
        plans = [
            _conclude(
                source,
                connections[name],
                parts[name],
                TablesOnSpark(
                    live, name, parts[name].counts, TablesInMemory({table.id: table for table in found[name]})
                ),
            )
            for name, source in sources.items()
        ]
    made = assemble(
        reference(manifest),
        manifest.thresholds,
        plans,
        Options(select=tuple(select), adopt=adopt, take_over=take_over),
    )
    if not allow_mass_removal:
        check_removals(made)
    return hide_places(made, places_of(connections.values()))


def _lookup(source: CatalogInput, part: _Compared) -> Lookup:
    """Return the live tables that new objects of the plan may clash with."""
    new = source.desired.namespaces.keys() - source.live.namespaces.keys()
    return Lookup(
        frozenset(new if source.capabilities.one_name_space else ()),
        frozenset(
            locations.normalise(change.after.location)
            for change in part.outcomes.changes
            if change.action is Action.CREATE_TABLE and change.after and change.after.location
        ),
    )


def _conclude(source: CatalogInput, connection: Connection, part: _Compared, tables: LiveTables) -> CatalogPlan:
    """Plan one catalog of what comparing its tables came to."""
    backend = connection.backend
    with connection.spec.errors():
        notes = backend.schema_notes(part.schemas.elements())
        occupants = ask_occupants(backend, source, backend.parallelism)
        leftovers = backend.leftovers(source.desired.scope)
    source = replace(
        source,
        live=replace(source.live, notes=(*source.live.notes, *notes)),
        facts=Facts(occupants=occupants, leftovers=leftovers),
    )
    return conclude(source, part.outcomes, tables)


# ---- comparing on the executors --------------------------------------------------------------------------------------


def _compare(
    spark: SparkSession, specs: Sequence[CatalogSpec], sources: Mapping[str, CatalogInput], live: LiveState
) -> Mapping[str, _Compared]:
    """Return, for each catalog, what comparing all its tables came to.

    Raises:
        CatalogError: a catalog could not say where a table goes.
    """
    from pyspark import StorageLevel

    desired = [source.desired for source in sources.values()]
    pairs = live.table_count + sum(len(catalog.tables) for catalog in desired)
    partitions = ceil(pairs / _PAIRS_A_PARTITION) or 1
    there = live.tables.selectExpr("catalog", f"{rows.KEY} AS key", "location", "properties")
    comparisons = {name: comparison_of(source) for name, source in sources.items()}
    comparer = _Comparer(comparisons, {spec.name: spec for spec in specs})
    tables = desired_tables(spark, desired).join(there, ["catalog", "key"], "full_outer")
    with _shuffling(spark, partitions):
        compared = tables.mapInArrow(comparer, spark_schema(_COMPARED)).persist(StorageLevel.DISK_ONLY)
    parts = {name: _Compared() for name in sources}
    try:
        with stage(spark, f"Comparing the tables of {_catalogs(specs)}") as progress:
            compared.count()
            # A partition at a time, so that a plan with a million new tables need not fit into the driver's heap twice.
            for row in compared.toLocalIterator():
                if row["error"] is not None:
                    raise CatalogError(row["error"], row["code"])
                parts[row["catalog"]].merge(pickle.loads(row["part"]))  # noqa: S301 - our own
            changes = sum(len(part.outcomes.changes) for part in parts.values())
            progress.note(count(changes, "change"))
    finally:
        compared.unpersist()
    return parts


@contextmanager
def _shuffling(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Have joins planned in the block make this many partitions: each costs as much as comparing a thousand pairs."""
    before = spark.conf.get(_SHUFFLE)
    spark.conf.set(_SHUFFLE, partitions)
    try:
        yield
    finally:
        spark.conf.set(_SHUFFLE, before or "200")


@dataclass(frozen=True, slots=True)
class _Comparer:
    """Compares the tables of a partition; runs on the executors."""

    comparisons: Mapping[str, Comparison]
    specs: Mapping[str, CatalogSpec]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what each batch came to, in the columns of ``_COMPARED``."""
        for batch in batches:
            pairs: dict[str, list[tuple[DesiredTable | None, LiveTable | None]]] = {}
            for row in batch.to_pylist():
                pairs.setdefault(row["catalog"], []).append(_pair(row))
            answers = [self._answer(catalog, found) for catalog, found in pairs.items()]
            if answers:
                yield record_batch(answers, _COMPARED)

    def _answer(self, catalog: str, pairs: Sequence[tuple[DesiredTable | None, LiveTable | None]]) -> Row:
        try:
            return {"catalog": catalog, "part": pickle.dumps(self._compare(catalog, pairs))}
        except CatalogError as error:
            return {"catalog": catalog, "error": str(error), "code": error.code}

    def _compare(self, catalog: str, pairs: Sequence[tuple[DesiredTable | None, LiveTable | None]]) -> _Compared:
        comparison = self.comparisons[catalog]
        part = _Compared()
        asked = [
            question
            for desired, live in pairs
            if desired is not None and (question := storage_question(desired, live, comparison.select)) is not None
        ]
        found = self._ask(catalog, asked)
        registered = {live.id for _, live in pairs if live is not None}
        part.schemas.update(schemas_to_show(asked, found, registered))
        part.counts.update(identifier[:-1] for identifier in registered)
        for desired, live in pairs:
            comparison.add(part.outcomes, desired, live, found.get(desired.id) if desired else None)
        return part

    def _ask(self, catalog: str, asked: Sequence[StorageQuestion]) -> Mapping[Identifier, Any]:
        if not asked:
            return {}
        spec = self.specs[catalog]
        with spec.connect() as backend:
            return ask_storage(backend, asked, spec.parallelism)


def _pair(row: Mapping[str, Any]) -> tuple[DesiredTable | None, LiveTable | None]:
    desired = None if row["block"] is None else pickle.loads(row["block"])  # noqa: S301 - our own
    live = None if row["location"] is None else LiveTable(split(row["key"]), row["location"], dict(row["properties"]))
    return desired, live


def _catalogs(specs: Sequence[CatalogSpec]) -> str:
    return specs[0].name if len(specs) == 1 else f"{len(specs)} catalogs"
