"""The files of a dataset, as one listing shows them, beside those that its latest version names. Nothing is opened.

A listing and a version are read one after the other, and somebody may commit, compact and clean up in between. So a
file counts as missing only when the version that names it was still the latest after the listing: Lance never removes
a file of the latest version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.storage.pylance import is_storage_error, message_of, open_dataset

__all__ = ["SMALL_FRAGMENT", "Files", "Index", "files_of", "indices_of", "small_fragments_of"]

SMALL_FRAGMENT = 1024 * 1024
"""A fragment with fewer bytes of data than this is small."""

_DATA, _DELETIONS, _INDICES, _TRANSACTIONS, _VERSIONS = "data", "_deletions", "_indices", "_transactions", "_versions"
_CLEANED_UP = frozenset({_DATA, _DELETIONS, _INDICES, _TRANSACTIONS, _VERSIONS})
_BRANCHES, _BRANCH_REFS = "tree", "_refs/branches/"
_MANIFEST = ".manifest"
_LARGEST, _DIGITS = 2**64 - 1, 20
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class Index:
    """An index: its name and kind, the columns it is on, and how many rows of the latest version it covers."""

    name: str
    kind: str
    columns: tuple[str, ...]
    rows: int | None


@dataclass(frozen=True, slots=True)
class Files:
    """What a listing of a dataset came to.

    Args:
        bytes: of all files.
        reclaimable: bytes of files that neither the latest version nor a tagged one needs, which is the most that a
            clean-up can give back; None where the dataset has branches, whose files are not told apart.
        versions: how many there are.
        missing: files of the latest version that are not there, below the dataset.
        short: those that have fewer bytes than the version says.
        problem: why the files could not be listed; nothing else is known then.
    """

    bytes: int = 0
    reclaimable: int | None = None
    versions: int = 0
    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Needed:
    """What a version names: files, each with its bytes as far as it says them, and folders with the sum of theirs."""

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
    """Return the files of a ``lance.LanceDataset``, which is at its latest version, in one listing.

    Where files look to be missing the dataset is opened again, and looked at anew when it has moved on. One that does
    so every time has no file missing, as far as anybody can say.
    """
    looked = Files()
    for _ in range(_LOOKS):
        try:
            looked = _compared(dataset)
        except BaseException as error:
            if not is_storage_error(error):
                raise
            # What is listed one by one may be removed meanwhile.
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
    found = _listed(dataset)
    sums = Counter[str]()
    for path, size in found.items():
        sums[_folder(path)] += size
    missing = [path for path in needed.files if path not in found]
    missing += [folder for folder in needed.folders if folder not in sums]
    short = [path for path, size in needed.files.items() if path in found and found[path] < (size or 1)]
    short += [folder for folder, size in needed.folders.items() if folder in sums and sums[folder] < (size or 1)]
    return Files(
        bytes=sum(size for path, size in found.items() if _is_own(path)),
        reclaimable=_reclaimable(dataset, needed, found),
        versions=len(_version_files(found)),
        missing=tuple(sorted(missing)),
        short=tuple(sorted(short)),
    )


def _listed(dataset: Any) -> dict[str, int]:
    """Return the files below a dataset, each with its bytes."""
    found: dict[str, int] = {}
    for batch in dataset.all_files():
        columns = (batch.column(name).to_pylist() for name in ("path", "size_bytes"))
        found.update(zip(*columns, strict=True))
    return found


def _needed_by(dataset: Any) -> _Needed:
    """Return what the version of ``dataset`` names that lies in the dataset itself: a clone has files elsewhere."""
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
    """Return whether a file is the dataset's, and not of something that was put into its directory."""
    top = path.partition("/")[0]
    return top in (_DATA, _BRANCHES) or top.startswith("_")


def _version_files(found: Mapping[str, int]) -> dict[int, str]:
    """Return the file of each version: they are numbered upwards, or in twenty digits downwards from the largest."""
    versions: dict[int, str] = {}
    for path in found:
        folder, _, name = path.rpartition("/")
        number = name.removesuffix(_MANIFEST)
        if folder == _VERSIONS and name.endswith(_MANIFEST) and number.isdecimal():
            versions[_LARGEST - int(number) if len(number) == _DIGITS else int(number)] = path
    return versions


def _reclaimable(dataset: Any, needed: _Needed, found: Mapping[str, int]) -> int | None:
    """Return how many bytes a clean-up can give back; what the latest and tagged versions need, it leaves."""
    if any(path.startswith(_BRANCH_REFS) for path in found):
        return None
    kept = [needed]
    versions = _version_files(found)
    numbers = {dataset.version}
    if any(path.startswith("_refs/") for path in found):
        numbers.update(tag["version"] for tag in dataset.tags.list().values())
        kept += [_needed_by(dataset.checkout_version(number)) for number in sorted(numbers - {dataset.version})]
    files = {path for one in kept for path in one.files} | {versions[number] for number in numbers & versions.keys()}
    folders = {folder for one in kept for folder in one.folders}
    # What a file of data keeps beside it, blobs that is, is in a folder of its name.
    folders |= {path.removesuffix(".lance") for path in files}
    return sum(size for path, size in _cleaned_up(found) if path not in files and _folder(path) not in folders)


def _cleaned_up(found: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the files that a clean-up removes when nothing needs them; of transactions, the newest is always needed."""
    for path, size in found.items():
        folder, _, name = path.partition("/")
        if folder == _VERSIONS and not name.endswith(_MANIFEST):
            continue
        if folder in _CLEANED_UP - {_TRANSACTIONS}:
            yield path, size
