"""Query the evaluated tables for the totals, findings and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reconciler.auditor.document import Distribution, Finding, ReportedTable
from reconciler.auditor.evaluate import ABOUT, EVALUATED, UNKNOWNS, VERDICT, finding_of, table_of
from reconciler.auditor.records import Severity
from reconciler.auditor.scales import AGES, SIZES
from reconciler.model.live import StorageKind
from reconciler.model.names import Identifier, join, split
from reconciler.pipeline.schemas import STRING, Row, record_batch

if TYPE_CHECKING:
    from reconciler.pipeline.frames import Frame


AMOUNTS_OF_FILES = ("bytes_on_disk", "reclaimable")
"""The amounts that need a listing of files."""

_UNREADABLE = (StorageKind.DENIED.value, StorageKind.UNKNOWN.value)
_AMOUNTS = ("rows", "bytes", "fragments", *UNKNOWNS, *AMOUNTS_OF_FILES)

FINDINGS = pa.schema([*ABOUT, ("namespace_key", STRING), EVALUATED.field("source"), *VERDICT])
"""The schema of a finding with the columns of its table; ``namespace_key`` is the namespace as text."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of the live tables.

    Args:
        amounts: the sums of rows, bytes, fragments and more.
        tables: the number of tables in each catalog.
        unreadable: the number of tables in each catalog that could not be opened.
        carried: the number of tables in each catalog whose probe result is that of an earlier audit.
        carried_since: the start of the earliest of these audits.
        sizes: the distribution of their sizes.
        ages: the distribution of the ages of their last commits.
    """

    amounts: Mapping[str, int]
    tables: Counter[str]
    unreadable: Counter[str]
    carried: Counter[str]
    carried_since: datetime | None
    sizes: Distribution
    ages: Distribution


def figures_of(evaluated: Frame) -> Figures:
    """Return the figures of the live tables in ``evaluated``."""
    live = evaluated.where("live", True)
    sums = live.aggregated(
        ("catalog", "kind", "size_bin", "age_bin", "carried_from"), {"name": "count", **dict.fromkeys(_AMOUNTS, "sum")}
    )
    groups = sums.rows()
    carried = [group for group in groups if group["carried_from"] is not None]
    return Figures(
        amounts={name: sum(group[name] or 0 for group in groups) for name in _AMOUNTS},
        tables=_table_numbers(groups, "catalog"),
        unreadable=_table_numbers((group for group in groups if group["kind"] in _UNREADABLE), "catalog"),
        carried=_table_numbers(carried, "catalog"),
        carried_since=min((group["carried_from"] for group in carried), default=None),
        sizes=Distribution.of(SIZES, _table_numbers(groups, "size_bin")),
        ages=Distribution.of(AGES, _table_numbers(groups, "age_bin")),
    )


def _table_numbers(groups: Iterable[Row], key: str) -> Counter[Any]:
    """Return the number of tables for each value of the column ``key``."""
    sums: Counter[Any] = Counter()
    for group in groups:
        sums[group[key]] += group["name"]
    return sums


def each_finding(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield a row of ``FINDINGS`` for each finding of ``EVALUATED``."""
    for batch in batches:
        rows = (
            {**row, **finding, "namespace_key": join(row["namespace"])}
            for row in batch.to_pylist()
            for finding in row["findings"]
        )
        yield record_batch(rows, FINDINGS)


def tallies_of(findings: Frame) -> Counter[tuple[str, Severity, str, Identifier, str | None]]:
    """Return the number of findings by ``FindingCounts.group_of``."""
    groups = findings.aggregated(("rule", "severity", "catalog", "namespace_key", "owner"), {"name": "count"})
    tallies = Counter[tuple[str, Severity, str, Identifier, str | None]]()
    for row in groups.rows():
        group = row["rule"], Severity(row["severity"]), row["catalog"], split(row["namespace_key"]), row["owner"]
        tallies[group] = row["name"]
    return tallies


def suppressed_of(evaluated: Frame) -> Counter[int]:
    """Return the number of suppressed findings by the position of their suppression."""
    numbers: Counter[int] = Counter()
    for row in evaluated.aggregated(("suppressed",), {"name": "count"}).rows():
        for position in row["suppressed"].split():
            numbers[int(position)] += row["name"]
    return numbers


def excluding_in(evaluated: Frame) -> set[int]:
    """Return the positions of the globs that exclude something."""
    groups = evaluated.aggregated(("excluded",), {"name": "count"}).rows()
    return {int(position) for row in groups for position in row["excluded"].split()}


def findings_of(findings: Frame, most: int) -> list[Finding]:
    """Return the ``most`` most severe findings."""
    return list(map(finding_of, findings.first(most, "severity_rank", "rule", "address", "reason").rows()))


def tables_of(evaluated: Frame, most: int) -> list[ReportedTable]:
    """Return at most ``most`` live tables in the order of their addresses.

    Those with findings are preferred.
    """
    first = evaluated.where("live", True).first(most, "sound", "address")
    return sorted(map(table_of, first.rows()), key=lambda table: table.address)
