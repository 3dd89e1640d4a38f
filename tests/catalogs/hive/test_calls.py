"""Connections: pooled, failed over, tried again only where that is safe, bounded in time; no JVM is needed."""

from __future__ import annotations

import random
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext, suppress
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

from reconciler.backends.hive import entries
from reconciler.backends.hive.config import HiveConfig
from reconciler.backends.hive.gen import ttypes
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.backends.hive.metastore import Metastore
from reconciler.model.backend_config import parse_config, read_config
from reconciler.model.columns import ShownColumn
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    ErrorCode,
    InvalidInputError,
    ServiceUnavailableError,
)
from reconciler.model.live import PropertyChanges
from reconciler.server.served import ServedNamespace
from tests.clock import SimulatedClock, simulated_time
from tests.servers.hive_stub import Stub, stub
from tests.servers.listening import silent, socket_server
from tests.servers.process import free_port

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
    assert [calls.read(_list, "calling") for _ in range(3)] == [["stub", "*"]] * 3
    assert served.connections == 1
    calls.close()


def test_no_more_connections_than_the_pool_has_room_for(served: Stub) -> None:
    together = threading.Barrier(2, timeout=30)
    served.behave = lambda _: together.wait()
    calls = _connect(served.port, **{"client.pool-size": "2"})
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda _: calls.read(_list, "calling"), range(8)))) == 8
    assert served.connections == served.most_at_once == 2
    calls.close()


def test_a_closed_backend_keeps_no_connection(served: Stub) -> None:
    calls = _connect(served.port)
    calls.read(_list, "calling")
    calls.close()
    calls.read(_list, "calling")
    calls.read(_list, "calling")
    assert served.connections == 3


def test_the_caller_is_named_on_every_connection(served: Stub) -> None:
    backend = Hive2Backend(uri=f"thrift://127.0.0.1:{served.port}", ugi="ann:data,web")
    backend._metastore.read(_list, "listing")
    assert served.asked == ["set_ugi ann data,web", "get_databases"]
    backend.close()


# ---- a metastore that goes away --------------------------------------------------------------------------------------


def test_nobody_there_is_service_unavailable() -> None:
    one, other = free_port(), free_port()
    for call in (_list, _drop):
        with pytest.raises(ServiceUnavailableError, match=f"no metastore answers at 127.0.0.1:{one}") as caught:
            _connect(one).read(call, "calling")
        assert caught.value.code == ErrorCode.SERVICE_UNAVAILABLE
        assert str(caught.value).count(str(one)) == 1
    with pytest.raises(ServiceUnavailableError) as caught:
        _connect(one, other).write(_drop, "calling")
    assert f"127.0.0.1:{one}: " in str(caught.value)
    assert f"127.0.0.1:{other}: " in str(caught.value)


def test_the_next_address_takes_over_and_is_kept(served: Stub) -> None:
    calls = _connect(free_port(), served.port)
    assert calls.read(_list, "calling") == ["stub", "*"]
    calls.write(_drop, "calling")
    assert served.asked == ["get_databases", "drop_table"]
    calls.close()


def test_the_other_takes_over_when_one_goes_away() -> None:
    with stub(Stub("other")) as other:
        with stub(Stub("one")) as one:
            calls = _connect(one.port, other.port)
            assert calls.read(_list, "calling")[0] == "one"
        assert calls.read(_list, "calling")[0] == "other"
        calls.write(_drop, "calling")
        assert other.asked == ["get_databases", "drop_table"]
        calls.close()


def test_a_write_after_a_restart_goes_over_a_new_connection() -> None:
    served = Stub()
    with ExitStack() as first:
        first.enter_context(stub(served))
        calls = _connect(served.port)
        calls.write(_drop, "calling")
        first.close()
        with stub(served):
            calls.write(_drop, "calling")
            assert served.asked == ["drop_table", "drop_table"]
            calls.close()


def test_a_read_that_breaks_off_is_tried_again(served: Stub) -> None:
    served.behave = _break_off(2)
    calls = _connect(served.port)
    assert calls.read(_list, "calling") == ["stub", "*"]
    assert served.asked == ["get_databases"] * 3
    calls.close()


