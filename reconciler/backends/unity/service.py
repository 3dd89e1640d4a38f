"""The routes of a Unity Catalog service that lancens uses, one method each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from reconciler.backends.http import HttpClient, UnknownRouteError, path
from reconciler.backends.identifiers import require_kept
from reconciler.backends.paging import every_page
from reconciler.backends.unity.names import full_name
from reconciler.backends.unity.properties import in_parts, put_together
from reconciler.model.errors import (
    InternalError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from reconciler.model.names import Identifier, join

_LANCE = "lance"
_EXTERNAL = "EXTERNAL"
_FORMAT = "TEXT"
_TABLE_TYPE = "table_type"
_ROW_KEYS = ("table_id", "schema_id", "id")
_SERVERS_OWN_PAGE_SIZE = "0"
"""Asks for the longest page the server gives by itself; numbers above its limits are refused by some servers."""

_OTHER_KINDS = {"volumes": "/volumes", "functions": "/functions", "registered_models": "/models"}
"""What a schema holds beside tables: the key of the answer, and the route."""
_CREDENTIALS = {
    "aws_temp_credentials": {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
    },
    "azure_user_delegation_sas": {"sas_token": "azure_storage_sas_token"},
    "gcp_oauth_token": {"oauth_token": "google_storage_token"},
}
"""The credentials that it hands out, and pylance's names of them."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """The parts of a table's entry that matter here."""

    name: str
    row: str
    """What tells apart two entries of one name."""
    location: str | None
    properties: Mapping[str, str]
    kind: str
    format: str = ""
    answered_columns: object = None

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns that the service shows; read when asked for, as a scan does not."""
        answered = self.answered_columns
        return [column for column in answered if isinstance(column, dict)] if isinstance(answered, list) else []

    @property
    def is_lance(self) -> bool:
        """Whether it is a Lance table: external, and marked so ("Lance Table Identification")."""
        return self.kind == _EXTERNAL and self.is_marked

    @property
    def is_marked(self) -> bool:
        """Whether its properties say that it is a Lance table."""
        return self.properties.get(_TABLE_TYPE, "").lower() == _LANCE


@dataclass(frozen=True, slots=True)
class SchemaInfo:
    """The parts of a catalog's or a schema's entry that matter here."""

    name: str
    row: str
    """What tells apart two entries of one name."""
    properties: Mapping[str, str]
    kind: str | None = None
    root: str | None = None
    """Below which its data goes. What the service places itself is in a directory of its own there."""


