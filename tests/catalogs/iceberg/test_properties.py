"""The properties of namespaces, where a change of them is cut or refused in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import reconciler
from reconciler.backends.iceberg import IcebergBackend
from reconciler.manifest import Manifest
from reconciler.model.names import Identifier
from tests.catalogs.iceberg.conftest import Catalog
from tests.servers.fault_proxy import Call, Fault, fault_proxy
from tests.servers.polaris import Polaris, polaris_server
from tests.writing import load_manifest


@pytest.fixture
def polaris() -> Iterator[Polaris]:
    with polaris_server() as running:
        yield running


def _wanting(folder: Path, config: dict[str, str], space: Identifier, properties: dict[str, str]) -> Manifest:
    block = {space[1]: {"properties": properties}}
    lake = {
        "impl": "iceberg",
        "config": config,
        "scope": ["/".join(space)],
        "namespaces": {space[0]: {"namespaces": block}},
    }
    return load_manifest(folder, {"lake": lake})


def test_a_property_that_leaves_the_manifest_leaves_polaris(polaris: Polaris, tmp_path: Path) -> None:
    config, space = {"endpoint": polaris.url}, ("ware", "ads")
    journal = tmp_path / "journal"
    for properties in ({"team": "ads", "old": "1"}, {"team": "new"}):
        manifest = _wanting(tmp_path, config, space, properties)
        assert reconciler.apply(reconciler.plan(manifest), manifest, journal=journal).ok
        assert reconciler.plan(manifest).is_empty
        shown = polaris.namespaces[space].items()
        assert {key: value for key, value in shown if not key.startswith("lancens.")} == {
            "location": "file:///BASE/ads",
            **properties,
        }


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.LOST])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("again", ["the same plan", "a new plan"])
def test_a_change_that_is_cut_in_the_middle_ends_where_it_was_to(
    catalog: Catalog, backend: IcebergBackend, tmp_path: Path, number: int, fault: Fault, again: str
) -> None:
    endpoint = urlsplit(catalog.config["endpoint"])
    space = (catalog.warehouse, f"p{number}{fault.name.lower()}{len(again)}")
    journal = tmp_path / "journal"
    with fault_proxy(endpoint.port or 0, "http") as proxy:
        config = {**catalog.config, "endpoint": proxy.url + endpoint.path}
        manifest = _wanting(tmp_path, config, space, {"team": "ads", "old": "1"})
        assert reconciler.apply(reconciler.plan(manifest), manifest, journal=journal).ok
        manifest = _wanting(tmp_path, config, space, {"team": "new"})
        plan = reconciler.plan(manifest)
        writes: list[str] = []

        def cut(call: Call) -> Fault | None:
            if call.name.endswith("/properties"):
                writes.append(call.name)
            return fault if len(writes) > number else None

        proxy.reset(cut)
        assert not reconciler.apply(plan, manifest, journal=journal).ok
        proxy.reset()
        plan = plan if again == "the same plan" else reconciler.plan(manifest)
        assert reconciler.apply(plan, manifest, journal=journal).ok
        assert reconciler.plan(manifest).is_empty
        found = backend.load_namespace(space).properties
        assert (found["team"], "old" in found) == ("new", False)
        backend.remove_namespace(space)
