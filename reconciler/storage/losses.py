"""What a version of a dataset needs, and which of it storage has lost.

A file is named by its path below the dataset, also where a branch has it. A file of another base, such as the dataset
that was cloned, is named by its location.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

from reconciler.model import locations
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError, InternalError, InvalidTableStateError
from reconciler.storage.files import place_of, session_at, version_of
from reconciler.storage.opening import expect_admitted
from reconciler.storage.pylance import or_none, translated

DATA, INDICES, VERSIONS = "data", "_indices", "_versions"
SYSTEM_INDEX = "__lance"
"""How the names of indices begin that Lance keeps for itself, such as that of a compaction which defers remapping."""
MAIN = ""
"""The directory of the main branch, below the dataset."""

MOST_VERSIONS = 100
"""How many versions are tried in the search for one whose files are all there."""

_HINT, _TRANSACTIONS = "latest_version_hint.json", "_transactions/"
_AT_ONCE = 16
_EXTENSION, _BLOB = "ARROW:extension:name", "lance.blob.v2"
_IN_FILES = (1, 2)  # kinds of blobs: packed with others in a file, or in a file of its own

Key: TypeAlias = tuple[str, str]
"""The base of a file or folder, empty for the dataset's own, and the path below it."""


class _State(Enum):
    WHOLE = 0
    MISSING = 1
    SHORT = 2


class Lost(NamedTuple):
    """The files and folders that a version needs, and that are missing or short."""

    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()


class _Home(NamedTuple):
    """A directory with files of a dataset; its data files are in ``data`` below it."""

    base: str
    prefix: str
    data: str = f"{DATA}/"

    def key(self, path: str) -> Key:
        return self.base, self.prefix + path


class _Part(NamedTuple):
    """A fragment, its deletion file, and its data files with the ids of their fields."""

    fragment: Any
    deletion: Key | None
    data: Mapping[Key, frozenset[int]]

    @property
    def keys(self) -> list[Key]:
        return [*self.data, *filter(None, [self.deletion])]


@dataclass(slots=True)
class Needed:
    """What a version names, with known sizes.

    Args:
        files: data and deletion files.
        folders: folders of index files.
        blobs: the columns of blobs, by the id of their field.
        owners: the number of the fragment, or the name of the index, to which each belongs, by its name.
        parts: the fragments.
    """

    files: dict[Key, int | None] = field(default_factory=dict)
    folders: dict[Key, int | None] = field(default_factory=dict)
    blobs: Mapping[int, str] = field(default_factory=dict)
    owners: dict[str, int | str] = field(default_factory=dict)
    parts: list[_Part] = field(default_factory=list)


def own(keys: Iterable[Key]) -> set[str]:
    """Return the paths of what is below the dataset."""
    return {path for base, path in keys if not base}


def listed_keys(dataset: Any) -> dict[str, int]:
    """Return every file of a dataset with its size in bytes."""
    sizes: dict[str, int] = {}
    for batch in dataset.all_files():
        columns = (batch.column(name).to_pylist() for name in ("path", "size_bytes"))
        sizes.update(zip(*columns, strict=True))
    return sizes


