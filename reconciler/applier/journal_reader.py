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
    """The lines of a journal as read.

    Args:
        run: the run's id, from the journal's name.
        header: the first line; empty if it is lost.
        intents: the intents by the change's position in the plan.
        outcomes: the outcomes by the change's position in the plan.
        summary: the last line; None if the run did not end by itself.
        damage: texts that name each line that cannot be used.
        lost_objects: texts that name each missing object of a journal in object storage.
        begun: the time of the first line, as in the journal.
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
        """Texts that name what the journal has lost, as far as its other lines tell."""
        missing = [*self.damage, *self._count_mismatches()]
        if self.finished:
            missing += [f"the outcome of {_subject(intent)}" for intent in self.in_flight]
        missing += [
            f"what {outcome['address']} was before  {outcome['action']}"
            for position, outcome in sorted(self.outcomes.items())
            if outcome["status"] == Status.DONE and position not in self.intents
        ]
        # An object that could not be stored leaves a gap, too. It held nothing if the summary's counts are right.
        return [*self.lost_objects, *missing] if missing or not self.finished else []

    def _count_mismatches(self) -> Iterator[str]:
        """Yield a text for each count that does not match the lines.

        The header and the summary have counts.
        """
        if not self.header:
            yield "the header"
        if self.summary is None:
            return
        counts, summary = Counter(outcome["status"] for outcome in self.outcomes.values()), self.summary
        for status in Status:
            is_unwritten = status is Status.SKIPPED and summary.get("interrupted")
            counted = summary.get(status, 0)
            if not is_unwritten and counts[status] != counted:
                yield f"outcomes: {_number_text(counted)} {status} in the summary, {counts[status]:,} in the lines"
        counted = sum(count for status in Status if isinstance(count := summary.get(status), int))
        if isinstance(self.header.get("changes"), int) and counted != self.header["changes"]:
            yield f"changes: {_change_count(self.header)} in the header, {counted:,} in the summary"

    @property
    def looks_incomplete(self) -> bool:
        """Whether lines may be lost, as far as a journal read with ``ends`` tells."""
        return bool(self.damage or self.lost_objects or not self.header)

    @property
    def finished(self) -> bool:
        """Whether the run ended by itself."""
        return self.summary is not None

    @property
    def in_flight(self) -> Sequence[Mapping[str, Any]]:
        """The intents without an outcome.

        Their changes may or may not have been written to the catalog.
        """
        return [intent for position, intent in sorted(self.intents.items()) if position not in self.outcomes]

    @property
    def tally(self) -> str:
        """How its changes ended, such as `3 done, 1 failed`."""
        counts = self.summary or Counter(outcome["status"] for outcome in self.outcomes.values())
        return (
            ", ".join(f"{_number_text(counts[status])} {status}" for status in Status if counts.get(status)) or "none"
        )


@dataclass(frozen=True, slots=True)
class JournalFolder:
    """A folder of journals: a local directory, or a folder in object storage."""

    location: str

    @property
    def _directory(self) -> Path:
        return Path(locations.path_of(self.location) or self.location)

    def runs(self) -> list[str]:
        """Return the path or URI of each journal.

        Raises:
            PlanFileError: the folder cannot be read.
        """
        with _read_errors(self.location):
            if not is_uri(self.location):
                return sorted(map(str, self._directory.glob(f"*{SUFFIX}")))
            return [
                locations.join(self.location, name) for name in _objects(self.location).names() if _RUN.fullmatch(name)
            ]

    def find(self, run: str) -> str | None:
        """Return the path or URI of the journal of ``run``; None if the folder has none.

        ``run`` is a run id or the URI of a journal, which is returned as it is.

        Raises:
            PlanFileError: the folder cannot be read.
        """
        if is_uri(run):
            return run
        with _read_errors(self.location):
            if is_uri(self.location):
                return next((journal for journal in self.runs() if journal.endswith(f"/{run}")), None)
            path = self._directory / f"{run}{SUFFIX}"
            return str(path) if path.is_file() else None


@dataclass(frozen=True, slots=True, order=True)
class ListedRun:
    """When a run began, the line about it, and whether its journal has all its lines.

    A file that is not named as a journal counts as complete: no run is known to have lost anything.
    """

    begun: str
    line: str
    is_complete: bool = True


def list_runs(folder: JournalFolder) -> Sequence[ListedRun]:
    """Return each journal of ``folder``, or the error of one that cannot be read.

    The newest run comes first.

    Raises:
        PlanFileError: the folder cannot be read.
    """
    return sorted(in_parallel(_list_run, folder.runs(), DEFAULT_PARALLELISM), reverse=True)


def _list_run(journal: str) -> ListedRun:
    """Read a journal, and return its line.

    Of one in object storage only the ends are read if they look complete.
    """
    try:
        record, is_whole = read_journal(journal, ends=True), not is_uri(journal)
        if not is_whole and (record.looks_incomplete or not record.finished):
            record, is_whole = read_journal(journal), True
    except PlanFileError as error:
        return ListedRun("", display.printable(str(error)), not _RUN.fullmatch(_run_of(journal)))
    header, missing = record.header, record.missing if is_whole else ()
    actor = f"  {header['actor']}" if header.get("actor") else ""
    ending = "" if record.finished else "; the run did not finish"
    ending += f"; incomplete: {display.count(len(missing), 'part')} missing" if missing else ""
    line = f"{record.run}  {_time_text(record.begun)}  {header.get('manifest', '?')}{actor}  "
    return ListedRun(
        record.begun, display.printable(f"{line}{record.tally} of {_change_count(header)}{ending}"), not missing
    )


def _run_of(journal: str) -> str:
    """Return the run id in the path or URI of a journal."""
    return journal.rpartition("/")[2] if is_uri(journal) else Path(journal).stem


@contextmanager
def _read_errors(location: str) -> Iterator[None]:
    """Raise errors of files and object storage as PlanFileError.

    The message names ``location``.
    """
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
    """The content of a journal's file or objects by name, in order.

    ``lost`` are texts that name missing objects. ``has_first`` tells whether the first part is there.
    """

    contents: Mapping[str, bytes]
    lost: Sequence[str] = ()
    has_first: bool = True


def _read_parts(journal: str, ends: bool) -> _Parts:
    """Return the content of a journal.

    In object storage with ``ends``, only its first and its last object.
    """
    if is_uri(journal):
        folder = _objects(journal)
        numbers = [int(name.removesuffix(SUFFIX)) for name in folder.names() if _OBJECT.fullmatch(name)]
        lost = sorted(set(range(1, max(numbers, default=0))).difference(numbers))
        to_read = numbers[:1] + numbers[1:][-1:] if ends else numbers
        names = [f"{number:08}{SUFFIX}" for number in to_read]
        contents = in_parallel(folder.read, names, DEFAULT_PARALLELISM)
        missing = [f"object {number:08}{SUFFIX}" for number in lost]
        return _Parts(dict(zip(names, contents, strict=True)), missing, has_first=1 in numbers)
    path = Path(journal)
    if not stat.S_ISREG(path.stat().st_mode):
        raise PlanFileError(f"{path} cannot be read: it is not a regular file")
    whole, _, _torn = path.read_bytes().rpartition(b"\n")
    return _Parts({str(path): whole})


def read_journal(journal: str | Path, *, ends: bool = False) -> JournalRecord:
    """Read the journal at a path or URI.

    Lines that cannot be used are named in the record; an incomplete last line of a file is left out. With ``ends``,
    only the first and the last object of a journal in object storage are read.

    Raises:
        PlanFileError: it cannot be read, or is not a journal of a known version.
    """
    run = _run_of(str(journal))
    with _read_errors(str(journal)):
        parts = _read_parts(str(journal), ends)
    damage: list[str] = []
    entries: list[dict[str, Any]] = []
    header: Mapping[str, Any] = {}
    for name, content in parts.contents.items():
        lines = [*_usable_lines(name, content, damage)]
        if parts.has_first and name == next(iter(parts.contents)) and lines and lines[0]["entry"] == "header":
            if _RUN.fullmatch(run) and lines[0].get("run") != run:
                damage.append(f"{name}: its header is that of run {lines[0].get('run')}")
                lines = [] if is_uri(str(journal)) else lines
            else:
                header = lines[0]
        entries += lines
    if not header and not any(entry["entry"] in _REQUIRED_KEYS for entry in entries):
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
_REQUIRED_KEYS: Mapping[str, Mapping[str, type]] = {"intent": _INTENT, "outcome": {**_INTENT, "status": str}}


def _usable_lines(path: str, content: bytes, damage: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the entries in ``content``.

    A text on each line that cannot be used is added to ``damage``.
    """
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("entry"), str):
            damage.append(f"{path}:{number}: not a line of a journal")
        elif not all(isinstance(entry.get(key), kind) for key, kind in _REQUIRED_KEYS.get(entry["entry"], {}).items()):
            damage.append(f"{path}:{number}: this {entry['entry']} is incomplete")
        elif entry["entry"] == "outcome" and entry["status"] not in frozenset(Status):
            expected = f"expected one of {', '.join(Status)}"
            damage.append(f"{path}:{number}: `{entry['status']}` is not a status; {expected}")
        else:
            yield entry


