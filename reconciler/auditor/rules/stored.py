"""Rules about what storage holds: entries without data, data without entries, lost files, old and unreadable data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from reconciler.auditor.records import Severity, Stored, TableRecord
from reconciler.auditor.rules.rule import RuleLimits, Verdict, few, rule
from reconciler.model import locations, ownership
from reconciler.model.display import count
from reconciler.model.live import StorageKind

_REMOVE_ENTRY = "take the entry out with `absent: true` in a manifest and `lancens apply`, which leaves all data alone"


def _shown(record: TableRecord) -> str:
    return locations.redact(record.location) if record.location else "its location"


def _holds(record: TableRecord, kind: StorageKind) -> bool:
    """Return whether the table has an entry as a Lance table and ``kind`` is what storage holds for it."""
    return record.live is not None and record.stored.kind is kind


@rule(Severity.ERROR)
def dangling(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table is registered, and nothing is at its location

    Every query of the table fails. The data was deleted or moved, the location is wrong, or nothing was ever written
    there. Restore the data, correct the location, or take the entry out of the catalog. A place that is marked as
    reserved for a declared table is not a defect; a table that the manifest only declares is a warning.
    """
    if not _holds(record, StorageKind.NOTHING) or record.stored.reserved:
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


@rule(Severity.WARNING)
def orphan(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """A dataset lies under a root, and no catalog registers it

    It costs money and nobody finds it: a registration that was lost, a table that was deregistered, or a write that was
    never finished. Register it, or have its owner remove it. Look for readers outside these catalogs first (paths in
    code, shallow clones of it). lancens reports orphans and deletes nothing.
    """
    if record.live is not None or record.desired is not None or record.foreign is not None:
        return
    if record.stored.kind is StorageKind.DATASET:
        what = f"a Lance dataset is at {_shown(record)}"
    elif record.stored.kind is StorageKind.UNKNOWN:
        what = f"a Lance dataset that cannot be opened ({record.stored.detail}) is at {_shown(record)}"
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


@rule(Severity.ERROR)
def not_lance(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """There are files at the table's location, and no Lance dataset

    Queries fail, and a first write would mix Lance files with what is there. Usually the location names a directory too
    high or too low, or a table of another format was registered as a Lance one.
    """
    if _holds(record, StorageKind.NOT_LANCE) and not record.stored.unversioned:
        yield Verdict(
            f"{_shown(record)} is not a Lance dataset: {record.stored.detail or 'it holds other files'}",
            "Correct the location to where the dataset is. If these files are a table of another format, "
            f"{_REMOVE_ENTRY}, and register them as what they are.",
        )


@rule(Severity.ERROR)
def unversioned_data(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Files of Lance data are there, and no version of a dataset names them

    A dataset whose `_versions` are gone cannot be opened, though all its data is there: a copy that left out what
    begins with `_`, or a clean-up that took it. Without an entry in a catalog it is a note: often a first write that
    never came to its commit.
    """
    if not record.stored.unversioned:
        return
    if record.live is not None:
        yield Verdict(
            f"files of Lance data are at {_shown(record)}, and `_versions` is empty or gone",
            "Restore `_versions` from a copy; nothing else says which rows the files hold. A first write that is under "
            "way looks like this until its commit, and one that was cut off for ever: then write the table again.",
        )
    elif record.desired is None and record.foreign is None:
        yield Verdict(
            f"files of Lance data are at {_shown(record)} without any version, and no table of the manifest's catalogs "
            "is there",
            "Find out who wrote them: a first write that is under way looks like this until its commit, and one that "
            "was cut off for ever, which only costs money. lancens deletes nothing.",
            Severity.NOTE,
        )


_RESTORE = (
    "Restore {what} from a copy, or go back to the newest version whose files are all there: "
    "`lance.dataset(…, version=…).restore()`. An index that is damaged can be made anew instead."
)


@rule(Severity.ERROR)
def missing_files(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Files that the latest version of the data names are not there

    Files of data, of deletions or of an index that the manifest of the latest version names. The dataset opens, and
    every query that needs them fails: a copy that was cut short, a lifecycle rule of the bucket, or somebody who
    removed them. Found by one listing of the table's files, which `--depth quick` leaves out; files of a clone that are
    in the dataset it was cloned from are not looked for.
    """
    files = record.stored.files
    if files is not None and files.missing:
        yield Verdict(
            f"{count(len(files.missing), 'file')} of its latest version "
            f"{'is' if len(files.missing) == 1 else 'are'} not there: {few(files.missing)}",
            _RESTORE.format(what="what is missing"),
        )


@rule(Severity.ERROR)
def short_files(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Files of the latest version of the data are shorter than they were written

    The manifest of the latest version says how many bytes each of its files has, and storage has fewer: a copy or an
    upload that was cut short, or a full disk. Every query that needs them fails. Found by one listing of the table's
    files, which `--depth quick` leaves out.
    """
    files = record.stored.files
    if files is not None and files.short:
        yield Verdict(
            f"{count(len(files.short), 'file')} of its latest version "
            f"{'has' if len(files.short) == 1 else 'have'} fewer bytes than were written: {few(files.short)}",
            _RESTORE.format(what="them"),
        )


@rule(Severity.ERROR)
def broken_tag(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """A tag names a version that cannot be read

    The version's file below `_versions` is missing or damaged, files that the version needs are missing or short, or
    the tag's own file below `_refs/tags` is damaged. A query by the tag fails, and a clean-up no longer keeps what is
    left of the version. Found by one listing of the table's files, which `--depth quick` leaves out.
    """
    files = record.stored.files
    if files is not None and files.broken_tags:
        yield Verdict(
            f"{count(len(files.broken_tags), 'tag')} cannot be read: {few(files.broken_tags)}",
            "Restore the version and its files from a copy, before a clean-up removes what is left of it. Nobody needs "
            "it? Then delete the tag: `lance.dataset(…).tags.delete(…)`.",
        )


@rule(Severity.ERROR)
def unreadable(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The dataset or the namespace cannot be read

    A dataset that cannot be opened (damaged, denied, or storage did not answer) is useless to everybody with the same
    rights, and the audit says nothing more about it; `probe: false` in its block says that this is expected. Of a
    namespace that cannot be read, none of the tables is known: nothing that may be in it is reported as missing, and no
    dataset that it may register as an orphan.
    """
    if record.desired is not None and not record.desired.probe:
        return
    if _holds(record, StorageKind.DENIED):
        yield Verdict(
            f"storage does not let {_shown(record)} be read: {record.stored.detail}",
            f"Let whoever runs the audit read it, with credentials in `storage.*` of the catalog `{record.catalog}` or "
            "a grant on the storage.",
        )
    elif _holds(record, StorageKind.UNKNOWN):
        yield Verdict(
            f"{_shown(record)} cannot be opened: {record.stored.detail}",
            "Try again if storage was not available. If the dataset is damaged, restore the newest file below "
            "`_versions` from a copy, or go back to the newest version that opens.",
        )
    elif record.stored.files is not None and record.stored.files.problem is not None:
        yield Verdict(
            f"the files at {_shown(record)} cannot be listed: {record.stored.files.problem}",
            "Let whoever runs the audit list them, or run it with `--depth quick`, which reads the latest version "
            "only.",
            Severity.WARNING,
        )


@rule(Severity.WARNING)
def stale(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """The table has not been written for longer than is expected

    Its last commit is older than its block expects (`expect.max_age_days`), which is a warning, or else than
    `--stale-after` allows (180 days unless you say otherwise), which is a note. Often the job that fed it has stopped,
    or nobody uses it any more and it only costs money.
    """
    committed = record.stored.committed
    if record.live is None or committed is None:
        return
    age = limits.now - committed
    expected = record.expect.max_age_days
    if expected is not None:
        if age > timedelta(days=expected):
            yield Verdict(
                f"its last commit was {age / timedelta(days=1):,.1f} days ago, on {committed:%Y-%m-%d}; its block "
                f"expects one every {count(expected, 'day')}",
                "Find out whether what writes the table still runs, or correct `expect.max_age_days`.",
                Severity.WARNING,
            )
    elif limits.stale_after is not None and age > limits.stale_after:
        yield Verdict(
            f"its last commit was {age // timedelta(days=1):,} days ago, on {committed:%Y-%m-%d}",
            "Find out whether what writes the table still runs. If nobody needs the table any more, "
            f"{_REMOVE_ENTRY}; if it is meant to stay as it is, nothing is to be done.",
            Severity.NOTE,
        )
