"""Read journals: what was done, and what was in flight when a run stopped."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.applier.journal import FORMAT_VERSION, SUFFIX, is_uri
from reconciler.applier.report import MARKS, Status
from reconciler.model import display, locations
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.errors import BackendError, PlanFileError

if TYPE_CHECKING:
    from reconciler.storage import ObjectFolder


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A journal; intents and outcomes by the change's position in the plan.

    ``summary`` is None if the run did not end by itself.
    """

    header: Mapping[str, Any]
    intents: Mapping[int, Mapping[str, Any]]
    outcomes: Mapping[int, Mapping[str, Any]]
    summary: Mapping[str, Any] | None

    @property
    def finished(self) -> bool:
        """Whether the run ended by itself."""
        return self.summary is not None

    @property
    def in_flight(self) -> Sequence[Mapping[str, Any]]:
        """The intents without an outcome, which may or may not have been written."""
        return [intent for position, intent in sorted(self.intents.items()) if position not in self.outcomes]

    @property
    def tally(self) -> str:
        """How its changes ended, such as `3 done, 1 failed`."""
        counts = self.summary or Counter(outcome["status"] for outcome in self.outcomes.values())
        return ", ".join(f"{_number(counts[status])} {status}" for status in Status if counts.get(status)) or "none"


@dataclass(frozen=True, slots=True)
class JournalFolder:
    """A folder of journals: a directory here, or a folder in object storage."""

    where: str

    @property
    def _here(self) -> Path:
        return Path(locations.path_of(self.where) or self.where)

    def runs(self) -> list[str]:
        """Return the path or URI of each journal.

        Raises:
            PlanFileError: the folder cannot be read.
        """
        with _readable(self.where):
            if not is_uri(self.where):
                return sorted(map(str, self._here.glob(f"*{SUFFIX}")))
            return [locations.join(self.where, name) for name in _objects(self.where).names()]

    def find(self, run: str) -> str | None:
        """Return the path or URI of the journal of ``run``, which may be that itself; None if there is none.

        Raises:
            PlanFileError: the folder cannot be read.
        """
        if is_uri(run):
            return run
        with _readable(self.where):
            if is_uri(self.where):
                return next((each for each in self.runs() if each.endswith(f"/{run}")), None)
            path = self._here / f"{run}{SUFFIX}"
            return str(path) if path.is_file() else None


def list_runs(folder: JournalFolder) -> Sequence[str]:
    """Return a line for each journal, the newest first, or its error.

    Raises:
        PlanFileError: the folder cannot be read.
    """
    listed = in_parallel(_listed, folder.runs(), DEFAULT_PARALLELISM)
    return [display.printable(line) for _, line in sorted(listed, reverse=True)]


def _listed(journal: str) -> tuple[str, str]:
    """Return when a run began, and its line."""
    try:
        record = read_journal(journal, ends=True)
        if not record.finished:
            record = read_journal(journal)
    except PlanFileError as error:
        return "", str(error)
    header = record.header
    begun = str(header.get("at", ""))
    actor = f"  {header['actor']}" if header.get("actor") else ""
    ending = "" if record.finished else "; the run did not finish"
    line = f"{_run(journal)}  {_moment(begun)}  {header.get('manifest')}{actor}  "
    return begun, f"{line}{record.tally} of {_changes(header)}{ending}"