class FileListing:
    """The files of a dataset, listed once, to compare its versions with.

    ``problem`` says why a file elsewhere, or the content of one, could not be looked at.
    """

    def __init__(self, dataset: Any, location: str, options: Mapping[str, str]) -> None:
        self.found: Mapping[str, int] = listed_keys(dataset)
        self.problem: str | None = None
        self._location, self._options = location, options
        self._place = place_of(location)
        self._session = dataset.new_file_session()
        self._sessions: dict[str, Any] = {}
        self._elsewhere: dict[Key, _State] = {}
        self._read: dict[tuple[Key, ...], tuple[bool, Mapping[Key, int]]] = {}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of each file, and the sum for each folder."""
        sums = Counter[str]()
        for path, size in self.found.items():
            sums[path.rpartition("/")[0]] += size
        return {**sums, **self.found}

    # ---- versions ----------------------------------------------------------------------------------------------------

    def versions(self, home: str = MAIN) -> dict[int, str]:
        """Return the manifest file of each version of a branch."""
        folder = f"{home}{VERSIONS}/"
        inside = {path: path.removeprefix(folder) for path in self.found if path.startswith(folder)}
        return {number: path for path, name in inside.items() if (number := version_of(name)) is not None}

    def named_version(self, home: str = MAIN) -> int:
        """Return the latest version that a branch is known to have had, 0 if none is.

        The hint names it, or else the transactions name versions that they read. What the last of them made may never
        have been committed.
        """
        hint, folder = f"{home}{VERSIONS}/{_HINT}", home + _TRANSACTIONS
        if hint in self.found:
            named = self.document(hint).get("version")
            return named if isinstance(named, int) else 0
        read = (path.removeprefix(folder).partition("-")[0] for path in self.found if path.startswith(folder))
        return max((int(number) for number in read if number.isdecimal()), default=0)

    def document(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object in a small file, an empty one if it has none."""
        try:
            document = json.loads(self._session.read_range(path, 0, self.found[path]))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def newest_whole(self, opened: Callable[[int], Any], below: int, home: str = MAIN) -> int | None:
        """Return the newest version before ``below`` whose files are all there.

        ``opened`` returns a version; at most ``MOST_VERSIONS`` are opened.
        """

        def lost_by(number: int) -> Lost:
            return self.lost(self.needed_by(opened(number), home))

        earlier = sorted((number for number in self.versions(home) if number < below), reverse=True)
        return next(
            (version for version in earlier[:MOST_VERSIONS] if or_none(partial(lost_by, version)) == Lost()), None
        )

    # ---- what a version needs ----------------------------------------------------------------------------------------

    def needed_by(self, version: Any, home: str = MAIN) -> Needed:
        """Return what a version of the branch in ``home`` names."""
        expect_admitted(self._location, self._options, version)
        needed, homes = Needed(blobs=dict(_blob_columns(version.lance_schema.fields()))), self._homes(version, home)
        for fragment in version.get_fragments():
            data: dict[Key, frozenset[int]] = {}
            for file in fragment.data_files():
                base = homes[file.base_id]
                key = base.key(base.data + file.path)
                data[key], needed.files[key] = frozenset(file.fields), file.file_size_bytes
            deletion_file, deletion = fragment.metadata.deletion_file, None
            if deletion_file is not None:
                deletion = homes[deletion_file.base_id].key(str(fragment.deletion_file()))
                needed.files[deletion] = None
            needed.parts.append(_Part(fragment, deletion, data))
            needed.owners.update((_name_of(key), fragment.fragment_id) for key in needed.parts[-1].keys)
        for index in version.describe_indices():
            for segment in index.segments:
                key = homes[segment.base_id].key(f"{INDICES}/{segment.uuid}")
                if index.name.startswith(SYSTEM_INDEX) and key[1] not in self.sizes:
                    continue  # the manifest has its content, up to a size
                needed.folders[key], needed.owners[_name_of(key)] = segment.size_bytes, index.name
        return needed

    def _homes(self, version: Any, home: str) -> Mapping[int | None, _Home]:
        """Return the directories of a version's files; a base may be inside the dataset."""
        homes: dict[int | None, _Home] = {None: _Home("", home)}
        for number, base in version.base_paths().items():
            place, data = place_of(base.path), f"{DATA}/" if base.is_dataset_root else ""
            inside = place == self._place or locations.is_under(self._place, place)
            below = place.removeprefix(self._place).strip("/")
            homes[number] = _Home("", below and f"{below}/", data) if inside else _Home(base.path, "", data)
        return homes

    # ---- what is lost ------------------------------------------------------------------------------------------------

    def lost(self, needed: Needed) -> Lost:
        """Return what is missing or short of what a version needs.

        Where a fragment has all its files, this reads its deletion file and blob descriptors: a manifest names
        neither the size of a deletion file nor the files of blobs.
        """
        state = self._states(needed.files | needed.folders)
        whole = [part for part in needed.parts if all(state[key] is _State.WHOLE for key in part.keys)]
        contents = in_parallel(partial(self._content, needed.blobs), whole, _AT_ONCE)
        for part, (is_readable, blobs) in zip(whole, contents, strict=True):
            if part.deletion is not None and not is_readable:
                state[part.deletion] = _State.SHORT
            needed.owners.update((_name_of(key), part.fragment.fragment_id) for key in blobs)
            state |= self._states(blobs)
        missing, short = (
            tuple(sorted(_name_of(key) for key, file_state in state.items() if file_state is kind))
            for kind in (_State.MISSING, _State.SHORT)
        )
        return Lost(missing, short)

    def _states(self, needed: Mapping[Key, int | None]) -> dict[Key, _State]:
        elsewhere = [(key, size) for key, size in needed.items() if key[0] and key not in self._elsewhere]
        self._elsewhere.update(in_parallel(self._state_elsewhere, elsewhere, _AT_ONCE))
        return {
            key: self._elsewhere[key] if key[0] else _state_of(self.sizes.get(key[1]), size)
            for key, size in needed.items()
        }

    def _state_elsewhere(self, item: tuple[Key, int | None]) -> tuple[Key, _State]:
        """Return what became of a file or folder of another base; WHOLE where nobody can tell."""
        (base, path), size = key, _ = item
        try:
            with translated(base, self._options):
                session = self._sessions.setdefault(base, session_at(base, self._options))
                if path.startswith(INDICES):
                    return key, _State.WHOLE if session.list(path) else _State.MISSING
                return key, _state_at(session, path, size)
        except BackendError as error:
            self.problem = str(error)
            return key, _State.WHOLE

    def _content(self, blobs: Mapping[int, str], part: _Part) -> tuple[bool, Mapping[Key, int]]:
        """Return whether a fragment's deletion file can be read, and what the files of its blobs hold."""
        columns = [(key, blobs[number]) for key, fields in part.data.items() for number in fields & blobs.keys()]
        known = tuple(part.keys)
        if known in self._read or not (columns or part.deletion):
            return self._read.get(known, (True, {}))
        ends: dict[Key, int] = {}
        is_readable = True
        try:
            with translated(self._location, self._options):
                if part.deletion is not None:
                    is_readable = _is_readable(part.fragment)
                for key, column in columns if is_readable else ():
                    for blob, end in _blobs_of(part.fragment, key, column).items():
                        ends[blob] = max(end, ends.get(blob, 0))
        except BackendError as error:
            self.problem = str(error)
        self._read[known] = is_readable, ends
        return self._read[known]


