"""An HTTP server around the stand-in or in front of the real server, in a thread or as a process of its own.

``python -m tests.servers.unity_contract_server PORT CATALOG SCHEMAS TABLES`` serves a catalog with so many schemas and
so many Lance tables in each until it is stopped; ``GET /calls`` answers how many requests it had.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, urlsplit

from tests.servers.listening import HttpServer
from tests.servers.unity import ReferenceServer
from tests.servers.unity_contract import Answer, Contract

__all__ = ["UnityServer", "serving"]


@dataclass
class UnityServer:
    """A running server: where it is, what it keeps, what it was asked, and what it shall answer instead.

    Behind it is the stand-in, or the real server, which it then passes every request on to.
    """

    contract: Contract | ReferenceServer
    url: str = ""
    requests: list[str] = field(default_factory=list)
    """Method and path, with the query, of every request."""
    _faults: list[tuple[str, Answer]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail_once(self, part: str, status: int, body: Mapping[str, object] | str = "") -> None:
        """Answer the next request whose method, path and query hold ``part`` with something else."""
        self._faults.append((part, Answer(status, body)))

    def take_fault(self, request: str) -> Answer | None:
        """Note a request, and return the answer it gets instead of the contract's, if any."""
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if fault[0] in request:
                    self._faults.remove(fault)
                    return fault[1]
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_version = "UnityContract"
    unity: UnityServer

    def _handle(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        if self.path == "/calls":
            answer: Answer | None = Answer(200, str(len(self.unity.requests)))
        else:
            answer = self.unity.take_fault(f"{self.command} {self.path}")
        if answer is None:
            scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
            answer = self.unity.contract.answer(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query, keep_blank_values=True)),
                _parsed(content),
                token if scheme == "Bearer" else None,
            )
        text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        html = text.startswith("<")
        kind = "text/html" if html else "text/plain; charset=utf-8" if text is answer.body else "application/json"
        body = text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the names http.server asks for

    def log_message(self, *_args: object) -> None:
        pass


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")


def _server(unity: UnityServer, port: int) -> HttpServer:
    server = HttpServer(("127.0.0.1", port), type("Handler", (_Handler,), {"unity": unity}))
    unity.url = f"http://127.0.0.1:{server.server_address[1]}"
    return server


@contextmanager
def serving(contract: Contract | ReferenceServer) -> Iterator[UnityServer]:
    """Serve ``contract``, or pass requests on to the real server, on a free port of 127.0.0.1 until the block ends."""
    unity = UnityServer(contract)
    server = _server(unity, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield unity
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """Serve one filled catalog at a given port."""
    port, catalog, schemas, tables = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    contract = Contract()
    contract.add_catalog(catalog)
    for schema in range(schemas):
        contract.add_schema(catalog, f"s{schema}")
        for table in range(tables):
            contract.add_lance_table(catalog, f"s{schema}", f"t{table:04}")
    _server(UnityServer(contract), port).serve_forever()


if __name__ == "__main__":
    main()
