"""`moved` with stars, on a real directory: tables of one namespace merge into another that has tables already."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.cli.running import lancens

HEAD = "version: 1\nname: s\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
SCHEMA = "{schema: [{name: a, type: int64}]}"
MANIFEST = f"""{HEAD}    namespaces:
      old: {{tables: {{a: {SCHEMA}, b: {SCHEMA}, both: {SCHEMA}}}}}
      new: {{tables: {{c: {SCHEMA}, both: {SCHEMA}}}}}
"""
AFTER = f"""{HEAD}    moved: [{{from: old/*, to: new/*}}]
    namespaces:
      new: {{tables: {{a: {SCHEMA}, b: {SCHEMA}, c: {SCHEMA}, both: {SCHEMA}}}}}
"""


@pytest.fixture
def manifest(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = folder / "lancens.yaml"
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    path.write_text(AFTER, encoding="utf-8")
    return path


def locations(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    found = json.loads(lancens(capsys, "list", "--format", "json").out)
    return {one["address"].removeprefix("lake/"): one["location"] for one in found}


def test_one_line_merges_a_namespace_into_another(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = locations(capsys)
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), before["old/a"], mode="append")
    plan = json.loads(lancens(capsys, "plan", "--format", "json").out)
    assert [change["identifier"] for change in plan["changes"]] == [["new", "a"], ["new", "b"]]
    [blocked] = plan["blocked"]
    assert (blocked["identifier"], blocked["code"]) == (["new", "both"], "both-names-there")
    assert lancens(capsys, "apply", "--auto-approve", "--skip-blocked").code in (0, 3)
    after = locations(capsys)
    assert {name: after[f"new/{name}"] for name in "abc"} == {
        "a": before["old/a"],
        "b": before["old/b"],
        "c": before["new/c"],
    }
    assert after["old/both"] == before["old/both"]
    assert lance.dataset(after["new/a"]).count_rows() == 3


def test_after_a_move_the_manifest_can_keep_where_the_data_is(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = AFTER.replace(f", both: {SCHEMA}", "").replace(f"a: {SCHEMA}", f"# the first\n        a: {SCHEMA}")
    manifest.write_text(text, encoding="utf-8")
    assert lancens(capsys, "apply", "--auto-approve", "--allow-mass-removal").code == 0
    before = locations(capsys)
    plan = json.loads(lancens(capsys, "plan", "--format", "json").out)
    [note] = [note for note in plan["notes"] if note["code"] == "keep-location"]
    assert note["params"]["count"] == 2

    assert lancens(capsys, "import", "--append", manifest).code == 0
    written = manifest.read_text(encoding="utf-8")
    assert "# the first" in written
    assert written.count("location:") == 2
    after = lancens(capsys, "plan", "--format", "json").out
    assert "keep-location" not in after
    assert "changes" not in json.loads(after)

    manifest.write_text(written.replace("moved: [{from: old/*, to: new/*}]", "moved: []"), encoding="utf-8")
    lost = next((manifest.parent / "lake").glob("__manifest*"))
    shutil.rmtree(lost)
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    found = locations(capsys)
    assert {name: found[name] for name in ("new/a", "new/b")} == {name: before[name] for name in ("new/a", "new/b")}


def test_a_line_with_stars_is_done_when_all_of_it_is(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "move-done" not in lancens(capsys, "plan", "--format", "json").out
    manifest.write_text(AFTER.replace(f", both: {SCHEMA}", ""), encoding="utf-8")
    assert lancens(capsys, "apply", "--auto-approve", "--allow-mass-removal").code == 0
    plan = json.loads(lancens(capsys, "plan", "--format", "json").out)
    assert "changes" not in plan
    assert [note["code"] for note in plan["notes"]].count("move-done") == 1