def test_a_read_is_given_up_in_the_end(served: Stub) -> None:
    served.behave = _break_off(99)
    with pytest.raises(ServiceUnavailableError, match="no metastore answers"):
        _connect(served.port).read(_list, "calling")
    assert len(served.asked) == 3


def test_a_write_that_breaks_off_is_sent_once(served: Stub) -> None:
    served.behave = _break_off(1)
    calls = _connect(served.port)
    with pytest.raises(ServiceUnavailableError, match="unknown whether the change was made"):
        calls.write(_drop, "calling")
    assert served.asked == ["drop_table"]
    calls.write(_drop, "calling")
    calls.close()


def test_a_port_that_never_answers_is_given_up_after_one_connection(served: Stub) -> None:
    hanging = threading.Event()
    served.behave = lambda _: hanging.wait(60)
    calls = _connect(served.port, **{"client.connect-timeout": "0.1"})
    try:
        with pytest.raises(ServiceUnavailableError, match="is `uri` the metastore's"):
            calls.read(_list, "calling")
    finally:
        hanging.set()
    assert len(served.asked) == 1
    calls.close()


def test_a_metastore_that_answers_no_more_is_given_up(served: Stub) -> None:
    hanging = threading.Event()
    calls = _connect(served.port, **{"client.timeout": "0.1"})
    assert calls.read(_list, "calling") == ["stub", "*"]
    served.behave = lambda _: hanging.wait(60)
    try:
        with pytest.raises(ServiceUnavailableError, match=r"timed out|timeout"):
            calls.read(_list, "calling")
        with pytest.raises(ServiceUnavailableError, match="it is unknown whether"):
            calls.write(_drop, "calling")
    finally:
        hanging.set()
    calls.close()


# ---- several metastores of one installation --------------------------------------------------------------------------


def _closing(_: socket.socket) -> None:
    """Say nothing, so that the connection is closed."""


@pytest.mark.parametrize("handle", [_closing, silent])
def test_the_next_takes_over_from_one_that_only_accepts(served: Stub, handle: Callable[[socket.socket], None]) -> None:
    with socket_server(handle) as port:
        uris = f"thrift://127.0.0.1:{port},thrift://127.0.0.1:{served.port}"
        for call in (_list, _drop):
            backend = Hive2Backend(uri=uris, **{"client.connect-timeout": "0.2"})
            backend._metastore.write(call, "dropping")
            backend.close()
    assert served.asked == ["get_databases", "get_databases", "get_databases", "drop_table"]


def test_the_next_takes_over_from_one_that_hangs_after_it_has_answered(served: Stub) -> None:
    hanging, stuck = threading.Event(), threading.Event()
    with stub(Stub("first")) as first:
        backend = Hive2Backend(
            uri=f"thrift://127.0.0.1:{first.port},thrift://127.0.0.1:{served.port}", **{"client.timeout": "0.2"}
        )
        calls = backend._metastore
        assert calls.read(_list, "calling")[0] == "first"

        def hang(_: str) -> None:
            stuck.set()
            hanging.wait(60)

        first.behave = hang
        try:
            assert calls.read(_list, "calling")[0] == "stub"
            stuck.clear()
            assert calls.read(_list, "calling")[0] == "stub"
            calls.write(_drop, "calling")
            assert not stuck.is_set()
        finally:
            hanging.set()
        backend.close()


# ---- answers that make no sense --------------------------------------------------------------------------------------


def _replies(reply: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(reply)
            connection.shutdown(socket.SHUT_RDWR)

    return answer


def _reply(result: object, name: str) -> bytes:
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TMessageType
    from thrift.transport.TTransport import TMemoryBuffer

    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, TMessageType.REPLY, 0)
    result.write(protocol)  # type: ignore[attr-defined]
    return bytes(buffer.getvalue())


def _table_reply() -> bytes:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import get_table_req_result

    table = ttypes.Table("t", "d", sd=ttypes.StorageDescriptor(location="/t"), parameters={"table_type": "lance"})
    return _reply(get_table_req_result(ttypes.GetTableResult(table)), "get_table_req")


