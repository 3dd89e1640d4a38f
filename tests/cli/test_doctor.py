"""``lancens doctor``: what a catalog is and what the credentials may do, in one table, with nothing changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from requests import Response

from reconciler.backends.http.backend import server_time
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import PermissionDeniedError
from reconciler.model.live import LiveTable
from tests.cli.running import lancens
from tests.servers.listening import http_server

MANIFEST = "version: 1\nname: shop\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n"


@pytest.fixture
def lake(folder: Path) -> Path:
    lance.write_dataset(pa.table({"id": [1]}), "lake/users.lance")
    return folder


def rows(out: str) -> list[list[str]]:
    """Return catalog, check and result of each line of the table."""
    return [line.split()[:3] for line in out.splitlines()[2:]]


def test_a_catalog_is_described_and_nothing_is_changed(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    ran = lancens(capsys, "doctor")

    assert ran.code == 0
    assert ran.out.startswith("lancens ")
    assert rows(ran.out) == [
        ["lake", check, "ok"]
        for check in ("service", "latency", "reading", "paging", "storage", "writing", "writing", "writing")
    ]
    assert f"dir: {lake}/lake" in ran.out
    assert "listing the root show 1 table" in ran.out
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before


def test_a_root_from_the_environment_is_shown_as_it_is_written(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_ROOT", f"{lake}/lake")
    manifest = lake / "lancens.yaml"
    manifest.write_text(manifest.read_text().replace("./lake", "'${env:LAKE_ROOT}'"))
    ran = lancens(capsys, "doctor")

    assert "dir: ${env:LAKE_ROOT}" in ran.out
    assert "${env:LAKE_ROOT}/users.lance: dataset" in ran.out
    assert f"{lake}/lake" not in ran.out


def test_a_root_that_is_not_there_is_said(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = lancens(capsys, "doctor", "--impl", "dir", "--config", "root=./lkae")

    assert ran.code == 0
    assert f"the root {lake}/lkae does not exist" in ran.out


def test_a_service_that_does_not_answer_is_a_failure_beside_those_that_do(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}}\n"
        "  far: {impl: rest, config: {uri: 'http://127.0.0.1:1', max_retries: 0, auth_token: hunter2}}\n"
    )
    ran = lancens(capsys, "doctor", "--format", "json")

    assert ran.code == 1
    found = json.loads(ran.out)
    assert {"lancens", "pylance", "Python"} <= found["versions"].keys()
    failed = [check for check in found["checks"] if check["status"] == "failed"]
    assert [(check["catalog"], check["name"]) for check in failed] == [("far", "connection")]
    assert "Connection refused" in failed[0]["detail"]
    assert sum(check["catalog"] == "lake" for check in found["checks"]) == 8
    assert "hunter2" not in ran.out + ran.err


def test_what_the_credentials_may_not_do_is_a_warning(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: MemoryBackend, identifier: tuple[str, ...]) -> LiveTable:
        raise PermissionDeniedError("memory: not for you")

    monkeypatch.setattr(MemoryBackend, "remove_table", denied)
    ran = lancens(capsys, "doctor", "--impl", "memory")

    assert ran.code == 0
    assert ["main", "writing", "warning"] in rows(ran.out)
    assert "is refused: main (memory): not for you" in ran.out


@pytest.fixture
def late() -> Iterator[str]:
    """A server that lives in the past."""

    class Late(BaseHTTPRequestHandler):
        def date_time_string(self, timestamp: float | None = None) -> str:
            return "Sun, 22 Nov 2020 05:00:00 GMT"

        def do_HEAD(self) -> None:
            self.send_response(401)
            self.end_headers()

    with http_server(Late) as url:
        yield url


def test_a_clock_that_differs_is_said(
    lake: Path, late: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryBackend, "server_time", lambda _: server_time(late))
    ran = lancens(capsys, "doctor", "--impl", "memory")

    assert ["main", "clock", "warning"] in rows(ran.out)
    assert " s ahead of the service" in ran.out


@pytest.mark.parametrize(("said", "year"), [("2020 05:00:00 -0000", 2020), (f"{'9' * 30} 05:00:00 GMT", None)])
def test_a_clock_is_read_in_any_form(said: str, year: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Response()
    answered.headers["Date"] = f"Sun, 22 Nov {said}"
    monkeypatch.setattr("requests.head", lambda *_, **__: answered)
    assert server_time("http://lake") == (None if year is None else datetime(year, 11, 22, 5, tzinfo=UTC))


def test_a_server_without_a_time_has_no_clock() -> None:
    assert server_time("http://127.0.0.1:1") is None
