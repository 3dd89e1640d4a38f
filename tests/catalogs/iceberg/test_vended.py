"""Credentials that an Iceberg REST catalog hands out with a table.

Neither of the two servers hands any out, so the answers are scripted: `storage-credentials` and `config` of
LoadTableResult, as the OpenAPI document of the Iceberg REST catalog describes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.backends.iceberg import IcebergBackend
from reconciler.backends.iceberg.answers import vended_options
from tests.catalogs.iceberg.scripted import error, scripted_catalog, table
from tests.catalogs.vending import assert_credentials_are_used, assert_own_credentials_win
from tests.servers.s3 import BUCKET, KEY, SECRET, TOKEN, GuardedS3
from tests.servers.scripted import Answer, Request, Scripted

TABLE = ("ware", "n", "t")
ROUTE = "/v1/ware/namespaces/n"


@pytest.fixture
def server(guarded: GuardedS3) -> Iterator[Scripted]:
    held = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.session-token": TOKEN}
    wrong = {"s3.access-key-id": "AKIAOTHER", "s3.secret-access-key": "other"}
    location = f"s3://{BUCKET}/t.lance"

    properties: dict[str, str] = {}

    def load(request: Request) -> Answer:
        entry = table(location, **properties)
        if request.headers.get("X-Iceberg-Access-Delegation") != "vended-credentials":
            return Answer(entry)
        where = {
            "s3.endpoint": guarded.endpoint,
            "client.region": "us-east-1",
            "s3.path-style-access": "true",
        }
        credentials = [
            {"prefix": f"s3://{BUCKET}/", "config": wrong},
            {"prefix": location, "config": held},
            {"prefix": "s3://another/", "config": wrong},
        ]
        return Answer({**entry, "config": where, "storage-credentials": credentials})

    def commit(request: Request) -> Answer:
        for update in request.body["updates"]:
            properties.update(update.get("updates", {}))
        return Answer(table(location, **properties))

    def below(request: Request) -> Answer:
        return Answer({"namespaces": [] if "parent=" in request.query else [["n"]]})

    with scripted_catalog() as server:
        server.routes |= {
            "GET /v1/ware/namespaces": below,
            f"GET {ROUTE}": Answer({"namespace": ["n"], "properties": {}}),
            f"GET {ROUTE}/tables": Answer({"identifiers": [{"namespace": ["n"], "name": "t"}]}),
            f"GET {ROUTE}/tables/t": load,
            f"POST {ROUTE}/tables/t": commit,
        }
        yield server


def test_they_open_the_table(guarded: GuardedS3, server: Scripted, tmp_path: Path) -> None:
    location = guarded.write("t")
    config = {"endpoint": server.url, "storage.client_max_retries": "0"}
    assert_credentials_are_used("iceberg", config, TABLE, location, guarded, tmp_path)


def test_those_of_the_manifest_win(guarded: GuardedS3, server: Scripted) -> None:
    guarded.write("t")
    where = {f"storage.{key}": value for key, value in guarded.where.items()}
    assert_own_credentials_win("iceberg", {"endpoint": server.url, **where}, TABLE, guarded)


def test_they_are_asked_for_only_where_storage_is_opened(server: Scripted) -> None:
    backend = IcebergBackend(endpoint=server.url, warehouses="ware")

    def asked() -> int:
        return len([one for one in server.requests if "X-Iceberg-Access-Delegation" in one.headers])

    loaded = backend.scan().tables[TABLE]
    assert asked() == 0
    backend.table_storage_options(loaded)
    assert asked() == 1


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_a_server_that_hands_out_none_leaves_it_to_the_environment(server: Scripted, status: int) -> None:
    backend = IcebergBackend(endpoint=server.url, max_retries="0")
    loaded = backend.load_table(TABLE)
    server.routes[f"GET {ROUTE}/tables/t"] = error(status, "ForbiddenException", f"none for {SECRET}")
    assert backend.table_storage_options(loaded) == {}


def test_the_other_clouds_in_pylances_words() -> None:
    google = {"config": {"gcs.oauth2.token": "ya29", "gcs.project-id": "p"}}
    azure = {"config": {"adls.sas-token.lake.dfs.core.windows.net": "sig=1"}, "storage-credentials": None}
    assert vended_options(google, "gs://lake/t") == {"google_storage_token": "ya29"}
    assert vended_options(azure, "abfss://c@lake.dfs.core.windows.net/t") == {
        "azure_storage_account_name": "lake",
        "azure_storage_sas_token": "sig=1",
    }