def _run(journal: str) -> str:
    return journal.rpartition("/")[2] if is_uri(journal) else Path(journal).stem


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """Raise what cannot be read as a PlanFileError."""
    try:
        yield
    except (OSError, BackendError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise PlanFileError(f"{locations.redact(where)} cannot be read: {reason}") from None


def _objects(uri: str) -> ObjectFolder:
    from reconciler.storage import ObjectFolder

    return ObjectFolder(uri, {})


def _content(journal: str, ends: bool) -> bytes:
    """Return the lines of a journal; with ``ends``, of one in object storage the first and the last object's."""
    if is_uri(journal):
        folder = _objects(journal)
        names = folder.names()
        return b"".join(in_parallel(folder.read, names[:1] + names[1:][-1:] if ends else names, DEFAULT_PARALLELISM))
    path = Path(journal)
    if not stat.S_ISREG(path.stat().st_mode):
        raise PlanFileError(f"{path} cannot be read: it is not a regular file")
    return path.read_bytes()


def read_journal(journal: str | Path, *, ends: bool = False) -> JournalRecord:
    """Return the journal at a path or URI, whose last line may be incomplete.

    With ``ends``, one in object storage may lack what is neither in its first nor in its last object.

    Raises:
        PlanFileError: it cannot be read, or is not a journal of a known version.
    """
    with _readable(str(journal)):
        lines = _content(str(journal), ends).split(b"\n")
    entries = list(_entries(str(journal), lines[:-1]))
    header = entries[0] if entries else {}
    version = header.get("format_version")
    if header.get("entry") != "header" or not isinstance(version, str):
        raise PlanFileError(f"{journal} is not a journal: it does not begin with a header")
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise PlanFileError(f"{journal} has journal format {version}; this lancens reads {FORMAT_VERSION}")
    return JournalRecord(
        header=header,
        intents={entry["change"]: entry for entry in entries if entry["entry"] == "intent"},
        outcomes={entry["change"]: entry for entry in entries if entry["entry"] == "outcome"},
        summary=entries[-1] if entries[-1]["entry"] == "summary" else None,
    )


_INTENT = {"change": int, "action": str, "address": str}
_KEYS: Mapping[str, Mapping[str, type]] = {"intent": _INTENT, "outcome": {**_INTENT, "status": str}}


def _entries(path: str, lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("entry"), str):
            raise PlanFileError(f"{path}:{number}: not a line of a journal")
        if not all(isinstance(entry.get(key), kind) for key, kind in _KEYS.get(entry["entry"], {}).items()):
            raise PlanFileError(f"{path}:{number}: this {entry['entry']} is incomplete")
        if entry["entry"] == "outcome" and entry["status"] not in frozenset(Status):
            raise PlanFileError(
                f"{path}:{number}: `{entry['status']}` is not a status; expected one of {', '.join(Status)}"
            )
        yield entry


_DONE_SHOWN = 200


def _line(outcome: Mapping[str, Any]) -> str:
    said = f", {outcome['message']}" if outcome.get("message") else ""
    return f"  {MARKS[Status(outcome['status'])]} {_subject(outcome)}: {outcome['status']}{said}"


def _subject(entry: Mapping[str, Any]) -> str:
    """Return the address and the action of an entry."""
    origin = f" from {entry['from']}" if isinstance(entry.get("from"), str) else ""
    return f"{entry['address']}  {entry['action']}{origin}"


def _moment(at: str) -> str:
    """Return a time of the journal, in UTC, to the second."""
    return f"{at[:19].replace('T', ' ')} UTC"


def _number(found: object) -> str:
    return f"{found:,}" if isinstance(found, int) else f"{found}"  # of a damaged journal


def _changes(header: Mapping[str, Any]) -> str:
    changes = header.get("changes")
    return display.count(changes, "change") if isinstance(changes, int) else f"{changes} changes"


def describe_journal(journal: str | Path) -> str:
    """Return the journal at a path or URI as text: in flight, then failed and skipped, then done.

    Raises:
        PlanFileError: as :func:`read_journal`.
    """
    record = read_journal(journal)
    header, ended = record.header, [outcome for _, outcome in sorted(record.outcomes.items())]
    begun = _moment(str(header.get("at", "")))
    origin = "".join(f", {key} {header[key]}" for key in ("actor", "commit") if header.get(key))
    unfinished = "" if record.finished else " The run did not finish."
    lines = [
        f"Run {header.get('run')} of {header.get('manifest')}, begun {begun}, plan {header.get('plan')}{origin}",
        f"Ended: {record.tally}, of {_changes(header)}.{unfinished}",
    ]
    lines += [f"  ? {_subject(intent)}: in flight when the run stopped" for intent in record.in_flight]
    done = [outcome for outcome in ended if Status(outcome["status"]) in (Status.DONE, Status.ALREADY)]
    lines += [_line(outcome) for outcome in ended if outcome not in done]
    lines += [_line(outcome) for outcome in done[:_DONE_SHOWN]]
    if len(done) > _DONE_SHOWN:
        lines.append(f"  and {len(done) - _DONE_SHOWN:,} more that are done")
    return "\n".join(map(display.printable, lines))
