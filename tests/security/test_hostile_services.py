"""Services that answer more than anybody asked for: bombs, drops, and lists without an end."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler import storage
from reconciler.backends import registry
from reconciler.backends.http.client import HttpClient
from reconciler.backends.http.limits import ServiceLimits, TrafficMeter
from reconciler.backends.http.refusals import Refusal, excerpt, redacted_excerpt
from reconciler.backends.http.retry import RetryPolicy
from reconciler.backends.iceberg.answers import translate as iceberg
from reconciler.backends.unity.error_codes import translate as unity
from reconciler.model.errors import BackendError, InternalError, ServiceUnavailableError
from reconciler.model.live import StorageKind
from reconciler.model.redaction import scrub
from tests.servers.listening import socket_server
from tests.servers.process import HUNG_SECONDS, free_port, running, status_of
from tests.servers.scripted import Request, scripted

Answer = Callable[[socket.socket], None]


@contextmanager
def service(answer: Answer) -> Iterator[str]:
    """Run a server that writes to each connection what ``answer`` does; yields its address."""

    def one(connection: socket.socket) -> None:
        connection.recv(65536)
        answer(connection)

    with socket_server(one) as port:
        yield f"http://127.0.0.1:{port}"


def _head(length: int, *more: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {length}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def _client(url: str, **limits: float) -> HttpClient:
    given = ServiceLimits(**{"request_seconds": 1.0, "max_answer_mib": 1, **limits})
    retry = RetryPolicy(0)
    return HttpClient(impl="unity", endpoint=url, timeouts=(5, 5), limits=given, retry=retry)


_BLANKS = gzip.compress(b" " * (100 << 20))


def _bomb(mebibytes: int) -> bytes:
    """Return gzip that unpacks to blanks, in members of 100 MiB."""
    return _BLANKS * (mebibytes // 100)


# Prints the most memory this process had, in kilobytes; `ru_maxrss` begins with the size of the one that started it.
PEAK = "print(*(line for line in open('/proc/self/status') if line.startswith('VmHWM')), file=sys.stderr)"

BOMB = f"""
import sys
from reconciler.backends.rest import RestBackend
from reconciler.model.errors import BackendError
try:
    RestBackend(uri=sys.argv[1], max_retries="0").scan()
except BackendError as error:
    print(error)
{PEAK}
"""


def _said(program: str, *arguments: object) -> tuple[str, int]:
    """Return what a program printed, and the most memory it took, in kilobytes."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_SECONDS, check=True)
    return ran.stdout.strip(), int(ran.stderr.split()[1])


_LISTS = gzip.compress(b'{"namespaces": [' + b"[]," * 20_000_000 + b"[]]}", mtime=0)


@pytest.mark.parametrize(
    ("status", "encoding", "body"),
    [
        ("200 OK", "gzip", _bomb(2500)),
        ("200 OK", "gzip, gzip", gzip.compress(_bomb(600))),
        ("200 OK", "gzip", _LISTS),
        ("400 Bad Request", "gzip", _LISTS),
    ],
    ids=["bomb", "bomb in a bomb", "lists", "lists in an error"],
)
def test_a_bomb_does_not_go_off(status: str, encoding: str, body: bytes) -> None:
    """600 kB of gzip made 2.5 GB."""
    answer = _head(len(body), f"Content-Encoding: {encoding}", status=status) + body
    with service(lambda connection: connection.sendall(answer)) as url:
        said, most = _said(BOMB, url)
    assert said.startswith("rest: ")
    assert most < 400_000


@pytest.mark.parametrize("start", ["<title>", "<title", "warehouse ", "unknown ", "token "])
def test_the_text_of_an_error_is_read_in_time(start: str) -> None:
    """A page of a hundred kilobytes took half a minute."""
    text = start * 20_000
    began = time.process_time()
    excerpt(text, "text/html")
    iceberg(Refusal(404, {"error": {"message": text}}))
    unity(Refusal(401, {"message": text}))
    assert time.process_time() - began < 5


