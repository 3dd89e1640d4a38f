"""What servers may answer that neither of the two real ones does: pages, errors, lost names and worse."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qs, unquote

import pytest
from lance_namespace import DescribeTableRequest, ListNamespacesRequest, ListTablesRequest
from lance_namespace.errors import LanceNamespaceError
from lance_namespace_urllib3_client.models.identity import Identity

from reconciler.backends.http.listing import DoubledNameError
from reconciler.backends.rest import RestBackend
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    ErrorCode,
    InternalError,
    InvalidInputError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
    error_type,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import ChildrenOf, Only, Scope
from reconciler.namespace import CatalogNamespace
from reconciler.server.served import ServedNamespace
from tests.servers.scripted import Request, scripted

Answer = tuple[int, object]
TOKEN, KEY = "very-secret-token-51", "very-secret-header-52"


def error(status: int, code: int | None, text: str = "no") -> Answer:
    return status, {"error": text, "code": code}


def backend_at(url: str, **more: str) -> RestBackend:
    return RestBackend(uri=url, max_retries="0", **more)


class Tree:
    """A whole catalog, in pages of two names."""

    def __init__(self, namespaces: dict[str, list[str]], **properties: str) -> None:
        self.namespaces = namespaces
        self.properties = properties

    def __call__(self, request: Request) -> Answer:
        parts = request.path.split("/")
        if request.path == "/ListOperations":
            return 404, b""
        identifier = unquote(parts[3]).strip("$")
        if request.path.endswith("/table/list"):
            return self._page("tables", self.namespaces.get(identifier, []), request)
        if request.path.endswith("/list"):
            below = [name for name in self.namespaces if name and "$" not in name] if not identifier else []
            return self._page("namespaces", below, request)
        if parts[2] == "namespace":
            return (200, {}) if identifier in self.namespaces else error(404, 1)
        parent, _, name = identifier.rpartition("$")
        if name in self.namespaces.get(parent, []):
            return 200, {"location": f"s3://lake/{identifier}", "properties": self.properties}
        return error(404, 4)

    def _page(self, key: str, names: list[str], request: Request) -> Answer:
        token = parse_qs(request.query).get("page_token", ["0"])[0]
        start = int(token)
        page: dict[str, object] = {key: names[start : start + 2]}
        if start + 2 < len(names):
            page["page_token"] = str(start + 2)
        return 200, page


def test_a_scan_reads_every_page_and_every_table() -> None:
    tree = Tree({"": ["r"], "a": [f"t{number}" for number in range(7)], "b": [], "c": ["x"]}, tier="gold")
    with scripted(tree) as server:
        seen = backend_at(server.url).scan()
    assert sorted(seen.namespaces) == [("a",), ("b",), ("c",)]
    assert len(seen.tables) == 9
    assert seen.tables["a", "t6"].location == "s3://lake/a$t6"
    assert seen.tables["a", "t6"].properties == {"tier": "gold"}


def test_a_scan_calls_for_nothing_outside_of_its_scope() -> None:
    with scripted(Tree({"": [], "a": ["t"], "b": ["u"]})) as server:
        seen = backend_at(server.url).scan(Scope(("a/**",)))
        assert set(seen.tables) == {("a", "t")}
        assert not [path for path in server.paths() if "/b" in path]


def test_only_the_tables_named_are_loaded() -> None:
    with scripted(Tree({"": ["t1"], "a": [f"t{number}" for number in range(6)], "b": ["t1"]})) as server:
        backend = backend_at(server.url)
        seen = backend.scan(Only([("a", "t1"), ("a", "t4"), ("a", "never made")]))
    assert backend.reads_by_name
    assert set(seen.tables) == {("a", "t1"), ("a", "t4")}
    assert set(seen.namespaces) == {("a",)}
    loaded = [path for path in server.paths() if "/v1/table/" in path]
    assert sorted(loaded) == [f"POST /v1/table/a%24{name}/describe" for name in ("t1", "t4")]


def test_the_children_of_a_namespace_are_read_and_nothing_else() -> None:
    with scripted(Tree({"": ["t"], "a*": ["t?"], "ab": ["t?"]})) as server:
        seen = backend_at(server.url).scan(ChildrenOf([("a*",)]))
    assert set(seen.tables) == {("a*", "t?")}
    assert set(seen.namespaces) == {("a*",)}
    assert not [path for path in server.paths() if "/ab" in path or "/table/t" in path]


def test_a_page_that_fails_fails_the_scan() -> None:
    tree = Tree({"": [], "a": ["t0", "t1", "t2"]})

    def answer(request: Request) -> Answer:
        return error(500, 18, "disk") if "page_token=2" in request.query else tree(request)

    with (
        scripted(answer) as server,
        pytest.raises(InternalError, match=r"`a`, page 2: 500: .*disk"),
    ):
        backend_at(server.url).scan()


def test_a_name_that_is_listed_twice_is_an_error_that_names_it() -> None:
    tree = Tree({"": [], "a": ["t", "u", "t"]})
    with scripted(tree) as server:
        for call in (lambda: backend_at(server.url).scan(), lambda: backend_at(server.url).child_tables(("a",))):
            with pytest.raises(DoubledNameError, match=r"the table `a\$t` twice"):
                call()
        assert set(backend_at(server.url).scan(Scope(("a/u",))).tables) == {("a", "u")}
    with (
        scripted(lambda _: (200, {"namespaces": ["a", "b", "a"]})) as server,
        pytest.raises(DoubledNameError, match="the namespace `a` twice"),
    ):
        backend_at(server.url).child_namespaces(())


@pytest.mark.parametrize(
    "answered",
    [{}, {"namespaces": None}, {"namespaces": "a"}, {"namespaces": [1]}, {"namespaces": ["a"], "page_token": 3}],
)
def test_an_answer_that_is_no_list_is_an_error(answered: object) -> None:
    def answer(request: Request) -> Answer:
        return (404, b"") if request.method == "POST" else (200, answered)

    with scripted(answer) as server, pytest.raises(InternalError):
        backend_at(server.url).child_namespaces(())


def test_a_table_that_went_in_the_meantime_is_not_there_and_one_that_is_denied_is_an_error() -> None:
    tree = Tree({"": [], "a": ["kept", "lost"]})
    denied: list[int] = []

    def answer(request: Request) -> Answer:
        if request.path.endswith("lost/describe"):
            if not denied:
                tree.namespaces["a"].remove("lost")
            return error(404, 4)
        return tree(request)

    with scripted(answer) as server:
        assert set(backend_at(server.url).scan().tables) == {("a", "kept")}
        tree.namespaces["a"].append("lost")
        denied.append(1)
        snapshot = backend_at(server.url).scan()
    assert set(snapshot.tables) == {("a", "kept")}
    assert set(snapshot.odd) == {("a", "lost")}


def test_names_that_cannot_be_shown_are_notes() -> None:
    tree = Tree({"": [], "a": ["ok", "with/slash", "with$dollar"]})
    with scripted(tree) as server:
        seen = backend_at(server.url).scan()
    assert set(seen.tables) == {("a", "ok")}
    assert sorted(note.partition(" cannot")[0] for note in seen.notes) == [
        "the table `with$dollar` in `a`",
        "the table `with/slash` in `a`",
    ]


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_of_the_specification_is_its_error(code: ErrorCode) -> None:
    with (
        scripted(lambda _: error(418, int(code), "because")) as server,
        pytest.raises(BackendError, match=f"{code.name}: because") as raised,
    ):
        backend_at(server.url)._unprobed_client.namespace(("a",))
    assert type(raised.value) is error_type(int(code))


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, {"error": "gone"}, NamespaceNotFoundError),
        (409, {"error": "busy", "code": 999}, ConcurrentModificationError),
        (500, {"error": "Not supported: rename", "code": 18}, UnsupportedOperationError),
    ],
)
def test_other_bodies_are_read_by_their_status(status: int, body: object, expected: type[BackendError]) -> None:
    with scripted(lambda _: (status, body)) as server, pytest.raises(expected):
        backend_at(server.url)._unprobed_client.namespace(("a",))


def test_a_creation_that_met_another_one_already_exists() -> None:
    def answer(request: Request) -> Answer:
        if request.path.endswith(("/create", "/declare")):
            return error(409, 14, "concurrently created")
        return (404, b"") if request.path == "/ListOperations" else (200, {"location": "s3://lake/a"})

    with scripted(answer) as server:
        with pytest.raises(BackendError) as raised:
            backend_at(server.url).insert_namespace(("a",), {})
        assert raised.value.code == ErrorCode.NAMESPACE_ALREADY_EXISTS
        with pytest.raises(TableAlreadyExistsError):
            backend_at(server.url).insert_table(("a", "t"), "s3://lake/a", {})
        with pytest.raises(TableAlreadyExistsError):
            backend_at(server.url).insert_table_placed_by_service(("a", "t"), {})


def test_a_table_put_elsewhere_is_taken_back() -> None:
    def answer(request: Request) -> Answer:
        return (404, b"") if request.path == "/ListOperations" else (200, {"location": "s3://theirs/t"})

    with scripted(answer) as server:
        with pytest.raises(UnsupportedOperationError, match="puts table `a\\$t` at s3://theirs/t"):
            backend_at(server.url).insert_table(("a", "t"), "s3://ours/t", {})
        assert server.paths()[-1] == "POST /v1/table/a%24t/deregister"


def test_a_location_outside_the_root_is_refused_before_the_write() -> None:
    def answer(request: Request) -> Answer:
        listed = request.path == "/ListOperations"
        return 200, {"operations": ["AlterTable", "AlterNamespace"]} if listed else {"location": "s3://theirs/t"}

    with scripted(answer) as server:
        backend = backend_at(server.url, root="s3://ours/lake")
        for location in ("s3://theirs/t", "s3://ours/lakes/t", "s3://ours"):
            with pytest.raises(InvalidInputError, match="is not under the root s3://ours/lake"):
                backend.insert_table(("a", "t"), location, {})
            with pytest.raises(InvalidInputError, match="is not under the root s3://ours/lake"):
                backend.alter_table(("a", "t"), PropertyChanges({}, frozenset()), location)
        assert not [path for path in server.paths() if not path.endswith("/ListOperations")]
        assert backend.location_problem(("a", "t"), "s3://ours/lake/t") is None


def test_a_namespace_whose_properties_are_lost_is_dropped_again() -> None:
    def answer(request: Request) -> Answer:
        return (404, b"") if request.path == "/ListOperations" else (200, {"properties": {}})

    with scripted(answer) as server:
        with pytest.raises(UnsupportedOperationError, match="`owner` of namespace `a`"):
            backend_at(server.url).insert_namespace(("a",), {"owner": "me"})
        assert server.requests[-1].path == "/v1/namespace/a/drop"
        assert server.requests[-1].body == {"id": ["a"], "mode": "Fail", "behavior": "Restrict"}


def test_a_namespace_with_anything_in_it_is_never_asked_to_go() -> None:
    with scripted(Tree({"": [], "a": ["t"]})) as server:
        with pytest.raises(NamespaceNotEmptyError, match="holds t"):
            backend_at(server.url).remove_namespace(("a",))
        assert not [path for path in server.paths() if path.endswith("/drop")]


def test_neither_overwrite_nor_cascade_is_ever_sent() -> None:
    tree = Tree({"": [], "a": []})
    with scripted(tree) as server:
        backend = backend_at(server.url)
        for call in _every_write(backend):
            with suppress(LanceNamespaceError):
                call()
        sent = " ".join(str(request.body) for request in server.requests).lower()
    assert "overwrite" not in sent
    assert "cascade" not in sent


def _every_write(backend: RestBackend) -> list[Callable[[], object]]:
    from lance_namespace import CreateNamespaceRequest, DropNamespaceRequest, RegisterTableRequest

    return [
        lambda: CatalogNamespace(backend).create_namespace(CreateNamespaceRequest(id=["a"], mode="overwrite")),
        lambda: CatalogNamespace(backend).drop_namespace(DropNamespaceRequest(id=["missing"], behavior="cascade")),
        lambda: CatalogNamespace(backend).register_table(
            RegisterTableRequest(id=["a", "t"], location="s3://x/y", mode="overwrite")
        ),
    ]


def test_another_delimiter_joins_names_in_routes() -> None:
    with scripted(lambda _: (200, {"properties": {}})) as server:
        backend_at(server.url, delimiter=".").load_namespace(("a", "b c"))
        request = server.requests[-1]
        assert (request.path, request.query) == ("/v1/namespace/a.b%20c/describe", "delimiter=.")
        with pytest.raises(InvalidInputError, match="holds the delimiter"):
            backend_at(server.url, delimiter=".").load_namespace(("a.b",))
        with suppress(BackendError):
            backend_at(server.url, delimiter=".").child_namespaces(())
        assert server.requests[-1].path == "/v1/namespace/%2E/list"  # a client or proxy removes `/.`


def test_reads_are_repeated_although_they_are_posted() -> None:
    failed: set[str] = set()

    def answer(request: Request) -> Answer:
        if request.path not in failed:
            failed.add(request.path)
            return 502, b"<html>no upstream</html>"
        if request.path == "/v1/oauth/tokens":
            return 200, {"access_token": TOKEN}
        return 200, {"operations": [], "location": "s3://lake/t", "properties": {}}

    with scripted(answer) as server:
        backend = RestBackend(uri=server.url, credential="me:s3cret-77")
        assert backend.load_table(("a", "t")).location == "s3://lake/t"
        assert backend.load_namespace(("a",)).id == ("a",)
        with pytest.raises(ServiceUnavailableError):
            backend.insert_namespace(("a", "b"), {})
        assert server.paths().count("POST /v1/namespace/a%24b/create") == 1
        assert all(server.paths().count(f"POST {path}") == 2 for path in failed - {"/v1/namespace/a%24b/create"})


def test_a_server_that_says_so_is_asked_to_alter() -> None:
    def answer(request: Request) -> Answer:
        if request.path == "/ListOperations":
            return 200, {"operations": ["AlterTable", "AlterNamespace", "SomethingElse"]}
        return 200, {"location": "s3://lake/t", "properties": {"a": "2"}}

    with scripted(answer) as server:
        backend = backend_at(server.url)
        assert backend.alter_table(("a", "t"), PropertyChanges({"a": "2"}, frozenset({"b"}))).properties == {"a": "2"}
        assert backend.capabilities().alter_table
        assert server.requests[-1].body == {
            "id": ["a", "t"],
            "set_properties": {"a": "2"},
            "unset_properties": ["b"],
            "expected_properties": {"a": "2", "b": None},
        }
        assert server.paths().count("POST /ListOperations") == 1


def test_a_server_that_says_so_is_asked_to_rename_and_believed_only_with_the_same_location() -> None:
    places = {"old": "s3://lake/t", "new": "s3://lake/t", "elsewhere": "s3://lake/other"}

    def answer(request: Request) -> Answer:
        if request.path == "/ListOperations":
            return 200, {"operations": ["RenameTable"]}
        if request.path.endswith("/describe"):
            return 200, {"location": places[request.body["id"][-1]], "properties": {}}
        return 200, {}

    with scripted(answer) as server:
        backend = backend_at(server.url)
        assert backend.rename_table(("a", "old"), ("b", "new")).location == "s3://lake/t"
        [sent] = [request for request in server.requests if request.path.endswith("/rename")]
        assert sent.path == "/v1/table/a%24old/rename"
        assert sent.body == {"id": ["a", "old"], "new_table_name": "new", "new_namespace_id": ["b"]}
        with pytest.raises(InternalError, match="shows it at s3://lake/other"):
            backend.rename_table(("a", "old"), ("b", "elsewhere"))
    with scripted(lambda _: (200, {"operations": []})) as server:
        assert backend_at(server.url).capabilities().rename_within is None


def test_headers_and_token_are_sent_and_shown_nowhere() -> None:
    def answer(request: Request) -> Answer:
        return 500, {"error": f"{request.headers}", "code": 18}

    with scripted(answer) as server:
        config = {"auth_token": TOKEN, "headers.x-api-key": KEY, "headers.x-lancedb-database": "db-of-mine"}
        backend = backend_at(server.url, **config)
        with pytest.raises(InternalError) as raised:
            backend.load_namespace(("a",))
        sent = server.requests[-1].headers
    assert (sent["Authorization"], sent["x-api-key"]) == (f"Bearer {TOKEN}", KEY)
    for text in (str(raised.value), repr(backend.config), backend.namespace_id()):
        assert TOKEN not in text
        assert KEY not in text
        assert "db-of-mine" not in text


def test_headers_that_choose_a_catalog_make_another_service() -> None:
    def identity(**headers: str) -> str:
        return RestBackend(uri="https://Host/", **headers).namespace_id()

    plain = identity()
    assert plain == "rest: https://host"
    assert identity(**{"headers.Authorization": "Bearer a"}) == plain
    assert identity(**{"headers.x-lancedb-database": "a"}) != identity(**{"headers.x-lancedb-database": "b"})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "`uri` is missing"),
        ({"uri": "ftp://x"}, "`uri`: must be an http:// or https:// address"),
        ({"uri": "http://x", "delimiter": ""}, "`delimiter`"),
        ({"uri": "http://x", "auth_token": " "}, "`auth_token`: is empty"),
        ({"uri": "http://x", "header.a": "b"}, "unknown key `header.a`"),
        ({"uri": "http://x", "read_timeout": "0"}, "`read_timeout`"),
    ],
)
def test_a_faulty_configuration_is_named(config: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        RestBackend(**config)


@pytest.mark.parametrize(
    "answered",
    [
        (404, {"detail": "Not Found"}),  # FastAPI
        (404, {"timestamp": "2026-01-01", "status": 404, "error": "Not Found", "path": "/ListOperations"}),  # Spring
        (404, b"<html><title>Not Found</title></html>"),
        (401, {"message": "Unauthorized"}),  # a gateway that knows its own routes only
        (403, {"message": "Missing Authentication Token"}),  # AWS API Gateway
        (405, b""),
        (415, {"title": "Unsupported Media Type", "status": 415}),
        (500, {"error": "no route", "code": 18}),
        (501, b""),
        (302, b""),
        (200, b"<html><title>Welcome</title></html>"),
        (200, ["what", "is", "this"]),
        (200, {"operations": "all"}),
        (200, b""),
    ],
    ids=str,
)
def test_whatever_list_operations_answers_the_server_works(answered: Answer) -> None:
    def answer(request: Request) -> Answer:
        return answered if request.path == "/ListOperations" else (200, {"properties": {"a": "1"}})

    with scripted(answer) as server:
        backend = backend_at(server.url)
        assert backend.load_namespace(("n",)).properties == {"a": "1"}
        assert not backend.capabilities().alter_table
        backend.load_namespace(("n",))
        assert server.paths().count("POST /ListOperations") <= 3


@pytest.mark.parametrize(
    "damaged", [b'{"operations": ["AlterTable", "Alt      }', {"status": ["?"]}, b"<html></html>"], ids=str
)
def test_a_damaged_list_of_operations_is_asked_for_again(damaged: object) -> None:
    answers = iter([(200, damaged), (200, {"operations": ["AlterTable", "AlterNamespace"]})])
    with scripted(lambda _: next(answers)) as server:
        assert backend_at(server.url).capabilities().alter_table


def test_a_description_of_something_else_is_no_namespace_without_properties() -> None:
    with scripted(lambda _: (200, {"status": ["?"]})) as server, pytest.raises(InternalError, match="no namespace"):
        backend_at(server.url).load_namespace(("n",))


def test_a_server_that_is_busy_is_not_taken_for_one_that_cannot() -> None:
    busy = [True]

    def answer(request: Request) -> Answer:
        if request.path == "/ListOperations":
            return (503, {}) if busy[0] else (200, {"operations": ["AlterTable", "AlterNamespace"]})
        return 200, {"properties": {}}

    with scripted(answer) as server:
        backend = backend_at(server.url)
        with pytest.raises(ServiceUnavailableError):
            backend.capabilities()
        busy[0] = False
        assert backend.capabilities().alter_table


def test_a_credential_is_exchanged_for_tokens_and_shown_nowhere() -> None:
    tokens = iter(["first-token-77", "second-token-78"])
    good = ["first-token-77"]

    def answer(request: Request) -> Answer:
        if request.path == "/v1/oauth/tokens":
            return 200, {"access_token": next(tokens), "token_type": "bearer", "expires_in": 3600}
        if request.headers.get("Authorization") != f"Bearer {good[0]}":
            return 401, {"error": "expired", "code": 16}
        return 200, {"properties": {}}

    with scripted(answer) as server:
        backend = backend_at(server.url, credential="me:s3cret-77", scope="catalog", **{"headers.x-api-key": KEY})
        backend.load_namespace(("n",))
        good[0] = "second-token-78"
        backend.load_namespace(("n",))
        asked = [request for request in server.requests if request.path == "/v1/oauth/tokens"]
        assert len(asked) == 2
        assert asked[0].body == "grant_type=client_credentials&client_id=me&client_secret=s3cret-77&scope=catalog"
        assert "x-api-key" not in asked[0].headers
        assert "s3cret-77" not in repr(backend.config) + backend.namespace_id()


# ---- the context of a client's request -------------------------------------------------------------------------------


def test_headers_of_a_context_go_with_all_that_is_asked_for_it() -> None:
    tree = Tree({"": [], "a": ["t"], "b": ["u", "v"]})
    with scripted(tree) as server:
        namespace = CatalogNamespace(backend_at(server.url, auth_token=TOKEN, **{"headers.x-team": "ml"}))
        namespace.list_namespaces(ListNamespacesRequest(id=[]))
        server.requests.clear()
        context = {"header.x-trace": "trace-1", "header.Authorization": "Bearer somebody-else-53", "note": "mine"}
        assert len(namespace.list_all_tables(ListTablesRequest(context=context)).tables) == 3
        sent = [{name.lower(): value for name, value in one.headers.items()} for one in server.requests]
        assert len(sent) > 5
        assert {one["x-trace"] for one in sent} == {"trace-1"}
        assert {one["authorization"] for one in sent} == {"Bearer somebody-else-53"}
        assert {one["x-team"] for one in sent} == {"ml"}
        assert not any("note" in one for one in sent)
        server.requests.clear()
        identity = Identity(api_key="key-of-another-54", auth_token="token-of-another-55")
        namespace.list_namespaces(ListNamespacesRequest(id=[], identity=identity))
        (one,) = server.requests
        assert (one.headers["x-api-key"], one.headers["Authorization"]) == (
            "key-of-another-54",
            "Bearer token-of-another-55",
        )
        server.requests.clear()
        namespace.list_namespaces(ListNamespacesRequest(id=[]))
        ServedNamespace(namespace.backend).list_namespaces(ListNamespacesRequest(id=[], context=context))
        assert {one.headers["Authorization"] for one in server.requests} == {f"Bearer {TOKEN}"}
        assert not any("x-trace" in one.headers for one in server.requests)


def test_the_headers_of_an_answer_are_the_context_of_the_response() -> None:
    with scripted(Tree({"": [], "a": ["t"]})) as server:
        namespace = CatalogNamespace(backend_at(server.url))
        for response in (
            namespace.describe_table(DescribeTableRequest(id=["a", "t"])),
            namespace.list_tables(ListTablesRequest(id=["a"])),
        ):
            assert response.context is not None
            assert response.context["header.content-type"] == "application/json"
            assert "header.date" in response.context
        served = ServedNamespace(namespace.backend).describe_table(DescribeTableRequest(id=["a", "t"]))
        assert served.context is None


def test_a_credential_of_a_context_is_shown_nowhere_and_goes_over_no_plain_connection() -> None:
    context = {"header.x-api-key": KEY}
    with scripted(lambda request: error(403, 15, f"not with {request.headers.get('x-api-key')}")) as server:
        namespace = CatalogNamespace(backend_at(server.url))
        with pytest.raises(LanceNamespaceError, match=r"not with \(redacted\)"):
            namespace.list_namespaces(ListNamespacesRequest(id=[], context=context))
    for uri, given, said in (
        ("http://lance.example", context, "`uri` is a plain http:// address"),
        ("https://lance.example", {"header.x-api-key": f"{KEY}\r\nHost: evil"}, "'header.x-api-key' in the request's"),
        ("https://lance.example", {"header.": KEY}, "'header.' in the request's context cannot be sent as a header"),
    ):
        with pytest.raises(LanceNamespaceError) as caught:
            CatalogNamespace(backend_at(uri)).list_namespaces(ListNamespacesRequest(id=[], context=given))
        assert (caught.value.code, said in str(caught.value)) == (13, True), caught.value
        assert KEY not in str(caught.value)
