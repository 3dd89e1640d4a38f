"""What a location holds, without changing anything."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from reconciler.model import locations
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.live import Storage, StorageKind
from reconciler.storage.files import content_of, list_directory, local_path
from reconciler.storage.pylance import is_denied, is_storage_error, message_of, open_dataset

ReadT = TypeVar("ReadT")


RESERVED_MARKER = ".lance-reserved"

"""The file that marks a directory as a table's before any data is written."""
DEREGISTERED_MARKER = ".lance-deregistered"
"""The file that marks a directory as no table of a directory namespace, whatever else it holds."""

# What is left of a first write that was cut off before its commit has no data and no version.
_NO_DATA = frozenset({RESERVED_MARKER, DEREGISTERED_MARKER, "_transactions", "_versions"})


# Where an Iceberg catalog keeps the metadata of a table, below its location: a Lance table has such a companion there.
_ICEBERG_METADATA = "metadata"

_ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")

_GZIP = b"\x1f\x8b"

_LARGEST_METADATA = 16 * 1024 * 1024
"""What an Iceberg catalog writes of a table without snapshots is a few kilobytes; more is cut off, and no JSON then."""


_NOT_FOUND = re.compile(r"was not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RowsAndAge:
    """The rows of a dataset's latest version, and when that was committed, in UTC."""

    rows: int
    written: datetime


def probe(location: str, options: Mapping[str, str]) -> Storage:
    """Return what ``location`` holds; an error is never taken for nothing.

    A directory that is empty, or holds only the markers of a directory namespace, what a first write left that never
    committed, what an Iceberg catalog keeps of a Lance table, or a place that a metastore made and takes away again,
    holds nothing.
    """
    from reconciler.arrow_types import from_arrow_schema

    def read(dataset: Any) -> Storage:
        return Storage(StorageKind.DATASET, from_arrow_schema(dataset.schema), cleanup=cleanup_of(dataset))

    return examine(location, options, read)


def cleanup_of(dataset: Any) -> AutoCleanup | None:
    """Return how a ``lance.LanceDataset`` cleans itself up; None where it does not."""
    return AutoCleanup.of(dataset.config(), int(dataset.version))


def examine(location: str, options: Mapping[str, str], read: Callable[[Any], ReadT]) -> ReadT | Storage:
    """Return what ``read`` says of the ``lance.LanceDataset`` at ``location``; without one, what is there instead.

    What storage raises, in ``read`` as well, is such an answer too: see :func:`probe`.
    """
    try:
        path = local_path(location)
        if path is not None and path.is_file():
            return Storage(StorageKind.NOT_LANCE, detail="it is a file, not a directory")
        if path is not None and _is_missing(path):
            return Storage(StorageKind.NOTHING)  # pylance takes a millisecond to say so
        try:
            return read(open_dataset(location, options))
        except ValueError as error:
            if not _NOT_FOUND.search(str(error)):
                raise
        return _without_dataset(location, options)
    except BaseException as error:
        if not is_storage_error(error):
            raise
        text = message_of(error, location, options)
        return Storage(StorageKind.DENIED if is_denied(error, text) else StorageKind.UNKNOWN, detail=text)


def contents_of(location: str, options: Mapping[str, str]) -> RowsAndAge | Storage:
    """Return what the dataset at ``location`` holds, of which only its latest manifest is read; else what is there."""
    return examine(location, options, _contents)


def _contents(dataset: Any) -> RowsAndAge:
    latest = dataset.get_version()
    return RowsAndAge(int(latest["metadata"]["total_rows"]), latest["timestamp"].astimezone(UTC))


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    return False


def _without_dataset(location: str, options: Mapping[str, str]) -> Storage:
    names = (name for name in list_directory(location, options) if not locations.is_new_place(name))
    found = sorted(set(names) - _NO_DATA)
    if not found or (found == [_ICEBERG_METADATA] and _is_companion(locations.join(location, *found), options)):
        return Storage(StorageKind.NOTHING)
    # Their names may be other people's, and what is said here stands in plans, comments and answers.
    what = "1 file or directory" if len(found) == 1 else f"{len(found):,} files or directories"
    return Storage(StorageKind.NOT_LANCE, detail=f"it holds {what} and no version of a dataset")


def _is_companion(folder: str, options: Mapping[str, str]) -> bool:
    """Return whether ``folder`` holds metadata of an Iceberg catalog, and all of it about a Lance table."""
    names = [name for name in list_directory(folder, options) if not name.startswith(".")]
    return bool(names) and all(
        name.endswith(_ICEBERG_FILES) and _is_about_lance(content_of(folder, name, options, _LARGEST_METADATA))
        for name in names
    )


def _is_about_lance(metadata: bytes | None) -> bool:
    """Return whether an Iceberg table is marked as a Lance one (Lance specification, "Lance Table Identification")."""
    if metadata is None:
        return False
    try:
        if metadata.startswith(_GZIP):
            metadata = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(metadata, _LARGEST_METADATA)
        document = json.loads(metadata)
        return str(document["properties"]["table_type"]).lower() == "lance"
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error):
        return False
