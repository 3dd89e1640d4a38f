"""Columns that change over time, in a directory of real datasets."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends import registry
from reconciler.model.errors import ManifestError
from tests.catalogs.columns import change_columns
from tests.catalogs.end_to_end import apply, opened, planned

EXAMPLE = Path(__file__).parents[2] / "examples/quickstart/lancens.yaml"


def test_columns_change_in_the_manifest_and_in_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = Path(shutil.copy(EXAMPLE, tmp_path / "lancens.yaml"))
    [catalog] = reconciler.load(manifest).catalogs.values()
    assert catalog.impl == "dir"
    apply(manifest)
    change_columns(manifest, lambda path: opened(registry.connect("dir", {"root": str(tmp_path / "lake")}), path))


@pytest.mark.parametrize("key", ["packed", "lance-encoding:packed"])
def test_the_layout_of_a_struct_is_not_changed_under_its_values(tmp_path: Path, key: str) -> None:
    row = {"place": {"x": 1, "y": 2}}
    data = lance.write_dataset(pa.table({name: [value] for name, value in row.items()}), tmp_path / "lake/t.lance")
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(
        "version: 1\nname: m\ncatalogs: {lake: {impl: dir, config: {root: ./lake}, tables: {t: {evolve: additive, "
        f"schema: [{{name: place, type: 'struct<x: int64, y: int64>', metadata: {{'{key}': 'true'}}}}]}}}}}}}}\n"
    )
    plan = planned(manifest)
    reconciler.apply(plan, reconciler.load(manifest), skip_blocked=True)
    assert [one.params["impossible"] for one in plan.blocked] == [("place",)]
    assert lance.dataset(data.uri).to_table().to_pylist() == [row]


def test_a_name_that_pylance_cannot_read_back_is_a_note_where_data_has_it(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1], "a`b": [2]}), tmp_path / "lake/t.lance")
    manifest = tmp_path / "lancens.yaml"
    block = "{schema: [{name: id, type: int64}]}"
    text = "version: 1\nname: m\ncatalogs: {lake: {impl: dir, config: {root: ./lake}, tables: {t: %s}}}\n"
    manifest.write_text(text % block)
    plan = planned(manifest)
    assert not plan.blocked
    assert [one.params["columns"] for one in plan.notes if one.code == "unreadable-columns"] == [("a`b",)]
    imported = reconciler.import_(reconciler.load(manifest), with_schema=True)
    assert "schema is left out" in imported
    manifest.write_text(imported)
    assert planned(manifest).is_empty
    for column in ("{name: 'a`b', type: int64}", "{name: b, type: int64, renamed_from: 'a`b'}"):
        manifest.write_text(text % f"{{schema: [{column}]}}")
        with pytest.raises(ManifestError, match="backtick"):
            reconciler.load(manifest)
