"""`lancens maintain` of a table that Glue has, in S3, whose entry nobody manages."""

from __future__ import annotations

from pathlib import Path

import lance

from reconciler.model.names import Identifier
from reconciler.operations.maintain import maintain, plan_maintenance
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.maintained import MAINTAIN, fingerprint, needy
from tests.servers.glue import GlueServer
from tests.servers.s3 import BUCKET, GuardedS3
from tests.writing import load_manifest

USERS: Identifier = ("ads", "users")


def test_a_table_in_s3_is_maintained(glue: GlueServer, connect: Connect, guarded: GuardedS3, tmp_path: Path) -> None:
    options = {**guarded.where, **guarded.vended}
    place = needy(f"s3://{BUCKET}/maintained.lance", options=options)
    backend = connect()
    backend.insert_namespace(USERS[:1], {})
    backend.insert_table(USERS, place, {})
    config = glue.config(**{f"storage.{key}": value for key, value in options.items()})
    tables = {"users": {"maintain": MAINTAIN}}
    manifest = load_manifest(
        tmp_path, {"main": {"impl": "glue", "config": config, "namespaces": {"ads": {"tables": tables}}}}
    )
    before = fingerprint(lance.dataset(place, storage_options=options))
    entry = backend.load_table(USERS)
    report = maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal")
    assert report.ok, report.results
    dataset = lance.dataset(place, storage_options=options)
    assert (fingerprint(dataset), len(dataset.get_fragments())) == (before, 1)
    assert {index.name for index in dataset.describe_indices()} == {"id_idx", "v_idx"}
    assert backend.load_table(USERS) == entry
    assert plan_maintenance(manifest).is_empty
