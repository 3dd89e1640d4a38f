"""Call the routes of a Unity Catalog service, one method each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from reconciler.backends.http.client import HttpClient, Paging, path
from reconciler.backends.http.listing import list_without_doubles, require_same_name
from reconciler.backends.http.refusals import UnknownRouteError
from reconciler.backends.odd_entries import NO_LOCATION
from reconciler.backends.unity.rules import join_marks, split_marks
from reconciler.model import errors
from reconciler.model.names import Identifier, join

_LANCE = "lance"
_EXTERNAL = "EXTERNAL"
_FORMAT = "TEXT"
_TABLE_TYPE = "table_type"
_ROW_KEYS = ("table_id", "schema_id", "id")
_SERVERS_OWN_PAGE_SIZE = "0"
"""Requests the server's default page size: some servers refuse numbers above their limit."""

_OTHER_KINDS = {"volumes": "/volumes", "functions": "/functions", "registered_models": "/models"}
"""The other objects of a schema: the key in the response, and the route."""
_CREDENTIALS = {
    "aws_temp_credentials": {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
    },
    "azure_user_delegation_sas": {"sas_token": "azure_storage_sas_token"},
    "gcp_oauth_token": {"oauth_token": "google_storage_token"},
}
"""The credentials in a response, and pylance's names for them."""


@dataclass(frozen=True, slots=True)
class UnityEntry:
    """The entry of a catalog, a schema or a table.

    ``row`` distinguishes two entries of one name. ``location`` is that of a table's data, or the storage root of a
    catalog or schema. ``columns`` are empty for tables from lists.
    """

    name: str
    row: str
    properties: Mapping[str, str]
    kind: str = ""
    location: str | None = None
    format: str = ""
    columns: Sequence[Mapping[str, Any]] = ()
    comment: str | None = None

    @property
    def is_lance(self) -> bool:
        """Whether it is external, marked as a Lance table, and has a location."""
        return self.kind == _EXTERNAL and self.is_marked and bool(self.location)

    @property
    def mismatch(self) -> str:
        """Why a marked entry is not a Lance table."""
        return NO_LOCATION if self.kind == _EXTERNAL else f"marked as a Lance table, but its type is {self.kind}"

    @property
    def is_marked(self) -> bool:
        """Whether its properties say that it is a Lance table."""
        return self.properties.get(_TABLE_TYPE, "").lower() == _LANCE


