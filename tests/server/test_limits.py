"""Sizes, times and readiness: what a request may take, and that nothing waits for ever."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from lance_namespace.errors import ServiceUnavailableError

from reconciler.backends.memory import MemoryBackend
from reconciler.model.live import LiveNamespace
from reconciler.model.names import Identifier
from reconciler.server.app import Workers
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings
from tests.server.client import Api
from tests.server.conftest import Serve
from tests.servers.lance_rest import served


class Slow(MemoryBackend):
    """Describes namespaces once it is told to."""

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        self.go = threading.Event()
        self.asked = threading.Event()

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        self.asked.set()
        assert self.go.wait(60)
        return super().load_namespace(identifier)


@pytest.fixture
def slow() -> Iterator[Slow]:
    backend = Slow()
    yield backend
    backend.go.set()


def test_a_body_that_is_too_long_is_refused(serve: Serve) -> None:
    api = Api(serve(max_body_bytes=1000))
    assert api("POST", "/CreateNamespace", {"id": ["b"], "properties": {"k": "x" * 2000}}).error == (413, 13)
    assert api("POST", "/v1/table/a%24n/create", data=b"x" * 5000).error == (413, 13)
    assert api("POST", "/CreateNamespace", {"id": ["b"], "properties": {"k": "x" * 500}}).status == 200


def test_a_body_that_hides_its_length_is_refused(serve: Serve) -> None:
    api = Api(serve(max_body_bytes=1000))
    with socket.create_connection((api.host, api.port), timeout=30) as connection:
        head = b"POST /CreateNamespace HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_that_does_not_come_is_not_waited_for(serve: Serve) -> None:
    api = Api(serve(timeout_seconds=0.2))
    with socket.create_connection((api.host, api.port), timeout=30) as connection:
        connection.sendall(b"POST /ListNamespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 503")
    assert api("GET", "/healthz").status == 200


def test_a_catalog_that_does_not_answer_is_not_waited_for(slow: Slow) -> None:
    with served(OneCatalog(slow), Settings(timeout_seconds=0.2)) as url:
        refused = Api(url)("POST", "/v1/namespace/a/describe", {})
        assert refused.error == (503, 17)
        assert "0.2 s" in refused.json["error"]
        slow.go.set()


def test_what_hangs_does_not_keep_the_rest_from_being_answered(slow: Slow) -> None:
    with served(OneCatalog(slow), Settings(timeout_seconds=30, workers=2)) as url:
        waiting = threading.Thread(target=lambda: Api(url)("POST", "/v1/namespace/a/describe", {}))
        waiting.start()
        assert slow.asked.wait(30)
        assert Api(url)("GET", "/v1/namespace/%24/list").status == 200
        assert Api(url)("GET", "/healthz").status == 200
        slow.go.set()
        waiting.join()


def test_what_there_is_no_room_for_is_told_to_come_again(slow: Slow) -> None:
    with served(OneCatalog(slow), Settings(max_requests=1)) as url:
        waiting = threading.Thread(target=lambda: Api(url)("POST", "/v1/namespace/a/describe", {}))
        waiting.start()
        assert slow.asked.wait(30)
        refused = Api(url)("GET", "/v1/namespace/%24/list")
        assert refused.error == (503, 17)
        assert refused.headers["retry-after"] == "1"
        assert Api(url)("GET", "/healthz").status == 200
        slow.go.set()
        waiting.join()
        assert Api(url)("GET", "/v1/namespace/%24/list").status == 200


def test_only_a_request_that_never_had_its_turn_is_told_to_come_again(slow: Slow) -> None:
    with served(OneCatalog(slow), Settings(timeout_seconds=0.2, workers=1)) as url:
        begun = Api(url)("POST", "/v1/namespace/a/describe", {})
        assert begun.status == 503
        assert "retry-after" not in begun.headers
        never = Api(url)("POST", "/v1/namespace/a/describe", {})
        assert never.status == 503
        assert never.headers["retry-after"] == "1"
        slow.go.set()


def test_a_request_that_a_worker_has_taken_is_not_told_to_come_again(
    memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, counted = threading.Event(), Workers._run_counted

    def late(self: Workers, call: Callable[[], object]) -> object:
        assert go.wait(60)  # as on a busy machine, where a thread that has its call does not run at once
        return counted(self, call)

    monkeypatch.setattr(Workers, "_run_counted", late)
    with served(OneCatalog(memory), Settings(timeout_seconds=0.2)) as url:
        refused = Api(url)("POST", "/v1/namespace/late/create", {})
        assert refused.status == 503
        assert "retry-after" not in refused.headers
        go.set()
        until = time.monotonic() + 30
        while "late" not in memory.child_namespaces(()) and time.monotonic() < until:
            time.sleep(0.01)
    assert "late" in memory.child_namespaces(())


class Down(MemoryBackend):
    """Counts how often it is asked, and does not answer while it is down."""

    down = True
    asked = 0

    def child_namespaces(self, parent: Identifier) -> list[str]:
        self.asked += 1
        if self.down:
            raise ServiceUnavailableError("at secret-host-7")
        return super().child_namespaces(parent)


def test_a_catalog_that_is_down_is_not_ready_and_the_server_is_healthy() -> None:
    backend = Down()
    with served(OneCatalog(backend), Settings(ready_seconds=0)) as url:
        api = Api(url)
        refused = api("GET", "/readyz")
        assert refused.status == 503
        assert "secret-host-7" not in refused.text
        assert api("GET", "/healthz").status == 200
        backend.down = False
        assert api("GET", "/readyz").status == 200


def test_readiness_is_not_asked_for_in_a_loop() -> None:
    backend = Down()
    with served(OneCatalog(backend), Settings(ready_seconds=3600)) as url:
        assert [Api(url)("GET", "/readyz").status for _ in range(5)] == [503] * 5
    assert backend.asked == 1
