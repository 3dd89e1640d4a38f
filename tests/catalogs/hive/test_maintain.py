"""`lancens maintain` of tables that a metastore has: some in its default location, by block and by policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import lance

from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model.names import Identifier
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.operations.plan import plan
from tests.catalogs.maintained import MAINTAIN, fingerprint, needy
from tests.servers.hive import Metastore
from tests.writing import blocks_of, load_manifest


def test_tables_of_a_metastore_are_maintained(
    server: Metastore, backend: Hive2Backend, config: Mapping[str, str], database: Identifier, tmp_path: Path
) -> None:
    default = (backend.default_location((*database, "users")) or "").removeprefix("file:")
    places = {"users": needy(default), "clicks": needy(tmp_path / "elsewhere/clicks.lance")}
    for name, place in places.items():
        backend.insert_table((*database, name), place, {})
    path = "/".join(database)
    tables = blocks_of({(*database, "users"): {"maintain": MAINTAIN}})
    policies = [{"match": f"{path}/*", "maintain": MAINTAIN}]
    lake = {"impl": server.impl, "config": dict(config), "scope": [path, f"{path}/**"], "policies": policies, **tables}
    manifest = load_manifest(tmp_path, {"lake": lake})
    before = {name: fingerprint(place) for name, place in places.items()}
    entries = backend.scan().tables
    made = plan_maintenance(manifest)
    assert {change.address for change in made.changes} == {f"lake/{path}/{name}" for name in places}
    report = maintain(made, manifest, journal=tmp_path / "journal")
    assert report.ok, report.results
    for name, place in places.items():
        dataset = lance.dataset(place)
        assert (fingerprint(dataset), len(dataset.get_fragments())) == (before[name], 1)
        assert {index.name for index in dataset.describe_indices()} == {"id_idx", "v_idx"}
    assert backend.scan().tables == entries
    assert plan_maintenance(manifest).is_empty
    assert not plan(manifest).blocked
