"""The data source ``lancens``: the catalogs of a manifest as a table of Spark's.

Spark creates these objects in separate processes. The process that plans the query reads the manifest and lists the
namespaces; each task of the query reads its unit.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from reconciler.model.concurrency import DEFAULT_PARALLELISM, MOST_PARALLELISM
from reconciler.model.display import did_you_mean
from reconciler.model.errors import LancensError
from reconciler.model.names import Scope
from reconciler.operations.connections import CatalogSpec, catalog_specs
from reconciler.pipeline.reading import read_unit
from reconciler.pipeline.rows import VIEWS, View
from reconciler.pipeline.schemas import record_batches, spark_schema
from reconciler.pipeline.session import OLDEST_WITH_FORMATS, require_pyspark, task_attempts
from reconciler.pipeline.tasks import is_last_attempt
from reconciler.pipeline.units import DEFAULT_PARTITIONS, DEFAULT_SPLIT, list_units

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
except ModuleNotFoundError:
    require_pyspark(OLDEST_WITH_FORMATS)
    raise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


_FORMAT = "lancens"
_OPTIONS = ("manifest", "view", "columns", "catalog", "namespace", "variables", "partitions", "split", "parallelism")


class BatchSource(DataSource):
    """A format without streams."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader that refuses to begin."""
        return _NoStreams()


class _NoStreams(DataSourceStreamReader):
    """Refuse to begin a stream.

    PySpark 4.1 hides an error that ``streamReader`` itself raises behind its own.
    """

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        raise LancensError("there are no streams of this format; use `spark.read` instead of `spark.readStream`")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from ()


class LancensDataSource(BatchSource):
    """The format ``lancens``; see docs/pipeline.md for its options."""

    attempts = 1
    """How often Spark attempts a task; :func:`register` sets it for the session."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return _FORMAT

    def schema(self) -> StructType:
        """Return the columns of the view, or those that the option ``columns`` names."""
        view = self._view()
        columns = self.options.get("columns")
        names = [name.strip() for name in columns.split(",")] if columns else view.schema.names
        return spark_schema(select_columns(view.schema, names, _FORMAT))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the columns of ``schema``."""
        view = self._view()
        return _Reader(self.options, view, requested_columns(view.schema, schema, _FORMAT), self.attempts)

    def _view(self) -> View:
        for option in self.options:
            require_known("option", option, _OPTIONS, _FORMAT)
        return VIEWS[require_known("view", self.options.get("view", "tables"), VIEWS, _FORMAT)]


def register(spark: SparkSession) -> None:
    """Make the format ``lancens`` known to a session."""
    spark.dataSource.register(type("LancensDataSource", (LancensDataSource,), {"attempts": task_attempts(spark)}))


class _Part(InputPartition):
    """The pickled unit of one task, so that Spark shows no credentials."""

    def __init__(self, unit: bytes) -> None:
        self.unit = unit

    def __repr__(self) -> str:
        return "lancens"


class _Reader(DataSourceReader):
    """Read one view of the catalogs.

    It takes no filters: PySpark uses one reader for every query of a loaded table, so the filters of one query would
    also hold for the next. Options say what is read.
    """

    def __init__(self, options: Mapping[str, str], view: View, schema: pa.Schema, attempts: int) -> None:
        self._options = dict(options)
        self._view = view
        self._schema = schema
        self._attempts = attempts

    def partitions(self) -> Sequence[InputPartition]:
        """List the namespaces, and return a partition for each unit."""
        specs = self._specs()
        units = list_units(
            specs,
            partitions=self._number("partitions", DEFAULT_PARTITIONS),
            split=self._number("split", DEFAULT_SPLIT),
            namespaces=_globs(self._options.get("namespace", "**")),
        )
        if not units and "namespace" in self._options:
            raise LancensError(f"the option `namespace` matches none in {', '.join(spec.name for spec in specs)}")
        return [_Part(pickle.dumps(unit)) for unit in units] or [_Part(b"")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the content of one unit."""
        assert isinstance(partition, _Part)  # noqa: S101 - what Spark hands over is what it was given
        if not partition.unit:
            return
        rows = read_unit(pickle.loads(partition.unit), last_attempt=is_last_attempt(self._attempts))  # noqa: S301
        yield from record_batches(self._view.rows(rows, self._schema.names), self._schema)

    def _specs(self) -> list[CatalogSpec]:
        from reconciler.operations.manifests import load

        manifest = self._options.get("manifest")
        if manifest is None:
            raise LancensError('no manifest is given: spark.read.format("lancens").option("manifest", "lancens.yaml")')
        loaded = load(manifest, variables=self._variables())
        catalogs = _globs(self._options.get("catalog", "*"))
        names = [name for name in loaded.catalogs if catalogs.contains((name,))]
        if not names:
            raise LancensError(f"the option `catalog` matches none of {', '.join(sorted(loaded.catalogs))}")
        parallelism = self._number("parallelism", DEFAULT_PARALLELISM, MOST_PARALLELISM)
        return catalog_specs(loaded, names, parallelism=parallelism)

    def _variables(self) -> dict[str, str]:
        try:
            return TypeAdapter(dict[str, str]).validate_json(self._options.get("variables", "{}"))
        except ValidationError:
            raise LancensError('the option `variables` is expected to be JSON such as {"region": "eu"}') from None

    def _number(self, option: str, default: int, most: int | None = None) -> int:
        text = self._options.get(option, str(default))
        if not text.isdecimal() or int(text) < 1 or (most is not None and int(text) > most):
            expected = "on" if most is None else f"to {most}"
            raise LancensError(f"the option `{option}` is expected to be a number from 1 {expected}, not `{text}`")
        return int(text)


def select_columns(columns: pa.Schema, names: Iterable[str], source: str) -> pa.Schema:
    """Return the ``columns`` of the format ``source`` that ``names`` lists.

    Raises:
        LancensError: there is no such column.
    """
    return pa.schema([columns.field(require_known("column", name, columns.names, source)) for name in names])


def requested_columns(columns: pa.Schema, requested: StructType, source: str) -> pa.Schema:
    """Return the ``columns`` of the format ``source`` that ``requested`` names.

    Raises:
        LancensError: ``spark.read.schema`` named another column, or gave one another type.
    """
    columns_read = select_columns(columns, requested.fieldNames(), source)
    for request, column in zip(requested, spark_schema(columns_read), strict=True):
        if request.dataType != column.dataType:
            types = f"{column.dataType.simpleString()}, not {request.dataType.simpleString()}"
            raise LancensError(f"the column `{column.name}` of the format {source} is {types}; leave out `.schema(…)`")
    return columns_read


def _globs(text: str) -> Scope:
    """Return the scope that the comma-separated globs of an option select."""
    return Scope(tuple(pattern.strip() for pattern in text.split(",")))


def require_known(kind: str, name: str, names: Iterable[str], source: str) -> str:
    """Return ``name`` if it is one of ``names`` in the format ``source``.

    Raises:
        LancensError: it is not; the message suggests the nearest name.
    """
    candidates = list(names)
    if name in candidates:
        return name
    hint = did_you_mean(name, candidates, f"there is {', '.join(candidates)}")
    raise LancensError(f"no {kind} `{name}` in the format {source}; {hint}")
