"""Logins by name and password, on a metastore that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.backends.hive.hive3 import Hive3Backend
from reconciler.model.errors import InvalidInputError, ServiceUnavailableError, UnauthenticatedError
from tests.servers.hive import Metastore, metastore

NAME, PASSWORD = "lancens", "hunter22-hunter22"
LOGIN = {"auth": "plain", "username": NAME, "password": PASSWORD}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    settings = {
        "metastore.execute.setugi": "false",  # it starts only so
        "metastore.authentication": "CONFIG",
        "metastore.authentication.config.username": NAME,
        "metastore.authentication.config.password": PASSWORD,
    }
    with metastore("4.1", tmp_path_factory.mktemp("login"), settings=settings, login=LOGIN) as running:
        yield running


def test_who_logs_in_is_let_in(server: Metastore, tmp_path: Path) -> None:
    backend = Hive3Backend(uri=server.uri, root=str(tmp_path), **LOGIN)
    backend.insert_namespace(("hive", "a"), {})
    backend.insert_table(("hive", "a", "t"), str(tmp_path / "t.lance"), {"tier": "gold"})
    assert [table.properties["tier"] for table in backend.scan().tables.values()] == ["gold"]


def test_a_wrong_password_is_reported(server: Metastore) -> None:
    backend = Hive3Backend(uri=server.uri, **{**LOGIN, "password": "swordfish-swordfish"})
    with pytest.raises(UnauthenticatedError) as refused:
        backend.scan()
    assert "`username` or `password`" in str(refused.value)
    assert "swordfish" not in str(refused.value)


def test_nobody_comes_in_without(server: Metastore) -> None:
    with pytest.raises(ServiceUnavailableError):
        Hive3Backend(uri=server.uri, **{"client.timeout": "3"}).scan()


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"username": NAME}, "`username` is given, but `auth` is not plain"),
        ({"auth": "plain", "username": NAME}, "`auth: plain` needs `username` and `password`"),
        (LOGIN, "`password` would go to metastore:9083 unencrypted; set `ssl: true`"),
    ],
)
def test_what_cannot_be_is_said(config: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Hive3Backend(uri="thrift://metastore:9083", **config)
    assert told in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("more", [{"ssl": "true"}, {"allow_unencrypted": "true"}])
def test_a_password_goes_where_nobody_reads_it_or_as_said(more: dict[str, str]) -> None:
    Hive3Backend(uri="thrift://metastore:9083", **LOGIN, **more)
