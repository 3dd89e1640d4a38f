"""Credentials that Unity hands out for a table: the real server's, which gives out a session it is configured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalogs.unity.conftest import CATALOG, Unity
from tests.catalogs.vending import assert_credentials_are_used, assert_own_credentials_win
from tests.servers.s3 import GuardedS3

TABLE = (CATALOG, "sales", "clicks")


@pytest.fixture
def config(unity: Unity, guarded: GuardedS3) -> dict[str, str]:
    """The address of a server with one table, which tells nobody where its storage is served."""
    unity.contract.add_schema(CATALOG, "sales")
    where = {f"storage.{key}": value for key, value in guarded.where.items()}
    return unity.config(**where)


def _enter(unity: Unity, location: str) -> None:
    unity.connect().insert_table(TABLE, location, {"lancens.managed-by": "vended/main"})


def test_they_open_the_table(unity: Unity, guarded: GuardedS3, config: dict[str, str], tmp_path: Path) -> None:
    location = guarded.write(TABLE[-1])
    _enter(unity, location)
    guarded.seen.clear()
    assert_credentials_are_used("unity", config, TABLE, location, guarded, tmp_path)


def test_those_of_the_manifest_win(unity: Unity, guarded: GuardedS3, config: dict[str, str]) -> None:
    _enter(unity, guarded.write(TABLE[-1]))
    assert_own_credentials_win("unity", config, TABLE, guarded)


def test_a_bucket_that_the_service_has_no_credentials_for_is_left_to_the_environment(unity: Unity) -> None:
    unity.contract.add_schema(CATALOG, "sales")
    backend = unity.connect()
    table = backend.insert_table(TABLE, "s3://unknown/clicks.lance", {})
    assert backend.table_storage_options(table) == {}
