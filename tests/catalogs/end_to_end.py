"""The life of an example's manifest, the same on every catalog: first plan, drift, edits, removal, import.

A folder joins with a module that holds ``class TestExample(EndToEnd)`` and a fixture ``example``, which places the
example where it can be applied and says what each stage comes to on that catalog. What only one catalog does stays in
its folder, with the helpers of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pytest
import yaml

import reconciler
from reconciler.applier.report import ApplyReport, Status
from reconciler.backends.base import Backend
from reconciler.namespace import CatalogNamespace
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from reconciler.writing import import_ as import_module
from reconciler.writing.grafting import graft
from tests.catalogs.columns import change_columns
from tests.catalogs.hive.files import digests
from tests.cli.running import lancens

__all__ = [
    "EndToEnd",
    "Example",
    "HeldNames",
    "Stage",
    "Step",
    "actions",
    "apply",
    "carried_out",
    "cut",
    "edit",
    "opened",
    "planned",
]

Step = tuple[str, Action]
"""A path below the catalog, and what happens to it."""


def planned(manifest: Path, *, allow_mass_removal: bool = False) -> Plan:
    """Return what there is to do."""
    return reconciler.plan(reconciler.load(manifest), allow_mass_removal=allow_mass_removal)


def carried_out(plan: Plan, manifest: Path, *, allow_mass_removal: bool = False) -> ApplyReport:
    """Apply ``plan``, and see that nothing is left to do."""
    report = reconciler.apply(plan, reconciler.load(manifest), allow_mass_removal=allow_mass_removal)
    assert report.ok, report
    assert {result.status for result in report.results} <= {Status.DONE}, report
    assert planned(manifest).changes == ()
    return report


def apply(manifest: Path, *, allow_mass_removal: bool = False) -> Plan:
    """Apply what is planned, see that nothing is left to do, and return what was planned."""
    made = planned(manifest, allow_mass_removal=allow_mass_removal)
    carried_out(made, manifest, allow_mass_removal=allow_mass_removal)
    return made


def edit(manifest: Path, *replacements: tuple[str, str]) -> None:
    """Replace texts in the manifest, each of which has to be there."""
    text = manifest.read_text("utf-8")
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    manifest.write_text(text, "utf-8")


def cut(manifest: Path, start: str) -> None:
    """Remove what stands in the manifest from ``start`` on."""
    text = manifest.read_text("utf-8")
    manifest.write_text(text[: text.index(start)], "utf-8")


def actions(plan: Plan) -> list[Step]:
    return [("/".join(change.identifier), change.action) for change in plan.changes]


def opened(backend: Backend, path: str) -> lance.LanceDataset:
    """Open a table as any client of a Lance namespace does."""
    return lance.dataset(namespace_client=CatalogNamespace(backend), table_id=path.split("/"))


def files(folder: Path | None) -> Mapping[str, str]:
    """Return a digest of every file in a folder that is on this machine."""
    return {} if folder is None else digests(folder)


@dataclass(frozen=True)
class Stage:
    """Something that happens to the manifest or the catalog, and what has to come of it.

    ``steps`` is the plan, in its order. ``shown`` is what the server itself shows of objects after that: None for an
    object, or for a property, that is not there. ``rows`` is how many rows tables have then.
    """

    steps: Sequence[Step]
    happens: Callable[[], object] = lambda: None
    allow_mass_removal: bool = False
    shown: Mapping[str, Mapping[str, str | None] | None] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """An example that is placed where it can be applied, and what its stages come to.

    Args:
        manifest: a copy of the example, in the current directory.
        look: what the server itself says of the object at a path, past lancens; None where there is nothing.
        open: the dataset of a table, as a client of the catalog finds it.
        raw: the folder of what was there before, where that is on this machine; nothing in it ever changes.
        data: the folder of everything, of which nothing changes when objects leave the manifest.
        first: everything is made; ``happens`` is nothing.
        edited: what is said of objects that stay is changed.
        drift: somebody else changes the catalog.
        removed: objects leave the manifest. They come back in ``returned``, of which only these steps are looked at.
        fill: puts objects into the catalog that the manifest does not know.
        imported: what a manifest that is written from the catalog then holds; ``hidden`` is what it does not.
        tables: tables, by path, that such a manifest wants.
        note: what is said of each table whose location the service chose, None where it chooses none.
        hold: makes a table of another kind at a path, past lancens, and returns what takes it away again.
    """

    manifest: Path
    look: Callable[[str], Mapping[str, Any] | None]
    open: Callable[[str], lance.LanceDataset]
    first: Stage
    edited: Stage
    drift: Stage
    removed: Stage
    returned: Sequence[Step]
    raw: Path | None = None
    data: Path | None = None
    fill: Callable[[], object] = lambda: None
    imported: Sequence[str] = ()
    hidden: Sequence[str] = ()
    tables: Sequence[str] = ()
    note: str | None = None
    hold: Callable[[str], Callable[[], object]] | None = None

    def see(self, stage: Stage) -> None:
        """See that the server shows what it has to after ``stage``."""
        for path, expected in stage.shown.items():
            there = self.look(path)
            assert (there is None) is (expected is None), (path, there)
            assert {key: (there or {}).get(key) for key in expected or ()} == (expected or {}), (path, there)
        assert {path: self.open(path).count_rows() for path in stage.rows} == stage.rows

    def go_through(self, stage: Stage) -> None:
        """Let happen what happens, apply what comes of it, and see that it is as it has to be."""
        stage.happens()
        assert actions(apply(self.manifest, allow_mass_removal=stage.allow_mass_removal)) == list(stage.steps)
        self.see(stage)


@contextmanager
def _edited(example: Example) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield the catalog's block to be edited, the path of a table in it that has data, and a place beside its data."""
    path = next(iter(example.first.rows))
    document = yaml.safe_load(example.manifest.read_text("utf-8"))
    [catalog] = document["catalogs"].values()
    yield catalog, path, example.open(path).uri.rstrip("/").rpartition("/")[0]
    example.manifest.write_text(yaml.safe_dump(document), "utf-8")


