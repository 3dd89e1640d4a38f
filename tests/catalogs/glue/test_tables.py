"""Tables: what an update keeps, a change by somebody else, and that data stays."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    errors,
)

from reconciler.backends.glue import GlueBackend
from reconciler.backends.glue.service import Service
from reconciler.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace
from tests.catalogs.glue.seeding import before_the_first, catalog_id, databases, lance_table, tables
from tests.catalogs.placing import assert_tables_follow
from tests.servers.glue import GlueServer
from tests.writing import load_manifest

if TYPE_CHECKING:
    from mypy_boto3_glue.type_defs import TableTypeDef


@pytest.fixture
def web(glue: GlueServer) -> str:
    databases(glue, ["web"])
    return "web"


class TestEntries:
    def test_a_new_entry_is_what_the_specification_says(self, glue: GlueServer, backend: GlueBackend, web: str) -> None:
        CatalogNamespace(backend).declare_table(
            DeclareTableRequest(id=[web, "Clicks"], location="s3://lake/clicks.lance", properties={"tier": "gold"})
        )
        found = glue.client.get_table(DatabaseName=web, Name="clicks")["Table"]
        assert found["TableType"] == "EXTERNAL_TABLE"
        assert found["Parameters"] == {"table_type": "lance", "tier": "gold"}
        assert found["StorageDescriptor"]["Location"] == "s3://lake/clicks.lance"

    def test_every_entry_that_is_no_lance_table_is_foreign(self, glue: GlueServer, backend: GlueBackend) -> None:
        place = {"Location": "s3://lake/x"}
        others: list[dict[str, Any]] = [
            lance_table("iceberg", Parameters={"table_type": "ICEBERG"}, StorageDescriptor=place),
            lance_table("delta", Parameters={"spark.sql.sources.provider": "delta"}, StorageDescriptor=place),
            lance_table("crawled", Parameters={"classification": "parquet"}, StorageDescriptor=place),
            lance_table("managed", TableType="MANAGED_TABLE", StorageDescriptor=place),
            {"Name": "view", "TableType": "VIRTUAL_VIEW"},
            {"Name": "link", "TargetTable": {"CatalogId": "123456789012", "DatabaseName": "web", "Name": "x"}},
        ]
        glue.add_catalog("sales")
        for catalog in (catalog_id(), catalog_id("sales")):
            glue.add_tables("web", [lance_table(f"t{number}") for number in range(120)], catalog)
            tables(glue, "web", others, catalog)
        for namespace in (("web",), ("sales", "web")):
            found = backend.foreign_tables(namespace)
            assert {foreign.id: (foreign.location, foreign.format) for foreign in found} == {
                (*namespace, "iceberg"): ("s3://lake/x", "ICEBERG"),
                (*namespace, "delta"): ("s3://lake/x", "delta"),
                (*namespace, "crawled"): ("s3://lake/x", "parquet"),
                (*namespace, "managed"): ("s3://lake/x", "lance, MANAGED_TABLE"),
                (*namespace, "view"): (None, "VIRTUAL_VIEW"),
                (*namespace, "link"): (None, "link"),
            }
        assert backend.foreign_tables(("sales",)) == backend.foreign_tables(()) == []
        with pytest.raises(NamespaceNotFoundError):
            backend.foreign_tables(("never_made",))

    def test_what_opens_the_table_comes_from_its_parameters(
        self, glue: GlueServer, backend: GlueBackend, web: str
    ) -> None:
        parameters = {"table_type": "lance", "storage.aws_region": "eu-west-1"}
        tables(glue, web, [lance_table("clicks", Parameters=parameters)])
        namespace = CatalogNamespace(backend)
        # They are no credentials that are handed out, so whoever asks for none gets them as well.
        for gives in (None, True, False):
            asked = DescribeTableRequest(id=[web, "clicks"], vend_credentials=gives)
            assert namespace.describe_table(asked).storage_options == {"aws_region": "eu-west-1"}

    def test_writing_to_the_catalog_sends_no_secret_elsewhere(
        self, glue: GlueServer, backend: GlueBackend, web: str
    ) -> None:
        """The configured keys went wherever the parameters of a table said."""
        strange = {
            "storage.aws_endpoint": "http://evil.example.com",
            "storage.azure_storage_account_name": "evil",
            "storage.proxy_url": "http://evil.example.com:3128",
            "storage.allow_http": "true",
            "storage.aws_allow_invalid_certificates": "true",
            "storage.azure_authority_host": "evil.example.com",
            "storage.aws_web_identity_token_file": "/proc/self/environ",
            "storage.timeout": "9s",
        }
        parameters = {"table_type": "lance", "storage.region": "eu-west-1", **strange}
        tables(glue, web, [lance_table("clicks", Parameters=parameters)])
        assert backend.table_storage_options(backend.load_table((web, "clicks"))) == {"aws_region": "eu-west-1"}

    def test_a_table_needs_its_database(self, glue: GlueServer, backend: GlueBackend) -> None:
        glue.add_catalog("sales")
        for identifier in (("nope", "t"), ("sales", "t"), ("sales", "nope", "t")):
            with pytest.raises(NamespaceNotFoundError, match=f"namespace `{'.'.join(identifier[:-1])}` does not exist"):
                backend.insert_table(identifier, "s3://lake/t.lance", {})
        assert backend.child_tables(("sales",)) == []

    def test_the_same_name_in_two_catalogs_is_two_tables(
        self, glue: GlueServer, backend: GlueBackend, web: str
    ) -> None:
        glue.add_catalog("sales")
        databases(glue, [web], catalog_id("sales"))
        backend.insert_table((web, "t"), "s3://lake/one", {})
        backend.insert_table(("sales", web, "t"), "s3://lake/two", {})
        backend.remove_table((web, "t"))
        assert backend.load_table(("sales", web, "t")).location == "s3://lake/two"
        with pytest.raises(TableNotFoundError):
            backend.load_table((web, "t"))


class TestUpdates:
    KEPT: dict[str, Any] = {  # noqa: RUF012 -- read only
        "Description": "of another team",
        "Owner": "jane",
        "Retention": 7,
        "PartitionKeys": [{"Name": "day", "Type": "date"}],
        "LastAccessTime": datetime(2026, 5, 4, 3, 2, 1, 500_000, UTC),
    }

    def test_what_an_entry_holds_besides_stays(self, glue: GlueServer, backend: GlueBackend, web: str) -> None:
        tables(glue, web, [lance_table("t", **self.KEPT)])
        backend.alter_table((web, "t"), PropertyChanges({"ours": "1"}))
        entry: Any = glue.client.get_table(DatabaseName=web, Name="t")["Table"]
        assert {key: entry[key] for key in self.KEPT} == self.KEPT
        assert entry["Parameters"]["ours"] == "1"

    def test_a_change_by_somebody_else_is_noticed(
        self, glue: GlueServer, backend: GlueBackend, web: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables(glue, web, [lance_table("t")])
        read = Service.table

        def read_and_then_changed(service: Service, identifier: Identifier) -> TableTypeDef:
            table = read(service, identifier)
            theirs: Any = lance_table("t", Parameters={"table_type": "LANCE", "theirs": "1"})
            glue.client.update_table(DatabaseName=web, TableInput=theirs)
            return table

        monkeypatch.setattr(Service, "table", read_and_then_changed)
        with pytest.raises(ConcurrentModificationError, match=r"UpdateTable on `web\$t`: ConcurrentModification"):
            backend.alter_table((web, "t"), PropertyChanges({"ours": "2"}))
        monkeypatch.undo()
        assert backend.load_table((web, "t")).properties == {"theirs": "1"}


class TestRepeatedRequests:
    """botocore repeats a request whose answer was lost; the work may be done already."""

    def test_each_write_whose_answer_is_lost_is_done_once(
        self, glue: GlueServer, backend: GlueBackend, web: str
    ) -> None:
        glue.lose("glue:CreateTable")
        backend.insert_table((web, "t"), "s3://lake/t.lance", {"a": "1"})
        glue.lose("glue:UpdateTable")
        altered = backend.alter_table((web, "t"), PropertyChanges({"b": "2"}))
        assert backend.load_table((web, "t")) == altered
        glue.lose("glue:DeleteTable")
        backend.remove_table((web, "t"))
        assert glue.counts()["CreateTable"] == glue.counts()["UpdateTable"] == 2
        assert glue.counts()["DeleteTable"] == 1
        assert backend.child_tables((web,)) == []

    def test_a_table_that_another_made_before_the_next_try_stays(
        self, glue: GlueServer, backend: GlueBackend, web: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables(glue, web, [lance_table("t")])
        glue.fail("glue:DeleteTable", "ThrottlingException", skip=1)

        def replace() -> None:
            glue.client.delete_table(DatabaseName=web, Name="t")
            tables(glue, web, [lance_table("t", Parameters={"table_type": "ICEBERG"})])

        before_the_first(monkeypatch, "delete_table", replace)
        backend.remove_table((web, "t"))
        assert [found.id for found in backend.foreign_tables((web,))] == [(web, "t")]

    def test_what_another_made_is_not_taken_for_ours(self, glue: GlueServer, backend: GlueBackend, web: str) -> None:
        tables(glue, web, [lance_table("t", "s3://lake/theirs.lance")])
        glue.fail("glue:CreateTable", "ServiceUnavailable", status=503)
        with pytest.raises(TableAlreadyExistsError, match=r"table `web\$t` already exists"):
            backend.insert_table((web, "t"), "s3://lake/ours.lance", {})
        assert backend.load_table((web, "t")).location == "s3://lake/theirs.lance"


class TestData:
    def test_pylance_writes_and_reads_below_the_location_of_a_database(
        self, glue: GlueServer, backend: GlueBackend, tmp_path: Path
    ) -> None:
        databases(glue, ["lake"], LocationUri=str(tmp_path))
        rows = pa.table({"id": [1, 2, 3]})
        lance.write_dataset(rows, namespace_client=CatalogNamespace(backend), table_id=["lake", "t"], mode="create")
        lance.write_dataset(rows, namespace_client=CatalogNamespace(backend), table_id=["lake", "t"], mode="append")
        assert lance.dataset(namespace_client=CatalogNamespace(backend), table_id=["lake", "t"]).count_rows() == 6
        assert backend.load_table(("lake", "t")).location == f"{tmp_path}/t.lance"
        assert (tmp_path / "t.lance").is_dir()

    def test_a_table_without_any_location_is_refused(self, backend: GlueBackend, web: str) -> None:
        with pytest.raises(errors.InvalidInputError, match=r"table `web\$t` needs a location"):
            CatalogNamespace(backend).declare_table(DeclareTableRequest(id=[web, "t"]))
        with pytest.raises(errors.NamespaceNotFoundError, match="namespace `nope` does not exist"):
            CatalogNamespace(backend).declare_table(DeclareTableRequest(id=["nope", "t"]))
        assert backend.default_location((web, "t")) is None

    def test_a_client_says_where_a_database_is_and_makes_tables_below_it(
        self, glue: GlueServer, backend: GlueBackend, tmp_path: Path
    ) -> None:
        catalog = CatalogNamespace(backend)
        catalog.create_namespace(CreateNamespaceRequest(id=["made"], properties={"location": str(tmp_path), "a": "b"}))
        database = glue.client.get_database(Name="made")["Database"]
        assert (database["LocationUri"], database["Parameters"]) == (str(tmp_path), {"a": "b"})
        assert catalog.describe_namespace(DescribeNamespaceRequest(id=["made"])).properties == {
            "location": str(tmp_path),
            "a": "b",
        }
        lance.write_dataset(pa.table({"id": [1]}), namespace_client=catalog, table_id=["made", "t"], mode="create")
        assert backend.load_table(("made", "t")).location == f"{tmp_path}/t.lance"
        backend.alter_namespace(("made",), PropertyChanges({"location": f"{tmp_path}/two"}, frozenset({"a"})))
        database = glue.client.get_database(Name="made")["Database"]
        assert (database["LocationUri"], database.get("Parameters", {})) == (f"{tmp_path}/two", {})
        assert backend.default_location(("made", "t")) == f"{tmp_path}/two/t.lance"
        backend.alter_namespace(("made",), PropertyChanges({}, frozenset({"location"})))
        assert "LocationUri" not in glue.client.get_database(Name="made")["Database"]

    def test_a_parameter_called_location_is_not_the_location_of_a_database(
        self, glue: GlueServer, backend: GlueBackend
    ) -> None:
        databases(glue, ["odd"], Parameters={"location": "Zurich"})
        assert backend.load_namespace(("odd",)).properties == {}
        backend.alter_namespace(("odd",), PropertyChanges({"a": "b"}))
        database = glue.client.get_database(Name="odd")["Database"]
        assert (database["Parameters"], "LocationUri" in database) == ({"location": "Zurich", "a": "b"}, False)

    @pytest.mark.parametrize("location", ["", "s3://user:word@bucket/a", "s3://bucket/a?token=x"])
    def test_a_location_that_no_table_can_be_below_is_refused(self, backend: GlueBackend, location: str) -> None:
        with pytest.raises(InvalidInputError, match="`odd`: `location`: a location cannot"):
            backend.insert_namespace(("odd",), {"location": location})

    def test_a_database_is_read_once_for_the_places_of_its_tables(self, glue: GlueServer, tmp_path: Path) -> None:
        databases(glue, ["placed"], LocationUri="s3://placed/there/")
        with closing(GlueBackend(**glue.config(), root=str(tmp_path))) as backend:
            glue.reset()
            places = [backend.default_location(("placed", f"t{number}")) for number in range(3)]
            assert glue.counts()["GetDatabase"] == 1
            assert places == [f"s3://placed/there/t{number}.lance" for number in range(3)]

    def test_tables_go_below_root_where_their_database_has_no_location(
        self, glue: GlueServer, web: str, tmp_path: Path
    ) -> None:
        databases(glue, ["placed"], LocationUri="s3://placed/there/")
        with closing(GlueBackend(**glue.config(), root=str(tmp_path))) as backend:
            asked = CatalogNamespace(backend).declare_table(DeclareTableRequest(id=[web, "t"]))
            assert asked.location == f"{tmp_path}/{web}/t.lance"
            for _ in range(2):
                assert backend.default_location((web, "u")) == f"{tmp_path}/{web}/u.lance"
                assert backend.default_location(("new", "u")) == f"{tmp_path}/new/u.lance"
                assert backend.default_location(("placed", "u")) == "s3://placed/there/u.lance"
                backend.scan()
            assert backend.roots() == (str(tmp_path),)


@pytest.mark.parametrize("is_there", [True, False], ids=["moved", "new"])
def test_tables_go_where_the_manifest_puts_their_database(glue: GlueServer, tmp_path: Path, is_there: bool) -> None:
    if is_there:
        databases(glue, ["placed"], LocationUri=f"{tmp_path}/old")
    namespaces = {"placed": {"properties": {"location": f"{tmp_path}/new"}, "tables": {"t": {}, "u": {}}}}
    config = glue.config(root=f"{tmp_path}/root")
    manifest = load_manifest(tmp_path, {"prod": {"impl": "glue", "config": config, "namespaces": namespaces}})
    places = assert_tables_follow(manifest, tmp_path)
    assert places == {f"prod/placed/{name}": f"{tmp_path}/new/{name}.lance" for name in "tu"}
