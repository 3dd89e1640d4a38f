"""Query the evaluated tables for the totals, findings and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.auditor.document import Distribution, Finding, ReportedTable
from reconciler.auditor.evaluate import ABOUT, finding_of, table_of
from reconciler.auditor.records import Severity
from reconciler.auditor.scales import AGES, SIZES
from reconciler.model.live import StorageKind
from reconciler.model.names import Identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


AMOUNTS_OF_FILES = ("bytes_on_disk", "reclaimable")
"""The amounts that need a listing of files."""

_ABOUT = (*(name for name, _ in ABOUT), "source")
_UNREADABLE = (StorageKind.DENIED.value, StorageKind.UNKNOWN.value)
_AMOUNTS = ("rows", "bytes", "fragments", *AMOUNTS_OF_FILES)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of the live tables.

    Args:
        amounts: the sums of rows, bytes, fragments and more.
        tables: the number of tables in each catalog.
        unreadable: the number of tables in each catalog that could not be opened.
        sizes: the distribution of their sizes.
        ages: the distribution of the ages of their last commits.
    """

    amounts: Mapping[str, int]
    tables: Counter[str]
    unreadable: Counter[str]
    sizes: Distribution
    ages: Distribution


def figures_of(evaluated: DataFrame) -> Figures:
    """Return the figures of the live tables in ``evaluated``."""
    from pyspark.sql import functions as f

    counted = evaluated.filter("live").groupBy("catalog", "size_bin", "age_bin")
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(f"sum_of_{name}") for name in _AMOUNTS]
    unreadable = f.count_if(f.col("kind").isin(*_UNREADABLE)).alias("unreadable")
    groups = counted.agg(f.count("*").alias("tables"), unreadable, *sums).collect()
    return Figures(
        amounts={name: sum(group[f"sum_of_{name}"] for group in groups) for name in _AMOUNTS},
        tables=_sums(groups, "catalog", "tables"),
        unreadable=_sums(groups, "catalog", "unreadable"),
        sizes=Distribution.of(SIZES, _sums(groups, "size_bin", "tables")),
        ages=Distribution.of(AGES, _sums(groups, "age_bin", "tables")),
    )


def _sums(groups: Iterable[Row], key: str, column: str) -> Counter[Any]:
    """Return the sum of ``column`` for each value of ``key``."""
    sums: Counter[Any] = Counter()
    for group in groups:
        sums[group[key]] += group[column]
    return sums


def tallies_of(evaluated: DataFrame) -> Counter[tuple[str, Severity, str, Identifier, str | None]]:
    """Return the number of findings by ``FindingCounts.group_of``."""
    from pyspark.sql import functions as f

    found = evaluated.select("catalog", "namespace", "owner", f.explode("found").alias("one"))
    grouped = found.groupBy("one.rule", "one.severity", "catalog", "namespace", "owner")
    return Counter(
        {
            (row["rule"], Severity(row["severity"]), row["catalog"], tuple(row["namespace"]), row["owner"]): row[
                "count"
            ]
            for row in grouped.count().collect()
        }
    )


def suppressed_of(evaluated: DataFrame) -> Counter[int]:
    """Return the number of findings by the position of their suppression."""
    numbers: Counter[int] = Counter()
    for row in evaluated.groupBy("suppressed").count().collect():
        for at in row["suppressed"].split():
            numbers[int(at)] += row["count"]
    return numbers


def findings_of(evaluated: DataFrame, most: int) -> list[Finding]:
    """Return the ``most`` most severe findings in ``evaluated``."""
    from pyspark.sql import functions as f

    found = evaluated.select(*_ABOUT, f.explode("found").alias("one"))
    urgent = found.orderBy("one.severity_rank", "one.rule", "address").limit(most)
    return list(map(finding_of, urgent.toArrow().to_pylist()))


def tables_of(evaluated: DataFrame, most: int) -> list[ReportedTable]:
    """Return at most ``most`` live tables, preferably with findings, by address."""
    from pyspark.sql import functions as f

    first = evaluated.filter("live").orderBy(f.size("found") == 0, "address").limit(most)
    return sorted(map(table_of, first.toArrow().to_pylist()), key=lambda table: table.address)
