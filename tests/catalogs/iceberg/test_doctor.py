"""``lancens doctor`` on both Iceberg REST catalogs."""

from __future__ import annotations

from pathlib import Path

from reconciler.model.names import Identifier
from tests.catalogs.diagnosing import diagnosed
from tests.catalogs.iceberg.conftest import CREDENTIAL, Catalog


def test_it_reads_tries_to_write_and_changes_nothing(catalog: Catalog, space: Identifier, tmp_path: Path) -> None:
    for number in range(3):
        catalog.add_lance_entry(space, f"t{number}", f"{catalog.root}/t{number}")
    found = diagnosed(tmp_path, "iceberg", catalog.config)
    assert [(check.name, check.detail) for check in found if check.status == "failed"] == []
    assert [check.status for check in found if check.name == "writing"] == ["ok"] * 3, found
    assert CREDENTIAL.partition(":")[2] not in str(found)
    chooses = "the service chooses where a new table is, whatever is asked for"
    assert (chooses in {check.detail for check in found}) is catalog.ignores_location
