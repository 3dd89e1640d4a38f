"""Rules about entries: type, existence, management and columns."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.auditor.records import Severity, TableRecord
from reconciler.auditor.rules.rule import RuleLimits, Verdict, first_few, rule
from reconciler.model import locations, ownership
from reconciler.model.live import StorageKind


@rule(Severity.ERROR)
def wrong_table_type(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The entry is not that of an external Lance table

    A drop or a clean-up deletes the data of an entry that is marked as a Lance table and is managed, lacks the property
    that protects its files (`gc.enabled=false` in an Iceberg catalog), or has one that lets a drop delete them
    (`external.table.purge=true` in Hive). Engines read the files of an entry without the mark as another format, and no
    Lance tool finds the table.
    """
    guard = record.safeguard
    missing = guard.missing(record.properties) if record.live is not None and guard is not None else {}
    if missing and guard is not None:
        lacking = ", ".join(f"`{key}={value}`" for key, value in missing.items())
        set_them = ", ".join(f"'{key}'='{value}'" for key, value in missing.items())
        yield Verdict(
            f"the entry lacks {lacking}: {guard.danger}",
            "`lancens apply` sets it where the manifest manages the table. Otherwise set it in an engine with "
            f"`ALTER TABLE … SET TBLPROPERTIES ({set_them})`. Do not drop the table or clean up before that.",
        )
        return
    if record.foreign is None:
        return
    if record.foreign.is_marked and not record.foreign.location:
        yield Verdict(
            "the entry is marked as a Lance table, and names no location",
            "Write the location of the dataset into the entry, or remove the entry if it has no data.",
        )
    elif record.foreign.is_marked:
        yield Verdict(
            f"the entry is marked as a Lance table and its type is wrong: {record.foreign.format}",
            "Make it an external table: in Hive with `ALTER TABLE … SET TBLPROPERTIES ('EXTERNAL'='TRUE')`, in Glue "
            "with `EXTERNAL_TABLE` as its `TableType`. Do not drop it before that: dropping a managed table deletes "
            "its data.",
        )
    elif record.stored.kind is StorageKind.DATASET:
        yield Verdict(
            f"the catalog says `{record.foreign.format}`, and {locations.redact(record.location or '')} holds a Lance "
            "dataset",
            "Drop the entry without its data (in Hive, make it external first), and register the dataset: a block with "
            "this `location` in a manifest, then `lancens apply`.",
            Severity.WARNING,
        )


@rule(Severity.WARNING, needs_manifest=True)
def missing(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table is in the manifest and not in the catalog

    It was removed from the catalog, or the manifest was never applied. `lancens apply` creates it; data at its location
    is registered as it is.
    """
    if record.desired is None or record.desired.absent or record.live is not None:
        return
    if record.foreign is None:
        yield Verdict(
            "it is in the manifest and not in the catalog", "`lancens plan` shows the change that creates it."
        )
    elif record.stored.kind is not StorageKind.DATASET:
        yield Verdict(
            f"it is in the manifest, and in the catalog the name belongs to a table of another format: "
            f"{record.foreign.format}",
            "Rename one of the two, or remove the block from the manifest.",
        )


@rule(Severity.WARNING, needs_manifest=True)
def still_there(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The manifest says that the table is absent, and it is in the catalog

    Its removal was reviewed and not carried out: the manifest was never applied, the removal failed, or the table was
    registered again later.
    """
    if record.desired is not None and record.desired.absent and (record.live is not None or record.foreign is not None):
        yield Verdict(
            "the manifest says `absent: true`, and the table is in the catalog",
            "`lancens apply` removes the entry and keeps the data. If the table is needed again, remove "
            "`absent: true` from the manifest.",
        )


@rule(Severity.NOTE, needs_manifest=True)
def unmanaged(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table is in the catalog, and no manifest manages it

    Its changes are not reviewed, and nothing restores it. A table with another manifest's mark is managed, and so is
    one that this manifest names, marked or not.
    """
    if record.live is None or record.desired is not None or ownership.owner_of(record.properties) is not None:
        return
    yield Verdict(
        "it is in the catalog, and no manifest manages it",
        f"`lancens import --select '{record.address}'` writes its block; put that into the manifest. Leave the table "
        "alone if others manage it.",
    )


@rule(Severity.WARNING)
def stale_columns(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The entry has other columns than the data

    Queries use the columns of the data, but the catalog misleads its users: a column is missing there, has another
    type, or is not in the data any more. Writers change datasets, and catalogs do not follow by themselves. An entry
    without any columns is no finding.
    """
    columns = record.entry_columns
    if isinstance(columns, str):
        yield Verdict(
            f"the columns of its entry could not be read: {columns}",
            "Run the audit again if the catalog was not available; otherwise give its user the right to read the "
            "entry.",
        )
    elif columns is not None:
        yield Verdict(
            f"its entry has other columns than its data: {first_few([*columns.texts()])}",
            "`lancens apply` updates them where the manifest manages the table and its block gives a `schema`. Where "
            "the catalog cannot change them (Unity), create the entry again.",
        )
