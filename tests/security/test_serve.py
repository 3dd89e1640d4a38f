"""`lancens serve` in front of clients that are slow, greedy, or want to see more than the catalog."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.backends.glue import GlueBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.backends.rest import RestBackend
from reconciler.model.names import Identifier
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings, Tokens
from tests.server.client import Api
from tests.server.command import started_anew
from tests.servers.glue import glue_server
from tests.servers.lance_rest import served
from tests.servers.scripted import scripted

READER, WRITER = "reader-0123456789ab", "writer-0123456789ab"


@pytest.fixture
def memory() -> MemoryBackend:
    backend = MemoryBackend(name=f"security-{time.monotonic_ns()}")
    backend.insert_namespace(("a",), {})
    backend.insert_table(("a", "secrets"), "/etc", {})
    return backend


@pytest.fixture
def url(memory: MemoryBackend) -> Iterator[str]:
    with served(OneCatalog(memory)) as found:
        yield found


def _connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20)


def _all_of(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


def test_300_half_open_connections_keep_nobody_out(tmp_path: Path) -> None:
    """They take more files than a shell lets a program open at first."""
    with started_anew("--impl", "memory", folder=tmp_path, files=256) as (_, url), ExitStack() as stack:
        for number in range(300):
            connection = stack.enter_context(closing(_connected(url)))
            if number % 2:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
        for path in ("/healthz", "/readyz", "/v1/namespace/%24/list"):
            assert Api(url)("GET", path).status == 200


def test_a_request_of_two_lengths_is_refused(url: str, memory: MemoryBackend) -> None:
    smuggled = b'POST /CreateNamespace HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{"id": ["owned"]}'
    for path in ("/healthz", "/ListNamespaces"):
        with closing(_connected(url)) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head.encode() + b"0\r\n\r\n" + smuggled)
            answer = _all_of(connection)
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1 ") == 1
    assert memory.child_namespaces(()) == ["a"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": ["\\ud800"]}',
        b'{"id": ["b"], "properties": {"k": "\\udfff"}}',
        b'{"id": ["b"], "properties": {"\\ud800": "v"}}',
        b'{"id": ["b"], "\\ud800": 1}',
    ],
)
@pytest.mark.parametrize("path", ["/CreateNamespace", "/DescribeTable", "/v1/namespace/b/create"])
def test_half_a_character_is_a_bad_request(url: str, path: str, body: bytes) -> None:
    assert Api(url)("POST", path, data=body, content_type="application/json").error == (400, 13)


def test_half_a_character_in_a_query_is_a_bad_request(url: str) -> None:
    path = '/v1/table/a%24t/create?properties={"k":"%5Cud800"}'
    assert Api(url)("POST", path, data=b"").error == (400, 13)


def test_what_a_catalog_holds_can_be_any_text() -> None:
    class Odd(MemoryBackend):
        def child_namespaces(self, parent: Identifier) -> list[str]:
            return ["\ud800"]

    with served(OneCatalog(Odd())) as url:
        assert Api(url)("GET", "/v1/namespace/%24/list").json["namespaces"] == ["\ud800"]


@pytest.mark.parametrize(
    "body",
    [
        {"id": ["n"] * 65},
        {"id": ["n"] * 100_000},
        {"id": ["n" * 9000]},
        {"id": ["n"], "properties": {"k": "v" * 1_100_000}},
    ],
    ids=["deep", "very deep", "long", "large"],
)
def test_what_no_catalog_holds_is_refused_before_it_is_asked(url: str, body: object) -> None:
    refused = Api(url)("POST", "/CreateNamespace", body)
    assert refused.error == (400, 13)
    assert len(refused.text) < 300


def test_an_endless_path_is_refused(url: str) -> None:
    assert Api(url)("POST", f"/v1/namespace/{'a%24' * 10_000}/describe", {}).error == (400, 13)


def test_a_log_line_is_no_longer_than_it_needs_to_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "reconciler.server")
    with served(OneCatalog(MemoryBackend()), Settings()) as url:
        Api(url)("POST", "/DescribeNamespace", {"id": ["\x1b[2J" + "n" * 8000]}, x_request_id="y" * 5000)
    (fields,) = (record.__dict__["fields"] for record in caplog.records if "fields" in record.__dict__)
    assert len(json.dumps(fields)) < 600


# ---- the server's own disk -------------------------------------------------------------------------------------------

ELSEWHERE = ["/etc", "file:///etc/ssl", "file:/etc", "etc", "./x", "../x", "FILE:///etc", "file:x", "//etc"]


@pytest.mark.parametrize("location", ELSEWHERE)
def test_no_entry_leads_to_the_servers_disk(url: str, memory: MemoryBackend, location: str) -> None:
    memory.insert_table(("a", "t"), "s3://lake/t", {})
    api = Api(url)
    for path, body in (
        ("/v1/table/a%24new/declare", {"location": location}),
        ("/v1/table/a%24new/register", {"location": location}),
        ("/v1/table/a%24t/register", {"location": location, "mode": "overwrite"}),
        ("/AlterTable", {"id": ["a", "t"], "location": location}),
    ):
        refused = api("POST", path, body)
        assert refused.error == (400, 13), path
        assert ("whole path" if location == "file:x" else "--location") in refused.json["error"]
    assert sorted(memory.child_tables(("a",))) == ["secrets", "t"]
    assert memory.load_table(("a", "t")).location == "s3://lake/t"


def test_a_location_below_a_root_or_an_admitted_place_is_taken(tmp_path: Path) -> None:
    lake = DirBackend(root=str(tmp_path / "lake"))
    lake.insert_namespace(("a",), {})
    with served(OneCatalog(lake)) as url:
        api = Api(url)
        assert api("POST", "/v1/table/a%24t/declare", {"location": f"{tmp_path}/lake/t"}).status == 200
        assert api("POST", "/v1/table/a%24u/declare", {"location": "u"}).status == 200
        for outside in (f"{tmp_path}/lake/../other", f"{tmp_path}/lake2/t", "../u", f"file://{tmp_path}/other"):
            assert api("POST", "/v1/table/a%24v/declare", {"location": outside}).error == (400, 13), outside
    memory = MemoryBackend(name=str(tmp_path))
    memory.insert_namespace(("a",), {})
    with served(OneCatalog(memory, extra_locations=[str(tmp_path)])) as url:
        api = Api(url)
        assert api("POST", "/v1/table/a%24t/declare", {"location": f"{tmp_path}/t"}).status == 200
        assert api("POST", "/v1/table/a%24u/declare", {"location": "s3://elsewhere/t"}).error == (400, 13)


def test_a_link_below_the_root_leads_no_client_out_of_it(tmp_path: Path) -> None:
    """What the links of a directory lead to is for who made them to enter."""
    lake = DirBackend(root=str(tmp_path / "lake"))
    lake.insert_namespace(("a",), {})
    (tmp_path / "other/t").mkdir(parents=True)
    (tmp_path / "lake/link").symlink_to(tmp_path / "other")
    (tmp_path / "lake/inside").symlink_to(tmp_path / "lake")
    with served(OneCatalog(lake)) as url:
        api = Api(url)
        for location in ("link/t", "link", f"{tmp_path}/lake/link/t", f"file://{tmp_path}/lake/link/t"):
            for what in ("declare", "register"):
                assert api("POST", f"/v1/table/a%24t/{what}", {"location": location}).error == (400, 13), location
        assert api("POST", "/v1/table/a%24t/declare", {"location": "inside/t"}).status == 200
    assert list((tmp_path / "other").rglob("*")) == [tmp_path / "other/t"]


DISK = ["file-object-store://{}", "file+uring://{}", "FILE+URING:{}", "File-Object-Store:{}", " file://{}", "file:{}"]
NOWHERE = ["memory://x{}", "goosefs://127.0.0.1:9{}", "s3+ddb://b{}", "http://127.0.0.1:9{}"]


@pytest.mark.parametrize("form", [*DISK, "file-object-\tstore://{}", *NOWHERE])
def test_without_a_root_no_client_points_the_server_at_its_disk(form: str, tmp_path: Path) -> None:
    """Two names of pylance's for it passed for object stores."""
    kept = str(tmp_path / "kept.lance")
    lance.write_dataset(pa.table({"id": [1]}), kept)
    entry = {"location": kept, "properties": {}}
    with scripted(lambda _: (200, entry)) as behind, served(OneCatalog(RestBackend(uri=behind.url))) as url:
        api = Api(url)
        for what in ("declare", "register"):
            asked = api("POST", f"/v1/table/a%24t/{what}", {"location": form.format(kept)})
            assert asked.error == (400, 13)
        entry["location"] = form.format(kept)
        for body in ({"load_detailed_metadata": True}, {"version": 1}):
            assert api("POST", "/v1/table/a%24t/describe", body).error == (403, 15)
        columns = {"new_columns": [{"name": "x", "expression": "1"}]}
        assert api("POST", "/v1/table/a%24t/add_columns", columns).error == (403, 15)
    assert lance.dataset(kept).version == 1


