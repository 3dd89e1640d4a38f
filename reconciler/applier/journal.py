"""The journal of a run: JSON lines on disk, or in object storage, before and after every write.

docs/apply.md describes the format.

However the process ends, the journal tells which changes were in flight and what their objects were before.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from reconciler.applier.report import ApplyReport, ChangeResult, Status
from reconciler.model import locations
from reconciler.model.errors import ApplyError, BackendError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import address
from reconciler.model.redaction import redact_properties
from reconciler.planner.entries import Change
from reconciler.planner.plan import Plan

FORMAT_VERSION = "1.0"
SUFFIX = ".jsonl"

_IN_FLIGHT_FACTOR = 4


class Journal:
    """The journal of one run, from :meth:`open`; usable from several threads.

    Args:
        run: the run's id.
        location: the path or URI of the journal.
        lines: where the lines are written.
        in_flight_factor: how many times the parallelism may be in flight. Changes wait long for a journal in object
            storage, and others can use the catalog meanwhile.
    """

    def __init__(
        self, run: str, location: str, lines: DurableLines | DurableObjects, in_flight_factor: int = 1
    ) -> None:
        self.run = run
        self.location = location
        self.in_flight_factor = in_flight_factor
        self._lines = lines

    @classmethod
    def open(cls, folder: str | os.PathLike[str], plan: Plan) -> Journal:
        """Create the journal of a run of ``plan`` in ``folder``, and write its header.

        ``folder`` is a directory, which is created if missing, or a URI in object storage. The journal's name is a
        random run id.

        Raises:
            ApplyError: it cannot be written.
        """
        try:
            if is_uri(folder):
                journal = cls(*_new_objects(str(folder)), in_flight_factor=_IN_FLIGHT_FACTOR)
            else:
                directory = Path(locations.path_of(str(folder)) or folder)
                directory.mkdir(parents=True, exist_ok=True)
                journal = cls(*_new_file(directory))
            journal._write(
                "header",
                {
                    "format_version": FORMAT_VERSION,
                    "run": journal.run,
                    "manifest": plan.manifest.name,
                    "plan": plan.digest(),
                    "changes": len(plan.changes),
                    **_origin(),
                },
            )
        except (OSError, BackendError, ApplyError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise ApplyError(
                f"the journal cannot be written in {locations.redact(str(folder))}: {reason}; "
                "name another folder with --journal. Nothing was changed."
            ) from None
        return journal

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def intent(self, position: int, change: Change, live: LiveNamespace | LiveTable | None) -> None:
        """Record that a change is about to write, with the object before it.

        Raises:
            ApplyError: the line is not on disk, so the change must not start.
        """
        self._write("intent", {**_subject(position, change), "before": _object_record(change, live)})

    def outcome(self, position: int, result: ChangeResult) -> None:
        """Record how the change at ``position`` ended.

        In object storage, the line is stored with the next intent or the summary.

        Raises:
            ApplyError: the line is not on disk.
        """
        self._write(
            "outcome",
            {
                **_subject(position, result.change),
                "status": result.status.value,
                **({"message": result.message} if result.message else {}),
                **({"note": result.note} if result.note else {}),
                "seconds": round(result.seconds, 6),
            },
            wait=False,
        )

    def summary(self, report: ApplyReport) -> None:
        """Record that the run has ended.

        Raises:
            ApplyError: the line is not on disk.
        """
        counts = {status.value: report.counts[status] for status in Status}
        self._write("summary", {**counts, "interrupted": report.interrupted})

    def _write(self, entry: str, content: Mapping[str, object], *, wait: bool = True) -> None:
        """Write a line of the kind ``entry``; with ``wait``, return once it is stored."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"entry": entry, "at": now, **content}, ensure_ascii=True) + "\n"
        try:
            self._lines.append(line.encode(), wait=wait)
        except (OSError, ValueError, BackendError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise ApplyError(f"the journal {self.location} cannot be written: {reason}") from None


def is_uri(folder: str | os.PathLike[str]) -> bool:
    """Return whether journals in ``folder`` are objects in a store."""
    return "://" in str(folder) and locations.path_of(str(folder)) is None


def _origin() -> Mapping[str, str]:
    """Return the ``actor`` and the ``commit`` of a run, if they are known."""
    actor = os.environ.get("LANCENS_ACTOR") or os.environ.get("GITHUB_ACTOR")
    with suppress(OSError, KeyError):  # a container's user may have no name
        actor = actor or getpass.getuser()
    commit = os.environ.get("LANCENS_COMMIT") or os.environ.get("GITHUB_SHA")
    return {key: value for key, value in (("actor", actor), ("commit", commit)) if value}


def _new_objects(uri: str) -> tuple[str, str, DurableObjects]:
    """Return the id, URI and lines of a new journal in object storage.

    Its objects are in a folder that is named after the run.
    """
    from reconciler.storage import ObjectFolder

    run = secrets.token_hex(4)
    folder = ObjectFolder(locations.join(uri, run), {})
    return run, folder.uri, DurableObjects(folder.create)


def _new_file(folder: Path) -> tuple[str, str, DurableLines]:
    """Create a journal's file, which only its owner can read.

    Return its run id, path and lines.
    """
    while True:
        run = secrets.token_hex(4)
        path = folder / f"{run}{SUFFIX}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            continue
        return run, str(path), DurableLines(FileIO(descriptor, "ab"))


def _subject(position: int, change: Change) -> dict[str, object]:
    """Return the keys of a line that identify a change and its object."""
    origin = change.moved_from or change.takes_from
    moved = {"from": address(change.catalog, origin)} if origin is not None else {}
    moved |= {"lost": change.params["lost"]} if "lost" in change.params else {}
    return {
        "change": position,
        "action": change.action.value,
        "address": change.address,
        "catalog": change.catalog,
        "identifier": list(change.identifier),
        **moved,
    }


def _object_record(change: Change, live: LiveNamespace | LiveTable | None) -> dict[str, object] | None:
    """Return all properties of an object, and its location or kind, without secrets.

    The result is None if it does not exist.
    """
    if live is None:
        return None
    record: dict[str, object] = {"properties": redact_properties(live.properties, change.address, change.secret_keys)}
    if isinstance(live, LiveTable):
        record["location"] = locations.redact(live.location)
    elif live.kind is not None:
        record["kind"] = live.kind
    return record


class DurableLines:
    """Append lines to a file, each durable before ``append`` returns.

    Concurrent writers share one ``fsync``. The file has ``_end`` bytes in ``_written`` lines of this run; of these, the
    first ``_durable`` lines are on disk, up to ``_durable_end``. ``_lost`` is the error of a failed sync, and the
    number of the last line it has removed.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._written = 0
        self._durable = 0
        self._end = self._durable_end = os.fstat(file.fileno()).st_size
        self._lost: tuple[int, OSError] | None = None

    def append(self, line: bytes, *, wait: bool = True) -> None:
        """Write ``line`` to disk, whole or not at all, whatever ``wait`` says.

        A full disk keeps no part of it.

        Raises:
            OSError: the line is not on disk.
        """
        with self._writing:
            self._write(line)
            self._written += 1
            number = self._written
        with self._syncing:
            if self._lost is not None and number <= self._lost[0]:
                raise self._lost[1]
            if number > self._durable:
                self._sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        """Write ``line`` to the file; if that fails, cut the file to its length before."""
        descriptor, remaining = self._file.fileno(), line
        try:
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._end)
            raise
        self._end += len(line)

    def _sync(self) -> None:
        """Sync all lines written so far; if that fails, remove them from the file."""
        with self._writing:
            number, end = self._written, self._end
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            with self._writing, suppress(OSError):
                self._lost = self._written, error
                os.ftruncate(self._file.fileno(), self._durable_end)
                self._end = self._durable_end
            raise
        self._durable, self._durable_end = number, end


@dataclass
class _Batch:
    """The lines of one object, and the positions of those that a caller waits for."""

    lines: list[bytes] = field(default_factory=list)
    awaited: set[int] = field(default_factory=set)
    is_sent: bool = False
    error: Exception | None = None


class DurableObjects:
    """Append lines as numbered objects, which ``create`` stores by name and content.

    An object holds all lines that came while the object before was being stored. If it cannot be stored, the callers
    that wait for their lines get the error, and the other lines become part of the next object.
    """

    def __init__(self, create: Callable[[str, bytes], None]) -> None:
        self._create = create
        self._adding, self._sending = threading.Lock(), threading.Lock()
        self._open = _Batch()
        self._number = 0

    def append(self, line: bytes, *, wait: bool = True) -> None:
        """Add ``line`` to the next object; with ``wait``, return when it is stored.

        Raises:
            BackendError: it is not known to be stored.
        """
        with self._adding:
            batch = self._open
            if wait:
                batch.awaited.add(len(batch.lines))
            batch.lines.append(line)
        if not wait:
            return
        with self._sending:
            if not batch.is_sent:
                self._send(batch)
        if batch.error is not None:
            raise batch.error

    def close(self) -> None:
        """Do nothing: the summary, which waits, has stored all lines before it."""

    def _send(self, batch: _Batch) -> None:
        """Store the lines of ``batch`` as the next object, or keep its error.

        New lines go to another batch.
        """
        with self._adding:
            self._open = _Batch()
        self._number += 1  # also after a failure: the object may be there
        try:
            self._create(f"{self._number:08}{SUFFIX}", b"".join(batch.lines))
        except (OSError, BackendError) as error:
            batch.error = error
            others = [line for position, line in enumerate(batch.lines) if position not in batch.awaited]
            with self._adding:
                self._open.awaited = {position + len(others) for position in self._open.awaited}
                self._open.lines[:0] = others
        batch.is_sent = True
