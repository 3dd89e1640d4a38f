"""Names reach the server as they are: each is encoded once."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.iceberg import IcebergBackend
from reconciler.backends.iceberg.routes import Routes, announced_prefix
from reconciler.model.names import Identifier, Scope, check_name
from tests.catalogs.iceberg import scripted as served
from tests.catalogs.iceberg.conftest import Catalog
from tests.servers.scripted import Answer, Scripted

# What both servers take. Nessie gives @, # and : in a table's name a meaning of their own.
NAMES = (
    "with space",
    "50%",
    "%2F",
    "with.dot",
    "ünï 東京",
    "a+b",
    "semi;colon",
    "q?m",
    'quo"te',
    "it's",
    "UPPER",
    "~-_",
)

levels = st.lists(st.text(min_size=1).filter(lambda name: check_name(name) is None), min_size=1, max_size=4)


# ---- on real servers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_names_come_back_as_they_were_given(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, name: str
) -> None:
    inner, table = (*space, name), (*space, name, f"{name} t")  # in Nessie, tables and namespaces share their names
    backend.insert_namespace(inner, {"of": name})
    backend.insert_namespace((*inner, name), {})
    backend.insert_table(table, f"{catalog.root}/t", {"of": name})
    assert backend.child_namespaces(space) == [name]
    assert backend.child_namespaces(inner) == [name]
    assert backend.child_tables(inner) == [table[-1]]
    assert backend.load_namespace(inner).properties["of"] == name
    assert backend.load_table(table).properties["of"] == name
    found = backend.scan(Scope(("/".join((*space, "**")),)))
    assert set(found.tables) == {table}
    assert set(found.namespaces) == {(catalog.warehouse,), space, inner, (*inner, name)}
    backend.remove_table(table)
    backend.remove_namespace((*inner, name))
    backend.remove_namespace(inner)
    assert backend.child_namespaces(space) == []


# ---- routes ----------------------------------------------------------------------------------------------------------


@given(levels, st.sampled_from(["%1F", "%2E", "%2e", "."]))
def test_a_path_holds_every_level_once_encoded(names: list[str], separator: str) -> None:
    routes = Routes("p", separator)
    path = routes.namespace(names, "tables", "t/t")
    start, end = "/v1/p/namespaces/", "/tables/t%2Ft"
    assert path.isascii()
    assert path.startswith(start)
    assert path.endswith(end)
    inner = path[len(start) : -len(end)]
    assert "/" not in inner
    if separator != ".":
        assert [unquote(part) for part in inner.split(separator)] == names


@given(levels)
def test_a_parent_is_left_for_the_query_to_encode(names: list[str]) -> None:
    assert Routes("p").parent(names).split("\x1f") == names


@pytest.mark.parametrize(
    ("answer", "prefix"),
    [
        ({"overrides": {"prefix": "main%7Cware"}}, "main%7Cware"),
        ({"defaults": {"prefix": "a/b"}}, "a/b"),
        ({"defaults": {"prefix": "a"}, "overrides": {"prefix": "b"}}, "b"),
        ({"defaults": {"prefix": "/a/"}, "overrides": {}}, "a"),
        ({"defaults": {}, "overrides": {}}, None),
        ({"defaults": {"prefix": ""}}, None),
        ({"defaults": None}, None),
        ({}, None),
    ],
)
def test_the_prefix_is_the_announced_one(answer: dict[str, object], prefix: str | None) -> None:
    assert announced_prefix(answer) == prefix


@pytest.mark.parametrize(
    ("announced", "path", "parent"),
    [
        (None, "a.b%1Fc", "a.b\x1fc"),
        ("%2E", "a.b%2Ec", "a.b.c"),
        ("\x1f", "a.b%1Fc", "a.b\x1fc"),
        ("::", "a.b%3A%3Ac", "a.b::c"),
    ],
)
def test_the_separator_is_the_servers(announced: str | None, path: str, parent: str) -> None:
    routes = Routes.from_config("p", {"overrides": {"namespace-separator": announced}})
    assert routes.namespace(["a.b", "c"]) == f"/v1/p/namespaces/{path}"
    assert routes.parent(["a.b", "c"]) == parent


# ---- on a scripted server --------------------------------------------------------------------------------------------


def test_what_is_sent_is_what_was_built(script: Scripted) -> None:
    prefix = {"prefix": "main%7Cware", "namespace-separator": "%2E"}
    script.routes["GET /v1/config"] = Answer({"defaults": prefix})
    path = "/v1/main%7Cware/namespaces/a.b%2E50%25/tables/x%20y"
    script.routes[f"GET {path}"] = Answer(served.table("s3://lake/x"))
    script.routes["GET /v1/main%7Cware/namespaces"] = Answer({"namespaces": [["a.b", "50%", "c"]]})
    backend = IcebergBackend(endpoint=script.url)
    assert backend.load_table(("my ware", "a.b", "50%", "x y")).location == "s3://lake/x"
    assert backend.child_namespaces(("my ware", "a.b", "50%")) == ["c"]
    assert [request.query for request in script.requests] == [
        "warehouse=my%20ware",
        "snapshots=refs",
        "parent=a.b.50%25&pageSize=1000&pageToken=",
    ]
    backend.close()


def test_the_configuration_is_asked_for_once_a_warehouse(script: Scripted) -> None:
    script.routes["GET /v1/config"] = lambda request: Answer({"overrides": {"prefix": request.query.split("=")[1]}})
    script.routes["GET /v1/a/namespaces"] = script.routes["GET /v1/b/namespaces"] = Answer({"namespaces": [["n"]]})
    backend = IcebergBackend(endpoint=script.url)
    for warehouse in ("a", "b", "a", "b"):
        assert backend.child_namespaces((warehouse,)) == ["n"]
    assert script.paths().count("GET /v1/config") == 2
    backend.close()


@pytest.mark.parametrize("refusal", [Answer({"detail": "Not Found"}, 404), Answer(b"404 page not found", 404)])
def test_without_a_prefix_the_warehouses_name_is_tried_and_then_none(script: Scripted, refusal: Answer) -> None:
    script.routes["GET /v1/other/namespaces"] = refusal
    script.routes["GET /v1/config"] = Answer({"defaults": {}, "overrides": {}})
    script.routes["GET /v1/my%20ware/namespaces"] = Answer({"namespaces": [["below"]]})
    script.routes["GET /v1/namespaces"] = Answer({"namespaces": [["top"]]})
    backend = IcebergBackend(endpoint=script.url)
    assert backend.child_namespaces(("my ware",)) == ["below"]
    assert backend.child_namespaces(("other",)) == ["top"]
    backend.close()
