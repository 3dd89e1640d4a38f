"""The rows as users see them: without secrets, and with a namespace as one name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from reconciler.model import locations
from reconciler.model.names import join
from reconciler.model.redaction import redact_properties
from reconciler.spark.rows import COVERAGE, NAMESPACE, NOTE, TABLE
from reconciler.spark.schemas import LONG, STRING, STRING_MAP, Row


@dataclass(frozen=True, slots=True)
class View:
    """Some of the rows: those of ``kinds``, with the columns of ``schema``.

    A namespace that could not be read is a row with its ``error``, whatever the view is of.
    """

    kinds: frozenset[str]
    schema: pa.Schema

    def rows(self, rows: Iterable[Row], columns: Collection[str]) -> Iterator[Row]:
        """Yield of each row in the view the ``columns`` that are asked for; the others are not even made."""
        makers = {column: _MAKERS.get(column) or _maker(column) for column in columns}
        for row in rows:
            if row["kind"] in self.kinds or (row["kind"] == COVERAGE and row["message"] is not None):
                yield {column: make(row) for column, make in makers.items()}


def _maker(column: str) -> Callable[[Row], Any]:
    return lambda row: row.get(column)


def _namespace(row: Row) -> str | None:
    return None if row["kind"] == NOTE else join(row["namespace"])


def _location(row: Row) -> str | None:
    return locations.redact(row["location"]) if row["kind"] == TABLE else None


def _properties(row: Row) -> dict[str, str] | None:
    return redact_properties(row["properties"]) if row["kind"] in (TABLE, NAMESPACE) else None


_MAKERS: Mapping[str, Callable[[Row], Any]] = {
    "namespace": _namespace,
    "location": _location,
    "properties": _properties,
    "error": lambda row: row["message"] if row["kind"] == COVERAGE else None,
    "note": lambda row: row["message"] if row["kind"] == NOTE else None,
}

_COLUMNS = pa.schema(
    [
        ("kind", STRING),
        ("catalog", STRING),
        ("namespace", STRING),
        ("name", STRING),
        ("location", STRING),
        ("properties", STRING_MAP),
        ("namespace_kind", STRING),
        ("namespaces", LONG),
        ("tables", LONG),
        ("error", STRING),
        ("note", STRING),
    ]
)


def _view(kind: str, *columns: str) -> View:
    return View(frozenset({kind}), pa.schema(map(_COLUMNS.field, columns)))


VIEWS: Mapping[str, View] = {
    "tables": _view(TABLE, "catalog", "namespace", "name", "location", "properties", "error"),
    "namespaces": _view(NAMESPACE, "catalog", "namespace", "name", "namespace_kind", "properties", "error"),
    "coverage": _view(COVERAGE, "catalog", "namespace", "namespaces", "tables", "error"),
}
"""The views by name."""

INVENTORY = View(frozenset({TABLE, NAMESPACE, COVERAGE, NOTE}), _COLUMNS)
"""Everything there is, as an inventory keeps it."""
