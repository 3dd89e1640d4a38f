"""Rules about entries: wrong-table-type, missing, unmanaged, stale-columns."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.auditor.records import Severity, TableRecord
from reconciler.auditor.rules.rule import RuleLimits, Verdict, few, rule
from reconciler.model import locations, ownership
from reconciler.model.live import StorageKind


@rule(Severity.ERROR)
def wrong_table_type(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The catalog has the table as something else than an external Lance table

    Marked as a Lance table but managed, without the property that keeps the catalog's own clean-up away from its files
    (`gc.enabled=false` in an Iceberg catalog), or with one that lets a drop delete them (`external.table.purge=true` in
    Hive): dropping it, or cleaning up, deletes the data. Not marked as a Lance table at all: engines read its files as
    another format, and no Lance tool finds it.
    """
    guard = record.safeguard
    missing = guard.missing(record.properties) if record.live is not None and guard is not None else {}
    if missing and guard is not None:
        lacking = ", ".join(f"`{key}={value}`" for key, value in missing.items())
        set_them = ", ".join(f"'{key}'='{value}'" for key, value in missing.items())
        yield Verdict(
            f"the entry lacks {lacking}: {guard.danger}",
            "`lancens apply` sets it where the manifest manages the table. Otherwise an engine does, with "
            f"`ALTER TABLE … SET TBLPROPERTIES ({set_them})`; until then nobody should drop the table or clean up.",
        )
        return
    if record.foreign is None:
        return
    if record.foreign.is_marked:
        yield Verdict(
            f"the entry is marked as a Lance table and its type is wrong: {record.foreign.format}",
            "Make it an external table: in Hive with `ALTER TABLE … SET TBLPROPERTIES ('EXTERNAL'='TRUE')`, in Glue "
            "with `EXTERNAL_TABLE` as its `TableType`. Until then nobody should drop it: what drops a managed table "
            "deletes its data.",
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

    Somebody took it out of the catalog, or the manifest was never applied. `lancens apply` makes it; data that is at
    its location is registered as it is.
    """
    if record.desired is None or record.desired.absent or record.live is not None:
        return
    if record.foreign is None:
        yield Verdict("it is in the manifest and not in the catalog", "`lancens plan` shows what would make it.")
    elif record.stored.kind is not StorageKind.DATASET:
        yield Verdict(
            f"it is in the manifest, and in the catalog the name belongs to a table of another kind: "
            f"{record.foreign.format}",
            "Rename one of the two, or take the block out of the manifest.",
        )


@rule(Severity.WARNING, needs_manifest=True)
def still_there(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The manifest says that the table is absent, and it is in the catalog

    Its removal was reviewed and is not carried out: the manifest was never applied, the removal failed, or somebody has
    entered the table again since.
    """
    if record.desired is not None and record.desired.absent and (record.live is not None or record.foreign is not None):
        yield Verdict(
            "the manifest says `absent: true`, and the table is in the catalog",
            "`lancens apply` takes the entry out and leaves the data alone. If somebody has entered it again and needs "
            "it, take `absent: true` out of the manifest.",
        )


@rule(Severity.NOTE, needs_manifest=True)
def unmanaged(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table is in the catalog, and no manifest manages it

    Nobody reviews what happens to it, and nothing restores it. A table with another manifest's mark is managed; one
    that this manifest names is too, marked or not.
    """
    if record.live is None or record.desired is not None or ownership.owner_of(record.properties) is not None:
        return
    yield Verdict(
        "it is in the catalog, and no manifest manages it",
        f"`lancens import --catalog {record.catalog}` writes its block; put that into the manifest. Leave it as it is "
        "if others look after it.",
    )


@rule(Severity.WARNING)
def stale_columns(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The entry shows other columns than the data has

    Queries go by the data, and whoever looks into the catalog is misled: a column is missing there, is shown with
    another type, or is not in the data any more. Writers change datasets, and catalogs do not follow by themselves. An
    entry that shows no columns at all is no finding.
    """
    shown = record.shown
    if isinstance(shown, str):
        yield Verdict(
            f"the columns that its entry shows could not be read: {shown}",
            "Run the audit again if the catalog was not available; otherwise let whoever runs it read the entry.",
        )
    elif shown is not None:
        yield Verdict(
            f"its entry shows other columns than its data has: {few([*shown.texts()])}",
            "`lancens apply` renews them where the manifest manages the table and its block gives a `schema`. Where "
            "the catalog cannot change them (Unity), an entry made anew shows the data's.",
        )
