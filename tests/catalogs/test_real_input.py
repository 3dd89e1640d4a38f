"""A folder of real Lance datasets that pylance alone has made, brought under management and changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
import yaml
from lance_namespace import (
    CreateNamespaceRequest,
    DescribeTableRequest,
    LanceNamespace,
    ListNamespacesRequest,
    ListTablesRequest,
)

from tests.cli.running import lancens

NAMESPACES = (("sales",), ("sales", "eu"), ("sales", "eu", "daily"))
TABLES = 200


def files_of(root: Path) -> dict[str, str]:
    """Every file of every dataset, by digest; the catalog's own table is the one thing that may change."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] != "__manifest" and not path.name.startswith(".lance-")
    }


def tables_of(client: LanceNamespace, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in client.list_tables(ListTablesRequest(id=list(parent))).tables:
        yield (*parent, name)
    for name in client.list_namespaces(ListNamespacesRequest(id=list(parent))).namespaces:
        yield from tables_of(client, (*parent, name))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """200 datasets in three nested namespaces, written through pylance's own directory namespace."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "lake"
    client = lance_namespace.connect("dir", {"root": str(root)})
    for namespace in NAMESPACES:
        client.create_namespace(CreateNamespaceRequest(id=list(namespace)))
    for number in range(TABLES):
        identifier = [*NAMESPACES[number % len(NAMESPACES)], f"t{number:03}"]
        data = pa.table({"id": [number], "name": [f"row {number}"]})
        lance.write_dataset(data, namespace_client=client, table_id=identifier)
    return root


def test_import_change_apply(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_of(lake)
    made = lancens(capsys, "import", "--impl", "dir", "--config", f"root={lake}", "-o", "lancens.yaml")
    assert made.code == 0, made
    planned = lancens(capsys, "plan", "--detailed-exitcode")
    assert planned.code == 0, planned.out
    assert planned.out.splitlines()[-1].startswith("No changes.")

    path = Path("lancens.yaml")
    document = yaml.safe_load(path.read_text())
    (catalog,) = document["catalogs"].values()
    sales = catalog["namespaces"]["sales"]
    daily = sales["namespaces"]["eu"]["namespaces"]["daily"]
    wanted = {(*NAMESPACES[number % 3], f"t{number:03}") for number in range(TABLES)}
    for name in sorted(sales["tables"])[:20]:
        sales["tables"][name] = {**(sales["tables"][name] or {}), "properties": {"tier": "gold"}}
    for name in sorted(daily["tables"])[:20]:
        daily["tables"][name] = {"absent": True}
        wanted.discard((*NAMESPACES[2], name))
    for number in range(20):
        sales["tables"][f"new{number:02}"] = {"schema": [{"name": "id", "type": "int64"}]}
        wanted.add(("sales", f"new{number:02}"))
    path.write_text(yaml.safe_dump(document, allow_unicode=True))

    applied = lancens(capsys, "apply", "--auto-approve")
    assert applied.code == 0, applied
    assert "Applied 60 of 60 changes" in applied.out

    client = lance_namespace.connect("dir", {"root": str(lake)})
    assert set(tables_of(client)) == wanted
    changed = client.describe_table(DescribeTableRequest(id=["sales", "t000"]))
    assert (changed.properties or {})["tier"] == "gold"
    empty = lance.dataset(namespace_client=client, table_id=["sales", "new07"])
    assert (empty.schema.names, empty.count_rows()) == (["id"], 0)
    rows = lance.dataset(namespace_client=client, table_id=["sales", "t003"]).to_table().to_pylist()
    assert rows == [{"id": 3, "name": "row 3"}]

    second = lancens(capsys, "apply", "--auto-approve")
    assert second.code == 0
    assert second.out.splitlines()[-1].startswith("No changes.")
    after = files_of(lake)
    assert {name: after.get(name) for name in before} == before
