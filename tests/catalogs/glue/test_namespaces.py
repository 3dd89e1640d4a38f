"""Catalogs and databases: which is created, what an update keeps, and that nothing goes that is not empty."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from lance_namespace import CreateNamespaceRequest, DropNamespaceRequest, ListNamespacesRequest, errors

from reconciler.backends.glue import GlueBackend
from reconciler.model.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    UnsupportedOperationError,
)
from reconciler.model.live import LiveNamespace, PropertyChanges
from reconciler.namespace import CatalogNamespace
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.glue.seeding import before_the_first, catalog_id, databases, lance_table, tables
from tests.servers.glue import GlueServer


class TestKinds:
    def test_a_database_unless_a_catalog_is_asked_for(self, glue: GlueServer, backend: GlueBackend) -> None:
        assert backend.insert_namespace(("web",), {"a": "b"}).kind == "database"
        assert backend.insert_namespace(("sales",), {"a": "b"}, kind="catalog").kind == "catalog"
        backend.insert_namespace(("sales", "crm"), {}, kind="database")
        client = glue.client
        assert client.get_database(Name="web")["Database"]["Parameters"] == {"a": "b"}
        assert client.get_catalog(CatalogId=catalog_id("sales"))["Catalog"]["Parameters"] == {"a": "b"}
        assert client.get_database(CatalogId=catalog_id("sales"), Name="crm")["Database"]["Name"] == "crm"

    def test_a_lance_client_asks_with_a_property(self, backend: GlueBackend) -> None:
        made = CatalogNamespace(backend).create_namespace(
            CreateNamespaceRequest(id=["Sales"], properties={"lancens.kind": "catalog"})
        )
        assert made.properties == {}
        assert backend.load_namespace(("sales",)) == LiveNamespace(("sales",), {}, "catalog")
        again = {"lancens.kind": "catalog", "a": "b"}
        CatalogNamespace(backend).create_namespace(
            CreateNamespaceRequest(id=["sales"], properties=again, mode="overwrite")
        )
        assert backend.load_namespace(("sales",)) == LiveNamespace(("sales",), {"a": "b"}, "catalog")
        with pytest.raises(errors.InvalidInputError, match="not a `schema`"):
            CatalogNamespace(backend).create_namespace(
                CreateNamespaceRequest(id=["x"], properties={"lancens.kind": "schema"})
            )

    def test_glue_makes_no_catalog_inside_a_catalog(
        self, glue: GlueServer, backend: GlueBackend, connect: Connect
    ) -> None:
        glue.add_catalog("sales")
        with pytest.raises(UnsupportedOperationError, match="`sales\\$eu` cannot be created"):
            backend.insert_namespace(("sales", "eu"), {}, kind="catalog")
        inside = connect(catalog_id=catalog_id("sales"))
        assert inside.capabilities().outer_kind_depth == 0
        with pytest.raises(UnsupportedOperationError):
            inside.insert_namespace(("eu",), {}, kind="catalog")

    @pytest.mark.parametrize("name", ["a.b", "aws:thing", "a\\b", "x" * 65])
    def test_names_that_no_catalog_can_have(self, backend: GlueBackend, name: str) -> None:
        with pytest.raises(InvalidInputError, match="at most 64 characters"):
            backend.insert_namespace((name,), {}, kind="catalog")

    @pytest.mark.parametrize("kinds", [("catalog", "database"), ("database", "catalog")])
    def test_one_name_is_one_namespace(self, backend: GlueBackend, kinds: tuple[str, str]) -> None:
        backend.insert_namespace(("sales",), {}, kind=kinds[0])
        with pytest.raises(NamespaceAlreadyExistsError, match=f"already exists, as a {kinds[0]}"):
            backend.insert_namespace(("sales",), {}, kind=kinds[1])
        with pytest.raises(NamespaceAlreadyExistsError):
            backend.insert_namespace(("sales",), {}, kind=kinds[0])

    def test_children_of_both_kinds_are_listed_in_pages(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.add_catalog("sales")
        for number in range(3):
            glue.add_catalog(f"sales/c{number}")
        for number in range(120):
            glue.add_tables(f"d{number:03}", [], catalog_id("sales"))
        first = CatalogNamespace(backend).list_namespaces(ListNamespacesRequest(id=["sales"], limit=5))
        assert first.namespaces == ["c0", "c1", "c2", "d000", "d001"]
        rest = CatalogNamespace(backend).list_namespaces(
            ListNamespacesRequest(id=["sales"], page_token=first.page_token)
        )
        assert len(rest.namespaces) == 118
        assert CatalogNamespace(backend).list_namespaces(ListNamespacesRequest(id=[])).namespaces == ["sales"]


class TestUpdates:
    def test_a_database_keeps_what_lancens_does_not_manage(self, glue: GlueServer, backend: GlueBackend) -> None:
        permissions = [{"Principal": {"DataLakePrincipalIdentifier": "IAM_ALLOWED_PRINCIPALS"}, "Permissions": ["ALL"]}]
        kept: dict[str, Any] = {
            "Description": "of another team",
            "LocationUri": "s3://lake/web",
            "CreateTableDefaultPermissions": permissions,
        }
        databases(glue, ["web"], Parameters={"theirs": "1", "old": "2"}, **kept)
        altered = backend.alter_namespace(("web",), PropertyChanges({"new": "3"}, frozenset({"old"})))
        found = glue.client.get_database(Name="web")["Database"]
        assert found["Parameters"] == {"theirs": "1", "new": "3"}
        assert altered.properties == {"theirs": "1", "new": "3", "location": "s3://lake/web"}
        assert {key: found.get(key) for key in kept} == kept

    def test_a_catalog_keeps_what_lancens_does_not_manage(self, glue: GlueServer, backend: GlueBackend) -> None:
        kept: dict[str, Any] = {
            "Description": "of another team",
            "CatalogProperties": {
                "CustomProperties": {"cost-center": "7"},
                "IcebergOptimizationProperties": {"RoleArn": "arn:aws:iam::123456789012:role/optimizer"},
            },
            "AllowFullTableExternalDataAccess": "True",
        }
        glue.add_catalog("sales", {"Parameters": {"theirs": "1"}, **kept})
        backend.alter_namespace(("sales",), PropertyChanges({"new": "3"}))
        found: Any = glue.client.get_catalog(CatalogId=catalog_id("sales"))["Catalog"]
        assert found["Parameters"] == {"theirs": "1", "new": "3"}
        assert {key: found.get(key) for key in kept} == kept

    def test_links_and_federated_catalogs_are_left_alone(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["linked"], TargetDatabase={"CatalogId": "210987654321", "DatabaseName": "theirs"})
        glue.add_catalog("s3tables", {"FederatedCatalog": {"ConnectionName": "aws:s3tables"}})
        for name in ("linked", "s3tables"):
            with pytest.raises(InvalidInputError, match=f"`{name}` is not managed here"):
                backend.alter_namespace((name,), PropertyChanges({"a": "b"}))
            with pytest.raises(InvalidInputError):
                backend.remove_namespace((name,))
        assert backend.child_namespaces(()) == []


class TestDrops:
    """Glue deletes a database or catalog with all it holds, so that the emptiness is the backend's to check."""

    def test_a_database_with_a_function_stays(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["web"])
        glue.add_function("web", "mask")
        assert backend.foreign_objects(("web",)) == ["mask"]
        with pytest.raises(NamespaceNotEmptyError, match="`web` is not empty: it holds `mask`"):
            backend.remove_namespace(("web",))

    def test_an_empty_page_does_not_make_a_database_empty(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["web"])
        tables(glue, "web", [lance_table("ours")])
        glue.answer("glue:GetTables", '{"TableList": [], "NextToken": "MA=="}')
        with pytest.raises(NamespaceNotEmptyError):
            backend.remove_namespace(("web",))

    def test_a_cascade_leaves_links_and_federated_catalogs(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.add_catalog("sales")
        glue.add_catalog("sales/federated", {"FederatedCatalog": {"ConnectionName": "aws:s3tables"}})
        databases(glue, ["crm"], catalog_id("sales"))
        with pytest.raises(errors.NamespaceNotEmptyError, match=": federated"):
            CatalogNamespace(backend).drop_namespace(DropNamespaceRequest(id=["sales"], behavior="cascade"))
        assert backend.load_namespace(("sales", "crm")).kind == "database"

    def test_a_cascade_empties_catalogs_in_catalogs(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.add_catalog("sales")
        glue.add_catalog("sales/eu")
        databases(glue, ["crm"], catalog_id("sales", "eu"))
        tables(glue, "crm", [lance_table("leads")], catalog_id("sales", "eu"))
        CatalogNamespace(backend).drop_namespace(DropNamespaceRequest(id=["sales"], behavior="cascade"))
        assert backend.scan().namespaces == {}


class TestRepeatedRequests:
    """botocore repeats a request whose answer was lost; the work may be done already."""

    def test_a_namespace_that_the_first_try_created(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.lose("glue:CreateDatabase")
        assert backend.insert_namespace(("web",), {"a": "b"}).properties == {"a": "b"}
        glue.lose("glue:CreateCatalog")
        assert backend.insert_namespace(("sales",), {"a": "b"}, kind="catalog").kind == "catalog"
        assert glue.counts()["CreateDatabase"] == glue.counts()["CreateCatalog"] == 2

    def test_a_namespace_that_the_first_try_removed(self, glue: GlueServer, backend: GlueBackend) -> None:
        backend.insert_namespace(("web",), {})
        glue.lose("glue:DeleteDatabase")
        backend.remove_namespace(("web",))
        assert glue.counts()["DeleteDatabase"] == 1

    def test_a_database_filled_before_the_next_try_stays(
        self, glue: GlueServer, backend: GlueBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        databases(glue, ["web"])
        glue.fail("glue:DeleteDatabase", "ThrottlingException")
        before_the_first(monkeypatch, "delete_database", lambda: tables(glue, "web", [lance_table("new")]))
        with pytest.raises(NamespaceNotEmptyError, match="it holds `new`"):
            backend.remove_namespace(("web",))
        assert backend.child_tables(("web",)) == ["new"]

    def test_what_another_changed_before_the_next_try_stays(
        self, glue: GlueServer, backend: GlueBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        databases(glue, ["web"], Parameters={"a": "1"})
        theirs: Any = {"Name": "web", "Parameters": {"a": "1", "theirs": "2"}}
        glue.fail("glue:UpdateDatabase", "ServiceUnavailable", status=503, skip=1)
        update = partial(glue.client.update_database, Name="web", DatabaseInput=theirs)
        before_the_first(monkeypatch, "update_database", update)
        altered = backend.alter_namespace(("web",), PropertyChanges({"ours": "3"}))
        assert altered == backend.load_namespace(("web",))
        assert altered.properties == {"a": "1", "theirs": "2", "ours": "3"}

    def test_what_another_made_is_not_taken_for_ours(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["web"], Parameters={"theirs": "1"})
        glue.fail("glue:CreateDatabase", "ServiceUnavailable", status=503)
        with pytest.raises(NamespaceAlreadyExistsError, match="database `web` already exists"):
            backend.insert_namespace(("web",), {"ours": "2"})
        assert backend.load_namespace(("web",)).properties == {"theirs": "1"}
