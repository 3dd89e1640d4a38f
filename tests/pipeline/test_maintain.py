"""`lancens maintain --engine spark`: the jobs of the local engine, done on executors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

from reconciler.applier.report import Status
from reconciler.model.errors import BackendError
from reconciler.model.maintenance import IndexType
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.spark.upkeep_tasks import on_executors
from reconciler.storage import segments
from tests.catalogs.maintained import MAINTAIN, append, files_of, fingerprint, manifest_of, needy, recall, rows
from tests.writing import load_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest


def indices_of(place: str) -> dict[str, tuple[Any, ...]]:
    """Return what is to be equal whichever engine built the indices."""
    return {
        index.name: (index.index_type, index.num_rows_indexed, len(index.segments), index.details)
        for index in lance.dataset(place).describe_indices()
    }


def test_jobs_end_as_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    for name in names:
        needy(tmp_path / f"lake/{name}.lance")
    manifest = load_manifest(tmp_path, manifest_of(names))
    shutil.copytree(tmp_path / "lake", tmp_path / "control/lake")
    control = load_manifest(tmp_path / "control", manifest_of(names))
    kept = {name: files_of(tmp_path / f"lake/{name}.lance") for name in names}
    assert maintain(plan_maintenance(control), control, journal=tmp_path / "journal").ok
    report = maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal", executors=on_executors(spark))
    assert [(end.status, end.message, end.note) for end in report.results] == [(Status.DONE, "", "")] * 9
    for name in names:
        place, local = (str(folder / f"lake/{name}.lance") for folder in (tmp_path, tmp_path / "control"))
        assert fingerprint(place) == fingerprint(local)
        assert indices_of(place) == indices_of(local)
        assert lance.dataset(place).version == lance.dataset(local).version
        assert len(lance.dataset(place).get_fragments()) == 1
        assert kept[name] <= files_of(place)
    assert plan_maintenance(manifest).is_empty
