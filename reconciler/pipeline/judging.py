"""Judging tables on the executors: from a row of all that is known of one to what the rules find in it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler import locations, ownership
from reconciler.names import Identifier, address, split
from reconciler.pipeline.grounds import Ground, RootIndex
from reconciler.pipeline.records import Finding, Severity, Stored, TableRecord
from reconciler.pipeline.report.scales import AGES, SIZES, age_in_days
from reconciler.pipeline.rules import Times, check
from reconciler.state import DesiredTable, ForeignTable, LiveTable, StorageKind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["ENTRY_COLUMNS", "JUDGED", "Judge", "with_places"]

ENTRY_COLUMNS = (
    "catalog string, key string, live_location string, properties map<string,string>, foreign_location string, "
    "foreign_format string, block binary"
)
"""What catalogs and manifest say of a table; ``key`` is its string identifier, ``block`` the pickled block."""

_PLACES = "id array<string>, address string, location string, scheme string, place string, claimed string"

JUDGED = (
    "catalog string, namespace array<string>, name string, address string, location string, owner string, "
    "live boolean, claimed string, closed boolean, kind string, version bigint, rows bigint, bytes bigint, "
    "fragments bigint, committed timestamp, size_bin int, age_bin int, "
    "found array<struct<rule: string, severity: string, gravity: int, finding: binary>>"
)
"""One table after the rules.

``location`` is redacted. ``claimed`` is the normalised place that an entry or a block names, and ``closed`` whether
nothing below it is to be searched. ``size_bin`` and ``age_bin`` are positions in the scales of the report, null where
storage did not say. ``finding`` is a pickled :class:`Finding`.
"""


# ---- where tables are ------------------------------------------------------------------------------------------------


def with_places(entries: DataFrame) -> DataFrame:
    """Return ``entries`` with the columns of ``_PLACES``.

    ``location`` is where the table is as far as anybody says, and ``claimed`` that place normalised; ``scheme`` and
    ``place`` (normalised) are null for what is not a live Lance table at a place.
    """
    return entries.mapInArrow(_placed, f"{ENTRY_COLUMNS}, {_PLACES}")


def _placed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("id", pa.list_(pa.string())),
            *((name, pa.string()) for name in ("address", "location", "scheme", "place", "claimed")),
        ]
    )
    needed = ("catalog", "key", "live_location", "foreign_location", "block")
    for batch in batches:
        rows = batch.select(list(needed)).to_pylist()
        places = pa.RecordBatch.from_pylist([_place(row) for row in rows], schema=schema)
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *places.columns], names=[*batch.schema.names, *places.schema.names]
        )


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    identifier = split(row["key"])
    live, location = row["live_location"], row["live_location"]
    if live is None:
        location = row["foreign_location"]
        if location is None and row["block"] is not None:
            location = _block(row).location
    return {
        "id": list(identifier),
        "address": address(row["catalog"], identifier),
        "location": location,
        "scheme": locations.scheme(live) if live else None,
        "place": locations.normalise(live) if live else None,
        "claimed": locations.normalise(location) if location else None,
    }


def _block(row: Mapping[str, Any]) -> DesiredTable:
    block: DesiredTable = pickle.loads(row["block"])  # noqa: S301 - our own
    return block


# ---- judging ---------------------------------------------------------------------------------------------------------


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
            records = (self._record(row, roots) for row in batch.to_pylist())
            judged = [self._judged(record, claimed) for record, claimed in records if self._is_known(record)]
            if judged:
                yield pa.RecordBatch.from_pylist(judged, schema=schema)

    def _record(self, row: Mapping[str, Any], roots: Mapping[str, RootIndex]) -> tuple[TableRecord, str | None]:
        catalog, identifier, location = row["catalog"], tuple(row["id"]), row["location"]
        said = row.get
        live, form, place = said("live_location"), said("foreign_format"), said("foreign_location")
        own = address(catalog, identifier)
        record = TableRecord(
            catalog=catalog,
            id=identifier,
            owner=self.grounds[catalog].owner,
            location=location,
            root=roots[catalog].of(location) if location else None,
            desired=_block(row) if said("block") is not None else None,
            live=None if live is None else LiveTable(identifier, live, dict(row["properties"] or ())),
            foreign=None if form is None else ForeignTable(identifier, place, form),
            stored=pickle.loads(row["stored"]) if row["stored"] is not None else None,  # noqa: S301 - our own
            sharing=tuple(other for other in said("sharing") or () if other != own),
            schemes=tuple(said("schemes") or ()),
            inside=tuple(said("inside") or ()),
        )
        return record, row["claimed"]

    def _is_known(self, record: TableRecord) -> bool:
        """Return whether the table cannot be in a namespace that was not read."""
        if record.live is not None or record.foreign is not None or record.desired is None:
            return True
        unread = self.unread.get(record.catalog, frozenset())
        return not any(record.id[:depth] in unread for depth in range(len(record.id)))

    def _judged(self, record: TableRecord, claimed: str | None) -> dict[str, Any]:
        stored = record.stored or Stored(StorageKind.UNKNOWN)
        committed = stored.committed
        return {
            "catalog": record.catalog,
            "namespace": list(record.id[:-1]),
            "name": record.id[-1],
            "address": record.address,
            "location": None if record.location is None else locations.redact(record.location),
            "owner": ownership.owner_of(record.properties),
            "live": record.live is not None,
            "claimed": claimed,
            "closed": record.foreign is not None or stored.kind not in (StorageKind.NOTHING, StorageKind.NOT_LANCE),
            "kind": None if record.stored is None else stored.kind.value,
            "version": stored.version,
            "rows": stored.rows,
            "bytes": stored.bytes,
            "fragments": stored.fragments,
            "committed": committed,
            "size_bin": None if stored.bytes is None else SIZES.bin_of(stored.bytes),
            "age_bin": None if committed is None else AGES.bin_of(age_in_days(committed, self.times.now)),
            "found": [_found(finding) for finding in check(record, self.times, self.rules)],
        }


_GRAVITY = {severity: gravity for gravity, severity in enumerate(Severity)}


def _found(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "gravity": _GRAVITY[finding.severity],
        "finding": pickle.dumps(finding),
    }


def _judged_schema() -> pa.Schema:
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    found = pa.struct([("rule", text), ("severity", text), ("gravity", pa.int32()), ("finding", pa.binary())])
    return pa.schema(
        [
            ("catalog", text),
            ("namespace", pa.list_(text)),
            *((name, text) for name in ("name", "address", "location", "owner")),
            ("live", pa.bool_()),
            ("claimed", text),
            ("closed", pa.bool_()),
            ("kind", text),
            *((name, number) for name in ("version", "rows", "bytes", "fragments")),
            ("committed", pa.timestamp("us", tz="UTC")),
            ("size_bin", pa.int32()),
            ("age_bin", pa.int32()),
            ("found", pa.list_(found)),
        ]
    )
