"""Orphans below the places that the namespaces of real services name, where no ``root`` is configured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from reconciler import load, locations
from reconciler.backends import registry
from reconciler.backends.hive.entries import DATABASE_LOCATION
from reconciler.pipeline.audit import AuditOptions, audit
from reconciler.pipeline.report.document import AuditDocument
from tests.servers.glue import glue_server
from tests.servers.hive import metastore
from tests.servers.iceberg import iceberg_server
from tests.servers.unity import reference
from tests.servers.unity_contract import API
from tests.servers.unity_contract_server import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Auditor = Callable[[str, Mapping[str, str]], AuditDocument]


@pytest.fixture
def audited(spark: SparkSession, tmp_path: Path) -> Auditor:
    """Look for orphans in a catalog; in each of the folders `one` and `two` is one."""
    for name in ("one/left", "one/_mine/kept", "two/left", "two/deep/er"):
        lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / f"{name}.lance"))

    def look(impl: str, config: Mapping[str, str]) -> AuditDocument:
        manifest = tmp_path / "lancens.yaml"
        manifest.write_text(
            json.dumps({"version": 1, "name": "store", "catalogs": {"main": {"impl": impl, "config": {**config}}}})
        )
        return audit(spark, load(manifest), AuditOptions(datetime.now(UTC), rules=("orphan", "unreadable")))

    return look


def orphans(document: AuditDocument, folder: Path) -> list[str]:
    """Return where the orphans are, below ``folder``."""
    found = [one.location or "" for one in document.findings if one.rule == "orphan"]
    return sorted(str(Path(locations.normalise(place)).relative_to(folder)) for place in found)


ALL = ["one/left.lance", "two/deep/er.lance", "two/left.lance"]


def test_unity_names_the_storage_roots_of_catalogs_and_schemas(
    audited: Auditor, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    roots = {name: (tmp_path / name).as_uri() for name in ("one", "two")}
    with reference(tmp_path_factory.mktemp("unity")) as contract, serving(contract) as server:
        config = {"endpoint": server.url, "catalog": "main"}
        for catalog, root in (("main", {"storage_root": roots["one"]}), ("bare", {"storage_root": None})):
            contract.add_catalog(catalog, **root)
            contract.add_schema(catalog, "plain")
        body = {"name": "own", "catalog_name": "main", "storage_root": roots["two"]}
        assert contract.answer("POST", f"{API}/schemas", {}, body, None).status == 200
        place = lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "one/entered.lance")).uri
        registry.connect("unity", config).insert_table(("main", "plain", "entered"), place, {})

        whole = audited("unity", config)
        assert (orphans(whole, tmp_path), whole.notes, whole.complete) == (ALL, (), True)

        for _ in range(20):
            server.fail_once("schema_name=own", 403, {"error_code": "PERMISSION_DENIED", "message": "no"})
        part = audited("unity", config)
        assert orphans(part, tmp_path) == ["one/left.lance"]
        assert [failure.address for failure in part.failures] == ["main/main/own"]
        (note,) = part.notes
        assert note.startswith(f"Orphans were not looked for below {roots['two']}: main/main/own could not be read")

        bare = audited("unity", {**config, "catalog": "bare"})
        assert (orphans(bare, tmp_path), bare.complete) == ([], True)
        (note,) = bare.notes
        assert note.startswith("Orphans were not looked for in main: neither it nor any of its namespaces names")


def test_glue_names_the_locations_of_databases(
    audited: Auditor, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with glue_server(tmp_path_factory.mktemp("glue")) as server:
        for name in ("one", "two"):
            server.client.create_database(DatabaseInput={"Name": name, "LocationUri": f"{tmp_path}/{name}"})
        server.client.create_database(DatabaseInput={"Name": "bare"})
        document = audited("glue", server.config())
    assert (orphans(document, tmp_path), document.notes, document.complete) == (ALL, (), True)


def test_hive_names_the_locations_of_databases(
    audited: Auditor, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with metastore("2.3", tmp_path_factory.mktemp("hive")) as server:
        backend = registry.connect("hive2", {"uri": server.uri})
        for name in ("one", "two"):
            backend.insert_namespace((name,), {DATABASE_LOCATION: f"{tmp_path}/{name}"})
        backend.close()
        document = audited("hive2", {"uri": server.uri})
    assert (orphans(document, tmp_path), document.notes, document.complete) == (ALL, (), True)


def test_iceberg_names_the_locations_of_namespaces(
    audited: Auditor, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with iceberg_server(tmp_path_factory.mktemp("iceberg")) as server:
        config = {"endpoint": server.url, "warehouses": "ware"}
        backend = registry.connect("iceberg", config)
        for name in ("one", "two"):
            backend.insert_namespace(("ware", name), {"location": f"{tmp_path}/{name}"})
        backend.insert_namespace(("ware", "bare"), {})
        backend.close()
        document = audited("iceberg", config)
    assert (orphans(document, tmp_path), document.notes, document.complete) == (ALL, (), True)
