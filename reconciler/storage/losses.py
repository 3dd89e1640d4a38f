"""Find the files of a version that are missing, too short or damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from reconciler.model.admission import admission_of
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError, InternalError, InvalidTableStateError
from reconciler.model.maintenance import total_bytes
from reconciler.storage.files import resolve_location
from reconciler.storage.footers import is_sound
from reconciler.storage.listing import MAIN, FileListing
from reconciler.storage.needed import INDICES, BasePath, FragmentFiles, Key, NeededFiles, display_name, needed_files
from reconciler.storage.pylance import or_none, translated
from reconciler.storage.reading import cleanup_of
from reconciler.storage.scanning import unreadable_fragments

MOST_VERSIONS = 100
"""How many versions are tried in the search for one whose files all exist."""

_AT_ONCE = 16
_BLOB_KINDS_IN_FILES = (1, 2)  # kinds of blobs: packed with others in a file, or in a file of its own
_EXTERNAL_BLOB = 3


class Depth(Enum):
    """How much of each dataset is read, each more than the one before.

    The latest manifest, also a list of the files, also the ends of data and index files, also all rows.
    """

    QUICK = "quick"
    FILES = "files"
    FOOTERS = "footers"
    ROWS = "rows"

    def includes(self, other: Depth) -> bool:
        """Return whether as much is read as at the depth ``other``."""
        order = [*Depth]
        return order.index(self) >= order.index(other)


class _FileState(Enum):
    """Whether storage has all bytes of a file, and they can be read."""

    WHOLE = 0
    MISSING = 1
    SHORT = 2
    DAMAGED = 3


class LostFiles(NamedTuple):
    """Display names of needed files and folders that do not exist, have too few bytes, or cannot be read."""

    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


class Salvage(NamedTuple):
    """What can be saved of a version that lost files of its rows.

    Args:
        version: its number.
        whole: how many fragments have all of their files.
        broken: the ids of the other fragments.
        rows: how many rows the whole fragments have; None is unknown.
        lost_rows: how many the others had; None is unknown.
        cleans_up: whether the next commit may set off its auto clean-up.
    """

    version: int
    whole: int
    broken: tuple[int, ...]
    rows: int | None
    lost_rows: int | None
    cleans_up: bool = False


class LossFinder:
    """Finds the files that versions need and a listing lacks, or whose content cannot be read.

    ``problem`` says why a file of another base, or the content of a file, could not be read.
    """

    def __init__(self, listing: FileListing, depth: Depth = Depth.FILES) -> None:
        self.listing = listing
        self.problem: str | None = None
        self._depth = depth
        self._location, self._options = listing.location, listing.options
        self._states_elsewhere: dict[Key, _FileState] = {}
        self._contents: dict[tuple[Key, ...], tuple[bool, Mapping[Key, int]]] = {}
        self._content_states: dict[Key, _FileState] = {}

    def newest_complete(self, opened: Callable[[int], Any], below: int, branch_folder: str = MAIN) -> int | None:
        """Return the newest version before ``below`` whose files all exist; None if there is none.

        ``opened`` opens a version by its number; at most ``MOST_VERSIONS`` are tried.
        """

        def lost_by(number: int) -> LostFiles:
            return self.lost_files(needed_files(self.listing, opened(number), branch_folder))

        earlier = sorted((number for number in self.listing.versions(branch_folder) if number < below), reverse=True)
        return next(
            (version for version in earlier[:MOST_VERSIONS] if or_none(partial(lost_by, version)) == LostFiles()), None
        )

    def lost_files(self, needed: NeededFiles) -> LostFiles:
        """Return the needed files that are missing or short.

        For fragments with all their files, read the deletion file and blob descriptors too: a manifest names neither
        the size of a deletion file nor the files of blobs.
        """
        state = self._states_of(needed.files | needed.folders)
        state |= self._check_footers(needed, state)
        whole = [part for part in needed.parts if all(state[key] is _FileState.WHOLE for key in part.keys)]
        contents = in_parallel(partial(self._read_contents, needed), whole, _AT_ONCE)
        for part, (is_readable, blobs) in zip(whole, contents, strict=True):
            if part.deletion is not None and not is_readable:
                state[part.deletion] = _FileState.SHORT
            needed.owners.update((display_name(key), part.fragment.fragment_id) for key in blobs)
            state |= self._states_of(blobs)
            state |= {key: self._content_states[key] for key in part.data if key in self._content_states}
        return LostFiles(
            *(
                tuple(sorted(display_name(key) for key, file_state in state.items() if file_state is kind))
                for kind in (_FileState.MISSING, _FileState.SHORT, _FileState.DAMAGED)
            )
        )

    def scan(self, version: Any, needed: NeededFiles) -> None:
        """Read the rows of the latest version; the files of fragments that cannot be read are damaged from then on."""
        try:
            unreadable = unreadable_fragments(self._location, self._options, version.version, len(needed.parts))
            keys = [key for position in unreadable for key in needed.parts[position].data]
        except BackendError as error:
            self.problem, keys = str(error), []
        self._content_states.update(dict.fromkeys(keys, _FileState.DAMAGED))

    def _check_footers(self, needed: NeededFiles, state: Mapping[Key, _FileState]) -> Mapping[Key, _FileState]:
        """Return the state of data and index files that have all their bytes, by their footers.

        Without the depth for it, those of data files with blobs, which are read next.
        """
        data = {key: fields for part in needed.parts for key, fields in part.data.items()}
        files = {key: needed.files[key] for key, fields in data.items() if fields & needed.blobs.keys()}
        if self._depth.includes(Depth.FOOTERS):
            deletions = {part.deletion for part in needed.parts}
            files = {key: size for key, size in needed.files.items() if key not in deletions}
            for folder in needed.folders:  # of which the manifest names no files
                paths = () if folder[0] else self.listing.file_sizes
                inside = [path for path in paths if path.startswith(f"{folder[1]}/")]
                files.update((("", path), None) for path in inside)
                needed.owners.update((path, needed.owners[display_name(folder)]) for path in inside)
        whole = [(key, size) for key, size in files.items() if state.get(key, _FileState.WHOLE) is _FileState.WHOLE]
        unread = [item for item in whole if item[0] not in self._content_states]
        self._content_states.update(in_parallel(self._check_footer, unread, _AT_ONCE))
        return {key: self._content_states[key] for key, _ in whole}

    def _check_footer(self, item: tuple[Key, int | None]) -> tuple[Key, _FileState]:
        """Return the state of a file by its footer; WHOLE if storage does not answer, or does not say where it ends."""
        (base, path), size = key, _ = item
        size = size if base else self.listing.file_sizes[path]
        try:
            with translated(base or self._location, self._options):
                is_whole = size is None or is_sound(*self.listing.session_of(base, path), size)
        except BackendError as error:
            self.problem, is_whole = str(error), True
        return key, _FileState.WHOLE if is_whole else _FileState.DAMAGED

    def _states_of(self, needed: Mapping[Key, int | None]) -> dict[Key, _FileState]:
        elsewhere = [(key, size) for key, size in needed.items() if key[0] and key not in self._states_elsewhere]
        self._states_elsewhere.update(in_parallel(self._check_elsewhere, elsewhere, _AT_ONCE))
        return {
            key: self._states_elsewhere[key] if key[0] else _state_by_size(self.listing.sizes.get(key[1]), size)
            for key, size in needed.items()
        }

    def _check_elsewhere(self, item: tuple[Key, int | None]) -> tuple[Key, _FileState]:
        """Return the state of a file or folder of another base; WHOLE if storage does not answer."""
        (base, path), size = key, _ = item
        try:
            with translated(base, self._options):
                session, name = self.listing.session_of(base, path)
                if path.startswith(INDICES) and path.count("/") == 1:
                    return key, _FileState.WHOLE if session.list(name) else _FileState.MISSING
                return key, _state_by_reading(session, name, size)
        except BackendError as error:
            self.problem = str(error)
            return key, _FileState.WHOLE

    def _read_contents(self, needed: NeededFiles, part: FragmentFiles) -> tuple[bool, Mapping[Key, int]]:
        """Return whether a fragment's deletion file can be read, and the least bytes of each of its blob files."""
        blobs = needed.blobs
        columns = [(key, blobs[number]) for key, fields in part.data.items() for number in fields & blobs.keys()]
        known = tuple(part.keys)
        if known in self._contents or not (columns or part.deletion):
            return self._contents.get(known, (True, {}))
        ends: dict[Key, int] = {}
        is_readable = True
        try:
            with translated(self._location, self._options):
                if part.deletion is not None:
                    is_readable = _is_readable(part.fragment)
                for key, column in columns if is_readable else ():
                    external = _external_blobs(part.fragment, column) if self._depth.includes(Depth.ROWS) else ()
                    named = ((self._external_key(needed.bases, *blob), end) for blob, end in external)
                    for blob, end in chain(_blob_file_sizes(part.fragment, key, column).items(), named):
                        if blob is not None:
                            ends[blob] = max(end, ends.get(blob, 0))
        except (InvalidTableStateError, InternalError):
            self._content_states.update((key, _FileState.DAMAGED) for key, _ in columns)
        except BackendError as error:
            self.problem = str(error)
        self._contents[known] = is_readable, ends
        return self._contents[known]

    def _external_key(self, bases: Mapping[int | None, BasePath], base_id: int, uri: str) -> Key | None:
        """Return the key of an external blob; None for a URI below no base that the options do not admit."""
        if base_id:
            return bases[base_id].key(uri)
        place = resolve_location(uri)
        folder, _, name = place.rpartition("/")
        return (folder, name) if admission_of(self._options).admits(self.listing.place, place) else None


