"""Connections: pooled, failed over, tried again only where that is safe, bounded in time; no JVM is needed."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from thrift.transport.TTransport import TTransportException

from reconciler.backends.config import check_config, parse_config
from reconciler.backends.hive import metastore
from reconciler.backends.hive.config import HiveConfig
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.metastore import Metastore
from reconciler.errors import ErrorCode, InvalidInputError, ServiceUnavailableError
from tests.servers.hive_stub import Stub, stub
from tests.servers.process import free_port
from tests.servers.require import tool

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client


def _list(client: Client) -> list[str]:
    return list(client.get_databases("*"))


def _drop(client: Client) -> None:
    client.drop_table("a", "b", False)


def _config(*ports: int, **more: str) -> HiveConfig:
    uris = ",".join(f"thrift://127.0.0.1:{port}" for port in ports)
    return parse_config(HiveConfig, "hive2", {"uri": uris, **more})


def _connect(*ports: int, **more: str) -> Metastore:
    return Metastore("hive2", _config(*ports, **more), lambda _: None)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metastore, "_PAUSES", (0.0, 0.0))


@pytest.fixture
def served() -> Iterator[Stub]:
    with stub(Stub()) as running:
        yield running


def _break_off(times: int) -> Callable[[str], None]:
    """Return a behaviour that breaks off the first ``times`` calls."""
    left = [times]

    def behave(call: str) -> None:
        if left[0]:
            left[0] -= 1
            raise TTransportException(message="broken off")

    return behave


# ---- the pool --------------------------------------------------------------------------------------------------------


def test_a_connection_is_used_again(served: Stub) -> None:
    calls = _connect(served.port)
    assert [calls.read(_list) for _ in range(3)] == [["stub", "*"]] * 3
    assert served.connections == 1
    calls.close()


def test_no_more_connections_than_the_pool_has_room_for(served: Stub) -> None:
    together = threading.Barrier(2, timeout=30)
    served.behave = lambda _: together.wait()
    calls = _connect(served.port, **{"client.pool-size": "2"})
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda _: calls.read(_list), range(8)))) == 8
    assert served.connections == served.most_at_once == 2
    calls.close()


def test_a_closed_backend_keeps_no_connection(served: Stub) -> None:
    calls = _connect(served.port)
    calls.read(_list)
    calls.close()
    calls.read(_list)
    calls.read(_list)
    assert served.connections == 3


def test_the_caller_is_named_on_every_connection(served: Stub) -> None:
    backend = Hive2Backend(uri=f"thrift://127.0.0.1:{served.port}", ugi="ann:data,web")
    backend._metastore.read(_list)
    assert served.asked == ["set_ugi ann data,web", "get_databases"]
    backend.close()


# ---- a metastore that goes away --------------------------------------------------------------------------------------


def test_nobody_there_is_service_unavailable() -> None:
    one, other = free_port(), free_port()
    for call in (_list, _drop):
        with pytest.raises(ServiceUnavailableError, match=f"no metastore answers at 127.0.0.1:{one}") as caught:
            _connect(one).read(call)
        assert caught.value.code == ErrorCode.SERVICE_UNAVAILABLE
    with pytest.raises(ServiceUnavailableError) as caught:
        _connect(one, other).write(_drop)
    assert f"127.0.0.1:{one}: " in str(caught.value)
    assert f"127.0.0.1:{other}: " in str(caught.value)


def test_the_next_address_takes_over_and_is_kept(served: Stub) -> None:
    calls = _connect(free_port(), served.port)
    assert calls.read(_list) == ["stub", "*"]
    calls.write(_drop)
    assert served.asked == ["get_databases", "drop_table"]
    calls.close()


def test_the_other_takes_over_when_one_goes_away() -> None:
    with stub(Stub("other")) as other:
        with stub(Stub("one")) as one:
            calls = _connect(one.port, other.port)
            assert calls.read(_list)[0] == "one"
        assert calls.read(_list)[0] == "other"
        calls.write(_drop)
        assert other.asked == ["get_databases", "drop_table"]
        calls.close()


def test_a_write_after_a_restart_goes_over_a_new_connection() -> None:
    served = Stub()
    with ExitStack() as first:
        first.enter_context(stub(served))
        calls = _connect(served.port)
        calls.write(_drop)
        first.close()
        with stub(served):
            calls.write(_drop)
            assert served.asked == ["drop_table", "drop_table"]
            calls.close()


def test_a_read_that_breaks_off_is_tried_again(served: Stub) -> None:
    served.behave = _break_off(2)
    calls = _connect(served.port)
    assert calls.read(_list) == ["stub", "*"]
    assert served.asked == ["get_databases"] * 3
    calls.close()


def test_a_read_is_given_up_in_the_end(served: Stub) -> None:
    served.behave = _break_off(99)
    with pytest.raises(ServiceUnavailableError, match="no metastore answers"):
        _connect(served.port).read(_list)
    assert len(served.asked) == 3


def test_a_write_that_breaks_off_is_sent_once(served: Stub) -> None:
    served.behave = _break_off(1)
    calls = _connect(served.port)
    with pytest.raises(ServiceUnavailableError, match="whether the change was made is not known"):
        calls.write(_drop)
    assert served.asked == ["drop_table"]
    calls.write(_drop)
    calls.close()


def test_a_metastore_that_never_answers_is_given_up(served: Stub) -> None:
    hanging = threading.Event()
    served.behave = lambda _: hanging.wait(60)
    calls = _connect(served.port, **{"client.timeout": "0.1"})
    try:
        with pytest.raises(ServiceUnavailableError, match=r"timed out|timeout"):
            calls.read(_list)
        with pytest.raises(ServiceUnavailableError, match="not known"):
            calls.write(_drop)
    finally:
        hanging.set()
    calls.close()


# ---- transports ------------------------------------------------------------------------------------------------------


def test_framed() -> None:
    with stub(Stub(), framed=True) as served:
        calls = _connect(served.port, framed="true")
        assert calls.read(_list) == ["stub", "*"]
        calls.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of a certificate for 127.0.0.1 and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = [tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=stub"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_tls(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with stub(Stub(), tls=context) as served:
        trusting = _connect(served.port, ssl="true", **{"ssl.ca-file": str(certificate[0])})
        assert [trusting.read(_list) for _ in range(2)] == [["stub", "*"]] * 2
        assert served.connections == 1
        trusting.close()
        with pytest.raises(ServiceUnavailableError, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            _connect(served.port, ssl="true").read(_list)


def test_a_missing_ca_file_is_named(served: Stub) -> None:
    with pytest.raises(InvalidInputError, match=r"`ssl\.ca-file` /nowhere\.pem cannot be used"):
        _connect(served.port, ssl="true", **{"ssl.ca-file": "/nowhere.pem"}).read(_list)


def test_kerberos_without_its_library_names_the_package(served: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "puresasl", None)
    monkeypatch.setitem(sys.modules, "puresasl.client", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'lancens\[kerberos\]'"):
        _connect(served.port, auth="kerberos").read(_list)


# ---- configuration ---------------------------------------------------------------------------------------------------


def test_several_uris_in_one_text() -> None:
    config = parse_config(HiveConfig, "hive3", {"hive3.uri": " thrift://b:9084, a ,thrift://[::1]:1"})
    assert list(map(str, config.uri)) == ["b:9084", "a:9083", "::1:1"]
    assert config.identity() == parse_config(HiveConfig, "hive3", {"uri": "a,[::1]:1,b:9084"}).identity()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "`uri` is missing"),
        ({"uri": "http://a:1"}, "`uri`: expected thrift://HOST:PORT, several separated by commas"),
        ({"uri": ","}, "`uri`: expected thrift://HOST:PORT, several separated by commas"),
        ({"uri": "thrift://ann:pw@a:1"}, "`uri`: a metastore's URI holds no user information"),
        ({"uri": "a", "client.pool-size": "0"}, "`client.pool-size`: expected 1 or more"),
        ({"uri": "a", "client.timeout": "soon"}, "`client.timeout`: expected a number"),
        ({"uri": "a", "client.pool_size": "1"}, "unknown key `client.pool_size`; did you mean `client.pool-size`?"),
        ({"uri": "a", "auth": "ldap"}, "`auth`: expected 'none' or 'kerberos'"),
        ({"uri": "a", "ssl.ca-file": "x"}, "`ssl.ca-file` is given, but `ssl` is not true"),
    ],
)
def test_faulty_configuration_is_named(properties: dict[str, str], message: str) -> None:
    problems = [problem.message for problem in check_config(HiveConfig, "hive2", properties)]
    assert len(problems) == 1
    assert problems[0].startswith(message)
