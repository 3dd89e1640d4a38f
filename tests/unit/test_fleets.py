"""What is the same for a whole catalog is asked for once, however many objects there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn, TypeAlias

import pytest

import reconciler
from reconciler.auditor.document import Finding, Suppressed
from reconciler.auditor.records import Severity
from reconciler.auditor.suppressions import Suppressions
from reconciler.backends import registry
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.contents import ManifestRows
from reconciler.backends.memory import MemoryBackend
from reconciler.model.desired import DesiredPolicy, Source
from reconciler.model.display import wrap
from reconciler.model.live import LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope
from reconciler.model.policies import Policies
from reconciler.operations.listing import list_tables
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.operations.unregistered import find_unregistered
from reconciler.output.junit import JunitCase, junit_xml
from tests.unit.planner.building import USERS, desired, live, plan_of, table

Counting: TypeAlias = Callable[[str], list[Any]]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """Return a function that keeps the arguments of the calls of a function, named as in ``module:name``."""

    def count(name: str) -> list[Any]:
        calls: list[Any] = []
        real = resolve_name(name)

        def counted(*given: Any) -> Any:
            calls.append(given)
            return real(*given)

        monkeypatch.setattr(name.replace(":", "."), counted)
        return calls

    return count


def test_a_list_narrows_its_globs_once_a_catalog(tmp_path: Path, counting: Counting) -> None:
    backend, name = MemoryBackend(name=str(tmp_path)), tmp_path.name
    for number in range(30):
        backend.insert_table((f"t{number}",), f"s3://b/t{number}", {})
    path = tmp_path / "lancens.yaml"
    path.write_text(f"version: 1\nname: {name}\ncatalogs: {{lake: {{impl: memory, config: {{name: {tmp_path}}}}}}}\n")
    manifest = reconciler.load(path)
    calls = counting("reconciler.model.names:_patterns_below")
    listed, number = list_tables(manifest, ["lake/t*"])
    assert (len(listed), number) == (30, 30)
    assert len(calls) < 10


def test_a_plan_of_jobs_is_checked_with_the_policies_of_each_catalog_once(tmp_path: Path, counting: Counting) -> None:
    path, backend = tmp_path / "lancens.yaml", registry.connect("memory", {"name": str(tmp_path)})
    policies = "policies: [{match: '**', maintain: {optimize_indices: {max_unindexed_rows: 5}}}]"
    lake = f"{{impl: memory, config: {{name: {tmp_path}}}, {policies}}}"
    path.write_text(f"version: 1\nname: shop\ncatalogs: {{lake: {lake}}}\n")
    for number in range(30):
        backend.insert_table((f"t{number}",), str(tmp_path / f"t{number}"), {})
    manifest = reconciler.load(path)
    plan = plan_maintenance(manifest)
    assert len(plan.blocked) == 30
    calls = counting("reconciler.planner.maintenance:Policies")
    maintain(plan, manifest, journal=tmp_path)
    assert len(calls) == 1


class Named(dict[Identifier, LiveTable]):
    """Tables that can be asked for by name alone."""

    def keys(self) -> NoReturn:
        raise AssertionError("the names were copied")


def test_the_names_of_a_catalog_are_not_copied_for_each_dataset_without_an_entry(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"t{number}.lance/_versions").mkdir(parents=True)
    live = Snapshot(tables=Named({("t0",): LiveTable(("t0",), "elsewhere")}))
    found = find_unregistered(DirBackend(root=str(tmp_path)), (), live, 1)
    assert sorted(found.tables) == [("t1",), ("t2",)]
    assert len(found.nameless) == 1


def test_the_columns_of_a_schema_are_not_copied_for_each_table() -> None:
    plan = plan_of(desired(table("a/x", schema=USERS), table("a/y", schema=USERS)), live())
    columns = [change.after_columns for change in plan.changes if change.kind == "table"]
    assert [each is USERS for each in columns] == [True, True]


@pytest.mark.parametrize("glob", ["**/t{}", "**/t{}_*", "**/*_t{}", "**/*_t{}_*", "a/*/t{}_?_x", "n{}/**"])
def test_a_name_is_compared_with_the_policies_that_share_a_part_with_it(glob: str, counting: Counting) -> None:
    globs = map(glob.format, range(100, 200))
    policies = Policies(tuple(DesiredPolicy(each, Scope((each,)), Source("m", 1), {"owner": each}) for each in globs))
    calls = counting("reconciler.model.globs:_name_pattern")
    for number in range(100, 200):
        policies.of((f"n{number}", "b", f"a_t{number}_b_x"))
    assert len(calls) <= 100


def test_the_globs_of_suppressions_are_read_once(counting: Counting) -> None:
    one = Suppressed(
        catalog="lake", rule="no-owner", match="a/**", reason="r", until=date(2030, 1, 1), source=Source("m", 1)
    )
    calls, suppressions = counting("reconciler.auditor.suppressions:Globs"), Suppressions([one], [])
    for number in range(30):
        finding = Finding(
            rule="no-owner",
            severity=Severity.NOTE,
            catalog="lake",
            namespace=("a",),
            name=f"t{number}",
            reason="r",
            remedy="",
        )
        assert suppressions.covering(finding) == 0
    assert len(calls) == 1


def test_a_long_text_is_measured_about_once(counting: Counting) -> None:
    calls = counting("rich.cells:cell_len")
    lines = wrap("ü" * 20_000, 80)
    assert len(lines) == 250
    assert sum(len(text) for text, *_ in calls) < 100_000


def test_test_cases_are_read_once() -> None:
    def cases() -> Iterator[JunitCase]:
        for number in range(6):
            yield JunitCase(f"s{number % 3}", f"case {number}", "")

    text = junit_xml("n", ["s0", "s1", "s2"], cases())
    assert text.count('tests="2"') == 3


def test_namespaces_are_asked_for_other_objects_without_a_look_at_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = DirBackend(root=str(tmp_path))
    for number in range(4):
        backend.insert_namespace((f"n{number}",), {})
    looked: list[int] = []
    directly_in = ManifestRows.directly_in

    def counted(rows: ManifestRows, parent: str) -> ManifestRows:
        looked.append(len(rows))
        return directly_in(rows, parent)

    monkeypatch.setattr(ManifestRows, "directly_in", counted)
    assert [backend.foreign_objects((f"n{number}",)) for number in range(4)] == [[], [], [], []]
    assert looked == [0, 0, 0, 0]
