"""A scan is complete or an error, in as few calls as the service admits."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

import reconciler
from reconciler.backends.http.listing import DoubledNameError
from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.errors import (
    BackendError,
    CatalogError,
    InternalError,
    InvalidInputError,
    NamespaceNotFoundError,
)
from reconciler.model.live import Snapshot
from reconciler.model.names import EVERYTHING, ChildrenOf, Identifier, Only, Scope
from reconciler.planner.plan import Plan
from tests.catalogs.iceberg.conftest import Catalog
from tests.catalogs.iceberg.scripted import error, table
from tests.clock import simulated_time
from tests.servers.fault_proxy import HTTP_FAULTS, Call, Decide, Fault, fault_proxy
from tests.servers.scripted import Answer, Request, Scripted
from tests.soak import count

_FAULTS = [fault for fault in HTTP_FAULTS if fault not in (Fault.TIME_OUT, Fault.SILENT, Fault.SLOW)]
_PAGE_SIZE = re.compile(rb"(?<=pageSize=)\d+")


@pytest.fixture
def connected(script: Scripted) -> Iterator[IcebergBackend]:
    backend = IcebergBackend(endpoint=script.url, warehouses="ware", max_retries="0")
    yield backend
    backend.close()


def names(*found: str) -> Answer:
    return Answer({"identifiers": [{"namespace": ["a"], "name": name} for name in found], "next-page-token": None})


def with_namespace(script: Scripted, tables: Answer | list[Answer]) -> None:
    script.routes["GET /v1/ware/namespaces"] = lambda request: Answer(
        {"namespaces": [] if "parent=" in request.query else [["a"]]}
    )
    script.routes["GET /v1/ware/namespaces/a"] = Answer({"properties": {"owner": "x"}})
    script.routes["GET /v1/ware/namespaces/a/tables"] = tables


# ---- on real servers -------------------------------------------------------------------------------------------------


def test_only_the_tables_named_are_loaded(catalog: Catalog, space: Identifier) -> None:
    backend = catalog.connect()
    assert backend.reads_by_name
    for number in range(6):
        backend.insert_table((*space, f"t{number}"), f"{catalog.root}/t{number}", {})
    backend.close()
    backend = catalog.connect()
    assert set(backend.scan(Only([(*space, "t1"), (*space, "t4"), (*space, "never_made")])).tables) == {
        (*space, "t1"),
        (*space, "t4"),
    }
    # the configuration; the warehouse's namespaces; of the space its properties, namespaces and tables; two tables
    assert backend.traffic().calls == 1 + 1 + 3 + 2
    backend.close()


def test_the_children_of_a_namespace_are_read_and_nothing_else(catalog: Catalog, space: Identifier) -> None:
    backend = catalog.connect()
    beside = (*space[:-1], f"{space[-1]}_beside")
    for parent in (beside, (*space, "deep")):
        backend.insert_namespace(parent, {})
    for parent in (space, beside, (*space, "deep")):
        backend.insert_table((*parent, "t"), f"{catalog.root}/{len(parent)}", {})
    backend.close()
    backend = catalog.connect()
    found = backend.scan(ChildrenOf([space]))
    assert set(found.tables) == {(*space, "t")}
    assert set(found.namespaces) == {space[:1], space, (*space, "deep")}
    # the configuration; the warehouse's namespaces; of the space its properties, namespaces and tables, one table, and
    # the properties of the namespace in it
    assert backend.traffic().calls == 1 + 1 + 3 + 1 + 1
    backend.close()


def test_what_may_be_a_table_is_named_in_one_call_a_list(catalog: Catalog, space: Identifier) -> None:
    backend = catalog.connect()
    backend.insert_table((*space, "ours"), f"{catalog.root}/ours", {})
    catalog.add_iceberg_table(space, "theirs")
    backend.child_namespaces(space)
    before = backend.traffic().calls
    assert sorted(backend.candidate_tables(space)) == ["ours", "theirs"]
    assert backend.traffic().calls == before + 1
    assert backend.candidate_tables(space[:1]) == backend.candidate_tables(()) == []
    backend.close()


def test_a_table_that_is_no_lance_table_is_foreign(
    catalog: Catalog, backend: IcebergBackend, space: Identifier
) -> None:
    backend.insert_table((*space, "ours"), f"{catalog.root}/ours", {})
    catalog.add_iceberg_table(space, "theirs")
    catalog.add_view(space, "seen")
    [foreign, view] = backend.foreign_tables(space)
    assert (foreign.id, foreign.format) == ((*space, "theirs"), "iceberg")
    assert foreign.location
    assert (view.id, view.format, view.location) == ((*space, "seen"), "view", None)
    named = ["seen", "ours", "not_there"]
    before = backend.traffic().calls
    assert backend.foreign_tables(space, named) == [view]
    assert backend.traffic().calls == before + 3, "a list of tables, the one of these names, a list of views"
    assert backend.foreign_tables(space[:1]) == backend.foreign_tables(()) == []
    with pytest.raises(NamespaceNotFoundError):
        backend.foreign_tables((*space, "never_made"))


def test_an_empty_level_that_nobody_created_is_noted_and_read_through(apache: Catalog) -> None:
    apache.call("POST", "/namespaces", {"namespace": ["x", "y"], "properties": {"k": "v"}})
    backend = apache.connect()
    backend.insert_table((apache.warehouse, "x", "y", "t"), f"{apache.root}/t", {})
    found = backend.scan()
    assert set(found.tables) == {(apache.warehouse, "x", "y", "t")}
    assert set(found.namespaces) == {(apache.warehouse,), (apache.warehouse, "x", "y")}
    [note] = found.notes
    assert note.startswith(f"namespace `{apache.warehouse}$x` is listed, ")
    backend.close()


def _run_faulty(catalog: Catalog, runs: int) -> None:
    backend = catalog.connect()
    for space in ("a", "b", "b/c"):
        levels = space.split("/")
        backend.insert_namespace((catalog.warehouse, *levels), {})
        for number in range(9):
            backend.insert_table((catalog.warehouse, *levels, f"t{number}"), f"{catalog.root}/{number}", {"n": space})
    whole = backend.scan()
    backend.close()
    assert len(whole.tables) == 27

    dice = random.Random(7)
    happened: set[Fault] = set()
    complete, failures = 0, []
    port = urlsplit(catalog.config["endpoint"]).port or 0
    with simulated_time(), fault_proxy(port, "http", lambda request: _PAGE_SIZE.sub(b"4", request)) as proxy:
        for number in range(runs):
            proxy.reset(_weather(random.Random(number), dice.choice((0.02, 0.1, 0.3)), happened))
            backend = catalog.connect(endpoint=proxy.url, max_retries=str(dice.randrange(4)))
            try:
                assert backend.scan() == whole, f"run {number}"
                complete += 1
            except BackendError as problem:
                failures.append(str(problem))
            finally:
                backend.close()
    assert complete > runs / 10
    assert len(failures) > runs / 10
    assert not [text for text in failures if "secret" in text or "Traceback" in text]
    assert happened == set(_FAULTS)


def _weather(dice: random.Random, rate: float, happened: set[Fault]) -> Decide:
    """Return what goes wrong with so many of the calls."""

    def decide(_: Call) -> Fault | None:
        if dice.random() >= rate:
            return None
        fault = dice.choice(_FAULTS)
        happened.add(fault)
        return fault

    return decide


@pytest.mark.soak
def test_scans_over_a_bad_line_are_complete_or_an_error(apache: Catalog) -> None:
    _run_faulty(apache, count(15, 200))


# ---- on a scripted server --------------------------------------------------------------------------------------------


def test_every_page_is_read(script: Scripted, connected: IcebergBackend) -> None:
    def page(request: Request) -> Answer:
        number = int(dict(parse_qsl(request.query)).get("pageToken", 0))
        entries = [{"namespace": ["a"], "name": f"t{number}"}] if number != 1 else []  # an empty page is not the last
        token = str(number + 1) if number < 3 else ""
        return Answer({"identifiers": entries, "next-page-token": token})

    with_namespace(script, names())
    script.routes["GET /v1/ware/namespaces/a/tables"] = page
    for number in range(4):
        script.routes[f"GET /v1/ware/namespaces/a/tables/t{number}"] = Answer(table(f"s3://lake/{number}"))
    assert [identifier[-1] for identifier in connected.scan().tables] == ["t0", "t2", "t3"]
    assert all(
        request.query == "snapshots=refs"
        for request in script.requests
        if request.path.startswith("/v1/ware/namespaces/a/tables/")
    )


def test_a_table_that_is_listed_twice_is_an_error_that_names_it(script: Scripted, connected: IcebergBackend) -> None:
    script.routes["GET /v1/ware/namespaces/a/tables/t"] = Answer(table())
    with_namespace(script, names("t", "t"))
    for call in (connected.scan, lambda: connected.child_tables(("ware", "a"))):
        with pytest.raises(DoubledNameError, match=r"the table `ware\$a\$t` twice"):
            call()
    assert connected.scan(Scope(("ware/a", "ware/a/u"))).tables == {}


def test_a_namespace_that_is_listed_twice_is_an_error(script: Scripted, connected: IcebergBackend) -> None:
    script.routes["GET /v1/ware/namespaces"] = Answer({"namespaces": [["a"], ["a"]]})
    with pytest.raises(DoubledNameError, match=r"the namespace `ware\$a` twice"):
        connected.scan()


def test_a_table_that_is_made_again_between_two_pages_is_one(script: Scripted, connected: IcebergBackend) -> None:
    script.routes["GET /v1/ware/namespaces/a/tables/t"] = Answer(table())
    with_namespace(script, [names("t", "t"), names("t")])
    assert set(connected.scan().tables) == {("ware", "a", "t")}


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"identifiers": None}),
        Answer({}),
        Answer({"identifiers": [{"namespace": ["a"]}]}),
        Answer({"identifiers": ["a.t"]}),
        Answer([]),
    ],
)
def test_a_list_of_the_wrong_shape_is_an_error(script: Scripted, connected: IcebergBackend, answer: Answer) -> None:
    with_namespace(script, answer)
    with pytest.raises(InternalError, match=r"list the tables in namespace `ware\$a`"):
        connected.scan()


def test_namespaces_of_another_parent_are_an_error(script: Scripted, connected: IcebergBackend) -> None:
    with_namespace(script, names())
    script.routes["GET /v1/ware/namespaces"] = Answer({"namespaces": [["a"]]})  # ignores the parent
    with pytest.raises(InternalError, match="names something else"):
        connected.scan()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (error(500, "NotFoundException", "no metadata file at 17:03:51"), "the service fails to read"),
        (error(500, "RuntimeIOException", "File s3a://warehouse/a/1.json does not exist"), "the service fails to read"),
        (error(500, "UncheckedIOException", "cannot find file:/srv/warehouse/a/1.json"), "the service fails to read"),
        (error(403, "ForbiddenException", "request 51-a"), "this caller may not read"),
        (Answer({"metadata": None}), "the service fails to read"),
    ],
)
def test_one_unreadable_table_is_in_the_way_of_its_own_block_alone(
    script: Scripted, connected: IcebergBackend, tmp_path: Path, answer: Answer, reason: str
) -> None:
    with_namespace(script, names("good", "bad"))
    marks = {"lancens.managed-by": "store/lake", "lancens.keys": "[]"}
    script.routes["GET /v1/ware/namespaces/a/tables/good"] = Answer(table(str(tmp_path), **marks))
    script.routes["GET /v1/ware/namespaces/a/tables/bad"] = answer
    assert list(connected.child_tables(("ware", "a"))) == ["good"]
    assert list(connected.foreign_objects(("ware", "a"))) == ["bad"]

    path = tmp_path / "lancens.yaml"

    def plan(tables: str, more: str = "") -> Plan:
        config = f"{{endpoint: '{script.url}', root: /tmp/lake, max_retries: 0}}"
        path.write_text(
            f"version: 1\nname: store\ncatalogs:\n  lake:\n    impl: iceberg\n    config: {config}\n"
            f"    namespaces: {{ware: {{namespaces: {{a: {{tables: {tables}}}}}}}}}\n{more}"
        )
        return reconciler.plan(reconciler.load(path))

    beside = plan("{good: {}}")
    assert (beside.changes, beside.blocked) == ((), ())
    told = f"`ware$a$bad` is left out: it is a table that {reason}; repair or drop it there"
    assert [note.message.startswith(told) for note in beside.notes] == [True]
    [blocked] = plan("{good: {}, bad: {}}").blocked
    assert blocked.identifier == ("ware", "a", "bad")
    assert f"(one that {reason})" in blocked.reason
    for more in (
        "    moved: [{from: ware/a/bad, to: ware/a/good}]\n",
        "  copy:\n    impl: memory\n    mirror: {from: lake}\n",
    ):
        with pytest.raises(CatalogError, match=r"load table `ware\$a\$bad`"):
            plan("{good: {}}", more)


def test_an_answer_that_is_no_table_ends_the_plan(script: Scripted, connected: IcebergBackend) -> None:
    """Something else answers, so nobody knows whether the table is lancens' own."""
    with_namespace(script, names("t"))
    script.routes["GET /v1/ware/namespaces/a/tables/t"] = Answer({"status": ["?"]})
    for read in (connected.scan, connected.scan_readable):
        with pytest.raises(InternalError, match=r"the answer is not a table"):
            read()


