"""Credentials that a Lance namespace server hands out: pylance's own, over S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import lance
import lance.namespace
import pyarrow as pa
import pytest
from lance_namespace import CreateTableRequest, DeclareTableRequest

import reconciler
from reconciler.backends.rest import RestBackend
from tests.catalogs.vending import assert_credentials_are_used, assert_own_credentials_win
from tests.servers.s3 import BUCKET, KEY, TOKEN, GuardedS3
from tests.servers.scripted import Request, scripted

TABLE = ("clicks",)


@pytest.fixture
def config(guarded: GuardedS3) -> Iterator[dict[str, str]]:
    """A server that answers DescribeTable with the options that it opens its own storage with."""
    options = {f"storage.{key}": value for key, value in {**guarded.where, **guarded.vended}.items()}
    served = {"root": f"s3://{BUCKET}", "vend_input_storage_options": "true", **options}
    with lance.namespace.RestAdapter("dir", served, port=0) as server:
        yield {"uri": f"http://127.0.0.1:{server.port}", "table_properties": "false"}


def test_they_open_the_table(guarded: GuardedS3, config: dict[str, str], tmp_path: Path) -> None:
    location = guarded.write(TABLE[0])
    assert_credentials_are_used("rest", config, TABLE, location, guarded, tmp_path)


def test_those_of_the_manifest_win(guarded: GuardedS3, config: dict[str, str]) -> None:
    guarded.write(TABLE[0])
    where = {f"storage.{key}": value for key, value in guarded.where.items()}
    assert_own_credentials_win("rest", {**config, **where}, TABLE, guarded)


def test_they_are_asked_for_only_where_storage_is_opened() -> None:
    with scripted(lambda _: (200, {"tables": ["t"], "namespaces": [], "location": "s3://lake/t"})) as server:
        backend = RestBackend(uri=server.url)
        backend.scan()
        assert not [one for one in server.requests if one.body and one.body.get("vend_credentials")]
        backend.table_storage_options(backend.load_table(("t",)))
        assert len([one for one in server.requests if one.body and one.body.get("vend_credentials")]) == 1


def test_without_credentials_no_host_is_taken() -> None:
    """Those of the environment go where they always did, and not to where the server says."""
    answer = {"location": "s3://lake/t", "storage_options": {"endpoint": "http://elsewhere", "region": "eu-west-1"}}
    with scripted(lambda _: (200, answer)) as server:
        backend = RestBackend(uri=server.url)
        assert backend.table_storage_options(backend.load_table(("t",))) == {"aws_region": "eu-west-1"}


def test_they_write_a_new_table(guarded: GuardedS3, config: dict[str, str]) -> None:
    with closing(reconciler.connect("rest", config)) as namespace:
        lance.write_dataset(pa.table({"id": [1, 2, 3]}), namespace_client=namespace, table_id=["made"])
        assert lance.dataset(namespace_client=namespace, table_id=["made"]).count_rows() == 3
        plain = namespace.declare_table(DeclareTableRequest(id=["plain"], vend_credentials=False))
        rows = pa.table({"id": [1]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        namespace.create_table(CreateTableRequest(id=["streamed"]), sink.getvalue().to_pybytes())
        assert lance.dataset(namespace_client=namespace, table_id=["streamed"]).count_rows() == 1
    assert set(guarded.seen) == {(KEY, TOKEN)}
    assert not guarded.vended.items() & (plain.storage_options or {}).items()


def _handing_out(answer: tuple[int, object]) -> Callable[[Request], tuple[int, object]]:
    """Return a server with a table, which answers so when it is asked for credentials."""

    def answered(request: Request) -> tuple[int, object]:
        is_asked = isinstance(request.body, dict) and request.body.get("vend_credentials")
        return answer if is_asked else (200, {"location": "s3://lake/t"})

    return answered


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((403, {"error": "ann may not read t", "code": 15}), "ann may not read t"),
        ((200, {"location": "s3://lake/t", "storage_options": {"key": ["half-a-secret"]}}), "answer makes no sense"),
    ],
)
def test_that_they_are_refused_is_told(answer: tuple[int, object], said: str, caplog: pytest.LogCaptureFixture) -> None:
    """Those of the environment may still open the table, and if not, this is why."""
    with scripted(_handing_out(answer)) as server:
        backend = RestBackend(uri=server.url)
        assert backend.table_storage_options(backend.load_table(("t",))) == {}
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "credentials for table `t`" in warning
    assert said in warning
    assert "`vend_credentials: false`" in warning
    assert "half-a-secret" not in warning


def test_that_a_server_hands_out_none_at_all_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(_handing_out((406, {"error": "not here", "code": 0}))) as server:
        backend = RestBackend(uri=server.url)
        assert backend.table_storage_options(backend.load_table(("t",))) == {}
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
