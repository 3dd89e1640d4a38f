"""Turn rows of entries into rows with findings: probe, then apply the rules.

Probe results and the columns of entries stay in the process that reads them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from reconciler.auditor.catalog_info import CatalogInfo, RootIndex
from reconciler.auditor.document import Finding, ReportedTable
from reconciler.auditor.probe_cache import ProbeCache
from reconciler.auditor.records import LocationContent, Severity, TableRecord
from reconciler.auditor.rules import RuleLimits, check
from reconciler.auditor.rules.drift import property_drift, tags_to_read
from reconciler.auditor.rules.entries import stale_columns
from reconciler.auditor.scales import AGES, SIZES, age_in_days
from reconciler.auditor.storage_probe import ColumnMismatch, TableProber
from reconciler.auditor.suppressions import Suppressions
from reconciler.model import locations, ownership
from reconciler.model.desired import NOTHING_EXPECTED, CloneAt, DesiredMirror, DesiredTable
from reconciler.model.live import ForeignTable, LiveTable, StorageKind
from reconciler.model.names import Identifier, address, split
from reconciler.model.ownership import owner_of
from reconciler.pipeline.rows import live_table
from reconciler.pipeline.schemas import INT, LONG, MOMENT, STRING, STRING_MAP, STRINGS, Row, record_batch
from reconciler.storage import Depth

ABOUT = (
    ("catalog", STRING),
    ("namespace", STRINGS),
    *((name, STRING) for name in ("name", "address", "location", "owner", "manager")),
    ("carried_from", MOMENT),
)
"""The columns that identify a table, its location and its owner, and the time of an earlier audit's probe result."""

_LATEST = ("rows", "bytes", "fragments", "small_fragments", "version")
AMOUNTS = (*_LATEST, "versions", "bytes_on_disk", "reclaimable")
"""The figures of a table in storage: of its latest version, and of all its files."""

UNKNOWNS = ("rows_unknown", "bytes_unknown")
"""1 for a dataset without that figure, else 0."""

VERDICT = pa.schema(
    [
        ("rule", STRING),
        ("severity", STRING),
        ("severity_rank", INT),
        ("reason", STRING),
        ("remedy", STRING),
        ("details", STRING_MAP),
    ]
)
"""The schema of a finding, without the columns of its table."""

EVALUATED = pa.schema(
    [
        *ABOUT,
        ("source", pa.struct([("file", STRING), ("line", LONG)])),
        ("live", pa.bool_()),
        ("data_place", STRING),
        ("closed", pa.bool_()),
        ("bases", STRINGS),
        ("kind", STRING),
        ("committed", MOMENT),
        *((name, LONG) for name in (*AMOUNTS, *UNKNOWNS)),
        ("size_bin", INT),
        ("age_bin", INT),
        ("sound", pa.bool_()),
        ("suppressed", STRING),
        ("excluded", STRING),
        ("findings", pa.list_(pa.struct(list(VERDICT)))),
    ]
)
"""The schema of a table with its findings, without secrets.

- ``data_place`` is the place of the entry's data or the block's. If ``closed``, nothing below is searched for orphans.
- ``bases`` are the places of other datasets whose files it needs.
- ``kind`` is null for a table that may be unreadable (``probe: false``). Unknown figures are null.
- ``size_bin`` and ``age_bin`` are positions in the scales of the report.
- A ``sound`` table has no findings but suppressed ones. Those are not among its ``findings``; ``suppressed`` lists the
  positions of their suppressions, separated by spaces.
- ``excluded`` lists the positions of the globs that exclude the table, separated by spaces.
"""

CLAIMS = pa.schema([EVALUATED.field("data_place"), EVALUATED.field("closed")])
"""The schema of a place that belongs to a table, or to a base of it, and so holds no orphan."""


