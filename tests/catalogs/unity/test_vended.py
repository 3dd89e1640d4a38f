"""Credentials that Unity hands out for a table: the real server's, which gives out a session it is configured with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalogs.unity.conftest import CATALOG, Unity
from tests.catalogs.vending import assert_credentials_are_used, assert_own_credentials_win, wrong_environment
from tests.servers.s3 import GuardedS3, guarded_s3

TABLE = (CATALOG, "sales", "clicks")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedS3]:
    wrong_environment(monkeypatch)
    with guarded_s3() as server:
        yield server


@pytest.fixture
def config(unity: Unity, s3: GuardedS3) -> dict[str, str]:
    """The address of a server with one table, which tells nobody where its storage is served."""
    unity.contract.add_schema(CATALOG, "sales")
    where = {f"storage.{key}": value for key, value in s3.where.items()}
    return unity.config(**where)


def _enter(unity: Unity, location: str) -> None:
    unity.connect().insert_table(TABLE, location, {"lancens.managed-by": "vended/main"})


def test_they_open_the_table(unity: Unity, s3: GuardedS3, config: dict[str, str], tmp_path: Path) -> None:
    location = s3.write(TABLE[-1])
    _enter(unity, location)
    s3.seen.clear()
    assert_credentials_are_used("unity", config, TABLE, location, s3, tmp_path)


def test_those_of_the_manifest_win(unity: Unity, s3: GuardedS3, config: dict[str, str]) -> None:
    _enter(unity, s3.write(TABLE[-1]))
    assert_own_credentials_win("unity", config, TABLE, s3)


def test_a_bucket_that_the_service_has_no_credentials_for_is_left_to_the_environment(unity: Unity) -> None:
    unity.contract.add_schema(CATALOG, "sales")
    backend = unity.connect()
    table = backend.insert_table(TABLE, "s3://unknown/clicks.lance", {})
    assert backend.table_storage_options(table) == {}
