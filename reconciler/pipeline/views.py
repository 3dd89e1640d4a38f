"""What a user is shown of the rows: without secrets, and with a namespace as one name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler import locations
from reconciler.names import join
from reconciler.pipeline.rows import COVERAGE, NAMESPACE, NOTE, TABLE
from reconciler.redaction import redact_properties

if TYPE_CHECKING:
    from reconciler.pipeline.rows import Row

__all__ = ["INVENTORY", "VIEWS", "View"]

Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class View:
    """Some of the rows. ``columns`` has the Spark type of each column, ``kinds`` says which rows are in it.

    A namespace that could not be read is a row with its ``error``, whatever the view is of.
    """

    kinds: frozenset[str]
    columns: Columns

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

_WHERE: Columns = {"catalog": "string", "namespace": "string"}
_NAMED: Columns = {**_WHERE, "name": "string"}
_ERROR: Columns = {"error": "string"}
_COUNTS: Columns = {"namespaces": "bigint", "tables": "bigint"}
_TABLE: Columns = {"location": "string", "properties": "map<string,string>"}

VIEWS: Mapping[str, View] = {
    "tables": View(frozenset({TABLE}), {**_NAMED, **_TABLE, **_ERROR}),
    "namespaces": View(
        frozenset({NAMESPACE}), {**_NAMED, "namespace_kind": "string", "properties": "map<string,string>", **_ERROR}
    ),
    "coverage": View(frozenset({COVERAGE}), {**_WHERE, **_COUNTS, **_ERROR}),
}
"""The views by name."""

INVENTORY = View(
    frozenset({TABLE, NAMESPACE, COVERAGE, NOTE}),
    {"kind": "string", **_NAMED, **_TABLE, "namespace_kind": "string", **_COUNTS, **_ERROR, "note": "string"},
)
"""Everything there is, as an inventory keeps it."""
