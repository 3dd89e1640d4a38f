"""Without ``catalog``, the root holds every catalog of the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler.backends.unity import UnityBackend
from reconciler.manifest import Manifest
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError
from reconciler.model.names import Scope
from reconciler.model.reasons import ReasonCode
from tests.catalogs.unity.conftest import TOKEN, Unity
from tests.plans import assert_blocked
from tests.writing import load_manifest


@pytest.fixture
def service(either: Unity) -> UnityBackend:
    """A connection to a service with the catalogs `main` and `other`, which have a schema of one name."""
    either.contract.add_catalog("other")
    for catalog in ("main", "other"):
        either.contract.add_schema(catalog, "s")
        either.contract.add_lance_table(catalog, "s", f"in_{catalog}")
    return UnityBackend(endpoint=either.server.url, auth_token=TOKEN)


def _wanting(unity: Unity, folder: Path, namespaces: dict[str, Any]) -> Manifest:
    config = {"endpoint": unity.server.url, "auth_token": TOKEN, "root": str(folder / "lake")}
    return load_manifest(folder, {"uc": {"impl": "unity", "config": config, "namespaces": namespaces}})


def test_the_root_lists_every_catalog_and_a_scan_reads_them(service: UnityBackend) -> None:
    assert {"main", "other"} <= set(service.child_namespaces(()))
    assert {("main", "s", "in_main"), ("other", "s", "in_other")} <= set(service.scan().tables)
    part = service.scan(Scope(("other/**",)))
    assert set(part.namespaces) == {("other",), ("other", "s")}
    assert set(part.tables) == {("other", "s", "in_other")}
    assert service.load_table(("other", "s", "in_other")).id == ("other", "s", "in_other")
    with pytest.raises(NamespaceNotFoundError):
        service.load_namespace(("none",))
    with pytest.raises(InvalidInputError):
        service.insert_namespace(("none",), {})


def test_one_manifest_manages_two_catalogs(unity: Unity, tmp_path: Path) -> None:
    unity.contract.add_catalog("other")
    spaces = {"ads": {"properties": {"team": "ads"}, "tables": {"t": {}}}}
    wanted = {name: {"namespaces": spaces} for name in ("main", "other")}
    manifest = _wanting(unity, tmp_path, {**wanted, "none": {"namespaces": spaces}})
    plan = reconciler.plan(manifest)
    assert_blocked(plan, "uc/none", ReasonCode.MADE_OUTSIDE)
    manifest = _wanting(unity, tmp_path, wanted)
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok
    assert reconciler.plan(manifest).is_empty
    fewer = _wanting(unity, tmp_path, {"main": wanted["main"]})
    plan = reconciler.plan(fewer)
    assert {change.identifier[0] for change in plan.changes} == {"other"}
    assert ("other",) not in {change.identifier for change in plan.changes}
