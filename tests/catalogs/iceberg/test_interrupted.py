"""Applies whose answers are lost, on real servers: the same plan, applied again, ends where it ends without."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import reconciler
from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.names import Identifier
from tests.catalogs.iceberg.conftest import Catalog
from tests.servers.fault_proxy import Fault, fault_proxy


def test_a_create_whose_last_answer_is_lost_is_whole_when_applied_again(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, tmp_path: Path
) -> None:
    """The last write records where the service put the table, or that it is where it was asked to be."""
    endpoint = urlsplit(catalog.config["endpoint"])
    with fault_proxy(endpoint.port or 0, "http") as proxy:
        reached = {**catalog.config, "endpoint": proxy.url + endpoint.path, "root": catalog.root}
        columns = [{"name": "id", "type": "int64"}]
        tables = {"users": {"schema": columns, "properties": {"tier": "gold"}}}
        namespaces = {space[0]: {"namespaces": {space[1]: {"tables": tables}}}}
        scope = ["/".join(space), f"{'/'.join(space)}/**"]
        lake = {"impl": "iceberg", "config": reached, "scope": scope, "namespaces": namespaces}
        path = tmp_path / "lancens.yaml"
        path.write_text(json.dumps({"version": 1, "name": "store", "catalogs": {"lake": lake}}), "utf-8")
        manifest = reconciler.load(path)
        plan = reconciler.plan(manifest)

        proxy.reset(lambda call: Fault.LOST if call.name.endswith("/tables/users") and "POST" in call.name else None)
        report = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
        assert not report.ok
        assert proxy.calls[-1].startswith("POST")
        proxy.reset()
        assert reconciler.apply(plan, manifest, journal=tmp_path / "journal").ok
        assert reconciler.plan(manifest).is_empty
    live = backend.load_table((*space, "users"))
    assert ("lancens.requested-location" in live.properties) is catalog.ignores_location
