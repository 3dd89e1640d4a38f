"""The routes, what they take and what they answer."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import lance
import lance_namespace
import openapi_spec_validator
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode, LanceNamespaceError, from_error_code
from starlette.routing import Route

from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.backends.rest import RestBackend
from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import ServiceUnavailableError
from reconciler.model.live import LiveNamespace, PropertyChanges
from reconciler.server.answers import status_of
from reconciler.server.app import make_app
from reconciler.server.catalogs import ManyCatalogs, OneCatalog
from reconciler.server.guard import Tokens
from reconciler.server.operations import NEVER_SUPPORTED, OPERATIONS
from tests.server.client import Api
from tests.server.conftest import Serve
from tests.servers.lance_rest import adapter, served

TOKEN = "protocol-token-51d7"
OPTION = "storage-secret-3f8a"


def stream(rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"id": list(range(rows))})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


# ---- routes of today and early ones ------------------------------------------------------------------------------


def test_the_routes_of_today(api: Api) -> None:
    assert api("GET", "/v1/namespace/%24/list").json == {"namespaces": ["a"]}
    assert api("GET", "/v1/namespace/a/table/list?delimiter=%24&limit=1").json == {"tables": ["t"]}
    assert api("GET", "/v1/table").json == {"tables": ["a$t"]}
    assert api("POST", "/v1/namespace/a/describe", {}).json == {"properties": {"owner": "me"}}
    found = api("POST", "/v1/table/a%24t/describe", {"id": ["a", "t"], "with_table_uri": True}).json
    assert found == {
        "table": "t",
        "namespace": ["a"],
        "location": "s3://lake/t.lance",
        "table_uri": "s3://lake/t.lance",
        "properties": {"tier": "gold"},
        "managed_versioning": False,
    }


def test_the_early_routes(api: Api) -> None:
    assert api("POST", "/ListNamespaces", {}).json == {"namespaces": ["a"]}
    assert api("POST", "/ListTables", {"id": ["a"]}).json == {"tables": ["t"]}
    assert api("POST", "/GetTable", {"id": ["a", "t"]}).json == api("POST", "/DescribeTable", {"id": ["a", "t"]}).json
    assert api("POST", "/GetNamespace", {"id": ["a"]}).json == {"properties": {"owner": "me"}}
    assert api("POST", "/CreateNamespace", {"id": ["b"]}).status == 200
    assert api("POST", "/DropNamespace", {"id": ["b"]}).status == 200
    assert api("POST", "/NamespaceExists", {"id": ["b"]}).error == (404, 1)


def test_every_operation_is_at_its_name(api: Api) -> None:
    for operation in OPERATIONS:
        assert api("POST", f"/{operation.name}", {"id": ["missing", "x"]}).status != 405, operation.name
        assert api("POST", f"/{operation.name}", [], content_type="application/json").json["code"] is not None


def test_a_request_without_a_body_is_one_without_wishes(api: Api) -> None:
    assert api("POST", "/v1/namespace/a/describe").status == 200
    assert api("POST", "/v1/table/a%24t/deregister").json["location"] == "s3://lake/t.lance"


def test_all_tables_are_listed_with_the_delimiter_of_the_client(api: Api) -> None:
    assert api("GET", "/v1/table?delimiter=.").json == {"tables": ["a.t"]}
    assert api("GET", f"/v1/table?delimiter={'x' * 17}").status == 400


def test_all_tables_are_listed_without_the_declared_ones(tmp_path: Path) -> None:
    backends = {name: DirBackend(root=str(tmp_path / name)) for name in ("lake", "pond")}
    for backend in backends.values():
        backend.insert_namespace(("a",), {})
        for table in ("full", "declared"):
            location = backend.insert_table(("a", table), backend.default_location(("a", table)), {}).location
            if table == "full":
                lance.write_dataset(pa.table({"id": [1]}), location)
    for catalogs, above in ((OneCatalog(backends["lake"]), [""]), (ManyCatalogs(backends), ["lake$", "pond$"])):
        whole = [f"{name}a${table}" for name in above for table in ("declared", "full")]
        with served(catalogs) as url, closing(Api(url)) as api:
            assert api("GET", "/v1/table").json == {"tables": whole}
            assert api("GET", "/v1/table?include_declared=false").json == {"tables": whole[1::2]}
            assert api("GET", "/v1/table?include_declared=false&limit=1").json["tables"] == whole[1:2]


def test_another_delimiter_splits_the_identifier(api: Api) -> None:
    assert api("POST", "/v1/table/a.t/describe?delimiter=.", {}).json["table"] == "t"
    assert api("GET", "/v1/namespace/./list?delimiter=.").json == {"namespaces": ["a"]}
    assert api("POST", "/v1/table/a--t/exists?delimiter=--", {}).status == 200


@pytest.mark.parametrize("name", ["with space", "with+plus", "größe", "%41", 'quo"te', "dot.ted"])
def test_names_survive_the_path(api: Api, name: str) -> None:
    route = quote(f"a${name}", safe="")
    assert api("POST", f"/v1/table/{route}/declare", {"location": "s3://lake/n"}).status == 200
    assert name in api("GET", "/v1/namespace/a/table/list").json["tables"]
    assert api("POST", f"/v1/table/{route}/describe", {"id": ["a", name]}).json["table"] == name


def test_pylance_writes_spaces_as_plus_signs(api: Api, memory: MemoryBackend) -> None:
    memory.insert_namespace(("with space",), {})
    assert api("GET", "/v1/namespace/with+space/table/list").json == {"tables": []}


def test_the_body_may_not_name_something_else_than_the_path(api: Api) -> None:
    assert api("POST", "/v1/namespace/a/describe", {"id": ["b"]}).error == (400, 13)


def test_what_can_be_done_is_listed(api: Api) -> None:
    offered = api("POST", "/ListOperations").json["operations"]
    assert {"ListOperations", "AlterNamespace", "AlterTable", "CreateTable"} <= set(offered)
    assert "DropTable" not in offered


def test_what_the_catalog_cannot_do_is_not_listed() -> None:
    rigid = MemoryBackend()
    rigid.known_capabilities = replace(rigid.known_capabilities, alter_table=False)
    with served(OneCatalog(rigid)) as url:
        offered = Api(url)("POST", "/ListOperations").json["operations"]
    assert "AlterNamespace" in offered
    assert "AlterTable" not in offered


def test_altering_merges(api: Api, memory: MemoryBackend) -> None:
    memory.alter_namespace(("a",), PropertyChanges({"kept": "1"}))
    body = {"id": ["a"], "set_properties": {"new": "2"}, "unset_properties": ["owner"]}
    assert api("POST", "/AlterNamespace", body).json == {"properties": {"kept": "1", "new": "2"}}
    moved = api("POST", "/AlterTable", {"id": ["a", "t"], "location": "s3://lake/u.lance"}).json
    assert (moved["location"], moved["properties"]) == ("s3://lake/u.lance", {"tier": "gold"})


def test_a_table_is_renamed_and_its_data_stays(api: Api, memory: MemoryBackend) -> None:
    before = memory.load_table(("a", "t"))
    assert "RenameTable" in api("POST", "/ListOperations").json["operations"]
    assert api("POST", "/v1/table/a%24t/rename", {"new_table_name": "u"}).status == 200
    memory.insert_namespace(("b",), {})
    assert (
        api("POST", "/RenameTable", {"id": ["a", "u"], "new_table_name": "t", "new_namespace_id": ["b"]}).status == 200
    )
    assert memory.load_table(("b", "t")) == replace(before, id=("b", "t"))
    assert api("POST", "/v1/table/a%24t/describe").error == (404, 4)
    assert api("POST", "/RenameTable", {"id": ["a", "u"], "new_table_name": "t"}).error == (404, 4)
    nowhere = {"id": ["b", "t"], "new_table_name": "t", "new_namespace_id": ["c"]}
    assert api("POST", "/RenameTable", nowhere).error == (404, 1)
    memory.insert_table(("b", "v"), "s3://lake/v", {})
    assert api("POST", "/v1/table/b%24t/rename", {"new_table_name": "v"}).error == (409, 5)


def test_a_table_is_renamed_within_its_catalog_only() -> None:
    backends = {name: MemoryBackend() for name in ("one", "two")}
    for backend in backends.values():
        backend.insert_namespace(("a",), {})
        backend.insert_namespace(("b",), {})
    backends["one"].insert_table(("a", "t"), "s3://lake/t", {})
    with served(ManyCatalogs(backends)) as url:
        api = Api(url)
        across = {"id": ["one", "a", "t"], "new_table_name": "t", "new_namespace_id": ["two", "a"]}
        assert api("POST", "/RenameTable", across).error == (406, 0)
        within = {"id": ["one", "a", "t"], "new_table_name": "t", "new_namespace_id": ["one", "b"]}
        assert api("POST", "/RenameTable", within).status == 200
    assert [*backends["one"].scan().tables] == [("b", "t")]
    assert [*backends["two"].scan().tables] == []


# ---- data ------------------------------------------------------------------------------------------------------------


def test_a_table_is_created_from_a_stream_and_opened_by_the_location_answered(api: Api) -> None:
    made = api("POST", "/v1/table/a%24new/create?mode=create", data=stream(5))
    assert made.json["version"] == 1
    assert lance.dataset(made.json["location"]).count_rows() == 5
    location = api("POST", "/v1/table/a%24new/describe", {}).json["location"]
    assert lance.dataset(location).count_rows() == 5
    again = api(
        "POST", f"/CreateTable?id={quote('a$second')}&properties={quote(json.dumps({'k': 'v'}))}", data=stream(1)
    )
    assert again.json["properties"] == {"k": "v"}


def test_no_data_is_deleted_whatever_is_asked(api: Api) -> None:
    place = api("POST", "/v1/table/a%24new/create", data=stream(5)).json["location"]
    assert api("POST", "/v1/table/a%24new/create?mode=overwrite", data=stream(1)).error == (406, 0)
    assert api("POST", "/v1/table/a%24new/drop").error == (406, 0)
    assert api("POST", "/DropTable", {"id": ["a", "new"]}).error == (406, 0)
    assert api("POST", "/v1/namespace/a/drop", {"behavior": "cascade"}).status == 200
    assert lance.dataset(place).count_rows() == 5


@pytest.mark.parametrize(
    "operation",
    ["insert", "merge_insert", "update", "delete", "query", "drop_columns", "branches/delete", "version/delete"],
)
def test_rows_are_neither_served_nor_written(api: Api, operation: str) -> None:
    assert api("POST", f"/v1/table/a%24t/{operation}", {}).error == (406, 0)


def test_storage_options_of_clients_are_refused(api: Api) -> None:
    options = quote(json.dumps({"aws_endpoint": "http://evil"}))
    refused = api("POST", f"/v1/table/a%24new/create?storage_options={options}", data=stream(1))
    assert refused.error == (400, 13)
    assert "evil" not in refused.text


def test_pylance_reads_and_writes_through_it(serve: Serve) -> None:
    client = lance_namespace.connect("rest", {"uri": serve()})
    data = pa.table({"id": [1, 2, 3]})
    lance.write_dataset(data, namespace_client=client, table_id=["a", "written"])
    assert lance.dataset(namespace_client=client, table_id=["a", "written"]).to_table() == data


# ---- what may not leave the house --------------------------------------------------------------------------------


def test_secrets_are_not_handed_out() -> None:
    backend = MemoryBackend(**{"storage.aws_secret_access_key": OPTION})
    backend.insert_namespace(("a",), {"api_key": "prop-secret-11"})
    backend.insert_table(("a", "t"), "s3://user:pass-22@lake/t.lance?sig=sig-33", {"db.password": "prop-secret-44"})
    with served(OneCatalog(backend)) as url:
        api = Api(url)
        answers = [
            api("POST", "/v1/namespace/a/describe", {}),
            api("POST", "/v1/table/a%24t/describe", {"with_table_uri": True, "vend_credentials": True}),
            api("POST", "/v1/table/a%24u/declare", {"properties": {"my_token": "prop-secret-55"}}),
            api("POST", "/AlterTable", {"id": ["a", "t"], "set_properties": {"x": "y"}}),
            api("POST", "/v1/table/a%24t/deregister", {}),
        ]
    assert [answer.status for answer in answers] == [200] * 5
    for answer in answers:
        for secret in (OPTION, "prop-secret", "pass-22", "sig-33"):
            assert secret not in answer.text
    assert answers[1].json["location"] == "s3://(redacted)@lake/t.lance?(redacted)"
    assert answers[0].json["properties"]["api_key"] == "(redacted)"


def test_a_schema_shows_no_secret_in_its_metadata(tmp_path: Path) -> None:
    column = pa.field("a", pa.struct([pa.field("b", pa.int64(), metadata={"api_key": "secret-66", "unit": "m"})]))
    schema = pa.schema([column], metadata={"db.password": "secret-77"})
    lance.write_dataset(schema.empty_table(), tmp_path / "t.lance")
    with served(OneCatalog(DirBackend(root=str(tmp_path)))) as url:
        described = Api(url)("POST", "/v1/table/t/describe", {"load_detailed_metadata": True})
    shown = described.json["schema"]
    assert shown["fields"][0]["type"]["fields"][0]["metadata"] == {"api_key": "(redacted)", "unit": "m"}
    assert shown["metadata"] == {"db.password": "(redacted)"}


def test_errors_hold_no_secret_of_the_configuration() -> None:
    class Talkative(MemoryBackend):
        def load_namespace(self, identifier: tuple[str, ...]) -> LiveNamespace:
            raise from_error_code(15, f"denied to {OPTION}")

    with served(OneCatalog(Talkative(), secrets=[OPTION])) as url:
        refused = Api(url)("POST", "/v1/namespace/a/describe", {})
    assert refused.error == (403, 15)
    assert OPTION not in refused.text


def test_locations_with_credentials_are_refused(api: Api) -> None:
    for route in ("declare", "register"):
        refused = api("POST", f"/v1/table/a%24n/{route}", {"location": "s3://user:hidden@b/x"})
        assert refused.error == (400, 13)
        assert "hidden" not in refused.text
    moved = api("POST", "/AlterTable", {"id": ["a", "t"], "location": "https://b/x?sig=hidden"})
    assert moved.error == (400, 13)


# ---- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_a_status_and_reaches_pylance_as_its_error(code: ErrorCode) -> None:
    class Failing(MemoryBackend):
        def load_namespace(self, identifier: tuple[str, ...]) -> LiveNamespace:
            raise from_error_code(int(code), "because")

    with served(OneCatalog(Failing())) as url:
        answer = Api(url)("POST", "/v1/namespace/a/describe", {})
        client = lance_namespace.connect("rest", {"uri": url})
        with pytest.raises(LanceNamespaceError, match="because") as raised:
            client.describe_namespace(lance_namespace.DescribeNamespaceRequest(id=["a"]))
    assert answer.error == (status_of(code), int(code))
    assert answer.json["error"] == "because"
    assert raised.value.code == code


def test_what_nobody_foresaw_says_nothing_of_itself() -> None:
    class Broken(MemoryBackend):
        def load_namespace(self, identifier: tuple[str, ...]) -> LiveNamespace:
            raise ZeroDivisionError(OPTION)

        def child_namespaces(self, parent: tuple[str, ...]) -> list[str]:
            raise ZeroDivisionError(OPTION)

        def ask_capabilities(self) -> Capabilities:
            raise ZeroDivisionError(OPTION)

    with served(OneCatalog(Broken())) as url:
        api = Api(url)
        answers = [api("POST", "/v1/namespace/a/describe", {}), api("POST", "/ListOperations", {})]
        ready = api("GET", "/readyz")
    assert [answer.error for answer in answers] == [(500, 18), (500, 18)]
    assert ready.status == 503
    assert ready.json == {"status": "a catalog does not answer"}
    assert OPTION not in "".join(answer.text for answer in (*answers, ready))


def test_clients_of_lance_namespace_0_8_are_answered(tmp_path: Path) -> None:
    """They send GET for tags and counts, `null` for no request, and a slash after the path of all tables."""
    backend = DirBackend(root=str(tmp_path))
    lance.write_dataset(pa.table({"id": [1, 2]}), str(tmp_path / "t.lance")).tags.create("prod", 1)
    with served(OneCatalog(backend)) as url, closing(Api(url)) as api:
        assert api("GET", "/v1/table/t/tags/list").json["tags"]["prod"]["version"] == 1
        assert api("GET", "/v1/table/t/count_rows").json == 2
        versions = api("POST", "/v1/table/t/version/list", data=b"null", content_type="application/json").json
        assert [one["version"] for one in versions["versions"]] == [1]
        assert api("GET", "/v1/table/").json == {"tables": ["t"]}


# ---- the document ------------------------------------------------------------------------------------------------


def test_the_openapi_document_is_valid_and_names_every_operation(api: Api) -> None:
    document = api("GET", "/openapi.json").json
    openapi_spec_validator.validate(document)
    served_ids = {call["operationId"] for path in document["paths"].values() for call in path.values()}
    assert {operation.name for operation in OPERATIONS} - NEVER_SUPPORTED <= served_ids
    assert "security" not in document


def test_the_document_lists_what_is_answered_and_nothing_else(memory: MemoryBackend) -> None:
    """Both ways: each route of the document answers, and each route that answers is in it."""
    app = make_app(OneCatalog(memory))
    routes = {
        (method.lower(), route.path)
        for route in app.routes
        if isinstance(route, Route) and route.path not in ("/v1/{rest:path}", "/DropTable", "/v1/table/{id}/drop")
        for method in (route.methods or set()) - {"HEAD"}
    }
    with served(OneCatalog(memory)) as url:
        api = Api(url)
        document = api("GET", "/openapi.json").json
        listed = {(method, path) for path, methods in document["paths"].items() for method in methods}
        assert listed == routes
        for method, path in listed:
            answer = api(method.upper(), path.replace("{id}", "a%24none").replace("{index_name}", "none"))
            said = answer.text
            assert "no such route" not in said, (method, path)
            assert "is not served" not in said, (method, path)
        assert api("POST", "/v1/table/a%24t/drop").error == (406, 0)
        assert api("POST", "/DropTable", {"id": ["a", "t"]}).error == (406, 0)
        api.close()


REFUSALS: list[tuple[str, str, dict[str, str], int]] = [
    ("POST", "/ListOperations", {}, 401),
    ("POST", "/ListOperations", {"origin": "http://page"}, 403),
    ("POST", "/ListOperations", {"x_api_key": TOKEN}, 503),
    ("GET", "/readyz", {}, 503),
    ("GET", "/metrics", {}, 401),
    ("GET", "/metrics", {"origin": "http://page"}, 403),
]


@pytest.mark.parametrize(("method", "path", "header", "status"), REFUSALS)
def test_the_document_has_each_status_of_the_servers_own_routes(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, method: str, path: str, header: Any, status: int
) -> None:
    def down(*_: object) -> NoReturn:
        raise ServiceUnavailableError("the catalog is down")

    monkeypatch.setattr(MemoryBackend, "child_namespaces", down)
    monkeypatch.setattr(MemoryBackend, "ask_capabilities", down)
    with closing(Api(serve(tokens=Tokens(read_write=[TOKEN])))) as api:
        assert api(method, path, **header).status == status
        described = api("GET", "/openapi.json").json["paths"][path][method.lower()]
    assert str(status) in described["responses"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/DescribeTable", {"POST"}),
        ("GET", "/v1/table/a%24t/describe", {"POST"}),
        ("DELETE", "/v1/table/a%24t/describe", {"POST"}),
        ("POST", "/v1/namespace/a/list", {"GET", "HEAD"}),
        ("PUT", "/v1/table/a%24t/count_rows", {"GET", "HEAD", "POST"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
    ],
)
def test_another_method_is_told_those_of_the_route(api: Api, method: str, path: str, allowed: set[str]) -> None:
    refused = api(method, path)
    assert refused.error == (405, 0)
    assert set(refused.headers["Allow"].split(", ")) == allowed


@pytest.mark.parametrize("path", ["/", "/v2/table/a%24t/describe", "/describetable"])
def test_where_there_is_no_route_nothing_is_found(api: Api, path: str) -> None:
    assert api("POST", path).error == (404, 0)


@pytest.mark.parametrize("behind", ["adapter", "serve"])
def test_the_first_call_of_all_is_answered_as_the_last(tmp_path: Path, behind: str) -> None:
    """What a catalog can do may be known only to it: another server here."""
    with ExitStack() as stack:
        if behind == "adapter":
            inner = stack.enter_context(adapter(tmp_path / "lake"))
        else:
            inner = stack.enter_context(served(OneCatalog(DirBackend(root=str(tmp_path / "lake")))))
        url = stack.enter_context(served(OneCatalog(RestBackend(uri=inner))))
        api = stack.enter_context(closing(Api(url)))
        first = api("POST", "/ListOperations").json["operations"]
        assert api("GET", "/v1/namespace/%24/list").status == 200
        assert api("POST", "/ListOperations").json["operations"] == first
    assert ("AlterTable" in first) == (behind == "serve")
    assert {"ListOperations", "CreateTable", "AlterTableAddColumns"} <= set(first)


def test_a_catalog_that_takes_no_tables_offers_to_make_none() -> None:
    reading = MemoryBackend()
    reading.known_capabilities = replace(reading.known_capabilities, makes_no_tables="it only shows them")
    with served(OneCatalog(reading)) as url, closing(Api(url)) as api:
        offered = set(api("POST", "/ListOperations").json["operations"])
    assert not offered & {"DeclareTable", "CreateEmptyTable", "RegisterTable", "CreateTable"}
    assert "DeregisterTable" in offered


@pytest.mark.parametrize("ask", ["create_namespace", "describe_table"])
def test_a_client_shows_the_words_of_an_error_once(api: Api, serve: Serve, ask: str) -> None:
    namespace = lance_namespace.connect("rest", {"uri": serve()})
    request = {"create_namespace": lance_namespace.CreateNamespaceRequest(id=["a"])}
    with pytest.raises(LanceNamespaceError) as refused:
        getattr(namespace, ask)(request.get(ask, lance_namespace.DescribeTableRequest(id=["a", "none"])))
    assert len(re.findall("already exists:|not found:", str(refused.value))) == 1


# ---- columns -----------------------------------------------------------------------------------------------------


def test_columns_are_computed_and_the_rows_stay(tmp_path: Path) -> None:
    with served(OneCatalog(DirBackend(root=str(tmp_path)))) as url, closing(Api(url)) as api:
        made = api("POST", "/v1/table/t/create", data=stream(3)).json
        asked = {"new_columns": [{"name": "twice", "expression": "id * 2"}, {"name": "text", "expression": "'x'"}]}
        added = api("POST", "/v1/table/t/add_columns", asked)
        assert added.json == {"version": made["version"] + 1}
        rows = lance.dataset(made["location"]).to_table().to_pylist()
        assert [row["twice"] for row in rows] == [row["id"] * 2 for row in rows]
        new: list[dict[str, str]]
        for new, code in (
            ([], 13),
            ([{"name": "twice", "expression": "1"}], 13),
            ([{"name": "more", "expression": "nowhere + 1"}], 13),
            ([{"name": "more", "expression": "1"}, {"name": "more", "expression": "2"}], 13),
            ([{"name": "more", "computed": "id + 1"}], 0),
            ([{"name": "more"}], 0),
        ):
            refused = api("POST", "/v1/table/t/add_columns", {"new_columns": new})
            assert refused.error[1] == code, refused.text
            assert "/home/" not in refused.text
        assert api("POST", "/v1/table/t/add_columns", {**asked, "branch": "dev"}).error == (406, 0)
        assert lance.dataset(made["location"]).version == added.json["version"]
        assert api("POST", "/v1/table/none/add_columns", {"new_columns": [{"name": "a", "expression": "1"}]}).error == (
            404,
            4,
        )


def test_the_early_name_of_declaring(api: Api) -> None:
    made = api("POST", "/v1/table/a%24e/create-empty", {"location": "s3://lake/e.lance", "properties": {"tier": "x"}})
    assert made.json == {"location": "s3://lake/e.lance", "properties": {"tier": "x"}, "managed_versioning": False}
    assert api("POST", "/CreateEmptyTable", {"id": ["a", "f"]}).status == 200
    assert api("POST", "/v1/table/a%24e/describe").json["properties"] == {"tier": "x"}
