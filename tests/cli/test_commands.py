"""Every command, with good input and with bad, as a person at a terminal meets it."""

from __future__ import annotations

import io
import json
import re
import stat
from importlib.util import find_spec
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.cli.running import lancens

MANIFEST = """\
version: 1
name: store
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      features:
        tables:
          users: {schema: [{name: id, type: int64}], properties: {tier: gold}}
          events: {}
"""


def test_plan_apply_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = lancens(capsys, "plan")
    assert planned.code == 0
    assert "Plan: 2 to create, 1 to declare, 0 to " in planned.out
    assert planned.out.rstrip().endswith("No data is deleted.")
    assert not (folder / "lake").exists()

    applied = lancens(capsys, "apply", "--auto-approve")
    assert applied.code == 0, applied
    assert "Applied 3 of 3 changes" in applied.out
    root = folder / "lake"
    assert {path.name for path in root.iterdir()} > {"__manifest"}

    again = lancens(capsys, "plan", "--detailed-exitcode")
    assert again.code == 0
    assert "\n\nNo changes." in again.out


def test_a_summary_has_a_line_for_each_object(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        "store on lake (dir, ./lake)",
        "",
        "lake  2 to create, 1 to declare",
        "  + lake/features         namespace",
        "  + lake/features/events  declare",
        "  + lake/features/users   create",
    ]
    for command in ("plan", "drift", "apply"):
        arguments = ("--auto-approve",) if command == "apply" else ()
        assert lancens(capsys, command, "--summary", *arguments).out.splitlines()[:6] == lines
    for wrong in (("--full",), ("--format", "json"), ("-o", "-")):
        refused = lancens(capsys, "plan", "--summary", *wrong)
        assert (refused.code, "--summary goes with" in refused.err) == (1, True)


def test_the_help_has_options_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """The options of commands that read a manifest are too many for one list."""
    commands = re.findall(r"^  ([a-z]+)  ", lancens(capsys, "--help").out.partition("Commands:")[2], re.MULTILINE)
    helps = {command: lancens(capsys, command, "--help").out for command in commands}
    many = {command: shown for command, shown in helps.items() if "--allow-host" in shown}
    assert {"plan", "list", "serve"} <= many.keys()
    for shown in many.values():
        titles = [line for line in shown.splitlines() if line in ("What:", "Safety:", "Output:", "Access:", "Other:")]
        assert titles == sorted(titles, key=["What:", "Safety:", "Output:", "Access:", "Other:"].index)
        others = [line for line in shown.partition("Other:\n")[2].splitlines() if line.startswith("  -")]
        assert (len(others), "--help" in others[0]) == (1, True), "each option has a group"


def test_no_line_of_a_help_ends_within_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = lancens(capsys, "audit", "--help").out
    assert "missing-files,\n  short-files," in shown
    assert [line for line in shown.splitlines() if line.endswith("-")] == []


