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


def manifest(folder: Path, moved: str = "", **blocks: str) -> reconciler.Manifest:
    """Write a manifest of `dir` catalogs, the roots of which are one below the other; the table of ``moved`` moves."""
    lines = ["version: 1", "name: store", "catalogs:"]
    root = "./lake"
    for name, block in blocks.items():
        table = "new" if name == moved else f"{name}_t"
        line = f"moved: [{{from: n/{name}_t, to: n/new}}], " if name == moved else ""
        tables = f"{{n: {{tables: {{{table}: {{{block}location: ./lake/x/y/z/t}}}}}}}}"
        lines.append(f"  {name}: {{impl: dir, config: {{root: {root}}}, {line}namespaces: {tables}}}")
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


def declared(folder: Path, *names: str) -> None:
    """Make entries without data of these names, each in its catalog."""
    text = manifest(folder, **dict.fromkeys(names, "probe: false, "))
    assert reconciler.apply(reconciler.plan(text), text, journal=folder / "journal").ok


def settled(folder: Path, wanted: reconciler.Manifest, expected: list[str]) -> None:
    """Apply the saved plan, which has the steps ``expected``, and see that nothing is left to do."""
    plan = reconciler.plan(wanted)
    assert steps(plan) == expected
    report = reconciler.apply(Plan.from_json(plan.to_json()), wanted, journal=folder / "journal")
    assert report.ok, [result.message for result in report.results]
    again = reconciler.plan(wanted)
    assert (again.changes, again.blocked) == ((), ())


@pytest.mark.parametrize("others", [["b"], ["a", "b"]])
def test_tags_of_data_that_the_other_catalog_writes_are_set(tmp_path: Path, others: list[str]) -> None:
    if len(others) > 1:
        declared(tmp_path, *others)
    wanted = manifest(tmp_path, a=IDS, b="tags: {first: 1}, " + IDS)
    step = "tag" if len(others) > 1 else "register-table"
    settled(tmp_path, wanted, ["create-table a/n/a_t", f"{step} b/n/b_t"])
    assert [*lance.dataset(str(tmp_path / "lake/x/y/z/t")).tags.list()] == ["first"]


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        ("a", ["move-table a/n/new", "register-table b/n/b_t"]),
        ("b", ["create-table a/n/a_t", "move-table b/n/new"]),
    ],
)
def test_a_moved_table_without_data_writes_it_or_takes_it(tmp_path: Path, moved: str, expected: list[str]) -> None:
    declared(tmp_path, *"ab"[: 1 + (moved == "b")])
    wanted = manifest(tmp_path, moved, a=IDS, b=IDS)
    plan = reconciler.plan(wanted)
    first, then = (change for change in plan.changes if f"{change.action} {change.address}" in expected)
    assert plan.changes.index(first) in then.depends_on
    settled(tmp_path, wanted, expected)
    assert len(lance.dataset(str(tmp_path / "lake/x/y/z/t")).versions()) == 1


def test_a_moved_table_is_blocked_where_other_data_would_be_written(tmp_path: Path) -> None:
    declared(tmp_path, "a", "b")
    plan = reconciler.plan(manifest(tmp_path, "b", a=IDS, b=NAMES))
    assert (steps(plan), [one.address for one in plan.blocked]) == (["create-table a/n/a_t"], ["b/n/new"])
