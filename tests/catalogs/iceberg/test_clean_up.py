"""Iceberg's own clean-up takes a Lance dataset's files for orphans, and leaves those alone whose entry says so."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from tests.catalogs.iceberg.conftest import Catalog
from tests.catalogs.iceberg.manifests import OWNER, Store
from tests.servers.iceberg_spark import iceberg_spark

TEN_DAYS = 10 * 24 * 3600
LATER = "TIMESTAMP '2100-01-01 00:00:00'"


def _old_dataset(place: Path) -> dict[str, str]:
    """Write a dataset whose files are older than what Iceberg spares, and return their digests."""
    lance.write_dataset(pa.table({"n": [1, 2, 3]}), str(place))
    for file in place.rglob("*"):
        at = file.stat().st_mtime - TEN_DAYS
        os.utime(file, (at, at))
    return _digests(place)


def _digests(place: Path) -> dict[str, str]:
    """Return what is in a dataset's own files; the service keeps metadata of the entry beside them."""
    files = (file for file in place.rglob("*") if file.is_file())
    found = {str(file.relative_to(place)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return {name: digest for name, digest in found.items() if not name.startswith("metadata")}


@pytest.mark.parametrize("catalog", ["apache"], indirect=True)
def test_sparks_procedures_delete_the_data_of_a_peers_entry_and_refuse_ours(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, tmp_path: Path
) -> None:
    lake = Path(catalog.root)
    places = {name: lake / f"{name}.lance" for name in ("theirs", "registered", "updated", "lacking")}
    before = {name: _old_dataset(place) for name, place in places.items()}
    for name in ("theirs", "updated", "lacking"):
        catalog.add_lance_entry(space, name, str(places[name]))
    marks = {"lancens.managed-by": OWNER, "lancens.keys": "[]"}
    catalog.change_entry(space, "lacking", {"action": "set-properties", "updates": marks})
    backend.alter_table((*space, "updated"), PropertyChanges({"tier": "gold"}))
    store = Store(catalog, space, tmp_path)
    store.wants({"registered": {"location": str(places["registered"])}, "lacking": {}})
    assert store.apply().ok

    procedures = [
        f"CALL cat.system.remove_orphan_files(table => '{space[1]}.{name}')"
        for name in ("theirs", "registered", "updated", "lacking")
    ]
    others = [
        f"CALL cat.system.expire_snapshots(table => '{space[1]}.registered', older_than => {LATER})",
        f"DROP TABLE cat.{space[1]}.registered PURGE",
    ]
    bearer = catalog.headers["Authorization"].removeprefix("Bearer ")
    url = catalog.config["endpoint"]
    theirs, *ours = iceberg_spark(url, catalog.warehouse, [*procedures, *others], bearer=bearer)
    assert theirs.startswith("OK ")
    assert ["GC is disabled" in answer for answer in ours] == [True] * 5

    lost = before["theirs"].keys() - _digests(places["theirs"]).keys()
    assert {Path(name).parent.name for name in lost} == {"data"}
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        lance.dataset(str(places["theirs"])).to_table()
    for name in ("registered", "updated", "lacking"):
        assert _digests(places[name]) == before[name]
        assert lance.dataset(str(places[name])).to_table().num_rows == 3
    backend.remove_table((*space, "registered"))
    assert _digests(places["registered"]) == before["registered"]


def test_every_entry_says_so_and_goes_on_saying_so(
    catalog: Catalog, backend: IcebergBackend, space: Identifier
) -> None:
    table = (*space, "t")
    made = backend.insert_table(table, f"{catalog.root}/t", {"gc.enabled": "true"})
    assert made.properties["gc.enabled"] == "false"
    asked = PropertyChanges({"gc.enabled": "true", "a": "b"})
    for changes in (asked, PropertyChanges(remove=frozenset({"gc.enabled", "a"}))):
        backend.alter_table(table, changes)
        assert backend.load_table(table).properties["gc.enabled"] == "false"


@pytest.mark.parametrize("catalog", ["apache"], indirect=True)
def test_an_entry_whose_safeguard_went_since_the_plan_is_stale(
    catalog: Catalog, backend: IcebergBackend, space: Identifier, tmp_path: Path
) -> None:
    import reconciler

    store = Store(catalog, space, tmp_path)
    store.wants({"t": {}})
    assert store.apply().ok
    store.wants({"t": {"properties": {"tier": "gold"}}})
    plan = store.plan()
    catalog.change_entry(space, "t", {"action": "remove-properties", "removals": ["gc.enabled"]})
    with pytest.raises(reconciler.StalePlanError, match=r"gc\.enabled +planned on false"):
        store.apply(plan)
    assert store.apply().ok
    assert backend.load_table((*space, "t")).properties["gc.enabled"] == "false"
    assert store.plan().is_empty