def salvage_of(version: Any, needed: NeededFiles, lost: LostFiles) -> Salvage | None:
    """Return what can be saved of a version that lost files; None if all of its rows are whole, or none."""
    broken = {owner for name in chain(*lost) if isinstance(owner := needed.owners[name], int)}
    fragments = {part.fragment.fragment_id: part.fragment for part in needed.parts}
    whole = fragments.keys() - broken
    if not broken or not whole:
        return None
    rows, lost_rows = (total_bytes(_rows_of(fragments[number]) for number in ids) for ids in (whole, broken))
    cleans_up = cleanup_of(version) is not None
    return Salvage(version.version, len(whole), tuple(sorted(broken)), rows, lost_rows, cleans_up)


def _rows_of(fragment: Any) -> int | None:
    """Return the rows of a fragment, as its version says; None if its writer did not count them."""
    metadata = fragment.metadata
    deleted = 0 if metadata.deletion_file is None else metadata.deletion_file.num_deleted_rows
    return metadata.physical_rows - deleted if metadata.physical_rows and deleted is not None else None


def _state_by_size(actual: int | None, size: int | None) -> _FileState:
    """Return the state of a file of ``actual`` bytes; one of unknown ``size`` is not empty."""
    if actual is None:
        return _FileState.MISSING
    return _FileState.SHORT if actual < (1 if size is None else size) else _FileState.WHOLE


