"""A second opinion on the wire format: what the backend writes, read by Unity's own generated client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from unitycatalog.client.api.schemas_api import SchemasApi
from unitycatalog.client.api.tables_api import TablesApi
from unitycatalog.client.api_client import ApiClient
from unitycatalog.client.configuration import Configuration
from unitycatalog.client.models.column_info import ColumnInfo
from unitycatalog.client.models.create_schema import CreateSchema
from unitycatalog.client.models.create_table import CreateTable

from reconciler import storage
from reconciler.arrow_types import make_column
from reconciler.model.live import PropertyChanges
from tests.catalogs.unity.conftest import CATALOG, TOKEN, Unity
from tests.unit.test_arrow_types import STORED

ResultT = TypeVar("ResultT")


def ask(unity: Unity, call: Callable[[ApiClient], Awaitable[ResultT]]) -> ResultT:
    """Return what the client answers to ``call``; it validates every answer against its own models."""

    async def run() -> ResultT:
        configuration = Configuration(host=f"{unity.server.url}/api/2.1/unity-catalog", access_token=TOKEN)
        async with ApiClient(configuration, header_name="Authorization", header_value=f"Bearer {TOKEN}") as client:
            return await call(client)

    return asyncio.run(run())


@pytest.fixture
def full_table(unity: Unity, tmp_path: Path) -> str:
    """Register a dataset with a column of every type and return its location."""
    location = (tmp_path / "everything.lance").as_uri()
    schema = tuple(make_column(f"c{number}", text, metadata={"k": "é"}) for number, text in enumerate(STORED))
    storage.create_empty(location, schema, {})
    backend = unity.connect()
    backend.insert_namespace((CATALOG, "sales"), {"owner": "ads", "lancens.managed-by": "shop/unity"})
    backend.insert_table((CATALOG, "sales", "everything"), location, {"tier": "gold"})
    return location


def test_a_table_with_every_type_is_read(unity: Unity, full_table: str) -> None:
    found = ask(unity, lambda client: TablesApi(client).get_table(f"{CATALOG}.sales.everything"))
    assert (found.name, found.catalog_name, found.schema_name) == ("everything", CATALOG, "sales")
    assert (found.table_type, found.data_source_format) == ("EXTERNAL", "TEXT")
    assert found.storage_location == full_table
    assert found.properties == {"tier": "gold", "table_type": "lance"}
    assert found.columns is not None
    assert [column.name for column in found.columns] == [f"c{number}" for number in range(len(STORED))]
    for position, column in enumerate(found.columns):
        assert column.position == position
        assert column.type_text
        assert column.type_name is not None
        assert json.loads(column.type_json or "")["name"] == column.name


def test_tables_are_listed(unity: Unity, full_table: str) -> None:
    answer = ask(unity, lambda client: TablesApi(client).list_tables(CATALOG, "sales"))
    assert answer.tables is not None
    assert [(table.name, table.storage_location) for table in answer.tables] == [("everything", full_table)]


def test_schemas_are_read_and_the_backend_reads_what_the_client_writes(unity: Unity, full_table: str) -> None:
    unity.connect().alter_namespace((CATALOG, "sales"), PropertyChanges({"tier": "1"}, frozenset({"owner"})))
    found = ask(unity, lambda client: SchemasApi(client).get_schema(f"{CATALOG}.sales"))
    assert (found.name, found.full_name) == ("sales", f"{CATALOG}.sales")
    assert found.properties == {"lancens.managed-by": "shop/unity", "tier": "1"}

    ask(unity, lambda client: SchemasApi(client).create_schema(CreateSchema(name="theirs", catalog_name=CATALOG)))
    column = ColumnInfo.from_dict(
        {
            "name": "id",
            "type_text": "int",
            "type_json": '{"name":"id","type":"integer","nullable":false,"metadata":{}}',
            "type_name": "INT",
            "position": 0,
            "nullable": False,
        }
    )
    assert column is not None
    table = CreateTable.from_dict(
        {
            "name": "t",
            "catalog_name": CATALOG,
            "schema_name": "theirs",
            "table_type": "EXTERNAL",
            "data_source_format": "TEXT",
            "columns": [column.to_dict()],
            "storage_location": full_table,
            "properties": {"table_type": "LANCE"},
        }
    )
    assert table is not None
    ask(unity, lambda client: TablesApi(client).create_table(table))
    backend = unity.connect()
    assert backend.load_table((CATALOG, "theirs", "t")).location == full_table
    assert set(backend.scan().tables) == {(CATALOG, "sales", "everything"), (CATALOG, "theirs", "t")}
