"""A service that folds names to lower case, as Databricks' own does by its page on the names of objects.

The reference server keeps names as they are, so the stand-in is made to fold them here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends.unity import UnityBackend, config
from reconciler.model.errors import CatalogError, InvalidInputError, UnsupportedOperationError
from reconciler.model.reasons import ReasonCode
from reconciler.planner.plan import Plan
from tests.catalogs.unity.conftest import CATALOG
from tests.plans import assert_blocked
from tests.servers.unity_contract import API, Answer, Contract
from tests.servers.unity_contract_server import UnityServer, serving
from tests.writing import blocks_of, load_manifest

_NAMES = ("name", "catalog_name", "schema_name")


class Folding(Contract):
    """Takes every name in lower case, and answers so."""

    def answer(self, method: str, path: str, query: Mapping[str, str], body: object, token: str | None) -> Answer:
        folded = {key: value.lower() if key in _NAMES else value for key, value in query.items()}
        if isinstance(body, dict):
            body = {key: value.lower() if key in _NAMES else value for key, value in body.items()}
        return super().answer(method, API + path.removeprefix(API).lower(), folded, body, token)


@pytest.fixture
def folding() -> Iterator[UnityServer]:
    contract = Folding()
    contract.add_catalog(CATALOG)
    with serving(contract) as server:
        yield server


def wanting(folder: Path, server: UnityServer, schema: str, table: str, **more: object) -> reconciler.Manifest:
    config = {"endpoint": server.url, "catalog": CATALOG, "root": str(folder / "lake")}
    blocks = blocks_of({(CATALOG, schema, table): {}})
    return load_manifest(folder, {"uc": {"impl": "unity", "config": config, **blocks, **more}}, name="shop")


def applied(wanted: reconciler.Manifest, folder: Path) -> list[str]:
    """Return the messages of what failed."""
    report = reconciler.apply(reconciler.plan(wanted), wanted, journal=folder / "journal")
    return [result.message for result in report.results if result.message]


def test_a_schema_that_the_service_renames_is_taken_back_and_the_error_says_what_to_write(
    folding: UnityServer, tmp_path: Path
) -> None:
    wanted = wanting(tmp_path, folding, "Sales", "orders")
    first = applied(wanted, tmp_path)[0]
    assert "keeps `main$Sales` as `main$sales`" in first
    assert first.endswith("write `sales` in place of `Sales`")
    assert UnityBackend(endpoint=folding.url, catalog=CATALOG).child_namespaces((CATALOG,)) == []


def test_a_table_that_the_service_renames_is_taken_back_and_the_error_says_what_to_write(
    folding: UnityServer, tmp_path: Path
) -> None:
    wanted = wanting(tmp_path, folding, "sales", "Orders")
    [only] = applied(wanted, tmp_path)
    assert "`main$sales$Orders` as `main$sales$orders`" in only
    assert only.endswith("write `orders` in place of `Orders`")
    assert set(reconciler.plan(wanted).changes[0].identifier) == {CATALOG, "sales", "Orders"}


def test_what_is_there_under_its_folded_name_stays_and_the_plan_says_what_to_write(
    folding: UnityServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a table was deregistered and entered again by every apply."""
    monkeypatch.chdir(tmp_path)
    assert applied(wanting(tmp_path, folding, "sales", "orders"), tmp_path) == []
    with pytest.raises(CatalogError) as caught:
        reconciler.plan(wanting(tmp_path, folding, "Sales", "Orders"))
    assert "`main/Sales` as `main/sales` (lancens.yaml:" in str(caught.value)
    assert "`main/Sales/Orders` as `main/sales/orders`" in str(caught.value)
    assert reconciler.plan(wanting(tmp_path, folding, "sales", "orders")).changes == ()


def test_names_that_differ_in_capitals_are_two_where_the_service_keeps_them(tmp_path: Path) -> None:
    contract = Contract()
    contract.add_catalog(CATALOG)
    with serving(contract) as server:
        assert applied(wanting(tmp_path, server, "sales", "orders"), tmp_path) == []
        plan = reconciler.plan(wanting(tmp_path, server, "sales", "Orders"))
        assert [(change.action.value, change.identifier[-1]) for change in plan.changes] == [
            ("declare-table", "Orders"),
            ("deregister-table", "orders"),
        ]


def mirror(folder: Path, server: UnityServer, *tables: str, **mirror: object) -> reconciler.Manifest:
    """A directory with tables in a namespace ``Sales``, which the catalog follows."""
    lake = folder / "source"
    for name in tables:
        if not (lake / f"data/{name}.lance").exists():
            lance.write_dataset(pa.table({"id": [1]}), str(lake / f"data/{name}.lance"))
    blocks = {name: {"location": str(lake / f"data/{name}.lance")} for name in tables}
    uc = {"impl": "unity", "config": {"endpoint": server.url, "catalog": CATALOG}}
    catalogs = {
        "lake": {"impl": "dir", "config": {"root": str(lake)}, "namespaces": {"Sales": {"tables": blocks}}},
        "uc": {**uc, "mirror": {"from": "lake", "into": [CATALOG], **mirror}},
    }
    path = folder / "mirror.yaml"
    path.write_text(json.dumps({"version": 1, "name": "shop", "catalogs": catalogs}))
    return reconciler.load(path)


def in_catalog(server: UnityServer) -> list[str]:
    return ["/".join(name[1:]) for name in UnityBackend(endpoint=server.url, catalog=CATALOG).scan().tables]


