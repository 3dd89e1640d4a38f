"""The journal of a run: JSON lines on disk before and after every write.

docs/apply.md describes the format.

However the process ends, the journal tells which changes were in flight and what their objects were before.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from reconciler.applier.report import ApplyReport, ChangeResult, Status
from reconciler.model import locations
from reconciler.model.errors import ApplyError
from reconciler.model.live import LiveNamespace, LiveTable
from reconciler.model.names import address
from reconciler.model.redaction import redact_properties
from reconciler.planner.entries import Change
from reconciler.planner.plan import Plan

FORMAT_VERSION = "1.0"


class Journal:
    """The journal of one run, from :meth:`open`; usable from several threads."""

    def __init__(self, run: str, path: Path, file: FileIO) -> None:
        self.run = run
        self.path = path
        self._lines = DurableLines(file)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], plan: Plan) -> Journal:
        """Start the journal of a run in ``folder``, which is created if missing.

        The file's name is a random run id.

        Raises:
            ApplyError: it cannot be written.
        """
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
            journal = cls(*_new_file(place))
        except OSError as error:
            raise ApplyError(
                f"the journal cannot be written in {place}: {error.strerror or error}; "
                "name another folder with --journal. Nothing was changed."
            ) from None
        journal._write(
            "header",
            {
                "format_version": FORMAT_VERSION,
                "run": journal.run,
                "manifest": plan.manifest.name,
                "plan": plan.digest(),
                "changes": len(plan.changes),
            },
        )
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
        """Record how the change at ``position`` ended.

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
        )

    def summary(self, report: ApplyReport) -> None:
        """Record that the run has ended.

        Raises:
            ApplyError: the line is not on disk.
        """
        counts = {status.value: report.counts[status] for status in Status}
        self._write("summary", {**counts, "interrupted": report.interrupted})

    def _write(self, entry: str, content: Mapping[str, object]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"entry": entry, "at": now, **content}, ensure_ascii=True) + "\n"
        try:
            self._lines.append(line.encode())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise ApplyError(f"the journal {self.path} cannot be written: {reason}") from None


def _new_file(folder: Path) -> tuple[str, Path, FileIO]:
    """Create a file with a new random name that only its owner can read."""
    while True:
        run = secrets.token_hex(4)
        path = folder / f"{run}.jsonl"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            continue
        return run, path, FileIO(descriptor, "ab")


def _subject(position: int, change: Change) -> dict[str, object]:
    origin = change.moved_from or change.takes_from
    moved = {"from": address(change.catalog, origin)} if origin is not None else {}
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

    def append(self, line: bytes) -> None:
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
        descriptor, rest = self._file.fileno(), line
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
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
