"""Read journals: what was done, what was in flight when a run stopped, and what a journal has lost."""

from __future__ import annotations

import json
import re
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

    ``run`` is the name of the journal, and ``begun`` its first time. ``header`` is empty if it is lost, and ``summary``
    None if the run did not end by itself. ``damage`` tells which lines cannot be used.
    """

    run: str
    header: Mapping[str, Any]
    intents: Mapping[int, Mapping[str, Any]]
    outcomes: Mapping[int, Mapping[str, Any]]
    summary: Mapping[str, Any] | None
    damage: Sequence[str] = ()
    lost_objects: Sequence[str] = ()
    begun: str = ""

    @property
    def missing(self) -> Sequence[str]:
        """What the journal has lost, as far as its other lines tell."""
        missing = [*self.damage, *self._uncounted()]
        if self.finished:
            missing += [f"the outcome of {_subject(intent)}" for intent in self.in_flight]
        missing += [
            f"what {outcome['address']} was before  {outcome['action']}"
            for position, outcome in sorted(self.outcomes.items())
            if outcome["status"] == Status.DONE and position not in self.intents
        ]
        # An object that could not be stored leaves a gap, too; a summary tells that nothing was in it.
        return [*self.lost_objects, *missing] if missing or not self.finished else []

    def _uncounted(self) -> Iterator[str]:
        """Yield what the header and the summary count differently from the lines."""
        if not self.header:
            yield "the header"
        if self.summary is None:
            return
        counts, summary = Counter(outcome["status"] for outcome in self.outcomes.values()), self.summary
        for status in Status:
            is_unwritten = status is Status.SKIPPED and summary.get("interrupted")
            counted = summary.get(status, 0)
            if not is_unwritten and counts[status] != counted:
                yield f"outcomes: {_number(counted)} {status} in the summary, {counts[status]:,} in the lines"
        counted = sum(count for status in Status if isinstance(count := summary.get(status), int))
        if isinstance(self.header.get("changes"), int) and counted != self.header["changes"]:
            yield f"changes: {_changes(self.header)} in the header, {counted:,} in the summary"

    @property
    def looks_incomplete(self) -> bool:
        """Whether its first and last lines alone tell that others may be lost."""
        return bool(self.damage or self.lost_objects or not self.header)

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

    location: str

    @property
    def _here(self) -> Path:
        return Path(locations.path_of(self.location) or self.location)

    def runs(self) -> list[str]:
        """Return the path or URI of each journal.

        Raises:
            PlanFileError: the folder cannot be read.
        """
        with _readable(self.location):
            if not is_uri(self.location):
                return sorted(map(str, self._here.glob(f"*{SUFFIX}")))
            return [
                locations.join(self.location, name) for name in _objects(self.location).names() if _RUN.fullmatch(name)
            ]

    def find(self, run: str) -> str | None:
        """Return the path or URI of the journal of ``run``, which may be that itself; None if there is none.

        Raises:
            PlanFileError: the folder cannot be read.
        """
        if is_uri(run):
            return run
        with _readable(self.location):
            if is_uri(self.location):
                return next((each for each in self.runs() if each.endswith(f"/{run}")), None)
            path = self._here / f"{run}{SUFFIX}"
            return str(path) if path.is_file() else None


@dataclass(frozen=True, slots=True, order=True)
class ListedRun:
    """When a run began, the line about it, and whether its journal has all its lines; a stray file has."""

    begun: str
    line: str
    is_complete: bool = True


def list_runs(folder: JournalFolder) -> Sequence[ListedRun]:
    """Return a line for each journal, the newest first by what it says, or its error.

    Raises:
        PlanFileError: the folder cannot be read.
    """
    return sorted(in_parallel(_listed, folder.runs(), DEFAULT_PARALLELISM), reverse=True)


def _listed(journal: str) -> ListedRun:
    try:
        record, is_whole = read_journal(journal, ends=True), not is_uri(journal)
        if not is_whole and (record.looks_incomplete or not record.finished):
            record, is_whole = read_journal(journal), True
    except PlanFileError as error:
        return ListedRun("", display.printable(str(error)), not _RUN.fullmatch(_run(journal)))
    header, missing = record.header, record.missing if is_whole else ()
    actor = f"  {header['actor']}" if header.get("actor") else ""
    ending = "" if record.finished else "; the run did not finish"
    ending += f"; incomplete: {display.count(len(missing), 'part')} missing" if missing else ""
    line = f"{record.run}  {_moment(record.begun)}  {header.get('manifest', '?')}{actor}  "
    return ListedRun(
        record.begun, display.printable(f"{line}{record.tally} of {_changes(header)}{ending}"), not missing
    )


def _run(journal: str) -> str:
    return journal.rpartition("/")[2] if is_uri(journal) else Path(journal).stem


@contextmanager
def _readable(location: str) -> Iterator[None]:
    """Raise what cannot be read as a PlanFileError."""
    try:
        yield
    except (OSError, BackendError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise PlanFileError(f"{locations.redact(location)} cannot be read: {reason}") from None


def _objects(uri: str) -> ObjectFolder:
    from reconciler.storage import ObjectFolder

    return ObjectFolder(uri, {})


@dataclass(frozen=True, slots=True)
class _Parts:
    """The files or objects of a journal, in order, and the names of ``lost`` objects."""

    contents: Mapping[str, bytes]
    lost: Sequence[str] = ()
    has_first: bool = True


def _parts(journal: str, ends: bool) -> _Parts:
    """Return the content of a journal; with ``ends``, of one in object storage the first and the last object's."""
    if is_uri(journal):
        folder = _objects(journal)
        numbers = [int(name.removesuffix(SUFFIX)) for name in folder.names() if _OBJECT.fullmatch(name)]
        lost = sorted(set(range(1, max(numbers, default=0))).difference(numbers))
        read = numbers[:1] + numbers[1:][-1:] if ends else numbers
        names = [f"{number:08}{SUFFIX}" for number in read]
        contents = in_parallel(folder.read, names, DEFAULT_PARALLELISM)
        missing = [f"object {number:08}{SUFFIX}" for number in lost]
        return _Parts(dict(zip(names, contents, strict=True)), missing, has_first=1 in numbers)
    path = Path(journal)
    if not stat.S_ISREG(path.stat().st_mode):
        raise PlanFileError(f"{path} cannot be read: it is not a regular file")
    whole, _, _torn = path.read_bytes().rpartition(b"\n")
    return _Parts({str(path): whole})


