"""The bulk read: complete, in as few calls as there are pages, and never a part."""

from __future__ import annotations

import base64
import json

import pytest

from reconciler.backends.glue import GlueBackend
from reconciler.model.errors import InternalError, NamespaceNotFoundError, PermissionDeniedError
from reconciler.model.live import Snapshot
from reconciler.model.names import Only, Scope
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.glue.seeding import catalog_id, databases, lance_table, tables
from tests.servers.glue import GlueServer

_REASONS = (
    *("cannot contain `$`", "a link", "not of type EXTERNAL_TABLE", "has no location", "federated", "Redshift"),
    *("the database is read", "capitals"),
)


def left_out(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return what each note is about, and the reason for which it is left out."""
    said = [note.partition(" is left out: ") for note in snapshot.notes]
    return [(name, next(reason for reason in _REASONS if reason in why)) for name, _, why in said]


class TestCalls:
    def test_every_page_of_every_list_is_read(self, glue: GlueServer, backend: GlueBackend) -> None:
        for number in range(1, 101):
            glue.add_tables(f"d{number:03}", [])
        glue.add_tables("d000", [lance_table(f"t{number:03}") for number in range(201)])
        glue.reset()
        snapshot = backend.scan()
        assert len(snapshot.namespaces) == 101
        assert len(snapshot.tables) == 201
        assert glue.counts() == {"GetCatalogs": 1, "GetDatabases": 2, "GetTables": 103}
        assert {call.body["MaxResults"] for call in glue.calls() if call.action != "glue:GetCatalogs"} == {100}

    def test_a_scope_is_read_and_nothing_else(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.add_catalog("sales")
        for catalog in (catalog_id(), catalog_id("sales")):
            databases(glue, ["analytics", "web"], catalog)
            tables(glue, "analytics", [lance_table("clicks"), lance_table("other")], catalog)
        glue.reset()
        snapshot = backend.scan(Scope(("analytics/clicks*", "sales/analytics/**")))
        assert set(snapshot.namespaces) == {("analytics",), ("sales",), ("sales", "analytics")}
        assert set(snapshot.tables) == {
            ("analytics", "clicks"),
            ("sales", "analytics", "clicks"),
            ("sales", "analytics", "other"),
        }
        assert glue.counts() == {"GetCatalogs": 1, "GetDatabases": 2, "GetTables": 2}

    @pytest.mark.parametrize(
        ("names", "pages"),
        [(["t001", "t150", "gone"], 1), ([f"t{number:03}" for number in range(500)], 3), (["a-b"], 3)],
    )
    def test_few_named_tables_are_read_by_a_filter(
        self, glue: GlueServer, backend: GlueBackend, names: list[str], pages: int
    ) -> None:
        glue.add_tables("web", [lance_table(f"t{number:03}") for number in range(201)])
        glue.reset()
        snapshot = backend.scan(Only(("web", name) for name in names))
        assert {name for _, name in snapshot.tables} == {name for name in names if "t" in name and name < "t201"}
        assert glue.counts() == {"GetCatalogs": 1, "GetDatabases": 1, "GetTables": pages}
        glue.reset()
        assert backend.foreign_tables(("web",), names) == []
        assert glue.counts() == {"GetTables": pages}

    def test_an_empty_page_with_a_token_is_not_the_end(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["analytics"])
        tables(glue, "analytics", [lance_table("clicks")])
        start = base64.b64encode(b"0").decode()
        glue.answer("glue:GetTables", json.dumps({"TableList": [], "NextToken": start}))
        assert set(backend.scan().tables) == {("analytics", "clicks")}

    def test_from_another_catalog(self, glue: GlueServer, connect: Connect) -> None:
        glue.add_catalog("sales")
        glue.add_catalog("sales/eu")
        glue.add_catalog("hr")
        databases(glue, ["crm"], catalog_id("sales", "eu"))
        databases(glue, ["outside"])
        tables(glue, "crm", [lance_table("leads")], catalog_id("sales", "eu"))
        below_sales = connect(catalog_id=catalog_id("sales"))
        assert set(below_sales.scan().namespaces) == {("eu",), ("eu", "crm")}
        assert set(below_sales.scan().tables) == {("eu", "crm", "leads")}
        assert set(connect(catalog_id=catalog_id()).scan().namespaces) == set(connect().scan().namespaces)

    def test_a_catalog_to_start_from_has_to_exist(self, connect: Connect) -> None:
        with pytest.raises(NamespaceNotFoundError, match="123456789012:nope does not exist"):
            connect(catalog_id=catalog_id("nope")).scan()


class TestCompleteness:
    def test_a_page_that_is_denied_is_an_error_that_names_it(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.add_tables("analytics", [lance_table(f"t{number}") for number in range(150)])
        message = (
            "User: arn:aws:sts::123456789012:assumed-role/reader/lancens is not authorized to perform: glue:GetTables "
            "on resource: arn:aws:glue:us-east-1:123456789012:table/analytics/* because no policy allows it"
        )
        glue.fail("glue:GetTables", "AccessDeniedException", message, skip=1)
        with pytest.raises(PermissionDeniedError) as raised:
            backend.scan()
        said = str(raised.value)
        assert said.startswith("glue: GetTables, page 2, on ")
        assert "lack glue:GetTables on table/analytics/*" in said

    def test_a_catalog_that_is_denied_is_not_an_empty_one(self, glue: GlueServer, backend: GlueBackend) -> None:
        backend.parallelism = 1
        glue.add_catalog("sales")
        glue.fail("glue:GetDatabases", "AccessDeniedException", "Insufficient Lake Formation permission(s)", skip=1)
        with pytest.raises(PermissionDeniedError, match="`sales`: access denied: Lake Formation"):
            backend.scan()

    def test_an_entry_without_a_name_is_an_answer_that_cannot_be_read(
        self, glue: GlueServer, backend: GlueBackend
    ) -> None:
        glue.answer("glue:GetDatabases", '{"DatabaseList": [{"Description": "no name"}]}')
        with pytest.raises(InternalError, match="the root catalog: the answer cannot"):
            backend.scan()

    def test_a_database_that_goes_while_it_is_read_is_not_there(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["analytics"])
        glue.fail("glue:GetTables", "EntityNotFoundException", "Database analytics not found.")
        glue.fail("glue:GetDatabase", "EntityNotFoundException", "Database analytics not found.")
        assert backend.scan().namespaces == {}

    def test_a_database_that_is_still_there_is_read_again(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["analytics"])
        tables(glue, "analytics", [lance_table("clicks")])
        glue.fail("glue:GetTables", "EntityNotFoundException", "Database analytics not found.")
        assert set(backend.scan().tables) == {("analytics", "clicks")}

    def test_a_catalog_that_goes_while_it_is_read_takes_what_is_below_along(
        self, glue: GlueServer, backend: GlueBackend
    ) -> None:
        backend.parallelism = 1
        glue.add_catalog("sales")
        glue.add_catalog("sales/eu")
        databases(glue, ["crm"], catalog_id("sales", "eu"))
        glue.fail("glue:GetDatabases", "EntityNotFoundException", "Catalog not found.", skip=1)
        glue.fail("glue:GetCatalog", "EntityNotFoundException", "Catalog not found.")
        assert backend.scan().namespaces == {}


class TestWhatIsLeftOut:
    def test_entries_that_only_claim_to_be_lance_tables_are_noted(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["analytics"])
        managed = lance_table("managed", TableType="MANAGED_TABLE")
        link = lance_table("link", TargetTable={"DatabaseName": "there", "Name": "t"})
        tables(glue, "analytics", [managed, link, lance_table("a$b")])
        snapshot = backend.scan()
        assert snapshot.tables == {}
        assert left_out(snapshot) == [
            ("`analytics$a$b`", "cannot contain `$`"),
            ("`analytics$link`", "a link"),
            ("`analytics$managed`", "not of type EXTERNAL_TABLE"),
        ]

    def test_links_and_federated_catalogs_are_noted(self, glue: GlueServer, backend: GlueBackend) -> None:
        databases(glue, ["linked"], TargetDatabase={"CatalogId": "210987654321", "DatabaseName": "theirs"})
        glue.add_catalog("s3tables", {"FederatedCatalog": {"ConnectionName": "aws:s3tables"}})
        glue.add_catalog("s3tables/bucket")
        redshift = {"DataLakeAccessProperties": {"DataLakeAccess": True, "CatalogType": "aws:redshift"}}
        glue.add_catalog("warehouse", {"CatalogProperties": redshift})
        glue.reset()
        snapshot = backend.scan()
        assert snapshot.namespaces == {}
        assert left_out(snapshot) == [("`linked`", "a link"), ("`s3tables`", "federated"), ("`warehouse`", "Redshift")]
        assert glue.counts() == {"GetCatalogs": 1, "GetDatabases": 1}

    def test_a_database_hides_a_catalog_of_its_name(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.add_catalog("sales")
        glue.add_catalog("sales/eu")
        databases(glue, ["inside"], catalog_id("sales"))
        databases(glue, ["inside"], catalog_id("sales", "eu"))
        databases(glue, ["sales"])
        snapshot = backend.scan()
        assert [(space.id, space.kind) for space in snapshot.namespaces.values()] == [(("sales",), "database")]
        assert left_out(snapshot) == [("`sales`", "the database is read")]
        assert backend.load_namespace(("sales",)).kind == "database"
        assert backend.child_namespaces(("sales",)) == []

    def test_names_with_capitals_of_a_service_that_keeps_them(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.answer("glue:GetDatabases", json.dumps({"DatabaseList": [{"Name": "Analytics"}]}))
        snapshot = backend.scan()
        assert snapshot.namespaces == {}
        assert left_out(snapshot) == [("`Analytics`", "capitals")]