def test_a_long_error_is_searched_for_secrets_up_to_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 MB of it took five seconds at each attempt. What is cut off in the middle is not shown."""
    searched: list[int] = []

    def counted(text: str, secrets: Collection[str]) -> str:
        searched.append(len(text))
        return scrub(text, secrets)

    monkeypatch.setattr("reconciler.backends.http.refusals.scrub", counted)
    secret = "hunter2-hunter2"
    shown = {redacted_excerpt([secret], "\n" * blanks + secret + "x" * 1_000_000) for blanks in (1, (1 << 16) - 8)}
    assert not [text for text in shown if "hunter" in text]
    assert max(searched) <= 1 << 16


def test_a_large_answer_names_the_service_and_the_option() -> None:
    body = b'{"a": "' + b"x" * (2 << 20) + b'"}'
    with service(lambda connection: connection.sendall(_head(len(body)) + body)) as url:
        with pytest.raises(InternalError) as refused:
            _client(url).request_json("GET", "/x", doing="list the tables of `a`")
        assert str(refused.value).startswith("unity: list the tables of `a`: ")
        assert "1 MiB; `max_answer_mib` allows more" in str(refused.value)
        assert len(_client(url, max_answer_mib=4).request_json("GET", "/x", doing="x")["a"]) == 2 << 20


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("body", [b"\x1f\x8b\x08", b"junk", gzip.compress(b'{"a": 1}', mtime=0)[:-9], b""])
def test_broken_compression_is_an_error_of_the_service(encoding: str, body: bytes) -> None:
    head = _head(len(body), f"Content-Encoding: {encoding}")
    with (
        service(lambda connection: connection.sendall(head + body)) as url,
        pytest.raises(InternalError, match="unity: x"),
    ):
        _client(url).request_json("GET", "/", doing="x")


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(b'{"a": 1}', mtime=0), zlib.compress(b'{"a": 1}'), gzip.compress(b'{"a"') + gzip.compress(b": 1}")],
    ids=["gzip", "zlib", "members"],
)
def test_compressed_answers_are_read(packed: bytes) -> None:
    encoding = "deflate" if packed[:1] == b"\x78" else "gzip"
    with service(
        lambda connection: connection.sendall(_head(len(packed), f"Content-Encoding: {encoding}") + packed)
    ) as url:
        assert _client(url).request_json("GET", "/", doing="x") == {"a": 1}


def _drops(connection: socket.socket, start: bytes) -> None:
    connection.sendall(start)
    gone = threading.Event()
    for _ in range(300):
        connection.sendall(b" ")
        gone.wait(0.1)


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        _head(10_000),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2710\r\n",
    ],
    ids=["status", "head", "body", "chunk"],
)
def test_an_answer_that_comes_in_drops_is_given_up(start: bytes) -> None:
    with (
        service(lambda connection: _drops(connection, start)) as url,
        pytest.raises(ServiceUnavailableError) as given_up,
    ):
        _client(url).request_json("GET", "/", doing="list the schemas")
    assert "unity: list the schemas" in str(given_up.value)
    assert "`request_seconds` allows more" in str(given_up.value)


def test_a_connection_is_used_again_after_an_answer_in_time() -> None:
    with scripted(lambda _: (200, {"ok": True})) as server:
        client = _client(server.url, request_seconds=0.5)
        for _ in range(3):
            assert client.request_json("GET", "/", doing="x") == {"ok": True}
            threading.Event().wait(0.3)


def _deeper(request: Request) -> tuple[int, object]:
    """Each name is new, each namespace has another one in it."""
    if request.path == "/ListOperations":
        return 200, {"operations": []}
    is_list = request.path.endswith("/list") and "/table/" not in request.path
    name = "namespaces" if is_list else "tables"
    return 200, {name: [f"n{len(request.path)}"] if is_list else [], "properties": {"a": "x" * 20_000}}


def _further(_: Request) -> tuple[int, object]:
    """Each page of databases names another one, whatever is asked for."""
    number = time.monotonic_ns()
    database = {"Name": f"d{number}", "Description": "x" * 20_000}
    return 200, {"CatalogList": [], "DatabaseList": [database], "NextToken": str(number)}


@contextmanager
def _endless(impl: str) -> Iterator[dict[str, str]]:
    """Run a service whose scan does not end, and yield how to reach it."""
    if impl == "hive2":
        with _metastore(_wide) as uri:
            yield {"uri": uri}
        return
    with scripted(_deeper if impl == "rest" else _further) as server:
        keys = {"region": "us-east-1", "access_key_id": "AKIDX", "secret_access_key": "example"}
        yield {"uri": server.url} if impl == "rest" else {"endpoint": server.url, **keys}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("scan_seconds", "the scan takes longer than 1 s; `scan_seconds` allows more"),
        ("max_scan_mib", "the scan has read more than 1 MiB; `max_scan_mib` allows more"),
    ],
)
@pytest.mark.parametrize("impl", ["rest", "glue", "hive2"])
def test_a_scan_that_never_ends_is_given_up(impl: str, key: str, said: str) -> None:
    with _endless(impl) as config, pytest.raises(BackendError) as given_up:
        registry.connect(impl, {**config, key: "1"}).scan()
    assert str(given_up.value).startswith(f"{impl}: ")
    assert said in str(given_up.value)


def test_a_scan_leaves_nothing_behind_that_ends_another_one() -> None:
    """Of two at once, the one that ended last kept the time of the first for all that came after."""
    meter = TrafficMeter(ServiceLimits(scan_seconds=0.2))
    first, second = meter.scan_limits(), meter.scan_limits()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    threading.Event().wait(0.3)
    meter.check("unity")
    with meter.scan_limits():
        meter.check("unity")
        threading.Event().wait(0.3)
        with meter.scan_limits():
            meter.check("unity")
        with pytest.raises(ServiceUnavailableError, match="unity: the scan takes longer"):
            meter.check("unity")


# ---- Thrift and boto3 ------------------------------------------------------------------------------------------------


def _reply(asked: bytes, success: bytes) -> bytes:
    """Return the beginning of a reply to a call of Thrift's binary protocol; ``success`` is of the type ``list``."""
    (length,) = struct.unpack(">i", asked[4:8])
    return b"\x80\x01\x00\x02" + asked[4 : 12 + length] + b"\x0f" + struct.pack(">h", 0) + success


