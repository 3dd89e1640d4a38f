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

_AHEAD = 4


class Journal:
    """The journal of one run, from :meth:`open`; usable from several threads.

    ``location`` is its path or URI. ``ahead`` is how many times as many changes as run at once may be in flight, since
    the others wait for the journal.
    """

    def __init__(self, run: str, location: str, lines: DurableLines | DurableObjects, ahead: int = 1) -> None:
        self.run = run
        self.location = location
        self.ahead = ahead
        self._lines = lines

    @classmethod
    def open(cls, folder: str | os.PathLike[str], plan: Plan) -> Journal:
        """Start the journal of a run in ``folder``, which is created if missing, or in object storage.

        Its name is a random run id.

        Raises:
            ApplyError: it cannot be written.
        """
        try:
            if is_uri(folder):
                journal = cls(*_new_objects(str(folder)), ahead=_AHEAD)
            else:
                here = Path(locations.path_of(str(folder)) or folder)
                here.mkdir(parents=True, exist_ok=True)
                journal = cls(*_new_file(here))
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
        """Record that a change is about to write, with the whole object before it.

        Raises:
            ApplyError: the line is not on disk, so the change must not start.
        """
        self._write("intent", {**_subject(position, change), "before": _whole(change, live)})

    def outcome(self, position: int, result: ChangeResult) -> None:
        """Record how the change at ``position`` ended; in object storage, with the next intent or the summary.

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
    """Return who runs this, and the commit that it runs for, if that is known."""
    actor = os.environ.get("LANCENS_ACTOR") or os.environ.get("GITHUB_ACTOR")
    with suppress(OSError, KeyError):  # a container's user may have no name
        actor = actor or getpass.getuser()
    commit = os.environ.get("LANCENS_COMMIT") or os.environ.get("GITHUB_SHA")
    return {key: value for key, value in (("actor", actor), ("commit", commit)) if value}


def _new_objects(uri: str) -> tuple[str, str, DurableObjects]:
    """Return a new run whose lines become objects in the folder of its name."""
    from reconciler.storage import ObjectFolder

    run = secrets.token_hex(4)
    folder = ObjectFolder(locations.join(uri, run), {})
    return run, folder.uri, DurableObjects(folder.create)


def _new_file(folder: Path) -> tuple[str, str, DurableLines]:
    """Create a file with a new random name that only its owner can read."""
    while True:
        run = secrets.token_hex(4)
        path = folder / f"{run}{SUFFIX}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            continue
        return run, str(path), DurableLines(FileIO(descriptor, "ab"))


def _subject(position: int, change: Change) -> dict[str, object]:
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


def _whole(change: Change, live: LiveNamespace | LiveTable | None) -> dict[str, object] | None:
    """Return the properties and location of an object, without secrets."""
    if live is None:
        return None
    whole: dict[str, object] = {"properties": redact_properties(live.properties, change.address, change.secret_keys)}
    if isinstance(live, LiveTable):
        whole["location"] = locations.redact(live.location)
    elif live.kind is not None:
        whole["kind"] = live.kind
    return whole


class DurableLines:
    """Appends whole lines to ``file``, which it closes.

    Concurrent writers share one ``fsync``.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._written = 0
        self._on_disk = 0
        self._end = self._end_on_disk = os.fstat(file.fileno()).st_size
        self._lost: tuple[int, OSError] | None = None

    def append(self, line: bytes, *, wait: bool = True) -> None:
        """Write ``line`` to disk, whole or not at all: a full disk keeps no part of it.

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
            if number > self._on_disk:
                self._sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, line: bytes) -> None:
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
                os.ftruncate(self._file.fileno(), self._end_on_disk)
                self._end = self._end_on_disk
            raise
        self._on_disk, self._end_on_disk = number, end


@dataclass
class _Batch:
    lines: list[bytes] = field(default_factory=list)
    waited_for: set[int] = field(default_factory=set)
    is_sent: bool = False
    error: Exception | None = None


class DurableObjects:
    """Appends lines as numbered objects, which ``create`` stores.

    An object holds all lines that came while the one before was stored. If it cannot be stored, the lines that somebody
    waits for are given up, and the others become part of the next object.
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
                batch.waited_for.add(len(batch.lines))
            batch.lines.append(line)
        if not wait:
            return
        with self._sending:
            if not batch.is_sent:
                self._send(batch)
        if batch.error is not None:
            raise batch.error

    def close(self) -> None:
        """Do nothing: the summary has stored what was left."""

    def _send(self, batch: _Batch) -> None:
        with self._adding:
            self._open = _Batch()
        self._number += 1  # also after a failure: the object may be there
        try:
            self._create(f"{self._number:08}{SUFFIX}", b"".join(batch.lines))
        except (OSError, BackendError) as error:
            batch.error = error
            left = [line for at, line in enumerate(batch.lines) if at not in batch.waited_for]
            with self._adding:
                self._open.waited_for = {at + len(left) for at in self._open.waited_for}
                self._open.lines[:0] = left
        batch.is_sent = True
