"""Orphans below the places that the namespaces of real services name, where no ``root`` is configured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler import load
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.auditor.document import AuditDocument
from reconciler.backends import registry
from reconciler.backends.hive.entries import DATABASE_LOCATION
from reconciler.model import locations
from tests.servers.glue import glue_server
from tests.servers.hive import metastore
from tests.servers.iceberg import iceberg_server
from tests.servers.unity import reference
from tests.servers.unity_contract import API
from tests.servers.unity_contract_server import serving

ORPHANS = ["one/left.lance", "two/deep/er.lance", "two/left.lance"]


def filled(folder: Path) -> Path:
    """Return ``folder``, with orphans in `one` and `two` in it."""
    for name in (*ORPHANS, "one/_mine/kept.lance"):
        lance.write_dataset(pa.table({"id": [1]}), str(folder / name))
    return folder


def audited(folder: Path, catalogs: Mapping[str, tuple[str, Mapping[str, str]]]) -> tuple[list[str], AuditDocument]:
    """Look for orphans in ``catalogs``; return where they are, below ``folder``, and the document."""
    blocks = {name: {"impl": impl, "config": {**config}} for name, (impl, config) in catalogs.items()}
    manifest = folder / "lancens.yaml"
    manifest.write_text(json.dumps({"version": 1, "name": "store", "catalogs": blocks}))
    document = audit(None, load(manifest), AuditOptions(datetime.now(UTC), rules=("orphan", "unreadable")))
    found = [one.location or "" for one in document.findings if one.rule == "orphan"]
    return sorted(str(Path(locations.normalise(place)).relative_to(folder)) for place in found), document


def test_unity_names_the_storage_roots_of_its_catalog_and_schemas(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    filled(tmp_path)
    roots = {name: (tmp_path / name).as_uri() for name in ("one", "two")}
    with reference(tmp_path_factory.mktemp("unity")) as contract, serving(contract) as server:
        config = {name: {"endpoint": server.url, "catalog": name} for name in ("main", "bare")}
        for catalog, root in (("main", roots["one"]), ("bare", None)):
            contract.add_catalog(catalog, storage_root=root)
            contract.add_schema(catalog, "plain")
        body = {"name": "own", "catalog_name": "main", "storage_root": roots["two"]}
        assert contract.answer("POST", f"{API}/schemas", {}, body, None).status == 200
        place = lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "one/entered.lance")).uri
        registry.connect("unity", config["main"]).insert_table(("main", "plain", "entered"), place, {})

        found, document = audited(tmp_path, {name: ("unity", one) for name, one in config.items()})
        assert (found, document.complete) == (ORPHANS, True)
        (note,) = document.notes
        assert note.startswith("Orphans were not looked for in bare: ")

        for _ in range(20):
            server.fail_once("schema_name=own", 403, {"error_code": "PERMISSION_DENIED", "message": "no"})
        found, document = audited(tmp_path, {"main": ("unity", config["main"])})
        assert found == ["one/left.lance"]
        assert [failure.address for failure in document.failures] == ["main/main/own"]
        (note,) = document.notes
        assert note.startswith(f"Orphans were not looked for below {roots['two']}: main/main/own could not be read")


def test_databases_and_namespaces_of_other_services_name_their_locations(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folders = {impl: filled(tmp_path / impl) for impl in ("glue", "hive2", "iceberg")}
    with ExitStack() as stack:
        glue = stack.enter_context(glue_server(tmp_path_factory.mktemp("glue")))
        hive = stack.enter_context(metastore("2.3", tmp_path_factory.mktemp("hive")))
        iceberg = stack.enter_context(iceberg_server(tmp_path_factory.mktemp("iceberg")))
        configs = {
            "glue": glue.config(),
            "hive2": {"uri": hive.uri},
            "iceberg": {"endpoint": iceberg.url, "warehouses": "ware"},
        }
        for impl, key, above in (
            ("glue", "location", ()),
            ("hive2", DATABASE_LOCATION, ()),
            ("iceberg", "location", ("ware",)),
        ):
            backend = registry.connect(impl, configs[impl])
            for name in ("one", "two"):
                backend.insert_namespace((*above, name), {key: f"{folders[impl]}/{name}"})
            backend.insert_namespace((*above, "bare"), {})
            backend.close()
        found, document = audited(tmp_path, {impl: (impl, config) for impl, config in configs.items()})
    assert found == sorted(f"{impl}/{place}" for impl in folders for place in ORPHANS)
    assert (document.notes, document.complete) == ((), True)
