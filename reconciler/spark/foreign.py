"""The tables of other kinds that catalogs hold beside Lance tables, read on the executors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler import storage
from reconciler.backends import optional
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import CatalogError, NamespaceNotFoundError
from reconciler.model.live import ForeignTable
from reconciler.model.names import Identifier, join
from reconciler.spark.reading import LASTING, require_unicode, tried
from reconciler.spark.schemas import STRING, STRINGS, Row, record_batch, spark_schema
from reconciler.spark.session import task_attempts
from reconciler.spark.source import is_last_attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reconciler.backends.base import Backend
    from reconciler.operations.connections import CatalogSpec


FOREIGN_TABLES = pa.schema(
    [
        ("catalog", STRING),
        ("key", STRING),
        ("foreign_location", STRING),
        ("foreign_format", STRING),
        ("foreign_place", STRING),
    ]
)
"""A table of another kind: its catalog, its string identifier, the location and format that the catalog says, and the
location normalised, wherever symbolic links lead.
"""

_FOUND = pa.unify_schemas([FOREIGN_TABLES, pa.schema([("namespace", STRINGS), ("error", STRING)])])


def foreign_rows(spark: SparkSession, namespaces: DataFrame, specs: Collection[CatalogSpec]) -> DataFrame:
    """Return the foreign tables in ``namespaces``, which have a ``catalog`` and a ``namespace``.

    A row is a table, as in ``FOREIGN_TABLES``; or a ``namespace`` whose foreign tables could not be read after all
    attempts of Spark, with the ``error``.
    """
    by_name = {spec.name: spec for spec in specs}
    attempts = task_attempts(spark)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last = is_last_attempt(attempts)
        for batch in batches:
            asked: dict[str, list[Identifier]] = {}
            for row in batch.to_pylist():
                asked.setdefault(row["catalog"], []).append(tuple(row["namespace"]))
            for catalog, identifiers in asked.items():
                yield record_batch(_read(by_name[catalog], identifiers, last_attempt=last), _FOUND)

    return namespaces.select("catalog", "namespace").mapInArrow(read, spark_schema(_FOUND))


def _read(spec: CatalogSpec, namespaces: Sequence[Identifier], *, last_attempt: bool) -> Iterator[Row]:
    """Yield the rows of ``namespaces``.

    Raises:
        CatalogError: something could not be read that can be at another attempt, and this is not the last one.
    """
    with ExitStack() as stack:
        backend = tried(spec, lambda: stack.enter_context(spec.connect()))
        if isinstance(backend, CatalogError):
            answers: Sequence[Sequence[ForeignTable] | CatalogError] = [backend] * len(namespaces)
        else:
            ask = partial(_ask, backend, spec.name)
            answers = in_parallel(lambda space: tried(spec, partial(ask, space)), namespaces, backend.parallelism)
    for namespace, answer in zip(namespaces, answers, strict=True):
        if not isinstance(answer, CatalogError):
            yield from (_row(spec.name, table) for table in answer if spec.scope.contains(table.id))
        elif last_attempt or answer.code in LASTING:
            yield {"catalog": spec.name, "namespace": list(namespace), "error": str(answer)}
        else:
            raise answer


def _ask(backend: Backend, catalog: str, namespace: Identifier) -> Sequence[ForeignTable]:
    try:
        found = optional.foreign_tables(backend, namespace)
    except NamespaceNotFoundError:
        return ()
    for table in found:
        require_unicode(catalog, table.id, {}, table.location or "", table.format)
    return found


def _row(catalog: str, table: ForeignTable) -> Row:
    return {
        "catalog": catalog,
        "key": join(table.id),
        "foreign_location": table.location,
        "foreign_format": table.format,
        "foreign_place": None if table.location is None else storage.place_of(table.location),
    }
