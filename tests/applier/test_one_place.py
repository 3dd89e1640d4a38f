"""Two catalogs with a table at one place, where no dataset is yet: one writes it, the other has it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import lance
import pytest

import reconciler
from reconciler.planner.plan import Plan
from tests.writing import load_text

IDS = "schema: [{name: id, type: int64}], "
NAMES = "schema: [{name: name, type: string}], "


def manifest(folder: Path, **blocks: str) -> reconciler.Manifest:
    """Write a manifest of `dir` catalogs, the roots of which are one below the other."""
    lines = ["version: 1", "name: store", "catalogs:"]
    root = "./lake"
    for name, block in blocks.items():
        tables = f"{{n: {{tables: {{{name}_t: {{{block}location: ./lake/x/y/z/t}}}}}}}}"
        lines.append(f"  {name}: {{impl: dir, config: {{root: {root}}}, namespaces: {tables}}}")
        root = {"./lake": "./lake/x", "./lake/x": "./lake/x/y"}[root] if name != list(blocks)[-1] else root
    return load_text(folder, "\n".join(lines))


def steps(plan: Plan) -> list[str]:
    return [f"{change.action} {change.address}" for change in plan.changes if change.kind == "table"]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([IDS, IDS], ["create-table a/n/a_t", "register-table b/n/b_t"]),
        ([IDS, ""], ["create-table a/n/a_t", "register-table b/n/b_t"]),
        (["", IDS], ["declare-table a/n/a_t", "create-table b/n/b_t"]),
        (["", IDS, ""], ["declare-table a/n/a_t", "create-table b/n/b_t", "register-table c/n/c_t"]),
    ],
)
def test_the_dataset_is_written_once(tmp_path: Path, blocks: list[str], expected: list[str]) -> None:
    wanted = manifest(tmp_path, **dict(zip("abc", blocks, strict=False)))
    plan = reconciler.plan(wanted)
    assert steps(plan) == expected
    of = {f"{change.action} {change.address}": change for change in plan.changes}
    for before, after in pairwise(expected):
        assert plan.changes.index(of[before]) in of[after].depends_on
    saved = Plan.from_json(plan.to_json())
    report = reconciler.apply(saved, wanted, journal=tmp_path / "journal")
    assert report.ok, [result.message for result in report.results]
    assert reconciler.plan(wanted).is_empty
    assert lance.dataset(str(tmp_path / "lake/x/y/z/t")).schema.names == ["id"]
    assert len(lance.dataset(str(tmp_path / "lake/x/y/z/t")).versions()) == 1


def test_another_schema_is_blocked_before_anything_is_written(tmp_path: Path) -> None:
    wanted = manifest(tmp_path, a=IDS, b=NAMES)
    plan = reconciler.plan(wanted)
    assert (steps(plan), [one.address for one in plan.blocked]) == (["create-table a/n/a_t"], ["b/n/b_t"])
    assert reconciler.apply(plan, wanted, journal=tmp_path / "journal", skip_blocked=True).ok
    assert [one.address for one in reconciler.plan(wanted).blocked] == ["b/n/b_t"]
    assert reconciler.plan(wanted).is_empty


def test_an_entry_without_data_takes_what_the_other_catalog_writes(tmp_path: Path) -> None:
    only_b = manifest(tmp_path, a="probe: false, ", b="probe: false, ")
    assert reconciler.apply(reconciler.plan(only_b), only_b, journal=tmp_path / "journal").ok
    wanted = manifest(tmp_path, a=IDS, b=IDS)
    plan = reconciler.plan(wanted)
    assert steps(plan) == ["create-table a/n/a_t"]
    assert reconciler.apply(plan, wanted, journal=tmp_path / "journal").ok
    assert reconciler.plan(wanted).is_empty
