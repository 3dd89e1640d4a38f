"""What a Unity Catalog server answers: the measured behaviour of the reference server 0.6, row by row.

No jars of that server are to be had from the registries, so this stands in for it. It is not the real one: each row
is listed in ``tests/servers/test_unity_contract_server.py`` and held there. ``databricks=True`` switches to what
Databricks' own Unity answers otherwise.
"""

from __future__ import annotations

import base64
import json
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["ISSUER", "Answer", "Contract", "jwt"]

API = "/api/2.1/unity-catalog"
ISSUER = "internal"
_PAGE = 100
_GAP = "gap:"
_FORMATS = {"DELTA", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT"}
_OTHERS = {"volumes": "volumes", "functions": "functions", "models": "registered_models"}


@dataclass(frozen=True)
class Answer:
    """A status and a body: JSON where it is a mapping, plain text where it is a text."""

    status: int
    body: Mapping[str, Any] | str


class _RefusalError(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.answer = Answer(status, {"error_code": code, "details": [], "message": message})


def _missing(kind: str, name: str) -> _RefusalError:
    return _RefusalError(404, f"{kind.upper()}_NOT_FOUND", f"{kind.capitalize()} not found: {name}")


def jwt(issuer: str) -> str:
    """Return a token in the form of a JWT; the contract looks at its issuer only."""
    parts = ({"alg": "none"}, {"iss": issuer, "sub": "admin"})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


@dataclass
class _Schema:
    info: dict[str, Any]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    others: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in _OTHERS})

    @property
    def contents(self) -> list[str]:
        held = {"tables": self.tables, **self.others}
        return [kind for kind, names in held.items() if names]


@dataclass
class _Catalog:
    info: dict[str, Any]
    schemas: dict[str, _Schema] = field(default_factory=dict)


