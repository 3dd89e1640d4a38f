"""Test what the stand-in for Unity's server does beyond the recorded answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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


@pytest.mark.parametrize("kind", ["tables", "volumes", "functions", "models"])
def test_a_schema_that_holds_something_is_dropped_by_force_only(api: Api, kind: str) -> None:
    if kind == "tables":
        api.contract.add_lance_table("c", "s", "x")
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
