"""The Spark engine of ``lancens plan``: the same planner, with the tables compared where they are read.

Desired and live tables meet in a full outer join, and the executors compare them one by one. What comes back is what
has to change, and counts; the driver decides what only the whole catalog can decide and puts it in order, with the
code of the local engine. So the plan is the same, byte for byte. Namespaces are few; they are compared on the driver.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reconciler.display import count
from reconciler.errors import CatalogError
from reconciler.names import Identifier, folded, split
from reconciler.operations.connections import CatalogSpec, Connection, open_connections, places_of
from reconciler.operations.facts import (
    ask_held,
    ask_occupants,
    ask_storage,
    check_selection,
    links_to,
    missing_blocks,
    names_kept,
    schemas_to_show,
)
from reconciler.operations.plan import plan_options, reference, selected_catalogs
from reconciler.pipeline import rows
from reconciler.pipeline.desired import desired_tables
from reconciler.pipeline.live_state import LiveState, Lookup, TablesOnSpark
from reconciler.pipeline.progress import stage
from reconciler.pipeline.schemas import INT, STRING, Row, record_batch, spark_schema
from reconciler.planner import assemble
from reconciler.planner.catalog import CatalogPlan, compare_namespaces, conclude
from reconciler.planner.comparison import Comparison, Outcomes, comparison_of
from reconciler.planner.entries import Action
from reconciler.planner.facts import (
    CatalogInput,
    Facts,
    StorageQuestion,
    TableFacts,
    names_in_question,
    storage_question,
)
from reconciler.planner.live_tables import LiveTables, TablesInMemory
from reconciler.planner.mirrors import waves
from reconciler.planner.moves import Pair, pairs
from reconciler.planner.places import hide_places
from reconciler.planner.plan import Options, Plan
from reconciler.planner.planning import Planning
from reconciler.planner.safety import check_removals
from reconciler.state import (
    DEFAULT_PARALLELISM,
    Capabilities,
    DesiredNamespace,
    DesiredTable,
    LiveTable,
    Schema,
    Storage,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest

__all__ = ["plan_on_spark"]

_PAIRS_A_PARTITION = 50_000
_SHUFFLE = "spark.sql.shuffle.partitions"
_NOTHING_KEPT: Mapping[str, Mapping[Identifier, Identifier]] = {}
_COMPARED = pa.schema([("catalog", STRING), ("part", pa.binary()), ("error", STRING), ("code", INT)])


@dataclass(slots=True)
class _Compared:
    """What comparing some tables of a catalog came to.

    ``aside`` are the tables that may have had another name: what they have under it is in another row. ``schemas`` are
    those the catalog will be told of; ``counts`` says how many live tables are in each namespace; ``missing`` are the
    wanted tables that no scan found.
    """

    outcomes: Outcomes = field(default_factory=Outcomes)
    aside: list[Pair] = field(default_factory=list)
    schemas: Counter[Schema] = field(default_factory=Counter)
    counts: Counter[Identifier] = field(default_factory=Counter)
    missing: set[Identifier] = field(default_factory=set)

    def merge(self, other: _Compared) -> None:
        self.outcomes.merge(other.outcomes)
        self.aside += other.aside
        self.schemas.update(other.schemas)
        self.counts.update(other.counts)
        self.missing |= other.missing


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
        desired = {name: connection.desired for name, connection in connections.items()}
        mirrored = {one.mirror.origin for one in desired.values() if one.mirror is not None}
        planning, sources = Planning(), dict[str, CatalogInput]()
        for names in waves(desired):
            group = {
                name: CatalogInput(
                    connections[name].desired,
                    live.snapshot(name),
                    _capabilities(connections[name]),
                    connections[name].spec.impl,
                    options=plan_options(connections[name], selection, adopt=adopt, take_over=take_over),
                    service=connections[name].service,
                )
                for name in names
            }
            for source, plan in _planned(spark, group, connections, live, planning):
                # What others mirror is paired here, so its tables have to be.
                name = source.desired.name
                tables = live.tables_of(name) if name in mirrored else {}
                planning.add(replace(source, live=replace(source.live, tables=tables)), plan)
                sources[name] = source
        nothing = TablesInMemory({})
        asked = [(source, TablesOnSpark(live, name, {}, nothing)) for name, source in sources.items()]
        check_selection(select, asked)
    made = assemble(
        reference(manifest),
        manifest.thresholds,
        planning.plans(),
        Options(select=tuple(select), adopt=adopt, take_over=take_over),
    )
    if not allow_mass_removal:
        check_removals(made)
    return hide_places(made, places_of(connections.values()))


def _planned(
    spark: SparkSession,
    own: Mapping[str, CatalogInput],
    connections: Mapping[str, Connection],
    live: LiveState,
    planning: Planning,
    kept: Mapping[str, Mapping[Identifier, Identifier]] = _NOTHING_KEPT,
) -> Iterator[tuple[CatalogInput, CatalogPlan]]:
    """Yield catalogs with what they are to have by their mirrors, and their plans. None mirrors another of them.

    ``kept`` are the names that the services of some of them keep in another form.
    """
    sources = {name: planning.with_mirror(source, kept.get(name, {})) for name, source in own.items()}
    parts = _compare(spark, [connections[name].spec for name in sources], sources, live)
    for name, source in sources.items():
        _compare_aside(source, connections[name], parts[name])
    links = {name: links_to(_places(part), ()) for name, part in parts.items()}
    found = live.find({name: _lookup(source, parts[name], links[name]) for name, source in sources.items()})
    odd: dict[str, Mapping[Identifier, Identifier]] = {}
    for name, source in sources.items():
        with connections[name].spec.errors():
            missing = _missing(source, parts[name])
            there = [*source.live.namespaces, *(table.id for table in found[name])]
            names = names_kept(connections[name].backend, missing, there)
        if names:
            odd[name] = names
    again = _planned(spark, {name: own[name] for name in odd}, connections, live, planning, odd) if odd else iter(())
    for name, source in sources.items():
        if name in odd:
            yield next(again)
            continue
        leads = links_to(_places(parts[name]), found[name])
        here = TablesInMemory({table.id: table for table in found[name]}, leads)
        tables = TablesOnSpark(live, name, parts[name].counts, here)
        yield source, _conclude(source, connections[name], parts[name], tables, leads)


def _capabilities(connection: Connection) -> Capabilities:
    with connection.spec.errors():
        return connection.backend.asked_capabilities()


def _compare_aside(source: CatalogInput, connection: Connection, part: _Compared) -> None:
    """Compare the tables that may have had another name, now that all their rows are together."""
    comparison = comparison_of(source)
    blocks = {pair.desired.id: pair.desired for pair in part.aside if pair.desired is not None}
    live = {pair.live.id: pair.live for pair in part.aside if pair.live is not None}
    together = [*pairs(comparison.moves, blocks, live)]

    @contextmanager
    def connect() -> Iterator[Backend]:
        with connection.spec.errors():
            yield connection.backend

    _add(part, comparison, together, source.live.namespaces, _written(source), connect)


def _written(source: CatalogInput) -> Mapping[Identifier, Storage]:
    return source.mirrored.written if source.mirrored is not None else {}


def _questions(comparison: Comparison, found: Iterable[Pair]) -> Iterator[StorageQuestion]:
    for pair in found:
        question = storage_question(pair, comparison.select)
        if question is not None:
            yield question


def _add(
    part: _Compared,
    comparison: Comparison,
    together: Sequence[Pair],
    spaces: Collection[Identifier],
    written: Mapping[Identifier, Storage],
    connect: Callable[[], AbstractContextManager[Backend]],
) -> None:
    """Add to ``part`` what comparing some tables comes to.

    ``spaces`` are the live namespaces, ``written`` is what storage will hold by the plan of another catalog.
    """
    asked = [*_questions(comparison, together)]
    names = [*names_in_question(together, comparison.select)]
    found: Mapping[Identifier, TableFacts] = {}
    held: Mapping[Identifier, str] = {}
    if asked or names:
        with connect() as backend:
            found = ask_storage(backend, asked, backend.parallelism, written)
            held = ask_held(backend, names, spaces, backend.parallelism)
    part.schemas.update(schemas_to_show(asked, found))
    for pair in together:
        part.counts.update(live.id[:-1] for live in (pair.live, pair.origin) if live is not None)
        if pair.desired is None:
            comparison.add(part.outcomes, pair, None)
            continue
        if pair.live is None and not pair.desired.absent:
            part.missing.add(pair.desired.id)
        name = pair.desired.id
        comparison.add(part.outcomes, replace(pair, held=held.get(name, "")), found.get(name))


def _missing(source: CatalogInput, part: _Compared) -> list[DesiredNamespace | DesiredTable]:
    """Return the blocks of what should be there and was not found."""
    blocks = missing_blocks(source.desired, source.live)
    return [block for block in blocks if isinstance(block, DesiredNamespace) or block.id in part.missing]


def _places(part: _Compared) -> list[str | None]:
    """Return where the tables of the plan will be."""
    return [change.after.location for change in part.outcomes.changes if change.after]


def _lookup(source: CatalogInput, part: _Compared, links: Mapping[str, str]) -> Lookup:
    """Return the live tables that new objects of the plan may clash with, or be in other capitals."""
    new = source.desired.namespaces.keys() - source.live.namespaces.keys()
    place_of = Facts(places=links).place_of
    return Lookup(
        frozenset(new if source.capabilities.one_name_space else ()),
        frozenset(
            place_of(change.after.location)
            for change in part.outcomes.changes
            if change.action in (Action.CREATE_TABLE, Action.REGISTER_TABLE) and change.after and change.after.location
        ),
        frozenset(() if source.capabilities.folds_case else map(folded, part.missing)),
    )


def _conclude(
    source: CatalogInput, connection: Connection, part: _Compared, tables: LiveTables, links: Mapping[str, str]
) -> CatalogPlan:
    """Plan one catalog of what comparing its tables came to."""
    backend, namespaces = connection.backend, compare_namespaces(source)
    with connection.spec.errors():
        notes = backend.schema_notes(part.schemas.elements())
        occupants = ask_occupants(backend, source, namespaces.drops, backend.parallelism)
        leftovers = backend.leftovers(source.desired.scope)
    source = replace(
        source,
        live=replace(source.live, notes=(*source.live.notes, *notes)),
        facts=Facts(occupants=occupants, leftovers=leftovers, places=links),
    )
    return conclude(source, part.outcomes, namespaces, tables)


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
    tables_at_most = live.table_count + sum(len(catalog.tables) for catalog in desired)
    partitions = ceil(tables_at_most / _PAIRS_A_PARTITION) or 1
    own = live.tables.filter(live.tables.catalog.isin(*sources))
    there = own.selectExpr("catalog", f"{rows.KEY} AS key", "location", "properties")
    comparisons = {name: comparison_of(source) for name, source in sources.items()}
    spaces = {name: frozenset(source.live.namespaces) for name, source in sources.items()}
    written = {name: _written(source) for name, source in sources.items()}
    comparer = _Comparer(comparisons, {spec.name: spec for spec in specs}, spaces, written)
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
    """Compares the tables of a partition; runs on the executors. ``spaces`` are the live namespaces of catalogs."""

    comparisons: Mapping[str, Comparison]
    specs: Mapping[str, CatalogSpec]
    spaces: Mapping[str, frozenset[Identifier]]
    written: Mapping[str, Mapping[Identifier, Storage]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what each batch came to, in the columns of ``_COMPARED``."""
        for batch in batches:
            tables: dict[str, list[Pair]] = {}
            for row in batch.to_pylist():
                tables.setdefault(row["catalog"], []).append(_pair(row))
            answers = [self._answer(catalog, found) for catalog, found in tables.items()]
            if answers:
                yield record_batch(answers, _COMPARED)

    def _answer(self, catalog: str, tables: Sequence[Pair]) -> Row:
        try:
            return {"catalog": catalog, "part": pickle.dumps(self._compare(catalog, tables))}
        except CatalogError as error:
            return {"catalog": catalog, "error": str(error), "code": error.code}

    def _compare(self, catalog: str, tables: Sequence[Pair]) -> _Compared:
        comparison, part = self.comparisons[catalog], _Compared()
        together: list[Pair] = []
        for pair in tables:
            one = pair.desired or pair.live
            is_aside = one is not None and comparison.moves and comparison.moves.concerns(one.id)
            (part.aside if is_aside else together).append(pair)
        _add(part, comparison, together, self.spaces[catalog], self.written[catalog], self.specs[catalog].connect)
        return part


def _pair(row: Mapping[str, Any]) -> Pair:
    desired = None if row["block"] is None else pickle.loads(row["block"])  # noqa: S301 - our own
    live = None if row["location"] is None else LiveTable(split(row["key"]), row["location"], dict(row["properties"]))
    return Pair(desired, live)


def _catalogs(specs: Sequence[CatalogSpec]) -> str:
    return specs[0].name if len(specs) == 1 else f"{len(specs)} catalogs"
