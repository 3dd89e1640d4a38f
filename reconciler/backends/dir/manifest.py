"""The ``__manifest`` dataset of a directory catalog: one row an object, the same rows pylance reads and writes.

A row is an object's string identifier, its type, its location relative to the root and its properties as a JSON
object. Every change rewrites the rows, as pylance does, and commits only when nobody committed since they were
read; otherwise it is made again on what is there now. So no writer, in this process or another, loses a row.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler import locations, storage
from reconciler.backends.directory_places import MANIFEST, Places
from reconciler.errors import ConcurrentModificationError, InternalError
from reconciler.names import DELIMITER, Identifier, split
from reconciler.state import PropertyChanges, StorageKind

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NAMESPACE", "TABLE", "Contents", "Manifest", "Row", "metadata_of"]

NAMESPACE = "namespace"
TABLE = "table"

T = TypeVar("T")

_TRIES = 60
_LONGEST_PAUSE = 0.25
_CREATION_TRIES = 15
_REQUIRED_COLUMNS = ("object_id", "object_type", "location", "metadata")
_jitter = random.SystemRandom()
_locks: dict[str, threading.Lock] = {}
_locks_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class Row:
    """One object; ``location`` is as stored, ``metadata`` the JSON text or None."""

    object_id: str
    object_type: str
    location: str | None = None
    metadata: str | None = None

    def properties(self) -> dict[str, str]:
        """Return the properties; values that are not text are shown as JSON.

        Raises:
            InternalError: the metadata is not a JSON object.
        """
        return {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in self._document().items()
        }

    def metadata_after(self, changes: PropertyChanges) -> str | None:
        """Return the metadata with ``changes`` merged in; values they do not name stay as stored."""
        document = self._document()
        for key in changes.remove:
            document.pop(key, None)
        document.update(changes.set)
        return metadata_of(document)

    def _document(self) -> dict[str, Any]:
        if not self.metadata:
            return {}
        try:
            document = json.loads(self.metadata)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise InternalError(f"dir: {MANIFEST}: the metadata of `{self.object_id}` is not a JSON object")
        return document


def metadata_of(properties: Mapping[str, Any]) -> str | None:
    """Return the stored form of ``properties``."""
    if not properties:
        return None
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Contents:
    """The rows of one version, or part of them. Columns not known here are kept through every change.

    ``dataset`` is where they were read; ``is_whole`` is whether all of that was.
    """

    places: Places
    rows: pa.Table
    dataset: Any = field(default=None, repr=False)
    is_whole: bool = True

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __iter__(self) -> Iterator[Row]:
        columns = (self.rows.column(name).to_pylist() for name in _REQUIRED_COLUMNS)
        return (Row(*values) for values in zip(*columns, strict=True))

    def find(self, object_id: str) -> Row | None:
        """Return the row of ``object_id``."""
        position = self._position(object_id)
        if position < 0:
            return None
        return Row(*(self.rows.column(name)[position].as_py() for name in _REQUIRED_COLUMNS))

    def _position(self, object_id: str) -> int:
        import pyarrow.compute as pc

        return int(pc.index(self.rows.column("object_id"), object_id).as_py())

    def below(self, parent: str) -> Contents:
        """Return the rows of everything below the namespace ``parent``; all of them for the root, ``""``."""
        import pyarrow.compute as pc

        if not parent:
            return self
        return Contents(
            self.places, self.rows.filter(pc.starts_with(self.rows.column("object_id"), parent + DELIMITER))
        )

    def directly_in(self, parent: str) -> Contents:
        """Return the rows of what is in the namespace ``parent`` itself; in the root for ``""``."""
        import pyarrow.compute as pc

        below = self.below(parent)
        return Contents(self.places, below.rows.filter(pc.equal(below.parent_of_each, parent)))

    def of_type(self, object_type: str) -> Contents:
        """Return the rows of one type of object."""
        import pyarrow.compute as pc

        return Contents(self.places, self.rows.filter(pc.equal(self.rows.column("object_type"), object_type)))

    @cached_property
    def parent_of_each(self) -> pa.ChunkedArray:
        """The string identifier of the namespace that each row is in, ``""`` for the root."""
        import pyarrow.compute as pc

        identifiers = self.rows.column("object_id")
        parts = pc.split_pattern(identifiers, DELIMITER, max_splits=1, reverse=True)
        return pc.if_else(pc.match_substring(identifiers, DELIMITER), pc.list_element(parts, 0), "")

    @cached_property
    def parents(self) -> tuple[Identifier, ...]:
        """The namespaces that the rows are in, each once, the root included where it holds any."""
        import pyarrow.compute as pc

        return tuple(split(text) for text in pc.unique(self.parent_of_each).to_pylist())

    @cached_property
    def occupied(self) -> frozenset[str]:
        """The directories right under the root that are the location of a table, or lead to one."""
        import pyarrow.compute as pc

        stored = self.rows.column("location")
        usual = pc.list_element(pc.split_pattern(stored.filter(pc.invert(self._unusual)), "/", max_splits=1), 0)
        unusual = map(self.places.occupied, stored.filter(self._unusual).to_pylist())
        return frozenset({*pc.unique(usual).to_pylist(), *unusual} - {None, ""})

    def is_occupied(self, directory: str) -> bool:
        """Return whether ``directory``, right under the root, is in :attr:`occupied`.

        Each change makes new contents, so the answer does not wait for the whole set of them: it is in the locations
        as they are usually stored, or else in one of the few others.
        """
        import pyarrow.compute as pc

        if "occupied" in self.__dict__:
            return directory in self.occupied
        stored = self.rows.column("location")
        usual = pc.or_(pc.equal(stored, directory), pc.starts_with(stored, f"{directory}/"))
        if pc.any(pc.and_not(usual, self._unusual)).as_py():
            return True
        return any(self.places.occupied(location) == directory for location in stored.filter(self._unusual).to_pylist())

    @cached_property
    def _unusual(self) -> pa.ChunkedArray:
        """Which locations are absolute, or begin with ``./``."""
        import pyarrow.compute as pc

        stored = self.rows.column("location")
        beginning = pc.or_(pc.starts_with(stored, "./"), pc.starts_with(stored, "/"))
        return pc.or_(beginning, pc.match_substring(stored, "://"))

    @cached_property
    def root_namespaces(self) -> frozenset[str]:
        """The names of the namespaces right under the root that have an entry."""
        entries = self.of_type(NAMESPACE).rows.column("object_id")
        return frozenset(text for text in entries.to_pylist() if DELIMITER not in text)

    def put(self, *rows: Row) -> Contents:
        """Return the contents with ``rows`` in the place of those of the same identifiers.

        Of a row that is replaced, the columns that are not known here keep their values.
        """
        import pyarrow as pa

        if not rows:
            return self
        kept = self.without(*(row.object_id for row in rows)).rows
        before = [self._position(row.object_id) for row in rows]

        def values(name: str) -> list[Any]:
            if name in _REQUIRED_COLUMNS:
                return [getattr(row, name) for row in rows]
            column = self.rows.column(name)
            return [None if position < 0 else column[position].as_py() for position in before]

        added = pa.table([pa.array(values(one.name), one.type) for one in kept.schema], schema=kept.schema)
        return Contents(self.places, pa.concat_tables([kept, added]))

    def renamed(self, object_id: str, to: str) -> Contents:
        """Return the contents with the row of ``object_id`` as that of ``to``, every other column as it was."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = self.rows.column("object_id")
        index = self.rows.column_names.index("object_id")
        changed = pc.if_else(pc.equal(names, object_id), pa.scalar(to, names.type), names)
        return Contents(self.places, self.rows.set_column(index, self.rows.schema.field(index), changed))

    def without(self, *object_ids: str) -> Contents:
        """Return the contents without the rows of ``object_ids``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        listed = pc.is_in(self.rows.column("object_id"), value_set=pa.array(object_ids, pa.string()))
        return Contents(self.places, self.rows.filter(pc.invert(listed)))


class Manifest:
    """The ``__manifest`` under one root; safe to use from several threads."""

    def __init__(self, places: Places, options: Mapping[str, str]) -> None:
        self._places = places
        self._location = locations.join(places.root, MANIFEST)
        self._options = dict(options)
        self._latest: tuple[object, Contents] | None = None
        with _locks_guard:
            self._lock = _locks.setdefault(locations.normalise(self._location), threading.Lock())

    def read(self, row_filter: str | None = None) -> Contents:
        """Return what is there now, no more of it than the filter wants; nothing when there is no ``__manifest`` yet.

        Args:
            row_filter: a condition in Lance's SQL. What was read before and is still so may be more than it wants.

        Raises:
            BackendError: it is there and cannot be read.
        """
        with storage.translated(self._location, self._options):
            dataset = self._open()
            if dataset is None:
                return Contents(self._places, _schema().empty_table())
            key = _identity(dataset)
            latest = self._latest
            if latest is not None and latest[0] == key:
                return latest[1]
            contents = Contents(self._places, dataset.to_table(filter=row_filter), dataset, row_filter is None)
        missing = set(_REQUIRED_COLUMNS) - set(contents.rows.column_names)
        if missing:
            shown = locations.redact(self._location)
            raise InternalError(
                f"dir: {shown} is not a list of tables: it lacks the columns {', '.join(sorted(missing))}"
            )
        if contents.is_whole:
            self._latest = (key, contents)
        return contents

    def _open(self) -> Any:
        """Return the dataset; None when there is none.

        One without any version is being made by somebody else right now, or is damaged: it is looked at again for
        about a second before it counts as damaged.
        """
        for attempt in range(_CREATION_TRIES):
            try:
                return storage.open_dataset(self._location, self._options)
            except ValueError:
                kind = storage.probe(self._location, self._options).kind
                if kind is StorageKind.NOTHING:
                    return None
                # A dataset now: it was finished between the two looks.
                if kind not in (StorageKind.NOT_LANCE, StorageKind.DATASET) or attempt == _CREATION_TRIES - 1:
                    raise
            _pause(attempt)
        raise AssertionError("the last try returns or raises")

    def update(self, change: Callable[[Contents], tuple[Contents, T]]) -> T:
        """Commit what ``change`` makes of the rows and return what it says of that.

        It is called again, on the newer rows, when somebody else was faster.

        Raises:
            ConcurrentModificationError: somebody was faster every time.
            BackendError: what ``change`` raises, or storage refused.
        """
        with self._lock:
            for attempt in range(_TRIES):
                before = self.read()
                after, answer = change(before)
                if after is before or self._commit(before, after.rows):
                    return answer
                _pause(attempt)
        shown = locations.redact(self._location)
        raise ConcurrentModificationError(f"dir: {shown} was changed by others at each of {_TRIES} tries; try again")

    def _commit(self, before: Contents, rows: pa.Table) -> bool:
        """Return whether ``rows`` became the version right after ``before``."""
        import lance
        from lance.commit import CommitConflictError
        from lance.fragment import write_fragments

        options = self._options or None
        with storage.translated(self._location, self._options):
            if before.dataset is None:
                try:
                    lance.write_dataset(
                        rows, storage.pylance_uri(self._location), mode="create", storage_options=options
                    )
                except (OSError, ValueError):
                    if storage.probe(self._location, self._options).kind is StorageKind.NOTHING:
                        raise
                    return False  # somebody else is making it, or has
                return True
            fragments = write_fragments(rows, before.dataset, storage_options=options) if rows.num_rows else []
            try:
                lance.LanceDataset.commit(
                    before.dataset,
                    lance.LanceOperation.Overwrite(rows.schema, fragments),
                    read_version=before.dataset.version,
                    max_retries=0,
                    storage_options=options,
                )
            except CommitConflictError:
                return False
            return True


def _pause(attempt: int) -> None:
    """Wait a little, longer after every attempt and never as long as somebody else."""
    time.sleep(_jitter.uniform(0, min(_LONGEST_PAUSE, 0.002 * 2**attempt)))


def _identity(dataset: Any) -> object:
    """Return a value that two versions share only when they hold the same rows: data files have unique names."""
    return dataset.version, tuple(str(fragment.metadata) for fragment in dataset.get_fragments())


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(
                "object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}
            ),
            pa.field("object_type", pa.string(), nullable=False),
            pa.field("location", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
        ]
    )
