"""Ended from outside, or out of room: what was done is told, and what was in flight is finished."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.process import HUNG_SECONDS
from tests.servers.require import missing
from tests.servers.scripted import Request, scripted
from tests.writing import write_manifest

pytestmark = pytest.mark.end_to_end  # each test is about a process of its own

_MAIN = "from reconciler.cli import main; main()"
_LANCENS = [sys.executable, "-c", _MAIN]


def _wants(folder: Path, namespaces: int, impl: str = "memory", **config: object) -> None:
    blocks = {f"n{number:02}": {"properties": {"owner": "ads"}} for number in range(namespaces)}
    write_manifest(folder, {"lake": {"impl": impl, "config": config or {"name": "shop"}, "namespaces": blocks}})


@pytest.mark.parametrize("kilobytes", [1, 3])
def test_a_full_disk_under_the_journal_ends_with_what_was_done(tmp_path: Path, kilobytes: int) -> None:
    """A limit on the size of files stands in for the full disk: the write of a line fails, in the middle of it."""
    _wants(tmp_path, 30)
    limited = ["bash", "-c", f'ulimit -f {kilobytes}; exec "$@"', "-", *_LANCENS]
    ended = subprocess.run(
        [*limited, "apply", "--auto-approve", "--parallelism", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=HUNG_SECONDS,
    )
    journal = next((tmp_path / ".lancens").iterdir())
    lines = [json.loads(line) for line in journal.read_text().splitlines()]  # no line is cut
    assert ended.returncode == 1
    done = ended.stderr.count("✓")
    assert done >= sum(line["entry"] == "outcome" for line in lines) > 0
    ending = f"Applied {done} of 30 changes of store to lake (memory, shop): {30 - done} failed, 0 skipped."
    assert f"{ending} Journal: .lancens/{journal.name}" in ended.stdout
    assert f"the journal .lancens/{journal.name} cannot be written: File too large" in ended.stderr


class _Slow:
    """A catalog whose first create waits until it is let go."""

    def __init__(self) -> None:
        self.made: dict[str, object] = {}
        self.in_flight, self.go_on = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> tuple[int, object]:
        if request.path.endswith("/create"):
            self.in_flight.set()
            self.go_on.wait(HUNG_SECONDS)
            self.made[request.path.split("/")[3]] = request.body["properties"]
            return 200, {}
        if request.path.endswith("/describe") and request.path.split("/")[3] in self.made:
            return 200, {"properties": self.made[request.path.split("/")[3]]}
        if request.path.endswith("/list"):
            return 200, {"namespaces": [], "tables": []}
        if request.path == "/ListOperations":
            return 404, b""
        return 404, {"error": "not there", "code": 1}


@contextmanager
def _running(folder: Path, *arguments: str, setup: str = "pass") -> Iterator[subprocess.Popen[str]]:
    # Tests that run in the background of a shell have SIGINT ignored, and what they start inherits that.
    command = ["env", "--default-signal=INT", sys.executable, "-c", f"{setup}; {_MAIN}", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_apply_finishes_what_is_in_flight_and_reports(tmp_path: Path, number: signal.Signals) -> None:
    slow = _Slow()
    with scripted(slow) as server:
        _wants(tmp_path, 5, "rest", uri=server.url)
        with _running(tmp_path, "apply", "--auto-approve", "--parallelism", "1") as process:
            assert slow.in_flight.wait(HUNG_SECONDS)
            process.send_signal(number)
            assert process.stderr is not None
            told = next(line for line in process.stderr if "Stopping" in line)
            slow.go_on.set()
            err = process.stderr.read()
            assert process.stdout is not None
            out = process.stdout.read()
            process.wait(HUNG_SECONDS)
    assert told.startswith("Stopping: ")
    assert list(slow.made) == ["n00"]
    assert process.returncode == 130
    assert "lake  + n00" in err
    assert f"Applied 1 of 5 changes of store to lake (rest, {server.url}): 0 failed, 4 s" in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_plan_that_is_stopped_says_so(tmp_path: Path, number: signal.Signals) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def answer(request: Request) -> tuple[int, object]:
        if request.path == "/ListOperations":  # the first request, while the main thread still imports
            return 404, b""
        asked.set()
        go_on.wait(HUNG_SECONDS)
        return 404, b""

    with scripted(answer) as server:
        _wants(tmp_path, 1, "rest", uri=server.url, max_retries=0)
        with _running(tmp_path, "plan") as process:
            assert asked.wait(HUNG_SECONDS)
            process.send_signal(number)
            go_on.set()
            _, err = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 130
    assert err.lstrip("\n") == "Interrupted. Nothing more was started.\n"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_an_audit_that_is_stopped_says_so(engine: str, tmp_path: Path) -> None:
    if engine == "spark" and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing("Java is not installed")
    asked, go_on = threading.Event(), threading.Event()

    def answer(request: Request) -> tuple[int, object]:
        if "/table/list" in request.path:  # of a namespace, which an executor asks for
            asked.set()
            go_on.wait(HUNG_SECONDS)
        names = ["a"] if request.path.startswith("/v1/namespace/$/list") else []
        return 200, {"namespaces": names, "tables": []}

    on_spark = ["--master", "local[1]"] if engine == "spark" else []
    at_once = "from reconciler.auditor import entries; entries._FEW_UNITS = 0"
    with scripted(answer) as server:
        _wants(tmp_path, 1, "rest", uri=server.url, max_retries=0)
        with _running(tmp_path, "audit", "--engine", engine, *on_spark, setup=at_once) as process:
            assert asked.wait(HUNG_SECONDS)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=HUNG_SECONDS)
            go_on.set()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "Interrupted. Nothing more was started."
    assert "Traceback" not in err
