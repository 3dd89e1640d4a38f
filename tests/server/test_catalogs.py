"""Several catalogs behind one server: the catalog's name is the first level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reconciler.backends.memory import MemoryBackend
from reconciler.server.catalogs import ManyCatalogs
from tests.server.client import Api
from tests.servers.lance_rest import served


@pytest.fixture
def api() -> Iterator[Api]:
    lake, prod = MemoryBackend(), MemoryBackend()
    lake.insert_namespace(("a",), {"in": "lake"})
    lake.insert_table(("a", "t"), "s3://lake/t", {})
    prod.insert_namespace(("a",), {"in": "prod"})
    prod.insert_table(("r",), "s3://prod/r", {})
    with served(ManyCatalogs({"prod": prod, "lake": lake})) as url:
        client = Api(url)
        yield client
        client.close()


def test_the_root_holds_the_catalogs(api: Api) -> None:
    assert api("GET", "/v1/namespace/%24/list").json == {"namespaces": ["lake", "prod"]}
    assert api("GET", "/v1/namespace/%24/list?limit=1").json == {"namespaces": ["lake"], "page_token": "lake"}
    assert api("GET", "/v1/namespace/%24/list?page_token=lake").json == {"namespaces": ["prod"]}
    assert api("GET", "/v1/namespace/%24/table/list").json == {"tables": []}
    assert api("POST", "/v1/namespace/%24/describe", {}).json == {"properties": {}}
    assert api("POST", "/v1/namespace/%24/exists", {}).status == 200


def test_names_are_answered_as_seen_from_here(api: Api) -> None:
    assert api("GET", "/v1/namespace/prod/table/list").json == {"tables": ["r"]}
    assert api("POST", "/v1/namespace/prod%24a/describe", {}).json == {"properties": {"in": "prod"}}
    found = api("POST", "/v1/table/lake%24a%24t/describe", {}).json
    assert (found["namespace"], found["table"]) == (["lake", "a"], "t")
    assert api("GET", "/v1/table").json == {"tables": ["lake$a$t", "prod$r"]}
    assert api("POST", "/v1/table/lake%24a%24t/deregister", {}).json["id"] == ["lake", "a", "t"]


def test_catalogs_are_neither_made_nor_dropped(api: Api) -> None:
    assert api("POST", "/v1/namespace/new/create", {}).error == (406, 0)
    assert api("POST", "/v1/namespace/lake/create", {}).error == (400, 13)
    assert api("POST", "/v1/namespace/lake/drop", {"behavior": "cascade"}).error == (400, 13)
    assert api("POST", "/v1/namespace/%24/drop", {}).error == (400, 13)
    assert api("GET", "/v1/namespace/%24/list").json == {"namespaces": ["lake", "prod"]}


def test_a_fault_of_the_server_is_in_its_log_and_not_in_its_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a slip")

    monkeypatch.setattr(MemoryBackend, "load_namespace", broken)
    refused = api("POST", "/v1/namespace/lake%24a/describe", {})
    assert refused.status == 500
    assert "a slip" not in str(refused.json)
    assert "RuntimeError: a slip" in caplog.text


def test_another_catalog_is_not_found(api: Api) -> None:
    refused = api("POST", "/v1/namespace/other%24a/describe", {})
    assert refused.error == (404, 1)
    assert "there are lake, prod" in refused.json["error"]
    assert api("POST", "/v1/table/other/describe", {}).error == (400, 13)
    assert api("POST", "/v1/namespace/other%24a/create", {}).error == (404, 1)
