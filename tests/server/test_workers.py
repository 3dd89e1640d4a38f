"""A server of several processes: one address, one set of limits and metrics, one end."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from uvicorn.config import STARTUP_FAILURE

from reconciler.backends.dir import DirBackend
from reconciler.server.guard import Settings
from tests.cli.running import lancens
from tests.server.client import Api
from tests.server.command import started
from tests.servers.process import HUNG_SECONDS


def _workers_of(process: int) -> list[int]:
    """Return the processes that serve, which are the children that spawn."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_workers_answer_count_and_end_together(tmp_path: Path, end: signal.Signals) -> None:
    DirBackend(root=str(tmp_path / "lake")).insert_namespace(("a",), {})
    with started("--impl", "dir", "--config", "root=lake", "--workers", "2", folder=tmp_path) as (process, url):
        for _ in range(20):
            assert Api(url)("GET", "/v1/namespace/%24/list").json == {"namespaces": ["a"]}
        counted = re.search(r'requests_total{operation="ListNamespaces".*} (\d+)', Api(url)("GET", "/metrics").text)
        assert counted is not None
        assert counted[1] == "20"
        workers = [os.pidfd_open(worker) for worker in _workers_of(process.pid)]
        assert len(workers) == 2
        process.send_signal(end)
        assert process.wait(HUNG_SECONDS) == (0 if end is signal.SIGTERM else -signal.SIGKILL)
        for worker in workers:
            assert select.select([worker], [], [], HUNG_SECONDS)[0]
            os.close(worker)
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


def test_workers_share_the_limits_on_concurrency() -> None:
    whole = Settings(workers=32, max_requests=2048)
    for processes in (1, 2, 8):
        part = whole.shared_by(processes)
        assert (part.workers * processes, part.max_requests * processes) == (32, 2048)
    assert whole.shared_by(64).workers == 1


def test_a_catalog_in_memory_has_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    refused = lancens(capsys, "serve", "--impl", "memory", "--workers", "2", "--port", "0")
    assert refused.code == 1
    assert "--workers" in refused.err


def test_a_worker_that_cannot_start_says_so_and_is_not_tried_again(tmp_path: Path) -> None:
    code = "from pathlib import Path; from reconciler.server.workers import _Worker; _Worker(b'', Path())()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == STARTUP_FAILURE
    [line] = map(json.loads, done.stderr.splitlines())
    assert (line["event"], line["error"]) == ("a process cannot start", "EOFError")