@contextmanager
def _metastore(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """Run a metastore that answers calls with what ``answer`` does; yields its address."""

    def one(connection: socket.socket) -> None:
        while asked := connection.recv(65536):
            answer(connection, asked)

    with socket_server(one) as port:
        yield f"thrift://127.0.0.1:{port}"


def _wide(connection: socket.socket, asked: bytes) -> None:
    """Name many databases, and a table in each of them after a while."""
    if b"get_table" in asked:
        threading.Event().wait(0.02)
        names = [b"x" * 20_000]
    else:
        names = [b"d%d" % number for number in range(3_000)]
    texts = b"".join(struct.pack(">i", len(name)) + name for name in names)
    connection.sendall(_reply(asked, struct.pack(">bi", 11, len(names)) + texts + b"\0"))


HIVE = f"""
import sys
from reconciler.backends import registry
from reconciler.model.errors import BackendError
try:
    registry.connect("hive2", {{"uri": sys.argv[1], "client.timeout": "5", "request_seconds": sys.argv[2]}}).scan()
except BackendError as error:
    print(error)
{PEAK}
"""


def _names(connection: socket.socket, asked: bytes) -> None:
    """Say that there are some names, and send one that never ends."""
    connection.sendall(_reply(asked, struct.pack(">bii", 11, 2, 2**30)))
    for _ in range(3_000):
        connection.sendall(b"x" * (1 << 20))


def test_a_metastores_reply_is_taken_up_to_a_size() -> None:
    with _metastore(_names) as uri:
        said, most = _said(HIVE, uri, 300)
    assert said.startswith("hive2: ")
    assert "`max_answer_mib`" in said, said
    assert most < 400_000


def _many(connection: socket.socket, asked: bytes) -> None:
    connection.sendall(_reply(asked, struct.pack(">bi", 11, 60_000_000)))
    for _ in range(300):
        connection.sendall(struct.pack(">ix", 1) * 200_000)


def test_a_metastores_list_is_taken_up_to_a_length() -> None:
    with _metastore(_many) as uri:
        said, most = _said(HIVE, uri, 300)
    assert said.startswith("hive2: ")
    assert most < 400_000


def _dripping(connection: socket.socket, asked: bytes) -> None:
    _drops(connection, _reply(asked, struct.pack(">bii", 11, 1, 10_000)))


def test_a_metastores_reply_that_comes_in_drops_is_given_up() -> None:
    with _metastore(_dripping) as uri:
        said, _ = _said(HIVE, uri, 1)
    assert f"the answer of {uri.removeprefix('thrift://')} was not complete within 1 s" in said
    assert "`request_seconds` allows more" in said


GLUE = f"""
import sys
from reconciler.backends import registry
from reconciler.model.errors import BackendError
config = {{"endpoint": sys.argv[1], "region": "us-east-1", "access_key_id": "AKIDX", "secret_access_key": "example"}}
try:
    registry.connect("glue", {{**config, "request_seconds": sys.argv[2]}}).scan()
except BackendError as error:
    print(error)
{PEAK}
"""


def _flood(connection: socket.socket) -> None:
    connection.sendall(_head(3 << 30))
    for _ in range(3_000):
        connection.sendall(b" " * (1 << 20))


def test_an_answer_of_glue_is_taken_up_to_a_size() -> None:
    with service(_flood) as url:
        said, most = _said(GLUE, url, 300)
    assert said.startswith("glue: GetCatalogs on ")
    assert said.endswith("64 MiB; `max_answer_mib` allows more")
    assert most < 400_000


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX-Slow: ", _head(10_000)], ids=["head", "body"])
def test_an_answer_of_glue_that_comes_in_drops_is_given_up(start: bytes) -> None:
    with service(lambda connection: _drops(connection, start)) as url:
        said, _ = _said(GLUE, url, 1)
    assert said.startswith("glue: GetCatalogs on ")
    assert f"{url}/ was not complete within 1 s" in said


# ---- storage ---------------------------------------------------------------------------------------------------------


def test_metadata_in_an_object_store_is_read_up_to_a_size(tmp_path: Path) -> None:
    """40 MB of it were downloaded before anybody looked."""
    import boto3

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = {"aws_endpoint": url, "aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "us-east-1"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, tmp_path / "s3.log", lambda: status_of("GET", f"{url}/moto-api/") == 200):
        keys: Any = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
        s3.create_bucket(Bucket="lake")
        document = json.dumps({"properties": {"table_type": "lance"}}).encode()
        s3.put_object(Bucket="lake", Key="small/metadata/v1.metadata.json", Body=document)
        s3.put_object(Bucket="lake", Key="large/metadata/v1.metadata.json", Body=document + b" " * (40 << 20))
        found = [storage.probe(f"s3://lake/{name}", {**options, "allow_http": "true"}) for name in ("small", "large")]
    assert [one.kind for one in found] == [StorageKind.NOTHING, StorageKind.NOT_LANCE]
    asked = [line for line in (tmp_path / "s3.log").read_text().splitlines() if "GET /lake/large/metadata/v1" in line]
    assert asked
    assert all('" 206 ' in line for line in asked), asked


def test_metadata_on_disk_is_read_up_to_a_size(tmp_path: Path) -> None:
    folder = tmp_path / "t/metadata"
    folder.mkdir(parents=True)
    document = json.dumps({"properties": {"table_type": "lance"}}).encode()
    (folder / "v1.metadata.json").write_bytes(document + b" " * (40 << 20))
    assert storage.probe(str(tmp_path / "t"), {}).kind is StorageKind.NOT_LANCE


def test_metadata_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    """2.6 MB of a `.metadata.json.gz` beside a table made 5.6 GB."""
    folder = tmp_path / "t/metadata"
    folder.mkdir(parents=True)
    (folder / "v1.metadata.json.gz").write_bytes(_bomb(2000))
    script = f"""
        import sys
        from reconciler import storage
        print(storage.probe(sys.argv[1], {{}}).kind.name)
        {PEAK}
    """
    said, most = _said(textwrap.dedent(script), tmp_path / "t")
    assert said == StorageKind.NOT_LANCE.name
    assert most < 600_000


def test_metadata_of_a_lance_table_is_still_known(tmp_path: Path) -> None:
    folder = tmp_path / "t/metadata"
    folder.mkdir(parents=True)
    document = json.dumps({"properties": {"table_type": "lance"}}).encode()
    (folder / "v1.metadata.json.gz").write_bytes(gzip.compress(document, mtime=0))
    (folder / "v2.metadata.json").write_bytes(document)
    assert storage.probe(str(tmp_path / "t"), {}).kind is StorageKind.NOTHING


def test_what_is_in_a_foreign_directory_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "salaries-2026.csv").touch()
    found = storage.probe(str(tmp_path), {})
    assert found.kind is StorageKind.NOT_LANCE
    assert "salaries" not in str(found)