def test_a_table_that_vanishes_is_listed_again_and_left_out(script: Scripted, connected: IcebergBackend) -> None:
    with_namespace(script, [names("stays", "goes"), names("stays")])
    script.routes["GET /v1/ware/namespaces/a/tables/stays"] = Answer(table())
    script.routes["GET /v1/ware/namespaces/a/tables/goes"] = error(404, "NoSuchTableException")
    assert [identifier[-1] for identifier in connected.scan().tables] == ["stays"]


def test_a_table_made_again_meanwhile_is_in(script: Scripted, connected: IcebergBackend) -> None:
    with_namespace(script, names("back"))
    script.routes["GET /v1/ware/namespaces/a/tables/back"] = [error(404, "NoSuchTableException"), Answer(table())]
    assert [identifier[-1] for identifier in connected.scan().tables] == ["back"]


def test_a_namespace_that_vanishes_is_left_out(script: Scripted, connected: IcebergBackend) -> None:
    script.routes["GET /v1/ware/namespaces"] = [Answer({"namespaces": [["a"]]}), Answer({"namespaces": []})]
    script.routes["GET /v1/ware/namespaces/a"] = error(404, "NoSuchNamespaceException")
    assert connected.scan() == Snapshot(namespaces={("ware",): connected.load_namespace(("ware",))})


