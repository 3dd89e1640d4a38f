"""Read the footers of Lance files, and the index files that a manifest names.

A footer is checked before pylance reads it: pylance 14 trusts its numbers, and one flipped bit has it allocate memory
until the process is killed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from reconciler.model.errors import InternalError, InvalidTableStateError
from reconciler.storage.pylance import translated

_MAGIC, _MAGIC_SIZE = b"LANC", 4
_FOOTER = struct.Struct("<QQQIIHH4s")
"""Positions of the column metadata, its table and that of the buffers, their numbers, the version, and the magic."""
_LEGACY_FOOTER = struct.Struct("<QHH4s")
"""The position of the metadata, the version, and the magic; manifests end like this, too."""
_ENTRY = struct.Struct("<QQ")
_TAIL = 4096
_INDEX_SECTION, _READER_FLAGS, _WRITER_FLAGS, _LAST_FRAGMENT, _WRITER_VERSION = 6, 9, 10, 11, 13
_UUID, _DETAILS, _FILES = 1, 6, 10
"""Numbers of fields in the messages Manifest and IndexMetadata."""


def is_sound(session: Any, path: str, size: int) -> bool:
    """Return whether the file at ``path`` ends as a Lance file of ``size`` bytes does, and pylance opens it.

    Raises:
        OSError, ValueError, RuntimeError: storage did not answer.
    """
    tail = session.read_range(path, max(0, size - _TAIL), min(size, _TAIL))
    if len(tail) < _FOOTER.size or tail[-_MAGIC_SIZE:] != _MAGIC:
        return False
    position, major, minor, _ = _LEGACY_FOOTER.unpack(tail[-_LEGACY_FOOTER.size :])
    if (major, minor) < (0, 3):
        return bool(position < size - _LEGACY_FOOTER.size)
    columns, column_table, buffer_table, buffers, number, *_ = _FOOTER.unpack(tail[-_FOOTER.size :])
    end = size - _FOOTER.size
    if not columns <= column_table <= buffer_table <= end:
        return False
    if (buffer_table - column_table, end - buffer_table) != (_ENTRY.size * number, _ENTRY.size * buffers):
        return False
    is_in_tail = column_table >= size - len(tail)
    tables = tail[column_table - size :] if is_in_tail else session.read_range(path, column_table, size - column_table)
    entries = _ENTRY.iter_unpack(tables[: -_FOOTER.size])
    return all(start + length <= size for start, length in entries) and _opens(session, path)


def _opens(session: Any, path: str) -> bool:
    try:
        with translated("", {}):
            session.open_reader(path)
    except (InvalidTableStateError, InternalError):
        return False
    return True


class IndexSegment(NamedTuple):
    """What a manifest has on an index segment, beyond what pylance shows.

    ``files`` and their bytes are empty for writers before pylance 4. ``details`` are a type and its content.
    """

    files: Mapping[str, int | None]
    details: tuple[str, bytes] | None


class VersionFeatures(NamedTuple):
    """The feature flags of a version, for readers or writers, and the largest id that a fragment ever had."""

    flags: int
    last_fragment: int


def index_segments(manifest: bytes) -> dict[str, IndexSegment]:
    """Return the index segments of a version by UUID."""
    section = next((value for number, value in _fields(_version(manifest)) if number == _INDEX_SECTION), None)
    segments: dict[str, IndexSegment] = {}
    for _, index in () if section is None else _fields(_message(manifest, section)):
        fields = [*_fields(index)]
        (uuid,) = (dict(_fields(value))[1] for number, value in fields if number == _UUID)
        named = (dict(_fields(value)) for number, value in fields if number == _FILES)
        details = next((dict(_fields(value)) for number, value in fields if number == _DETAILS), None)
        segments[str(UUID(bytes=uuid))] = IndexSegment(
            {file[1].decode(): file.get(2) for file in named},
            None if details is None else (details.get(1, b"").decode(), details.get(2, b"")),
        )
    return segments


def features_of(manifest: bytes) -> VersionFeatures:
    """Return the features of a version."""
    fields = dict(_fields(_version(manifest)))
    return VersionFeatures(fields.get(_READER_FLAGS, 0) | fields.get(_WRITER_FLAGS, 0), fields.get(_LAST_FRAGMENT, 0))


def writer_of(manifest: bytes) -> int | None:
    """Return the major version of Lance that wrote a manifest; None for another writer."""
    writer = dict(_fields(dict(_fields(_version(manifest))).get(_WRITER_VERSION, b"")))
    major = writer.get(2, b"").partition(b".")[0]
    return int(major) if writer.get(1) == b"lance" and major.isdigit() else None


def _version(manifest: bytes) -> bytes:
    """Return the message of a version."""
    position, *_ = _LEGACY_FOOTER.unpack(manifest[-_LEGACY_FOOTER.size :])
    return _message(manifest, position)


def _message(content: bytes, position: int) -> bytes:
    """Return the message at ``position``, behind its length."""
    start = position + 4
    return content[start : start + int.from_bytes(content[position:start], "little")]


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each field of a protobuf message: an integer, or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _varint(message, at) if key & 7 in (0, 2) else (4 if key & 7 == 5 else 8, at)
        if key & 7 == 0:
            yield key >> 3, value
        else:
            yield key >> 3, message[at : at + value]
            at += value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the integer at a position, and the position behind it."""
    value, shift = 0, 0
    while True:
        byte = message[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
