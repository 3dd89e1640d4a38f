"""Apply on a directory of real Lance datasets."""

from __future__ import annotations

import hashlib
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler import storage
from reconciler.applier.report import ApplyReport, Status
from reconciler.arrow_types import from_arrow_schema
from reconciler.model.errors import StalePlanError
from reconciler.planner.plan import Plan
from tests.writing import load_text

HEAD = """
version: 1
name: store
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      features:
        tables:
"""
USERS = "          users: {schema: [{name: id, type: int64, nullable: false}]}\n"
WIDER = (
    "          users: {evolve: additive, "
    "schema: [{name: id, type: int64, nullable: false}, {name: email, type: string}]}\n"
)


class Project:
    """A folder with a manifest and the lake beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = folder / "lake"

    def write(self, tables: str) -> reconciler.Manifest:
        return load_text(self.folder, HEAD + tables)

    def apply(self, tables: str) -> ApplyReport:
        manifest = self.write(tables)
        return reconciler.apply(reconciler.plan(manifest), manifest, journal=self.folder / "journals")

    def location_of_users(self) -> str:
        plan = reconciler.plan(self.write("          users: {properties: {asked: '1'}}\n"))
        [view] = [change.before or change.after for change in plan.changes if change.kind == "table"]
        assert view is not None
        assert view.location is not None
        assert view.location.startswith("./lake/"), "a relative root is shown as seen from the manifest's folder"
        return str(self.folder / view.location)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "lake").mkdir()
    return Project(tmp_path)


def files_of(folder: Path) -> dict[str, str]:
    """The data files below a folder, with a digest of each; the catalog's own are left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__manifest" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found if path.name[0] != "."}


def test_a_created_table_can_be_written_to_grows_a_column_and_keeps_its_rows(project: Project) -> None:
    assert project.apply(USERS).ok
    location = project.location_of_users()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    lance.write_dataset(pa.table({"id": [1, 2]}, schema=schema), location, mode="append")
    report = project.apply(WIDER)
    assert [result.status for result in report.results] == [Status.DONE]
    assert lance.dataset(location).to_table().to_pydict() == {"id": [1, 2], "email": [None, None]}
    assert reconciler.plan(project.write(WIDER)).is_empty


def test_a_dataset_written_by_a_run_that_was_cut_off_is_registered_as_it_is(project: Project) -> None:
    manifest = project.write(USERS)
    plan = reconciler.plan(manifest)
    location = project.location_of_users()
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    storage.create_empty(location, from_arrow_schema(columns), {})
    before = files_of(project.lake)
    assert reconciler.apply(plan, manifest, journal=project.folder / "journals").ok
    assert files_of(project.lake) == before
    assert reconciler.plan(project.write(USERS)).is_empty


def test_deregistering_leaves_every_byte(project: Project) -> None:
    project.apply(USERS)
    before = files_of(project.lake)
    assert before
    report = project.apply("          users: {absent: true}\n")
    assert [result.status for result in report.results] == [Status.DONE]
    assert before.items() <= files_of(project.lake).items()


def test_a_saved_plan_that_was_overtaken_is_refused_and_names_what_moved(project: Project) -> None:
    project.apply("          users: {properties: {tier: gold}}\n")
    manifest = project.write("          users: {properties: {tier: silver}}\n")
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    project.apply("          users: {properties: {tier: bronze}}\n")
    with pytest.raises(StalePlanError, match=r"properties\.tier +planned on gold"):
        reconciler.apply(saved, project.write("          users: {properties: {tier: silver}}\n"))
