"""TrafficMeter and lists: complete whatever the pages look like, or an error that names what is missing."""

from __future__ import annotations

import pytest
from lance_namespace import DescribeTableRequest, ListNamespacesRequest, ListTablesRequest, errors

from reconciler.model.errors import (
    InternalError,
    NamespaceNotFoundError,
    NotLanceTableError,
    PermissionDeniedError,
)
from reconciler.model.names import ChildrenOf, Scope
from reconciler.namespace import CatalogNamespace
from tests.catalogs.unity.conftest import CATALOG, Unity
from tests.servers.unity_contract import lance_entry

PAGE = "/api/2.1/unity-catalog/tables"


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200, 250])
def test_every_table_of_every_page_is_listed(either: Unity, count: int) -> None:
    either.fill(count)
    backend = either.connect()
    expected = [f"t{number:04}" for number in range(count)]
    assert CatalogNamespace(backend).list_tables(ListTablesRequest(id=[CATALOG, "s0"])).tables == expected
    assert [identifier[-1] for identifier in backend.scan().tables] == expected


def test_every_schema_of_every_page_is_listed(either: Unity) -> None:
    either.fill(*[0] * 250)
    backend = either.connect()
    assert len(CatalogNamespace(backend).list_namespaces(ListNamespacesRequest(id=[CATALOG])).namespaces) == 250
    assert len(backend.scan().namespaces) == 251


def test_a_scan_is_one_call_for_the_catalog_one_a_page_of_schemas_and_one_a_page_of_tables(unity: Unity) -> None:
    unity.fill(250, 0, 30)
    backend = unity.connect()
    assert len(backend.scan().tables) == 280
    asked = [request.split("?")[0].removeprefix("GET /api/2.1/unity-catalog") for request in unity.server.requests]
    assert sorted(asked) == ["/catalogs", "/schemas"] + ["/tables"] * (3 + 1 + 1)
    assert backend.traffic().calls == len(asked)


def test_a_scan_of_a_part_asks_for_that_part_only(unity: Unity) -> None:
    unity.fill(3, 3, 3)
    backend = unity.connect()
    snapshot = backend.scan(Scope((f"{CATALOG}/s1/t0001",)))
    assert set(snapshot.tables) == {(CATALOG, "s1", "t0001")}
    assert set(snapshot.namespaces) == {(CATALOG,), (CATALOG, "s1")}
    assert sum(PAGE in request for request in unity.server.requests) == 1
    unity.server.requests.clear()
    assert backend.scan(Scope(("elsewhere/**",))).namespaces == {}
    assert unity.server.requests == []


def test_the_children_of_a_schema_are_read_and_nothing_else(unity: Unity) -> None:
    unity.fill(1, 1, 1)
    backend = unity.connect()
    snapshot = backend.scan(ChildrenOf([(CATALOG, "s0")]))
    assert set(snapshot.tables) == {(CATALOG, "s0", "t0000")}
    assert set(snapshot.namespaces) == {(CATALOG,), (CATALOG, "s0")}
    assert [request.partition("&max")[0] for request in unity.server.requests if PAGE in request] == [
        f"GET {PAGE}?catalog_name=main&schema_name=s0"
    ]
    unity.server.requests.clear()
    assert set(backend.scan(ChildrenOf([(CATALOG,)])).namespaces) == {(CATALOG,), *((CATALOG, f"s{x}") for x in "012")}
    assert not [request for request in unity.server.requests if PAGE in request]


def test_every_table_that_is_no_external_lance_table_is_foreign(either: Unity) -> None:
    either.fill(120)
    marked = {"table_type": "lance"}
    either.contract.add_table(CATALOG, "s0", "delta", data_source_format="DELTA", storage_location="s3://lake/d")
    either.contract.add_table(CATALOG, "s0", "view", table_type="VIEW", data_source_format=None, storage_location=None)
    either.contract.add_table(
        CATALOG, "s0", "managed", table_type="MANAGED", properties=marked, storage_location="s3://m"
    )
    backend = either.connect()
    assert {
        foreign.id[-1]: (foreign.location, foreign.format) for foreign in backend.foreign_tables((CATALOG, "s0"))
    } == {
        "delta": ("s3://lake/d", "DELTA"),
        "view": (None, "VIEW"),
        "managed": (either.contract.table(CATALOG, "s0", "managed")["storage_location"], "lance, MANAGED"),
    }
    assert backend.foreign_tables((CATALOG,)) == backend.foreign_tables(()) == []
    for missing in ((CATALOG, "never_made"), ("elsewhere",), ("elsewhere", "s0")):
        with pytest.raises(NamespaceNotFoundError):
            backend.foreign_tables(missing)


