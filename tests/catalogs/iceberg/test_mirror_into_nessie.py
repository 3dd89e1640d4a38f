"""A mirror in a catalog that chooses the locations itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import reconciler
from reconciler.model.reasons import ReasonCode
from tests.catalogs.iceberg.conftest import Catalog
from tests.mirrors.test_mirrors import ODD, Lake, refused
from tests.soak import count

pytestmark = pytest.mark.soak


def test_nessie_takes_no_location_so_all_of_it_is_blocked(on_nessie: Catalog, tmp_path: Path) -> None:
    lake, into = Lake(tmp_path, count(30, 1000)), (on_nessie.warehouse, "mirrored")
    lake.follow("nessie", "iceberg", on_nessie.config, **{"from": "lake", "into": list(into)})
    manifest = lake.manifest()
    plan = reconciler.plan(manifest)
    assert len(refused(plan, "nessie")) == lake.tables + len(ODD)
    assert {one.code for one in plan.blocked} == {ReasonCode.MIRROR_CANNOT_PLACE}
    report = reconciler.apply(plan, manifest, journal=lake.folder / "journal", skip_blocked=True)
    assert report.ok
    tables = lake.backend("nessie").scan(manifest.catalogs["nessie"].desired.scope).tables
    assert not [name for name in tables if name[: len(into)] == into]
