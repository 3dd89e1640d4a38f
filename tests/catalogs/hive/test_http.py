"""Metastores over HTTP: a real 4.1 that believes a name, and one over TLS that checks tokens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from joserfc import jwt
from joserfc.jwk import RSAKey

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.hive3 import Hive3Backend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model.errors import (
    ErrorCode,
    InternalError,
    NamespaceAlreadyExistsError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from reconciler.model.names import Identifier
from tests.catalogs.hive.raw import drop, plain_table, put
from tests.servers.hive import Metastore, metastore
from tests.servers.listening import http_server
from tests.servers.process import free_port
from tests.soak import in_full, sampled

_PASSWORD = "changeit"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """A metastore that believes who one says one is."""
    with metastore("4.1", tmp_path_factory.mktemp("http"), scheme="http") as running:
        yield running


@pytest.mark.soak
@pytest.mark.parametrize("check", sampled(checks(), 8), ids=str)
def test_conformance(check: ConformanceCheck, server: Metastore, tmp_path: Path) -> None:
    """Some of the checks: each call takes four times as long as over Thrift's own transport, to the same metastore."""

    def add_foreign(_: Backend, identifier: Identifier) -> Callable[[], None]:
        put(server.uri, plain_table(identifier))
        return partial(drop, server.uri, identifier)

    config = {"uri": server.uri, "root": str(tmp_path / "lake")}
    verify(check, partial(registry.connect, "hive3", config), scratch=str(tmp_path), add_foreign=add_foreign)


def test_calls_share_a_connection_and_are_counted(server: Metastore, tmp_path: Path) -> None:
    backend = Hive2Backend(uri=server.uri, root=str(tmp_path), **{"client.pool-size": "1"})
    backend.insert_namespace(("shared_connection",), {})
    calls = backend.traffic().calls
    backend.scan()
    assert backend.traffic().calls > calls
    assert backend.traffic().bytes
    backend.remove_namespace(("shared_connection",))


def test_who_is_there_is_told(server: Metastore, tmp_path: Path) -> None:
    """Hive owns a database to who made it, where nobody says otherwise."""
    backend = Hive3Backend(uri=server.uri, root=str(tmp_path), ugi="ann:ads,web")
    backend.insert_namespace(("hive", "anns"), {})
    log = (server.directory / "metastore.log").read_text()
    assert backend.load_namespace(("hive", "anns")).properties.get("database.owner") == "ann", log[-2000:]
    backend.remove_namespace(("hive", "anns"))


def test_one_that_is_gone_is_passed_over(server: Metastore, tmp_path: Path) -> None:
    backend = Hive3Backend(uri=f"http://127.0.0.1:{free_port()}/metastore,{server.uri}", root=str(tmp_path))
    backend.insert_namespace(("hive", "second"), {})
    with pytest.raises(NamespaceAlreadyExistsError):
        backend.insert_namespace(("hive", "second"), {})
    backend.remove_namespace(("hive", "second"))


@pytest.mark.soak
@in_full  # Thrift's own transport comes back in `test_calls`, by the same code
def test_it_comes_back_after_a_restart(tmp_path: Path) -> None:
    port, database = free_port(), f"jdbc:derby:;databaseName={tmp_path}/db;create=true"
    with metastore("4.1", tmp_path, port=port, database=database, scheme="http") as server:
        backend = Hive3Backend(uri=server.uri, root=str(tmp_path / "lake"))
        backend.insert_namespace(("hive", "kept"), {})
    with pytest.raises(ServiceUnavailableError, match="no metastore answers at http://"):
        backend.scan()
    with metastore("4.1", tmp_path, port=port, database=database, scheme="http"):
        assert ("hive", "kept") in backend.scan().namespaces


@pytest.mark.parametrize(
    ("scheme", "path", "said"),
    [
        ("http", "/elsewhere", "it answers 405"),
        ("https", "/metastore", "WRONG_VERSION_NUMBER|wrong version number"),
    ],
)
def test_what_does_not_answer_as_a_metastore_is_told(server: Metastore, scheme: str, path: str, said: str) -> None:
    with pytest.raises(ServiceUnavailableError, match=said) as caught:
        Hive3Backend(uri=f"{scheme}://127.0.0.1:{server.port}{path}").scan()
    assert caught.value.code == ErrorCode.SERVICE_UNAVAILABLE


# ---- what no metastore answers by itself -----------------------------------------------------------------------------


@contextmanager
def _answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Give the address of something that answers every request so."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def do_GET(self) -> None:
            answer(self)

    with http_server(Handler) as url:
        yield url


