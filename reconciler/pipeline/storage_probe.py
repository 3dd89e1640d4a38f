"""What storage holds at a location, and how much of it: for one location, or for a frame of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reconciler import storage
from reconciler.concurrency import in_parallel
from reconciler.errors import BackendError
from reconciler.pipeline.records import Stored
from reconciler.pipeline.schemas import Row, with_columns
from reconciler.state import StorageKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["STORED", "probe", "with_stored"]

STORED = pa.schema([("stored", pa.binary())])
"""What is at a table's location: a pickled :class:`Stored`, null where no location is known."""

_PROBES_AT_ONCE = 16
"""At places elsewhere, where a probe mostly waits. On this machine it works, and several are slower than one by one."""


def probe(location: str, options: Mapping[str, str]) -> Stored:
    """Return what ``location`` holds; whatever storage answers, an error included, is in the result.

    Of a dataset only the latest manifest is read: rows, bytes and fragments are what it says.
    """
    if not location:
        return Stored(StorageKind.UNKNOWN, "the entry names no location")
    found = storage.examine(location, options, _measured)
    if isinstance(found, Stored):
        return found
    if found.kind is StorageKind.NOTHING:
        return _nothing(location, options)
    return Stored(found.kind, found.detail)


def _measured(dataset: Any) -> Stored:
    from reconciler.arrow_types import from_arrow_schema

    latest = dataset.get_version()
    summary: Mapping[str, str] = latest["metadata"]
    size = int(summary["total_files_size"])
    return Stored(
        StorageKind.DATASET,
        version=latest["version"],
        rows=int(summary["total_rows"]),
        # Datasets of old writers do not keep the sizes of their files; asking storage for each would cost too much.
        bytes=size if size or summary["total_data_files"] == "0" else None,
        fragments=int(summary["total_fragments"]),
        schema=from_arrow_schema(dataset.schema),
        committed=latest["timestamp"].astimezone(UTC),
    )


def _nothing(location: str, options: Mapping[str, str]) -> Stored:
    """Return that nothing is there, and whether the place is kept for a declared table."""
    try:
        with storage.translated(location, options):
            reserved = storage.RESERVED_MARKER in storage.list_directory(location, options)
    except BackendError as error:
        return Stored(StorageKind.UNKNOWN, str(error))
    return Stored(StorageKind.NOTHING, reserved=reserved)


def with_stored(frame: DataFrame, options: Mapping[str, Mapping[str, str]]) -> DataFrame:
    """Return ``frame`` with a column ``stored``: what is at the place in ``location``, a pickled :class:`Stored`.

    It is null where ``location`` is. Each partition of ``frame`` is one task, which opens several places at a time.

    Args:
        frame: with the columns ``catalog`` and ``location``, and any others.
        options: pylance's storage options of each catalog; they travel in the function, where nobody is shown them.
    """

    def stored(batch: pa.RecordBatch) -> Iterator[Row]:
        questions = zip(batch.column("catalog").to_pylist(), batch.column("location").to_pylist(), strict=True)
        for found in _probes((location, options[catalog]) for catalog, location in questions):
            yield {"stored": None if found is None else pickle.dumps(found)}

    return with_columns(frame, STORED, stored)


def _probes(questions: Iterable[tuple[str | None, Mapping[str, str]]]) -> list[Stored | None]:
    asked = list(questions)
    elsewhere = any(location is not None and storage.local_path(location) is None for location, _ in asked)
    return in_parallel(
        lambda question: None if question[0] is None else probe(question[0], question[1]),
        asked,
        _PROBES_AT_ONCE if elsewhere else 1,
    )
