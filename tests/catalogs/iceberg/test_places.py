"""Entries for data that is somewhere, on a server that puts them elsewhere and is not known to."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends.iceberg import routes
from reconciler.manifest import Manifest
from tests.catalogs.iceberg.conftest import Catalog


@pytest.fixture
def unknown(on_nessie: Catalog, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Nessie, by whose answers nobody recognizes it."""
    monkeypatch.setattr(routes, "_NESSIE", "not.what.it.says")
    return on_nessie


def _manifest(
    catalog: Catalog, tmp_path: Path, space: str, *, tables: object = None, mirror: object = None
) -> Manifest:
    block = {"properties": {"team": "ml"}, "tables": tables or {}}
    ice: dict[str, object] = {
        "impl": "iceberg",
        "config": {**catalog.config, "root": catalog.root},
        "scope": [f"{catalog.warehouse}/{space}", f"{catalog.warehouse}/{space}/**"],
        "namespaces": {catalog.warehouse: {"namespaces": {space: block}}},
    }
    catalogs = {"ice": ice | ({"mirror": mirror} if mirror else {})}
    if mirror:
        catalogs["lake"] = {"impl": "dir", "config": {"root": str(tmp_path / "lake")}, "prune": "never"}
    path = tmp_path / "lancens.yaml"
    path.write_text(json.dumps({"version": 1, "name": "store", "catalogs": catalogs}), "utf-8")
    return reconciler.load(path)


@pytest.mark.parametrize("through", ["a block", "a mirror"])
def test_an_entry_for_data_that_the_server_puts_elsewhere_is_taken_back(
    unknown: Catalog, tmp_path: Path, through: str
) -> None:
    space = f"s{tmp_path.name.replace('-', '_').lower()}"
    place = tmp_path / "lake/users.lance"
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), str(place))
    if through == "a block":
        manifest = _manifest(unknown, tmp_path, space, tables={"users": {"location": str(place)}})
    else:
        mirror = {"from": "lake", "into": [unknown.warehouse, space]}
        manifest = _manifest(unknown, tmp_path, space, mirror=mirror)
    plan = reconciler.plan(manifest)
    report = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
    (failed,) = [result for result in report.results if not result.status.satisfies]
    assert failed.change.address == f"ice/{unknown.warehouse}/{space}/users"
    assert failed.message.startswith("the service put it at s3://")
    assert failed.message.endswith(f", not at {place}, where the data is; that entry is taken back")
    assert unknown.call("GET", f"/namespaces/{space}/tables")["identifiers"] == []
    assert lance.dataset(str(place)).count_rows() == 3
    # The same again, and nothing heaps up.
    assert [change.address for change in reconciler.plan(manifest).changes] == [failed.change.address]
