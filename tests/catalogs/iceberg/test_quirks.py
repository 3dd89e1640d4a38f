"""What servers do in their own way, one by one, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.backends.http.retry import RetryPolicy
from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.errors import (
    ConcurrentModificationError,
    InternalError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotLanceTableError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace
from tests.catalogs.iceberg.conftest import Catalog
from tests.catalogs.iceberg.scripted import error, table
from tests.clock import SimulatedClock
from tests.servers.iceberg import IcebergServer, iceberg_server
from tests.servers.scripted import Answer, Request, Scripted


@pytest.fixture
def connected(script: Scripted, monkeypatch: pytest.MonkeyPatch) -> Iterator[IcebergBackend]:
    monkeypatch.setattr(IcebergBackend, "commit_retry", RetryPolicy(max_retries=4, clock=SimulatedClock()))
    backend = IcebergBackend(endpoint=script.url, warehouses="ware", max_retries="0")
    yield backend
    backend.close()


# ---- on both servers -------------------------------------------------------------------------------------------------


def test_views_and_other_tables_keep_a_namespace(catalog: Catalog, backend: IcebergBackend, space: Identifier) -> None:
    catalog.add_view(space, "seen")
    with pytest.raises(NamespaceNotEmptyError, match="it holds `seen`"):
        backend.remove_namespace(space)
    with pytest.raises(TableAlreadyExistsError):
        backend.insert_table((*space, "seen"), f"{catalog.root}/x", {})


def test_what_is_missing_is_not_found_whatever_the_server_answers(
    catalog: Catalog, backend: IcebergBackend, space: Identifier
) -> None:
    missing = (*space[:-1], "never_made")
    for call in (backend.child_tables, backend.child_namespaces, backend.foreign_objects, backend.load_namespace):
        with pytest.raises(NamespaceNotFoundError):
            call(missing)
    with pytest.raises(NamespaceNotFoundError):
        backend.load_namespace(("missing_ware",))
    with pytest.raises(NamespaceNotFoundError):
        backend.insert_table((*missing, "t"), f"{catalog.root}/t", {})


def test_the_mark_of_a_lance_table_cannot_be_changed(
    catalog: Catalog, backend: IcebergBackend, space: Identifier
) -> None:
    backend.insert_table((*space, "t"), f"{catalog.root}/t", {"table_type": "iceberg"})
    changed = backend.alter_table(
        (*space, "t"), PropertyChanges({"table_type": "x", "k": "v"}, frozenset({"table_type"}))
    )
    assert changed.properties["k"] == "v"
    assert changed.properties["table_type"] == "lance"


def test_properties_that_tell_when_a_table_was_read_are_left_out(
    catalog: Catalog, backend: IcebergBackend, space: Identifier
) -> None:
    backend.insert_table((*space, "t"), f"{catalog.root}/t", {"k": "v"})
    first = backend.load_table((*space, "t"))
    backend.insert_namespace((*space, "another commit"), {})
    assert backend.load_table((*space, "t")) == first


def test_a_warehouse_is_left_as_it_is(catalog: Catalog, backend: IcebergBackend) -> None:
    warehouse = (catalog.warehouse,)
    for call in (
        lambda: backend.insert_namespace(warehouse, {}),
        lambda: backend.remove_namespace(warehouse),
        lambda: backend.alter_namespace(warehouse, PropertyChanges({"a": "b"})),
    ):
        with pytest.raises(UnsupportedOperationError):
            call()
    assert backend.child_tables(warehouse) == []
    assert dict(backend.load_namespace(warehouse).properties) == {}


def test_nothing_to_change_is_not_sent(catalog: Catalog, backend: IcebergBackend, space: Identifier) -> None:
    made = backend.insert_table((*space, "t"), f"{catalog.root}/t", {"k": "v"})
    before = backend.traffic().calls
    assert backend.alter_table((*space, "t"), PropertyChanges({"k": "v"}, frozenset({"gone"})), made.location) == made
    assert backend.traffic().calls == before + 1


# ---- Apache's adapter as it is ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["", "prefix in defaults", "prefix nowhere"])
def other_apache(request: pytest.FixtureRequest, logs: Path) -> Iterator[IcebergServer]:
    """The adapter without a prefix, with one among the defaults, and below the warehouse's name unannounced."""
    prefix = {"": "", "prefix in defaults": "p/{warehouse}"}.get(request.param, "{warehouse}")
    where = "defaults" if "defaults" in request.param else "nowhere"
    with iceberg_server(logs, prefix=prefix.replace("/", "%2F"), prefix_in=where) as server:
        yield server


def test_a_prefix_is_found_wherever_it_is(other_apache: IcebergServer) -> None:
    backend = IcebergBackend(endpoint=other_apache.url, warehouses="ware")
    backend.insert_namespace(("ware", "n"), {})
    backend.insert_table(("ware", "n", "t"), "/lake/t", {})
    assert set(backend.scan().tables) == {("ware", "n", "t")}
    backend.close()


# ---- on a scripted server --------------------------------------------------------------------------------------------

TABLE = "/v1/ware/namespaces/a/tables/t"


