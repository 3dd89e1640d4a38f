"""Inventories: in every form the same rows, whole or not at all, and no secret in any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.running import lancens
from tests.pipeline.troubled import SECRET, Troubled

pytestmark = pytest.mark.usefixtures("spark")

Rows = list[dict[str, Any]]


def rows_in(path: Path) -> Rows:
    """Return the rows of an inventory, without what is null, in an order of their own."""
    if path.suffix == ".json":
        found: Rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    else:
        table: Any = lance.dataset(str(path)).to_table() if path.suffix == ".lance" else pq.read_table(path)
        found = table.to_pylist(maps_as_pydicts="strict")
    return in_order(found)


def in_order(rows: Rows) -> Rows:
    kept = ({key: value for key, value in row.items() if value is not None} for row in rows)
    return sorted(kept, key=lambda row: (row["kind"], row.get("namespace", ""), row.get("name", "")))


def test_every_form_holds_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    printed = lancens(capsys, "inventory", catalog.path)
    assert printed.code == 0
    assert "Reading 5 namespaces: 5 tables" in printed.err
    expected = in_order([json.loads(line) for line in printed.out.splitlines()])
    for suffix in ("json", "parquet", "lance"):
        out = tmp_path / f"inventory.{suffix}"
        ran = lancens(capsys, "inventory", catalog.path, "-o", out)
        assert (ran.code, ran.out) == (0, "")
        assert ran.err.endswith(f"Wrote {out}: 4 namespaces, 5 tables.\n")
        assert rows_in(out) == expected

    assert SECRET not in printed.out
    kinds = [row["kind"] for row in expected]
    assert {kind: kinds.count(kind) for kind in kinds} == {"coverage": 5, "namespace": 4, "table": 5}
    (deep,) = [row for row in expected if row.get("name") == "three"]
    location = catalog.whole().tables["b", "deep", "three"].location
    assert (deep["catalog"], deep["namespace"], deep["location"]) == ("lake", "b$deep", location)
    assert (deep["properties"]["name"], deep["properties"]["api-key"][:9]) == ("three", "(redacted")
    assert [path.name for path in tmp_path.glob(".lancens-*")] == []


def test_what_cannot_be_read_is_said_and_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=100).make()
    out = tmp_path / "inventory.json"
    ran = lancens(capsys, "inventory", catalog.path, "-o", out)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-2:] == [
        "lake/b: no answer to (redacted)",
        "Not complete: 1 namespace could not be read.",
    ]
    errors = {row["namespace"]: row["error"] for row in rows_in(out) if "error" in row}
    assert errors == {"b": "lake (troubled): no answer to (redacted)"}
    assert sum(row["kind"] == "table" for row in rows_in(out)) == 4


def test_a_failed_run_leaves_nothing_and_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, times=100, kills=True).make()
    (tmp_path / "there.json").write_text("what was there")
    before = sorted(tmp_path.iterdir())
    ran = lancens(capsys, "inventory", catalog.path, "-o", tmp_path / "there.json")
    assert (ran.code, ran.out) == (1, "")
    assert "Python worker exited unexpectedly" in ran.err
    assert "Traceback" not in ran.err
    assert (tmp_path / "there.json").read_text() == "what was there"
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "log"])


def test_a_dataset_gets_a_new_version(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    out = tmp_path / "inventory.lance"
    for version in (1, 2):
        assert lancens(capsys, "inventory", catalog.path, "-o", out).code == 0
        assert (lance.dataset(str(out)).version, len(rows_in(out))) == (version, 14)


def test_a_dataset_of_somebody_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    catalog = Troubled(tmp_path).make()
    out = tmp_path / "users.lance"
    lance.write_dataset(pa.table({"user": [1, 2]}), out)
    ran = lancens(capsys, "inventory", catalog.path, "-o", out)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"{out} is a dataset but not an inventory")
    assert lance.dataset(str(out)).version == 1
    assert catalog.reads_nothing()


def test_a_mistyped_root_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lancens.yaml").write_text("version: 1\nname: shop\ncatalogs: {lake: {impl: dir, config: {root: ./lkae}}}\n")
    for command in (["inventory", "-o", "i.json"], ["audit", "--out", "report"]):
        ran = lancens(capsys, *command)
        assert ran.code == 0, ran.err
        assert f"lake (dir): the root {tmp_path}/lkae does not exist.\n" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "inventory.txt"), "inventory.txt has none of the suffixes .lance"),
        (("--format", "parquet"), "only JSON can be written to stdout"),
        (("-o", "nowhere/inventory.json"), "cannot be written: No such file or directory"),
        (("-o", "nowhere/inventory.lance"), "cannot be written: No such file or directory"),
        (("-o", "lake", "--format", "json"), "lake is a folder; name a file, or --format lance for a dataset"),
        (("-o", "lake", "--format", "lance"), "lake cannot be written: it holds"),
        (("-o", "s3://key:hunter2@bucket/i.lance"), "s3://(redacted)@bucket/i.lance: a location cannot hold user"),
        (("--var", "unused=1", "-o", "i.json"), "nothing uses"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_read(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    catalog = Troubled(tmp_path).make()
    monkeypatch.chdir(tmp_path)
    ran = lancens(capsys, "inventory", catalog.path, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert catalog.reads_nothing()