def _name_of(key: Key) -> str:
    """Return how a file or folder is named."""
    base, path = key
    return locations.redact(locations.join(base, path)) if base else path


def _state_of(actual: int | None, size: int | None) -> _State:
    if actual is None:
        return _State.MISSING
    return _State.SHORT if actual < (size or 1) else _State.WHOLE


def _state_at(session: Any, path: str, size: int | None) -> _State:
    """Return what became of a file, whose last byte is there if it is whole."""
    for _ in range(2):
        try:
            session.read_range(path, (size or 1) - 1, 1)
        except OSError:
            if not session.contains(path):
                return _State.MISSING
        else:
            return _State.WHOLE
    return _State.SHORT


def _is_readable(fragment: Any) -> bool:
    """Return whether a fragment's deletion file can be decoded.

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
    """Yield the id and the path of each column of blobs."""
    for column in fields:
        path = f"{above}`{column.name()}`"
        if column.metadata.get(_EXTENSION) == _BLOB:
            yield column.id(), path
        else:
            yield from _blob_columns(column.children(), f"{path}.")


def _blobs_of(fragment: Any, data: Key, column: str) -> dict[Key, int]:
    """Return the bytes that each file of a column's blobs must have, as their descriptors say.

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
        in_files = described.filter(pc.is_in(kind, pa.array(_IN_FILES, kind.type)))
        for row in in_files.group_by("number").aggregate([("end", "max")]).to_pylist():
            ends[row["number"]] = max(ends[row["number"]], row["end_max"])
    base, path = data
    folder = path.removesuffix(".lance")
    return {(base, f"{folder}/{format(number, '032b')[::-1]}.blob"): end for number, end in ends.items()}
