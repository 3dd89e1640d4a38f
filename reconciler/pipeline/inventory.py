"""Return the content of a manifest's catalogs, or write it to one file or dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.display import count
from reconciler.operations.connections import catalog_specs
from reconciler.pipeline.frames import frame_of_units
from reconciler.pipeline.progress import stage
from reconciler.pipeline.reading import read_unit
from reconciler.pipeline.rows import COVERAGE, INVENTORY, NAMESPACE, TABLE, ReadFailure, failures_in
from reconciler.pipeline.schemas import Row, record_batch, record_batches
from reconciler.pipeline.session import spark_session
from reconciler.pipeline.sinks import Form, open_sink
from reconciler.pipeline.tasks import packed, unpacked
from reconciler.pipeline.units import DEFAULT_PARTITIONS, Unit, list_units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest
    from reconciler.pipeline.session import SparkOptions


_PARTS = pa.schema([("part", pa.binary())])


@dataclass(frozen=True, slots=True)
class Inventory:
    """The counts of an inventory, and what could not be read."""

    namespaces: int
    tables: int
    unread: tuple[ReadFailure, ...]


def write_inventory(
    manifest: Manifest,
    out: str | None,
    form: Form,
    engine: SparkOptions | None,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    parallelism: int = DEFAULT_PARALLELISM,
) -> Inventory:
    """Write the content of the catalogs of ``manifest`` without secrets.

    The inventory is written whole or not at all. A namespace that could not be read is a row with the error.

    Args:
        manifest: from :func:`reconciler.load`.
        out: a file, which is replaced; for Lance a directory or URI, which gets a new version; None for stdout.
        form: the format.
        engine: where Spark runs; None to work in this process.
        partitions: about how many tasks read, at most.
        parallelism: how many requests each task has in flight.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: ``out`` cannot be written, a catalog cannot be reached by Spark, or Spark failed.
    """
    specs = catalog_specs(manifest, parallelism=parallelism)
    with open_sink(out, form, INVENTORY.schema) as sink:
        with nullcontext() if engine is None else spark_session(engine) as spark:
            with stage(None, f"Listing the namespaces of {count(len(specs), 'catalog')}"):
                units = list_units(specs, partitions=partitions, in_process=spark is None)
            listed = {(unit.spec.name, namespace) for unit in units for namespace in unit.namespaces}
            with stage(spark, f"Reading {count(len(listed), 'namespace')}") as note:
                rows = frame_of_units(spark, units, partial(_write_part, sink.write), _PARTS).rows()
                parts: list[_Part] = [unpacked(row["part"]) for row in rows]
                kinds = sum((part.kinds for part in parts), Counter[str]())
                note(count(kinds[TABLE], "table"))
        sink.finish([part.name for part in parts])
    unread = failures_in(row for part in parts for row in part.unread)
    return Inventory(kinds[NAMESPACE], kinds[TABLE], tuple(unread))


def inventory(manifest: Manifest, *, spark: SparkSession | None = None, parallelism: int = DEFAULT_PARALLELISM) -> Any:
    """Return the rows of ``lancens inventory``: a DataFrame with Spark, an Arrow table without.

    A DataFrame reads the catalogs whenever it is computed. A namespace that could not be read is a row with its
    ``error``.

    Args:
        manifest: from :func:`reconciler.load`.
        spark: the session to work in; None for this process.
        parallelism: how many requests each task has in flight.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: a catalog refuses its configuration, or cannot be reached by Spark.
    """
    units = list_units(catalog_specs(manifest, parallelism=parallelism), in_process=spark is None)
    return frame_of_units(spark, units, _inventory_batches, INVENTORY.schema).content


def _inventory_batches(unit: Unit, last_attempt: bool) -> Iterator[pa.RecordBatch]:
    rows = read_unit(unit, last_attempt=last_attempt)
    return record_batches(INVENTORY.rows(rows, INVENTORY.schema.names), INVENTORY.schema)


@dataclass(slots=True)
class _Part:
    """What one task has written.

    It has the part's name, the number of rows of each kind, and the rows with errors.
    """

    name: str = ""
    kinds: Counter[str] = field(default_factory=Counter)
    unread: list[Row] = field(default_factory=list)


def _write_part(write: Callable[[Iterable[Row]], str], unit: Unit, last_attempt: bool) -> Iterator[pa.RecordBatch]:
    """Write the rows of a unit with ``write``, and yield the :class:`_Part`, packed."""
    part = _Part()

    def read_and_count() -> Iterator[Row]:
        for row in read_unit(unit, last_attempt=last_attempt):
            part.kinds[row["kind"]] += 1
            if row["kind"] == COVERAGE and row["message"] is not None:
                part.unread.append(row)
            yield row

    part.name = write(INVENTORY.rows(read_and_count(), INVENTORY.schema.names))
    yield record_batch([{"part": packed(part)}], _PARTS)
