"""Indices built in segments: each covers some fragments, and one commit publishes the segment that they merge into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from reconciler.model.maintenance import IndexType, Metric, WantedIndex
from reconciler.storage.pylance import translated

Executors: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""A callable that runs a function for each item, here or in other processes, and returns ordered results."""

_SEGMENT_ROWS = 4 * 1024 * 1024
"""About how many rows a segment covers."""
_CODEWORDS = 256
_SAMPLE_RATE = 256  # per partition and codeword, as pylance itself trains
ONE_TASK = frozenset({IndexType.IVF_RQ, IndexType.IVF_SQ, IndexType.IVF_HNSW_SQ})
"""Segments of these must share a rotation, or the bounds of their codes, for which pylance 14 has no public call.

It merges codes of different bounds without an error, and searches then miss most neighbours."""


def here(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
    """Call ``act`` with each item in this process."""
    return [*map(act, work)]


def commit_segments(
    location: str,
    options: Mapping[str, str],
    dataset: Any,
    index: WantedIndex,
    shape: Mapping[str, Any],
    executors: Executors,
) -> None:
    """Build an index on ``executors``, and commit it to ``dataset`` once.

    ``shape`` are its parameters. Segments that were merged stay in storage; no version names them.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
        BackendError: the same from an executor.
    """
    at = partial(on_dataset, location, options, dataset)
    groups, model = _groups(dataset), dict[str, Any]()
    if _is_one_task(index):
        groups = [[number for group in groups for number in group]]
    if index.type.is_vector and len(groups) > 1:
        (model,) = executors(partial(at, _train_model), [(index, shape)])
    parameters = {"name": index.name, "replace": False, **shape, **model}
    segments = executors(partial(at, _build_segment), [(index, parameters, group) for group in groups])
    if len(segments) > 1:
        segments = executors(partial(at, _merge_segments), [segments])
    dataset.commit_existing_index_segments(index.name, index.column, segments)


def _is_one_task(index: WantedIndex) -> bool:
    # For vectors in a struct pylance 14 trains no model to share, and for `dot` it trains a codebook of the residuals
    # that the segments do not encode.
    is_nested = index.type.is_vector and "." in index.column
    return is_nested or index.type in ONE_TASK or (index.type.is_pq and index.metric is Metric.DOT)


def on_dataset(
    location: str, options: Mapping[str, str], dataset: Any, act: Callable[[Any, Any], Any], item: Any
) -> Any:
    """Call ``act`` with a dataset and one item of work; errors are those of :func:`translated`."""
    with translated(location, options):
        return act(dataset, item)


def _groups(dataset: Any) -> list[list[int]]:
    """Return the numbers of the fragments for each segment."""
    groups: list[list[int]] = []
    rows = _SEGMENT_ROWS
    for fragment in dataset.get_fragments():
        if rows >= _SEGMENT_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(fragment.fragment_id)
        rows += fragment.physical_rows
    return groups


def _train_model(dataset: Any, item: tuple[WantedIndex, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the centroids, and the codebook, that segments must share to be merged."""
    from lance.indices import IndicesBuilder

    index, shape = item
    # As pylance does, train no more than there are vectors, which may be few among the rows.
    partitions = vectors_in(dataset, index.column, shape["num_partitions"])
    builder = IndicesBuilder(dataset, index.column)
    rate = max(1, min(_SAMPLE_RATE, dataset.count_rows() // max(partitions, _CODEWORDS)))
    metric = shape.get("metric", Metric.L2.value)
    ivf = builder.train_ivf(partitions, distance_type=metric, sample_rate=rate)
    model = {"num_partitions": partitions, "ivf_centroids": ivf.centroids, "skip_transpose": True}
    if index.type.is_pq:
        model["pq_codebook"] = builder.train_pq(ivf, shape["num_sub_vectors"], sample_rate=rate).codebook
    return model


def vectors_in(dataset: Any, column: str, most: int) -> int:
    """Return how many rows have a vector, counting no further than ``most``."""
    quoted = column.replace(".", "`.`")
    non_null = {"filter": f"`{quoted}` IS NOT NULL", "limit": most}
    return int(dataset.scanner(columns=[], with_row_id=True, **non_null).to_table().num_rows)


def _build_segment(dataset: Any, item: tuple[WantedIndex, Mapping[str, Any], list[int]]) -> Any:
    index, parameters, fragments = item
    return dataset.create_index_uncommitted(index.column, index.type.value, fragment_ids=fragments, **parameters)


def _merge_segments(dataset: Any, segments: list[Any]) -> Any:
    return dataset.merge_existing_index_segments(segments)
