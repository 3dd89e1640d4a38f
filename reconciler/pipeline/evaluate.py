"""Evaluating the rules on the executors: a row with all that is known of a table becomes a row with its findings."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reconciler import locations, storage
from reconciler.names import Identifier, address, split
from reconciler.pipeline.catalog_info import CatalogInfo, RootIndex
from reconciler.pipeline.records import Severity, Stored, TableRecord
from reconciler.pipeline.report.document import Finding, ReportedTable
from reconciler.pipeline.report.scales import AGES, SIZES, age_in_days
from reconciler.pipeline.rules import Times, check
from reconciler.pipeline.schemas import INT, LONG, STRING, STRINGS, Row, record_batch, with_columns
from reconciler.state import DesiredTable, ForeignTable, LiveTable, StorageKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["EVALUATED", "Evaluator", "with_places"]

PLACES = pa.schema(
    [
        ("id", STRINGS),
        ("address", STRING),
        ("location", STRING),
        ("scheme", STRING),
        ("place", STRING),
        ("claimed", STRING),
    ]
)
"""Where a table is.

``location`` is that as far as anybody says, and ``claimed`` the same normalised, wherever symbolic links lead;
``scheme`` and ``place`` (like ``claimed``) are null for what is not a live Lance table at a place.
"""

EVALUATED = pa.schema(
    [
        ("catalog", STRING),
        ("namespace", STRINGS),
        ("address", STRING),
        ("owner", STRING),
        ("live", pa.bool_()),
        ("claimed", STRING),
        ("closed", pa.bool_()),
        ("kind", STRING),
        ("rows", LONG),
        ("bytes", LONG),
        ("fragments", LONG),
        ("size_bin", INT),
        ("age_bin", INT),
        ("reported", STRING),
        (
            "found",
            pa.list_(pa.struct([("rule", STRING), ("severity", STRING), ("severity_rank", INT), ("finding", STRING)])),
        ),
    ]
)
"""One table after the rules.

``claimed`` is the normalised place that an entry or a block names, and ``closed`` whether nothing below it is to be
searched. ``size_bin`` and ``age_bin`` are positions in the scales of the report, null where storage did not say.
``reported`` and ``finding`` are the JSON of a ``ReportedTable`` and a ``Finding``.
"""


# ---- where tables are ------------------------------------------------------------------------------------------------


def with_places(entries: DataFrame) -> DataFrame:
    """Return ``entries``, a frame of ``ENTRIES``, with the columns of ``PLACES``."""
    return with_columns(entries, PLACES, _places)


def _places(batch: pa.RecordBatch) -> Iterator[Row]:
    needed = ["catalog", "key", "live_location", "foreign_location", "block"]
    return map(_place, batch.select(needed).to_pylist())


def _place(row: Mapping[str, Any]) -> Row:
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
        "place": storage.place_of(live) if live else None,
        "claimed": storage.place_of(location) if location else None,
    }


def _block(pickled: bytes) -> DesiredTable:
    block: DesiredTable = pickle.loads(pickled)  # noqa: S301 - our own
    return block


# ---- the rules -------------------------------------------------------------------------------------------------------

_SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Applies the rules to rows of tables; called on the executors by ``mapInArrow``.

    Args:
        catalogs: all of them by name.
        times: what ages are measured by.
        rules: the names of those to apply.
        unread: the namespaces of each catalog that could not be read, so that nothing is missing from them.
    """

    catalogs: Mapping[str, CatalogInfo]
    times: Times
    rules: Sequence[str]
    unread: Mapping[str, frozenset[Identifier]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row of ``EVALUATED`` for each row of what is known of a table.

        That is ``catalog``, ``id``, ``location``, ``claimed``, ``stored`` and, where there is a table at all,
        the columns of ``ENTRIES`` and those that ``with_relations`` adds.
        """
        roots = {name: RootIndex(catalog.roots) for name, catalog in self.catalogs.items()}
        for batch in batches:
            records = ((self._record(row, roots[row["catalog"]]), row["claimed"]) for row in batch.to_pylist())
            evaluated = [self._evaluate(record, claimed) for record, claimed in records if not self._is_unread(record)]
            if evaluated:
                yield record_batch(evaluated, EVALUATED)

    def _record(self, row: Mapping[str, Any], roots: RootIndex) -> TableRecord:
        catalog, identifier, location = row["catalog"], tuple(row["id"]), row["location"]
        live, block, form = row.get("live_location"), row.get("block"), row.get("foreign_format")
        own = address(catalog, identifier)
        return TableRecord(
            catalog=catalog,
            id=identifier,
            owner=self.catalogs[catalog].owner,
            location=location,
            root=roots.of(location) if location else None,
            desired=None if block is None else _block(block),
            live=None if live is None else LiveTable(identifier, live, dict(row["properties"] or ())),
            foreign=None if form is None else ForeignTable(identifier, row["foreign_location"], form),
            stored=None if row["stored"] is None else pickle.loads(row["stored"]),  # noqa: S301 - our own
            sharing=tuple(other for other in row.get("sharing") or () if other != own),
            schemes=tuple(row.get("schemes") or ()),
            inside=tuple(row.get("inside") or ()),
            safeguard=self.catalogs[catalog].safeguard,
            shown=None if row.get("shown") is None else pickle.loads(row["shown"]),  # noqa: S301 - our own
        )

    def _is_unread(self, record: TableRecord) -> bool:
        """Return whether the table may be in a namespace that could not be read, so that nothing is known of it."""
        if record.live is not None or record.foreign is not None or record.desired is None:
            return False
        unread = self.unread.get(record.catalog, frozenset())
        return any(record.id[:depth] in unread for depth in range(len(record.id)))

    def _evaluate(self, record: TableRecord, claimed: str | None) -> Row:
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


def _found(finding: Finding) -> Row:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "severity_rank": _SEVERITY_RANK[finding.severity],
        "finding": finding.model_dump_json(),
    }
