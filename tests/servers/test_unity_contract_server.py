"""The stand-in for Unity's reference server 0.6 by itself, where the real one it is held to is not to be had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.servers.unity_contract import API, ISSUER, Contract, jwt
from tests.servers.unity_contract_server import UnityServer, serving


class Api:
    """Plain requests, so that the rows are seen as any client sees them."""

    def __init__(self, server: UnityServer, token: str | None = None) -> None:
        self.contract = server.contract
        self._url = server.url + API
        self._session = requests.Session()
        self._session.trust_env = False
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def __call__(self, method: str, path: str, body: object = None, **query: str | int) -> requests.Response:
        return self._session.request(method, self._url + path, json=body, params=query, timeout=10)

    def table(self, name: str = "t", schema: str = "s", **changes: Any) -> requests.Response:
        body: dict[str, Any] = {
            "name": name,
            "catalog_name": "c",
            "schema_name": schema,
            "table_type": "EXTERNAL",
            "data_source_format": "TEXT",
            "storage_location": f"file:///tmp/{name}",
            "columns": [],
        }
        body |= changes
        return self("POST", "/tables", {key: value for key, value in body.items() if value is not None})


@pytest.fixture
def server() -> Iterator[UnityServer]:
    contract = Contract()
    contract.add_catalog("c")
    with serving(contract) as server:
        yield server


@pytest.fixture
def api(server: UnityServer) -> Api:
    api = Api(server)
    assert api("POST", "/schemas", {"name": "s", "catalog_name": "c"}).status_code == 200
    return api


def error(response: requests.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"error_code", "details", "message"}
    assert isinstance(body["details"], list)
    return response.status_code, body["error_code"]


def test_duplicates_are_400(api: Api) -> None:
    assert api.table().status_code == 200
    assert error(api.table()) == (400, "TABLE_ALREADY_EXISTS")
    assert error(api("POST", "/schemas", {"name": "s", "catalog_name": "c"})) == (400, "SCHEMA_ALREADY_EXISTS")
    assert error(api("POST", "/catalogs", {"name": "c"})) == (400, "CATALOG_ALREADY_EXISTS")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/catalogs/x", "CATALOG_NOT_FOUND"),
        ("/schemas/c.x", "SCHEMA_NOT_FOUND"),
        ("/schemas/x.x", "CATALOG_NOT_FOUND"),
        ("/tables/c.s.x", "TABLE_NOT_FOUND"),
        ("/tables/c.x.x", "SCHEMA_NOT_FOUND"),
        ("/tables/x.x.x", "CATALOG_NOT_FOUND"),
        ("/schemas?catalog_name=x", "CATALOG_NOT_FOUND"),
        ("/tables?catalog_name=c&schema_name=x", "SCHEMA_NOT_FOUND"),
        ("/tables?catalog_name=x&schema_name=x", "CATALOG_NOT_FOUND"),
    ],
)
def test_the_outermost_missing_parent_wins(api: Api, path: str, code: str) -> None:
    assert error(api("GET", path)) == (404, code)


def test_creating_below_what_is_missing_is_404(api: Api) -> None:
    assert error(api("POST", "/schemas", {"name": "s", "catalog_name": "x"})) == (404, "CATALOG_NOT_FOUND")
    assert error(api.table(schema="x")) == (404, "SCHEMA_NOT_FOUND")


@pytest.mark.parametrize("kind", ["tables", "volumes", "functions", "models"])
def test_a_schema_that_holds_something_is_dropped_by_force_only(api: Api, kind: str) -> None:
    if kind == "tables":
        api.table()
    else:
        api.contract.add_other(kind, "c", "s", "x")
    assert error(api("DELETE", "/schemas/c.s")) == (400, "FAILED_PRECONDITION")
    assert error(api("DELETE", "/schemas/c.s", force="false")) == (400, "FAILED_PRECONDITION")
    assert api("DELETE", "/schemas/c.s", force="true").status_code == 200
    assert error(api("GET", "/schemas/c.s")) == (404, "SCHEMA_NOT_FOUND")


def test_dropping_a_managed_table_deletes_its_data_and_an_external_one_does_not(api: Api, tmp_path: Path) -> None:
    for name, kind in [("m", "MANAGED"), ("e", "EXTERNAL")]:
        (tmp_path / name).mkdir()
        api.contract.add_table("c", "s", name, table_type=kind, storage_location=(tmp_path / name).as_uri())
    api("DELETE", "/schemas/c.s", force="true")
    assert [path.name for path in tmp_path.iterdir()] == ["e"]


def test_success_of_a_delete_is_text(api: Api) -> None:
    api.table()
    for path in ("/tables/c.s.t", "/schemas/c.s"):
        response = api("DELETE", path)
        assert (response.status_code, response.text) == (200, "200 OK")
        assert response.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/nothing", "/tables/c.s.t/more"])
def test_an_unknown_route_is_404_in_text(api: Api, path: str) -> None:
    response = api("GET", path)
    assert response.status_code == 404
    assert response.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("name", ["a.b", "a b", "a/b", "", "a\n"])
def test_names_that_cannot_be(api: Api, name: str) -> None:
    assert error(api("POST", "/schemas", {"name": name, "catalog_name": "c"})) == (400, "INVALID_ARGUMENT")
    assert error(api.table(name)) == (400, "INVALID_ARGUMENT")


def test_names_are_case_sensitive(api: Api) -> None:
    assert api.table("T").status_code == 200
    assert api.table("t").status_code == 200
    assert api("GET", "/tables/c.s.T").json()["name"] == "T"


def test_pages_end_with_null_and_a_full_last_page_has_a_token(api: Api) -> None:
    for number in range(200):
        api.contract.add_table("c", "s", f"t{number:03}")
    names: list[str] = []
    tokens: list[str | None] = []
    query: dict[str, str | int] = {"catalog_name": "c", "schema_name": "s"}
    while True:
        page = api("GET", "/tables", **query).json()
        names += [table["name"] for table in page["tables"]]
        tokens.append(page["next_page_token"])
        if tokens[-1] is None:
            break
        query["page_token"] = tokens[-1]
    assert names == [f"t{number:03}" for number in range(200)]
    assert tokens == ["t099", "t199", None]


@pytest.mark.parametrize(("asked", "got"), [(0, 100), (7, 7), (100, 100), (1000, 100)])
def test_page_sizes(api: Api, asked: int, got: int) -> None:
    for number in range(120):
        api.contract.add_table("c", "s", f"t{number:03}")
    page = api("GET", "/tables", catalog_name="c", schema_name="s", max_results=asked).json()
    assert len(page["tables"]) == got


def test_a_negative_page_size_is_400(api: Api) -> None:
    assert error(api("GET", "/schemas", catalog_name="c", max_results=-1)) == (400, "INVALID_ARGUMENT")


def column(**changes: Any) -> dict[str, Any]:
    whole = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    told = {"name": "id", "type_text": "bigint", "type_json": json.dumps(whole), "type_name": "LONG", "position": 0}
    return {key: value for key, value in {**told, **changes}.items() if value is not None}


def test_columns_may_be_left_out(api: Api) -> None:
    assert api.table("a", columns=None).status_code == 200
    assert api.table("b", columns=[]).status_code == 200
    assert api.table("c", columns=[column()]).json()["columns"][0]["type_name"] == "LONG"


@pytest.mark.parametrize(
    ("lacks", "status"),
    [("name", 400), ("type_json", 400), ("type_text", 500), ("type_name", 500), ("position", 500)],
)
def test_columns_that_lack_something(api: Api, lacks: str, status: int) -> None:
    assert error(api.table(columns=[column(**{lacks: None})]))[0] == status


@pytest.mark.parametrize(
    "type_json", ['"long"', "long", '{"name":"other","type":"long","nullable":true,"metadata":{}}', '{"name":"id"}']
)
def test_type_json_is_a_whole_field_of_the_columns_name(api: Api, type_json: str) -> None:
    assert error(api.table(columns=[column(type_json=type_json)])) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"storage_location": None}, 500),
        ({"table_type": None}, 500),
        ({"data_source_format": "LANCE"}, 400),
        ({"table_type": "MANAGED"}, 400),
    ],
)
def test_tables_that_cannot_be(api: Api, changes: dict[str, Any], status: int) -> None:
    assert error(api.table(**changes))[0] == status


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/data/größe", "file:///data/gr%C3%B6%C3%9Fe"),
        ("file:///data/t", "file:///data/t"),
        ("s3://lake/t", "s3://lake/t"),
    ],
)
def test_a_plain_path_is_kept_as_a_uri(api: Api, given: str, kept: str) -> None:
    assert api.table(storage_location=given).json()["storage_location"] == kept


def test_a_patch_replaces_all_properties_but_an_empty_one_changes_nothing(api: Api) -> None:
    assert api("PATCH", "/schemas/c.s", {"properties": {"a": "1", "b": "2"}}).json()["properties"] == {
        "a": "1",
        "b": "2",
    }
    assert api("PATCH", "/schemas/c.s", {"properties": {"b": "3"}}).json()["properties"] == {"b": "3"}
    assert api("PATCH", "/schemas/c.s", {"properties": {}}).json()["properties"] == {"b": "3"}


def test_there_is_no_patch_of_a_table(api: Api) -> None:
    api.table()
    assert api("PATCH", "/tables/c.s.t", {"properties": {"a": "1"}}).status_code == 405


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (None, (401, "UNAUTHENTICATED")),
        ("garbage", (401, "UNAUTHENTICATED")),
        ("a.b.c", (401, "UNAUTHENTICATED")),
        (jwt("https://elsewhere"), (403, "PERMISSION_DENIED")),
    ],
)
def test_with_authorization_on_a_token_of_its_own_is_asked_for(token: str | None, expected: tuple[int, str]) -> None:
    contract = Contract(authorization=True)
    contract.add_catalog("c")
    with serving(contract) as server:
        assert error(Api(server, token)("GET", "/catalogs/c")) == expected
        assert Api(server, jwt(ISSUER))("GET", "/catalogs/c").status_code == 200


def test_databricks_answers_409_and_empty_pages() -> None:
    contract = Contract(databricks=True)
    contract.add_catalog("c")
    with serving(contract) as server:
        api = Api(server)
        api("POST", "/schemas", {"name": "s", "catalog_name": "c"})
        assert error(api("POST", "/schemas", {"name": "s", "catalog_name": "c"})) == (409, "RESOURCE_ALREADY_EXISTS")
        for number in range(150):
            contract.add_table("c", "s", f"t{number:03}")
        first = api("GET", "/tables", catalog_name="c", schema_name="s").json()
        second = api("GET", "/tables", catalog_name="c", schema_name="s", page_token=first["next_page_token"]).json()
        third = api("GET", "/tables", catalog_name="c", schema_name="s", page_token=second["next_page_token"]).json()
        assert (len(first["tables"]), "tables" in second, len(third["tables"])) == (100, False, 50)
