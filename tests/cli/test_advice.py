"""What a plan advises is done as it says, and then there is nothing more to do."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from reconciler.backends import registry
from tests.cli.running import lancens

MANIFEST = "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
TABLE = "schema: [{name: id, type: int64}]"


def note(capsys: pytest.CaptureFixture[str], code: str) -> str:
    """Return what the only note with this code says in the text of a plan, which has it in the same words."""
    plan = json.loads(lancens(capsys, "plan", "--format", "json", "--allow-mass-removal").out)
    [found] = [each["message"] for each in plan["notes"] if each["code"] == code]
    assert found in " ".join(lancens(capsys, "plan", "--allow-mass-removal").out.split()), (
        "calls are on their own lines"
    )
    return str(found)


def locations(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, str]:
    found = json.loads(lancens(capsys, "list", *options, "--format", "json").out)
    return {each["address"]: each["location"] for each in found}


def test_a_protected_table_is_renamed_as_the_note_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = folder / "lancens.yaml"
    blocks = f"    namespaces: {{features: {{tables: {{NAME: {{{TABLE}, protect: true}}}}}}}}\n"
    manifest.write_text(MANIFEST + blocks.replace("NAME", "people"))
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    before = locations(capsys)
    manifest.write_text(MANIFEST + blocks.replace("NAME", "clients"))
    advice = note(capsys, "protected-rename-likely")
    [line] = re.findall(r"moved: \[.*\]$", advice)
    assert "write `protect: false` in the block of features/clients" in advice
    moved = f"{MANIFEST}    {line}\n{blocks.replace('NAME', 'clients')}"
    manifest.write_text(moved.replace("protect: true", "protect: false"))
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert [*locations(capsys).items()] == [("lake/features/clients", before["lake/features/people"])]
    manifest.write_text(moved)
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert lancens(capsys, "drift").code == 0


def test_a_rename_that_removes_too_much_is_done_as_the_error_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = folder / "lancens.yaml"
    tables = ", ".join(f"t{number}: {{{TABLE}}}" for number in range(10))
    blocks = f"    namespaces: {{NAME: {{tables: {{{tables}}}}}}}\n"
    manifest.write_text(MANIFEST + blocks.replace("NAME", "old"))
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    before = {*locations(capsys).values()}
    manifest.write_text(MANIFEST + blocks.replace("NAME", "new"))
    refused = lancens(capsys, "plan")
    assert refused.code == 1
    line = refused.err.rstrip().splitlines()[-1].partition("in the catalog's block: ")[2]
    assert line in refused.out, "the plan above has printed it"
    manifest.write_text(f"{MANIFEST}    {line}\n{blocks.replace('NAME', 'new')}")
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert {*locations(capsys).values()} == before
    assert lancens(capsys, "drift").code == 0


def test_the_next_command_of_a_plan_is_carried_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the options that the plan needs, also where something is blocked and too much is removed."""
    options = ("--var-file", "prod.vars.yaml", "--var", "team=a b", "--allow-mass-removal")
    for name, text in (("lake", "x"), ("taken", "not Lance")):
        (folder / name).mkdir()
        (folder / name / "x.bin").write_text(text)
    (folder / "prod.vars.yaml").write_text("root: ./lake\n")
    (folder / "prod.yaml").write_text(
        MANIFEST.replace("./lake", '"${var:root}"').replace("shop", '"${var:team}"')
        + f"    namespaces: {{a: {{tables: {{t: {{{TABLE}}}, u: {{{TABLE}}}, v: {{location: ./lake/taken}}}}}}}}\n"
    )
    (folder / "taken").rename(folder / "lake/taken")
    planned = lancens(capsys, "plan", "prod.yaml", *options, "--exclude", "lake/a/u", "-o", "plan.json")
    assert planned.code == 3
    [command] = re.findall("`lancens (.*?)`", planned.err)
    assert "applies exactly this plan, and leaves 1 blocked object unchanged" in planned.err
    ran = lancens(capsys, *shlex.split(command), "--auto-approve")
    assert (ran.code, "Applied 2 of 2 changes" in ran.out) == (0, True), ran.err
    assert [*locations(capsys, "--manifest", "prod.yaml", *options[:-1])] == ["lake/a/t"]
    (folder / "prod.yaml").write_text(MANIFEST.replace("./lake", '"${var:root}"').replace("shop", '"${var:team}"'))
    planned = lancens(capsys, "plan", "prod.yaml", *options, "-o", "plan.json")
    [command] = re.findall("`lancens (.*?)`", planned.err)
    assert lancens(capsys, *shlex.split(command), "--auto-approve").code == 0
    assert not locations(capsys, "--manifest", "prod.yaml", *options[:-1])