def test_names_that_no_identifier_can_hold_are_noted(script: Scripted, connected: IcebergBackend) -> None:
    with_namespace(script, names("a/b", "good"))
    script.routes["GET /v1/ware/namespaces/a/tables/good"] = Answer(table())
    found = connected.scan()
    assert [identifier[-1] for identifier in found.tables] == ["good"]
    [note] = found.notes
    assert note.startswith("the table `a/b` in `ware$a` ")
    assert "cannot contain `/`" in note


def test_what_has_not_changed_is_not_sent_again(script: Scripted, connected: IcebergBackend) -> None:
    def load(request: Request) -> Answer:
        if request.headers.get("If-None-Match") == '"v1"':
            return Answer(status=304)
        return Answer(table(tier="gold"), headers={"ETag": '"v1"'})

    with_namespace(script, names("t"))
    script.routes["GET /v1/ware/namespaces/a/tables/t"] = load
    first = connected.scan()
    assert connected.scan() == first
    assert connected.load_table(("ware", "a", "t")).properties["tier"] == "gold"
    tags = [request.headers.get("If-None-Match") for request in script.requests if request.path.endswith("/t")]
    assert tags == [None, '"v1"', '"v1"']


def test_warehouses_have_to_be_named(script: Scripted) -> None:
    backend = IcebergBackend(endpoint=script.url)
    for scope in (EVERYTHING, Scope(("**/events",)), Scope(("w*/a",))):
        with pytest.raises(InvalidInputError, match="write `warehouses: NAME`"):
            backend.scan(scope)
    assert set(backend.scan(Scope(("ware/a*", "ware/b"))).namespaces) == {("ware",)}
    assert set(backend.scan(ChildrenOf([("ware",)])).namespaces) == {("ware",)}
    assert set(backend.scan(Only([("w*", "a", "t")])).namespaces) == {("w*",)}
    backend.outermost_names = frozenset({"ware", "other"})
    script.routes["GET /v1/config"] = lambda request: (
        error(404, "NotFoundException", "no")
        if request.query.endswith("other")
        else Answer({"overrides": {"prefix": "ware"}})
    )
    assert set(backend.scan().namespaces) == {("ware",)}
    assert backend.child_namespaces(()) == ["ware"]
    backend.close()


