"""The example of a proxy before ``lancens serve``, on a real nginx."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3

from reconciler.backends.memory import MemoryBackend
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings, Tokens
from reconciler.server.running import ListenAddress
from tests.server.client import Api, Reply
from tests.servers.lance_rest import served
from tests.servers.require import tool

EXAMPLE = Path(__file__).parents[2] / "examples/serve/nginx.conf"
NAME = "catalogs.example.com"
TOKEN = "write-token-0123456789"
_WAITS = 200


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Proxied:
    """What a client gets that comes through the proxy; ``behind`` is the server's own address."""

    def __init__(self, port: int, certificate: Path, behind: str) -> None:
        self.port, self.behind = port, behind
        self._pool = urllib3.HTTPSConnectionPool(
            "127.0.0.1",
            port,
            ca_certs=str(certificate),
            assert_hostname=NAME,
            server_hostname=NAME,
            retries=False,
            timeout=30,
            maxsize=8,
        )

    def __call__(self, method: str, path: str, **headers: str) -> Reply:
        sent = {"Host": NAME, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return Reply(self._pool.urlopen(method, path, headers=sent))

    def begin(self, head: str) -> ssl.SSLSocket:
        """Return a connection of its own on which ``head`` was sent."""
        context = ssl._create_unverified_context()  # noqa: S323 - of this test alone
        connection = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=30))
        connection.sendall(f"{head}\r\nHost: {NAME}\r\n".encode())
        return connection

    def begin_body(self) -> ssl.SSLSocket:
        """Return a connection whose request nginx has begun to read the body of."""
        connection = self.begin("POST /ListTables HTTP/1.1")
        connection.sendall(b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
        assert b"100 Continue" in connection.recv(100)
        connection.sendall(b"{")
        return connection


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Proxied]:
    program = tool("nginx")
    certificate, key, port = tmp_path / "tls.crt", tmp_path / "tls.key", _free_port()
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={NAME}"]
    names = ["-addext", f"subjectAltName=DNS:{NAME}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    backend = MemoryBackend()
    backend.insert_namespace(("a",), {})
    backend.insert_table(("a", "100% odd+name"), "s3://lake/odd", {})
    settings = Settings(tokens=Tokens(read_write=[TOKEN]), hosts=ListenAddress("127.0.0.1", 0).own_names([NAME]))
    with served(OneCatalog(backend), settings) as url:
        text = EXAMPLE.read_text()
        for theirs, ours in (
            ("127.0.0.1:2333", url.removeprefix("http://")),
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("/etc/nginx/tls/catalogs.crt", str(certificate)),
            ("/etc/nginx/tls/catalogs.key", str(key)),
            ("client_header_timeout 10s", "client_header_timeout 1s"),
            ("limit_conn lancens_connections 100", "limit_conn lancens_connections 60"),
        ):
            assert theirs in text
            text = text.replace(theirs, ours)
        (tmp_path / "site.conf").write_text(text)
        temporary = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\n"
            f"events {{}}\nhttp {{\naccess_log off;\n{temporary}include {tmp_path}/site.conf;\n}}\n"
        )
        process = subprocess.Popen(
            [str(program), "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "first.log")]
        )
        try:
            _wait_for(port, process)
            yield Proxied(port, certificate, url)
        finally:
            process.terminate()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(_WAITS):
        assert process.poll() is None, "nginx has ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise AssertionError("nginx does not listen")


def test_the_example_brings_requests_to_the_server_and_nothing_else(nginx: Proxied) -> None:
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    listed = nginx("GET", "/v1/namespace/a/table/list", **allowed)
    assert listed.json == {"tables": ["100% odd+name"]} if listed.status == 200 else listed.text
    described = nginx("POST", "/v1/table/a%24100%25%20odd%2Bname/describe", x_api_key=TOKEN)
    assert described.json["location"] == "s3://lake/odd"
    assert len(described.headers["x-request-id"]) == 32
    assert nginx("GET", "/v1/namespace/a/table/list").error == (401, 16)
    assert nginx("GET", "/v1/namespace/a/table/list", **allowed, Origin="https://page").error == (403, 15)
    assert nginx("GET", "/metrics", **allowed).status == 403
    assert nginx("GET", "/healthz").json == {"status": "ok"}


def test_another_name_than_the_servers_is_refused(nginx: Proxied) -> None:
    assert nginx("GET", "/v1/namespace/a/table/list", Host="other", Authorization=f"Bearer {TOKEN}").error == (403, 15)


def test_a_client_that_asks_too_often_is_told_so(nginx: Proxied) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: nginx("GET", "/healthz").status, range(400)))
    assert set(replies) == {200, 429}


def test_heads_that_never_end_are_cut_off_and_keep_nobody_out(nginx: Proxied) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(nginx.begin("GET /healthz HTTP/1.1")) for _ in range(100)]
        assert nginx("GET", "/healthz").status == 200
        assert {connection.recv(1) for connection in slow} == {b""}


def test_bodies_that_never_end_do_not_reach_the_server(nginx: Proxied) -> None:
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(nginx.begin_body())
        assert nginx("GET", "/healthz").status == 200
        assert "lancens_requests_in_flight 1.0" in Api(nginx.behind, TOKEN)("GET", "/metrics").text


def test_a_client_with_too_many_connections_is_told_so(nginx: Proxied) -> None:
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(nginx.begin_body())
        assert nginx("GET", "/healthz").status == 429


def test_a_plain_connection_is_not_served(nginx: Proxied) -> None:
    plain = urllib3.HTTPConnectionPool("127.0.0.1", nginx.port, retries=False, timeout=30)
    assert plain.urlopen("GET", "/healthz").status == 400
    with pytest.raises(urllib3.exceptions.SSLError):
        urllib3.HTTPSConnectionPool(
            "127.0.0.1", nginx.port, retries=False, ssl_context=_old(), assert_hostname=False
        ).urlopen("GET", "/healthz")


def _old() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context