def read_journal(journal: str | Path, *, ends: bool = False) -> JournalRecord:
    """Return the journal at a path or URI, as far as it is there; the last line of a file may be incomplete.

    With ``ends``, one in object storage may lack what is neither in its first nor in its last object.

    Raises:
        PlanFileError: it cannot be read, or is not a journal of a known version.
    """
    run = _run(str(journal))
    with _readable(str(journal)):
        parts = _parts(str(journal), ends)
    damage: list[str] = []
    entries: list[dict[str, Any]] = []
    header: Mapping[str, Any] = {}
    for name, content in parts.contents.items():
        lines = [*_entries(name, content, damage)]
        if parts.has_first and name == next(iter(parts.contents)) and lines and lines[0]["entry"] == "header":
            if _RUN.fullmatch(run) and lines[0].get("run") != run:
                damage.append(f"{name}: its header is that of run {lines[0].get('run')}")
                lines = [] if is_uri(str(journal)) else lines
            else:
                header = lines[0]
        entries += lines
    if not header and not any(entry["entry"] in _KEYS for entry in entries):
        raise PlanFileError(damage[0] if damage else f"{journal} is not a journal: it does not begin with a header")
    version = header.get("format_version", FORMAT_VERSION)
    if not isinstance(version, str) or version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise PlanFileError(f"{journal} has journal format {version}; this lancens reads {FORMAT_VERSION}")
    return JournalRecord(
        run=run,
        header=header,
        intents={entry["change"]: entry for entry in entries if entry["entry"] == "intent"},
        outcomes={entry["change"]: entry for entry in entries if entry["entry"] == "outcome"},
        summary=entries[-1] if entries[-1]["entry"] == "summary" else None,
        damage=damage,
        lost_objects=parts.lost,
        begun=str(header.get("at") or min(str(entry.get("at", "")) for entry in entries)),
    )


