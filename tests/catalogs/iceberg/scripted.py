"""A server that answers what a test tells it to, for what real servers do not do when asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeAlias

from tests.servers.listening import http_server

__all__ = ["Answer", "Request", "Scripted", "error", "scripted", "table"]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        """The body as it is sent: bytes as they are, nothing for None, everything else as JSON."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


Route: TypeAlias = "Answer | list[Answer] | Callable[[Request], Answer]"


def error(status: int, kind: str, message: str = "no") -> Answer:
    """An error as Iceberg REST catalogs word it."""
    return Answer({"error": {"message": message, "type": kind, "code": status}}, status)


def table(location: str = "s3://lake/t", uuid: str = "u1", **properties: str) -> dict[str, object]:
    """A loaded Lance table, marked as every one that lancens has made."""
    marked = {"table_type": "lance", "gc.enabled": "false", **properties}
    return {"metadata": {"table-uuid": uuid, "location": location, "properties": marked}}


@dataclass
class Scripted:
    """``routes`` maps ``GET /path`` to an answer, several in order (the last one for ever), or a function.

    The warehouse ``ware`` is there and empty unless a test says otherwise.
    """

    url: str = ""
    seen: list[Request] = field(default_factory=list)
    routes: dict[str, Route] = field(
        default_factory=lambda: {
            "GET /v1/config": Answer({"defaults": {}, "overrides": {"prefix": "ware"}}),
            "GET /v1/ware/namespaces": Answer({"namespaces": []}),
        }
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Answer:
        with self.lock:
            self.seen.append(request)
            route = self.routes.get(f"{request.method} {request.path}")
            if isinstance(route, list):
                route = route.pop(0) if len(route) > 1 else route[0]
        if route is None:
            return error(404, "", f"nothing is scripted for {request.method} {request.path}")
        return route if isinstance(route, Answer) else route(request)

    def called(self) -> list[str]:
        """Return the requests so far, without their queries."""
        return [f"{request.method} {request.path}" for request in self.seen]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Scripted

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        answer = self.script.answer(Request(self.command, path, query, dict(self.headers), body))
        content = answer.content
        self.send_response(answer.status)
        for key, value in {**answer.headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815 - the names http.server asks for


@contextmanager
def scripted() -> Iterator[Scripted]:
    script = Scripted()
    with http_server(_Handler, script=script) as script.url:
        yield script
