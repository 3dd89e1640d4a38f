"""What storage holds at a location, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from lance_namespace.errors import LanceNamespaceError

from reconciler import storage
from reconciler.pipeline.records import Stored
from reconciler.state import StorageKind

__all__ = ["look"]


def look(location: str, options: Mapping[str, str]) -> Stored:
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
    except LanceNamespaceError as error:
        return Stored(StorageKind.UNKNOWN, str(error))
    return Stored(StorageKind.NOTHING, reserved=reserved)
