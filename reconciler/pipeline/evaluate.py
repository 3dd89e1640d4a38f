"""Judging tables on the executors: from a row of all that is known of one to what the rules find in it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler import locations
from reconciler.names import Identifier, address, split
from reconciler.pipeline.catalog_info import Ground, RootIndex
from reconciler.pipeline.entries import ENTRY_COLUMNS
from reconciler.pipeline.records import Finding, Severity, Stored, TableRecord
from reconciler.pipeline.report.document import ReportedFinding, ReportedTable
from reconciler.pipeline.report.scales import AGES, SIZES, age_in_days
from reconciler.pipeline.rules import Times, check
from reconciler.state import DesiredTable, ForeignTable, LiveTable, StorageKind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["JUDGED", "Judge", "with_places"]

_PLACES = "id array<string>, address string, location string, scheme string, place string, claimed string"

JUDGED = (
    "catalog string, namespace array<string>, address string, owner string, live boolean, claimed string, "
    "closed boolean, kind string, rows bigint, bytes bigint, fragments bigint, size_bin int, age_bin int, "
    "reported string, found array<struct<rule: string, severity: string, gravity: int, finding: string>>"
)
"""One table after the rules.

``claimed`` is the normalised place that an entry or a block names, and ``closed`` whether nothing below it is to be
searched. ``size_bin`` and ``age_bin`` are positions in the scales of the report, null where storage did not say.
``reported`` and ``finding`` are the JSON of a ``ReportedTable`` and a ``ReportedFinding``.
"""


# ---- where tables are ------------------------------------------------------------------------------------------------


def with_places(entries: DataFrame) -> DataFrame:
    """Return ``entries``, a frame of ``ENTRY_COLUMNS``, with the columns of ``_PLACES``.

    ``location`` is where the table is as far as anybody says, and ``claimed`` that place normalised; ``scheme`` and
    ``place`` (normalised) are null for what is not a live Lance table at a place.
    """
    return entries.mapInArrow(_placed, f"{ENTRY_COLUMNS}, {_PLACES}")


def _placed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    texts = ("address", "location", "scheme", "place", "claimed")
    schema = pa.schema([("id", pa.list_(pa.string())), *((name, pa.string()) for name in texts)])
    needed = ["catalog", "key", "live_location", "foreign_location", "block"]
    for batch in batches:
        places = pa.RecordBatch.from_pylist([_place(row) for row in batch.select(needed).to_pylist()], schema=schema)
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *places.columns], names=[*batch.schema.names, *places.schema.names]
        )


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    identifier = split(row["key"])
    live, location = row["live_location"], row["live_location"]
    if live is None:
        location = row["foreign_location"]
        if location is None and row["block"] is not None:
            location = _block(row["block"]).location
    return {
        "id": list(identifier),
        "address": address(row["catalog"], identifier),
        "location": location,
        "scheme": locations.scheme(live) if live else None,
        "place": locations.normalise(live) if live else None,
        "claimed": locations.normalise(location) if location else None,
    }


def _block(pickled: bytes) -> DesiredTable:
    block: DesiredTable = pickle.loads(pickled)  # noqa: S301 - our own
    return block


# ---- judging ---------------------------------------------------------------------------------------------------------

_GRAVITY = {severity: gravity for gravity, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Judge:
    """Applies the rules to rows of tables; called on the executors by ``mapInArrow``.

    Args:
        grounds: the catalogs by name.
        times: what ages are measured by.
        rules: the names of those to apply.
        unread: the namespaces of each catalog that could not be read, so that nothing is missing from them.
    """

    grounds: Mapping[str, Ground]
    times: Times
    rules: Sequence[str]
    unread: Mapping[str, frozenset[Identifier]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row of ``JUDGED`` for each row of what is known of a table.

        That is ``catalog``, ``id``, ``location``, ``claimed``, ``stored`` and, where there is a table at all,
        the columns of ``ENTRY_COLUMNS`` and those that ``with_relations`` adds.
        """
        import pyarrow as pa

        schema = _judged_schema()
        roots = {name: RootIndex(ground.roots) for name, ground in self.grounds.items()}
        for batch in batches:
            records = ((self._record(row, roots[row["catalog"]]), row["claimed"]) for row in batch.to_pylist())
            judged = [self._judged(record, claimed) for record, claimed in records if not self._is_unread(record)]
            if judged:
                yield pa.RecordBatch.from_pylist(judged, schema=schema)

    def _record(self, row: Mapping[str, Any], roots: RootIndex) -> TableRecord:
        catalog, identifier, location = row["catalog"], tuple(row["id"]), row["location"]
        live, block, form = row.get("live_location"), row.get("block"), row.get("foreign_format")
        own = address(catalog, identifier)
        return TableRecord(
            catalog=catalog,
            id=identifier,
            owner=self.grounds[catalog].owner,
            location=location,
            root=roots.of(location) if location else None,
            desired=None if block is None else _block(block),
            live=None if live is None else LiveTable(identifier, live, dict(row["properties"] or ())),
            foreign=None if form is None else ForeignTable(identifier, row["foreign_location"], form),
            stored=None if row["stored"] is None else pickle.loads(row["stored"]),  # noqa: S301 - our own
            sharing=tuple(other for other in row.get("sharing") or () if other != own),
            schemes=tuple(row.get("schemes") or ()),
            inside=tuple(row.get("inside") or ()),
            safeguard=self.grounds[catalog].safeguard,
        )

    def _is_unread(self, record: TableRecord) -> bool:
        """Return whether the table may be in a namespace that could not be read, so that nothing is known of it."""
        if record.live is not None or record.foreign is not None or record.desired is None:
            return False
        unread = self.unread.get(record.catalog, frozenset())
        return any(record.id[:depth] in unread for depth in range(len(record.id)))

    def _judged(self, record: TableRecord, claimed: str | None) -> dict[str, Any]:
        stored = record.stored or Stored(StorageKind.UNKNOWN)
        found = list(check(record, self.times, self.rules))
        return {
            "catalog": record.catalog,
            "namespace": list(record.id[:-1]),
            "address": record.address,
            "owner": record.manager,
            "live": record.live is not None,
            "claimed": claimed,
            "closed": record.foreign is not None or stored.kind not in (StorageKind.NOTHING, StorageKind.NOT_LANCE),
            "kind": stored.kind.value,
            "rows": stored.rows,
            "bytes": stored.bytes,
            "fragments": stored.fragments,
            "size_bin": None if stored.bytes is None else SIZES.bin_of(stored.bytes),
            "age_bin": None if stored.committed is None else AGES.bin_of(age_in_days(stored.committed, self.times.now)),
            "reported": ReportedTable.of(record, [finding.rule for finding in found]).model_dump_json(),
            "found": list(map(_found, found)),
        }


def _found(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "gravity": _GRAVITY[finding.severity],
        "finding": ReportedFinding.of(finding).model_dump_json(),
    }


def _judged_schema() -> pa.Schema:
    import pyarrow as pa

    text, number, small, flag = pa.string(), pa.int64(), pa.int32(), pa.bool_()
    found = pa.struct([("rule", text), ("severity", text), ("gravity", small), ("finding", text)])
    return pa.schema(
        [
            ("catalog", text),
            ("namespace", pa.list_(text)),
            ("address", text),
            ("owner", text),
            ("live", flag),
            ("claimed", text),
            ("closed", flag),
            ("kind", text),
            ("rows", number),
            ("bytes", number),
            ("fragments", number),
            ("size_bin", small),
            ("age_bin", small),
            ("reported", text),
            ("found", pa.list_(found)),
        ]
    )
