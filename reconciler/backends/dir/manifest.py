"""Read and commit the ``__manifest`` dataset, in the format of pylance.

Each commit is a new version, and succeeds only if no other client has committed since the rows were read. Otherwise its
changes are made again on the current rows. So no writer, in this process or another, loses a row. Changes that arrive
during a commit share the next one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from reconciler import storage
from reconciler.backends.dir.blocking_settings import unknown_flags
from reconciler.backends.dir.contents import ManifestRows
from reconciler.backends.dir.rows import COLUMNS, MANIFEST, StoredLocations
from reconciler.model import locations
from reconciler.model.errors import ConcurrentModificationError, InternalError, UnsupportedOperationError
from reconciler.model.live import StorageKind

T = TypeVar("T")

_ATTEMPTS = 60
_LONGEST_PAUSE = 0.25
_CREATION_ATTEMPTS = 15
_MAX_GATHERINGS = 40
_QUIET_GATHERINGS = 4
_GATHERING_SECONDS = 0.005
_SMALL_ROWS = 1_024
"""Fragments of fewer rows are rewritten: that costs about as much as one more file to read."""
_jitter = random.SystemRandom()
_locks: dict[str, threading.Lock] = {}
_locks_guard = threading.Lock()


class DirManifest:
    """The ``__manifest`` under one root; safe to use from several threads."""

    def __init__(self, stored_locations: StoredLocations, options: Mapping[str, str]) -> None:
        self._stored_locations = stored_locations
        self._location = locations.join(stored_locations.root, MANIFEST)
        self._options = dict(options)
        self._versions = storage.VersionCache()
        self._latest: tuple[object, ManifestRows] | None = None
        self._waiting: list[_PendingChange[Any]] = []
        self._waiting_guard = threading.Lock()
        self._last_batch_size = 0
        # One thread commits for all, because pyarrow keeps memory for each thread.
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="dir-commit")
        with _locks_guard:
            self._lock = _locks.setdefault(locations.normalise(self._location), threading.Lock())

    def read(self, row_filter: str | None = None) -> ManifestRows:
        """Return the current rows, filtered; an empty table without a ``__manifest``.

        Args:
            row_filter: a condition in Lance's SQL; a cached result may hold more rows.

        Raises:
            BackendError: it exists and cannot be read.
        """

        def contents_of(dataset: Any) -> ManifestRows:
            if dataset is None:
                return ManifestRows(self._stored_locations, _schema().empty_table())
            self._expect_known(dataset, "reader")
            latest, key = self._latest, _version_key(dataset)
            if latest is not None and latest[0] == key:
                return latest[1]
            rows = ManifestRows(
                self._stored_locations, dataset.to_table(filter=row_filter), dataset, row_filter is None
            )
            self._expect_columns(rows)
            if rows.is_whole:
                self._latest = (key, rows)
            return rows

        with storage.translated(self._location, self._options):
            return storage.read_latest(self._open, contents_of)

    def _expect_columns(self, contents: ManifestRows) -> None:
        missing = set(COLUMNS) - set(contents.rows.column_names)
        if missing:
            shown = locations.redact(self._location)
            raise InternalError(
                f"dir: {shown} is not a list of tables: it lacks the columns {', '.join(sorted(missing))}"
            )

    def _expect_known(self, dataset: Any, use: str) -> None:
        """Raise UnsupportedOperationError if ``dataset`` needs an unknown feature.

        ``use`` is ``reader`` or ``writer``.

        pylance does the same.
        """
        flags = unknown_flags(dataset, use)
        if flags is not None:
            raise UnsupportedOperationError(
                f"dir: a newer pylance wrote {locations.redact(self._location)} ({use} feature flags {flags!r:.40}); "
                "upgrade lancens"
            )

    def end_cleanup(self) -> None:
        """Disable the auto clean-up of ``__manifest``: delete its configuration."""
        self.expect_writable()
        with self._lock, storage.translated(self._location, self._options):
            storage.end_cleanup(self._open())

    def expect_writable(self) -> ManifestRows:
        """Return the current rows; raise UnsupportedOperationError if they are read-only."""
        contents = self.read()
        if contents.dataset is not None:
            self._expect_known(contents.dataset, "writer")
        return contents

    def _open(self) -> Any:
        """Return the dataset; None when there is none.

        A dataset without a version is being created by another client, or is damaged: this retries for a second.
        """
        for attempt in range(_CREATION_ATTEMPTS):
            try:
                return storage.open_dataset(self._location, self._options, cache=self._versions)
            except ValueError:
                kind = storage.probe(self._location, self._options).kind
                if kind is StorageKind.NOTHING:
                    return None
                # It may have become a dataset between the two calls.
                may_come = kind in (StorageKind.NOT_LANCE, StorageKind.DATASET) and not self._is_file()
                if not may_come or attempt == _CREATION_ATTEMPTS - 1:
                    raise
            pause(attempt)
        raise AssertionError("the last attempt returns or raises")

    def _is_file(self) -> bool:
        """Return whether a file is in the dataset's place.

        Then nobody is creating a dataset there, and each attempt to open it would take pylance two seconds.
        """
        path = storage.local_path(self._location)
        return path is not None and path.is_file()

    def update(self, change: Callable[[ManifestRows], tuple[ManifestRows, T]], object_id: str = "") -> T:
        """Commit the rows that ``change`` returns; return its result.

        ``change`` is called again on newer rows if another client committed first. It shares its commit with the
        changes that waited when the commit began: each gets the result of the one before, and one that raises is left
        out.

        Args:
            change: returns new contents and a result; it may be called several times, in another thread.
            object_id: the object that change looks up; those of one commit are looked up together.

        Raises:
            ConcurrentModificationError: another client committed first every time.
            BackendError: raised by ``change`` or by storage.
        """
        mine = _PendingChange(change, object_id)
        with self._waiting_guard:
            self._waiting.append(mine)
        self._committer.submit(self._commit_waiting)
        mine.ended.wait()  # the committer's next call may be another commit
        if mine.error is not None:
            raise mine.error
        return cast("T", mine.answer)

    def _commit_waiting(self) -> None:
        """Commit the waiting changes, unless the commit before included them."""
        if self._waiting:
            with self._lock:
                self._commit_together(self.gather_changes())

    def gather_changes(self) -> Sequence[_PendingChange[Any]]:
        """Wait until no more changes arrive; return the batch of all that wait.

        The callers of the last commit send their next changes a moment later; a commit that did not wait for them would
        write a whole version for a few. On a busy machine they arrive later, so a smaller batch than the last one waits
        longer.
        """
        waiting, quiet = len(self._waiting), 0
        if max(waiting, self._last_batch_size) > 1:
            for _ in range(_MAX_GATHERINGS):
                time.sleep(_GATHERING_SECONDS)
                before, waiting = waiting, len(self._waiting)
                quiet = quiet + 1 if waiting <= before else 0
                if quiet >= (1 if waiting >= self._last_batch_size else _QUIET_GATHERINGS):
                    break
        with self._waiting_guard:
            batch, self._waiting = self._waiting, []
        self._last_batch_size = len(batch)
        return batch

    def _commit_together(self, batch: Sequence[_PendingChange[Any]]) -> None:
        """Commit the changes of ``batch`` together, and set the error of each."""
        try:
            for attempt in range(_ATTEMPTS):
                before = after = self.expect_writable()
                before.prefetch(change.object_id for change in batch if change.object_id)
                for change in batch:
                    after = change.apply_to(after)
                if after is before or self.commit(before, after):
                    break
                pause(attempt)
            else:
                shown = locations.redact(self._location)
                raise ConcurrentModificationError(
                    f"dir: {shown} was changed by other clients at each of {_ATTEMPTS} attempts; try again"
                )
        except BaseException as error:  # noqa: BLE001 - each caller raises it
            for change in batch:
                change.error = error
        finally:
            for change in batch:
                change.ended.set()

    def commit(self, before: ManifestRows, after: ManifestRows) -> bool:
        """Commit ``after`` as the version after ``before``; return whether it succeeded."""
        from lance.fragment import write_fragments

        location, options, dataset = self._location, self._options, before.dataset
        with storage.translated(location, options):
            if dataset is None:
                # Without rows: an interrupted first commit must not leave a data file without a version.
                storage.commit_first(location, after.rows.slice(0, 0), options)
                return False
            fragments, loose = fragments_and_rows_to_write(before, after)
            written = write_fragments(loose, dataset, storage_options=options or None) if loose.num_rows else []
            is_made = storage.commit_whole(location, dataset, dataset.lance_schema, [*fragments, *written], options)
            if not is_made or storage.is_latest(location, dataset.version + 1, options):
                return is_made
        current, intended, previous = set(self.read()), set(after), set(before)
        return intended - previous <= current and current.isdisjoint(previous - intended)


def pause(attempt: int) -> None:
    """Wait for a random time that grows with every attempt."""
    time.sleep(_jitter.uniform(0, min(_LONGEST_PAUSE, 0.002 * 2**attempt)))


def _version_key(dataset: Any) -> object:
    """Return a key that only versions with the same rows share.

    Data files have unique names.
    """
    return dataset.version, tuple(str(fragment.metadata) for fragment in dataset.get_fragments())


def _schema() -> pa.Schema:
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
class _PendingChange(Generic[T]):
    """A change that waits for its commit; then its result or error."""

    change: Callable[[ManifestRows], tuple[ManifestRows, T]]
    object_id: str
    answer: T | None = None
    error: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def apply_to(self, contents: ManifestRows) -> ManifestRows:
        """Return ``contents`` after the change; if it raises, keep the error."""
        self.error = None
        try:
            after, self.answer = self.change(contents)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            self.error = error
            return contents
        return after


# ---- what a commit writes --------------------------------------------------------------------------------------------


def fragments_and_rows_to_write(before: ManifestRows, after: ManifestRows) -> tuple[list[Any], pa.Table]:
    """Return the fragments of ``before`` to keep, and the rows to write as new ones.

    A version is a list of fragments; those whose rows all stay are listed again. Small ones are rewritten together with
    the new rows, so that there are few: each kept fragment is larger than all that is written, as in a log-structured
    merge tree. A catalog that grows to n tables so writes each row about log n times instead of n times.

    Args:
        before: a whole version, as read.
        after: the changed version.
    """
    if after.original is not before.original:
        return [], after.rows
    fragments = [fragment.metadata for fragment in before.dataset.get_fragments()]
    slices, at = [], 0
    for fragment in fragments:
        slices.append((at, fragment.num_rows))
        at += fragment.num_rows
    mask = after.is_unchanged
    kept = {
        number
        for number, fragment in enumerate(fragments)
        if _is_plain(fragment) and pc.all(mask.slice(*slices[number]), min_count=0).as_py()
    }
    written = len(after.added_rows) + sum(pc.sum(mask.slice(*span)).as_py() or 0 for span in _rewritten(slices, kept))
    for number in sorted(kept, key=lambda index: slices[index][1]):
        size = slices[number][1]
        if size > max(written, _SMALL_ROWS):
            break
        kept.remove(number)
        written += size
    remaining = [before.original.slice(*span).filter(mask.slice(*span)) for span in _rewritten(slices, kept)]
    rows = pa.concat_tables([*remaining, after.added_rows])
    return [replace(fragments[number], id=0) for number in sorted(kept)], rows


def _rewritten(slices: Sequence[tuple[int, int]], kept: Collection[int]) -> list[tuple[int, int]]:
    return [span for number, span in enumerate(slices) if number not in kept]


def _is_plain(fragment: Any) -> bool:
    """Return whether a fragment can get a new number: none of its files depend on it."""
    return fragment.deletion_file is None and fragment.row_id_meta is None and not fragment.overlays