def _tables_beside(catalog: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the table blocks of the namespace that the table at ``path`` is in."""
    block = catalog
    for parent in path.split("/")[:-1]:
        block = block["namespaces"][parent]
    tables: dict[str, Any] = block["tables"]
    return tables


def _beside(path: str, name: str) -> str:
    return "/".join((*path.split("/")[:-1], name))


def _with_one_broken_and_one_new(example: Example) -> tuple[str, str]:
    """Ask for a column that a table's data does not have, and for a new table beside it; return the paths of both."""
    with _edited(example) as (catalog, path, place):
        tables, name = _tables_beside(catalog, path), path.rpartition("/")[2]
        tables[name] = {**(tables[name] or {}), "schema": [{"name": "not_there", "type": "int64"}]}
        tables["brand_new"] = {"location": f"{place}/brand_new.lance", "probe": False}
    return path, _beside(path, "brand_new")


class EndToEnd:
    """Through the public interface and the command line; every apply is followed by a plan that is empty."""

    def test_the_first_apply_makes_everything_and_the_second_nothing(self, example: Example) -> None:
        before = files(example.raw)
        plan = planned(example.manifest)
        assert actions(plan) == list(example.first.steps)
        notes = [result.note for result in carried_out(plan, example.manifest).results if result.note]
        assert bool(notes) is (example.note is not None), notes
        assert all((example.note or "") in note for note in notes), notes
        example.see(example.first)
        assert files(example.raw) == before

    def test_what_is_said_of_objects_is_changed_in_place(self, example: Example) -> None:
        apply(example.manifest)
        before = files(example.raw)
        example.go_through(example.edited)
        assert before.items() <= files(example.raw).items()

    def test_a_blocked_table_keeps_nothing_else_from_being_done(
        self, example: Example, capsys: pytest.CaptureFixture[str]
    ) -> None:
        apply(example.manifest)
        path, good = _with_one_broken_and_one_new(example)
        before = files(example.data)
        shown = lancens(capsys, "plan", "-o", "plan.json")
        assert shown.code == 3, shown
        assert "not_there" in shown.out
        assert (lancens(capsys, "drift").code, lancens(capsys, "plan").code) == (3, 3)
        refused = lancens(capsys, "apply", "plan.json", "--auto-approve")
        assert (refused.code, "--skip-blocked" in refused.err) == (3, True), refused
        assert example.look(good) is None
        skipped = lancens(capsys, "apply", "plan.json", "--auto-approve", "--skip-blocked")
        assert skipped.code == 0, skipped
        assert example.look(good) is not None
        left = planned(example.manifest)
        assert actions(left) == []
        assert ["/".join(one.identifier) for one in left.blocked] == [path]
        assert before.items() <= files(example.data).items()

    def test_drift_is_seen_and_repaired(self, example: Example, capsys: pytest.CaptureFixture[str]) -> None:
        apply(example.manifest)
        assert lancens(capsys, "drift").code == 0
        example.drift.happens()
        drift = lancens(capsys, "drift")
        assert drift.code == 2
        assert all(path in drift.out for path, _ in example.drift.steps)
        assert actions(apply(example.manifest)) == list(example.drift.steps)
        example.see(example.drift)

    def test_what_left_the_manifest_leaves_the_catalog_and_its_data_stays(self, example: Example) -> None:
        apply(example.manifest)
        whole = example.manifest.read_text("utf-8")
        before = files(example.data)
        gone = [path for path, action in example.removed.steps if action.removes]
        datasets = {path: example.open(path) for path in gone if path in example.first.rows}
        example.go_through(example.removed)
        assert [path for path in gone if example.look(path) is not None] == []
        assert files(example.data) == before
        for path, dataset in datasets.items():
            dataset.checkout_version(dataset.latest_version)
            assert dataset.count_rows() == example.first.rows[path]
        example.manifest.write_text(whole, "utf-8")
        assert set(example.returned) <= set(actions(planned(example.manifest)))

    def test_columns_change_in_the_manifest_and_in_the_data(self, example: Example) -> None:
        apply(example.manifest)
        change_columns(example.manifest, example.open)

    def test_an_imported_manifest_plans_to_nothing(self, example: Example, tmp_path: Path) -> None:
        apply(example.manifest)
        example.fill()
        imported = tmp_path / "imported.yaml"
        imported.write_text(reconciler.import_(reconciler.load(example.manifest)), "utf-8")
        text = imported.read_text("utf-8")
        assert [part for part in example.imported if part not in text] == []
        assert [part for part in example.hidden if part in text] == []
        [catalog] = reconciler.load(imported).catalogs.values()
        assert {tuple(path.split("/")) for path in example.tables} <= catalog.desired.tables.keys()
        assert planned(imported).changes == ()
        appended = import_module.import_with_counts(reconciler.load(example.manifest), _known(example.manifest))
        before = example.manifest.read_bytes()
        example.manifest.write_bytes(graft("lancens.yaml", before, appended.text))
        assert set(before.splitlines()) <= set(example.manifest.read_bytes().splitlines())
        assert planned(example.manifest).changes == ()


def _known(manifest: Path) -> import_module.ImportOptions:
    said = {name: one.desired for name, one in reconciler.load(manifest).catalogs.items()}
    return import_module.ImportOptions(extended=import_module.ExtendedManifest(said))


class HeldNames:
    """Names that tables of other kinds have, on the catalogs that hold such tables."""

    def test_a_name_that_another_table_holds_is_blocked_when_planning(
        self, example: Example, capsys: pytest.CaptureFixture[str]
    ) -> None:
        apply(example.manifest)
        with _edited(example) as (catalog, path, place):
            held, good = _beside(path, "held"), _beside(path, "brand_new")
            tables = _tables_beside(catalog, path)
            tables["held"] = {"location": f"{place}/held.lance", "schema": [{"name": "n", "type": "int64"}]}
            tables["brand_new"] = {"location": f"{place}/brand_new.lance", "probe": False}
        assert example.hold is not None
        take_away = example.hold(held)
        try:
            before, there = files(example.data), example.look(held)
            shown = lancens(capsys, "plan", "-o", "plan.json")
            assert shown.code == 3, shown
            assert "a table of another kind" in shown.out
            assert actions(planned(example.manifest)) == [(good, Action.DECLARE_TABLE)]
            skipped = lancens(capsys, "apply", "plan.json", "--auto-approve", "--skip-blocked")
            assert skipped.code == 0, skipped
            assert example.look(good) is not None
            assert example.look(held) == there
            assert before.items() <= files(example.data).items()
            assert actions(planned(example.manifest)) == []
        finally:
            take_away()
        assert actions(apply(example.manifest)) == [(held, Action.CREATE_TABLE)]

    def test_a_table_is_not_moved_to_a_name_that_another_table_holds(
        self, example: Example, capsys: pytest.CaptureFixture[str]
    ) -> None:
        apply(example.manifest)
        with _edited(example) as (catalog, path, _):
            held, tables = _beside(path, "held"), _tables_beside(catalog, path)
            tables["held"] = tables.pop(path.rpartition("/")[2])
            catalog["moved"] = [{"from": path, "to": held}]
        assert example.hold is not None
        take_away = example.hold(held)
        try:
            there = example.look(held)
            assert lancens(capsys, "plan", "-o", "plan.json").code == 3
            skipped = lancens(capsys, "apply", "plan.json", "--auto-approve", "--skip-blocked")
            assert skipped.code == 0, skipped
            left = planned(example.manifest)
            assert (actions(left), ["/".join(one.identifier) for one in left.blocked]) == ([], [held])
            assert "of another kind already has this name" in left.blocked[0].reason
            assert (example.look(held), example.look(path) is None) == (there, False)
        finally:
            take_away()
        assert actions(apply(example.manifest)) == [(held, Action.MOVE_TABLE)]
        assert example.open(held).count_rows() == example.first.rows[path]
