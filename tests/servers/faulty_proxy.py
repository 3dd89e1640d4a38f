"""An HTTP proxy in front of a server that fails now and then, always the same way for one seed."""

from __future__ import annotations

import http.client
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

__all__ = ["FAULTS", "FaultyProxy", "faulty_proxy"]

FAULTS = ("cut", "silent", "429", "503", "503 with Retry-After", "502")
_PAGE_SIZE = re.compile(r"(?<=pageSize=)\d+")


@dataclass
class FaultyProxy:
    """``rate`` is the part of requests that fail. ``page`` caps the size of the pages that are asked for."""

    target: str
    page: int
    rate: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    url: str = ""
    happened: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self) -> str | None:
        """Return what goes wrong with the next request."""
        with self.lock:
            if self.dice.random() >= self.rate:
                return None
            chosen = self.dice.choice(FAULTS)
            self.happened[chosen] += 1
            return chosen


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.proxy.fault()
        if fault == "silent":
            self._hang_up()
        elif fault is not None and fault != "cut":
            pause = {} if fault in ("502", "503") else {"Retry-After": "0"}
            self._send(int(fault[:3]), {"Content-Type": "text/plain", **pause}, b"try again")
        else:
            status, headers, content = self._ask(body)
            self._send(status, headers, content, cut=fault == "cut")

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        target = urlsplit(self.proxy.target)
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=30)
        try:
            headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
            connection.request(self.command, _PAGE_SIZE.sub(str(self.proxy.page), self.path), body or None, headers)
            answer = connection.getresponse()
            kept = {key: value for key, value in answer.getheaders() if key in ("Content-Type", "ETag")}
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def _send(self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815 - the names http.server asks for

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def faulty_proxy(target: str, page: int) -> Iterator[FaultyProxy]:
    """Run a proxy in front of ``target``; it does no harm until ``rate`` is set."""
    proxy = FaultyProxy(target, page)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
