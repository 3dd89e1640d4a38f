"""Compare the files of a dataset with those that its versions need, and describe its indices and sizes.

The listing and the versions are read one after the other, and another writer may compact and clean up in between. A
file counts as missing only if two comparisons agree, and no version was committed between them: Lance never removes a
file of the latest version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from reconciler.model import locations
from reconciler.model.errors import BackendError, InternalError, InvalidTableStateError
from reconciler.model.maintenance import total_bytes
from reconciler.storage.defects import NO_DEFECTS, defects_of
from reconciler.storage.files import MANIFEST_SUFFIX, list_directory, version_of
from reconciler.storage.listing import VERSIONS, FileListing, sizes_by_path
from reconciler.storage.losses import MOST_VERSIONS, Depth, LossFinder, Salvage, salvage_of
from reconciler.storage.needed import DATA, INDICES, SYSTEM_INDEX, NeededFiles, needed_files, own_paths
from reconciler.storage.opening import open_dataset
from reconciler.storage.pylance import is_storage_error, message_of, or_none, translated
from reconciler.storage.reading import UncountedRowsError, described_indices, has_statistics, is_old_index
from reconciler.storage.references import BRANCHES, BrokenReference, References

SMALL_FRAGMENT = 1024 * 1024
"""Fragments with fewer bytes of data are small."""

DELETIONS = "_deletions"
_AGES = timedelta(days=36_500)
_CLEANED_UP = frozenset({DATA, DELETIONS, INDICES, VERSIONS})
_MAX_COMPARISONS = 5
_LONG_NAME = len(f"{2**64}{MANIFEST_SUFFIX}")  # of a manifest that counts downwards


@dataclass(frozen=True, slots=True)
class Index:
    """An index, and how many rows of the latest version it covers; pylance cannot add rows to an old one."""

    name: str
    kind: str
    columns: tuple[str, ...]
    rows: int | None
    is_old: bool = False


class CleanupBytes(NamedTuple):
    """What a clean-up that keeps the latest version, tags and branches would free.

    Args:
        old: bytes of old versions, and of the files that only they need.
        unneeded: bytes of files that no version needs.
    """

    old: int
    unneeded: int


@dataclass(frozen=True, slots=True)
class Files:
    """The result of comparing a dataset's files with its versions.

    Args:
        bytes: of all files.
        reclaimable: bytes of files that neither the latest version nor a tag or branch needs, which is the most that a
            clean-up can free.
        cleanup: what pylance says that a clean-up would free, if it was asked.
        held: bytes that tags and branches need beside the latest version, by kind and name, most first.
        versions: how many there are.
        missing: files of the latest version that do not exist, relative to the dataset, or as locations elsewhere.
        short: files with fewer bytes than the version says, and deletion files that cannot be decoded.
        damaged: files that have all their bytes, and cannot be read.
        invalid: why pylance's ``validate()`` fails, if nothing else says so.
        owners: the numbers of the fragments, and the names of the indices, to which these files belong.
        complete_version: if files are lost, the newest version before it that has all of its files, if one was found.
        salvage: if there is none, what can be saved of the latest version.
        missing_version: a later version that was committed, and whose manifest is lost.
        uncertain_version: a later version that was begun, and may have been committed and lost.
        broken_tags: tags whose version cannot be read.
        broken_branches: branches whose latest version cannot be read, or which no file names.
        problem: why files could not be read; the figures are unknown then.
    """

    bytes: int = 0
    reclaimable: int | None = None
    cleanup: CleanupBytes | None = None
    held: tuple[tuple[str, int], ...] = ()
    versions: int = 0
    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    invalid: str | None = None
    owners: tuple[int | str, ...] = ()
    complete_version: int | None = None
    salvage: Salvage | None = None
    missing_version: int | None = None
    uncertain_version: int | None = None
    broken_tags: tuple[BrokenReference, ...] = ()
    broken_branches: tuple[BrokenReference, ...] = ()
    problem: str | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether everything could be read, and nothing is lost."""
        return self.losses == Files()

    @property
    def losses(self) -> Files:
        """The result without what may differ between two comparisons."""
        return replace(self, bytes=0, reclaimable=None, cleanup=None, held=(), versions=0)


def rows_of(dataset: Any) -> int | None:
    """Return the rows of a ``lance.LanceDataset``; None if storage cannot tell.

    The summary of a manifest leaves out the rows that pylance 0.7 and 0.8 did not count, or counts them wrong. Only
    for these are footers of data files read.
    """
    rows: int | None = or_none(dataset.count_rows)
    return rows


def bytes_of(dataset: Any) -> int | None:
    """Return the bytes of the data files of a ``lance.LanceDataset``; None if a writer did not record them."""
    sizes = [file.file_size_bytes for fragment in dataset.get_fragments() for file in fragment.data_files()]
    return None if None in sizes else sum(sizes)