def _send(handler: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def test_a_gateway_that_refuses_is_reported() -> None:
    page = b"<html><head><title>403</title><style>p {}</style></head><body><h1>Not for you</h1></body></html>"
    with (
        _answering(lambda handler: _send(handler, 403, page)) as url,
        pytest.raises(UnauthenticatedError, match="it answers 403: Not for you"),
    ):
        Hive3Backend(uri=url).scan()


def test_an_answer_without_end_is_not_read() -> None:
    with (
        _answering(lambda handler: _send(handler, 200, bytes(2 * 1024 * 1024))) as url,
        pytest.raises(InternalError, match="1 MiB; `max_answer_mib` allows more"),
    ):
        Hive3Backend(uri=url, max_answer_mib="1").scan()


def test_an_answer_that_drips_is_given_up() -> None:
    done = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not done.wait(0.05):
            handler.wfile.write(b"\x00")

    with _answering(drip) as url:
        try:
            with pytest.raises(ServiceUnavailableError, match="`request_seconds` allows more"):
                Hive3Backend(uri=url, request_seconds="0.5").scan()
        finally:
            done.set()


# ---- TLS and tokens --------------------------------------------------------------------------------------------------


class Issuer:
    """Who signs tokens, with a page where the metastore finds the keys."""

    def __init__(self) -> None:
        self._key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})

    def keys(self, handler: BaseHTTPRequestHandler) -> None:
        _send(handler, 200, json.dumps({"keys": [self._key.as_dict(private=False)]}).encode())

    def token(self, user: str, seconds: float = 600) -> str:
        claims = {"sub": user, "iat": int(time.time()) - 60, "exp": int(time.time() + seconds)}
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self._key)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def guarded(
    issuer: Issuer, certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Metastore, Mapping[str, str]]]:
    """A metastore that wants a token over TLS, and what every client of it is configured with."""
    directory = tmp_path_factory.mktemp("jwt")
    store = directory / "store.p12"
    pem, key = (path.read_bytes() for path in certificate)
    secret = load_pem_private_key(key, None)
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"server",
            secret,  # type: ignore[arg-type]
            load_pem_x509_certificate(pem),
            None,
            BestAvailableEncryption(_PASSWORD.encode()),
        )
    )
    with _answering(issuer.keys) as url:
        settings = {
            "metastore.authentication": "JWT",
            "metastore.authentication.jwt.jwks.url": f"{url}/jwks.json",
            "metastore.use.SSL": "true",
            "metastore.keystore.path": str(store),
            "metastore.keystore.password": _PASSWORD,
            "metastore.keystore.type": "PKCS12",
            "metastore.keymanagerfactory.algorithm": "SunX509",
        }
        login = {"auth": "jwt", "auth_token": issuer.token("lancens"), "ssl.ca-file": str(certificate[0])}
        with metastore("4.1", directory, scheme="https", settings=settings, login=login) as running:
            yield running, {"auth": "jwt", "ssl.ca-file": str(certificate[0])}


def test_who_has_a_token_is_let_in(
    guarded: tuple[Metastore, Mapping[str, str]], issuer: Issuer, tmp_path: Path
) -> None:
    server, config = guarded
    backend = Hive3Backend(uri=server.uri, root=str(tmp_path), auth_token=issuer.token("ann"), **config)
    backend.insert_namespace(("hive", "a"), {})
    backend.insert_table(("hive", "a", "t"), str(tmp_path / "t.lance"), {"tier": "gold"})
    assert [table.properties["tier"] for table in backend.scan().tables.values()] == ["gold"]


def test_another_token_is_refused_and_not_shown(guarded: tuple[Metastore, Mapping[str, str]], issuer: Issuer) -> None:
    server, config = guarded
    for token in (issuer.token("ann", seconds=-300), Issuer().token("ann"), "not-a-token-at-all"):
        with pytest.raises(UnauthenticatedError, match=r"it answers 401: .*; check `auth_token`") as refused:
            Hive3Backend(uri=server.uri, auth_token=token, **config).scan()
        assert refused.value.code == ErrorCode.UNAUTHENTICATED
        assert token not in str(refused.value)


def test_nobody_comes_in_without(guarded: tuple[Metastore, Mapping[str, str]]) -> None:
    server, config = guarded
    with pytest.raises(UnauthenticatedError, match="`auth: jwt` with `auth_token`"):
        Hive3Backend(uri=server.uri, **{"ssl.ca-file": config["ssl.ca-file"]}).scan()


def test_an_unknown_certificate_is_refused(guarded: tuple[Metastore, Mapping[str, str]], issuer: Issuer) -> None:
    server, _ = guarded
    with pytest.raises(ServiceUnavailableError, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
        Hive3Backend(uri=server.uri, auth="jwt", auth_token=issuer.token("ann")).scan()
