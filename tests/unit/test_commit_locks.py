"""A location with a commit lock: the DynamoDB table in its query is a part of it, from import to apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reconciler
from reconciler import storage
from reconciler.backends.memory import MemoryBackend
from reconciler.model import locations
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action
from tests.writing import load_manifest

LOCKED = "s3+ddb://lake/t.lance?ddbTableName=locks"


def _manifest(folder: Path, **block: Any) -> reconciler.Manifest:
    catalog = {"impl": "memory", "config": {"name": str(folder)}}
    tables = {"t": {"location": LOCKED, "probe": False, **block}}
    return load_manifest(folder, {"lake": {**catalog, "namespaces": {"a": {"tables": tables}}}})


def test_a_plan_keeps_and_compares_the_table_of_the_lock(tmp_path: Path) -> None:
    backend = MemoryBackend(name=str(tmp_path))
    backend.insert_namespace(("a",), {})
    backend.insert_table(("a", "t"), LOCKED, {})
    assert LOCKED in reconciler.import_(_manifest(tmp_path))

    manifest = _manifest(tmp_path, properties={"tier": "gold"})
    saved = reconciler.Plan.from_json(reconciler.plan(manifest, adopt=True).to_json())
    assert reconciler.apply(saved, manifest).ok
    live = backend.load_table(("a", "t"))
    assert (live.location, live.properties["tier"]) == (LOCKED, "gold")
    assert reconciler.plan(manifest).is_empty

    for location in (LOCKED.replace("locks", "others"), LOCKED.partition("?")[0], "s3://lake/t.lance"):
        [change] = reconciler.plan(_manifest(tmp_path, location=location)).changes
        assert (change.action, change.code) == (Action.RELOCATE_TABLE, ReasonCode.RELOCATED)


def test_a_locked_dataset_is_no_orphan_of_its_bucket() -> None:
    for location in (LOCKED, "s3+ddb://lake//x/../t.lance/?ddbTableName=locks"):
        assert locations.same(location, LOCKED)
        assert [*map(locations.objects_of, storage.resolve_locations([location]))] == ["s3://lake/t.lance"]