class UnityService:
    """Calls one service. Errors are those of :mod:`reconciler.model.errors`; lists go to their last page."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    # ---- reading -------------------------------------------------------------------------------------------------

    def catalog(self, name: str) -> SchemaInfo:
        """GET /catalogs/{name}."""
        doing = f"read the catalog `{name}`"
        answer = self._http.json("GET", path("catalogs", name), doing=doing, errors={404: NamespaceNotFoundError})
        return _schema(answer, doing)

    def catalogs_named(self, name: str) -> Iterator[SchemaInfo]:
        """GET /catalogs, all pages: those of this name."""
        doing = "list the catalogs"
        for entry in self._pages("/catalogs", "catalogs", {}, doing):
            if _name(entry, doing) == name:
                yield _schema(entry, doing)

    def schemas(self, catalog: str) -> Iterator[SchemaInfo]:
        """GET /schemas, all pages."""
        doing = f"list the schemas of `{catalog}`"
        for entry in self._pages("/schemas", "schemas", {"catalog_name": catalog}, doing):
            yield _schema(entry, doing)

    def schema(self, identifier: Identifier) -> SchemaInfo:
        """GET /schemas/{full_name}."""
        doing = f"read the schema `{join(identifier)}`"
        errors = {404: NamespaceNotFoundError}
        answer = self._http.json("GET", path("schemas", full_name(identifier)), doing=doing, errors=errors)
        found = _schema(answer, doing)
        require_kept("unity", identifier, (*identifier[:-1], found.name))
        return found

    def tables(self, schema: Identifier) -> Iterator[TableInfo]:
        """GET /tables, all pages: tables and views of every format, without their columns."""
        doing = f"list the tables of `{join(schema)}`"
        for entry in self._pages("/tables", "tables", _parent(schema), doing):
            yield _table({**entry, "columns": None}, doing)

    def table(self, identifier: Identifier) -> TableInfo:
        """GET /tables/{full_name}."""
        doing = f"read the table `{join(identifier)}`"
        errors = {404: TableNotFoundError}
        answer = self._http.json("GET", path("tables", full_name(identifier)), doing=doing, errors=errors)
        found = _table(answer, doing)
        require_kept("unity", identifier, (*identifier[:-1], found.name))
        return found

    def vended_options(self, identifier: Identifier, *, writes: bool) -> dict[str, str]:
        """POST /temporary-table-credentials: the storage options that the service hands out for a table's data."""
        table = self.table(identifier).row
        if writes:
            with suppress(PermissionDeniedError):
                return self._credentials(identifier, table, "READ_WRITE")
        return self._credentials(identifier, table, "READ")

    def _credentials(self, identifier: Identifier, table: str, operation: str) -> dict[str, str]:
        answer = self._http.json(
            "POST",
            "/temporary-table-credentials",
            doing=f"ask for credentials for the table `{join(identifier)}`",
            body={"table_id": table, "operation": operation},
            errors={404: TableNotFoundError},
            repeatable=True,
        )
        return dict(_options_in(answer))

    def others(self, schema: Identifier) -> Iterator[str]:
        """Yield the names of a schema's volumes, functions and models; a service without the route has none."""
        for key, route in _OTHER_KINDS.items():
            doing = f"list the {key.replace('_', ' ')} of `{join(schema)}`"
            try:
                for entry in self._pages(route, key, _parent(schema), doing):
                    yield _name(entry, doing)
            except UnknownRouteError:
                continue

    # ---- writing -------------------------------------------------------------------------------------------------

    def create_schema(self, identifier: Identifier, properties: Mapping[str, str]) -> SchemaInfo:
        """POST /schemas."""
        doing = f"create the schema `{join(identifier)}`"
        body = {"name": identifier[-1], "catalog_name": identifier[0], "properties": in_parts(properties)}
        errors = {404: NamespaceNotFoundError, 409: NamespaceAlreadyExistsError}
        return _schema(self._http.json("POST", "/schemas", doing=doing, body=body, errors=errors), doing)

    def set_schema_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """PATCH /schemas/{full_name}: the properties given take the place of all there are."""
        self._http.done(
            "PATCH",
            path("schemas", full_name(identifier)),
            doing=f"change the properties of the schema `{join(identifier)}`",
            body={"properties": in_parts(properties)},
            errors={404: NamespaceNotFoundError},
        )

    def delete_schema(self, identifier: Identifier) -> None:
        """DELETE /schemas/{full_name}, never with ``force``: the server refuses a schema that holds anything."""
        self._http.done(
            "DELETE",
            path("schemas", full_name(identifier)),
            doing=f"drop the schema `{join(identifier)}`",
            errors={404: NamespaceNotFoundError} | dict.fromkeys((409, 412, 422), NamespaceNotEmptyError),
        )

    def create_table(
        self, identifier: Identifier, location: str, properties: Mapping[str, str], columns: list[dict[str, Any]]
    ) -> TableInfo:
        """POST /tables: an external table, whose format Unity knows as text ("DeclareTable")."""
        doing = f"create the entry of the table `{join(identifier)}`"
        body: dict[str, Any] = {
            "name": identifier[-1],
            **_parent(identifier[:-1]),
            "table_type": _EXTERNAL,
            "data_source_format": _FORMAT,
            "columns": columns,
            "storage_location": location,
            "properties": {**in_parts(properties), _TABLE_TYPE: _LANCE},
        }
        errors = {404: NamespaceNotFoundError, 409: TableAlreadyExistsError}
        return _table(self._http.json("POST", "/tables", doing=doing, body=body, errors=errors), doing)

    def delete_table(self, identifier: Identifier) -> None:
        """DELETE /tables/{full_name}. Of an external table this is the entry alone."""
        doing = f"remove the entry of the table `{join(identifier)}`"
        errors = {404: TableNotFoundError}
        self._http.done("DELETE", path("tables", full_name(identifier)), doing=doing, errors=errors)

    # ---- pages ---------------------------------------------------------------------------------------------------

    def _pages(self, route: str, key: str, query: Mapping[str, str], doing: str) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of every page, each row once; two rows of one name are both yielded."""

        def fetch(token: str | None, number: int) -> tuple[Sequence[Mapping[str, Any]], str | None]:
            asked = {**query, "max_results": _SERVERS_OWN_PAGE_SIZE}
            if token is not None:
                asked["page_token"] = token
            page = doing if number == 1 else f"{doing}, page {number}"
            answer = self._http.json("GET", route, doing=page, query=asked, errors={404: NamespaceNotFoundError})
            entries = _entries(answer, key, page)
            return entries, _token(answer, entries, page)

        return every_page(f"unity: {doing}", fetch, lambda entry: (_name(entry, doing), _row(entry)))


def _options_in(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the credentials that an answer holds for one of the three clouds, in pylance's words."""
    for kind, names in _CREDENTIALS.items():
        held = answer.get(kind)
        for name, option in names.items():
            value = held.get(name) if isinstance(held, Mapping) else None
            if isinstance(value, str) and value:
                yield option, value


