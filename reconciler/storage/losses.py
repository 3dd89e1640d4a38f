"""List the files that a version of a dataset needs, and find those that are missing or too short.

Results name a file by its path below the dataset, also for a branch. They name a file of another base, such as the
source of a shallow clone, by its location.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from reconciler.model import locations
from reconciler.model.admission import admission_of
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError, InternalError, InvalidTableStateError
from reconciler.model.maintenance import total_bytes
from reconciler.storage.files import local_path, resolve_location, session_at, session_of, version_of
from reconciler.storage.footers import index_segments, is_sound, writer_of
from reconciler.storage.opening import expect_admitted
from reconciler.storage.pylance import or_none, translated
from reconciler.storage.reading import UncountedRowsError, cleanup_of, described_indices
from reconciler.storage.scanning import unreadable_fragments

DATA, INDICES, VERSIONS = "data", "_indices", "_versions"
SYSTEM_INDEX = "__lance"
"""Prefix of the names of Lance's internal indices, such as the one of a compaction that defers remapping."""
MAIN = ""
"""The folder of the main branch, below the dataset. Other branches have ``tree/NAME/``."""

MOST_VERSIONS = 100
"""How many versions are tried in the search for one whose files all exist."""

_HINT, _TRANSACTIONS = "latest_version_hint.json", "_transactions/"
_FIRST_WITH_HINT = 7
_AT_ONCE = 16
_EXTENSION_KEY, _BLOB_EXTENSION = "ARROW:extension:name", "lance.blob.v2"
_BLOB_KINDS_IN_FILES = (1, 2)  # kinds of blobs: packed with others in a file, or in a file of its own
_EXTERNAL_BLOB = 3

Key: TypeAlias = tuple[str, str]
"""A file or folder: the location of its base, empty for the dataset itself, and the path below that."""


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


class _BasePath(NamedTuple):
    """A Lance base path, which the files of a fragment or index are relative to.

    ``base`` is its location, empty below the dataset itself; ``prefix`` the folder there, ``data`` that of data files.
    """

    base: str
    prefix: str
    data: str = f"{DATA}/"

    def key(self, path: str) -> Key:
        return self.base, self.prefix + path


class _FragmentFiles(NamedTuple):
    """A fragment, its deletion file, and the field ids of each data file."""

    fragment: Any
    deletion: Key | None
    data: Mapping[Key, frozenset[int]]

    @property
    def keys(self) -> list[Key]:
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
    bases: Mapping[int | None, _BasePath] = field(default_factory=dict)
    owners: dict[str, int | str] = field(default_factory=dict)
    parts: list[_FragmentFiles] = field(default_factory=list)


def own_paths(keys: Iterable[Key]) -> set[str]:
    """Return the paths of those keys that have no other base than the dataset."""
    return {path for base, path in keys if not base}


def sizes_by_path(dataset: Any) -> dict[str, int]:
    """List a ``lance.LanceDataset``; return the bytes of each file by its path."""
    sizes: dict[str, int] = {}
    for batch in dataset.all_files():
        columns = (batch.column(name).to_pylist() for name in ("path", "size_bytes"))
        sizes.update(zip(*columns, strict=True))
    return sizes