def _damaged() -> Iterator[bytes]:
    """Yield the reply cut at every byte, and then with bytes changed."""
    whole = _table_reply()
    yield from (whole[:length] for length in range(0, len(whole), 3))
    dice = random.Random(7)
    for _ in range(60):
        reply = bytearray(whole)
        for _ in range(3):
            reply[dice.randrange(len(reply))] = dice.randrange(256)
        yield bytes(reply)


def test_a_reply_that_is_cut_or_damaged_is_an_error_of_ours() -> None:
    """Whatever Thrift makes of it: TypeError, UnicodeDecodeError, OverflowError and more were seen."""
    replies = list(_damaged())

    def answer_next(connection: socket.socket) -> None:
        _replies(replies.pop())(connection)

    with socket_server(answer_next) as port:
        calls = _connect(port, **{"client.timeout": "5"})
        while replies:
            with suppress(BackendError, TApplicationException):
                calls.write(lambda client: client.get_table_req(ttypes.GetTableRequest("d", "t")), "calling")
        calls.close()


def test_a_reply_of_the_wrong_shape_says_so() -> None:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import get_databases_result

    reply = _reply(get_databases_result(["a"]), "get_databases").replace(b"a", b"\xff")
    with (
        socket_server(_replies(reply)) as port,
        pytest.raises(ServiceUnavailableError, match="its reply is invalid"),
    ):
        _connect(port).read(_list, "calling")


# ---- transports ------------------------------------------------------------------------------------------------------


def test_framed() -> None:
    with stub(Stub(), framed=True) as served:
        calls = _connect(served.port, framed="true")
        assert calls.read(_list, "calling") == ["stub", "*"]
        calls.close()