def test_a_property_that_is_null_counts_as_missing(unity: Unity) -> None:
    unity.fill(1)
    entries = [
        {"name": "theirs", "table_type": "EXTERNAL", "properties": {"owner": None}, "table_id": "1"},
        {**lance_entry("s0", "ours"), "name": "ours", "table_id": "2"},
    ]
    entries[1]["properties"] = {"table_type": "lance", "tier": "gold", "comment": None}
    unity.server.fail_once(PAGE, 200, {"tables": entries})
    snapshot = unity.connect().scan()
    assert set(snapshot.tables) == {(CATALOG, "s0", "ours")}
    assert snapshot.tables[CATALOG, "s0", "ours"].properties == {"table_type": "lance", "tier": "gold"}


@pytest.mark.parametrize("page", ["tables?", "page_token=t0098", "page_token=t0197"])
def test_a_page_that_fails_fails_the_scan_and_is_named(unity: Unity, page: str) -> None:
    unity.fill(250)
    unity.server.fail_once(page, 500, {"error_code": "INTERNAL", "message": "disk full", "details": []})
    with pytest.raises(InternalError, match=r"`main\$s0`.*: 500: INTERNAL: disk full"):
        unity.connect().scan()


def test_one_schema_that_may_not_be_read_fails_the_scan(unity: Unity) -> None:
    unity.fill(3, 3)
    denied = {"error_code": "PERMISSION_DENIED", "message": "no USE_SCHEMA", "details": []}
    unity.server.fail_once("schema_name=s1", 403, denied)
    with pytest.raises(PermissionDeniedError, match=r"main\$s1.*no USE_SCHEMA"):
        unity.connect().scan()


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "something else"},
        {"tables": None, "message": "x"},
        {"tables": {"name": "t"}},
        {"tables": ["t"]},
        {"tables": [{"name": None}]},
        {"tables": [{}]},
        {"tables": [{"name": "t", "properties": {"table_type": 1}}]},
        {"tables": [], "next_page_token": 7},
    ],
)
def test_an_answer_that_is_no_page_is_never_taken_for_an_empty_one(unity: Unity, answer: dict[str, object]) -> None:
    unity.fill(3)
    unity.server.fail_once(PAGE, 200, answer)
    with pytest.raises(InternalError, match="list the tables"):
        unity.connect().scan()


@pytest.mark.parametrize("answer", [{}, {"next_page_token": None}, {"tables": None, "next_page_token": ""}])
def test_an_empty_page_may_leave_the_list_out(unity: Unity, answer: dict[str, object]) -> None:
    unity.fill(0)
    unity.server.fail_once(PAGE, 200, answer)
    assert unity.connect().scan().tables == {}


def test_a_schema_that_goes_while_it_is_read_is_left_out(unity: Unity) -> None:
    unity.fill(3, 3)
    backend = unity.connect()
    schemas: list[dict[str, object]] = [{"name": name, "properties": {}} for name in ("s0", "s1", "gone")]
    unity.server.fail_once("/schemas?", 200, {"schemas": schemas, "next_page_token": None})
    snapshot = backend.scan()
    assert set(snapshot.namespaces) == {(CATALOG,), (CATALOG, "s0"), (CATALOG, "s1")}
    assert len(snapshot.tables) == 6


def test_a_schema_that_is_listed_again_but_has_no_tables_to_list_is_an_error(unity: Unity) -> None:
    unity.fill(3, 3)
    gone = {"error_code": "SCHEMA_NOT_FOUND", "message": "?", "details": []}
    unity.server.fail_once("schema_name=s1", 404, gone)
    with pytest.raises(NamespaceNotFoundError, match=r"list the tables of `main\$s1`"):
        unity.connect().scan()


def test_a_catalog_that_goes_while_it_is_read_is_an_error(unity: Unity) -> None:
    unity.fill(3)
    gone = {"error_code": "CATALOG_NOT_FOUND", "message": "gone", "details": []}
    unity.server.fail_once("/tables?", 404, gone)
    unity.server.fail_once("/schemas?", 200, {"schemas": [{"name": "s0"}]})
    unity.server.fail_once("/schemas?", 404, gone)
    with pytest.raises(NamespaceNotFoundError, match="CATALOG_NOT_FOUND"):
        unity.connect().scan()


def test_notes_are_about_the_scope_only(unity: Unity) -> None:
    unity.fill(0)
    unity.contract.add_table(CATALOG, "s0", "m", table_type="MANAGED", properties={"table_type": "lance"})
    assert unity.connect().scan(Scope((f"{CATALOG}/s0/a*",))).notes == ()
    assert len(unity.connect().scan(Scope((f"{CATALOG}/s0/m*",))).notes) == 1