_RUN = re.compile(r"[0-9a-f]{8}")
_OBJECT = re.compile(rf"[0-9]{{8}}{re.escape(SUFFIX)}")
_INTENT = {"change": int, "action": str, "address": str}
_KEYS: Mapping[str, Mapping[str, type]] = {"intent": _INTENT, "outcome": {**_INTENT, "status": str}}


def _entries(path: str, content: bytes, damage: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a part, and add those that cannot be read to ``damage``."""
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("entry"), str):
            damage.append(f"{path}:{number}: not a line of a journal")
        elif not all(isinstance(entry.get(key), kind) for key, kind in _KEYS.get(entry["entry"], {}).items()):
            damage.append(f"{path}:{number}: this {entry['entry']} is incomplete")
        elif entry["entry"] == "outcome" and entry["status"] not in frozenset(Status):
            expected = f"expected one of {', '.join(Status)}"
            damage.append(f"{path}:{number}: `{entry['status']}` is not a status; {expected}")
        else:
            yield entry


_DONE_SHOWN = 200


def _line(outcome: Mapping[str, Any]) -> str:
    message = f", {outcome['message']}" if outcome.get("message") else ""
    return f"  {MARKS[Status(outcome['status'])]} {_subject(outcome)}: {outcome['status']}{message}"


def _subject(entry: Mapping[str, Any]) -> str:
    """Return the address and the action of an entry."""
    origin = f" from {entry['from']}" if isinstance(entry.get("from"), str) else ""
    return f"{entry['address']}  {entry['action']}{origin}"


def _moment(at: str) -> str:
    """Return a time of the journal, in UTC, to the second."""
    return f"{at[:19].replace('T', ' ')} UTC"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value}"  # of a damaged journal


def _changes(header: Mapping[str, Any]) -> str:
    changes = header.get("changes", "an unknown number of")
    return display.count(changes, "change") if isinstance(changes, int) else f"{changes} changes"


def describe_journal(record: JournalRecord) -> str:
    """Return a journal as text: what is missing or in flight, then failed and skipped, then done."""
    header, ended = record.header, [outcome for _, outcome in sorted(record.outcomes.items())]
    begun = _moment(record.begun)
    origin = "".join(f", {key} {header[key]}" for key in ("actor", "commit") if header.get(key))
    unfinished = "" if record.finished else " The run did not finish."
    lines = [
        f"Run {record.run} of {header.get('manifest', '?')}, begun {begun}, plan {header.get('plan', '?')}{origin}",
        f"Ended: {record.tally}, of {_changes(header)}.{unfinished}",
    ]
    lines += [f"  ! missing: {part}" for part in record.missing]
    in_flight = () if record.finished else record.in_flight
    lines += [f"  ? {_subject(intent)}: in flight when the run stopped" for intent in in_flight]
    done = [outcome for outcome in ended if Status(outcome["status"]) in (Status.DONE, Status.ALREADY)]
    lines += [_line(outcome) for outcome in ended if outcome not in done]
    lines += [_line(outcome) for outcome in done[:_DONE_SHOWN]]
    if len(done) > _DONE_SHOWN:
        lines.append(f"  and {len(done) - _DONE_SHOWN:,} more that are done")
    return "\n".join(map(display.printable, lines))
