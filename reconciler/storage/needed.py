"""Name the files that a version of a dataset needs.

Names are paths below the dataset, also for a branch. A file of another base, such as the source of a shallow clone, is
named by its location.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from reconciler.model import locations
from reconciler.storage.files import resolve_location
from reconciler.storage.footers import index_segments
from reconciler.storage.listing import MAIN, FileListing
from reconciler.storage.opening import expect_admitted
from reconciler.storage.reading import UncountedRowsError, described_indices

DATA, INDICES = "data", "_indices"
SYSTEM_INDEX = "__lance"
"""Prefix of the names of Lance's internal indices, such as the one of a compaction that defers remapping."""

_EXTENSION_KEY, _BLOB_EXTENSION = "ARROW:extension:name", "lance.blob.v2"

Key: TypeAlias = tuple[str, str]
"""A file or folder: the location of its base, empty for the dataset itself, and the path below that."""


class BasePath(NamedTuple):
    """A Lance base path, which the files of a fragment or index are relative to.

    ``base`` is its location, empty below the dataset itself; ``prefix`` the folder there, ``data`` that of data files.
    """

    base: str
    prefix: str
    data: str = f"{DATA}/"

    def key(self, path: str) -> Key:
        """Return the key of the file at ``path`` below the base path."""
        return self.base, self.prefix + path


class FragmentFiles(NamedTuple):
    """A fragment, its deletion file, and the field ids of each data file."""

    fragment: Any
    deletion: Key | None
    data: Mapping[Key, frozenset[int]]

    @property
    def keys(self) -> list[Key]:
        """The keys of its data files and deletion file."""
        return [*self.data, *filter(None, [self.deletion])]


@dataclass(slots=True)
class NeededFiles:
    """The files and folders that the manifest of a version names.

    Args:
        files: bytes of each data, deletion and index file, as the manifest says; None where it does not.
        folders: the same for each folder of index files that the manifest does not name one by one.
        indices: all folders of index files.
        blobs: paths of blob columns, by field id.
        bases: the base path of each base id.
        owners: the number of the fragment, or the name of the index, by the display name of each file.
        parts: the files of each fragment.
    """

    files: dict[Key, int | None] = field(default_factory=dict)
    folders: dict[Key, int | None] = field(default_factory=dict)
    indices: set[Key] = field(default_factory=set)
    blobs: Mapping[int, str] = field(default_factory=dict)
    bases: Mapping[int | None, BasePath] = field(default_factory=dict)
    owners: dict[str, int | str] = field(default_factory=dict)
    parts: list[FragmentFiles] = field(default_factory=list)


def own_paths(keys: Iterable[Key]) -> set[str]:
    """Return the paths of those keys that have no other base than the dataset."""
    return {path for base, path in keys if not base}


def needed_files(listing: FileListing, version: Any, branch_folder: str = MAIN) -> NeededFiles:
    """Return the files that an opened version of a branch needs."""
    expect_admitted(listing.location, listing.options, version)
    bases = _base_paths(listing, version, branch_folder)
    needed = NeededFiles(blobs=dict(_blob_columns(version.lance_schema.fields())), bases=bases)
    for fragment in version.get_fragments():
        data: dict[Key, frozenset[int]] = {}
        for file in fragment.data_files():
            base = bases[file.base_id]
            key = base.key(base.data + file.path)
            data[key], needed.files[key] = frozenset(file.fields), file.file_size_bytes
        deletion_file, deletion = fragment.metadata.deletion_file, None
        if deletion_file is not None:
            deletion = bases[deletion_file.base_id].key(str(fragment.deletion_file()))
            needed.files[deletion] = None
        needed.parts.append(FragmentFiles(fragment, deletion, data))
        needed.owners.update((display_name(key), fragment.fragment_id) for key in needed.parts[-1].keys)
    indices = listed_indices(version)
    files_by_index = _index_files(listing, listing.versions(branch_folder).get(version.version)) if indices else {}
    for index in indices:
        for segment in index.segments:
            key = bases[segment.base_id].key(f"{INDICES}/{segment.uuid}")
            if index.name.startswith(SYSTEM_INDEX) and key[1] not in listing.sizes:
                continue  # the manifest has its content, up to a size
            named = {(key[0], f"{key[1]}/{name}"): size for name, size in files_by_index.get(segment.uuid, {}).items()}
            needed.indices.add(key)
            needed.files.update(named)
            if not named:
                needed.folders[key] = segment.size_bytes or None
            needed.owners.update((display_name(file), index.name) for file in named or [key])
    return needed


def _index_files(listing: FileListing, manifest: str | None) -> Mapping[str, Mapping[str, int | None]]:
    """Return the files of each index segment that the manifest at a path names, by its UUID."""
    if manifest is None:
        return {}
    try:
        segments = index_segments(listing.content(manifest))
        return {uuid: segment.files for uuid, segment in segments.items()}
    except (OSError, LookupError, ValueError):  # it was removed in the meantime, or has another form
        return {}


def _base_paths(listing: FileListing, version: Any, branch_folder: str) -> Mapping[int | None, BasePath]:
    """Return the base path of each base id of a version; None is the id of the branch itself."""
    bases: dict[int | None, BasePath] = {None: BasePath("", branch_folder)}
    for number, base in version.base_paths().items():
        place, data = resolve_location(base.path), f"{DATA}/" if base.is_dataset_root else ""
        inside = place == listing.place or locations.is_under(listing.place, place)
        below = place.removeprefix(listing.place).strip("/")
        bases[number] = BasePath("", below and f"{below}/", data) if inside else BasePath(base.path, "", data)
    return bases


def listed_indices(version: Any) -> list[Any]:
    """Return the indices of a version, and none of one whose rows were never counted."""
    try:
        return described_indices(version)
    except UncountedRowsError:
        return []


def display_name(key: Key) -> str:
    """Return the path of a file of the dataset, or the location of one of another base, without secrets."""
    base, path = key
    return locations.redact(locations.join(base, path)) if base else path


def _blob_columns(fields: Iterable[Any], above: str = "") -> Iterator[tuple[int, str]]:
    """Yield the field id and the path of each blob column."""
    for column in fields:
        path = f"{above}`{column.name()}`"
        if column.metadata.get(_EXTENSION_KEY) == _BLOB_EXTENSION:
            yield column.id(), path
        else:
            yield from _blob_columns(column.children(), f"{path}.")