def test_only_marked_external_tables_are_lance_tables(stand_in: Unity) -> None:
    stand_in.fill(0)
    lance = {"table_type": "LANCE"}
    stand_in.contract.add_table(CATALOG, "s0", "upper", table_type="EXTERNAL", storage_location="/a", properties=lance)
    stand_in.contract.add_table(CATALOG, "s0", "managed", table_type="MANAGED", storage_location="/b", properties=lance)
    stand_in.contract.add_table(CATALOG, "s0", "delta", table_type="EXTERNAL", storage_location="/c")
    stand_in.contract.add_table(CATALOG, "s0", "bare", table_type="VIEW", properties=None)
    backend = stand_in.connect()
    snapshot = backend.scan()
    assert set(snapshot.tables) == {(CATALOG, "s0", "upper")}
    [note] = snapshot.notes
    assert note.startswith("`main$s0$managed` is left out: ")
    assert note.endswith("MANAGED")
    assert sorted(backend.foreign_objects((CATALOG, "s0"))) == ["bare", "delta", "managed"]
    with pytest.raises(NotLanceTableError, match=r"not a Lance table: .* MANAGED"):
        backend.load_table((CATALOG, "s0", "managed"))


def test_names_that_cannot_be_identifiers_are_notes(stand_in: Unity) -> None:
    stand_in.fill(0)
    stand_in.contract.add_table(
        CATALOG, "s0", "a$b", table_type="EXTERNAL", storage_location="/a", properties={"table_type": "lance"}
    )
    stand_in.contract.add_schema(CATALOG, "x$y")
    backend = stand_in.connect()
    snapshot = backend.scan()
    assert snapshot.tables == {}
    assert set(snapshot.namespaces) == {(CATALOG,), (CATALOG, "s0")}
    assert len(snapshot.notes) == 2
    assert backend.child_namespaces((CATALOG,)) == ["s0"]
    assert backend.child_tables((CATALOG, "s0")) == []


def test_a_federated_catalog_is_noted_as_read_only(stand_in: Unity) -> None:
    stand_in.contract.add_catalog(CATALOG, catalog_type="FOREIGN_CATALOG")
    [note] = stand_in.connect().scan().notes
    assert note.startswith("`main` is a FOREIGN_CATALOG")


def test_the_root_holds_the_configured_catalog_and_no_other(unity: Unity) -> None:
    unity.contract.add_catalog("other")
    backend = unity.connect()
    assert CatalogNamespace(backend).list_namespaces(ListNamespacesRequest(id=[])).namespaces == [CATALOG]
    assert CatalogNamespace(backend).list_tables(ListTablesRequest(id=[])).tables == []
    assert CatalogNamespace(backend).list_tables(ListTablesRequest(id=[CATALOG])).tables == []
    for identifier in (["other"], ["other", "s"]):
        with pytest.raises(errors.NamespaceNotFoundError, match="not in the catalog `main`"):
            CatalogNamespace(backend).list_namespaces(ListNamespacesRequest(id=identifier))


def test_a_catalog_that_does_not_exist_is_an_error(unity: Unity) -> None:
    with pytest.raises(NamespaceNotFoundError, match="Catalog not found: absent"):
        unity.connect(catalog="absent").scan()


def test_describe_shows_the_columns_the_catalog_has(unity: Unity) -> None:
    unity.fill(1)
    unity.contract.add_table(
        CATALOG, "s0", "bare", table_type="EXTERNAL", storage_location="/a", properties={"table_type": "lance"}
    )
    backend = unity.connect()
    schema = CatalogNamespace(backend).describe_table(DescribeTableRequest(id=[CATALOG, "s0", "t0000"])).var_schema
    assert schema is not None
    assert [(field.name, field.type.type) for field in schema.fields] == [("id", "int64"), ("name", "utf8")]
    assert CatalogNamespace(backend).describe_table(DescribeTableRequest(id=[CATALOG, "s0", "bare"])).var_schema is None


@pytest.mark.parametrize(
    "more",
    [{"api_path": "api/2.1/unity-catalog/"}, {"endpoint_suffix": "/"}, {"endpoint_suffix": "/api/2.1/unity-catalog"}],
)
def test_addresses_of_one_service(unity: Unity, more: dict[str, str]) -> None:
    unity.fill(2)
    endpoint = unity.server.url + more.pop("endpoint_suffix", "")
    assert len(unity.connect(endpoint=endpoint, **more).scan().tables) == 2