def base_claims(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield ``CLAIMS`` for the bases in rows of ``EVALUATED``."""
    for batch in batches:
        bases = {base for row_bases in batch["bases"].to_pylist() for base in row_bases or ()}
        yield record_batch(({"data_place": base, "closed": True} for base in bases), CLAIMS)


# ---- the rules -------------------------------------------------------------------------------------------------------

_SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Probe tables and apply the rules to them, in any process.

    Args:
        catalogs: the catalogs by name.
        limits: the limits of the rules.
        rules: the names of the rules to apply.
        unread: the namespaces of each catalog that could not be read; no table is missing from them.
        teams: the owners of the namespaces of each catalog.
        depth: how much of each dataset is read.
        suppressions: those of the manifest.
        cache: the probe results of earlier audits, if a history is kept.
    """

    catalogs: Mapping[str, CatalogInfo]
    limits: RuleLimits
    rules: Sequence[str]
    unread: Mapping[str, frozenset[Identifier]]
    teams: Mapping[str, Mapping[Identifier, str]]
    depth: Depth
    suppressions: Suppressions
    cache: ProbeCache | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row of ``EVALUATED`` for each table or unregistered dataset.

        A table has the columns of ``ENTRIES`` and those that ``with_relations`` adds; an unregistered dataset has
        ``catalog``, ``id``, ``location`` and ``data_place``.
        """
        roots = {name: RootIndex(catalog.roots) for name, catalog in self.catalogs.items()}
        mirrors = {name: self._mirrors(name) for name in self.catalogs}
        with ExitStack() as stack:
            prober = TableProber(self.catalogs, stack, self.cache, explained=self.limits.reclaimable_bytes)
            for batch in batches:
                all_rows = batch.to_pylist()
                rows = [row for row in all_rows if not self._is_left_out(row)]
                stored = prober.probe(rows, self.depth)
                columns = (
                    prober.column_mismatches(rows, stored) if stale_columns.name in self.rules else [None] * len(rows)
                )
                records = [
                    self._record(row, content, mismatch, roots[row["catalog"]], mirrors[row["catalog"]])
                    for row, content, mismatch in zip(rows, stored, columns, strict=True)
                ]
                if property_drift.name in self.rules:
                    tags = prober.tags(rows, [*map(tags_to_read, records)])
                    records = [replace(record, tags=targets) for record, targets in zip(records, tags, strict=True)]
                left_out = map(self._left_out_row, filter(self._is_left_out, all_rows))
                yield record_batch(chain(map(self._evaluate, records), left_out), EVALUATED)

    def _record(
        self, row: Row, stored: LocationContent, columns: ColumnMismatch, roots: RootIndex, mirrors: frozenset[str]
    ) -> TableRecord:
        """Return the record of a row's table with what was probed.

        ``mirrors`` are the catalogs that follow its own.
        """
        catalog, identifier, location = row["catalog"], _identifier(row), row["location"]
        live, form = row.get("live"), row.get("foreign_format")
        own_address, pickled, mirror = address(catalog, identifier), row.get("block"), self.catalogs[catalog].mirror
        desired: DesiredTable | None = None if pickled is None else pickle.loads(pickled)  # noqa: S301 - our own
        table = None if live is None else live_table(identifier, live)
        block = desired or (mirror.default_of(identifier) if mirror is not None else None)
        if desired is None and table is not None and owner_of(table.properties) is None:
            policy = self.catalogs[catalog].policies.of(identifier)
            block = policy.block if policy is not None else block
        sharing = (
            other
            for other in row.get("sharing") or ()
            if other != own_address and other.partition("/")[0] not in mirrors
        )
        return TableRecord(
            catalog=catalog,
            id=identifier,
            owner=self.catalogs[catalog].owner,
            location=location,
            root=roots.of(location) if location else None,
            place=row["data_place"],
            desired=desired,
            live=table,
            foreign=None if form is None else ForeignTable(identifier, row["foreign_location"], form),
            stored=stored,
            sharing=tuple(sorted(sharing, key=lambda other: other.partition("/")[0] != catalog)),  # its own first
            schemes=tuple(row.get("schemes") or ()),
            inside=tuple(row.get("inside") or ()),
            safeguard=self.catalogs[catalog].safeguard,
            entry_columns=columns,
            clone_at=_clone_at(desired, mirror, table),
            lists_tags=self.catalogs[catalog].lists_tags,
            team=self._team(catalog, identifier),
            expect=block.expect if block is not None else NOTHING_EXPECTED,
        )

    def _mirrors(self, catalog: str) -> frozenset[str]:
        """Return the catalogs that mirror ``catalog``, or a mirror of it."""
        direct = {
            info.name for info in self.catalogs.values() if info.mirror is not None and info.mirror.origin == catalog
        }
        return frozenset(direct).union(*map(self._mirrors, direct))

    def _team(self, catalog: str, identifier: Identifier) -> str | None:
        """Return the owner of the innermost namespace around a table that names one."""
        teams = self.teams.get(catalog, {})
        around = (identifier[:depth] for depth in range(len(identifier) - 1, 0, -1))
        return next((teams[namespace] for namespace in around if namespace in teams), None)

    def _is_left_out(self, row: Row) -> bool:
        """Return whether a row is not to be checked, or cannot be."""
        return not self.catalogs[row["catalog"]].selection.contains(_identifier(row)) or self._is_unread(row)

    def _left_out_row(self, row: Row) -> Row:
        """Return a row of ``EVALUATED`` for a block in an unread namespace, or for what is excluded.

        It has no finding, and its dataset is no orphan.
        """
        known = {name: row.get(name) for name in ("catalog", "address", "data_place")}
        exclusions, identifier = self.catalogs[row["catalog"]].exclusions, _identifier(row)
        excluded = (str(position) for position, scope in enumerate(exclusions) if scope.contains(identifier))
        fixed = {"live": False, "closed": True, "sound": True, "suppressed": "", "findings": []}
        return {**known, **fixed, "excluded": " ".join(excluded)}

    def _is_unread(self, row: Row) -> bool:
        """Return whether a block's table is in a namespace that was not read.

        Nobody knows then whether it has an entry.
        """
        if row.get("live") is not None or row.get("foreign_format") is not None or row.get("block") is None:
            return False
        unread, identifier = self.unread.get(row["catalog"], frozenset()), _identifier(row)
        return any(identifier[:depth] in unread for depth in range(len(identifier)))

    def _evaluate(self, record: TableRecord) -> Row:
        """Apply the rules to a table, and return its row of ``EVALUATED``."""
        stored = record.stored
        files = stored.files if stored.files is not None and stored.files.problem is None else None
        checked = [(finding, self.suppressions.covering(finding)) for finding in check(record, self.limits, self.rules)]
        age = None if stored.committed is None else age_in_days(stored.committed, self.limits.now)
        source = record.desired.source if record.desired is not None else None
        return {
            "catalog": record.catalog,
            "namespace": list(record.id[:-1]),
            "name": record.id[-1],
            "address": record.address,
            "location": locations.redact(record.location),
            "owner": record.responsible,
            "manager": record.manager,
            "carried_from": stored.carried_from,
            "source": None if source is None else {"file": source.file, "line": source.line},
            "live": record.live is not None,
            "data_place": record.place,
            "closed": record.foreign is not None or stored.kind not in (StorageKind.NOTHING, StorageKind.NOT_LANCE),
            "bases": stored.bases,
            "kind": None if record.desired is not None and not record.desired.probe else stored.kind.value,
            "committed": stored.committed,
            **{name: getattr(stored, name) for name in _LATEST},
            "rows_unknown": int(stored.kind is StorageKind.DATASET and stored.rows is None),
            "bytes_unknown": int(stored.kind is StorageKind.DATASET and stored.bytes is None),
            "versions": None if files is None else files.versions,
            "bytes_on_disk": None if files is None else files.bytes,
            "reclaimable": None if files is None else files.reclaimable,
            "size_bin": None if stored.bytes is None else SIZES.bin_of(stored.bytes),
            "age_bin": None if age is None else AGES.bin_of(age),
            "sound": all(position is not None for _, position in checked),
            "suppressed": " ".join(str(position) for _, position in checked if position is not None),
            "excluded": "",
            "findings": [_verdict(finding) for finding, position in checked if position is None],
        }


def _clone_at(desired: DesiredTable | None, mirror: DesiredMirror | None, live: LiveTable | None) -> CloneAt | None:
    """Return the version that the manifest asks for of a clone; None for other entries, and clones of other tables."""
    mark = ownership.clone_of(live.properties) if live is not None else None
    if mark is None:
        return None
    if desired is not None and desired.clones is not None:
        origin, at = desired.clones.origin, desired.clones.at
        return at if ownership.origin_of_clone(mark) == address(origin.catalog, origin.identifier) else None
    return mirror.clones if mirror is not None and ownership.is_cloned_from(mark, mirror.origin) else None


def _identifier(row: Row) -> Identifier:
    return tuple(row["id"]) if "id" in row else split(row["key"])


def _verdict(finding: Finding) -> Row:
    verdict = finding.model_dump(mode="json", include={"rule", "severity", "reason", "remedy", "details"})
    return {**verdict, "severity_rank": _SEVERITY_RANK[finding.severity]}


# ---- the rows in the document ----------------------------------------------------------------------------------------


def finding_of(row: Mapping[str, Any]) -> Finding:
    """Return the finding of a row of ``FINDINGS``."""
    return Finding.model_validate({**row, "details": dict(row["details"] or ())})


def table_of(row: Mapping[str, Any]) -> ReportedTable:
    """Return the table of a row of ``EVALUATED``."""
    return ReportedTable.model_validate({**row, "rules": [finding["rule"] for finding in row["findings"]]})
