"""The example of policies, on plans as they are saved: who may be denied what, and that the day is data."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import reconciler
from tests.servers.go_tools import opa

POLICY = Path(__file__).parents[2] / "examples/policy"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an applied manifest, of which the second version makes one table and removes another."""
    monkeypatch.chdir(tmp_path)
    write("old: {properties: {owner: ads}, schema: [{name: id, type: int64}]}")
    loaded = reconciler.load("lancens.yaml")
    assert reconciler.apply(reconciler.plan(loaded), loaded).ok
    return tmp_path


def write(*tables: str) -> None:
    Path("lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    tables:\n"
        + "".join(f"      {table}\n" for table in tables)
    )


def denied(today: str | None = None) -> tuple[int, list[str]]:
    """Return the exit code of the command that the example names, and what it denies."""
    Path("plan.json").write_text(reconciler.plan(reconciler.load("lancens.yaml")).to_json())
    day = [] if today is None else ["--data", "day.json"]
    Path("day.json").write_text(json.dumps({"today": today}))
    command: list[str | Path] = [
        opa(Path.cwd()),
        "eval",
        "--fail-defined",
        "--data",
        POLICY,
        *day,
        "--input",
        "plan.json",
    ]
    ran = subprocess.run([*command, "data.lancens.deny[_]"], capture_output=True, text=True, check=False)
    found = json.loads(ran.stdout).get("result", [])
    return ran.returncode, sorted(one["expressions"][0]["value"] for one in found)


def test_a_table_without_an_owner_is_denied_at_its_line(shop: Path) -> None:
    write("old: {properties: {owner: ads}}", "new: {schema: [{name: id, type: int64}]}")
    code, [said] = denied()
    assert (code, said.partition(":")[0], said.split()[-1]) == (1, "lake/new has no owner", "lancens.yaml:9")

    write("old: {properties: {owner: ads}}", "new: {properties: {owner: web}, schema: [{name: id, type: int64}]}")
    assert denied("Friday") == (0, [])


def test_nothing_is_taken_out_on_a_friday(shop: Path) -> None:
    write("kept: {properties: {owner: ads}, schema: [{name: id, type: int64}]}")

    friday = ["lake/old would be taken out of its catalog, and it is Friday: apply this on Monday"]
    assert [denied(), denied("Thursday"), denied("Friday")] == [(0, []), (0, []), (1, friday)]
