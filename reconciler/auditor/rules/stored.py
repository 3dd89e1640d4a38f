"""Rules about what a location holds: nothing, an unregistered dataset, other files."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.auditor.records import LocationContent, Severity, TableRecord
from reconciler.auditor.rules.rule import (
    REMOVE_ENTRY,
    RuleLimits,
    Verdict,
    is_live_with,
    location_text,
    rule,
)
from reconciler.model import ownership
from reconciler.model.live import StorageKind


@rule(Severity.ERROR)
def dangling(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table is registered, and nothing is at its location

    Every query of the table fails. The data was deleted or moved, the location is wrong, or nothing was ever written
    there. Restore the data, correct the location, or remove the entry. A location that is marked as reserved for a
    declared table is no defect; a table that the manifest only declares is a warning.
    """
    if not is_live_with(record, StorageKind.NOTHING) or record.stored.reserved:
        return
    if _is_declared(record):
        yield Verdict(
            f"nothing is at {location_text(record)}: the manifest declares the table, and it was never written or its "
            "data is gone",
            "Write the first rows to it. If it had rows already, restore them from a copy.",
            Severity.WARNING,
        )
    else:
        yield Verdict(
            f"the table is registered and nothing is at {location_text(record)}",
            f"Restore the data from a copy, or correct the location if the data was moved. If the table is not needed, "
            f"{REMOVE_ENTRY}.",
        )


def _is_declared(record: TableRecord) -> bool:
    """Return whether lancens declared the table, which then may never have had data."""
    return (
        record.desired is not None
        and not record.desired.absent
        and record.desired.schema is None
        and ownership.is_same_owner(ownership.owner_of(record.properties), record.owner)
    )


@rule(Severity.WARNING)
def orphan(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """A dataset lies under a root, and no catalog registers it

    It costs money and cannot be found: its registration was lost, the table was deregistered, or a write never
    finished. Register it, or have its owner remove it. Look for readers outside these catalogs first (paths in code,
    shallow clones of it). lancens reports orphans and deletes nothing.
    """
    if record.live is not None or record.desired is not None or record.foreign is not None:
        return
    if record.stored.kind is StorageKind.DATASET:
        subject = f"a Lance dataset is at {location_text(record)}"
    elif record.stored.kind is StorageKind.UNKNOWN:
        subject = f"a Lance dataset that cannot be opened ({record.stored.detail}) is at {location_text(record)}"
    else:
        return
    yield Verdict(
        f"{subject}, and no table of the manifest's catalogs is",
        "Register it if it is needed: a block with this `location` in a manifest, then `lancens apply`. Otherwise find "
        "its writer, and its readers outside these catalogs, before you delete it; lancens never does.",
        details=dict(_size_details(record.stored)),
    )


def _size_details(stored: LocationContent) -> Iterator[tuple[str, str]]:
    """Yield the figures that help to decide whether to keep a dataset."""
    if stored.rows is not None:
        yield "rows", f"{stored.rows:,}"
    if stored.bytes is not None:
        yield "bytes", f"{stored.bytes:,}"
    if stored.committed is not None:
        yield "last commit", f"{stored.committed:%Y-%m-%d}"


@rule(Severity.ERROR)
def not_lance(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """There are files at the table's location, and no Lance dataset

    Queries fail, and a first write would mix Lance files with the others. Usually the location names a directory too
    high or too low, or a table of another format was registered as a Lance table.
    """
    if is_live_with(record, StorageKind.NOT_LANCE) and not record.stored.unversioned:
        yield Verdict(
            f"{location_text(record)} is not a Lance dataset: {record.stored.detail or 'it holds other files'}",
            "Correct the location to where the dataset is. If these files are a table of another format, "
            f"{REMOVE_ENTRY}, and register them in that format.",
        )


@rule(Severity.ERROR)
def unversioned_data(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """There are files of Lance data, and no version of a dataset names them

    A dataset without `_versions` cannot be opened, though all its data is there: a copy left out names that begin with
    `_`, or a clean-up deleted them. Without an entry in a catalog it is a note: often a first write that was
    interrupted before its commit.
    """
    if not record.stored.unversioned:
        return
    if record.live is not None:
        yield Verdict(
            f"files of Lance data are at {location_text(record)}, and `_versions` is empty or gone",
            "Restore `_versions` from a copy; nothing else tells which rows the files hold. A first write looks like "
            "this until its commit: if it was interrupted, write the table again.",
        )
    elif record.desired is None and record.foreign is None:
        yield Verdict(
            f"files of Lance data are at {location_text(record)} without any version, and no table of the manifest's "
            "catalogs is there",
            "Find their writer: a first write looks like this until its commit. If it was interrupted, the files only "
            "cost money. lancens deletes nothing.",
            Severity.NOTE,
        )