def test_a_mirrored_table_that_the_service_renames_is_blocked_with_the_line_to_add(
    folding: UnityServer, tmp_path: Path
) -> None:
    """It ended the plan of everything."""
    assert applied(mirror(tmp_path, folding, "orders", names={"Sales": "sales"}), tmp_path) == []

    both = mirror(tmp_path, folding, "orders", "Orders", names={"Sales": "sales"})
    plan = reconciler.plan(both)
    kept = {"name": "main/sales/Orders", "other": "main/sales/orders", "write": "names: {Sales/Orders: sales/orders}"}
    assert_blocked(plan, "uc/main/sales/Orders", ReasonCode.KEPT_UNDER_ANOTHER_NAME, catalog="uc", **kept)
    assert len(plan.blocked) == 1
    report = reconciler.apply(Plan.from_json(plan.to_json()), both, journal=tmp_path / "journal", skip_blocked=True)
    assert report.ok
    assert [change.address for change in reconciler.plan(both).changes] == []

    names = {"Sales": "sales", "Sales/Orders": "sales/orders_2"}
    assert applied(mirror(tmp_path, folding, "orders", "Orders", names=names), tmp_path) == []
    assert in_catalog(folding) == ["sales/orders", "sales/orders_2"]


def test_what_the_service_has_for_a_table_under_another_name_is_not_taken_away(
    folding: UnityServer, tmp_path: Path
) -> None:
    """A table whose name gets a capital in the source is the same one for such a service."""
    assert applied(mirror(tmp_path, folding, "orders", "users", names={"Sales": "sales"}), tmp_path) == []
    renamed = mirror(tmp_path, folding, "Orders", "users", names={"Sales": "sales"})
    plan = reconciler.plan(renamed, allow_mass_removal=True)
    write = "names: {Sales/Orders: sales/orders}"
    assert_blocked(plan, "uc/main/sales/Orders", ReasonCode.KEPT_UNDER_ANOTHER_NAME, write=write)
    assert [change.address for change in plan.changes if change.catalog == "uc"] == []
    assert [change.address for change in plan.waiting] == ["uc/main/sales/orders"]
    saved = Plan.from_json(plan.to_json())
    assert reconciler.apply(saved, renamed, journal=tmp_path / "journal", skip_blocked=True).ok
    assert in_catalog(folding) == ["sales/orders", "sales/users"]


def test_the_line_is_that_of_the_namespace_that_the_service_renames(folding: UnityServer, tmp_path: Path) -> None:
    assert applied(mirror(tmp_path, folding, "orders", names={"Sales": "sales"}), tmp_path) == []
    assert_blocked(
        reconciler.plan(mirror(tmp_path, folding, "orders", "users"), allow_mass_removal=True),
        "uc/main/Sales/users",
        ReasonCode.KEPT_UNDER_ANOTHER_NAME,
        name="main/Sales",
        other="main/sales",
        write="names: {Sales: sales}",
    )


def test_reading_by_another_name_is_refused_as_well(folding: UnityServer) -> None:
    backend = UnityBackend(endpoint=folding.url, catalog=CATALOG)
    backend.insert_namespace((CATALOG, "sales"), {})
    with pytest.raises(InvalidInputError, match="write `sales` in place of `SALES`"):
        backend.load_namespace((CATALOG, "SALES"))


def test_databricks_makes_no_lance_tables_and_the_plan_says_so(
    folding: UnityServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databricks' SDK says of CreateTable: external tables are of the format DELTA only. The schema can be made."""
    monkeypatch.setattr(config, "DATABRICKS", ("127.0.0.1",))
    wanted = wanting(tmp_path, folding, "sales", "orders")
    plan = reconciler.plan(wanted)
    assert_blocked(plan, "uc/main/sales/orders", ReasonCode.MAKES_NO_TABLES)
    assert [change.action.value for change in plan.changes] == ["create-namespace"]
    backend = UnityBackend(endpoint=folding.url, catalog=CATALOG)
    backend.insert_namespace((CATALOG, "sales"), {})
    with pytest.raises(UnsupportedOperationError, match="DELTA only"):
        backend.insert_table((CATALOG, "sales", "orders"), (tmp_path / "t").as_uri(), {})


def test_a_move_on_databricks_is_blocked_as_it_takes_a_new_entry(
    folding: UnityServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    UnityBackend(endpoint=folding.url, catalog=CATALOG).insert_namespace((CATALOG, "sales"), {})
    folding.contract.add_lance_table(CATALOG, "sales", "orders")
    monkeypatch.setattr(config, "DATABRICKS", ("127.0.0.1",))
    moved = [{"from": f"{CATALOG}/sales/orders", "to": f"{CATALOG}/sales/purchases"}]
    plan = reconciler.plan(wanting(tmp_path, folding, "sales", "purchases", moved=moved))
    assert_blocked(plan, f"uc/{CATALOG}/sales/purchases", ReasonCode.MAKES_NO_TABLES, name=f"{CATALOG}/sales/orders")
    assert plan.changes == ()


@pytest.mark.parametrize(
    ("endpoint", "databricks"),
    [
        ("https://dbc-a1b2345c-d6e7.cloud.databricks.com", True),
        ("https://adb-5555555555555555.19.azuredatabricks.net", True),
        ("https://1234567890123456.7.gcp.databricks.com", True),
        ("https://azuredatabricks.net.example.com", False),
        ("http://127.0.0.1:8080", False),
    ],
)
def test_a_workspace_is_known_by_its_address(endpoint: str, *, databricks: bool) -> None:
    assert bool(UnityBackend(endpoint=endpoint, catalog=CATALOG).capabilities().makes_no_tables) is databricks
