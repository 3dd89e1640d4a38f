"""Many clients at once: every answer right, nothing left behind."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.server.catalogs import OneCatalog
from tests.server.client import Api
from tests.server.command import resident_kilobytes, started
from tests.servers.lance_rest import served
from tests.soak import count

CLIENTS = 64
MANY_CLIENTS = 2_000


class Client:
    """Makes, reads and removes what is its own, over and over, and sees that each answer is right."""

    def __init__(self, url: str, number: int) -> None:
        self.api = Api(url)
        self.space = f"n{number}"
        self.requests = 0
        self.faults: list[str] = []

    def _expect(self, status: int, method: str, path: str, body: object = None) -> dict[str, object]:
        answer = self.api(method, path, body)
        self.requests += 1
        if answer.status != status:
            self.faults.append(f"{method} {path}: {answer.status} {answer.text[:200]}")
        found: dict[str, object] = answer.json
        return found

    def round(self) -> None:
        space, table = f"/v1/namespace/{self.space}", f"/v1/table/{self.space}%24t"
        self._expect(200, "POST", f"{space}/create", {"properties": {"owner": self.space}})
        self._expect(409, "POST", f"{space}/create", {})
        self._expect(200, "POST", f"{table}/declare", {"location": f"s3://lake/{self.space}"})
        found = self._expect(200, "POST", f"{table}/describe", {})
        if found.get("location") != f"s3://lake/{self.space}":
            self.faults.append(f"somebody else's location: {found}")
        listed = self._expect(200, "GET", f"{space}/table/list")
        if listed.get("tables") != ["t"]:
            self.faults.append(f"somebody else's tables: {listed}")
        self._expect(200, "POST", f"{table}/deregister", {})
        self._expect(404, "POST", f"{table}/describe", {})
        self._expect(200, "POST", f"{space}/drop", {})

    def run(self, enough: Callable[[], bool]) -> None:
        try:
            while not enough():
                self.round()
        except Exception as error:  # noqa: BLE001 - a thread reports what went wrong, whatever it is
            self.faults.append(repr(error))
        finally:
            self.api.close()


def _load(url: str, seconds: float) -> list[Client]:
    clients = [Client(url, number) for number in range(CLIENTS)]
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=client.run, args=(lambda: time.monotonic() > until,), daemon=True) for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients


@pytest.mark.soak
def test_64_clients_at_once_get_no_error_and_leave_nothing(tmp_path: Path) -> None:
    with started("--impl", "memory", folder=tmp_path) as (process, url):
        warmed = _load(url, count(1, 2))
        before = resident_kilobytes(process)
        clients = _load(url, count(1, 60))
        assert [fault for client in (*warmed, *clients) for fault in client.faults] == []
        assert all(client.requests >= 8 for client in clients)
        api = Api(url)
        assert api("POST", "/ListNamespaces", {}).json == {"namespaces": []}
        assert "lancens_requests_in_flight 1.0" in api("GET", "/metrics").text
        assert resident_kilobytes(process) < before + 30_000
        threads = Path(f"/proc/{process.pid}/task")
        assert len(list(threads.iterdir())) < 100


def _crowd(url: str, clients: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.server.crowd", url, str(clients), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.soak
def test_2000_clients_at_once_are_all_answered(tmp_path: Path) -> None:
    with started("--impl", "memory", folder=tmp_path) as (process, url):
        api = Api(url)
        assert api("POST", "/CreateNamespace", {"id": ["a"]}).status == 200
        assert api("POST", "/v1/table/a%24t/declare", {"location": "s3://lake/t"}).status == 200
        # As long as what is measured: a slow machine answers each client once in less, which fills no buffer twice.
        _crowd(url, MANY_CLIENTS, count(1, 58))
        before = resident_kilobytes(process)
        found = _crowd(url, MANY_CLIENTS, count(1, 58))
        assert found["served"] == MANY_CLIENTS
        assert {status.partition(" ")[0] for status in found["told"]} <= {"200", "404", "503"}
        assert "503" not in found["told"], "a 503 says when to come again"
        assert found["health"].keys() == {"200"}
        assert resident_kilobytes(process) < before + 30_000
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


@pytest.mark.parametrize(("path", "status"), [("describe", 404), ("register", 400), ("query", 406)])
def test_a_refused_request_leaves_nothing_to_the_garbage_collector(path: str, status: int) -> None:
    requests = 30
    with served(OneCatalog(MemoryBackend())) as url:
        api = Api(url)
        assert api("POST", f"/v1/table/missing/{path}", {}).status == status
        gc.collect()
        gc.disable()
        try:
            for _ in range(requests):
                api("POST", f"/v1/table/missing/{path}", {})
            assert gc.collect() < requests
        finally:
            gc.enable()


def test_writes_of_a_directory_that_come_at_once_share_a_commit_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    backend = DirBackend(root=str(tmp_path))
    backend.insert_namespace(("a",), {})
    manifest = backend._manifest
    names = ("a%24t", "a%24t", "a%24u", "missing%24t")
    requests: list[tuple[str, dict[str, str]]] = [(f"/v1/table/{name}/declare", {}) for name in names]
    requests += [("/v1/namespace/b/create", {}), ("/v1/namespace/missing/drop", {})]
    requests += [("/v1/table/a%24v/register", {"location": "v.lance"})]
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "v.lance"))

    def versions() -> int:
        return len(lance.dataset(str(tmp_path / "__manifest")).versions())

    before = versions()
    with served(OneCatalog(backend)) as url, ThreadPoolExecutor(len(requests)) as clients:
        with manifest._lock:
            sent = [clients.submit(Api(url), "POST", path, body) for path, body in requests]
            while len(manifest._waiting) < len(requests) - 1:  # what drops asks for the namespace before
                threading.Event().wait(0.001)
        first, again, *others = [one.result().status for one in sent]
    assert sorted((first, again)) == [200, 409]
    assert others == [200, 404, 200, 404, 200]
    assert versions() == before + 1
    assert sorted(backend.scan().tables) == [("a", "t"), ("a", "u"), ("a", "v")]