def _parent(schema: Identifier) -> dict[str, str]:
    return {"catalog_name": schema[0], "schema_name": schema[1]}


def _entries(answer: Mapping[str, Any], key: str, doing: str) -> list[Mapping[str, Any]]:
    """Return the entries of a page. A page with nothing on it may leave the list out, but says nothing else then."""
    entries = answer.get(key)
    if entries is None and not set(answer) - {key, "next_page_token"}:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InternalError(f"unity: {doing}: the answer holds no list `{key}`; is this a Unity Catalog service?")
    return entries


def _token(answer: Mapping[str, Any], entries: list[Mapping[str, Any]], doing: str) -> str | None:
    """Return what to ask the next page with.

    The reference server's token is the last name on the page, and goes on behind that name: of two rows of one name,
    the second would be on no page. So the name before it is asked with, and the last name comes again.
    """
    token = answer.get("next_page_token")
    if token is not None and not isinstance(token, str):
        raise InternalError(f"unity: {doing}: the page token is not text")
    names = [_name(entry, doing) for entry in entries]
    if token and len(set(names)) > 1 and token == names[-1]:
        return next(name for name in reversed(names) if name != token)
    return token or None


def _name(entry: Mapping[str, Any], doing: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InternalError(f"unity: {doing}: the answer holds an entry without a name")
    return name


def _row(entry: Mapping[str, Any]) -> str:
    """Return what identifies an entry: its id, or all that is said of it."""
    identity = next((entry[key] for key in _ROW_KEYS if isinstance(entry.get(key), str)), None)
    return identity or json.dumps(entry, sort_keys=True)


def _properties(entry: Mapping[str, Any], doing: str) -> Mapping[str, str]:
    """Return the properties of an entry; one that is null is none, as in the service's own database."""
    properties = entry.get("properties")
    if properties is None:
        return {}
    known = (
        {key: value for key, value in properties.items() if value is not None} if isinstance(properties, dict) else {}
    )
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in known.values()):
        raise InternalError(f"unity: {doing}: the properties of `{_name(entry, doing)}` are not texts")
    return put_together(known)


def _schema(entry: Mapping[str, Any], doing: str) -> SchemaInfo:
    kind, root = entry.get("catalog_type"), entry.get("storage_root")
    return SchemaInfo(
        _name(entry, doing),
        _row(entry),
        _properties(entry, doing),
        kind if isinstance(kind, str) else None,
        root if isinstance(root, str) and root else None,
    )


def _table(entry: Mapping[str, Any], doing: str) -> TableInfo:
    location, kind = entry.get("storage_location"), entry.get("table_type")
    file_format = entry.get("data_source_format")
    return TableInfo(
        name=_name(entry, doing),
        row=_row(entry),
        location=location if isinstance(location, str) and location else None,
        properties=_properties(entry, doing),
        kind=kind if isinstance(kind, str) else "",
        format=file_format if isinstance(file_format, str) else "",
        answered_columns=entry.get("columns"),
    )
