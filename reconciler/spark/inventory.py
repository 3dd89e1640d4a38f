"""An inventory: everything that is in the catalogs of a manifest, in one file or dataset, without secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.display import count
from reconciler.model.names import join
from reconciler.model.names import split as identifier_of
from reconciler.operations.connections import catalog_specs
from reconciler.spark.progress import stage
from reconciler.spark.read_failure import ReadFailure
from reconciler.spark.rows import COVERAGE, NAMESPACE, TABLE
from reconciler.spark.schemas import LONG, STRING, STRING_MAP, Row, record_batch
from reconciler.spark.session import SparkOptions, spark_session
from reconciler.spark.sinks import Form, open_sink
from reconciler.spark.source import each_unit
from reconciler.spark.units import DEFAULT_PARTITIONS, DEFAULT_SPLIT, list_units
from reconciler.spark.views import INVENTORY

if TYPE_CHECKING:
    from reconciler.manifest import Manifest


_TALLY = pa.schema(
    [("part", STRING), ("catalog", STRING), ("namespaces", LONG), ("tables", LONG), ("unread", STRING_MAP)]
)
"""What a task says of its unit: how to find its part, how much is in it, and which namespaces are not, with errors."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What an inventory came to: how many namespaces and tables are in it, and what could not be read."""

    namespaces: int
    tables: int
    unread: tuple[ReadFailure, ...]


def write_inventory(
    manifest: Manifest,
    out: str | None,
    form: Form,
    options: SparkOptions | None = None,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    split: int = DEFAULT_SPLIT,
    parallelism: int = DEFAULT_PARALLELISM,
) -> Inventory:
    """Write what is in the catalogs of ``manifest`` to ``out``, or as JSON to stdout, and return what it came to.

    It is written whole or not at all. A namespace that could not be read is in it as a row that says why.

    Args:
        manifest: from :func:`reconciler.load`.
        out: a file, which is replaced; for Lance a directory or URI, which gets a new version.
        form: how to write.
        options: where Spark runs.
        partitions: about how many tasks read, at most.
        split: with more tables than this a namespace is read in parts, where the catalog reads tables by name.
        parallelism: how many requests each task has in flight.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: ``out`` cannot be written, a catalog cannot be reached by Spark, or Spark failed.
    """
    specs = catalog_specs(manifest, parallelism=parallelism)
    with open_sink(out, form, INVENTORY.schema) as sink:
        with spark_session(options) as spark:
            with stage(None, f"Listing the namespaces of {count(len(specs), 'catalog')}"):
                units = list_units(specs, partitions=partitions, split=split)
            read = {(unit.spec.name, namespace) for unit in units for namespace in unit.namespaces}
            with stage(spark, f"Reading {count(len(read), 'namespace')}") as reading:
                keep = partial(_keep, sink.write)
                parts = each_unit(spark, units, keep, _TALLY).collect()
                reading.note(count(sum(part["tables"] for part in parts), "table"))
        sink.finish([part["part"] for part in parts])
    unread = {(part["catalog"], identifier_of(name)): error for part in parts for name, error in part["unread"].items()}
    return Inventory(
        namespaces=sum(part["namespaces"] for part in parts),
        tables=sum(part["tables"] for part in parts),
        unread=tuple(
            ReadFailure(catalog=catalog, namespace=namespace, message=error)
            for (catalog, namespace), error in sorted(unread.items())
        ),
    )


def _keep(write: Callable[[Iterable[Row]], str], rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a unit and yield what there is to say of it."""
    tally: dict[str, Any] = {"namespaces": 0, "tables": 0, "unread": {}}

    def counted() -> Iterator[Row]:
        for row in rows:
            tally["catalog"] = row["catalog"]
            tally["namespaces"] += row["kind"] == NAMESPACE
            tally["tables"] += row["kind"] == TABLE
            if row["kind"] == COVERAGE and row["message"] is not None:
                tally["unread"][join(row["namespace"])] = row["message"]
            yield row

    tally["part"] = write(INVENTORY.rows(counted(), INVENTORY.schema.names))
    yield record_batch([tally], _TALLY)
