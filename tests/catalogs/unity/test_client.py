"""A second opinion on the wire format: what the backend writes, read by Unity's own generated client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler import storage
from reconciler.arrow_types import make_column
from reconciler.model.live import PropertyChanges
from tests.catalogs.unity.conftest import CATALOG, TOKEN, Unity
from tests.servers.require import missing
from tests.unit.test_arrow_types import STORED

_PYTHON = Path(sys.prefix) / "peers" / "bin" / "python"


def ask(unity: Unity, api: str, method: str, *arguments: object) -> dict[str, Any]:
    """Return what the client answers to a call; it validates every answer against its own models."""
    if not _PYTHON.exists():
        missing("Unity's own client is not installed: make install")
    command = [str(_PYTHON), str(Path(__file__).with_name("their_client.py"))]
    ran = subprocess.run(
        [*command, f"{unity.server.url}/api/2.1/unity-catalog", TOKEN],
        input=json.dumps([api, method, *arguments]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


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
    found = ask(unity, "TablesApi", "get_table", f"{CATALOG}.sales.everything")
    assert (found["name"], found["catalog_name"], found["schema_name"]) == ("everything", CATALOG, "sales")
    assert (found["table_type"], found["data_source_format"]) == ("EXTERNAL", "TEXT")
    assert found["storage_location"] == full_table
    assert found["properties"] == {"tier": "gold", "table_type": "lance"}
    assert [column["name"] for column in found["columns"]] == [f"c{number}" for number in range(len(STORED))]
    for position, column in enumerate(found["columns"]):
        assert column["position"] == position
        assert column["type_text"]
        assert column["type_name"]
        assert json.loads(column["type_json"])["name"] == column["name"]


def test_tables_are_listed(unity: Unity, full_table: str) -> None:
    answer = ask(unity, "TablesApi", "list_tables", CATALOG, "sales")
    assert [(table["name"], table["storage_location"]) for table in answer["tables"]] == [("everything", full_table)]


def test_schemas_are_read_and_the_backend_reads_what_the_client_writes(unity: Unity, full_table: str) -> None:
    unity.connect().alter_namespace((CATALOG, "sales"), PropertyChanges({"tier": "1"}, frozenset({"owner"})))
    found = ask(unity, "SchemasApi", "get_schema", f"{CATALOG}.sales")
    assert (found["name"], found["full_name"]) == ("sales", f"{CATALOG}.sales")
    assert found["properties"] == {"lancens.managed-by": "shop/unity", "tier": "1"}

    ask(unity, "SchemasApi", "create_schema", {"CreateSchema": {"name": "theirs", "catalog_name": CATALOG}})
    column = {
        "name": "id",
        "type_text": "int",
        "type_json": '{"name":"id","type":"integer","nullable":false,"metadata":{}}',
        "type_name": "INT",
        "position": 0,
        "nullable": False,
    }
    table = {
        "name": "t",
        "catalog_name": CATALOG,
        "schema_name": "theirs",
        "table_type": "EXTERNAL",
        "data_source_format": "TEXT",
        "columns": [column],
        "storage_location": full_table,
        "properties": {"table_type": "LANCE"},
    }
    ask(unity, "TablesApi", "create_table", {"CreateTable": table})
    backend = unity.connect()
    assert backend.load_table((CATALOG, "theirs", "t")).location == full_table
    assert set(backend.scan().tables) == {(CATALOG, "sales", "everything"), (CATALOG, "theirs", "t")}
