"""A server that shows a certificate of somebody's own authority, and asks for one of the client's."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.backends.rest import RestBackend
from reconciler.model.errors import BackendError, InvalidInputError, ServiceUnavailableError
from tests.servers.require import tool
from tests.servers.scripted import Scripted, scripted


def _certificate(folder: Path, name: str) -> tuple[str, str]:
    """Return the files of a new certificate, signed by itself, and of its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = [tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return str(certificate), str(key)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def client(folder: Path) -> tuple[str, str]:
    return _certificate(folder, "client")


@pytest.fixture(scope="module")
def trusted(folder: Path) -> tuple[str, str]:
    return _certificate(folder, "server")


@pytest.fixture
def server(trusted: tuple[str, str], client: tuple[str, str]) -> Iterator[Scripted]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*trusted)
    context.load_verify_locations(client[0])
    context.verify_mode = ssl.CERT_REQUIRED
    with scripted(lambda _: (200, {"properties": {"a": "1"}}), context) as running:
        yield running


def _read(server: Scripted, **tls: str) -> object:
    backend = RestBackend(uri=server.url, max_retries="0", **{f"tls.{key}": value for key, value in tls.items()})
    try:
        return backend.load_namespace(("a",)).properties
    finally:
        backend.close()


def test_both_are_taken_from_files(
    server: Scripted, trusted: tuple[str, str], client: tuple[str, str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    assert _read(server, ssl_ca_cert=trusted[0], cert_file=client[0], key_file=client[1]) == {"a": "1"}
    # What is configured is meant, whatever the environment says; and one file may hold certificate and key.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", client[0])
    both = folder / "both.pem"
    both.write_text(Path(client[0]).read_text() + Path(client[1]).read_text())
    assert _read(server, ssl_ca_cert=trusted[0], cert_file=str(both)) == {"a": "1"}


def test_the_clock_of_such_a_server_is_read(
    server: Scripted, trusted: tuple[str, str], client: tuple[str, str]
) -> None:
    tls = {"tls.ssl_ca_cert": trusted[0], "tls.cert_file": client[0], "tls.key_file": client[1]}
    backend = RestBackend(uri=server.url, **tls)
    assert backend.server_time() is not None
    backend.close()


def test_without_them_it_is_said_what_is_wrong(
    server: Scripted, trusted: tuple[str, str], client: tuple[str, str], folder: Path
) -> None:
    def refused(**tls: str) -> BackendError:
        with pytest.raises(BackendError) as caught:
            _read(server, **tls)
        return caught.value

    error = refused(cert_file=client[0], key_file=client[1])
    assert isinstance(error, ServiceUnavailableError)
    assert "CERTIFICATE_VERIFY_FAILED" in str(error) or "certificate verify failed" in str(error)
    assert isinstance(refused(ssl_ca_cert=trusted[0]), ServiceUnavailableError)
    (folder / "none.pem").write_text("no certificate")
    subprocess.run(
        [
            tool("openssl"),
            "rsa",
            "-aes128",
            "-passout",
            "pass:hunter22",
            "-in",
            client[1],
            "-out",
            folder / "locked.key",
        ],
        check=True,
        capture_output=True,
    )
    for tls, said in (
        ({"ssl_ca_cert": "/nowhere/ca.pem"}, "from /nowhere/ca.pem: No such file or directory"),
        ({"ssl_ca_cert": str(folder / "none.pem")}, f"no certificates can be read from {folder}/none.pem: "),
        ({"cert_file": client[0]}, f"no certificate with its key can be read from {client[0]}: "),
        ({"cert_file": client[0], "key_file": trusted[1]}, "key values mismatch"),
        ({"cert_file": client[0], "key_file": str(folder / "locked.key")}, f"{client[0]} and {folder}/locked.key: "),
    ):
        error = refused(**tls)
        assert isinstance(error, InvalidInputError)
        assert said in str(error).lower() or said in str(error)
    assert "`tls.key_file` needs `tls.cert_file`" in str(refused(key_file=client[1]))