class UnityService:
    """Calls one service; lists go to their last page.

    Errors are those of :mod:`reconciler.model.errors`. The reference server 0.6 checks that a name is free before it
    creates an object, and two creates at the same moment both succeed. It responds with 500 to every call about a
    doubled table; of doubled schemas or catalogs it uses the first row. So a list raises DoubledNameError for a doubled
    name that ``concerns`` the caller.
    """

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    # ---- reading -------------------------------------------------------------------------------------------------

    def read(self, identifier: Identifier) -> UnityEntry:
        """GET /catalogs/{name}, /schemas/{full_name} or /tables/{full_name}."""
        doing = f"read the {_label(identifier)}"
        answer = self._http.request_json("GET", _route(identifier), doing=doing, errors=_missing_errors(identifier))
        entry = _entry(answer, _kind(identifier), doing)
        if len(identifier) > 1:
            require_same_name("unity", identifier, (*identifier[:-1], entry.name))
        return entry

    def catalogs(self, concerns: Callable[[UnityEntry], bool]) -> list[UnityEntry]:
        """GET /catalogs, all pages."""
        return self._list_entries("catalog", (), concerns)

    def schemas(self, catalog: str, concerns: Callable[[UnityEntry], bool] = lambda _: False) -> list[UnityEntry]:
        """GET /schemas, all pages."""
        return self._list_entries("schema", (catalog,), concerns)

    def tables(self, schema: Identifier, concerns: Callable[[UnityEntry], bool] = lambda _: False) -> list[UnityEntry]:
        """GET /tables, all pages: tables and views of any format, without columns."""
        return self._list_entries("table", schema, concerns)

    def other_names(self, schema: Identifier) -> Iterator[str]:
        """Yield the names of a schema's volumes, functions and models.

        A service without a route has none of them.
        """
        for key, route in _OTHER_KINDS.items():
            doing = f"list the {key.replace('_', ' ')} of `{join(schema)}`"
            with suppress(UnknownRouteError):
                for entry in self._paged_entries(route, key, schema, doing):
                    yield _name(entry, doing)

    def vended_options(self, identifier: Identifier, *, writes: bool) -> dict[str, str]:
        """POST /temporary-table-credentials: return storage options."""
        table = self.read(identifier).row
        if writes:
            with suppress(errors.PermissionDeniedError):
                return self._credentials(identifier, table, "READ_WRITE")
        return self._credentials(identifier, table, "READ")

    def _credentials(self, identifier: Identifier, table: str, operation: str) -> dict[str, str]:
        answer = self._http.request_json(
            "POST",
            "/temporary-table-credentials",
            doing=f"ask for credentials for the {_label(identifier)}",
            body={"table_id": table, "operation": operation},
            errors=_missing_errors(identifier),
            repeatable=True,
        )
        return dict(_options_in(answer))

    # ---- writing -------------------------------------------------------------------------------------------------

    def create_schema(self, identifier: Identifier, properties: Mapping[str, str]) -> UnityEntry:
        """POST /schemas."""
        doing = f"create the {_label(identifier)}"
        body = {"name": identifier[-1], "catalog_name": identifier[0], "properties": split_marks(properties)}
        expected = {404: errors.NamespaceNotFoundError, 409: errors.NamespaceAlreadyExistsError}
        return _entry(
            self._http.request_json("POST", "/schemas", doing=doing, body=body, errors=expected), "schema", doing
        )

    def set_schema_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """PATCH /schemas/{full_name}: replace all properties."""
        doing = f"change the properties of the {_label(identifier)}"
        body = {"properties": split_marks(properties)}
        self._http.send("PATCH", _route(identifier), doing=doing, body=body, errors=_missing_errors(identifier))

    def create_table(
        self,
        identifier: Identifier,
        location: str,
        properties: Mapping[str, str],
        columns: Sequence[Mapping[str, Any]],
        comment: str | None,
    ) -> UnityEntry:
        """POST /tables: an external table, as text to Unity ("DeclareTable")."""
        doing = f"create the entry of the {_label(identifier)}"
        body: dict[str, object] = {
            "name": identifier[-1],
            **_parent(identifier[:-1]),
            "table_type": _EXTERNAL,
            "data_source_format": _FORMAT,
            "columns": columns,
            "storage_location": location,
            "properties": {**split_marks(properties), _TABLE_TYPE: _LANCE},
            **({} if comment is None else {"comment": comment}),
        }
        expected = {404: errors.NamespaceNotFoundError, 409: errors.TableAlreadyExistsError}
        return _entry(
            self._http.request_json("POST", "/tables", doing=doing, body=body, errors=expected), "table", doing
        )

    def delete(self, identifier: Identifier, before_repeat: Callable[[], object] = lambda: None) -> None:
        """DELETE /schemas/{full_name} or /tables/{full_name}, the entry alone.

        ``force`` is never sent, so the server refuses a schema that is not empty. For a managed table, the server
        deletes the data.
        """
        doing = f"remove the entry of the {_label(identifier)}"
        expected = _missing_errors(identifier)
        if _kind(identifier) == "schema":
            expected |= dict.fromkeys((409, 412, 422), errors.NamespaceNotEmptyError)
        self._http.send("DELETE", _route(identifier), doing=doing, errors=expected, before_repeat=before_repeat)

    # ---- lists ---------------------------------------------------------------------------------------------------

    def _list_entries(self, kind: str, parent: Identifier, concerns: Callable[[UnityEntry], bool]) -> list[UnityEntry]:
        doing = f"list the {kind}s{f' of `{join(parent)}`' if parent else ''}"

        def read() -> Iterator[UnityEntry]:
            for entry in self._paged_entries(f"/{kind}s", f"{kind}s", parent, doing):
                yield _entry({**entry, "columns": None}, kind, doing)

        def problem(name: str) -> str:
            return f"unity: {double_problem((*parent, name))}"

        return list_without_doubles(read, lambda entry: entry.name, concerns, problem)

    def _paged_entries(self, route: str, key: str, parent: Identifier, doing: str) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of all pages: each row once, and several rows of one name."""
        pages = Paging(
            "page_token",
            "next_page_token",
            entry_type=dict,
            identity=lambda entry: (_name(entry, doing), _row_key(entry)),
            distinct=True,
            may_omit_list=True,
            resume=partial(_resume, doing=doing),
        )
        query = {**_parent(parent), "max_results": _SERVERS_OWN_PAGE_SIZE}
        return self._http.list_entries(route, key, pages, doing=doing, query=query)


def double_problem(identifier: Identifier) -> str:
    """Return the message for a name that two entries have, with the remedy.

    It also says how that happens.
    """
    remedy = (
        "the service neither reads nor removes either of them, not even by force: have one of the two rows taken out "
        "of its database, and leave the schema out with `scope` until then"
        if _kind(identifier) == "table"
        else "the service uses the one it finds first: have the other one dropped in Unity Catalog"
    )
    return (
        f"the {_label(identifier)} is there twice, as after two creates at the same moment, which this service lets "
        f"both succeed; {remedy}"
    )


def _kind(identifier: Identifier) -> str:
    return ("catalog", "schema", "table")[len(identifier) - 1]


def _label(identifier: Identifier) -> str:
    return f"{_kind(identifier)} `{join(identifier)}`"


def _route(identifier: Identifier) -> str:
    return path(f"{_kind(identifier)}s", ".".join(identifier))


def _missing_errors(identifier: Identifier) -> dict[int, type[errors.BackendError]]:
    return {404: errors.TableNotFoundError if _kind(identifier) == "table" else errors.NamespaceNotFoundError}


def _parent(namespace: Identifier) -> dict[str, str]:
    return dict(zip(("catalog_name", "schema_name"), namespace, strict=False))


def _options_in(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the storage options in a response, for any of the three clouds."""
    for kind, names in _CREDENTIALS.items():
        credentials = answer.get(kind)
        for name, option in names.items():
            value = credentials.get(name) if isinstance(credentials, Mapping) else None
            if isinstance(value, str) and value:
                yield option, value


