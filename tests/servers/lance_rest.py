"""Lance namespace servers: pylance's own adapter, lancens' in this process, and one that answers what a test says."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.servers.listening import http_server
from tests.servers.process import HUNG_SECONDS

if TYPE_CHECKING:
    from reconciler.server.catalogs import ServedCatalogs
    from reconciler.server.guard import Settings
    from reconciler.server.sandbox import Sandbox

__all__ = ["Request", "Scripted", "adapter", "scripted", "served"]


@contextmanager
def adapter(root: Path, **properties: str) -> Iterator[str]:
    """Yield the URL of pylance's RestAdapter over a directory; ``properties`` are more of the directory's."""
    import lance.namespace  # takes a second, and most tests need the others alone

    with lance.namespace.RestAdapter("dir", {"root": str(root), **properties}, port=0) as running:
        yield f"http://127.0.0.1:{running.port}"


@contextmanager
def served(catalogs: ServedCatalogs, settings: Settings | None = None, sandbox: Sandbox | None = None) -> Iterator[str]:
    """Yield the URL of lancens' own server over ``catalogs``, in this process.

    With a ``sandbox``, it starts no processes of its own for what clients have it evaluate.
    """
    # Most tests have this module for scripted servers, and import none of what ours needs.
    from reconciler.server.app import make_app
    from reconciler.server.running import listener_config
    from tests.servers.uvicorn_thread import Server

    config = listener_config(make_app(catalogs, settings))
    for namespace in catalogs.namespaces if sandbox else ():
        namespace.sandbox = sandbox
    config.port = 0
    server = Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server.listening.wait(HUNG_SECONDS)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.end()
        thread.join()


@dataclass(frozen=True)
class Request:
    """What a scripted server was asked."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: Any


Answer = Callable[[Request], tuple[int, object]]


@dataclass
class Scripted:
    """A server whose answers a test gives; ``requests`` are those it got."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)

    def paths(self) -> list[str]:
        """Return the routes that were asked for, in order."""
        return [f"{request.method} {request.path}" for request in self.requests]


@contextmanager
def scripted(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Run a server that answers with what ``answer`` returns: a status and a JSON value, or bytes as they are."""
    found = Scripted()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            is_form = self.headers.get_content_type() == "application/x-www-form-urlencoded"
            body = data.decode() if is_form else json.loads(data) if data else None
            request = Request(self.command, parts.path, parts.query, dict(self.headers.items()), body)
            with lock:
                found.requests.append(request)
                status, value = answer(request)
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815 - the names http.server looks for

    with http_server(Handler, tls=tls) as found.url:
        yield found