def stored_bytes(dataset: Any) -> int | None:
    """Return the bytes of the columns; for old formats those of the data files, None if one is lost or elsewhere."""
    if has_statistics(dataset):
        return sum(int(field.bytes_on_disk) for field in dataset.stats.data_stats().fields)
    listed = sizes_by_path(dataset)
    paths = [f"{DATA}/{file.path}" for fragment in dataset.get_fragments() for file in fragment.data_files()]
    return sum(listed[path] for path in paths) if listed.keys() >= {*paths} else None


def small_fragments_of(dataset: Any, *, lists_files: bool) -> int | None:
    """Return how many fragments of a ``lance.LanceDataset`` are small; None if the size of one is unknown.

    Sizes that no writer recorded are those of the files, if they may be listed.
    """
    fragments = [fragment.data_files() for fragment in dataset.get_fragments()]
    is_sized = all(file.file_size_bytes is not None for files in fragments for file in files)
    listed = None if is_sized or not lists_files else or_none(partial(sizes_by_path, dataset))
    listed_sizes: Mapping[str, int] = listed or {}
    sizes = [
        total_bytes(file.file_size_bytes or listed_sizes.get(f"{DATA}/{file.path}") for file in files)
        for files in fragments
    ]
    return None if None in sizes else sum(size is not None and size < SMALL_FRAGMENT for size in sizes)


def indices_of(dataset: Any) -> tuple[Index, ...] | None:
    """Return the indices of a ``lance.LanceDataset``, sorted by name, without Lance's internal ones.

    None if they are unknown, as rows were never counted.
    """
    try:
        described = described_indices(dataset)
    except UncountedRowsError:
        return None
    indices = (
        Index(index.name, str(index.index_type), tuple(index.field_names), index.num_rows_indexed, is_old_index(index))
        for index in described
        if not index.name.startswith(SYSTEM_INDEX)
    )
    return tuple(sorted(indices, key=lambda index: index.name))


def files_of(
    dataset: Any,
    location: str,
    options: Mapping[str, str],
    depth: Depth = Depth.FILES,
    explained: int | None = None,
) -> Files:
    """Compare the files of a ``lance.LanceDataset`` with its latest version, its branches and its tags.

    If more bytes than ``explained`` are reclaimable, ask pylance what a clean-up would free: it reads all versions.

    If something seems lost, compare again until two results agree. After five that do not, nothing is reported lost.
    """
    files, previous = Files(), None
    for _ in range(_MAX_COMPARISONS):
        try:
            files, state = _compare(dataset, location, options, depth)
        except BaseException as error:
            if not is_storage_error(error):
                raise
            # A listing of a local directory fails if a file is removed in the meantime.
            files, state = Files(problem=message_of(error, location, options)), None
        if files.is_whole or previous == (files.losses, state):
            is_much = explained is not None and (files.reclaimable or 0) > explained
            return replace(files, cleanup=or_none(partial(_cleanup_bytes, dataset))) if is_much else files
        previous, dataset = (files.losses, state), open_dataset(location, options)
    return Files(files.bytes, files.reclaimable, versions=files.versions, problem=files.problem)


def _compare(dataset: Any, location: str, options: Mapping[str, str], depth: Depth) -> tuple[Files, object]:
    """Return one comparison, and a token of the versions it saw: a second one confirms it if the tokens are equal."""
    listing = FileListing(dataset, location, options)
    finder = LossFinder(listing, depth)
    needed = needed_files(listing, dataset)
    lost = finder.lost_files(needed)
    if depth.includes(Depth.ROWS) and not any(lost):
        finder.scan(dataset, needed)
        lost = finder.lost_files(needed)
    references = References(dataset, finder, {*chain(*lost)})
    complete_version = finder.newest_complete(dataset.checkout_version, dataset.version) if any(lost) else None
    named = listing.last_known_version()
    is_to_validate = depth.includes(Depth.FOOTERS) and not any(lost) and defects_of(dataset) == NO_DEFECTS
    files = Files(
        missing=lost.missing,
        short=lost.short,
        damaged=lost.damaged,
        invalid=_validate(dataset, location, options) if is_to_validate else None,
        owners=tuple(dict.fromkeys(needed.owners[name] for name in chain(*lost))),
        complete_version=complete_version,
        salvage=salvage_of(dataset, needed, lost) if any(lost) and complete_version is None else None,
        missing_version=named if named > dataset.version else None,
        uncertain_version=dataset.version + 1 if listing.is_later_uncertain(dataset) else None,
        broken_tags=tuple(references.broken_tags()),
        broken_branches=(*references.broken_branches(), *references.unreferenced_branches()),
        bytes=sum(size for path, size in listing.file_sizes.items() if _is_own(path)),
        reclaimable=_reclaimable(
            {dataset.version, *references.tagged_versions}, [needed, *references.needed.values()], listing
        ),
        held=_held_bytes(needed, references.needed, listing),
        versions=len(listing.versions()),
        problem=finder.problem,
    )
    latest = dataset.get_version()
    return files, object() if references.has_moved else (latest["version"], latest["timestamp"])


