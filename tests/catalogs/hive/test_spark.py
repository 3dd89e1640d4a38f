"""A client no one here wrote agrees: Spark SQL with Hive support, on the metastores its own client can speak to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lance_namespace import DropNamespaceRequest

from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model import locations
from reconciler.model.columns import ShownColumn
from reconciler.model.names import Identifier
from reconciler.namespace import CatalogNamespace
from tests.catalogs.hive.files import digests
from tests.servers.hive import Metastore
from tests.servers.spark_sql import spark_sql
from tests.writing import write_dataset


@pytest.fixture
def shared(server: Metastore, backend: Hive2Backend) -> Iterator[Identifier]:
    """A database that Spark can see: on 3.x one of the catalog `hive`, the only one its client knows."""
    if server.version == "4.1" or not server.auto_created:
        pytest.skip("Spark's client is for 2.3 and 3.x; one schema is enough")
    above: Identifier = () if server.impl == "hive2" else ("hive",)
    backend.insert_namespace(
        (*above, "spark_db"),
        {
            "database.description": "made by lancens",
            "database.owner": "ml",
            "database.owner-type": "USER",
            "tier": "gold",
        },
    )
    yield (*above, "spark_db")
    CatalogNamespace(backend).drop_namespace(DropNamespaceRequest(id=[*above, "spark_db"], behavior="cascade"))


def test_spark_sql_and_lancens_see_the_same(
    server: Metastore, backend: Hive2Backend, shared: Identifier, lake: str, tmp_path: Path
) -> None:
    place, theirs = Path(lake, "events.lance"), Path(lake, "theirs.lance")
    write_dataset(place)
    write_dataset(theirs)
    before = digests(Path(lake))
    backend.insert_table((*shared, "events"), str(place), {"tier": "silver"})
    backend.show_columns((*shared, "events"), (ShownColumn("id", "bigint", "which event"),))
    backend.insert_table((*shared, "declared"), f"{lake}/declared.lance", {})
    by_hand = (
        f"HIVE CREATE EXTERNAL TABLE spark_db.theirs (id BIGINT) STORED AS TEXTFILE LOCATION '{theirs}' "
        "TBLPROPERTIES('table_type'='lance', 'note'='by hand')"
    )
    databases, database, tables, table, _, _, after = spark_sql(
        server.uri,
        [
            "SHOW DATABASES",
            "DESCRIBE DATABASE EXTENDED spark_db",
            "SHOW TABLES IN spark_db",
            "DESCRIBE TABLE EXTENDED spark_db.events",
            by_hand,
            "DROP TABLE spark_db.declared",
            "SHOW TABLES IN spark_db",
        ],
        tmp_path,
    )
    assert ["spark_db"] in databases
    described = {row[0]: row[1] for row in database}
    assert (described["Comment"], described["Owner"]) == ("made by lancens", "ml")
    assert "(tier,gold)" in described["Properties"]
    assert sorted(row[1] for row in tables) == ["declared", "events"]
    assert ["id", "bigint", "which event"] in table
    details = {row[0]: row[1] for row in table}
    assert details["Type"] == "EXTERNAL"
    assert locations.same(details["Location"], str(place))
    assert "table_type=lance" in details["Table Properties"]
    assert "tier=silver" in details["Table Properties"]
    assert sorted(row[1] for row in after) == ["events", "theirs"]

    assert sorted(backend.child_tables(shared)) == ["events", "theirs"]
    live = backend.scan().tables[*shared, "theirs"]
    assert locations.same(live.location, str(theirs))
    assert live.properties["note"] == "by hand"
    assert digests(Path(lake)) == before
