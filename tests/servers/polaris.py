"""A stand-in for Apache Polaris 1.5.0, held to what the real server answered (`recorded/`)."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote

import pytest

from reconciler.model import locations
from tests.servers.listening import http_server

__all__ = ["FREE", "Polaris", "polaris_server", "real_polaris"]

FREE = "polaris.config.allow.unstructured.table.location"
_BASE = "/api/catalog"
_MANAGEMENT = "/api/management/v1/"
_Answer: TypeAlias = tuple[int, object]
_Name: TypeAlias = tuple[str, ...]
_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    *(f"{method} {_NAMESPACE}" for method in ("GET", "HEAD")),
    "POST /v1/{prefix}/namespaces",
    f"POST {_NAMESPACE}/properties",
    f"DELETE {_NAMESPACE}",
    f"GET {_NAMESPACE}/tables",
    *(f"{method} {_NAMESPACE}/tables/{{table}}" for method in ("GET", "HEAD")),
    f"POST {_NAMESPACE}/tables",
    *(f"{method} {_NAMESPACE}/tables/{{table}}" for method in ("POST", "DELETE")),
    "POST /v1/{prefix}/tables/rename",
    f"POST {_NAMESPACE}/register",
    f"POST {_NAMESPACE}/tables/{{table}}/metrics",
    "POST /v1/{prefix}/transactions/commit",
    f"GET {_NAMESPACE}/views",
    *(f"{method} {_NAMESPACE}/views/{{view}}" for method in ("GET", "HEAD")),
    f"POST {_NAMESPACE}/views",
    *(f"{method} {_NAMESPACE}/views/{{view}}" for method in ("POST", "DELETE")),
    "POST /v1/{prefix}/views/rename",
    *(f"{method} polaris{_NAMESPACE}/generic-tables" for method in ("GET", "POST")),
    *(f"{method} polaris{_NAMESPACE}/generic-tables/{{generic-table}}" for method in ("DELETE", "GET")),
    *(f"{method} /polaris{_NAMESPACE}/policies" for method in ("GET", "POST")),
    *(f"{method} /polaris{_NAMESPACE}/policies/{{policy-name}}" for method in ("GET", "PUT", "DELETE")),
    *(f"{method} /polaris{_NAMESPACE}/policies/{{policy-name}}/mappings" for method in ("PUT", "POST")),
    "GET /polaris/v1/{prefix}/applicable-policies",
]


@dataclass
class Polaris:
    """Warehouses by name with their properties, and what is in them by warehouse, levels and name.

    ``denied`` are operations that the caller may not do; ``page`` is how many names a page holds at most.
    """

    url: str = ""
    warehouses: dict[str, dict[str, str]] = field(
        default_factory=lambda: {"ware": {"default-base-location": "file:///BASE"}}
    )
    namespaces: dict[_Name, dict[str, str]] = field(default_factory=dict)
    tables: dict[_Name, dict[str, Any]] = field(default_factory=dict)
    generic: dict[_Name, dict[str, Any]] = field(default_factory=dict)
    views: set[_Name] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    page: int = 1000
    requests: list[tuple[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def place(self, folder: Path) -> None:
        """Move the warehouse to a folder, where tables can have data."""
        self.warehouses["ware"]["default-base-location"] = folder.as_uri()

    def answer(self, method: str, target: str, body: Any = None, etag: str = "") -> _Answer:
        """Return the status and the content for a request."""
        with self.lock:
            self.requests.append((f"{method} {target}", body))
            path, _, query = target.partition("?")
            asked = {key: value[0] for key, value in parse_qs(query, keep_blank_values=True).items()}
            if path.startswith(_MANAGEMENT):
                return self._managed(path.removeprefix(_MANAGEMENT).split("/"), body)
            parts = path.removeprefix(_BASE).strip("/").split("/")
            if parts == ["v1", "oauth", "tokens"]:
                return 200, {"access_token": "polaris", "token_type": "bearer", "expires_in": 3600}
            if parts == ["v1", "config"]:
                return self._configuration(asked["warehouse"])
            if parts == [""]:
                return 404, ""
            is_generic = parts[0] == "polaris"
            warehouse, *rest = parts[2:] if is_generic else parts[1:]
            if rest == ["tables", "rename"]:
                return self._renamed(warehouse, body)
            if rest == ["namespaces"]:
                return self._created(warehouse, body) if method == "POST" else self._listed(warehouse, asked)
            key, below = (warehouse, *unquote(rest[1]).split("\x1f")), [unquote(name) for name in rest[2:]]
            return self._in_namespace(method, key, below, body, asked, etag)

    # ---- warehouses and principals -------------------------------------------------------------------------------

    def _configuration(self, warehouse: str) -> _Answer:
        if warehouse not in self.warehouses:
            return _error(404, "NotFoundException", f"Unable to find warehouse {warehouse}")
        base = self.warehouses[warehouse]["default-base-location"]
        return 200, {
            "defaults": {"default-base-location": base},
            "overrides": {"prefix": warehouse},
            "endpoints": _ENDPOINTS,
        }

    def _managed(self, parts: list[str], body: Any) -> _Answer:
        if parts == ["catalogs"]:
            made = body["catalog"]
            taken = [found["default-base-location"] for found in self.warehouses.values()]
            if made["properties"]["default-base-location"] in taken:
                said = "One or more of its locations overlaps with an existing catalog"
                return _error(400, "ValidationException", f"Cannot create Catalog {made['name']}. {said}")
            self.warehouses[made["name"]] = made["properties"]
            times = {"createTimestamp": 1, "lastUpdateTimestamp": 0, "entityVersion": 1}
            return 201, {**made, **times}
        if parts[0] == "catalogs" and parts[1] not in self.warehouses:
            return _error(404, "NotFoundException", f"Catalog not found: {parts[1]}")
        roles = body.get("principalRole", body.get("catalogRole"))
        if parts[-1] not in ("principal-roles", "catalog-roles") or parts[0] == "principals":
            return 201, "(credentials cut)" if parts[0] == "principals" else ""
        times = {"createTimestamp": 1, "lastUpdateTimestamp": 1, "entityVersion": 1}
        federated = {"federated": False} if "principalRole" in body else {}
        return 201, {"name": roles["name"], **federated, "properties": {}, **times}

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def _listed(self, warehouse: str, asked: Mapping[str, str]) -> _Answer:
        above = (warehouse, *asked["parent"].split("\x1f")) if "parent" in asked else (warehouse,)
        if len(above) > 1 and above not in self.namespaces:
            return _missing(above)
        found = [list(key[1:]) for key in self.namespaces if key[:-1] == above]
        return 200, self._page("namespaces", found, asked)

    def _page(self, key: str, found: list[Any], asked: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of ``found``, all of it where none was asked for by a token."""
        if "pageToken" not in asked:
            return {key: found, "next-page-token": None}
        start = int(asked["pageToken"] or 0)
        end = start + min(self.page, int(asked.get("pageSize", self.page)))
        return {key: found[start:end], "next-page-token": str(end) if end < len(found) else None}

    def _created(self, warehouse: str, body: Any) -> _Answer:
        key = (warehouse, *body["namespace"])
        if len(key) > 2 and key[:-1] not in self.namespaces:
            return _missing(key[:-1])
        if key in self.namespaces:
            message = f"Cannot create namespace {_named(key)}. Namespace already exists"
            return _error(409, "AlreadyExistsException", message)
        self.namespaces[key] = {"location": locations.join(self._home(key[:-1]), key[-1]), **body["properties"]}
        return 200, {"namespace": body["namespace"], "properties": self.namespaces[key]}

    def _home(self, key: _Name) -> str:
        properties = self.namespaces[key] if len(key) > 1 else {}
        return properties.get("location") or self.warehouses[key[0]]["default-base-location"]

    def _changed(self, key: _Name, body: Any) -> _Answer:
        properties, updates, removals = self.namespaces[key], body["updates"], body["removals"]
        properties.update(updates)
        if updates and removals:  # the updates are done, and the removals are not
            return _error(409, "CommitConflictException", f"Concurrent modification of namespace: {_named(key)}")
        gone = [name for name in removals if properties.pop(name, None) is not None]
        missing = [name for name in removals if name not in gone]
        return 200, {"removed": gone, "updated": list(updates), "missing": missing}

    def _dropped(self, key: _Name) -> _Answer:
        held = (*self.namespaces, *self.tables, *self.generic, *self.views)
        if any(found[:-1] == key for found in held):
            return _error(409, "NamespaceNotEmptyException", f"Namespace {_named(key)} is not empty")
        del self.namespaces[key]
        return 204, ""

    def _in_namespace(
        self, method: str, key: _Name, below: list[str], body: Any, asked: Mapping[str, str], etag: str
    ) -> _Answer:
        kind, *names = below or [""]
        if names:
            call = self._table if kind == "tables" else self._generic
            return call(method, (*key, names[0]), body, etag)
        if key not in self.namespaces:
            return _missing(key)
        if kind == "":
            found = {"namespace": list(key[1:]), "properties": self.namespaces[key]}
            return self._dropped(key) if method == "DELETE" else (200, found)
        if kind == "properties":
            return self._changed(key, body)
        if method == "POST":
            return self._new_table(key, body) if kind == "tables" else self._new_generic(key, body)
        return self._names(kind, key, asked)

    def _names(self, kind: str, key: _Name, asked: Mapping[str, str]) -> _Answer:
        operation = f"LIST_{kind.replace('-', '_').upper()}"
        if operation in self.denied:
            who = "Principal 'planner' with activated PrincipalRoles '[r_planner]'"
            grants = "and activated grants via '[c_planner, r_planner]'"
            return _error(403, "ForbiddenException", f"{who} {grants} is not authorized for op {operation}")
        held = {"tables": self.tables, "generic-tables": self.generic, "views": self.views}[kind]
        found = [{"namespace": list(key[1:]), "name": name[-1]} for name in sorted(held) if name[:-1] == key]
        return 200, self._page("identifiers", found, asked)

    # ---- tables --------------------------------------------------------------------------------------------------

    def _taken(self, name: _Name, own: str) -> _Answer | None:
        """Return the refusal of a name that is taken; ``own`` is the kind that is made."""
        for kind, held in (("Table", self.tables), ("Generic table", self.generic), ("View", self.views)):
            if name in held:
                same = "" if kind == own else "with same name "
                return _error(409, "AlreadyExistsException", f"{kind} {same}already exists: {_named(name)}")
        return None

    def _new_table(self, key: _Name, body: Any) -> _Answer:
        name = (*key, body["name"])
        taken = self._taken(name, "Table")
        if taken:
            return taken
        home = self._home(key)
        place = body.get("location") or locations.join(home, name[-1])
        if " " in place:
            shown = place if ":" in place else f"file://{place}"
            said = f"Illegal character in path at index {shown.index(' ')}: {shown}"
            return _error(400, "IllegalArgumentException", said)
        if self.warehouses[key[0]].get(FREE) != "true" and not locations.is_under(home, place):
            said = f"{place} is not in the list of allowed locations: [{home}]"
            return _error(
                403, "ForbiddenException", f"Invalid locations '[{place}]' for identifier {_quoted(name)}: {said}"
            )
        own = {"write.parquet.compression-codec": "zstd", "created-at": "2026-11-23T04:42:46.671028046Z"}
        self.tables[name] = {
            "format-version": 2,
            "table-uuid": str(uuid.uuid4()),
            "location": place,
            "last-sequence-number": 0,
            "last-updated-ms": 1,
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [body["schema"]],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {**own, **body["properties"]},
            "current-snapshot-id": -1,
            "refs": {},
            "snapshots": [],
            "statistics": [],
            "partition-statistics": [],
            "snapshot-log": [],
            "metadata-log": [],
        }
        return 200, self._loaded(name)

    def _loaded(self, name: _Name) -> dict[str, Any]:
        """Return a table, whose metadata the server writes below its location."""
        found = self.tables[name]
        place = f"{found['location']}/metadata/{len(found['metadata-log']):05d}.metadata.json"
        local = locations.path_of(place)
        if local is not None and not local.startswith("/BASE") and not Path(local).exists():
            Path(local).parent.mkdir(parents=True, exist_ok=True)
            Path(local).write_text(json.dumps(found), "utf-8")
        return {"metadata-location": place, "metadata": found}

    def _table(self, method: str, name: _Name, body: Any, etag: str) -> _Answer:
        found = self.tables.get(name)
        if found is None:
            return _error(404, "NoSuchTableException", f"Table does not exist: {_named(name)}")
        if method == "DELETE":
            del self.tables[name]
            return 204, ""
        if method == "GET":
            return (304, "") if etag and etag == self.etag(name) else (200, self._loaded(name))
        if any(one["uuid"] != found["table-uuid"] for one in body["requirements"]):
            return _error(409, "CommitFailedException", "Requirement failed: UUID does not match")
        before = self._loaded(name)["metadata-location"]
        for update in body["updates"]:
            if update["action"] == "set-location":
                found["location"] = update["location"]
            found["properties"].update(update.get("updates", {}))
            for key in update.get("removals", ()):
                found["properties"].pop(key, None)
        found["metadata-log"].append({"timestamp-ms": 1, "metadata-file": before})
        return 200, self._loaded(name)

    def etag(self, name: _Name) -> str | None:
        """Return the ETag of a table; None where there is no such table."""
        found = self.tables.get(name)
        return None if found is None else f'W/"{found["table-uuid"]}-{len(found["metadata-log"])}"'

    def _renamed(self, warehouse: str, body: Any) -> _Answer:
        source, to = ((warehouse, *one["namespace"], one["name"]) for one in (body["source"], body["destination"]))
        if source not in self.tables:
            return _error(404, "NoSuchTableException", f"Table does not exist: {_named(source)}")
        if to[:-1] not in self.namespaces:
            return _missing(to[:-1])
        if self._taken(to, "Table"):
            said = f"Cannot rename {_named(source)} to {_named(to)}. Table already exists"
            return _error(409, "AlreadyExistsException", said)
        self.tables[to] = self.tables.pop(source)
        return 204, ""

    # ---- generic tables ------------------------------------------------------------------------------------------

    def _new_generic(self, key: _Name, body: Any) -> _Answer:
        name = (*key, body["name"])
        taken = self._taken(name, "Generic table")
        if taken:
            return taken
        named = ("name", "format", "base-location", "doc", "properties")
        self.generic[name] = {key: body.get(key, {} if key == "properties" else None) for key in named}
        return self._generic("GET", name, None, "")

    def _generic(self, method: str, name: _Name, _body: Any, _etag: str) -> _Answer:
        if name not in self.generic:
            return _error(404, "NoSuchTableException", f"Generic table does not exist: {_named(name)}")
        if method == "DELETE":
            del self.generic[name]
            return 204, ""
        return 200, {"table": self.generic[name], "storage-access-configs": []}


