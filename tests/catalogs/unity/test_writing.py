"""Changes: what reaches the server, what it never gets to do, and what is said when it does something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DropNamespaceRequest,
    RegisterTableRequest,
    errors,
)

from reconciler.model import locations
from reconciler.model.errors import (
    NamespaceNotEmptyError,
    UnsupportedOperationError,
)
from reconciler.model.live import PropertyChanges
from reconciler.namespace import CatalogNamespace
from tests.catalogs.unity.conftest import CATALOG, Unity

SCHEMA = (CATALOG, "s0")
TABLE = (*SCHEMA, "t")

WriteDataset = Callable[[int], str]


def deletions(unity: Unity) -> list[str]:
    return [request for request in unity.server.requests if request.startswith("DELETE")]


def test_an_entry_is_external_text_and_marked(unity: Unity, dataset: WriteDataset) -> None:
    unity.fill(0)
    location = dataset(3)
    made = CatalogNamespace(unity.connect()).register_table(
        RegisterTableRequest(id=list(TABLE), location=location, properties={"tier": "gold"})
    )
    kept = unity.contract.table(*TABLE)
    assert (kept["table_type"], kept["data_source_format"]) == ("EXTERNAL", "TEXT")
    assert kept["properties"] == {"tier": "gold", "table_type": "lance"}
    assert kept["storage_location"] == made.location
    assert locations.same(made.location, location)
    assert [(column["name"], column["type_name"], column["position"]) for column in kept["columns"]] == [
        ("id", "LONG", 0)
    ]


def test_a_declared_table_has_no_columns(unity: Unity, tmp_path: Path) -> None:
    unity.fill(0)
    CatalogNamespace(unity.connect()).declare_table(
        DeclareTableRequest(id=list(TABLE), location=str(tmp_path / "t.lance"))
    )
    assert unity.contract.table(*TABLE)["columns"] == []


def test_the_marker_of_a_lance_table_cannot_be_overruled(unity: Unity) -> None:
    unity.fill(0)
    unity.connect().insert_table(TABLE, "s3://lake/t.lance", {"table_type": "delta"})
    assert unity.contract.table(*TABLE)["properties"] == {"table_type": "lance"}


def test_default_locations_are_below_the_root(unity: Unity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unity.fill(0)
    rooted = unity.connect(root="s3://lake/base/")
    assert rooted.default_location(TABLE) == "s3://lake/base/main/s0/t.lance"
    plain = unity.connect()
    assert plain.default_location(TABLE) is None
    monkeypatch.chdir(tmp_path)
    made = CatalogNamespace(plain).declare_table(DeclareTableRequest(id=list(TABLE)))
    assert locations.same(made.location, f"{tmp_path}/main/s0/t.lance")


def test_another_catalog_is_invalid_input(unity: Unity) -> None:
    unity.contract.add_catalog("other")
    backend = unity.connect()
    with pytest.raises(errors.InvalidInputError, match="not in the catalog `main`"):
        CatalogNamespace(backend).create_namespace(CreateNamespaceRequest(id=["other", "s"]))
    with pytest.raises(errors.InvalidInputError, match="not in the catalog `main`"):
        CatalogNamespace(backend).declare_table(DeclareTableRequest(id=["other", "s", "t"], location="s3://lake/x"))
    assert unity.server.requests == []


# ---- properties of a schema ----------------------------------------------------------------------


def test_properties_that_the_server_keeps_are_an_error(unity: Unity) -> None:
    """An empty set of properties is not a change to the reference server, so the last one cannot be removed."""
    unity.fill(0)
    with pytest.raises(UnsupportedOperationError, match=r"properties number of `main\$s0`"):
        unity.connect().alter_namespace(SCHEMA, PropertyChanges({}, frozenset({"number"})))


# ---- removing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["table", "view", "volumes", "functions", "models"])
@pytest.mark.parametrize("behavior", ["restrict", "cascade"])
def test_a_schema_that_holds_something_else_stays(either: Unity, kind: str, behavior: str) -> None:
    either.fill(1)
    if kind in ("table", "view"):
        either.contract.add_table(*SCHEMA, "other", table_type="MANAGED" if kind == "table" else "VIEW")
    else:
        either.contract.add_other(kind, *SCHEMA, "other")
    if behavior == "restrict":
        either.contract.remove(*SCHEMA, "t0000")
    with pytest.raises(errors.NamespaceNotEmptyError, match="other"):
        CatalogNamespace(either.connect()).drop_namespace(DropNamespaceRequest(id=list(SCHEMA), behavior=behavior))
    assert deletions(either) == []


def test_the_server_has_the_last_word_on_what_is_empty(either: Unity) -> None:
    """Something came in after it was asked for: the server refuses, because ``force`` is never sent."""
    either.fill(1)
    backend = either.connect()
    either.server.fail_once("/tables?", 200, {"tables": [], "next_page_token": None})
    with pytest.raises(NamespaceNotEmptyError, match="FAILED_PRECONDITION"):
        backend.remove_namespace(SCHEMA)
    assert deletions(either) == ["DELETE /api/2.1/unity-catalog/schemas/main.s0"]


def test_cascade_removes_entries_and_never_forces(either: Unity, dataset: WriteDataset) -> None:
    either.fill(0)
    backend = either.connect()
    places = {name: dataset(rows) for name, rows in [("a", 1), ("b", 2)]}
    for name, location in places.items():
        backend.insert_table((*SCHEMA, name), location, {})
    CatalogNamespace(backend).drop_namespace(DropNamespaceRequest(id=list(SCHEMA), behavior="cascade"))
    assert backend.child_namespaces((CATALOG,)) == []
    assert [lance.dataset(location).count_rows() for location in places.values()] == [1, 2]
    assert len(deletions(either)) == 3
    assert not any("force" in request for request in either.server.requests)


def test_a_server_without_volumes_functions_and_models_has_none_of_them(unity: Unity) -> None:
    unity.fill(0)
    for route in ("/volumes", "/functions", "/models"):
        unity.server.fail_once(route, 404, "Status: 404\nDescription: Not Found\n")
    unity.connect().remove_namespace(SCHEMA)
    assert unity.connect().child_namespaces((CATALOG,)) == []
