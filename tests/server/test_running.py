"""The command itself, in a process of its own: starting, refusing to start, serving, ending."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.model.errors import pip_requirement
from tests.cli.running import lancens
from tests.planted_modules import imported, plant
from tests.server.client import Api
from tests.server.command import started, started_anew

TOKEN = "token-of-a-test-0123456789"


def test_it_serves_prints_its_address_and_ends_when_told_to(tmp_path: Path) -> None:
    DirBackend(root=str(tmp_path / "lake")).insert_namespace(("a",), {})
    with started_anew("--impl", "dir", "--config", "root=lake", folder=tmp_path) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert Api(url)("GET", "/v1/namespace/%24/list").json == {"namespaces": ["a"]}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    log = (tmp_path / "serve.log").read_text()
    assert [json.loads(line)["operation"] for line in log.splitlines()] == ["ListNamespaces"]


def test_nothing_of_the_working_directory_runs(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": range(10)}), tmp_path / "lake/t.lance")
    folder = tmp_path / "work"
    folder.mkdir()
    log = plant(folder)
    with started_anew("--impl", "dir", "--config", f"root={tmp_path}/lake", folder=folder) as (_, url):
        assert Api(url)("POST", "/v1/table/t/count_rows", {"predicate": "id > 7"}).json == 2
    assert imported(log) == []


def test_ctrl_c_is_no_error(tmp_path: Path) -> None:
    with started("--impl", "memory", folder=tmp_path) as (process, url):
        assert Api(url)("GET", "/healthz").status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


def test_a_catalog_that_hangs_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"uri=thrift://127.0.0.1:{silent.getsockname()[1]}"
        with started_anew("--impl", "hive3", "--config", uri, "--grace", "1", folder=tmp_path) as (process, url):
            told: list[int] = []
            client = threading.Thread(target=lambda: told.append(Api(url)("GET", "/v1/namespace/%24/list").status))
            client.start()
            silent.accept()[0].recv(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            client.join()
    assert told == [503]
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


def test_what_has_begun_ends_before_the_server_does(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"id": list(range(200_000))})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytes(sink.getvalue().to_pybytes())
    with started("--impl", "dir", "--config", "root=lake", folder=tmp_path) as (process, url):
        api = Api(url)
        with socket.create_connection((api.host, api.port), timeout=60) as connection:
            head = (
                f"POST /v1/table/t/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            )
            connection.sendall(head + data[:1000])
            assert api("GET", "/healthz").status == 200
            process.send_signal(signal.SIGTERM)
            connection.sendall(data[1000:])
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        assert process.wait(30) == 0
    assert lance.dataset(tmp_path / "lake/t.lance").count_rows() == 200_000


def test_a_manifest_is_served_below_the_names_of_its_catalogs(tmp_path: Path) -> None:
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs:\n"
        "  lake: {impl: dir, config: {root: ./lake}}\n  scratch: {impl: memory, config: {name: s}}\n"
    )
    (tmp_path / "token").write_text(TOKEN + "\n")
    with started("--write-token-file", "token", folder=tmp_path) as (_, url):
        assert Api(url)("POST", "/ListNamespaces", {}).status == 401
        api = Api(url, TOKEN)
        assert api("GET", "/v1/namespace/%24/list").json == {"namespaces": ["lake", "scratch"]}
        assert api("POST", "/v1/namespace/lake%24a/create", {}).status == 200
    assert DirBackend(root=str(tmp_path / "lake")).child_namespaces(()) == ["a"]
    assert TOKEN not in (tmp_path / "serve.log").read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])  # noqa: S104 - refused
def test_it_refuses_to_be_reached_by_others_without_a_token(capsys: pytest.CaptureFixture[str], host: str) -> None:
    refused = lancens(capsys, "serve", "--impl", "memory", "--host", host)
    assert refused.code == 1
    assert refused.err.startswith(f"--host {host} ")
    assert "--read-token-file" in refused.err


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"short", "16 or more ASCII"), (b"two words are not a token at all", "one word"), (b"\xff" * 20, "not text")],
)
def test_a_file_without_a_token_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "token").write_bytes(content)
    refused = lancens(capsys, "serve", "--impl", "memory", "--write-token-file", tmp_path / "token")
    assert refused.code == 1
    assert said in refused.err
    assert "short" not in refused.err
    missing = lancens(capsys, "serve", "--impl", "memory", "--read-token-file", tmp_path / "nowhere")
    assert "nowhere: No such file" in missing.err


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with started("--impl", "memory", folder=tmp_path) as (_, url):
        port = url.rpartition(":")[2]
        refused = lancens(capsys, "serve", "--impl", "memory", "--port", port)
    assert refused.code == 1
    assert refused.err.strip() == f"cannot listen on 127.0.0.1 port {port}: Address already in use"


def test_logging_is_as_it_was_before_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """In one process with others, its stream is closed when the next request is logged."""
    logs = [logging.getLogger(name) for name in ("reconciler.server", "uvicorn.error", "asyncio")]
    before = [(log.handlers, log.level, log.propagate) for log in logs]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert lancens(capsys, "serve", "--impl", "memory", "--port", port).code == 1
    assert [(log.handlers, log.level, log.propagate) for log in logs] == before


def test_bad_arguments_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--config goes with --impl" in lancens(capsys, "serve", "--config", "a=b").err
    assert "not both" in lancens(capsys, "serve", "--impl", "memory", "lancens.yaml").err
    assert "did you mean `memory`?" in lancens(capsys, "serve", "--impl", "memorie").err
    faulty = lancens(capsys, "serve", "--impl", "dir", "--config", "rooot=x")
    assert "did you mean `root`?" in faulty.err


def test_without_the_packages_it_names_the_pip_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("reconciler.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    refused = lancens(capsys, "serve", "--impl", "memory")
    assert refused.code == 1
    assert refused.err.strip().endswith(f": pip install '{pip_requirement()}[server]'")


def test_many_clients_are_served_while_it_runs(tmp_path: Path) -> None:
    with started("--impl", "memory", folder=tmp_path) as (_, url):
        failed: list[int] = []

        def client(number: int) -> None:
            answer = Api(url)("POST", f"/v1/namespace/n{number}/create", {})
            if answer.status != 200:
                failed.append(answer.status)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert len(Api(url)("GET", "/v1/namespace/%24/list").json["namespaces"]) == 32