def test_tls(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with stub(Stub(), tls=context) as served:
        trusting = _connect(served.port, ssl="true", **{"ssl.ca-file": str(certificate[0])})
        assert [trusting.read(_list, "calling") for _ in range(2)] == [["stub", "*"]] * 2
        assert served.connections == 1
        trusting.close()
        with pytest.raises(ServiceUnavailableError, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            _connect(served.port, ssl="true").read(_list, "calling")


def test_a_missing_ca_file_is_named(served: Stub) -> None:
    with pytest.raises(InvalidInputError, match=r"`ssl\.ca-file` /nowhere\.pem"):
        _connect(served.port, ssl="true", **{"ssl.ca-file": "/nowhere.pem"}).read(_list, "calling")


def test_kerberos_without_its_library_names_the_package(served: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidInputError, match=r"pip install '.*\[kerberos\]'"):
        _connect(served.port, auth="kerberos").read(_list, "calling")


# ---- configuration ---------------------------------------------------------------------------------------------------


def test_kerberos_without_a_ticket_says_so(served: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "none.conf"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    with pytest.raises(ServiceUnavailableError, match=r"Kerberos: .*kinit") as caught:
        _connect(served.port, auth="kerberos").read(_list, "calling")
    assert caught.value.code == ErrorCode.SERVICE_UNAVAILABLE


def test_several_uris_in_one_text() -> None:
    config = parse_config(HiveConfig, "hive3", {"hive3.uri": " thrift://b:9084, a ,thrift://[::1]:1"})
    assert list(map(str, config.uri)) == ["b:9084", "a:9083", "::1:1"]
    assert config.identity() == parse_config(HiveConfig, "hive3", {"uri": "a,[::1]:1,b:9084"}).identity()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "`uri` is missing"),
        ({"uri": "http://ann:pw@a:1"}, "`uri`: a metastore's URI holds no user information"),
        ({"uri": "http://a:1/m?x=1"}, "`uri`: a metastore's address over HTTP cannot hold a query or fragment"),
        ({"uri": "http://a:1,thrift://b:2"}, "`uri` names metastores over HTTP beside others"),
        ({"uri": "http://a:1", "framed": "true"}, "`framed` is for thrift://"),
        ({"uri": "http://a:1", "auth": "kerberos"}, "`auth: kerberos` is for thrift://; over HTTP write `auth: jwt`"),
        ({"uri": "http://a:1", "ssl": "true"}, "`ssl` is true, but `uri` is http://; write https://"),
        ({"uri": "a", "auth": "jwt", "auth_token": "x"}, "`auth: jwt` is for metastores over HTTP"),
        ({"uri": "https://a", "auth": "jwt"}, "`auth: jwt` needs `auth_token`"),
        ({"uri": "https://a", "auth_token": "x"}, "`auth_token` is given, but `auth` is not jwt"),
        (
            {"uri": "http://a/metastore", "auth": "jwt", "auth_token": "x"},
            "`auth_token` would go to http://a:80/metastore unencrypted; write https://",
        ),
        (
            {"uri": "thrift://a:1", "delegation_token": "x"},
            "unknown key `delegation_token`; delegation tokens are not supported",
        ),
        ({"uri": "a/b"}, "`uri`: expected thrift://HOST:PORT or http(s)://HOST:PORT/metastore, several"),
        (
            {"uri": ","},
            "`uri`: expected thrift://HOST:PORT or http(s)://HOST:PORT/metastore, several separated by commas",
        ),
        ({"uri": "thrift://ann:pw@a:1"}, "`uri`: a metastore's URI holds no user information"),
        ({"uri": "a", "client.pool-size": "0"}, "`client.pool-size`: expected 1 or more"),
        ({"uri": "a", "client.timeout": "soon"}, "`client.timeout`: expected a number"),
        ({"uri": "a", "client.timeout": "inf"}, "`client.timeout`: expected at most 3600"),
        ({"uri": "a", "client.connect-timeout": "1e12"}, "`client.connect-timeout`: expected at most 3600"),
        ({"uri": "a", "ugi": ":ads"}, "`ugi`: "),
        ({"uri": "a", "ugi": "ann:ads web"}, "`ugi`: "),
        ({"uri": "a", "client.pool_size": "1"}, "unknown key `client.pool_size`; did you mean `client.pool-size`?"),
        ({"uri": "a", "auth": "ldap"}, "`auth`: expected 'none', 'kerberos', 'plain' or 'jwt'"),
        ({"uri": "a", "ssl.ca-file": "x"}, "`ssl.ca-file` is given, but `ssl` is not true"),
    ],
)
def test_faulty_configuration_is_named(properties: dict[str, str], message: str) -> None:
    problems = [problem.message for problem in read_config(HiveConfig, "hive2", properties)[1]]
    assert len(problems) == 1
    assert problems[0].startswith(message)


class Moving(Stub):
    """Holds one database, which other clients move."""

    place = "s3://lake/old"

    def get_database(self, name: str) -> ttypes.Database:
        kept = {"lancens.managed-by": "shop/lake", "lancens.keys": f'["{entries.DATABASE_LOCATION}"]'}
        return ttypes.Database(name=name, locationUri=self.place, parameters=kept)


def test_a_database_that_moved_places_the_next_table() -> None:
    moving = Moving()
    with stub(moving) as running, closing(Hive2Backend(uri=f"thrift://127.0.0.1:{running.port}")) as backend:
        assert backend.location_for_request(("ads", "t")) == "s3://lake/old/t"
        moving.place = "s3://lake/new"
        assert backend.location_for_request(("ads", "t")) == "s3://lake/new/t"
        served = ServedNamespace(backend)
        for moving.place in ("s3://lake/served", "s3://lake/moved"):
            assert served._new_table_location(("ads", "t")) == f"{moving.place}/t"


# ---- a write that the metastore itself repeats -----------------------------------------------------------------------


class Repeating(Stub):
    """Holds one table, and repeats an alter of it, as a metastore does that lost its database's answer to a commit."""

    held = entries.plain_table(("a", "t"), "s3://lake/t")

    def get_table_req(self, req: ttypes.GetTableRequest) -> ttypes.GetTableResult:
        return ttypes.GetTableResult(self.held)

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: ttypes.Table, environment_context: ttypes.EnvironmentContext
    ) -> None:
        self._ask("alter_table")
        self.held = new_tbl
        raise ttypes.MetaException(
            "The table has been modified. The parameter value for key 'transient_lastDdlTime' is '2'. "
            "The expected was value was '1'"
        )