def test_a_change_at_the_same_moment_is_made_again_on_top(script: Scripted, connected: IcebergBackend) -> None:
    script.routes[f"GET {TABLE}"] = [Answer(table(k="1")), Answer(table(k="1", other="theirs"))]
    script.routes[f"POST {TABLE}"] = [
        error(409, "CommitFailedException", "metadata has changed"),
        error(409, ""),
        Answer(table(k="2", other="theirs")),
    ]
    changed = connected.alter_table(("ware", "a", "t"), PropertyChanges({"k": "2"}, frozenset({"gone"})))
    assert changed.properties == {"table_type": "lance", "gc.enabled": "false", "k": "2", "other": "theirs"}
    commits = [request.body for request in script.requests if request.method == "POST"]
    assert len(commits) == 3
    assert commits[2] == {
        "identifier": {"namespace": ["a"], "name": "t"},
        "requirements": [{"type": "assert-table-uuid", "uuid": "u1"}],
        "updates": [{"action": "set-properties", "updates": {"k": "2"}}],
    }


def test_a_commit_that_the_server_broke_off_is_made_again(script: Scripted, connected: IcebergBackend) -> None:
    """Nessie answers some simultaneous commits so; the specification leaves open what such a commit has done."""
    script.routes[f"GET {TABLE}"] = [Answer(table(k="1")), Answer(table(k="1")), Answer(table(k="2"))]
    script.routes[f"POST {TABLE}"] = error(500, "RuntimeException", "Failed to write snapshot")
    assert connected.alter_table(("ware", "a", "t"), PropertyChanges({"k": "2"})).properties["k"] == "2"
    assert script.paths().count(f"POST {TABLE}") == 2


def test_a_server_that_breaks_off_every_commit_is_reported(script: Scripted, connected: IcebergBackend) -> None:
    script.routes[f"GET {TABLE}"] = Answer(table(k="1"))
    script.routes[f"POST {TABLE}"] = error(500, "RuntimeException", "Failed to write snapshot")
    with pytest.raises(InternalError, match="500: Failed to write snapshot"):
        connected.alter_table(("ware", "a", "t"), PropertyChanges({"k": "2"}))
    assert script.paths().count(f"POST {TABLE}") == 5


def test_a_change_that_another_made_already_is_not_made_again(script: Scripted, connected: IcebergBackend) -> None:
    script.routes[f"GET {TABLE}"] = [Answer(table(k="1")), Answer(table(k="2"))]
    script.routes[f"POST {TABLE}"] = error(409, "CommitFailedException")
    assert connected.alter_table(("ware", "a", "t"), PropertyChanges({"k": "2"})).properties["k"] == "2"
    assert script.paths().count(f"POST {TABLE}") == 1


@pytest.mark.parametrize("refusal", [error(409, "CommitFailedException"), error(500, "RuntimeException")])
@pytest.mark.parametrize("theirs", [table(k="theirs"), table(k="1", gone="theirs"), table("s3://lake/theirs", k="1")])
def test_what_another_changed_in_the_same_part_is_not_overwritten(
    script: Scripted, connected: IcebergBackend, refusal: Answer, theirs: dict[str, object]
) -> None:
    script.routes[f"GET {TABLE}"] = [Answer(table(k="1", gone="here")), Answer(theirs)]
    script.routes[f"POST {TABLE}"] = refusal
    changes = PropertyChanges({"k": "2"}, frozenset({"gone"}))
    with pytest.raises(ConcurrentModificationError, match=r"`ware\$a\$t`"):
        connected.alter_table(("ware", "a", "t"), changes, "s3://lake/ours")
    assert script.paths().count(f"POST {TABLE}") == 1


def test_a_table_re_created_meanwhile_is_not_changed(script: Scripted, connected: IcebergBackend) -> None:
    script.routes[f"GET {TABLE}"] = [Answer(table(uuid="u1")), Answer(table(uuid="u2"))]
    script.routes[f"POST {TABLE}"] = error(409, "", "UUID does not match")
    with pytest.raises(ConcurrentModificationError, match="UUID does not match"):
        connected.alter_table(("ware", "a", "t"), PropertyChanges({"k": "2"}))
    assert script.paths().count(f"POST {TABLE}") == 1


def test_a_change_that_never_gets_through_ends(script: Scripted, connected: IcebergBackend) -> None:
    script.routes[f"GET {TABLE}"] = Answer(table(k="1"))
    script.routes[f"POST {TABLE}"] = error(409, "CommitFailedException", "busy table")
    with pytest.raises(ConcurrentModificationError, match=r"`ware\$a\$t`: 409: busy table"):
        connected.alter_table(("ware", "a", "t"), PropertyChanges({"k": "2"}))
    assert script.paths().count(f"POST {TABLE}") == 5


def test_a_table_that_another_made_before_the_next_try_is_not_dropped(script: Scripted) -> None:
    script.routes[f"GET {TABLE}"] = [Answer(table()), Answer(table(table_type="iceberg"))]
    script.routes[f"DELETE {TABLE}"] = [Answer(status=429, headers={"Retry-After": "0"}), Answer(status=204)]
    with closing(IcebergBackend(endpoint=script.url, warehouses="ware")) as backend, pytest.raises(NotLanceTableError):
        backend.remove_table(("ware", "a", "t"))
    assert script.paths().count(f"DELETE {TABLE}") == 1


