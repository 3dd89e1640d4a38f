"""The properties of namespaces, where a change of them is cut or refused in the middle."""

from __future__ import annotations

from pathlib import Path

import reconciler
from reconciler.manifest import Manifest
from reconciler.model.names import Identifier
from tests.servers.polaris import Polaris
from tests.writing import load_manifest


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