class FileListing:
    """The files of a dataset, listed once, to check any of its versions against.

    ``problem`` says why a file of another base, or the content of a file, could not be read.
    """

    def __init__(self, dataset: Any, location: str, options: Mapping[str, str], depth: Depth = Depth.FILES) -> None:
        self.file_sizes: Mapping[str, int] = sizes_by_path(dataset)
        self.problem: str | None = None
        self._location, self._options, self._depth = location, options, depth
        self._place = resolve_location(location)
        self._session = dataset.new_file_session()
        self._sessions: dict[str, Any] = {}
        self._states_elsewhere: dict[Key, _FileState] = {}
        self._contents: dict[tuple[Key, ...], tuple[bool, Mapping[Key, int]]] = {}
        self._content_states: dict[Key, _FileState] = {}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of each file and of each folder, by path."""
        sums = Counter[str]()
        for path, size in self.file_sizes.items():
            sums[path.rpartition("/")[0]] += size
        return {**sums, **self.file_sizes}

    # ---- versions ----------------------------------------------------------------------------------------------------

    def versions(self, branch_folder: str = MAIN) -> dict[int, str]:
        """Return the path of the manifest of each listed version of a branch."""
        folder = f"{branch_folder}{VERSIONS}/"
        inside = {path: path.removeprefix(folder) for path in self.file_sizes if path.startswith(folder)}
        return {number: path for path, name in inside.items() if (number := version_of(name)) is not None}

    def last_known_version(self, branch_folder: str = MAIN) -> int:
        """Return the latest version that a branch certainly had, even if its manifest is lost; 0 if unknown.

        It is in Lance's hint file. Without one, transaction files name the versions that they read; the version that
        the last of them wrote may never have been committed.
        """
        hint, folder = f"{branch_folder}{VERSIONS}/{_HINT}", branch_folder + _TRANSACTIONS
        if hint in self.file_sizes:
            named = self.document(hint).get("version")
            return named if isinstance(named, int) else 0
        read = (path.removeprefix(folder).partition("-")[0] for path in self.file_sizes if path.startswith(folder))
        return max((int(number) for number in read if number.isdecimal()), default=0)

    def is_later_uncertain(self, version: Any) -> bool:
        """Return whether a later version than the latest may have been committed, and its manifest and hint are lost.

        On a disk, Lance has written the hint after each commit since version 7; elsewhere it has none. A transaction
        has begun the later version.
        """
        hint, manifest = f"{VERSIONS}/{_HINT}", self.versions().get(version.version)
        if hint in self.file_sizes or manifest is None or local_path(self._location) is None:
            return False
        if self.last_known_version() != version.version:
            return False
        try:
            writer = writer_of(self._content(manifest))
        except (OSError, LookupError, ValueError):
            return False
        return writer is not None and writer >= _FIRST_WITH_HINT

    def document(self, path: str) -> Mapping[str, Any]:
        """Read a small file of JSON; return an empty mapping if it is not a readable JSON object."""
        try:
            document = json.loads(self._content(path))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def _content(self, path: str) -> bytes:
        session, name = self._session_of("", path)
        content: bytes = session.read_range(name, 0, self.file_sizes[path])
        return content

    def _session_of(self, base: str, path: str) -> tuple[Any, str]:
        """Return access to a file of ``base``, and the path to read there."""

        def shared() -> Any:
            return self._sessions.setdefault(base, session_at(base, self._options)) if base else self._session

        return session_of(path, shared, base or self._location, self._options)

    def newest_complete(self, opened: Callable[[int], Any], below: int, branch_folder: str = MAIN) -> int | None:
        """Return the newest version before ``below`` whose files all exist; None if there is none.

        ``opened`` opens a version by its number; at most ``MOST_VERSIONS`` are tried.
        """

        def lost_by(number: int) -> LostFiles:
            return self.lost_files(self.needed_by(opened(number), branch_folder))

        earlier = sorted((number for number in self.versions(branch_folder) if number < below), reverse=True)
        return next(
            (version for version in earlier[:MOST_VERSIONS] if or_none(partial(lost_by, version)) == LostFiles()), None
        )

    # ---- what a version needs ----------------------------------------------------------------------------------------

    def needed_by(self, version: Any, branch_folder: str = MAIN) -> NeededFiles:
        """Return the files that an opened version of a branch needs."""
        expect_admitted(self._location, self._options, version)
        bases = self._base_paths(version, branch_folder)
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
            needed.parts.append(_FragmentFiles(fragment, deletion, data))
            needed.owners.update((_display_name(key), fragment.fragment_id) for key in needed.parts[-1].keys)
        indices = listed_indices(version)
        files_by_index = self._index_files(self.versions(branch_folder).get(version.version)) if indices else {}
        for index in indices:
            for segment in index.segments:
                key = bases[segment.base_id].key(f"{INDICES}/{segment.uuid}")
                if index.name.startswith(SYSTEM_INDEX) and key[1] not in self.sizes:
                    continue  # the manifest has its content, up to a size
                named = {
                    (key[0], f"{key[1]}/{name}"): size for name, size in files_by_index.get(segment.uuid, {}).items()
                }
                needed.indices.add(key)
                needed.files.update(named)
                if not named:
                    needed.folders[key] = segment.size_bytes or None
                needed.owners.update((_display_name(file), index.name) for file in named or [key])
        return needed

    def _index_files(self, manifest: str | None) -> Mapping[str, Mapping[str, int | None]]:
        """Return the files of each index segment that the manifest at a path names, by its UUID."""
        if manifest is None:
            return {}
        try:
            segments = index_segments(self._content(manifest))
            return {uuid: segment.files for uuid, segment in segments.items()}
        except (OSError, LookupError, ValueError):  # it was removed in the meantime, or has another form
            return {}

    def _base_paths(self, version: Any, branch_folder: str) -> Mapping[int | None, _BasePath]:
        """Return the base path of each base id of a version; None is the id of the branch itself."""
        bases: dict[int | None, _BasePath] = {None: _BasePath("", branch_folder)}
        for number, base in version.base_paths().items():
            place, data = resolve_location(base.path), f"{DATA}/" if base.is_dataset_root else ""
            inside = place == self._place or locations.is_under(self._place, place)
            below = place.removeprefix(self._place).strip("/")
            bases[number] = _BasePath("", below and f"{below}/", data) if inside else _BasePath(base.path, "", data)
        return bases

    # ---- what is lost ------------------------------------------------------------------------------------------------

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
            needed.owners.update((_display_name(key), part.fragment.fragment_id) for key in blobs)
            state |= self._states_of(blobs)
            state |= {key: self._content_states[key] for key in part.data if key in self._content_states}
        return LostFiles(
            *(
                tuple(sorted(_display_name(key) for key, file_state in state.items() if file_state is kind))
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
                inside = [path for path in self.file_sizes if not folder[0] and path.startswith(f"{folder[1]}/")]
                files.update((("", path), None) for path in inside)
                needed.owners.update((path, needed.owners[_display_name(folder)]) for path in inside)
        whole = [(key, size) for key, size in files.items() if state.get(key, _FileState.WHOLE) is _FileState.WHOLE]
        unread = [item for item in whole if item[0] not in self._content_states]
        self._content_states.update(in_parallel(self._check_footer, unread, _AT_ONCE))
        return {key: self._content_states[key] for key, _ in whole}

    def _check_footer(self, item: tuple[Key, int | None]) -> tuple[Key, _FileState]:
        """Return the state of a file by its footer; WHOLE if storage does not answer, or does not say where it ends."""
        (base, path), size = key, _ = item
        size = size if base else self.file_sizes[path]
        try:
            with translated(base or self._location, self._options):
                is_whole = size is None or is_sound(*self._session_of(base, path), size)
        except BackendError as error:
            self.problem, is_whole = str(error), True
        return key, _FileState.WHOLE if is_whole else _FileState.DAMAGED

    def _states_of(self, needed: Mapping[Key, int | None]) -> dict[Key, _FileState]:
        elsewhere = [(key, size) for key, size in needed.items() if key[0] and key not in self._states_elsewhere]
        self._states_elsewhere.update(in_parallel(self._check_elsewhere, elsewhere, _AT_ONCE))
        return {
            key: self._states_elsewhere[key] if key[0] else _state_by_size(self.sizes.get(key[1]), size)
            for key, size in needed.items()
        }

    def _check_elsewhere(self, item: tuple[Key, int | None]) -> tuple[Key, _FileState]:
        """Return the state of a file or folder of another base; WHOLE if storage does not answer."""
        (base, path), size = key, _ = item
        try:
            with translated(base, self._options):
                session, name = self._session_of(base, path)
                if path.startswith(INDICES) and path.count("/") == 1:
                    return key, _FileState.WHOLE if session.list(name) else _FileState.MISSING
                return key, _state_by_reading(session, name, size)
        except BackendError as error:
            self.problem = str(error)
            return key, _FileState.WHOLE

    def _read_contents(self, needed: NeededFiles, part: _FragmentFiles) -> tuple[bool, Mapping[Key, int]]:
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

    def _external_key(self, bases: Mapping[int | None, _BasePath], base_id: int, uri: str) -> Key | None:
        """Return the key of an external blob; None for a URI below no base that the options do not admit."""
        if base_id:
            return bases[base_id].key(uri)
        place = resolve_location(uri)
        folder, _, name = place.rpartition("/")
        return (folder, name) if admission_of(self._options).admits(self._place, place) else None


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


def listed_indices(version: Any) -> list[Any]:
    """Return the indices of a version, and none of one whose rows were never counted."""
    try:
        return described_indices(version)
    except UncountedRowsError:
        return []


def _display_name(key: Key) -> str:
    """Return the path of a file of the dataset, or the location of one of another base, without secrets."""
    base, path = key
    return locations.redact(locations.join(base, path)) if base else path


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


def _blob_columns(fields: Iterable[Any], above: str = "") -> Iterator[tuple[int, str]]:
    """Yield the field id and the path of each blob column."""
    for column in fields:
        path = f"{above}`{column.name()}`"
        if column.metadata.get(_EXTENSION_KEY) == _BLOB_EXTENSION:
            yield column.id(), path
        else:
            yield from _blob_columns(column.children(), f"{path}.")


def _blob_file_sizes(fragment: Any, data: Key, column: str) -> dict[Key, int]:
    """Return the least bytes of each file of a column's blobs, from the descriptors in the data file ``data``.

    The files are in a folder with the name of the data file.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ends: Counter[int] = Counter()
    for batch in fragment.scanner(columns=[column]).to_batches():
        kind, position, size, number = (
            pc.struct_field(batch.column(0), name) for name in ("kind", "position", "size", "blob_id")
        )
        described = pa.table({"number": number, "end": pc.add(position, size)})
        in_files = described.filter(pc.is_in(kind, pa.array(_BLOB_KINDS_IN_FILES, kind.type)))
        for row in in_files.group_by("number").aggregate([("end", "max")]).to_pylist():
            ends[row["number"]] = max(ends[row["number"]], row["end_max"])
    base, path = data
    folder = path.removesuffix(".lance")
    return {(base, f"{folder}/{format(number, '032b')[::-1]}.blob"): end for number, end in ends.items()}


def _external_blobs(fragment: Any, column: str) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield the base id and URI of each file of a column's external blobs, and its least bytes: 0 for all of it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in fragment.scanner(columns=[column]).to_batches():
        kind, position, size, number, uri = (
            pc.struct_field(batch.column(0), name) for name in ("kind", "position", "size", "blob_id", "blob_uri")
        )
        described = pa.table({"number": number, "uri": uri, "end": pc.add(position, size)})
        external = described.filter(pc.equal(kind, _EXTERNAL_BLOB))
        for row in external.group_by(["number", "uri"]).aggregate([("end", "max")]).to_pylist():
            yield (row["number"], row["uri"]), row["end_max"]