# ---- names that the server folds, as AWS documents of Glue: all in lower case ----------------------------------------


def test_a_namespace_that_the_server_renames_is_taken_back(script: Scripted, connected: IcebergBackend) -> None:
    script.routes["POST /v1/ware/namespaces"] = Answer({"namespace": ["sales"], "properties": {}})
    script.routes["DELETE /v1/ware/namespaces/sales"] = Answer(status=204)
    with pytest.raises(InvalidInputError, match=r"keeps `ware\$Sales` as `ware\$sales`"):
        connected.insert_namespace(("ware", "Sales"), {})
    assert script.paths()[-1] == "DELETE /v1/ware/namespaces/sales"


def test_a_namespace_is_not_read_by_another_name(script: Scripted, connected: IcebergBackend) -> None:
    script.routes["GET /v1/ware/namespaces/Sales"] = Answer({"namespace": ["sales"], "properties": {}})
    with pytest.raises(InvalidInputError, match="write `sales` in place of `Sales`"):
        connected.load_namespace(("ware", "Sales"))


def test_a_description_of_something_else_is_no_namespace_without_properties(
    script: Scripted, connected: IcebergBackend
) -> None:
    script.routes["GET /v1/ware/namespaces/a"] = Answer({"status": ["?"]})
    with pytest.raises(InternalError, match="no namespace"):
        connected.load_namespace(("ware", "a"))


def test_a_table_that_the_server_renames_is_taken_back(script: Scripted, connected: IcebergBackend) -> None:
    with_namespace(script, names("orders"))
    script.routes["POST /v1/ware/namespaces/a/tables"] = Answer(table())
    script.routes["DELETE /v1/ware/namespaces/a/tables/Orders"] = Answer(status=204)
    with pytest.raises(InvalidInputError, match="write `orders` in place of `Orders`"):
        connected.insert_table(("ware", "a", "Orders"), "s3://lake/t", {})
    assert script.paths()[-1] == "DELETE /v1/ware/namespaces/a/tables/Orders"
    script.requests.clear()
    script.routes["GET /v1/ware/namespaces/a/tables"] = names("Orders")
    assert connected.insert_table(("ware", "a", "Orders"), "s3://lake/t", {}).id == ("ware", "a", "Orders")
