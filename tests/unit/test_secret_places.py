"""A location from the environment or a file is shown as the manifest says it, and compared by value."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest

import reconciler
from reconciler.operations.listing import list_tables
from reconciler.output import render
from reconciler.planner.placeholders import location_hider
from reconciler.planner.plan import Plan
from tests.cli.running import lancens

MANIFEST = """\
version: 1
name: shop
catalogs:
  lake:
    impl: dir
    config: {root: "${env:LANCENS_TEST_ROOT}/lake"}
    namespaces:
      a:
        tables:
          t: {schema: [{name: id, type: int64}]}
          u: {location: "${env:LANCENS_TEST_ROOT}/lake/own/u.lance", schema: [{name: id, type: int64}]}
"""


OWN = "${env:LANCENS_TEST_ROOT}/lake/own/u.lance"


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANCENS_TEST_ROOT", str(tmp_path / "swordfish"))
    (tmp_path / "lancens.yaml").write_text(MANIFEST)
    return tmp_path / "lancens.yaml"


def pages(plan: Plan) -> str:
    return "".join([plan.to_json(), *(render(plan, form, full=True) for form in ("text", "markdown", "html"))])


def test_it_is_shown_as_it_is_written_and_carried_out_as_what_it_stands_for(manifest: Path) -> None:
    loaded = reconciler.load(manifest)
    plan = reconciler.plan(loaded)
    assert "swordfish" not in pages(plan)
    assert OWN in render(plan, "text")
    saved = Plan.from_json(plan.to_json())
    assert reconciler.apply(saved, loaded, journal=manifest.parent / "journals").ok
    assert (manifest.parent / "swordfish/lake/own/u.lance").exists()
    assert reconciler.plan(loaded).is_empty

    manifest.write_text(MANIFEST.replace("u: {location", "# u: {location"))
    loaded = reconciler.load(manifest)
    plan = reconciler.plan(loaded)
    assert "swordfish" not in pages(plan)
    assert f"data stays at {OWN}" in render(plan, "text")
    assert reconciler.apply(Plan.from_json(plan.to_json()), loaded, journal=manifest.parent / "journals").ok


def test_a_property_with_the_text_of_a_location_is_shown_as_it_is(tmp_path: Path) -> None:
    manifest, root = tmp_path / "lancens.yaml", str(tmp_path / "lake")
    for value in (f"{root}/raw", "./lake/raw", f"{root}/other"):
        table = f"{{properties: {{raw: {value}}}}}"
        config = f"{{lake: {{impl: dir, config: {{root: ./lake}}, namespaces: {{a: {{tables: {{t: {table}}}}}}}}}}}"
        manifest.write_text(f"version: 1\nname: shop\ncatalogs: {config}\n")
        loaded = reconciler.load(manifest)
        plan = reconciler.plan(loaded)
        assert [field.after for change in plan.changes for field in change.fields] in ([], [value])
        saved = Plan.from_json(plan.to_json())
        assert reconciler.apply(saved, loaded, journal=tmp_path / "journals").ok
        assert reconciler.plan(loaded).is_empty


@pytest.mark.parametrize("root", ["./lake", "${env:LANCENS_TEST_ROOT}"])
@pytest.mark.parametrize("select", [[], ["prod/**"]])
def test_a_location_below_the_root_of_a_catalog_without_changes(
    tmp_path: Path, root: str, select: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCENS_TEST_ROOT", str(tmp_path / "lake"))
    manifest, table = tmp_path / "lancens.yaml", f"{{u: {{location: {tmp_path}/lake/own/u}}}}"
    prod = f"{{impl: memory, config: {{name: {tmp_path}}}, tables: {table}}}"
    lake = f"{{impl: dir, config: {{root: '{root}'}}}}"
    manifest.write_text(f"version: 1\nname: shop\ncatalogs: {{lake: {lake}, prod: {prod}}}\n")
    loaded = reconciler.load(manifest)
    plan = reconciler.plan(loaded, select=select)
    assert f"{root}/own/u" in pages(plan)
    assert str(tmp_path / "lake") not in pages(plan)
    assert reconciler.apply(Plan.from_json(plan.to_json()), loaded, journal=tmp_path / "journals").ok
    assert reconciler.plan(loaded).is_empty
    listed, _ = list_tables(loaded, ["prod/**"])
    assert [one.location for one in listed] == [f"{root}/own/u"]
    if "$" in root:
        assert f"{root}/own/u" in reconciler.import_(loaded, catalog="prod")


@pytest.mark.parametrize("form", ["file://{}/lake", "{}//lake/", "{}/./lake"])
def test_a_root_in_another_form_than_its_tables(manifest: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCENS_TEST_ROOT", form.format(manifest.parent))
    for text in (MANIFEST, MANIFEST.replace("t: {schema", "t: {evolve: additive, properties: {a: b}, schema")):
        manifest.write_text(text)
        loaded = reconciler.load(manifest)
        plan = reconciler.plan(loaded)
        assert reconciler.apply(Plan.from_json(plan.to_json()), loaded, journal=manifest.parent / "journals").ok
        assert reconciler.plan(loaded).is_empty


def test_a_plan_for_one_place_is_not_carried_out_at_another(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = reconciler.plan(reconciler.load(manifest))
    monkeypatch.setenv("LANCENS_TEST_ROOT", str(manifest.parent / "elsewhere"))
    with pytest.raises(reconciler.StalePlanError):
        reconciler.apply(plan, reconciler.load(manifest), journal=manifest.parent / "journals")
    assert not (manifest.parent / "elsewhere").exists()


def test_a_plan_that_was_edited_is_refused(manifest: Path) -> None:
    loaded = reconciler.load(manifest)
    text = reconciler.plan(loaded).to_json().replace("}/lake/own/u.lance", "}/lake/other/u.lance")
    with pytest.raises(reconciler.PlanFileError):
        Plan.from_json(text)


def test_no_command_shows_it(
    manifest: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(manifest.parent)
    said = [
        lancens(capsys, "validate"),
        lancens(capsys, "plan", "-o", "plan.json"),
        lancens(capsys, "show", "plan.json"),
        lancens(capsys, "apply", "plan.json", "--auto-approve"),
        lancens(capsys, "drift"),
        lancens(capsys, "import", "lancens.yaml"),
        lancens(capsys, "import", "lancens.yaml", "-o", "imported.yaml"),
        lancens(capsys, "plan", "imported.yaml"),
    ]
    assert not [ran for ran in said if "swordfish" in ran.out + ran.err]
    assert "swordfish" not in Path("plan.json").read_text() + Path("imported.yaml").read_text()
    assert "No changes" in said[-1].out
    assert os.environ["LANCENS_TEST_ROOT"].endswith("swordfish")


@pytest.mark.parametrize("root", ["./${var:stage}/lake", "${var:stage}", "./a$${b}", "${var:folder}/lake", "./lake"])
def test_an_import_writes_locations_below_the_root_as_its_text(tmp_path: Path, root: str) -> None:
    columns, variables = "schema: [{name: id, type: int64}]", {"stage": "dev", "folder": str(tmp_path)}
    block = f"{{impl: dir, config: {{root: '{root}'}}, tables: {{t: {{location: '{root}/own/t', {columns}}}}}}}"
    path, imported = tmp_path / "lancens.yaml", tmp_path / "imported.yaml"
    path.write_text(f"version: 1\nname: shop\ncatalogs: {{lake: {block}}}\n")
    given = {name: value for name, value in variables.items() if f"${{var:{name}}}" in root}
    manifest = reconciler.load(path, variables=given)
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journals").ok
    imported.write_text(reconciler.import_(manifest))
    assert f"{root}/own/t" in imported.read_text()
    assert reconciler.plan(reconciler.load(imported, variables=given)).is_empty


def test_a_fleet_below_one_root_has_one_place_and_one_slow_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: list[bytes] = []

    def counted(text: bytes, **_: object) -> bytes:
        slow.append(text)
        return b""

    monkeypatch.setattr("hashlib.scrypt", counted)
    monkeypatch.setenv("LANCENS_TEST_ROOT", f"s3://{tmp_path.name}/{uuid.uuid4().hex}")
    tables = "".join(f"t{n}: {{location: '${{env:LANCENS_TEST_ROOT}}/own/t{n}.lance'}}, " for n in range(50))
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(f"version: 1\nname: shop\ncatalogs: {{lake: {{impl: memory, tables: {{{tables}}}}}}}\n")
    places = reconciler.load(manifest).catalogs["lake"].hidden_locations
    assert (len(slow), list(places.values())) == (1, ["${env:LANCENS_TEST_ROOT}"])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("s3://b/x", "${env:LANCENS_TEST_ROOT}"),
        ("s3://b", "${env:LANCENS_TEST_ROOT}/../c/x"),
        ("s3", "${env:LANCENS_TEST_ROOT}://b/x"),
        ("", "${env:LANCENS_TEST_ROOT}/b/x"),
        ("/", "${env:LANCENS_TEST_ROOT}/b/x"),
        ("s3://b", "${env:LANCENS_TEST_ROOT}/a$${b}"),
    ],
)
def test_a_place_is_the_whole_location_where_no_directory_is_from_outside(
    tmp_path: Path, value: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCENS_TEST_ROOT", value)
    manifest, table = tmp_path / "lancens.yaml", f"{{t: {{location: '{written}'}}}}"
    manifest.write_text(f"version: 1\nname: shop\ncatalogs: {{lake: {{impl: memory, tables: {table}}}}}\n")
    lake = reconciler.load(manifest).catalogs["lake"]
    assert lake.hidden_locations == {lake.desired.tables["t",].location: written}


@pytest.mark.parametrize("place", ["${file:root}", "${env:LANCENS_TEST_ROOT}"])
@pytest.mark.parametrize("impl", ["dir", "memory"])
@pytest.mark.parametrize("select", [[], ["a/**"]])
def test_one_text_in_two_folders_stands_for_two_places(
    tmp_path: Path, place: str, impl: str, select: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCENS_TEST_ROOT", "swordfish")
    columns, manifest = "schema: [{name: id, type: int64}]", tmp_path / "lancens.yaml"
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        (folder / "root").write_text(f"{folder}/swordfish")
        config = f"{{root: '{place}'}}" if impl == "dir" else f"{{name: '{folder}'}}"
        table = f"{{location: '{place}/t{name}', {columns}}}"
        catalog = f"{{impl: {impl}, config: {config}, tables: {{t{name}: {table}}}}}"
        (folder / "part.yaml").write_text(f"version: 1\ncatalogs: {{{name}: {catalog}}}\n")
    manifest.write_text("version: 1\nname: shop\ninclude: [a/part.yaml, b/part.yaml]\n")
    for more in ("properties: {x: y}, ", ""):
        loaded = reconciler.load(manifest)
        plan = reconciler.plan(loaded, select=select)
        assert "swordfish" not in pages(plan)
        assert reconciler.apply(Plan.from_json(plan.to_json()), loaded, journal=tmp_path / "journals").ok
        for part in tmp_path.glob("*/part.yaml"):
            part.write_text(part.read_text().replace("{location", f"{{{more}location"))
    assert (tmp_path / "a/swordfish/ta").exists()
    if "file" in place:
        imported = tmp_path / "imported.yaml"
        imported.write_text(reconciler.import_(reconciler.load(manifest), catalog="b"))
        assert reconciler.plan(reconciler.load(imported)).is_empty


@pytest.mark.parametrize("text", ["lake/data/users", "s3://b/data/users", "https://host/data", "/database", "a-/data"])
def test_the_end_of_another_name_is_no_place(text: str) -> None:
    assert location_hider({"/data": "${env:ROOT}"})(text) == text


@pytest.mark.parametrize("text", ["{}", "`{}`", "file://{}/a", "file://localhost{}/a", json.dumps("there:\n{}/a")])
def test_a_path_is_hidden_wherever_it_begins(text: str) -> None:
    assert location_hider({"/data": "${env:ROOT}"})(text.format("/data")) == text.format("${env:ROOT}")


def test_a_plan_that_needs_the_root_of_another_catalog_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCENS_TEST_ROOT", str(tmp_path / "lake"))
    manifest, table = tmp_path / "lancens.yaml", f"{{u: {{location: {tmp_path}/lake/own/u}}}}"
    prod = f"{{impl: memory, config: {{name: {tmp_path}}}, tables: {table}}}"
    lake = "{impl: dir, config: {root: '${env:LANCENS_TEST_ROOT}'}}"
    manifest.write_text(f"version: 1\nname: shop\ncatalogs: {{lake: {lake}, prod: {prod}}}\n")
    loaded = reconciler.load(manifest)
    plan = reconciler.plan(loaded)
    monkeypatch.delenv("LANCENS_TEST_ROOT")
    with pytest.raises(reconciler.ManifestError, match="LANCENS_TEST_ROOT"):
        reconciler.apply(plan, loaded, journal=tmp_path / "journals")
