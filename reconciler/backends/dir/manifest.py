"""The ``__manifest`` dataset of a directory catalog: one row an object, the same rows pylance reads and writes.

Every commit is a new version, as pylance's are, and counts only when nobody committed since the rows were read;
otherwise its changes are made again on what is there now. So no writer, in this process or another, loses a row.
Changes that come while a commit is under way share the next one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from reconciler import storage
from reconciler.backends.dir.contents import COLUMNS, MANIFEST, DirectoryPlaces, ManifestRows
from reconciler.model import locations
from reconciler.model.errors import ConcurrentModificationError, InternalError
from reconciler.model.live import StorageKind

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")

_TRIES = 60
_LONGEST_PAUSE = 0.25
_CREATION_TRIES = 15
_GATHERINGS = 40
_QUIET_GATHERINGS = 4
_GATHERING_SECONDS = 0.005
_SMALL_ROWS = 1_024
"""Fragments of fewer rows are rewritten: that costs about as much as one more file to read."""
_jitter = random.SystemRandom()
_locks: dict[str, threading.Lock] = {}
_locks_guard = threading.Lock()


class DirManifest:
    """The ``__manifest`` under one root; safe to use from several threads."""

    def __init__(self, places: DirectoryPlaces, options: Mapping[str, str]) -> None:
        self._places = places
        self._location = locations.join(places.root, MANIFEST)
        self._options = dict(options)
        self._latest: tuple[object, ManifestRows] | None = None
        self._waiting: list[_Waiting[Any]] = []
        self._waiting_guard = threading.Lock()
        self._last_together = 0
        # One thread commits, whoever asks: what pyarrow keeps for the next time, it keeps for each thread.
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="dir-commit")
        with _locks_guard:
            self._lock = _locks.setdefault(locations.normalise(self._location), threading.Lock())

    def read(self, row_filter: str | None = None) -> ManifestRows:
        """Return what is there now, no more of it than the filter wants; nothing when there is no ``__manifest`` yet.

        Args:
            row_filter: a condition in Lance's SQL. What was read before and is still so may be more than it wants.

        Raises:
            BackendError: it is there and cannot be read.
        """

        def contents_of(dataset: Any) -> ManifestRows:
            if dataset is None:
                return ManifestRows(self._places, _schema().empty_table())
            latest, key = self._latest, _identity(dataset)
            if latest is not None and latest[0] == key:
                return latest[1]
            found = ManifestRows(self._places, dataset.to_table(filter=row_filter), dataset, row_filter is None)
            self._expect_columns(found)
            if found.is_whole:
                self._latest = (key, found)
            return found

        with storage.translated(self._location, self._options):
            return storage.read_latest(self._open, contents_of)

    def _expect_columns(self, contents: ManifestRows) -> None:
        missing = set(COLUMNS) - set(contents.rows.column_names)
        if missing:
            shown = locations.redact(self._location)
            raise InternalError(
                f"dir: {shown} is not a list of tables: it lacks the columns {', '.join(sorted(missing))}"
            )

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
            pause(attempt)
        raise AssertionError("the last try returns or raises")

    def update(self, change: Callable[[ManifestRows], tuple[ManifestRows, T]], about: str = "") -> T:
        """Commit what ``change`` makes of the rows and return what it says of that.

        It is called again, on the newer rows, when somebody else was faster. It shares its commit with the changes
        that were waiting when that began: each is made of what the one before left, and one that raises is left out.

        Args:
            change: returns new contents and an answer; it may be called several times, in another thread.
            about: the identifier of the object that it will look for; those of a commit are looked up together.

        Raises:
            ConcurrentModificationError: somebody was faster every time.
            BackendError: what ``change`` raises, or storage refused.
        """
        mine = _Waiting(change, about)
        with self._waiting_guard:
            self._waiting.append(mine)
        self._committer.submit(self._commit_waiting).result()
        if mine.error is not None:
            raise mine.error
        return cast("T", mine.answer)

    def _commit_waiting(self) -> None:
        """Commit what waits; nothing does where the commit before has taken it along."""
        if self._waiting:
            with self._lock:
                self._commit_together(self.gathered())

    def gathered(self) -> Sequence[_Waiting[Any]]:
        """Return the changes to commit: all that wait, once no more come where several do, or did for the last one.

        Those that the commit before has let go send their next ones a moment later: a commit that did not wait for
        them would be a whole new version for a few. On a busy machine that moment is longer, and so they are given
        more time while they are fewer than before.
        """
        waiting, quiet = len(self._waiting), 0
        if max(waiting, self._last_together) > 1:
            for _ in range(_GATHERINGS):
                time.sleep(_GATHERING_SECONDS)
                before, waiting = waiting, len(self._waiting)
                quiet = quiet + 1 if waiting <= before else 0
                if quiet >= (1 if waiting >= self._last_together else _QUIET_GATHERINGS):
                    break
        with self._waiting_guard:
            batch, self._waiting = self._waiting, []
        self._last_together = len(batch)
        return batch

    def _commit_together(self, batch: Sequence[_Waiting[Any]]) -> None:
        """Make the changes of ``batch`` in one commit, and tell each how it went."""
        try:
            for attempt in range(_TRIES):
                before = after = self.read()
                before.look_up(one.about for one in batch if one.about)
                for one in batch:
                    after = one.made_of(after)
                if after is before or self.commit(before, after):
                    break
                pause(attempt)
            else:
                shown = locations.redact(self._location)
                raise ConcurrentModificationError(
                    f"dir: {shown} was changed by others at each of {_TRIES} tries; try again"
                )
        except BaseException as error:  # noqa: BLE001 - whatever it is, each of them raises it
            for one in batch:
                one.error = error

    def commit(self, before: ManifestRows, after: ManifestRows) -> bool:
        """Return whether ``after`` became the version right after ``before``, and is in the latest one."""
        from lance.fragment import write_fragments

        place, options, dataset = self._location, self._options, before.dataset
        with storage.translated(place, options):
            if dataset is None:
                # Without rows: a file of rows that was written and never committed would be a damaged list.
                storage.commit_first(place, after.rows.slice(0, 0), options)
                return False
            kept, loose = kept_and_loose(before, after)
            written = write_fragments(loose, dataset, storage_options=options or None) if loose.num_rows else []
            is_made = storage.commit_whole(place, dataset, dataset.lance_schema, [*kept, *written], options)
            if not is_made or storage.is_latest(place, dataset.version + 1, options):
                return is_made
        there, wanted, had = set(self.read()), set(after), set(before)
        return wanted - had <= there and there.isdisjoint(had - wanted)


def pause(attempt: int) -> None:
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


@dataclass
class _Waiting(Generic[T]):
    """A change that waits for its commit, and how that ended."""

    change: Callable[[ManifestRows], tuple[ManifestRows, T]]
    about: str
    answer: T | None = None
    error: BaseException | None = None

    def made_of(self, contents: ManifestRows) -> ManifestRows:
        """Return what the change makes of ``contents``; they themselves, when it raises."""
        self.error = None
        try:
            after, self.answer = self.change(contents)
        except Exception as error:  # noqa: BLE001 - it is raised where the change came from
            self.error = error
            return contents
        return after


# ---- what a commit writes --------------------------------------------------------------------------------------------


def kept_and_loose(before: ManifestRows, after: ManifestRows) -> tuple[list[Any], pa.Table]:
    """Return the fragments of ``before`` that stay as they are, and the rows of ``after`` that are to be written.

    A version is a list of fragments, and those whose rows all stay are listed again. Small ones are rewritten together
    with what is new, so that there are few: those that stay are each larger than all that is written, as in a
    log-structured merge tree. A catalog that grows to n tables so writes each row about log n times, and not n times.

    Args:
        before: a whole version as it was read.
        after: what was made of it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if after.read is not before.read:
        return [], after.rows
    fragments = [fragment.metadata for fragment in before.dataset.get_fragments()]
    slices, at = [], 0
    for fragment in fragments:
        slices.append((at, fragment.num_rows))
        at += fragment.num_rows
    stays = after.stays
    kept = {
        number
        for number, fragment in enumerate(fragments)
        if _is_plain(fragment) and pc.all(stays.slice(*slices[number]), min_count=0).as_py()
    }
    writing = len(after.added) + sum(pc.sum(stays.slice(*of)).as_py() or 0 for of in _others(slices, kept))
    for number in sorted(kept, key=lambda one: slices[one][1]):
        size = slices[number][1]
        if size > max(writing, _SMALL_ROWS):
            break
        kept.remove(number)
        writing += size
    rest = [before.read.slice(*of).filter(stays.slice(*of)) for of in _others(slices, kept)]
    return [replace(fragments[number], id=0) for number in sorted(kept)], pa.concat_tables([*rest, after.added])


def _others(slices: Sequence[tuple[int, int]], kept: Collection[int]) -> list[tuple[int, int]]:
    return [of for number, of in enumerate(slices) if number not in kept]


def _is_plain(fragment: Any) -> bool:
    """Return whether nothing of a fragment hangs on the number that it has: it gets a new one."""
    return fragment.deletion_file is None and fragment.row_id_meta is None and not fragment.overlays