def test_data_is_never_purged(script: Scripted, connected: IcebergBackend) -> None:
    script.routes[f"GET {TABLE}"] = Answer(table())
    script.routes[f"DELETE {TABLE}"] = Answer(status=204)
    connected.remove_table(("ware", "a", "t"))
    assert [request.query for request in script.requests if request.method == "DELETE"] == ["purgeRequested=false"]


def test_a_declared_table_is_an_iceberg_table_with_one_idle_column(script: Scripted, connected: IcebergBackend) -> None:
    script.routes["POST /v1/ware/namespaces/a/tables"] = Answer(table("s3://lake/elsewhere"))
    made = connected.insert_table(("ware", "a", "t"), "s3://lake/t", {"tier": "gold"})
    assert made.location == "s3://lake/elsewhere"
    assert script.requests[-1].body == {
        "name": "t",
        "location": "s3://lake/t",
        "schema": {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}],
        },
        "stage-create": False,
        "properties": {"tier": "gold", "table_type": "lance", "gc.enabled": "false"},
    }


@pytest.mark.parametrize("mark", ["LANCE", "Lance", "lance"])
def test_the_mark_is_read_in_any_case(script: Scripted, connected: IcebergBackend, mark: str) -> None:
    script.routes[f"GET {TABLE}"] = Answer(
        {"metadata": {"table-uuid": "u", "location": "s3://lake/t", "properties": {"table_type": mark}}}
    )
    assert connected.load_table(("ware", "a", "t")).location == "s3://lake/t"


@pytest.mark.parametrize("announced", [True, False])
def test_views_are_asked_for_where_there_can_be_some(script: Scripted, announced: bool) -> None:
    views = "GET /v1/{prefix}/namespaces/{namespace}/views"
    endpoints = ["GET /v1/{prefix}/namespaces", *([views] if announced else [])]
    script.routes["GET /v1/config"] = Answer({"overrides": {"prefix": "ware"}, "endpoints": endpoints})
    script.routes["GET /v1/ware/namespaces/a/tables"] = Answer({"identifiers": []})
    script.routes["GET /v1/ware/namespaces/a"] = Answer({"properties": {}})
    script.routes["GET /v1/ware/namespaces/a/views"] = Answer({"identifiers": [{"namespace": ["a"], "name": "v"}]})
    backend = IcebergBackend(endpoint=script.url)
    assert backend.foreign_objects(("ware", "a")) == (["v"] if announced else [])
    backend.close()


@pytest.mark.parametrize(
    "refusal",
    [error(400, ""), error(404, ""), error(405, ""), error(501, ""), Answer(b"<html>not here</html>", 404)],
    ids=lambda refusal: f"{refusal.status} {type(refusal.body).__name__}",
)
def test_a_server_without_views_has_none(script: Scripted, connected: IcebergBackend, refusal: Answer) -> None:
    script.routes["GET /v1/ware/namespaces/a/tables"] = Answer({"identifiers": []})
    script.routes["GET /v1/ware/namespaces/a"] = Answer({"properties": {}})
    script.routes["GET /v1/ware/namespaces/a/views"] = refusal
    assert connected.foreign_objects(("ware", "a")) == []


def test_a_namespace_is_dropped_after_its_contents_were_asked_for(script: Scripted, connected: IcebergBackend) -> None:
    def none(_: Request) -> Answer:
        return Answer({"identifiers": [], "namespaces": []})

    for path in ("/v1/ware/namespaces", "/v1/ware/namespaces/a/tables", "/v1/ware/namespaces/a/views"):
        script.routes[f"GET {path}"] = none
    script.routes["GET /v1/ware/namespaces/a"] = lambda _: Answer({"namespace": ["a"], "properties": {}})
    script.routes["DELETE /v1/ware/namespaces/a"] = error(409, "", "filled meanwhile")
    with pytest.raises(NamespaceNotEmptyError, match="filled meanwhile"):
        connected.remove_namespace(("ware", "a"))
    assert script.paths()[-1] == "DELETE /v1/ware/namespaces/a"


def test_tables_without_a_place_go_below_the_root_or_the_working_directory(
    script: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from lance_namespace import DeclareTableRequest

    def echo(request: Request) -> Answer:
        return Answer(table(request.body["location"]))

    monkeypatch.chdir(tmp_path)
    script.routes["POST /v1/ware/namespaces/a%1Fb/tables"] = echo
    request = DeclareTableRequest(id=["ware", "a", "b", "t"])
    for config, place in (({"root": f"{tmp_path}/root/"}, f"{tmp_path}/root"), ({}, str(tmp_path))):
        backend = IcebergBackend(endpoint=script.url, **config)
        assert CatalogNamespace(backend).declare_table(request).location == f"{place}/ware/a/b/t"
        assert backend.default_location(("ware", "a", "b", "t")) == (f"{place}/ware/a/b/t" if config else None)
        backend.close()