def test_nor_by_where_a_namespace_is(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = f"file-object-store://{tmp_path}/x"
    with (
        glue_server(tmp_path_factory.mktemp("glue")) as glue,
        closing(GlueBackend(**glue.config())) as behind,
        served(OneCatalog(behind)) as url,
    ):
        api = Api(url)
        refused = api("POST", "/v1/namespace/web_disk/create", {"properties": {"location": place}})
        assert refused.error == (400, 13)
        behind.insert_namespace(("web_disk",), {"location": place})  # as another tool may
        rows = pa.BufferOutputStream()
        with pa.ipc.new_stream(rows, pa.schema([("id", pa.int64())])) as stream:
            stream.write_table(pa.table({"id": [1]}))
        data = rows.getvalue().to_pybytes()
        kind = "application/vnd.apache.arrow.stream"
        refused = api("POST", "/v1/table/web_disk%24t/create", data=data, content_type=kind)
        assert refused.error == (400, 13)
        assert api("POST", "/v1/table/web_disk%24t/declare", {}).error == (400, 13)
    assert not [*tmp_path.iterdir()]


def test_a_client_puts_no_namespace_outside_of_the_root() -> None:
    """A table without a location would be written there, with the server's credentials."""

    class Placed(MemoryBackend):
        known_capabilities = replace(MemoryBackend.known_capabilities, namespace_places=frozenset({"location"}))

    with served(OneCatalog(Placed(name=f"places-{time.monotonic_ns()}", root="s3://lake"))) as url:
        api, elsewhere = Api(url), {"location": "s3://elsewhere/a"}
        assert api("POST", "/v1/namespace/a/create", {"properties": elsewhere}).error == (400, 13)
        assert api("POST", "/v1/namespace/a/create", {"properties": {"location": "s3://lake/a"}}).status == 200
        overwritten = api("POST", "/v1/namespace/a/create", {"properties": elsewhere, "mode": "overwrite"})
        altered = api("POST", "/AlterNamespace", {"id": ["a"], "set_properties": elsewhere})
        assert overwritten.error == altered.error == (400, 13)


def test_a_reader_sees_no_directory_of_the_servers_disk(memory: MemoryBackend) -> None:
    """Who may write to the catalog itself can point an entry anywhere; the server does not look there for a reader."""
    tokens = Tokens(read_only=[READER], read_write=[WRITER])
    with served(OneCatalog(memory), Settings(tokens=tokens)) as url:
        api = Api(url, READER)
        for body in ({"load_detailed_metadata": True}, {"version": 1}, {"branch": "b"}, {"tag": "x"}):
            answer = api("POST", "/v1/table/a%24secrets/describe", body)
            assert answer.error == (403, 15), body
            assert not any(name in answer.text for name in ("passwd", "hosts", "/etc"))
        described = api("POST", "/v1/table/a%24secrets/describe", {"check_declared": True}).json
        assert described["is_only_declared"] is False  # as for a place that does not exist
        assert api("POST", "/v1/table/a%24secrets/exists", {"version": 1}).error == (403, 15)
        assert api("GET", "/v1/namespace/a/table/list?include_declared=false").json["tables"] == ["secrets"]


def test_an_error_of_storage_names_no_file(tmp_path: Path) -> None:
    lake = DirBackend(root=str(tmp_path / "lake"))
    (tmp_path / "lake/people").mkdir(parents=True)
    (tmp_path / "lake/people/salaries-2026.csv").touch()
    lake.insert_table(("people",), "people", {})
    with served(OneCatalog(lake)) as url:
        answer = Api(url)("POST", "/v1/table/people/describe", {"load_detailed_metadata": True})
    assert answer.status == 409
    assert "is not a Lance dataset" in answer.json["error"]
    assert "salaries" not in answer.text


def test_the_directory_the_server_was_started_in_is_no_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec(MemoryBackend):
        """As the specifications of Hive, Glue, Unity Catalog and Iceberg say for a catalog without a root."""

        def location_for_request(self, identifier: Identifier) -> str:
            return f"{tmp_path}/{identifier[-1]}"

    monkeypatch.setattr(Spec, "default_location", lambda *_: None)
    backend = Spec(name=str(tmp_path))
    backend.insert_namespace(("a",), {})
    with served(OneCatalog(backend)) as url:
        assert Api(url)("POST", "/v1/table/a%24t/declare", {}).error == (400, 13)
        assert Api(url)("POST", "/v1/table/a%24t/create", data=b"").status == 400
    assert backend.child_tables(("a",)) == []