_MOST_DONE = 200


def _outcome_line(outcome: Mapping[str, Any]) -> str:
    message = f", {outcome['message']}" if outcome.get("message") else ""
    return f"  {MARKS[Status(outcome['status'])]} {_subject(outcome)}: {outcome['status']}{message}"


def _subject(entry: Mapping[str, Any]) -> str:
    """Return the address, action and old name of an intent or outcome."""
    origin = f" from {entry['from']}" if isinstance(entry.get("from"), str) else ""
    return f"{entry['address']}  {entry['action']}{origin}"


def _time_text(at: str) -> str:
    """Return a time of the journal as text, in UTC, to the second."""
    return f"{at[:19].replace('T', ' ')} UTC"


def _number_text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value}"  # a damaged journal may have any value


def _change_count(header: Mapping[str, Any]) -> str:
    changes = header.get("changes", "an unknown number of")
    return display.count(changes, "change") if isinstance(changes, int) else f"{changes} changes"


def describe_journal(record: JournalRecord) -> str:
    """Return a journal as text: what is missing or in flight, then failed and skipped, then done."""
    header, ended = record.header, [outcome for _, outcome in sorted(record.outcomes.items())]
    begun = _time_text(record.begun)
    origin = "".join(f", {key} {header[key]}" for key in ("actor", "commit") if header.get(key))
    unfinished = "" if record.finished else " The run did not finish."
    lines = [
        f"Run {record.run} of {header.get('manifest', '?')}, begun {begun}, plan {header.get('plan', '?')}{origin}",
        f"Ended: {record.tally}, of {_change_count(header)}.{unfinished}",
    ]
    lines += [f"  ! missing: {part}" for part in record.missing]
    in_flight = () if record.finished else record.in_flight
    lines += [f"  ? {_subject(intent)}: in flight when the run stopped" for intent in in_flight]
    done = [outcome for outcome in ended if Status(outcome["status"]) in (Status.DONE, Status.ALREADY)]
    lines += [_outcome_line(outcome) for outcome in ended if outcome not in done]
    lines += [_outcome_line(outcome) for outcome in done[:_MOST_DONE]]
    if len(done) > _MOST_DONE:
        lines.append(f"  and {len(done) - _MOST_DONE:,} more that are done")
    return "\n".join(map(display.printable, lines))
