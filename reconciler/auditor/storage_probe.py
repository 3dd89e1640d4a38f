"""What storage holds at a location, and how much of it: for one location, or for many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from functools import partial
from typing import Any

from reconciler import storage
from reconciler.auditor.records import NOT_LOOKED_AT, Depth, Stored
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError
from reconciler.model.live import StorageKind

_PROBES_AT_ONCE = 16
"""At places elsewhere, where a probe mostly waits. On this machine it works, and several are slower than one by one."""


def probe(location: str, options: Mapping[str, str], depth: Depth = Depth.FILES) -> Stored:
    """Return what ``location`` holds; whatever storage answers, an error included, is in the result.

    Of a dataset the latest manifest is read, which says rows, bytes and fragments; and its files are listed once, where
    ``depth`` asks for that.
    """
    if not location:
        return Stored(StorageKind.UNKNOWN, "the entry names no location")
    found = storage.examine(location, options, partial(_measured, location=location, options=options, depth=depth))
    if isinstance(found, Stored):
        return found
    if found.kind is StorageKind.NOTHING:
        return _nothing(location, options)
    return Stored(found.kind, found.detail, unversioned=_is_unversioned(found.kind, location, options))


def _is_unversioned(kind: StorageKind, location: str, options: Mapping[str, str]) -> bool:
    try:
        return kind is StorageKind.NOT_LANCE and storage.holds_data_files(location, options)
    except BackendError:
        return False


def _measured(dataset: Any, location: str, options: Mapping[str, str], depth: Depth) -> Stored:
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
        cleanup=storage.cleanup_of(dataset),
        small_fragments=storage.small_fragments_of(dataset),
        indices=storage.indices_of(dataset),
        files=storage.files_of(dataset, location, options) if depth is Depth.FILES else None,
    )


def _nothing(location: str, options: Mapping[str, str]) -> Stored:
    """Return that nothing is there, and whether the place is kept for a declared table."""
    try:
        with storage.translated(location, options):
            reserved = storage.RESERVED_MARKER in storage.list_directory(location, options)
    except BackendError as error:
        return Stored(StorageKind.UNKNOWN, str(error))
    return Stored(StorageKind.NOTHING, reserved=reserved)


def probe_many(questions: Iterable[tuple[str | None, Mapping[str, str]]], depth: Depth = Depth.FILES) -> list[Stored]:
    """Return what is at each of some places, given with pylance's options for it; None stands for no place."""
    asked = list(questions)
    return in_parallel(
        lambda question: NOT_LOOKED_AT if question[0] is None else probe(question[0], question[1], depth),
        asked,
        _PROBES_AT_ONCE if any(location is not None and is_elsewhere(location) for location, _ in asked) else 1,
    )


def is_elsewhere(location: str) -> bool:
    """Return whether ``location`` is not on this machine."""
    return storage.local_path(location) is None
