"""Read journals: what was done, and what was in flight when a run stopped."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.applier.journal import FORMAT_VERSION
from reconciler.applier.report import MARKS, Status
from reconciler.model import display
from reconciler.model.errors import PlanFileError


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A journal; intents and outcomes by the change's position in the plan.

    ``finished``: the run ended by itself. ``torn``: the last line is incomplete and left out.
    """

    header: Mapping[str, Any]
    intents: Mapping[int, Mapping[str, Any]]
    outcomes: Mapping[int, Mapping[str, Any]]
    finished: bool
    torn: bool

    @property
    def in_flight(self) -> Sequence[Mapping[str, Any]]:
        """The intents without an outcome, which may or may not have been written."""
        return [intent for position, intent in sorted(self.intents.items()) if position not in self.outcomes]

    @property
    def tally(self) -> str:
        """How its changes ended, such as `3 done, 1 failed`."""
        counts = Counter(outcome["status"] for outcome in self.outcomes.values())
        return ", ".join(f"{counts[status]} {status}" for status in Status if counts[status]) or "none"


def list_runs(folder: Path) -> Sequence[str]:
    """Return a line for each journal, the newest first, or its error.

    Raises:
        PlanFileError: the folder cannot be read.
    """
    try:
        paths = sorted(folder.glob("*.jsonl"))
    except OSError as error:
        raise PlanFileError(f"{folder} cannot be read: {error.strerror or error}") from None
    listed: list[tuple[str, str]] = []
    for path in paths:
        try:
            record = read_journal(path)
        except PlanFileError as error:
            listed.append(("", str(error)))
            continue
        header = record.header
        begun = str(header.get("at", ""))
        ending = "" if record.finished else "; the run did not finish"
        line = f"{path.stem}  {_moment(begun)}  {header.get('manifest')}  "
        listed.append((begun, f"{line}{record.tally} of {_changes(header)}{ending}"))
    return [display.printable(line) for _, line in sorted(listed, reverse=True)]


def read_journal(path: Path) -> JournalRecord:
    """Return the journal at ``path``, whose last line may be incomplete.

    Raises:
        PlanFileError: the file cannot be read, or is not a journal of a known version.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise PlanFileError(f"{path} cannot be read: it is not a regular file")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise PlanFileError(f"{path} cannot be read: {error.strerror or error}") from None
    entries = list(_entries(path, lines[:-1]))
    header = entries[0] if entries else {}
    version = header.get("format_version")
    if header.get("entry") != "header" or not isinstance(version, str):
        raise PlanFileError(f"{path} is not a journal: it does not begin with a header")
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise PlanFileError(f"{path} has journal format {version}; this lancens reads {FORMAT_VERSION}")
    return JournalRecord(
        header=header,
        intents={entry["change"]: entry for entry in entries if entry["entry"] == "intent"},
        outcomes={entry["change"]: entry for entry in entries if entry["entry"] == "outcome"},
        finished=entries[-1]["entry"] == "summary",
        torn=lines[-1] != b"",
    )


_INTENT = {"change": int, "action": str, "address": str}
_KEYS: Mapping[str, Mapping[str, type]] = {"intent": _INTENT, "outcome": {**_INTENT, "status": str}}


def _entries(path: Path, lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
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


def _changes(header: Mapping[str, Any]) -> str:
    changes = header.get("changes")
    return display.count(changes, "change") if isinstance(changes, int) else f"{changes} changes"


def describe_journal(path: Path) -> str:
    """Return the journal as text: in flight, then failed and skipped, then done.

    Raises:
        PlanFileError: as :func:`read_journal`.
    """
    record = read_journal(path)
    header, ended = record.header, [outcome for _, outcome in sorted(record.outcomes.items())]
    begun = _moment(str(header.get("at", "")))
    unfinished = "" if record.finished else " The run did not finish."
    lines = [
        f"Run {header.get('run')} of {header.get('manifest')}, begun {begun}, plan {header.get('plan')}",
        f"Ended: {record.tally}, of {_changes(header)}.{unfinished}",
    ]
    lines += [f"  ? {_subject(intent)}: in flight when the run stopped" for intent in record.in_flight]
    done = [outcome for outcome in ended if Status(outcome["status"]) in (Status.DONE, Status.ALREADY)]
    lines += [_line(outcome) for outcome in ended if outcome not in done]
    lines += [_line(outcome) for outcome in done[:_DONE_SHOWN]]
    if len(done) > _DONE_SHOWN:
        lines.append(f"  and {len(done) - _DONE_SHOWN:,} more that are done")
    return "\n".join(map(display.printable, lines))
