"""Answer as a Unity Catalog server does: a stand-in for the reference server 0.6, whose jar is on no registry.

Tests use it where ``LANCENS_UNITY_HOME`` names no real server, and for what no real server can be brought to.
``tests/catalogs/unity/test_stand_in.py`` compares it with recorded answers. ``databricks=True`` switches to what
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
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from tests.servers.unity_values import (
    RefusalError,
    as_given,
    check_columns,
    columns_of,
    location_of,
    name_of,
    parameter_of,
    properties_of,
    split,
    text_of,
    unreadable,
    updated,
)

__all__ = ["API", "ISSUER", "Answer", "Contract", "jwt", "lance_entry"]

API = "/api/2.1/unity-catalog"
ISSUER = "internal"
_PAGE = 100
_LARGEST = 2**31 - 1
_GAP = "gap:"
_SECOND = "\0"
"""What the key of a second row of one name ends with, so that it sorts right behind the first."""
_MANAGED = {"storage_root": None, "storage_location": None}
_KINDS = {"MANAGED", "EXTERNAL", "VIEW", None}
_FORMATS = {None, "DELTA", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT"}
_OTHERS = {"volumes": "volumes", "functions": "functions", "models": "registered_models"}

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Answer:
    """A status and a body: JSON where it is a mapping, plain text where it is a text."""

    status: int
    body: Mapping[str, Any] | str


def _missing(kind: str, name: str) -> RefusalError:
    return RefusalError(404, f"{kind.upper()}_NOT_FOUND", f"{kind.capitalize()} not found: {name}")


def _refused(refusal: RefusalError) -> Answer:
    details = [{"reason": refusal.code, "@type": "google.rpc.ErrorInfo"}]
    return Answer(refusal.status, {"error_code": refusal.code, "details": details, "message": refusal.message})


def jwt(issuer: str) -> str:
    """Return a token in the form of a JWT; the contract looks at its issuer only."""
    parts = ({"alg": "none"}, {"iss": issuer, "sub": "admin"})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


def lance_entry(schema: str, name: str) -> dict[str, Any]:
    """Return what a Lance client says of a table with two columns, beside its names."""
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
    return {
        "table_type": "EXTERNAL",
        "data_source_format": "TEXT",
        "properties": {"table_type": "lance"},
        "storage_location": f"s3://lake/{schema}/{name}.lance",
        "columns": columns,
    }


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

    def __init__(
        self,
        *,
        databricks: bool = False,
        authorization: bool = False,
        sessions: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """``sessions`` are the credentials that are handed out for tables, by what their locations begin with."""
        self._databricks = databricks
        self._sessions = sessions
        self._authorization = authorization
        self._catalogs: dict[str, _Catalog] = {}
        self._lock = threading.RLock()
        self._clock = 1_700_000_000_000

    # ---- preparing a test, past the interface --------------------------------------------------------------------

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._catalogs.clear()

    def add_catalog(self, name: str, **details: Any) -> None:
        """Make a catalog."""
        with self._lock:
            self._catalogs[name] = _Catalog(
                {**self._stamp(), **_new_id("id"), **_MANAGED, "name": name, "properties": {}, **details}
            )

    def add_schema(self, catalog: str, name: str, **properties: str) -> None:
        """Make a schema."""
        with self._lock:
            self._put_schema(name, {"catalog_name": catalog, "properties": properties})

    def add_lance_table(self, catalog: str, schema: str, name: str) -> None:
        """Make an entry as a Lance client does, with two columns."""
        self.add_table(catalog, schema, name, **lance_entry(schema, name))

    def add_table(self, catalog: str, schema: str, name: str, **details: Any) -> None:
        """Make a table of any kind, such as a view, a managed table or one without a location."""
        with self._lock:
            parents = {"catalog_name": catalog, "schema_name": schema, "columns": [], "properties": {}}
            entry = {**self._stamp(), **_new_id("table_id"), "name": name, **parents, **details}
            self._schema(catalog, schema).tables[name] = entry

    def add_other(self, kind: str, catalog: str, schema: str, name: str) -> None:
        """Make a volume, a function or a model; ``kind`` is the route."""
        with self._lock:
            self._schema(catalog, schema).others[kind].add(name)

    def double(self, *names: str) -> None:
        """Make a catalog, a schema or a table twice, as two creates at the same moment do."""
        with self._lock:
            if len(names) == 1:
                self.add_catalog(names[0])
                self._catalogs[names[0] + _SECOND] = _Catalog({**self._catalogs[names[0]].info, **_new_id("id")})
            elif len(names) == 2:
                self.add_schema(*names)
                schemas = self._catalog(names[0]).schemas
                schemas[names[1] + _SECOND] = _Schema({**schemas[names[1]].info, **_new_id("schema_id")})
            else:
                self.add_lance_table(*names)
                tables = self._schema(*names[:2]).tables
                tables[names[2] + _SECOND] = {**tables[names[2]], **_new_id("table_id")}

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
        segments = [unquote(part) for part in path.removeprefix(API).removeprefix("/").split("/")]
        known = self._routes(segments) if path.startswith(f"{API}/") else {}
        try:
            self._authorize(token)
            if method not in known:
                status, said = (405, "Method Not Allowed") if known else (404, "Not Found")
                return Answer(status, f"Status: {status}\nDescription: {said}\n")
            if isinstance(body, str):
                raise unreadable()
            with self._lock:
                return known[method](segments[1:], query, body if isinstance(body, dict) else {})
        except RefusalError as refusal:
            return _refused(refusal)

    def _routes(
        self, segments: list[str]
    ) -> Mapping[str, Callable[[list[str], Mapping[str, str], dict[str, Any]], Answer]]:
        """Return what is done for each method of a route; nothing for a route that is not known."""
        match segments:
            case [kind] if kind in _OTHERS:
                return {"GET": lambda _, query, __: self._list_others(kind, query)}
            case ["catalogs"]:
                return {
                    "GET": lambda _, query, __: self._list_catalogs(query),
                    "POST": lambda _, __, body: self._create_catalog(body),
                }
            case ["catalogs", name] if name:
                return {
                    "GET": lambda names, _, __: self._answer(self._catalog(names[0]).info),
                    "DELETE": lambda names, query, _: self._delete_catalog(names[0], query),
                    "PATCH": lambda names, _, body: self._answer(updated(self._catalog(names[0]).info, body)),
                }
            case ["schemas"]:
                return {
                    "GET": lambda _, query, __: self._list_schemas(query),
                    "POST": lambda _, __, body: self._create_schema(body),
                }
            case ["schemas", name] if name:
                return {
                    "GET": lambda names, _, __: self._answer(self._schema(*split("schema full", names[0], 2)).info),
                    "PATCH": lambda names, _, body: self._update_schema(names[0], body),
                    "DELETE": lambda names, query, _: self._delete_schema(names[0], query),
                }
            case ["temporary-table-credentials"]:
                return {"POST": lambda _, __, body: self._hand_out(body)}
            case ["tables"]:
                return {
                    "GET": lambda _, query, __: self._list_tables(query),
                    "POST": lambda _, __, body: self._create_table(body),
                }
            case ["tables", name] if name:
                return {
                    "GET": lambda names, _, __: self._answer(self._table(*split("table", names[0], 3))),
                    "DELETE": lambda names, _, __: self._delete_table(names[0]),
                }
            case _:
                return {}

    def _hand_out(self, body: dict[str, Any]) -> Answer:
        tables = [
            table
            for catalog in self._catalogs.values()
            for schema in catalog.schemas.values()
            for table in schema.tables.values()
            if table["table_id"] == body.get("table_id")
        ]
        if not tables:
            raise _missing("table", str(body.get("table_id")))
        for prefix, session in self._sessions.items():
            if tables[0]["storage_location"].startswith(prefix):
                return self._answer({"aws_temp_credentials": dict(session), "expiration_time": self._clock})
        raise RefusalError(400, "FAILED_PRECONDITION", "S3 bucket configuration not found.")

    def _authorize(self, token: str | None) -> None:
        if not self._authorization:
            return
        try:
            claims = base64.urlsafe_b64decode((token or "").split(".")[1] + "==")
            issuer = json.loads(claims)["iss"]
        except (IndexError, ValueError, KeyError):
            raise RefusalError(401, "UNAUTHENTICATED", "No authorization found.") from None
        if issuer != ISSUER:
            raise RefusalError(403, "PERMISSION_DENIED", "Invalid access token.")

    def _stamp(self) -> dict[str, Any]:
        self._clock += 1
        times = {"created_at": self._clock, "updated_at": self._clock}
        return {**times, "created_by": None, "updated_by": None, "owner": None, "comment": None}

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
        _refuse_double(name, tables)
        return tables[name]

    def _refuse_duplicate(self, kind: str, name: str, names: Mapping[str, object]) -> None:
        if name in names:
            if self._databricks:
                raise RefusalError(409, "RESOURCE_ALREADY_EXISTS", f"{kind.capitalize()} '{name}' already exists")
            raise RefusalError(400, f"{kind.upper()}_ALREADY_EXISTS", f"{kind.capitalize()} already exists: {name}")

    def _create_catalog(self, body: dict[str, Any]) -> Answer:
        name, properties = name_of(body), properties_of(body)
        self._refuse_duplicate("catalog", name, self._catalogs)
        self.add_catalog(name, properties=properties, comment=body.get("comment"))
        return self._answer(self._catalogs[name].info)

    def _delete_catalog(self, name: str, query: Mapping[str, str]) -> Answer:
        schemas = self._catalog(name).schemas
        if schemas and query.get("force") != "true":
            raise RefusalError(400, "FAILED_PRECONDITION", "Cannot delete catalog with schemas")
        for schema in list(schemas):
            self._delete_schema(f"{name}.{schema.removesuffix(_SECOND)}", query)
        _drop_first(self._catalogs, name)
        return Answer(200, "200 OK")

    def _create_schema(self, body: dict[str, Any]) -> Answer:
        name, catalog = name_of(body), self._catalog(text_of(body, "catalog_name"))
        self._refuse_duplicate("schema", name, catalog.schemas)
        return self._answer(as_given(self._put_schema(name, body), body))

    def _put_schema(self, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        named = {"name": name, "catalog_name": body["catalog_name"], "full_name": f"{body['catalog_name']}.{name}"}
        own = _new_id("schema_id")
        root = body.get("storage_root")
        place = {"storage_root": root, "storage_location": f"{root}/__unitystorage/schemas/{own['schema_id']}"}
        managed = place if root else _MANAGED
        info = {**self._stamp(), **managed, **named, **own, "properties": properties_of(body)}
        schema = _Schema({**info, "comment": body.get("comment")})
        self._catalog(body["catalog_name"]).schemas[name] = schema
        return schema.info

    def _update_schema(self, name: str, body: dict[str, Any]) -> Answer:
        catalog, old = split("schema full", name, 2)
        info = updated(self._schema(catalog, old).info, body)
        if body.get("new_name") is not None:
            new = name_of({"name": body["new_name"]})
            schemas = self._catalog(catalog).schemas
            self._refuse_duplicate("schema", new, schemas)
            schemas[new] = schemas.pop(old)
            info.update(name=new, full_name=f"{catalog}.{new}")
        return self._answer(info)

    def _delete_schema(self, name: str, query: Mapping[str, str]) -> Answer:
        catalog, short = split("schema full", name, 2)
        schema = self._schema(catalog, short)
        if schema.contents and query.get("force") != "true":
            raise RefusalError(400, "FAILED_PRECONDITION", f"Cannot delete schema with {schema.contents[0]}")
        for table in list(schema.tables):
            self._delete_table(f"{name}.{table.removesuffix(_SECOND)}")
        _drop_first(self._catalogs[catalog].schemas, short)
        return Answer(200, "200 OK")

    def _create_table(self, body: dict[str, Any]) -> Answer:
        kind, shape = body.get("table_type"), body.get("data_source_format")
        if kind not in _KINDS or shape not in _FORMATS:
            raise unreadable()
        check_columns(body)
        name, columns = name_of(body), columns_of(body)
        schema = self._schema(text_of(body, "catalog_name"), text_of(body, "schema_name"))
        if kind is None:
            raise RefusalError(500, "INTERNAL", f"Error creating table: {name}: null")
        if kind == "VIEW":
            raise RefusalError(400, "INVALID_ARGUMENT", "view_definition is required for view")
        if kind == "MANAGED" and shape != "DELTA":
            raise RefusalError(400, "INVALID_ARGUMENT", "Managed table creation is only supported for Delta format.")
        location = location_of(body)
        if kind == "MANAGED":
            raise RefusalError(404, "TABLE_NOT_FOUND", f"Staging table not found: {location}")
        _refuse_double(name, schema.tables)
        self._refuse_duplicate("table", name, schema.tables)
        schema.tables[name] = {
            **self._stamp(),
            **_new_id("table_id"),
            "name": name,
            **{key: body[key] for key in ("catalog_name", "schema_name")},
            "table_type": kind,
            "data_source_format": shape,
            "columns": columns,
            "storage_location": location,
            "properties": properties_of(body),
            "comment": body.get("comment"),
            "view_definition": None,
            "view_dependencies": None,
        }
        return self._answer(as_given(schema.tables[name], body))

    def _delete_table(self, name: str) -> Answer:
        catalog, schema, short = split("table", name, 3)
        table = self._table(catalog, schema, short)
        if table.get("table_type") == "MANAGED" and table.get("storage_location"):
            shutil.rmtree(Path(unquote(urlsplit(table["storage_location"]).path)), ignore_errors=True)
        del self._schema(catalog, schema).tables[short]
        return Answer(200, "200 OK")

    # ---- lists ---------------------------------------------------------------------------------------------------

    def _list_catalogs(self, query: Mapping[str, str]) -> Answer:
        return self._page("catalogs", {name: found.info for name, found in self._catalogs.items()}, query)

    def _list_schemas(self, query: Mapping[str, str]) -> Answer:
        schemas = self._catalog(parameter_of(query, "catalog_name")).schemas
        return self._page("schemas", {name: schema.info for name, schema in schemas.items()}, query)

    def _list_tables(self, query: Mapping[str, str]) -> Answer:
        return self._page("tables", self._named_schema(query).tables, query)

    def _list_others(self, kind: str, query: Mapping[str, str]) -> Answer:
        if kind == "models" and not query.keys() & {"catalog_name", "schema_name"}:
            schemas = [schema for catalog in self._catalogs.values() for schema in catalog.schemas.values()]
            names = {name for schema in schemas for name in schema.others[kind]}
        else:
            names = self._named_schema(query).others[kind]
        return self._page(_OTHERS[kind], {name: {"name": name} for name in names}, query)

    def _named_schema(self, query: Mapping[str, str]) -> _Schema:
        return self._schema(parameter_of(query, "catalog_name"), parameter_of(query, "schema_name"))

    def _page(self, key: str, entries: Mapping[str, Mapping[str, Any]], query: Mapping[str, str]) -> Answer:
        token = query.get("page_token", "")
        try:
            asked = int(query.get("max_results") or "0")
        except ValueError:
            asked = -1
        if not 0 <= asked <= _LARGEST:
            raise RefusalError(400, "INVALID_ARGUMENT", "maxResults must be greater than or equal to 0")
        if token.startswith(_GAP):
            return Answer(200, {"next_page_token": token.removeprefix(_GAP)})
        size = min(asked, _PAGE) if asked else _PAGE
        names = sorted(key for key, entry in entries.items() if entry["name"] > token)[:size]
        following = entries[names[-1]]["name"] if len(names) == size else None
        if following is not None and self._databricks:
            following = _GAP + following
        return Answer(200, {key: [entries[name] for name in names], "next_page_token": following})


def _refuse_double(name: str, names: Mapping[str, object]) -> None:
    if name + _SECOND in names:
        raise RefusalError(500, "INTERNAL", "Query did not return a unique result: 2 results were returned")


def _new_id(key: str) -> dict[str, str]:
    return {key: str(uuid.uuid4())}


def _drop_first(rows: dict[str, RowT], name: str) -> None:
    del rows[name]
    if name + _SECOND in rows:
        rows[name] = rows.pop(name + _SECOND)
