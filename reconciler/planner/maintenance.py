"""Decide which jobs a dataset needs: pure functions of what its block asks for and what it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from reconciler.arrow_types.conversion import text_code
from reconciler.model import locations, ownership
from reconciler.model.desired import DesiredCatalog, DesiredTable, Thresholds
from reconciler.model.display import count
from reconciler.model.figures import size
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.maintenance import (
    COMPACTION_READS,
    DIMENSIONS_A_CODE,
    LEAST_VECTORS,
    IndexType,
    LaterNeed,
    LiveIndex,
    Maintain,
    Metric,
    Upkeep,
    WantedIndex,
    total_bytes,
)
from reconciler.model.names import EVERYTHING, Scope, address
from reconciler.model.policies import Policies
from reconciler.model.reasons import NO_PARAMS, NoteCode, Params, ReasonCode, Why
from reconciler.planner.entries import Action, Blocked, Change, Fingerprint, Key, Note, UpkeepJob
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import CatalogSummary, ManifestRef, Options, Plan, WorkLimits
from reconciler.planner.schema_calls import dataset_code
from reconciler.planner.stored import blocked_commits
from reconciler.planner.views import ObjectView, view_of

Decision: TypeAlias = Change | Blocked | Note

_ROW_ADDRESS = 8
"""The bytes by which an index refers to a row."""
_COMMITS = {Action.COMPACT: 2}
"""The commits of an action that makes more than one: pylance reserves the ids of new fragments before it compacts."""


class UpkeepBlocks:
    """Finds the blocks and policies of a catalog that ask for upkeep, within ``select``."""

    def __init__(self, desired: DesiredCatalog, select: Scope = EVERYTHING) -> None:
        self._desired, self._select, self._policies = desired, select, Policies(desired.policies)

    def block_of(self, live: LiveTable) -> DesiredTable | None:
        """Return the block that asks for upkeep of a live table, or one that a policy makes; None without any.

        Policies skip tables with an owner.
        """
        table = self._desired.tables.get(live.id)
        if table is None and ownership.owner_of(live.properties) is None:
            policy = self._policies.of(live.id)
            table = None if policy is None else replace(policy.block, id=live.id)
        is_in = self._select.contains(live.id) and self._desired.scope.contains(live.id)
        return table if is_in and table is not None and table.maintain else None


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """A live table with the block that asks for upkeep, and the state of its data.

    ``upkeep`` is the storage probe's result if the data could not be inspected.
    """

    context: CatalogContext
    table: DesiredTable
    live: LiveTable
    upkeep: Upkeep | Storage

    def decisions(self) -> list[Decision]:
        """Return its jobs, or why there can be none, with the state of its entry."""
        foreign = self.context.why_foreign(self.live.properties)
        return jobs_of(self.context.catalog, self.table, self.live, self.upkeep, foreign, self._entry())

    def fingerprint(self) -> Fingerprint:
        """Return the state of its entry and its data, to record in the plan."""
        recorded = self.upkeep if isinstance(self.upkeep, Upkeep) else None
        return Fingerprint.of(self.context.catalog, "table", self.table.id, self._entry(), (), upkeep=recorded)

    def _entry(self) -> ObjectView | None:
        no_keys = ()  # jobs change no properties
        return view_of(self.live, no_keys, self.context.capabilities.safeguard)


def plan_jobs(
    manifest: ManifestRef,
    thresholds: Thresholds,
    options: Options,
    catalogs: Sequence[CatalogSummary],
    tables: Iterable[MaintainedTable],
) -> Plan:
    """Return the plan of the jobs that ``tables`` need, within the limits of ``options``."""
    decided = [(table, table.decisions()) for table in tables]
    decisions = [entry for _, entries in decided for entry in entries]
    jobs, left = _within_limits(options.limits, [entry for entry in decisions if isinstance(entry, Change)])
    blocked = tuple(entry for entry in decisions if isinstance(entry, Blocked))
    keys = {entry.key for entry in (*jobs, *blocked)}
    return Plan(
        manifest=manifest,
        catalogs=tuple(catalogs),
        changes=with_dependencies(jobs),
        blocked=blocked,
        notes=(*(entry for entry in decisions if isinstance(entry, Note)), *left),
        fingerprints=tuple(state for table, _ in decided for state in (table.fingerprint(),) if state.key in keys),
        thresholds=thresholds,
        options=options,
    )


def _within_limits(limits: WorkLimits, jobs: Sequence[Change]) -> tuple[list[Change], list[Note]]:
    """Return the jobs within the limits, and notes about the others."""
    taken: list[Change] = []
    left: dict[NoteCode, list[Change]] = {NoteCode.JOBS_LEFT: [], NoteCode.JOBS_TOO_LARGE: []}
    work, tables = 0, set[Key]()
    for change in jobs:
        cost = change.job.bytes if change.job else 0
        is_over = limits.max_bytes is not None and work + (cost or 0) > limits.max_bytes
        is_over |= limits.max_tables is not None and len(tables | {change.key}) > limits.max_tables
        if limits.max_bytes is not None and (cost is None or cost > limits.max_bytes):
            left[NoteCode.JOBS_TOO_LARGE].append(change)
        elif is_over:
            left[NoteCode.JOBS_LEFT].append(change)
        else:
            taken.append(change)
            tables.add(change.key)
            work += cost or 0
    texts = [] if limits.max_bytes is None else [size(limits.max_bytes)]
    texts += [] if limits.max_tables is None else [count(limits.max_tables, "table")]
    notes = []
    for code, excess in left.items():
        if excess:
            detail = texts[0] if code is NoteCode.JOBS_TOO_LARGE else " or ".join(texts)
            params = Params(count=len(excess), detail=detail, name=excess[0].address)
            notes.append(Note(catalog=excess[0].catalog, code=code, params=params))
    return taken, notes


def jobs_of(
    catalog: str,
    table: DesiredTable,
    live: LiveTable,
    probed: Upkeep | Storage,
    foreign: Why | None = None,
    entry: ObjectView | None = None,
) -> list[Decision]:
    """Return the jobs that a live table needs, in execution order, or the reason why it can have none.

    Args:
        catalog: the name of its catalog.
        table: the block that asks for upkeep.
        live: the entry.
        probed: the state of the data, or the failed probe.
        foreign: why the table is left alone; None if this manifest may change it.
        entry: the state of the entry to record in the plan.
    """
    return [*_DatasetJobs(catalog, table, live, foreign, entry).decisions(probed)]


class _DatasetJobs:
    """Decides which jobs one dataset needs, and why it cannot have them."""

    def __init__(
        self, catalog: str, table: DesiredTable, live: LiveTable, foreign: Why | None, entry: ObjectView | None
    ) -> None:
        self._catalog, self._table, self._live, self._foreign, self._entry = catalog, table, live, foreign, entry
        self._wanted: Maintain = table.maintain
        self._shown_location = locations.redact(live.location)

    def decisions(self, probed: Upkeep | Storage) -> Iterator[Decision]:
        """Yield the jobs and notes; with an obstacle to a job, the reason instead of all jobs.

        A dataset that cannot be inspected is blocked, unless its block has ``probe: false``. A job may copy rows of
        other places into the dataset, which a note then names.
        """
        if isinstance(probed, Storage):
            if self._table.probe:
                storage = {"storage": probed.kind, "detail": probed.detail}
                yield self._blocked(self._why_unreadable(probed)).model_copy(update=storage)
            return
        needed = [*self._needed_jobs(probed)]
        jobs = [decision for decision in needed if isinstance(decision, Change)]
        obstacle = self._obstacle(probed, jobs)
        yield from needed if obstacle is None else [decision for decision in needed if not isinstance(decision, Change)]
        if obstacle is not None:
            yield self._blocked(obstacle)
        elif jobs and probed.elsewhere:
            namespace, name = address(self._catalog, self._table.id[:-1]), self._table.id[-1]
            about: Params = {"where": namespace, "name": name, "count": 1, "names": probed.elsewhere}
            yield Note(catalog=self._catalog, code=NoteCode.READS_ELSEWHERE, params=about)
        if probed.cleanable:
            call = self._call_code("cleanup_old_versions(error_if_tagged_old_versions=False)")
            yield self._note(NoteCode.CLEANABLE, {"detail": size(probed.cleanable), "code": call})

    def _needed_jobs(self, upkeep: Upkeep) -> Iterator[Decision]:
        """Yield jobs in execution order, with notes and blocked indices in their places.

        First those that the dataset needs now, then those that these make necessary, then new indices.
        """
        is_compacted = self._wanted.needs_compaction(upkeep.mergeable)
        if is_compacted:
            yield self._compaction(ReasonCode.SMALL_FRAGMENTS, upkeep, upkeep)
        for index in self._wanted.indices_to_update(upkeep.rows, upkeep.indices, is_compacted=is_compacted):
            vectors = upkeep.vectors.get(index.columns[0], LEAST_VECTORS)
            if index.is_old:
                code = self._call_code(_creation_code(self._replacement(index)))
                yield self._blocked(
                    Why(ReasonCode.OLD_INDEX, {"name": index.columns[0], "kind": index.type, "code": code})
                )
            elif not index.rows and vectors < LEAST_VECTORS:
                yield self._too_few_rows(index.type, index.columns[0], LEAST_VECTORS, vectors)
            else:
                yield self._index_update(ReasonCode.INDEX_STALE, index, upkeep, upkeep.rows - index.rows)
        for need in upkeep.later:
            if need.mergeable:
                yield self._compaction(ReasonCode.SMALL_FRAGMENTS_LATER, upkeep, need)
            for index in upkeep.indices:
                if index.name in need.unindexed:
                    yield self._index_update(ReasonCode.INDEX_STALE_LATER, index, upkeep, need.unindexed[index.name])
        for requested in self._wanted.indices:  # last, since no compaction has to follow
            yield from self._index_decisions(requested, upkeep)

    def _replacement(self, index: LiveIndex) -> WantedIndex:
        """Return the index that the block requests in place of a vector index, else one with its parameters."""
        metric = None if index.metric is None else Metric(index.metric)
        like = WantedIndex(index.columns[0], IndexType(index.type), metric, None, index.num_sub_vectors)
        return next((requested for requested in self._wanted.indices if requested.column == like.column), like)

    def _compaction(self, code: ReasonCode, upkeep: Upkeep, need: Upkeep | LaterNeed) -> Change:
        """Return the job that merges the fragments which ``need`` counts, now or after other jobs."""
        limit = self._wanted.compact.max_small_fragments if self._wanted.compact else 0
        params, merged = Params(count=need.mergeable, more=need.fragments, limit=limit), need.mergeable_bytes
        reads = None if merged is None else COMPACTION_READS * merged
        return self._job(Action.COMPACT, Why(code, params), upkeep, reads, merged)

    def _index_decisions(self, requested: WantedIndex, upkeep: Upkeep) -> Iterator[Decision]:
        """Yield the job that builds an index, or why it cannot be built; nothing if it exists."""
        existing = [index for index in upkeep.indices if index.columns == (requested.column,)]
        if any(_matches(index, requested) for index in existing):
            return
        kind = _index_text(requested.type, requested.metric, requested.num_partitions, requested.num_sub_vectors)
        params = Params(name=requested.column, kind=kind)
        if existing:
            code, other = self._call_code(_creation_code(requested)), existing[0]
            detail = _index_text(other.type, other.metric, None, other.num_sub_vectors)
            yield self._blocked(Why(ReasonCode.OTHER_INDEX, {**params, "detail": detail, "code": code}))
            return
        problem = _index_problem(requested, upkeep)
        if problem is not None:
            yield self._blocked(Why(ReasonCode.NOT_INDEXABLE, {**params, "detail": problem}))
        elif (values := upkeep.vectors.get(requested.column, upkeep.rows)) < requested.least_rows:
            yield self._too_few_rows(requested.type, requested.column, requested.least_rows, values)
        else:
            reads = upkeep.column_bytes[requested.column]
            why = Why(ReasonCode.INDEX_MISSING, params)
            yield self._job(
                Action.BUILD_INDEX, why, upkeep, reads, _index_bytes(requested, upkeep), upkeep.rows, requested.name
            )

    def _too_few_rows(self, kind: str, column: str, least: int, values: int) -> Note:
        return self._note(NoteCode.TOO_FEW_ROWS, Params(kind=f"{kind} on {column}", limit=least, count=values))

    def _index_update(self, code: ReasonCode, index: LiveIndex, upkeep: Upkeep, lacking: int) -> Change:
        """Return the job that adds to an index the ``lacking`` rows that it does not cover.

        By estimate it reads the index and these rows' share of the columns, and writes the index grown by as much as
        its rows.
        """
        columns = total_bytes(upkeep.column_bytes.get(column, 0) for column in index.columns)
        reads = total_bytes([index.bytes, None if columns is None else columns * lacking // max(1, upkeep.rows)])
        writes = None if index.bytes is None else index.bytes * upkeep.rows // max(1, index.rows)
        limit = self._wanted.max_unindexed_rows or 0
        params = Params(name=", ".join(index.columns), kind=index.type, count=lacking, limit=limit)
        return self._job(Action.OPTIMIZE_INDEX, Why(code, params), upkeep, reads, writes, lacking, index.name)

    def _job(
        self,
        action: Action,
        why: Why,
        upkeep: Upkeep,
        reads: int | None,
        writes: int | None,
        rows: int = 0,
        index: str | None = None,
    ) -> Change:
        """Return one job.

        Args:
            action: what it does.
            why: the reason for it.
            upkeep: the state of the data that it is planned on.
            reads: about how many bytes it reads; None if unknown.
            writes: about how many bytes it writes; None if unknown.
            rows: how many rows it indexes.
            index: the name of its index, if it has one.
        """
        return Change(
            catalog=self._catalog,
            kind="table",
            identifier=self._table.id,
            action=action,
            code=why.code,
            params=why.params,
            source=self._table.source,
            before=self._entry,
            after=self._entry,
            dataset=upkeep.version,
            job=UpkeepJob(
                index=index,
                reads=reads,
                writes=writes,
                rows=rows,
                config=upkeep.config,
                indices=tuple(live_index.signature for live_index in upkeep.indices),
                wanted=self._wanted,
            ),
        )

    # ---- obstacles

    def _obstacle(self, upkeep: Upkeep, jobs: Sequence[Change]) -> Why | None:
        """Return why lancens cannot commit to the dataset what it needs; None if it can."""
        if not jobs:
            return None
        if self._foreign is not None:
            return self._foreign
        if self._live.managed_versioning:
            return Why(ReasonCode.SERVICE_COMMITS)
        if upkeep.damage is not None:
            return Why(ReasonCode.DATA_DAMAGED, {"location": self._shown_location, "detail": upkeep.damage})
        if upkeep.obstacle is not None:
            return Why(ReasonCode.CANNOT_COMMIT, {"location": self._shown_location, "detail": upkeep.obstacle})
        if upkeep.elsewhere and not self._wanted.copy_elsewhere:
            return Why(
                ReasonCode.COPIES_ELSEWHERE, {"location": self._shown_location, "detail": ", ".join(upkeep.elsewhere)}
            )
        return blocked_commits(self._live.location, upkeep.cleanup, _COMMITS.get(jobs[0].action, 1))

    def _why_unreadable(self, storage: Storage) -> Why:
        if storage.kind is StorageKind.DENIED:
            return Why(ReasonCode.STORAGE_DENIED, {"location": self._shown_location, "detail": storage.detail})
        detail = storage.detail or "it holds no dataset"
        return Why(ReasonCode.STORAGE_UNREADABLE, {"location": self._shown_location, "detail": detail})

    def _blocked(self, why: Why) -> Blocked:
        return Blocked(
            catalog=self._catalog,
            kind="table",
            identifier=self._table.id,
            code=why.code,
            params=why.params or NO_PARAMS,
            source=self._table.source,
            before=self._entry,
            location=self._live.location,
        )

    def _note(self, code: NoteCode, params: Params) -> Note:
        named: Params = {**params, "name": address(self._catalog, self._table.id)}
        return Note(catalog=self._catalog, code=code, params=named)

    def _call_code(self, method: str) -> str:
        """Return the code that calls ``method``, with its arguments, on the dataset."""
        return f"{dataset_code(self._live.location)}.{method}"


def _matches(index: LiveIndex, requested: WantedIndex) -> bool:
    """Return whether a live index has the parameters that the block requests.

    pylance trains fewer partitions than asked for where there are few rows, and splits them as they grow, so their
    number tells nothing.
    """
    if not requested.type.is_named(index.type):
        return False
    return not requested.type.is_vector or (
        index.metric == (requested.metric or Metric.L2) and requested.num_sub_vectors in (None, index.num_sub_vectors)
    )


def _index_problem(requested: WantedIndex, upkeep: Upkeep) -> str | None:
    """Return why an index that does not exist cannot be built, as a clause; None if it can."""
    if requested.column not in upkeep.column_bytes:
        return "the data has no such column"
    taken = next((index for index in upkeep.indices if index.name == requested.name), None)
    if taken is not None:
        return f"its name, {taken.name}, is that of the index on {', '.join(taken.columns)}"
    return upkeep.problems.get(requested.column)


def _index_bytes(requested: WantedIndex, upkeep: Upkeep) -> int | None:
    """Return about how many bytes an index takes; None if unknown.

    It holds the column, or for PQ a byte for each sub-vector, and the address of each row.
    """
    if not requested.type.is_pq:
        return total_bytes([upkeep.column_bytes[requested.column], upkeep.rows * _ROW_ADDRESS])
    codes = requested.num_sub_vectors or max(1, upkeep.dimensions[requested.column] // DIMENSIONS_A_CODE)
    return upkeep.rows * (codes + _ROW_ADDRESS)


def _index_text(kind: str, metric: str | None, partitions: int | None, sub_vectors: int | None) -> str:
    """Return the type of an index and what is known of its shape."""
    numbers = {"partition": partitions, "sub-vector": sub_vectors}
    counted = (count(number, noun) for noun, number in numbers.items() if number is not None)
    return " ".join((kind, *filter(None, [metric]), *counted))


def _creation_code(index: WantedIndex) -> str:
    """Return the code of the method call of pylance that replaces an index."""
    method = "create_index" if index.type.is_vector else "create_scalar_index"
    options = {
        "metric": index.metric and f'"{index.metric}"',
        "num_partitions": index.num_partitions,
        "num_sub_vectors": index.num_sub_vectors,
    }
    named = "".join(f", {key}={value}" for key, value in options.items() if value is not None)
    return f'{method}({text_code(index.column)}, "{index.type}"{named}, replace=True)'


def with_dependencies(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return jobs in the same order, each depending on the one before it of the same dataset."""
    jobs: list[Change] = []
    last: dict[object, int] = {}
    for change in changes:
        before = last.get(change.key)
        jobs.append(change.model_copy(update={"depends_on": () if before is None else (before,)}))
        last[change.key] = len(jobs) - 1
    return tuple(jobs)
