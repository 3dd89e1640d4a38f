"""Represent the content of catalogs as rows, and as views for users.

A row is a namespace, a table, a table of another format, a note of the scan, or the coverage of one namespace: whether
its direct content was read, or the error. So nothing that could not be read is a silent gap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from reconciler.model import locations, names, ownership
from reconciler.model.errors import CatalogError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, join
from reconciler.model.redaction import redact_properties
from reconciler.pipeline.schemas import INT, LONG, STRING, STRING_MAP, STRINGS, Row

NAMESPACE, TABLE, FOREIGN, NOTE, COVERAGE = "namespace", "table", "foreign", "note", "coverage"

LIVE = pa.schema([("location", STRING), ("properties", STRING_MAP), ("managed_versioning", pa.bool_())])
"""The fields of a ``LiveTable``, by name, without its identifier."""

ROWS = pa.schema(
    [
        ("catalog", STRING),
        ("kind", STRING),
        ("namespace", STRINGS),
        ("name", STRING),
        *LIVE,
        ("namespace_kind", STRING),
        ("format", STRING),
        ("namespaces", LONG),
        ("tables", LONG),
        ("message", STRING),
        ("code", INT),
    ]
)
"""The schema of a row of any kind.

``namespace`` is the parent of the object and, in a row of coverage, the namespace that was read; ``name`` is null there
and in a note. ``location`` is a table's, or a namespace's ``root``; ``format`` is a foreign table's. ``namespaces`` and
``tables`` are counts in a row of coverage. ``message`` is the text of a note and, in a row of coverage, the error: null
where everything was read. ``code`` is the error's (``lance_namespace.errors.ErrorCode``).
"""


def rows_of(catalog: str, snapshot: Snapshot) -> Iterable[Row]:
    """Yield the rows of a scan: its namespaces, tables and notes, in no order."""
    for namespace in snapshot.namespaces.values():
        yield {
            **_identity(catalog, NAMESPACE, namespace.id),
            "location": namespace.root,
            "properties": dict(namespace.properties),
            "namespace_kind": namespace.kind,
        }
    for table in snapshot.tables.values():
        yield {
            **_identity(catalog, TABLE, table.id),
            **{name: getattr(table, name) for name in LIVE.names},
        }
    for note in snapshot.notes:
        yield {"catalog": catalog, "kind": NOTE, "message": note}


def foreign_row(catalog: str, table: ForeignTable) -> Row:
    """Return the row of a table of another format."""
    return {**_identity(catalog, FOREIGN, table.id), "location": table.location, "format": table.format}


def coverage_row(
    catalog: str, namespace: Identifier, *, namespaces: int = 0, tables: int = 0, error: CatalogError | None = None
) -> Row:
    """Return the row of coverage of ``namespace``, with the error if it was not read."""
    return {
        "catalog": catalog,
        "kind": COVERAGE,
        "namespace": list(namespace),
        "namespaces": namespaces,
        "tables": tables,
        "message": None if error is None else str(error),
        "code": None if error is None else error.code,
    }


def live_table(identifier: Identifier, columns: Mapping[str, Any]) -> LiveTable:
    """Return the live table of ``identifier``.

    ``columns`` has a value for each field of ``LIVE``.
    """
    fields = {name: columns[name] for name in LIVE.names}
    return LiveTable(identifier, **{**fields, "properties": dict(fields["properties"] or ())})


def namespace_of(row: Mapping[str, Any]) -> LiveNamespace:
    """Return the namespace in ``row``, as ``to_pylist`` or ``asDict`` gives it."""
    identifier = (*row["namespace"], row["name"])
    return LiveNamespace(identifier, dict(row["properties"] or {}), row["namespace_kind"], row["location"])


def _identity(catalog: str, kind: str, identifier: Identifier) -> Row:
    return {"catalog": catalog, "kind": kind, "namespace": list(identifier[:-1]), "name": identifier[-1]}


class ReadFailure(BaseModel):
    """A namespace or a part of a catalog that could not be read.

    No text holds a secret.

    ``namespace`` is empty for the root and for the catalog as a whole.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, json_schema_serialization_defaults_required=True
    )

    catalog: str
    namespace: tuple[str, ...] = ()
    message: str

    @property
    def address(self) -> str:
        """The address that people use for the namespace."""
        return names.address(self.catalog, self.namespace)


def failures_in(rows: Iterable[Mapping[str, Any]]) -> list[ReadFailure]:
    """Return the errors in ``rows`` of coverage, one for each namespace, in order."""
    errors = {(row["catalog"], tuple(row["namespace"])): row["message"] for row in rows if row["message"] is not None}
    return [
        ReadFailure(catalog=catalog, namespace=namespace, message=errors[catalog, namespace])
        for catalog, namespace in sorted(errors)
    ]


# ---- views for users, without secrets --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """The rows of some ``kinds``, with the columns of ``schema``.

    Every view has a row with the ``error`` for each namespace that could not be read.
    """

    kinds: frozenset[str]
    schema: pa.Schema

    def rows(self, rows: Iterable[Row], columns: Collection[str]) -> Iterator[Row]:
        """Yield those of ``rows`` that the view holds, with only these ``columns``."""
        functions = {column: _COLUMN_FUNCTIONS.get(column) or methodcaller("get", column) for column in columns}
        for row in rows:
            if row["kind"] in self.kinds or (row["kind"] == COVERAGE and row["message"] is not None):
                yield {column: value_of(row) for column, value_of in functions.items()}


def _namespace(row: Row) -> str | None:
    return None if row["kind"] == NOTE else join(row["namespace"])


def _location(row: Row) -> str | None:
    return locations.redact(row["location"]) if row["kind"] == TABLE else None


def _properties(row: Row) -> dict[str, str] | None:
    return redact_properties(row["properties"]) if row["kind"] in (TABLE, NAMESPACE) else None


def _clone_mark(row: Row) -> str | None:
    return ownership.clone_of(row["properties"]) if row["kind"] == TABLE else None


_COLUMN_FUNCTIONS: Mapping[str, Callable[[Row], Any]] = {
    "namespace": _namespace,
    "location": _location,
    "properties": _properties,
    "clone_of": lambda row: ownership.origin_of_clone(_clone_mark(row)) or None,
    "clone_version": lambda row: ownership.version_of_clone(_clone_mark(row)) or None,
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
        ("clone_of", STRING),
        ("clone_version", LONG),
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
    "tables": _view(
        TABLE, "catalog", "namespace", "name", "location", "properties", "clone_of", "clone_version", "error"
    ),
    "namespaces": _view(NAMESPACE, "catalog", "namespace", "name", "namespace_kind", "properties", "error"),
    "coverage": _view(COVERAGE, "catalog", "namespace", "namespaces", "tables", "error"),
}
"""The views by name."""

INVENTORY = View(frozenset({TABLE, NAMESPACE, COVERAGE, NOTE}), _COLUMNS)
"""The view that an inventory holds: every row."""
