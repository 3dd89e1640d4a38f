"""Columns that change over time, in a directory of real datasets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import reconciler
from reconciler.backends import registry
from tests.catalogs.columns import change_columns
from tests.catalogs.end_to_end import apply, opened

EXAMPLE = Path(__file__).parents[2] / "examples/quickstart/lancens.yaml"


def test_columns_change_in_the_manifest_and_in_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = Path(shutil.copy(EXAMPLE, tmp_path / "lancens.yaml"))
    [catalog] = reconciler.load(manifest).catalogs.values()
    assert catalog.impl == "dir"
    apply(manifest)
    change_columns(manifest, lambda path: opened(registry.connect("dir", {"root": str(tmp_path / "lake")}), path))