def _named(key: _Name) -> str:
    return ".".join(key[1:])


def _quoted(key: _Name) -> str:
    return f"'{_named(key)}'"


def _missing(key: _Name) -> _Answer:
    return _error(404, "NoSuchNamespaceException", f"Namespace does not exist: {_named(key)}")


def _error(status: int, kind: str, message: str) -> _Answer:
    return status, {"error": {"message": message, "type": kind, "code": status}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    polaris: Polaris

    def _answer(self) -> None:
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_form = self.headers.get_content_type() == "application/x-www-form-urlencoded"
        body = json.loads(given) if given and not is_form else None
        etag = self.headers.get("If-None-Match", "")
        status, answer = self.polaris.answer(self.command, self.path, body, etag)
        content = b"" if answer == "" else json.dumps(answer).encode()
        self.send_response(status)
        if isinstance(answer, dict) and "metadata-location" in answer:
            parts = self.path.partition("?")[0].removeprefix(f"{_BASE}/v1/").split("/")
            name = (body or {}).get("name", unquote(parts[-1])) if parts[-1] == "tables" else unquote(parts[-1])
            self.send_header("ETag", str(self.polaris.etag((parts[0], *unquote(parts[2]).split("\x1f"), name))))
        self.send_header("Content-Type", "application/json")
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_DELETE = do_HEAD = do_PUT = _answer  # noqa: N815 - the names http.server asks for


@contextmanager
def polaris_server() -> Iterator[Polaris]:
    """Run the stand-in until the block ends."""
    polaris = Polaris()
    with http_server(_Handler, polaris=polaris) as address:
        polaris.url = address + _BASE
        yield polaris


def real_polaris() -> dict[str, str]:
    """Return the configuration of a real Polaris, or skip the test where the environment names none.

    ``LANCENS_POLARIS_URL`` is `http://ID:SECRET@host:port/WAREHOUSE`: a warehouse that tests may fill and empty.
    """
    named = os.environ.get("LANCENS_POLARIS_URL", "")
    if not named:
        pytest.skip("LANCENS_POLARIS_URL names no Polaris; it is on no registry")
    scheme, _, rest = named.partition("://")
    credential, _, place = rest.rpartition("@")
    host, _, warehouse = place.partition("/")
    return {
        "endpoint": f"{scheme}://{host}{_BASE}",
        "credential": credential,
        "scope": "PRINCIPAL_ROLE:ALL",
        "warehouses": warehouse,
    }
