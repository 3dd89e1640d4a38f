"""Rules about what storage holds: dangling, not-lance, unreadable, stale, orphan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from reconciler import locations, ownership
from reconciler.pipeline.records import Severity, Stored, TableRecord
from reconciler.pipeline.rules.rule import Rule, Times, Verdict
from reconciler.state import StorageKind

__all__ = ["DANGLING", "NOT_LANCE", "ORPHAN", "STALE", "UNREADABLE"]

_REMOVE_ENTRY = "take the entry out with `absent: true` in a manifest and `lancens apply`, which leaves all data alone"


def _shown(record: TableRecord) -> str:
    return locations.redact(record.location) if record.location else "its location"


def _detail(record: TableRecord) -> str:
    return record.stored.detail if record.stored is not None else ""


def _holds(record: TableRecord, kind: StorageKind) -> bool:
    """Return whether the table has an entry as a Lance table and ``kind`` is what storage holds for it."""
    return record.live is not None and record.stored is not None and record.stored.kind is kind


def _dangling(record: TableRecord, _: Times) -> Iterator[Verdict]:
    if not _holds(record, StorageKind.NOTHING) or record.stored is None or record.stored.reserved:
        return
    if _is_declared(record):
        yield Verdict(
            f"nothing is at {_shown(record)}: the manifest declares the table, and nobody has written to it yet or its "
            "data is gone",
            "Write the first rows to it. If it had some already, restore them from a copy.",
            Severity.WARNING,
        )
    else:
        yield Verdict(
            f"the table is registered and nothing is at {_shown(record)}",
            f"Restore the data from a copy, or correct the location if the data was moved. If nobody needs the table, "
            f"{_REMOVE_ENTRY}.",
        )


def _is_declared(record: TableRecord) -> bool:
    """Return whether the table may well never have had data: lancens declares what has no data and no schema."""
    return (
        record.desired is not None
        and not record.desired.absent
        and record.desired.schema is None
        and ownership.owner_of(record.properties) == record.owner
    )


DANGLING = Rule(
    "dangling",
    Severity.ERROR,
    "The table is registered, and nothing is at its location",
    "Every query of the table fails. The data was deleted or moved, the location is wrong, or nothing was ever written "
    "there. Restore the data, correct the location, or take the entry out of the catalog. A place that is marked as "
    "reserved for a declared table is not a defect; a table that the manifest only declares is a warning.",
    _dangling,
)


def _not_lance(record: TableRecord, _: Times) -> Iterator[Verdict]:
    if _holds(record, StorageKind.NOT_LANCE):
        yield Verdict(
            f"{_shown(record)} is not a Lance dataset: {_detail(record) or 'it holds other files'}",
            "Correct the location to where the dataset is. If these files are a table of another format, "
            f"{_REMOVE_ENTRY}, and register them as what they are.",
        )


NOT_LANCE = Rule(
    "not-lance",
    Severity.ERROR,
    "There are files at the table's location, and no Lance dataset",
    "Queries fail, and a first write would mix Lance files with what is there. Usually the location names a directory "
    "too high or too low, or a table of another format was registered as a Lance one. Data files whose `_versions` are "
    "gone look like this as well: restore those from a copy.",
    _not_lance,
)


def _unreadable(record: TableRecord, _: Times) -> Iterator[Verdict]:
    if record.desired is not None and not record.desired.probe:
        return
    if _holds(record, StorageKind.DENIED):
        yield Verdict(
            f"storage does not let {_shown(record)} be read: {_detail(record)}",
            f"Let whoever runs the audit read it, with credentials in `storage.*` of the catalog `{record.catalog}` or "
            "a grant on the storage.",
        )
    elif _holds(record, StorageKind.UNKNOWN):
        yield Verdict(
            f"{_shown(record)} cannot be opened: {_detail(record)}",
            "Try again if storage was not available. If the dataset is damaged, restore the newest file below "
            "`_versions` from a copy, or go back to the newest version that opens.",
        )


UNREADABLE = Rule(
    "unreadable",
    Severity.ERROR,
    "The dataset or the namespace cannot be read",
    "A dataset that cannot be opened (damaged, denied, or storage did not answer) is useless to everybody with the "
    "same rights, and the audit says nothing more about it; `probe: false` in its block says that this is expected. Of "
    "a namespace that cannot be read, none of the tables is known: nothing that may be in it is reported as missing, "
    "and no dataset that it may register as an orphan.",
    _unreadable,
)


def _stale(record: TableRecord, times: Times) -> Iterator[Verdict]:
    committed = record.stored.committed if record.stored is not None else None
    if record.live is None or committed is None or times.stale_after is None:
        return
    age = times.now - committed
    if age > times.stale_after:
        yield Verdict(
            f"its last commit was {age // timedelta(days=1):,} days ago, on {committed:%Y-%m-%d}",
            "Find out whether what writes the table still runs. If nobody needs the table any more, "
            f"{_REMOVE_ENTRY}; if it is meant to stay as it is, nothing is to be done.",
        )


STALE = Rule(
    "stale",
    Severity.NOTE,
    "The table has not been written for longer than `--stale-after`",
    "Its last commit is older than what `--stale-after` allows (180 days unless you say otherwise). Often the job that "
    "fed it has stopped, or nobody uses it any more and it only costs money.",
    _stale,
)


def _orphan(record: TableRecord, _: Times) -> Iterator[Verdict]:
    if record.live is not None or record.desired is not None or record.foreign is not None or record.stored is None:
        return
    if record.stored.kind is StorageKind.DATASET:
        what = f"a Lance dataset is at {_shown(record)}"
    elif record.stored.kind is StorageKind.UNKNOWN:
        what = f"a Lance dataset that cannot be opened ({_detail(record)}) is at {_shown(record)}"
    else:
        return
    yield Verdict(
        f"{what}, and no table of the manifest's catalogs is",
        "Register it if it is needed: a block with this `location` in a manifest, then `lancens apply`. Otherwise find "
        "out who wrote it and whether something outside these catalogs reads it, before anybody deletes it; lancens "
        "never does.",
        details=dict(_measures(record.stored)),
    )


def _measures(stored: Stored) -> Iterator[tuple[str, str]]:
    """Yield what tells whether a dataset is worth keeping."""
    if stored.rows is not None:
        yield "rows", f"{stored.rows:,}"
    if stored.bytes is not None:
        yield "bytes", f"{stored.bytes:,}"
    if stored.committed is not None:
        yield "last commit", f"{stored.committed:%Y-%m-%d}"


ORPHAN = Rule(
    "orphan",
    Severity.WARNING,
    "A dataset lies under a root, and no catalog registers it",
    "It costs money and nobody finds it: a registration that was lost, a table that was deregistered, or a write that "
    "was never finished. Register it, or have its owner remove it. Look for readers outside these catalogs first "
    "(paths in code, shallow clones of it). lancens reports orphans and deletes nothing.",
    _orphan,
)