def test_where_an_audit_works_is_not_told_before_its_arguments_are_right(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "--engine local saves" if find_spec("pyspark") else "PySpark is not installed"
    assert told in lancens(capsys, "audit").err
    for wrong in (("nowhere.yaml",), ("--impl", "dir"), ("--since-last",)):
        assert told not in lancens(capsys, "audit", *wrong).err
    assert told not in lancens(capsys, "inventory", "nowhere.yaml").err


def test_what_is_excluded_stays_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    away = "  prod:\n    impl: rest\n    config: {uri: 'http://127.0.0.1:1'}\n    namespaces: {a: {}}\n"
    Path("lancens.yaml").write_text(MANIFEST + away)
    for globs, said in (
        (("prod/**", "lake/features/user"), "`lake/features/user` matches no namespace and no table"),
        (("prod/**", "other/**"), "`other/**` matches no"),
        (("**",), "`--exclude` leaves nothing\n"),
    ):
        refused = lancens(capsys, "plan", *(word for glob in globs for word in ("--exclude", glob)))
        assert (refused.code, said in refused.err) == (1, True), refused.err
    for command in ("plan", "drift"):
        for selected in ("lake/features/users", "*/*/users"):
            refused = lancens(capsys, command, "--select", selected, "--exclude", "lake/*/users", "--exclude", "prod")
            assert (refused.code, "leaves nothing of what `--select` names" in refused.err) == (1, True), refused.err
    excluded = ("--exclude", "prod/**", "--exclude", "lake/features/users")
    planned = lancens(capsys, "plan", *excluded, "--select", "**", "-o", "plan.json")
    assert (planned.code, "Plan: 1 to create, 1 to declare" in planned.out) == (0, True), planned
    where = "store on lake (dir, ./lake); only **; without prod/**, lake/features/users"
    assert planned.out.splitlines()[0] == where
    assert lancens(capsys, "apply", "plan.json", *excluded).code == 1
    assert lancens(capsys, "apply", "plan.json", "--auto-approve").code == 0
    assert lancens(capsys, "drift", *excluded).code == 0


def test_a_profile_says_where_the_time_went(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = lancens(capsys, "plan", "--profile", "profile.json")
    assert done.code == 0
    assert "Plan: 2 to create" in done.out
    profile = json.loads((folder / "profile.json").read_text())
    assert profile["format_version"] == "1.0"
    read = ["manifest", "scan", "questions", "compare", "storage", "order", "removed data", "output"]
    assert [stage["stage"] for stage in profile["stages"]] == read
    assert all("calls" not in stage for stage in profile["stages"]), "what pylance reads is not counted"
    of_catalog = [stage["stage"] for stage in profile["stages"] if stage.get("catalog") == "lake"]
    assert of_catalog == ["scan", "questions", "compare", "storage"]
    assert 0 < sum(stage["seconds"] for stage in profile["stages"]) <= profile["seconds"]
    refused = lancens(capsys, "plan", "--engine", "spark", "--profile", "other.json")
    assert refused.code != 0
    assert "--profile is for --engine local" in refused.err
    assert not (folder / "other.json").exists()


def test_detailed_exitcode_and_drift_tell_changes_from_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "plan", "--detailed-exitcode").code == 2
    assert lancens(capsys, "drift").code == 2
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert lancens(capsys, "drift").code == 0


def test_a_saved_plan_is_shown_and_applied_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = lancens(capsys, "plan", "-o", "plan.json")
    assert "lancens apply plan.json" in saved.err
    shown = lancens(capsys, "show", "plan.json")
    assert shown.out == saved.out
    assert json.loads(lancens(capsys, "show", "plan.json", "--format", "json").out)["format_version"] == "1.0"
    assert lancens(capsys, "apply", "plan.json", "--auto-approve").code == 0
    assert lancens(capsys, "drift").code == 0


def test_a_saved_plan_is_refused_when_something_moved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    (folder / "lancens.yaml").write_text(MANIFEST.replace("gold", "silver"))
    lancens(capsys, "plan", "-o", "plan.json")
    (folder / "lancens.yaml").write_text(MANIFEST.replace("gold", "bronze"))
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    (folder / "lancens.yaml").write_text(MANIFEST.replace("gold", "silver"))
    refused = lancens(capsys, "apply", "plan.json", "--auto-approve")
    assert refused.code == 1
    assert "1 of 2 objects changed" in refused.err
    assert "lake/features/users" in refused.err
    assert "planned on gold, now bronze" in refused.err
    assert "Nothing was changed." in refused.err


def test_a_saved_plan_is_refused_when_its_manifest_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lancens(capsys, "plan", "-o", "plan.json")
    (folder / "lancens.yaml").write_text(MANIFEST.replace("gold", "silver"))
    refused = lancens(capsys, "apply", "plan.json", "--auto-approve")
    assert refused.code == 1
    assert "the manifest has changed since" in refused.err
    assert not (folder / "lake").exists()


def test_files_are_named_from_the_current_folder_in_errors_plans_and_saved_plans(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "conf/teams").mkdir(parents=True)
    (folder / "conf/prod.yaml").write_text(MANIFEST.partition("    namespaces")[0] + "include: [teams/*.yaml]\n")
    team = folder / "conf/teams/a.yaml"
    team.write_text("catalogs: {lake: {namespaces: {a: {tables: {t: {}}}}}}\n")
    saved = lancens(capsys, "plan", "conf/prod.yaml", "-o", "plan.json")
    assert "conf/teams/a.yaml:1" in saved.out
    assert json.loads((folder / "plan.json").read_text())["manifest"]["files"] == [
        "conf/prod.yaml",
        "conf/teams/a.yaml",
    ]
    assert lancens(capsys, "apply", "plan.json", "--auto-approve").code == 0
    team.write_text("catalogs: {lake: {namespaces: {a: {tablez: {t: {}}}}}}\n")
    assert lancens(capsys, "validate", "conf/prod.yaml").err.startswith("conf/teams/a.yaml:1:")


def test_a_saved_plan_is_for_its_user_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = folder / "plan.json"
    for _ in range(2):
        lancens(capsys, "plan", "-o", "plan.json")
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600
        saved.chmod(0o644)


def test_a_plan_made_for_another_root_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "lancens.yaml").write_text(MANIFEST.replace("./lake", '"${env:LAKE}"'))
    monkeypatch.setenv("LAKE", str(folder / "staging"))
    lancens(capsys, "plan", "-o", "plan.json")
    monkeypatch.setenv("LAKE", str(folder / "prod"))
    refused = lancens(capsys, "apply", "plan.json", "--auto-approve")
    assert refused.code == 1
    assert "now reaches another service or root" in refused.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a saved plan"),
        ("[]", "is not a saved plan"),
        ('{"format_version": "2.0"}', "format 2.0"),
        ('{"format_version": "1.0"}', "damaged at manifest"),
        ("[" * 100_000, "is not a saved plan"),
    ],
)
def test_a_file_that_is_no_plan_is_one_clear_error(
    folder: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    (folder / "plan.json").write_text(content)
    for arguments in (("show", "plan.json"), ("apply", "plan.json", "--auto-approve")):
        ran = lancens(capsys, *arguments)
        assert ran.code == 1
        assert said in ran.err
        assert "Traceback" not in ran.err


def test_without_a_terminal_apply_asks_for_the_flag(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    ran = lancens(capsys, "apply")
    assert ran.code == 1
    assert "--auto-approve" in ran.err
    assert not (folder / "lake").exists()


def test_validate_counts_what_is_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "1 catalog, 1 namespace, 2 tables" in lancens(capsys, "validate").out


def test_select_plans_a_part_and_misses_are_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = json.loads(lancens(capsys, "plan", "--select", "lake/*/users", "--format", "json").out)
    assert [change["identifier"] for change in part["changes"]] == [["features"], ["features", "users"]]
    missed = lancens(capsys, "plan", "--select", "lake/featurs/**")
    assert missed.code == 1
    assert "matches no namespace and no table" in missed.err


@pytest.mark.parametrize(
    ("glob", "hint"),
    [
        ("features/**", "did you mean `lake/features/**`?"),
        ("features/use*", "did you mean `lake/features/use*`?"),
        ("lak/features/*", "did you mean `lake/features/*`?"),
        ("lak.features.*", "did you mean `lake/features/*`?"),
        ("other/**", "a glob begins with a catalog of the manifest"),
    ],
)
def test_a_glob_without_its_catalog_is_looked_for_in_all(
    glob: str, hint: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lancens(capsys, "plan", "--select", glob).err.strip().endswith(hint)


def test_mass_removal_is_shown_and_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    (folder / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n"
    )
    refused = lancens(capsys, "apply", "--auto-approve")
    assert refused.code == 1
    assert "deregister" in refused.out
    assert "--allow-mass-removal" in refused.err
    assert lancens(capsys, "apply", "--auto-approve", "--allow-mass-removal").code == 0
    assert lancens(capsys, "drift").code == 0
    assert any(folder.joinpath("lake").rglob("*.manifest")), "the data stays"


def test_import_writes_a_manifest_that_plans_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lance.write_dataset(pa.table({"id": [1]}), folder / "other/loose.lance")
    made = lancens(capsys, "import", "--impl", "dir", "--config", "root=other", "-o", "made.yaml")
    assert made.code == 0, made
    planned = lancens(capsys, "plan", "made.yaml")
    assert planned.out.splitlines()[-1].startswith("No changes."), planned.out
    again = lancens(capsys, "import", "--impl", "dir", "--config", "root=other", "-o", "made.yaml")
    assert again.code == 1
    assert "exists" in again.err


def test_schemas_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for which in ("manifest", "plan", "audit"):
        assert json.loads(lancens(capsys, "schema", which).out)["$schema"]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_scripts(capsys: pytest.CaptureFixture[str], shell_name: str) -> None:
    assert "_LANCENS_COMPLETE" in lancens(capsys, "completion", shell_name).out


def test_no_color_without_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = lancens(capsys, "plan")
    assert "\x1b" not in ran.out + ran.err
