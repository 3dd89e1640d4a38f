"""A server that answers what a test tells it to, for what real servers do not do when asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeAlias

from tests.servers.listening import http_server

__all__ = ["Answer", "Reply", "Request", "Route", "Scripted", "scripted"]


@dataclass(frozen=True)
class Request:
    """What a scripted server was asked."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """The value of JSON, the text of a form, None for nothing."""
        if any(value == "application/x-www-form-urlencoded" for value in self.headers.values()):
            return self.content.decode()
        return json.loads(self.content) if self.content else None


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


Reply: TypeAlias = "Answer | tuple[int, object]"
"""An answer, or its status and body."""

Route: TypeAlias = "Answer | list[Answer] | Callable[[Request], Answer]"


@dataclass
class Scripted:
    """A server whose answers a test gives.

    ``routes`` maps ``GET /path`` to an answer, several in order (the last one for ever), or a function; ``otherwise``
    answers all else, one request at a time.
    """

    otherwise: Callable[[Request], Reply]
    routes: dict[str, Route] = field(default_factory=dict)
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Answer:
        with self.lock:
            self.requests.append(request)
            route = self.routes.get(f"{request.method} {request.path}")
            if isinstance(route, list):
                route = route.pop(0) if len(route) > 1 else route[0]
            reply = self.otherwise(request) if route is None else route
        if isinstance(reply, tuple):
            status, body = reply
            return Answer(body, status)
        return reply if isinstance(reply, Answer) else reply(request)

    def paths(self) -> list[str]:
        """Return the routes that were asked for, in order."""
        return [f"{request.method} {request.path}" for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Scripted

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        answer = self.script.answer(Request(self.command, path, query, dict(self.headers), content))
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", **answer.headers, "Content-Length": str(len(answer.content))}
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815 - the names http.server asks for


@contextmanager
def scripted(otherwise: Callable[[Request], Reply], tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Run a server that answers what ``otherwise`` returns, but for the routes that a test adds."""
    script = Scripted(otherwise)
    with http_server(_Handler, tls=tls, script=script) as script.url:
        yield script