def test_commands_in_notes_show_and_add_what_they_are_about(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lancens.yaml").write_text(f"{MANIFEST}    namespaces: {{a: {{}}, b: {{}}}}\n")
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    backend = registry.connect("dir", {"root": str(folder / "lake")})
    for name in (("a", "x"), ("a", "y")):
        backend.insert_table(name, str(folder / f"lake/{name[1]}.lance"), {})
    [command] = re.findall("`lancens (.*?)`", note(capsys, "unmanaged"))
    assert "2 of 2 tables" in lancens(capsys, *shlex.split(command)).out


def test_what_a_note_adds_is_added_to_the_manifest_of_the_plan(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its name is, with the blocks in files that it includes."""
    (folder / "my teams").mkdir()
    top, path = MANIFEST.partition("catalogs:")[0], folder / "my teams/prod.yaml"
    path.write_text(f"{top}include: [ads.yaml, copy.yaml]\n")
    lake = MANIFEST.partition("name: shop\n")[2].replace("./lake", "../lake")
    blocks = f"    namespaces: {{features: {{tables: {{NAME: {{{TABLE}}}}}}}}}\n"
    copied = "catalogs: {copy: {impl: dir, config: {root: ..}MIRROR}}\n"
    (folder / "my teams/ads.yaml").write_text(lake + blocks.replace("NAME", "people"))
    (folder / "my teams/copy.yaml").write_text(copied.replace("MIRROR", ", mirror: {from: lake}"))
    manifest = str(path.relative_to(folder))
    assert lancens(capsys, "apply", manifest, "--auto-approve").code == 0
    moved = "    moved: [{from: features/people, to: features/clients}]\n"
    (folder / "my teams/ads.yaml").write_text(lake + moved + blocks.replace("NAME", "clients"))
    assert lancens(capsys, "apply", manifest, "--auto-approve").code == 0
    (folder / "my teams/copy.yaml").write_text(copied.replace("MIRROR", ""))
    notes = json.loads(lancens(capsys, "plan", manifest, "--format", "json").out)["notes"]
    commands = [each for note in notes for each in re.findall("`lancens (import .*?)`", note["message"])]
    assert len(commands) == 2
    for command in commands:
        assert lancens(capsys, *shlex.split(command)).code == 0
    assert lancens(capsys, "apply", manifest, "--auto-approve").code == 0
    notes = json.loads(lancens(capsys, "plan", manifest, "--format", "json").out)["notes"]
    assert [note["code"] for note in notes] == ["move-done"]


@pytest.mark.parametrize("manifests", [["prod.yaml"], ["fleet"], ["fleet/a.yaml", "fleet/b.yaml"]])
def test_commands_in_notes_and_remedies_find_the_manifest_of_the_plan(
    folder: Path, capsys: pytest.CaptureFixture[str], manifests: list[str]
) -> None:
    """They have its files and variables, as a plan prints them, and as the apply of a saved plan does."""
    top, catalogs = MANIFEST.replace("./lake", '"../${var:root}"').split("catalogs:")
    blocks = f"    namespaces: {{a: {{tables: {{x: {{{TABLE}}}, y: {{}}}}}}}}\n"
    moved = "    moved: [{from: a/old, to: a/x}]\n"
    (folder / "fleet").mkdir()
    for name, text in {
        "prod.yaml": f"{top}include: [fleet/b.yaml]\ncatalogs: {{lake: {{}}}}\n",
        "fleet/a.yaml": top,
        "fleet/b.yaml": f"catalogs:{catalogs}{blocks.replace('x:', 'old:')}",
        "prod.vars.yaml": "root: lake\n",
    }.items():
        (folder / name).write_text(text)
    options = ("--var-file", "prod.vars.yaml")
    assert lancens(capsys, "apply", *manifests, *options, "--auto-approve").code == 0
    (folder / "fleet/b.yaml").write_text(f"catalogs:{catalogs}{moved}{blocks}")
    assert lancens(capsys, "apply", *manifests, *options, "--auto-approve").code == 0
    backend = registry.connect("dir", {"root": str(folder / "lake")})
    backend.insert_table(("a", "z"), str(folder / "lake/z.lance"), {})
    (folder / "fleet/b.yaml").write_text(f"catalogs:{catalogs}{moved}{blocks.replace('y:', 'new: {}, y:')}")
    planned = lancens(capsys, "plan", *manifests, *options, "-o", "plan.json").out
    applied = lancens(capsys, "apply", "plan.json", *options, "--auto-approve").out
    # A saved plan has its files, and not which of them includes the others.
    for printed in [planned] if manifests[0].startswith("fleet") else [planned, applied]:
        commands = re.findall("`lancens (.*?)`", " ".join(printed.split()))
        assert {command.split()[0] for command in commands} == {"list", "import"}
        for command in commands:
            ran = lancens(capsys, *shlex.split(command))
            assert ran.code == 0, (command, ran.err)
    assert any("location:" in path.read_text() for path in folder.rglob("*.yaml"))


@pytest.mark.parametrize("out", ["lancens.yaml", "my prod.yaml"])
@pytest.mark.usefixtures("folder")
def test_a_first_manifest_is_planned_and_added_to_as_init_says(capsys: pytest.CaptureFixture[str], out: str) -> None:
    Path("lancens.yaml").unlink(missing_ok=True)
    for option in (["--demo"], []):
        [command] = re.findall("`lancens (.*?)`", lancens(capsys, "init", *option, "-o", out).err)
        ran = lancens(capsys, *shlex.split(command))
        assert (ran.code, f"{Path.cwd().name} on lake" in ran.out or not option) == (0, True), ran.err
        Path(out).unlink()
