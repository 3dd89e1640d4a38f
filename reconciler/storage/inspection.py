"""Compare the files of a dataset with those that its versions name.

The listing and the version are read one after the other, and another writer may compact and clean up in between. A
file counts as missing only if the version that names it is still the latest after the listing, as Lance never removes
a file of the latest version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import unquote

from reconciler.storage.files import MANIFEST_SUFFIX, version_of
from reconciler.storage.pylance import is_storage_error, message_of, open_dataset

SMALL_FRAGMENT = 1024 * 1024
"""Fragments with fewer bytes of data are small."""

_DATA, _INDICES, _VERSIONS = "data", "_indices", "_versions"
_CLEANED_UP = frozenset({_DATA, "_deletions", _INDICES, _VERSIONS})
_BRANCHES, _BRANCH_REFS, _TAG_REFS = "tree", "_refs/branches/", "_refs/tags/"
_TAG = ".json"
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class Index:
    """An index, and how many rows of the latest version it covers."""

    name: str
    kind: str
    columns: tuple[str, ...]
    rows: int | None


@dataclass(frozen=True, slots=True)
class Files:
    """The result of comparing a dataset's files with its versions.

    Args:
        bytes: of all files.
        reclaimable: bytes of files that neither the latest version nor a tagged one needs, which is the most that a
            clean-up can free; None for a dataset with branches, whose files cannot be told apart.
        versions: how many there are.
        missing: files of the latest version that do not exist, relative to the dataset.
        short: files with fewer bytes than the version says.
        broken_tags: tags whose version cannot be read, each with the number of the version if the tag has one.
        problem: why the files could not be listed; nothing else is known then.
    """

    bytes: int = 0
    reclaimable: int | None = None
    versions: int = 0
    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    broken_tags: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Needed:
    """The files and folders that a version names, with known sizes."""

    files: Mapping[str, int | None]
    folders: Mapping[str, int | None]


def small_fragments_of(dataset: Any) -> int:
    """Return how many fragments of a ``lance.LanceDataset`` are small."""
    sizes = ([file.file_size_bytes for file in fragment.data_files()] for fragment in dataset.get_fragments())
    return sum(None not in found and sum(found) < SMALL_FRAGMENT for found in sizes)


def indices_of(dataset: Any) -> tuple[Index, ...]:
    """Return the indices of a ``lance.LanceDataset``, by name."""
    found = (
        Index(index.name, str(index.index_type), tuple(index.field_names), index.num_rows_indexed)
        for index in dataset.describe_indices()
    )
    return tuple(sorted(found, key=lambda index: index.name))


def files_of(dataset: Any, location: str, options: Mapping[str, str]) -> Files:
    """Compare the files of a ``lance.LanceDataset`` with its latest version.

    If files seem to be missing and another writer has committed, the new version is compared. After five such
    rounds no file is reported as missing.
    """
    looked = Files()
    for _ in range(_LOOKS):
        try:
            looked = _compared(dataset)
        except BaseException as error:
            if not is_storage_error(error):
                raise
            # A listing of a local directory fails if a file is removed in the meantime.
            looked = Files(problem=message_of(error, location, options))
        if not looked.missing and not looked.short and looked.problem is None:
            return looked
        latest = open_dataset(location, options)
        if _state(latest) == _state(dataset):
            return looked
        dataset = latest
    return Files(looked.bytes, looked.reclaimable, looked.versions, problem=looked.problem)


def _state(dataset: Any) -> tuple[Any, Any]:
    latest = dataset.get_version()
    return latest["version"], latest["timestamp"]


def _compared(dataset: Any) -> Files:
    needed = _needed_by(dataset)
    found = listed_keys(dataset)
    sizes = _sizes(found)
    missing, short = _lost(needed, sizes)
    tagged, broken = _tagged(dataset, found, sizes, {*missing, *short})
    if broken:
        # A tag may be deleted, and its version cleaned up, after the first listing.
        remaining = listed_keys(dataset)
        broken = {path: tag for path, tag in broken.items() if path in remaining}
    return Files(
        bytes=sum(size for path, size in found.items() if _is_own(path)),
        reclaimable=_reclaimable({**tagged, dataset.version: needed}, found),
        versions=len(_version_files(found)),
        missing=missing,
        short=short,
        broken_tags=tuple(broken.values()),
    )


def _sizes(found: Mapping[str, int]) -> Mapping[str, int]:
    """Return the bytes of each file, and the sum for each folder."""
    sums = Counter[str]()
    for path, size in found.items():
        sums[_folder(path)] += size
    return {**sums, **found}


def _lost(needed: _Needed, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the needed files and folders that are missing, and the short ones."""
    wanted = {**needed.files, **needed.folders}
    missing = sorted(path for path in wanted if path not in sizes)
    short = sorted(path for path, size in wanted.items() if path in sizes and sizes[path] < (size or 1))
    return tuple(missing), tuple(short)