def _resume(token: str, entries: Sequence[Mapping[str, Any]], doing: str) -> str:
    """Return the token for the next request.

    The reference server's token is the last name on the page; the next page begins after that name. If two rows have
    one name and only the first is on this page, the second would be on none. So the token is the name before the last
    one, which is then listed again.
    """
    names = [_name(entry, doing) for entry in entries]
    if len(set(names)) > 1 and token == names[-1]:
        return next(name for name in reversed(names) if name != token)
    return token


def _name(entry: Mapping[str, Any], doing: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise errors.InternalError(f"unity: {doing}: the answer holds an entry without a name")
    return name


def _row_key(entry: Mapping[str, Any]) -> str:
    """Return the identity of an entry: its id, or else its whole JSON."""
    identity = next((entry[key] for key in _ROW_KEYS if isinstance(entry.get(key), str)), None)
    return identity or json.dumps(entry, sort_keys=True)


def _entry(answer: Mapping[str, Any], kind: str, doing: str) -> UnityEntry:
    """Parse the entry of a catalog, schema or table in a response.

    A property that is null counts as missing, as in the service's own database.
    """

    def text(key: str) -> str:
        value = answer.get(key)
        return value if isinstance(value, str) else ""

    name, properties, columns = _name(answer, doing), answer.get("properties"), answer.get("columns")
    known = (
        {key: value for key, value in properties.items() if value is not None} if isinstance(properties, dict) else {}
    )
    if not isinstance(properties, dict | None) or not all(isinstance(value, str) for value in known.values()):
        raise errors.InternalError(f"unity: {doing}: the properties of `{name}` are not texts")
    is_table = kind == "table"
    return UnityEntry(
        name,
        _row_key(answer),
        join_marks(known),
        kind=text("table_type" if is_table else "catalog_type"),
        location=text("storage_location" if is_table else "storage_root") or None,
        format=text("data_source_format"),
        columns=[column for column in columns if isinstance(column, dict)] if isinstance(columns, list) else (),
        comment=text("comment") or None,
    )
