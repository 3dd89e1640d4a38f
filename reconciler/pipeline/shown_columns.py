"""The columns that the entries of tables show, asked of the catalogs on the executors and compared with the data's."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler.errors import CatalogError
from reconciler.names import Identifier
from reconciler.pipeline.records import EntryColumns, Stored
from reconciler.pipeline.schemas import Row, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reconciler.operations.connections import CatalogSpec
    from reconciler.state import Schema

__all__ = ["with_shown_columns"]

_SHOWN = pa.schema([("shown", pa.binary())])
"""A pickled :class:`EntryColumns` of a table whose entry shows others than its data has, or why they are not known."""


def with_shown_columns(frame: DataFrame, specs: Mapping[str, CatalogSpec]) -> DataFrame:
    """Return ``frame``, with the columns of entries and ``stored``, with the column ``shown`` as in ``_SHOWN``.

    Args:
        frame: a row a table.
        specs: the catalogs whose entries show columns; no other is asked.
    """

    def shown(batch: pa.RecordBatch) -> Iterator[Row]:
        rows = batch.select(["catalog", "id", "live_location", "stored"]).to_pylist()
        asked: dict[str, dict[Identifier, Schema]] = {name: {} for name in specs}
        for row in rows:
            if row["catalog"] in asked and row["live_location"] is not None and row["stored"] is not None:
                stored: Stored = pickle.loads(row["stored"])  # noqa: S301 - our own
                if stored.schema is not None:
                    asked[row["catalog"]][tuple(row["id"])] = stored.schema
        found = {name: _compared(specs[name], tables) for name, tables in asked.items() if tables}
        for row in rows:
            one = found.get(row["catalog"], {}).get(tuple(row["id"]))
            yield {"shown": None if one is None else pickle.dumps(one)}

    return with_columns(frame, _SHOWN, shown)


def _compared(spec: CatalogSpec, tables: Mapping[Identifier, Schema]) -> Mapping[Identifier, EntryColumns | str]:
    try:
        with spec.connect() as backend:
            shown = backend.shown_columns(tables)
            compared = {
                identifier: EntryColumns(columns, to_show)
                for identifier, columns in shown.items()
                if (to_show := backend.columns_to_show(tables[identifier])) is not None
            }
    except CatalogError as error:
        return dict.fromkeys(tables, str(error))
    return {identifier: columns for identifier, columns in compared.items() if columns}