def listed_keys(dataset: Any) -> dict[str, int]:
    """Return every file of a dataset with its size in bytes."""
    found: dict[str, int] = {}
    for batch in dataset.all_files():
        columns = (batch.column(name).to_pylist() for name in ("path", "size_bytes"))
        found.update(zip(*columns, strict=True))
    return found


def _needed_by(dataset: Any) -> _Needed:
    """Return what a version names within the dataset; a clone has files elsewhere."""
    files: dict[str, int | None] = {}
    for fragment in dataset.get_fragments():
        for file in fragment.data_files():
            if file.base_id is None:
                files[f"{_DATA}/{file.path}"] = file.file_size_bytes
        deletion = fragment.metadata.deletion_file
        if deletion is not None and deletion.base_id is None:
            files[str(fragment.deletion_file())] = None
    folders = {
        f"{_INDICES}/{segment.uuid}": segment.size_bytes
        for index in dataset.describe_indices()
        for segment in index.segments
        if segment.base_id is None
    }
    return _Needed(files, folders)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_own(path: str) -> bool:
    """Return whether a file in the directory belongs to the dataset."""
    top = path.partition("/")[0]
    return top in (_DATA, _BRANCHES) or top.startswith("_")


def _version_files(found: Mapping[str, int]) -> dict[int, str]:
    """Return the manifest file of each version."""
    inside = {path: path.removeprefix(f"{_VERSIONS}/") for path in found if path.startswith(f"{_VERSIONS}/")}
    return {number: path for path, name in inside.items() if (number := version_of(name)) is not None}


def _tagged(
    dataset: Any, found: Mapping[str, int], sizes: Mapping[str, int], known: set[str]
) -> tuple[dict[int, _Needed], dict[str, str]]:
    """Return what each tagged version names, and the broken tags by path.

    ``known`` are lost files of the latest version, which alone do not break a tag. Each tag is opened by itself, as
    ``tags.list()`` of pylance 14 fails if one file is damaged or a name is not ASCII.
    """
    tagged: dict[int, _Needed] = {}
    broken: dict[str, str] = {}
    for path in sorted(found):
        if not path.startswith(_TAG_REFS) or not path.endswith(_TAG):
            continue
        name = shown = unquote(path.removeprefix(_TAG_REFS).removesuffix(_TAG))
        try:
            shown = f"{name} (version {dataset.tags.get_version(name)})"
            version = dataset.checkout_version(name)
            needed = tagged[version.version] = _needed_by(version)
        except BaseException as error:
            if not is_storage_error(error):
                raise
            broken[path] = shown
        else:
            # Paths of a version on a branch are relative to the branch, so they cannot be compared.
            if not _has_branches(found) and not known.issuperset(chain(*_lost(needed, sizes))):
                broken[path] = shown
    return tagged, broken


def _has_branches(found: Mapping[str, int]) -> bool:
    return any(path.startswith(_BRANCH_REFS) for path in found)


def _reclaimable(kept: Mapping[int, _Needed], found: Mapping[str, int]) -> int | None:
    """Return how many bytes a clean-up can free that keeps the ``kept`` versions."""
    if _has_branches(found):
        return None
    versions = _version_files(found)
    files = {path for one in kept.values() for path in one.files} | {
        versions[one] for one in kept.keys() & versions.keys()
    }
    folders = {folder for one in kept.values() for folder in one.folders}
    # The blobs of a data file are in a folder of its name.
    folders |= {path.removesuffix(".lance") for path in files}
    return sum(
        size
        for path, size in found.items()
        if _is_cleaned_up(path) and path not in files and _folder(path) not in folders
    )


def _is_cleaned_up(path: str) -> bool:
    """Return whether a clean-up may remove this kind of file.

    Transactions count as needed.
    """
    folder, _, name = path.partition("/")
    return folder in _CLEANED_UP and (folder != _VERSIONS or name.endswith(MANIFEST_SUFFIX))