def _state_by_reading(session: Any, path: str, size: int | None) -> _FileState:
    """Read the last byte of a file that should have ``size`` bytes, and return its state."""
    if size == 0:
        return _FileState.WHOLE if session.contains(path) else _FileState.MISSING
    for _ in range(2):
        try:
            session.read_range(path, (size or 1) - 1, 1)
        except OSError:
            if not session.contains(path):
                return _FileState.MISSING
        else:
            return _FileState.WHOLE
    return _FileState.SHORT


def _is_readable(fragment: Any) -> bool:
    """Return whether pylance can decode a fragment's deletion file.

    Raises:
        OSError, ValueError, RuntimeError: storage did not answer.
    """
    try:
        with translated("", {}):
            fragment.scanner(columns=[], with_row_id=True, limit=1).to_table()
    except (InvalidTableStateError, InternalError):
        return False
    return True


def _blob_file_sizes(fragment: Any, data: Key, column: str) -> dict[Key, int]:
    """Return the least bytes of each file of a column's blobs, from the descriptors in the data file ``data``.

    The files are in a folder with the name of the data file.
    """
    ends: Counter[int] = Counter()
    for blob in _blobs(fragment, column, _BLOB_KINDS_IN_FILES, ["blob_id"]):
        ends[blob["blob_id"]] = max(ends[blob["blob_id"]], blob["end_max"])
    base, path = data
    folder = path.removesuffix(".lance")
    return {(base, f"{folder}/{format(number, '032b')[::-1]}.blob"): end for number, end in ends.items()}


def _external_blobs(fragment: Any, column: str) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield the base id and URI of each file of a column's external blobs, and its least bytes: 0 for all of it."""
    for blob in _blobs(fragment, column, (_EXTERNAL_BLOB,), ["blob_id", "blob_uri"]):
        yield (blob["blob_id"], blob["blob_uri"]), blob["end_max"]


def _blobs(fragment: Any, column: str, kinds: Collection[int], keys: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the ``keys`` and the last end of the blobs of some kinds, for each batch of a column of descriptors."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in fragment.scanner(columns=[column]).to_batches():
        described = {name: pc.struct_field(batch.column(0), name) for name in ("kind", "position", "size", *keys)}
        end = pc.add(described["position"], described["size"])
        blobs = pa.table({**{key: described[key] for key in keys}, "end": end})
        chosen = blobs.filter(pc.is_in(described["kind"], pa.array(kinds, described["kind"].type)))
        yield from chosen.group_by(keys).aggregate([("end", "max")]).to_pylist()
