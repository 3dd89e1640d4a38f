"""A stand-in for the namespaces of Apache Polaris 1.5.0, held to what the real server answered (`recorded/`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote

from tests.servers.listening import http_server

__all__ = ["Polaris", "polaris_server"]

_BASE = "/api/catalog/v1"
_Answer: TypeAlias = tuple[int, object]


@dataclass
class Polaris:
    """Warehouses without tables. ``namespaces`` are their properties, by warehouse and levels."""

    url: str = ""
    namespaces: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)
    requests: list[tuple[str, Any]] = field(default_factory=list)

    def answer(self, method: str, target: str, body: Any) -> _Answer:
        """Return the status and the content for a request."""
        self.requests.append((f"{method} {target}", body))
        path, _, query = target.removeprefix(_BASE).partition("?")
        asked = {key: value[0] for key, value in parse_qs(query).items()}
        if path == "/config":
            return 200, {"defaults": {}, "overrides": {"prefix": asked["warehouse"]}}
        warehouse, _, *rest = path.strip("/").split("/")
        if not rest:
            return self._created(warehouse, body) if method == "POST" else self._listed(warehouse, asked)
        key = (warehouse, *unquote(rest[0]).split("\x1f"))
        if key not in self.namespaces:
            return _missing(key)
        if rest[1:] == ["properties"]:
            return self._changed(key, body)
        if rest[1:]:
            return 200, {"identifiers": [], "next-page-token": None}
        return 200, {"namespace": list(key[1:]), "properties": self.namespaces[key]}

    def _listed(self, warehouse: str, asked: dict[str, str]) -> _Answer:
        above = (warehouse, *asked["parent"].split("\x1f")) if "parent" in asked else (warehouse,)
        if len(above) > 1 and above not in self.namespaces:
            return _missing(above)
        found = [list(key[1:]) for key in self.namespaces if key[:-1] == above]
        return 200, {"namespaces": found, "next-page-token": None}

    def _created(self, warehouse: str, body: Any) -> _Answer:
        key = (warehouse, *body["namespace"])
        if len(key) > 2 and key[:-1] not in self.namespaces:
            return _missing(key[:-1])
        if key in self.namespaces:
            message = f"Cannot create namespace {_named(key)}. Namespace already exists"
            return _error(409, "AlreadyExistsException", message)
        self.namespaces[key] = {"location": "file:///BASE", **body["properties"]}
        return 200, {"namespace": body["namespace"], "properties": self.namespaces[key]}

    def _changed(self, key: tuple[str, ...], body: Any) -> _Answer:
        properties, updates, removals = self.namespaces[key], body["updates"], body["removals"]
        properties.update(updates)
        if updates and removals:  # the updates are done, and the removals are not
            return _error(409, "CommitConflictException", f"Concurrent modification of namespace: {_named(key)}")
        gone = [name for name in removals if properties.pop(name, None) is not None]
        missing = [name for name in removals if name not in gone]
        return 200, {"removed": gone, "updated": list(updates), "missing": missing}


def _named(key: tuple[str, ...]) -> str:
    return ".".join(key[1:])


def _missing(key: tuple[str, ...]) -> _Answer:
    return _error(404, "NoSuchNamespaceException", f"Namespace does not exist: {_named(key)}")


def _error(status: int, kind: str, message: str) -> _Answer:
    return status, {"error": {"message": message, "type": kind, "code": status}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    polaris: Polaris

    def _answer(self) -> None:
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = self.polaris.answer(self.command, self.path, json.loads(given) if given else None)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer  # noqa: N815 - the names http.server asks for


@contextmanager
def polaris_server() -> Iterator[Polaris]:
    """Run the stand-in until the block ends."""
    polaris = Polaris()
    with http_server(_Handler, polaris=polaris) as address:
        polaris.url = address + _BASE.removesuffix("/v1")
        yield polaris
