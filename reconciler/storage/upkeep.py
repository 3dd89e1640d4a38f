"""Measure the upkeep that a dataset needs, compact it, and build and update its indices.

Each commit follows the latest version of any writer, and is not made where it would set off the auto clean-up. No
index is dropped or replaced, and nothing is cleaned up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isqrt
from typing import Any

from reconciler.model import locations
from reconciler.model.errors import InvalidTableStateError
from reconciler.model.live import Storage
from reconciler.model.maintenance import (
    COMPACTION_READS,
    DIMENSIONS_A_CODE,
    LEAST_VECTORS,
    IndexType,
    LiveIndex,
    Maintain,
    Metric,
    Upkeep,
    WantedCompaction,
    WantedIndex,
)
from reconciler.storage import forecast
from reconciler.storage.commits import expect_written, rebased_versions
from reconciler.storage.needed import SYSTEM_INDEX
from reconciler.storage.opening import places_elsewhere
from reconciler.storage.pylance import in_memory, message_of, or_none
from reconciler.storage.reading import (
    checked_out_version,
    cleanup_of,
    damage_of,
    described_indices,
    examine,
    has_statistics,
    is_old_index,
    repair_of,
)
from reconciler.storage.rewrites import batch_rows, expect_same_rows
from reconciler.storage.segments import Executors, commit_segments, here, on_dataset, vectors_in

_UNKNOWN_TYPE = "Unknown"  # of indices that pylance 0.18 or older wrote; their files tell
_COMPACTION_COMMITS = 2  # one reserves the numbers of the new fragments


def upkeep_of(
    location: str, options: Mapping[str, str], maintain: Maintain, *, explain: bool = False
) -> Upkeep | Storage:
    """Return the figures of a dataset that ``maintain`` decides by, or the state of storage without one.

    ``explain`` also asks pylance what a clean-up of old versions that keeps tags would remove; that removes nothing.
    """

    def read(dataset: Any) -> Upkeep:
        current = [] if maintain.compact is None else forecast.fragments_of(dataset)
        tasks = [] if maintain.compact is None else _plan_compaction(dataset, current, maintain.compact)
        fragments = _fragments(tasks)
        rows, indices = dataset.count_rows(), _indices(dataset)
        indexed = {column for index in indices for column in index.columns}
        missing = [index for index in maintain.indices if index.column not in indexed]
        stale, is_due = maintain.stale_indices(rows, indices), maintain.needs_compaction(len(fragments))
        later = [*forecast.later_needs(current, maintain, indices)] if stale or is_due else []
        updated = {*(index.name for index in stale), *(name for need in later for name in need.unindexed)}
        columns = {column for index in indices if index.name in updated for column in index.columns}
        columns |= {index.column for index in missing}
        dimensions = {name: size for name in columns if (size := _dimension(dataset, name)) is not None}
        untrained = dimensions.keys() - {column for index in indices if index.rows for column in index.columns}
        problems = {
            index.column: problem for index in missing if (problem := _index_problem(dataset, index)) is not None
        }
        return Upkeep(
            rows=rows,
            fragments=len(dataset.get_fragments()),
            mergeable=len(fragments),
            mergeable_bytes=_bytes_of(dataset, fragments),
            indices=indices,
            column_bytes=_column_bytes(dataset, columns),
            dimensions=dimensions,
            config=_digest(dataset.config()),
            cleanup=cleanup_of(dataset),
            cleanable=_cleanable_bytes(dataset) if explain else 0,
            vectors={name: vectors_in(dataset, name, LEAST_VECTORS) for name in untrained - problems.keys()},
            problems=problems,
            obstacle=repair_of(dataset) or (_lost_by_compaction(dataset) if is_due else None),
            damage=damage_of(dataset, location, options) if columns or is_due else None,
            version=checked_out_version(dataset),
            elsewhere=tuple(map(locations.redact, places_elsewhere(location, dataset))),
            later=tuple(later),
        )

    return examine(location, options, read)


def _cleanable_bytes(dataset: Any) -> int:
    # By default, pylance 14 raises if a version that is old enough has a tag.
    return int(dataset.explain_cleanup_old_versions(error_if_tagged_old_versions=False).stats.bytes_removed)


def _digest(config: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]


def _bytes_of(dataset: Any, fragments: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the size of fragments; None if it is unknown."""
    sizes: list[int | None] = [file["file_size_bytes"] for fragment in fragments for file in fragment["files"]]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        return sum(known)
    if not has_statistics(dataset):
        return None
    # Old writers did not record the sizes of files, so the rows tell.
    rows = sum(fragment["physical_rows"] for fragment in fragments)
    total = sum(fragment.physical_rows for fragment in dataset.get_fragments())
    return int(sum(field.bytes_on_disk for field in dataset.stats.data_stats().fields) * rows // max(1, total))


def _indices(dataset: Any) -> tuple[LiveIndex, ...]:
    indices = []
    for index in described_indices(dataset):
        if index.name.startswith(SYSTEM_INDEX):
            continue
        kind = str(index.index_type)
        if kind == _UNKNOWN_TYPE:
            kind = (or_none(partial(dataset.stats.index_stats, index.name)) or {}).get("index_type", kind)
        details = index.details if isinstance(index.details, dict) else {}
        indices.append(
            LiveIndex(
                index.name,
                kind,
                tuple(index.field_names),
                index.num_rows_indexed,
                index.total_size_bytes,
                (details.get("metric_type") or "").lower() or None,
                details.get("compression", {}).get("num_sub_vectors"),
                is_old_index(index),
            )
        )
    return tuple(sorted(indices, key=lambda index: index.name))


def _column_bytes(dataset: Any, columns: Iterable[str]) -> dict[str, int | None]:
    fields = {column: field for column in columns if (field := _field(dataset, column)) is not None}
    if not has_statistics(dataset):
        return dict.fromkeys(fields)
    sizes = {field.id: field.bytes_on_disk for field in dataset.stats.data_stats().fields}
    return {column: sum(sizes.get(number, 0) for number in _field_ids(field)) for column, field in fields.items()}


def _field(dataset: Any, column: str) -> Any | None:
    field, fields = None, dataset.lance_schema.fields()
    for name in column.split("."):
        field = next((field for field in fields if field.name() == name), None)
        fields = field.children() if field is not None else []
    return field


def _field_ids(field: Any) -> list[int]:
    return [field.id(), *(number for child in field.children() for number in _field_ids(child))]


def _dimension(dataset: Any, column: str) -> int | None:
    """Return the length of a column's vectors; None if it holds none, or does not exist."""
    field = _field(dataset, column)
    return None if field is None else getattr(field.to_arrow().type, "list_size", None)


def _index_problem(dataset: Any, index: WantedIndex) -> str | None:
    """Return why pylance cannot build an index on a column that exists; None if it can."""
    field = _field(dataset, index.column)
    if field is None:
        return None
    at = dataset.schema.get_field_index(index.column.partition(".")[0])
    if index.type.is_vector:
        if _dimension(dataset, index.column) is None:
            return "it does not hold vectors"
        is_hamming, numbers = index.metric is Metric.HAMMING, str(field.to_arrow().type.value_type)
        if is_hamming and index.type not in (IndexType.IVF_FLAT, IndexType.IVF_HNSW_FLAT):
            return "`metric: hamming` is for IVF_FLAT and IVF_HNSW_FLAT"
        if is_hamming is not (numbers == "uint8"):
            return f"its vectors are of {numbers}; `metric: hamming` is for uint8, and the others are for floats"
    empty = in_memory(dataset.schema.empty_table().select([at]))
    try:
        _build(empty, index)  # which checks the type alone
    except (KeyError, TypeError) as error:  # pylance finds no column whose name has a backtick
        return "".join(map(str, error.args))
    except (OSError, RuntimeError, ValueError) as error:
        return message_of(error, "", {})
    return None


# ---- jobs ------------------------------------------------------------------------------------------------------------


def _plan_compaction(
    dataset: Any, fragments: Sequence[forecast.Fragment], compaction: WantedCompaction, most_bytes: int | None = None
) -> list[Any]:
    from lance.optimize import Compaction

    # pylance counts rows alone, and would rewrite all fragments of wide rows in every run.
    ids = (fragment.fragment_id for fragment in dataset.get_fragments())
    left = forecast.left_alone(fragments, compaction)
    options: Any = {
        "target_rows_per_fragment": compaction.target_rows,
        "max_bytes_per_file": compaction.target_bytes,
        "batch_size": batch_rows(dataset.get_fragments()),
        "excluded_fragment_ids": [number for number, is_left in zip(ids, left, strict=True) if is_left],
    }
    tasks: list[Any] = Compaction.plan(dataset, options).tasks
    if most_bytes is not None:
        size = _bytes_of(dataset, _fragments(tasks))
        if size is None:
            return []
        if size > most_bytes:
            options["max_source_bytes"] = most_bytes
            tasks = Compaction.plan(dataset, options).tasks
    return tasks


def _fragments(tasks: Iterable[Any]) -> list[Mapping[str, Any]]:
    # `task.fragments` of pylance 14 is a TypeError where the writer (0.7.5) did not count deleted rows.
    return [fragment for task in tasks for fragment in json.loads(task.json())["task"]["fragments"]]


def compact(
    location: str,
    options: Mapping[str, str],
    compaction: WantedCompaction,
    most_bytes: int | None,
    executors: Executors | None = None,
) -> int:
    """Merge small fragments in one commit that reads ``most_bytes`` at most; return how many were rewritten.

    ``executors`` rewrite them, and compare the rows; this process commits.

    Raises:
        InvalidTableStateError: rows would change.
        ConcurrentModificationError: another writer changed rows of these fragments.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as for :func:`rebased_versions`.
    """
    from lance.optimize import Compaction

    with rebased_versions(location, options, _COMPACTION_COMMITS) as dataset:
        loss = _lost_by_compaction(dataset)
        if loss is not None:
            raise InvalidTableStateError(f"{locations.redact(location)}: {loss}")
        rewrite = partial(on_dataset, location, options, dataset, partial(_rewrite, location, options))
        most = None if most_bytes is None else most_bytes // COMPACTION_READS
        tasks = _plan_compaction(dataset, forecast.fragments_of(dataset), compaction, most)
        results = (executors or here)(rewrite, tasks)
        for result in results:
            expect_written(location, result.new_fragments)
        return int(Compaction.commit(dataset, results).fragments_removed) if results else 0


def _lost_by_compaction(dataset: Any) -> str | None:
    """Return which indices of a clone a compaction would break; None if there are none.

    pylance 14 writes their new files in the directory of the clone, and looks for them in that of the base.
    """
    names = [
        f"`{index.name}`"
        for index in described_indices(dataset)
        if not index.name.startswith(SYSTEM_INDEX) and any(segment.base_id is not None for segment in index.segments)
    ]
    return (
        f"after a compaction, pylance looks in the base of this clone for the files of {', '.join(names)}, which it "
        "writes here; build them here first, by `optimize.optimize_indices(retrain=True)`"
        if names
        else None
    )


def _rewrite(location: str, options: Mapping[str, str], dataset: Any, task: Any) -> Any:
    result = task.execute(dataset)
    expect_same_rows(location, options, dataset, result)
    return result


def build_index(
    location: str, options: Mapping[str, str], index: WantedIndex, executors: Executors | None = None
) -> None:
    """Build an index that does not exist, in one commit; on ``executors`` in segments.

    Raises:
        InvalidTableStateError: an index of this name exists; or as for :func:`rebased_versions`.
        ConcurrentModificationError: another writer's commit is in the way.
    """
    with rebased_versions(location, options) as dataset:
        if executors is None:
            _build(dataset, index)
        else:
            shape = _vector_parameters(dataset, index) if index.type.is_vector else {}
            commit_segments(location, options, dataset, index, shape, executors)


def _build(dataset: Any, index: WantedIndex) -> None:
    named = index.column, index.type.value, index.name
    if index.type.is_vector:
        dataset.create_index(*named, replace=False, **_vector_parameters(dataset, index))
    else:
        dataset.create_scalar_index(*named, replace=False)


def _vector_parameters(dataset: Any, index: WantedIndex) -> dict[str, Any]:
    """Return the parameters of a vector index; a sub-vector has 16 numbers by default."""
    shape: dict[str, Any] = {"num_partitions": index.num_partitions or max(1, isqrt(dataset.count_rows()))}
    if index.metric is not None:
        shape["metric"] = index.metric.value
    if index.type.is_pq:
        size = _dimension(dataset, index.column) or 1
        divisor = next((number for number in (DIMENSIONS_A_CODE, DIMENSIONS_A_CODE // 2) if size % number == 0), 1)
        shape["num_sub_vectors"] = index.num_sub_vectors or size // divisor
    return shape


def optimize_index(location: str, options: Mapping[str, str], name: str, executors: Executors | None = None) -> None:
    """Add the rows that an index does not cover to it, in one commit; one of ``executors`` makes it.

    Raises:
        ConcurrentModificationError: another writer's commit is in the way.
        InvalidTableStateError: pylance left the index as it was; or as for :func:`rebased_versions`.
        PermissionDeniedError, ServiceUnavailableError: as for :func:`rebased_versions`.
    """
    (executors or here)(partial(_optimize, location, options), [name])


def _optimize(location: str, options: Mapping[str, str], name: str) -> None:
    with rebased_versions(location, options) as dataset:
        lacking = dataset.count_rows() - sum(index.rows for index in _indices(dataset) if index.name == name)
        before = _segments(dataset, name)
        dataset.optimize.optimize_indices(index_names=[name])
        is_same = _segments(dataset, name) == before
    if lacking and is_same:  # pylance only logs that it cannot read a scalar index, and commits nothing
        raise InvalidTableStateError(
            f"{locations.redact(location)}: pylance did not update index {name}, which lacks {lacking:,} rows; its "
            "files are lost or cannot be read: create it again with `replace=True`"
        )


def _segments(dataset: Any, name: str) -> set[str]:
    return {segment.uuid for index in described_indices(dataset) if index.name == name for segment in index.segments}
