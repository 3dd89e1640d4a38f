"""What judged tables come to: counts made by Spark, and the few rows that a report shows in full."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reconciler.names import Identifier
from reconciler.pipeline.records import Severity
from reconciler.pipeline.report.document import (
    Distribution,
    ReportedFinding,
    ReportedTable,
)
from reconciler.pipeline.report.scales import AGES, SIZES
from reconciler.state import StorageKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Figures", "figures_of", "findings_of", "tables_of", "tallies_of"]

_UNREADABLE = (StorageKind.DENIED.value, StorageKind.UNKNOWN.value)

Tallies = Mapping[tuple[str, Severity, str, Identifier, str | None], int]
"""How many findings there are of each group of ``FindingCounts.group_of``."""


@dataclass(slots=True)
class Figures:
    """What is counted of live tables; those that storage did not let be read are ``unreadable``."""

    rows: int = 0
    bytes: int = 0
    fragments: int = 0
    tables: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int | None] = field(default_factory=Counter)
    ages: Counter[int | None] = field(default_factory=Counter)

    @property
    def size_distribution(self) -> Distribution:
        """How many tables have which size."""
        return _distribution(SIZES, self.sizes)

    @property
    def age_distribution(self) -> Distribution:
        """How many tables had their last commit how long ago."""
        return _distribution(AGES, self.ages)


def _distribution(scale: Any, counted: Counter[int | None]) -> Distribution:
    known = {position: number for position, number in counted.items() if position is not None}
    return Distribution.of(scale, known, unknown=counted[None])


def figures_of(judged: DataFrame) -> Figures:
    """Return the figures of the live tables in ``judged``."""
    from pyspark.sql import functions as f

    figures = Figures()
    grouped = judged.filter("live").groupBy("catalog", "size_bin", "age_bin")
    for row in grouped.agg(
        f.count("*").alias("tables"),
        f.count_if(f.col("kind").isin(*_UNREADABLE)).alias("unreadable"),
        *(f.coalesce(f.sum(name), f.lit(0)).alias(f"all_{name}") for name in ("rows", "bytes", "fragments")),
    ).collect():
        figures.rows += row["all_rows"]
        figures.bytes += row["all_bytes"]
        figures.fragments += row["all_fragments"]
        figures.tables[row["catalog"]] += row["tables"]
        figures.unreadable[row["catalog"]] += row["unreadable"]
        figures.sizes[row["size_bin"]] += row["tables"]
        figures.ages[row["age_bin"]] += row["tables"]
    return figures


def tallies_of(judged: DataFrame) -> Tallies:
    """Return how many findings there are in ``judged``."""
    from pyspark.sql import functions as f

    found = judged.select("catalog", "namespace", "owner", f.explode("found").alias("one"))
    counts = found.groupBy("one.rule", "one.severity", "catalog", "namespace", "owner").count().collect()
    return {
        (row["rule"], Severity(row["severity"]), row["catalog"], tuple(row["namespace"]), row["owner"]): row["count"]
        for row in counts
    }


def findings_of(judged: DataFrame, most: int) -> list[ReportedFinding]:
    """Return the ``most`` urgent findings in ``judged``."""
    from pyspark.sql import functions as f

    found = judged.select("address", f.explode("found").alias("one"))
    urgent = found.orderBy("one.gravity", "one.rule", "address").limit(most).select("one.finding")
    pickled = urgent.toArrow().column("finding").to_pylist()
    return [ReportedFinding.of(pickle.loads(finding)) for finding in pickled]  # noqa: S301 - our own


def tables_of(judged: DataFrame, most: int) -> list[ReportedTable]:
    """Return ``most`` live tables in ``judged``, those with findings before others, in the order of their addresses."""
    from pyspark.sql import functions as f

    shown = ("catalog", "namespace", "name", "location", "owner", "rows", "bytes", "fragments", "version", "committed")
    tables = judged.filter("live").withColumn("rules", f.array_distinct("found.rule"))
    first = tables.orderBy(f.size("rules") == 0, "address").limit(most).select(*shown, "rules")
    found = [ReportedTable.model_validate(row) for row in first.toArrow().to_pylist()]
    return sorted(found, key=lambda table: table.address)