class Contract:
    """The state of one server and its answers. Safe to call from several threads."""

    def __init__(self, *, databricks: bool = False, authorization: bool = False) -> None:
        self._databricks = databricks
        self._authorization = authorization
        self._catalogs: dict[str, _Catalog] = {}
        self._lock = threading.RLock()
        self._clock = 1_700_000_000_000

    # ---- preparing a test, past the interface --------------------------------------------------------------------

    def add_catalog(self, name: str, **details: Any) -> None:
        """Make a catalog."""
        with self._lock:
            self._catalogs[name] = _Catalog({**self._stamp(), "name": name, "properties": {}, **details})

    def add_schema(self, catalog: str, name: str, **properties: str) -> None:
        """Make a schema."""
        with self._lock:
            self._create_schema({"name": name, "catalog_name": catalog, "properties": properties})

    def add_lance_table(self, catalog: str, schema: str, name: str) -> None:
        """Make an entry as a Lance client does, with two columns."""
        fields = [("id", "bigint", "LONG", "long"), ("name", "string", "STRING", "string")]
        columns = [
            {
                "name": field,
                "type_text": text,
                "type_name": kind,
                "position": position,
                "type_json": json.dumps({"name": field, "type": spark, "nullable": True, "metadata": {}}),
            }
            for position, (field, text, kind, spark) in enumerate(fields)
        ]
        details = {"table_type": "EXTERNAL", "data_source_format": "TEXT", "properties": {"table_type": "lance"}}
        location = f"s3://lake/{schema}/{name}.lance"
        self.add_table(catalog, schema, name, storage_location=location, columns=columns, **details)

    def add_table(self, catalog: str, schema: str, name: str, **details: Any) -> None:
        """Make a table of any kind, such as a view, a managed table or one without a location."""
        with self._lock:
            parents = {"catalog_name": catalog, "schema_name": schema, "columns": [], "properties": {}}
            self._schema(catalog, schema).tables[name] = {**self._stamp(), "name": name, **parents, **details}

    def add_other(self, kind: str, catalog: str, schema: str, name: str) -> None:
        """Make a volume, a function or a model; ``kind`` is the route."""
        with self._lock:
            self._schema(catalog, schema).others[kind].add(name)

    def remove(self, catalog: str, schema: str, table: str | None = None) -> None:
        """Remove a schema or a table, as somebody else would in between."""
        with self._lock:
            if table is None:
                del self._catalogs[catalog].schemas[schema]
            else:
                del self._schema(catalog, schema).tables[table]

    def table(self, catalog: str, schema: str, name: str) -> Mapping[str, Any]:
        """Return an entry as it is kept."""
        with self._lock:
            return dict(self._schema(catalog, schema).tables[name])

    # ---- answering -----------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: Mapping[str, str], body: object, token: str | None) -> Answer:
        """Return the answer to one request."""
        segments = [unquote(part) for part in path.removeprefix(API).strip("/").split("/")]
        route = self._route(method, segments) if path.startswith(f"{API}/") else None
        if route is None:
            return Answer(404, "Status: 404\nDescription: Not Found\n")
        try:
            self._authorize(token)
            with self._lock:
                return route(segments[1:], query, body if isinstance(body, dict) else {})
        except _RefusalError as refusal:
            return refusal.answer
        except KeyError as error:
            message = f"Cannot invoke a method because {error} is null"
            return Answer(500, {"error_code": "INTERNAL", "details": [], "message": message})

    def _route(
        self, method: str, segments: list[str]
    ) -> Callable[[list[str], Mapping[str, str], dict[str, Any]], Answer] | None:
        one = len(segments) == 2
        if segments[0] in _OTHERS and method == "GET" and not one:
            return lambda _, query, __: self._list_others(segments[0], query)
        routes: dict[tuple[str, str, bool], Callable[[list[str], Mapping[str, str], dict[str, Any]], Answer]] = {
            ("GET", "catalogs", False): lambda _, query, __: self._list_catalogs(query),
            ("GET", "catalogs", True): lambda names, _, __: self._answer(self._catalog(names[0]).info),
            ("POST", "catalogs", False): lambda _, __, body: self._create_catalog(body),
            ("GET", "schemas", False): lambda _, query, __: self._list_schemas(query),
            ("GET", "schemas", True): lambda names, _, __: self._answer(self._schema(*_split(names[0], 2)).info),
            ("POST", "schemas", False): lambda _, __, body: self._create_schema(body),
            ("PATCH", "schemas", True): lambda names, _, body: self._update_schema(names[0], body),
            ("DELETE", "schemas", True): lambda names, query, _: self._delete_schema(names[0], query),
            ("GET", "tables", False): lambda _, query, __: self._list_tables(query),
            ("GET", "tables", True): lambda names, _, __: self._answer(self._table(*_split(names[0], 3))),
            ("POST", "tables", False): lambda _, __, body: self._create_table(body),
            ("DELETE", "tables", True): lambda names, _, __: self._delete_table(names[0]),
        }
        return routes.get((method, segments[0], one)) if len(segments) <= 2 else None

    def _authorize(self, token: str | None) -> None:
        if not self._authorization:
            return
        try:
            claims = base64.urlsafe_b64decode((token or "").split(".")[1] + "==")
            issuer = json.loads(claims)["iss"]
        except (IndexError, ValueError, KeyError):
            raise _RefusalError(401, "UNAUTHENTICATED", "No authorization found.") from None
        if issuer != ISSUER:
            raise _RefusalError(403, "PERMISSION_DENIED", "Invalid access token.")

    def _stamp(self) -> dict[str, Any]:
        self._clock += 1
        return {"created_at": self._clock, "updated_at": None, "owner": None, "comment": None}

    @staticmethod
    def _answer(info: Mapping[str, Any]) -> Answer:
        return Answer(200, info)

    # ---- objects -------------------------------------------------------------------------------------------------

    def _catalog(self, name: str) -> _Catalog:
        if name not in self._catalogs:
            raise _missing("catalog", name)
        return self._catalogs[name]

    def _schema(self, catalog: str, name: str) -> _Schema:
        schemas = self._catalog(catalog).schemas
        if name not in schemas:
            raise _missing("schema", f"{catalog}.{name}")
        return schemas[name]

    def _table(self, catalog: str, schema: str, name: str) -> dict[str, Any]:
        tables = self._schema(catalog, schema).tables
        if name not in tables:
            raise _missing("table", f"{catalog}.{schema}.{name}")
        return tables[name]

    def _refuse_duplicate(self, kind: str, name: str, names: Mapping[str, object]) -> None:
        if name in names:
            if self._databricks:
                raise _RefusalError(409, "RESOURCE_ALREADY_EXISTS", f"{kind.capitalize()} '{name}' already exists")
            raise _RefusalError(400, f"{kind.upper()}_ALREADY_EXISTS", f"{kind.capitalize()} already exists: {name}")

    def _create_catalog(self, body: dict[str, Any]) -> Answer:
        name = _name(body)
        self._refuse_duplicate("catalog", name, self._catalogs)
        self.add_catalog(name, properties=dict(body.get("properties") or {}))
        return self._answer(self._catalogs[name].info)

    def _create_schema(self, body: dict[str, Any]) -> Answer:
        name, catalog = _name(body), self._catalog(body["catalog_name"])
        self._refuse_duplicate("schema", name, catalog.schemas)
        full = f"{body['catalog_name']}.{name}"
        named = {"name": name, "catalog_name": body["catalog_name"], "full_name": full}
        info = {**self._stamp(), **named, "schema_id": str(uuid.uuid4()), "properties": body.get("properties") or {}}
        catalog.schemas[name] = _Schema({**info, "comment": body.get("comment")})
        return self._answer(catalog.schemas[name].info)

    def _update_schema(self, name: str, body: dict[str, Any]) -> Answer:
        schema = self._schema(*_split(name, 2))
        if body.get("properties"):
            schema.info["properties"] = dict(body["properties"])
        if body.get("comment") is not None:
            schema.info["comment"] = body["comment"]
        return self._answer(schema.info)

    def _delete_schema(self, name: str, query: Mapping[str, str]) -> Answer:
        catalog, short = _split(name, 2)
        schema = self._schema(catalog, short)
        if schema.contents and query.get("force") != "true":
            raise _RefusalError(400, "FAILED_PRECONDITION", f"Cannot delete schema with {schema.contents[0]}")
        for table in list(schema.tables):
            self._delete_table(f"{name}.{table}")
        del self._catalogs[catalog].schemas[short]
        return Answer(200, "200 OK")

    def _create_table(self, body: dict[str, Any]) -> Answer:
        name = _name(body)
        schema = self._schema(body["catalog_name"], body["schema_name"])
        self._refuse_duplicate("table", name, schema.tables)
        kind, location, shape = body["table_type"], body["storage_location"], body.get("data_source_format")
        if shape not in _FORMATS:
            raise _RefusalError(400, "INVALID_ARGUMENT", f"Unexpected value '{shape}'")
        if kind == "MANAGED" and shape != "DELTA":
            raise _RefusalError(400, "INVALID_ARGUMENT", "MANAGED table creation is only supported for Delta")
        columns = [_column(column) for column in body.get("columns") or []]
        named = {key: body[key] for key in ("name", "catalog_name", "schema_name", "table_type", "data_source_format")}
        schema.tables[name] = {
            **self._stamp(),
            **named,
            "columns": columns,
            "storage_location": Path(location).as_uri() if location.startswith("/") else location,
            "properties": dict(body.get("properties") or {}),
            "comment": body.get("comment"),
            "table_id": str(uuid.uuid4()),
        }
        return self._answer(schema.tables[name])

    def _delete_table(self, name: str) -> Answer:
        catalog, schema, short = _split(name, 3)
        table = self._table(catalog, schema, short)
        if table.get("table_type") == "MANAGED" and table.get("storage_location"):
            shutil.rmtree(Path(unquote(urlsplit(table["storage_location"]).path)), ignore_errors=True)
        del self._schema(catalog, schema).tables[short]
        return Answer(200, "200 OK")

    # ---- lists ---------------------------------------------------------------------------------------------------

    def _list_catalogs(self, query: Mapping[str, str]) -> Answer:
        return self._page("catalogs", {name: found.info for name, found in self._catalogs.items()}, query)

    def _list_schemas(self, query: Mapping[str, str]) -> Answer:
        schemas = self._catalog(query["catalog_name"]).schemas
        return self._page("schemas", {name: schema.info for name, schema in schemas.items()}, query)

    def _list_tables(self, query: Mapping[str, str]) -> Answer:
        return self._page("tables", self._schema(query["catalog_name"], query["schema_name"]).tables, query)

    def _list_others(self, kind: str, query: Mapping[str, str]) -> Answer:
        names = self._schema(query["catalog_name"], query["schema_name"]).others[kind]
        return self._page(_OTHERS[kind], {name: {"name": name} for name in names}, query)

    def _page(self, key: str, entries: Mapping[str, Mapping[str, Any]], query: Mapping[str, str]) -> Answer:
        asked, token = int(query.get("max_results", "0")), query.get("page_token", "")
        if asked < 0:
            raise _RefusalError(400, "INVALID_ARGUMENT", "maxResults must be greater than or equal to 0")
        if token.startswith(_GAP):
            return Answer(200, {"next_page_token": token.removeprefix(_GAP)})
        size = min(asked, _PAGE) if asked else _PAGE
        names = sorted(name for name in entries if name > token)[:size]
        following = names[-1] if len(names) == size else None
        if following is not None and self._databricks:
            following = _GAP + following
        return Answer(200, {key: [entries[name] for name in names], "next_page_token": following})


def _split(name: str, parts: int) -> list[str]:
    names = name.split(".")
    if len(names) != parts:
        raise _RefusalError(400, "INVALID_ARGUMENT", f"Invalid name: {name}")
    return names


def _name(body: Mapping[str, Any]) -> str:
    name = body["name"]
    if not isinstance(name, str) or not name or any(character in " ./" or ord(character) < 32 for character in name):
        message = "Name cannot contain a period, space, forward-slash, or control characters"
        raise _RefusalError(400, "INVALID_ARGUMENT", message)
    return name


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("name", "type_json"):
        if not column.get(key):
            raise _RefusalError(400, "INVALID_ARGUMENT", f"Column {key} is missing")
    kept = {key: column[key] for key in ("name", "type_text", "type_json", "type_name", "position")}
    try:
        whole = json.loads(column["type_json"])
        fits = whole["name"] == column["name"] and {"type", "nullable", "metadata"} <= set(whole)
    except (ValueError, KeyError, TypeError):
        fits = False
    if not fits:
        raise _RefusalError(400, "INVALID_ARGUMENT", f"Column {column['name']}: type_json is no field of this name")
    return {"nullable": True, "comment": None, **column, **kept}