def test_a_change_that_was_made_is_not_taken_for_that_of_another() -> None:
    held = Repeating()
    entries.set_table_parameters(held.held, {"k": "1", "transient_lastDdlTime": "1"})
    with stub(held), closing(Hive2Backend(uri=f"thrift://127.0.0.1:{held.port}")) as backend:
        altered = backend.alter_table(("a", "t"), PropertyChanges({"k": "2"}))
    assert altered.properties["k"] == "2"
    assert held.asked == ["alter_table"]


# ---- changes of others within a second -------------------------------------------------------------------------------


class Comparing(Stub):
    """Holds one table, and compares before it sets, as 2.3 and 4.x do; another client comes right before an alter."""

    clock = SimulatedClock()
    held = entries.plain_table(("a", "t"), "s3://lake/t")
    others = 0

    def get_database(self, name: str) -> ttypes.Database:
        return ttypes.Database(name=name, locationUri="s3://lake", parameters={})

    def get_table_req(self, req: ttypes.GetTableRequest) -> ttypes.GetTableResult:
        if (req.dbName, req.tblName) != (self.held.dbName, self.held.tableName):
            raise ttypes.NoSuchObjectException
        return ttypes.GetTableResult(deepcopy(self.held))

    def create_table(self, tbl: ttypes.Table) -> None:
        self.held = tbl

    def create_table_with_constraints(self, tbl: ttypes.Table, primary_keys: object, foreign_keys: object) -> None:
        raise ttypes.InvalidObjectException

    def change(self) -> None:
        """Set a property as Spark does: the server notes the time."""
        self.held.parameters |= {f"theirs {self.others}": "yes", "transient_lastDdlTime": str(int(self.clock.now()))}
        self.others += 1

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: ttypes.Table, environment_context: ttypes.EnvironmentContext
    ) -> None:
        if "alter" not in self.asked:
            self._ask("alter")
            self.change()
        asked = environment_context.properties
        if self.held.parameters[asked["expected_parameter_key"]] != asked["expected_parameter_value"]:
            raise ttypes.MetaException("The table has been modified")
        self.held = new_tbl


@pytest.mark.parametrize("is_changed_before", [False, True], ids=["own change", "change of another"])
@pytest.mark.parametrize(
    ("change", "is_merged"),
    [
        (lambda backend: backend.alter_table(("a", "t"), PropertyChanges({"ours": "2"})), True),
        (lambda backend: backend.show_columns(("a", "t"), (ShownColumn("id", "bigint"),)), True),
        (lambda backend: backend.rename_table(("a", "t"), ("a", "new")), False),
    ],
    ids=["alter", "columns", "rename"],
)
def test_no_change_of_another_within_the_same_second_is_lost(
    change: Callable[[Hive2Backend], object], is_merged: bool, is_changed_before: bool
) -> None:
    with (
        simulated_time() as clock,
        stub(Comparing()) as served,
        closing(Hive2Backend(uri=f"thrift://127.0.0.1:{served.port}")) as backend,
    ):
        served.clock = clock
        backend.insert_table(("a", "t"), "s3://lake/t", {"ours": "1"})
        if is_changed_before:
            served.change()
        with nullcontext() if is_merged else pytest.raises(ConcurrentModificationError):
            change(backend)
    assert {f"theirs {number}" for number in range(1 + is_changed_before)} <= served.held.parameters.keys()
    assert clock.elapsed <= 2


def test_a_change_of_another_long_ago_is_not_waited_for() -> None:
    with (
        simulated_time() as clock,
        stub(Comparing()) as served,
        closing(Hive2Backend(uri=f"thrift://127.0.0.1:{served.port}")) as backend,
    ):
        served.clock = clock
        backend.insert_table(("a", "t"), "s3://lake/t", {})
        served.change()
        clock.sleep(10)
        backend.alter_table(("a", "t"), PropertyChanges({"ours": "2"}))
    assert clock.pauses == [10, 1]  # the change right before the write is waited for