def _validate(dataset: Any, location: str, options: Mapping[str, str]) -> str | None:
    """Return why pylance's ``validate()`` fails, which compares footers with the manifest; None if it passes.

    Raises:
        OSError, ValueError, RuntimeError: storage did not answer.
    """
    try:
        with translated(location, options):
            dataset.validate()
    except (InvalidTableStateError, InternalError) as error:
        return str(error)
    except BackendError as error:
        raise OSError(str(error)) from None
    return None


def _is_own(path: str) -> bool:
    """Return whether the file at ``path`` below the dataset belongs to it, and not to a table nested in it."""
    top = path.partition("/")[0]
    return top in (DATA, BRANCHES) or top.startswith("_")


def _cleanup_bytes(dataset: Any) -> CleanupBytes:
    """Ask pylance what a clean-up would free; nothing is removed."""
    explain = partial(
        dataset.explain_cleanup_old_versions, delete_unverified=True, error_if_tagged_old_versions=False, max_files=1
    )
    unneeded = int(explain(older_than=_AGES).stats.bytes_removed)
    return CleanupBytes(int(explain(retain_versions=1).stats.bytes_removed) - unneeded, unneeded)


def _held_bytes(
    latest: NeededFiles, needed: Mapping[str, NeededFiles], listing: FileListing
) -> tuple[tuple[str, int], ...]:
    """Return the bytes that each tag and branch needs of the main branch, beside its latest version."""
    held = Counter(
        {
            name: sum(listing.sizes.get(path, 0) for path in _kept_paths(need) - _kept_paths(latest))
            for name, need in needed.items()
        }
    )
    return tuple((name, size) for name, size in held.most_common() if size)


def _kept_paths(needed: NeededFiles) -> set[str]:
    """Return the files and folders of the main branch that a clean-up keeps for a version, without its manifest."""
    files = {path for path in own_paths(needed.files) if path.partition("/")[0] in (DATA, DELETIONS)}
    indices = {path for path in own_paths(needed.indices) if path.startswith(INDICES)}
    return files | {path.removesuffix(".lance") for path in files} | indices  # blobs are in a folder of that name


def _reclaimable(versions: Collection[int], needed: Iterable[NeededFiles], listing: FileListing) -> int:
    """Return the most bytes that a clean-up can free which keeps ``versions`` and the ``needed`` files."""
    manifests = listing.versions()
    kept = {manifests[version] for version in versions if version in manifests}.union(*map(_kept_paths, needed))
    return sum(
        size
        for path, size in listing.file_sizes.items()
        if _is_cleaned_up(path) and path not in kept and path.rpartition("/")[0] not in kept
    )


def _is_cleaned_up(path: str) -> bool:
    """Return whether a clean-up may remove this kind of file.

    Transactions count as needed.
    """
    folder, _, name = path.partition("/")
    return folder in _CLEANED_UP and (folder != VERSIONS or name.endswith(MANIFEST_SUFFIX))


@dataclass(frozen=True, slots=True)
class Recovery:
    """The newest readable version of a dataset whose latest version cannot be opened.

    Args:
        version: the newest version whose files all exist; None if none was found.
        damaged: names of the manifests after it, or after the one to save, below ``_versions``.
        is_mixed: whether the manifests follow two naming schemes, with which no latest version is found.
        salvage: if no version is complete, what can be saved of the newest that can be opened.
    """

    version: int | None
    damaged: tuple[str, ...] = ()
    is_mixed: bool = False
    salvage: Salvage | None = None


def recovery_of(location: str, options: Mapping[str, str]) -> Recovery | None:
    """Search a dataset that cannot be opened for its newest readable version; None if it has no manifest."""
    names = or_none(partial(list_directory, locations.join(location, VERSIONS), options))
    manifests = {number: name for name in names or () if (number := version_of(name)) is not None}
    if not manifests:
        return None
    newest = sorted(manifests, reverse=True)
    opened = partial(_open_version, location, options)
    readable = next(
        (version for number in newest[:MOST_VERSIONS] if (version := or_none(partial(opened, number)))), None
    )
    listing = None if readable is None else or_none(partial(FileListing, readable, location, options))
    finder = None if listing is None else LossFinder(listing)
    complete_version = None if finder is None else finder.newest_complete(opened, newest[0] + 1)
    salvage = None
    if finder is not None and complete_version is None:
        salvage = or_none(partial(_salvage, finder, readable))
    back = complete_version if salvage is None else salvage.version
    damaged = tuple(manifests[number] for number in newest if back is None or number > back)
    schemes = {len(name) == _LONG_NAME for name in manifests.values()}
    return Recovery(complete_version, damaged, len(schemes) > 1, salvage)


def _salvage(finder: LossFinder, version: Any) -> Salvage | None:
    needed = needed_files(finder.listing, version)
    return salvage_of(version, needed, finder.lost_files(needed))


def _open_version(location: str, options: Mapping[str, str], version: int) -> Any:
    """Open a version by its number, which works without the manifests of other versions."""
    return open_dataset(location, options, version=version)
