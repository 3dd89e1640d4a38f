"""Mistakes that people make, and the one line that each of them gets."""

from __future__ import annotations

import html
import json
import socket
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

import reconciler
from reconciler.output import render
from tests.cli.running import lancens

pytestmark = pytest.mark.usefixtures("folder")

HEAD = "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n"
MANIFEST = HEAD + "    config: {root: ./lake}\n    tables: {a: {schema: [{name: x, type: int64}]}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "    config: {root: ${env:X}}\n", '6:21: `${env:X}` inside `{…}` must be quoted: "${env:X}"'),
        (HEAD + "    tables: {a: {schema: [{name: e, type: list<int8>[8]}]}}\n", 'must be quoted: "list<int8>[8]"'),
        (HEAD + "    tables: {a: {schema: [{name: e, type: timestamp[us, tz=UTC]}]}}\n", '"timestamp[us, tz=UTC]"'),
        (HEAD + "    config: {root: {{ root }}}\n", "belongs to another tool; write `${var:name}`"),
        (HEAD + "    config: {root: ./{{ root }}/x}\n", "write `${var:name}`, in double quotes"),
        (HEAD + "    config: {root: \"{{ env_var('X') }}\"}\n", "is not replaced; write `${env:X}`"),
        (HEAD + "    config: {root: !Env X}\n", "`${env:NAME}` reads the environment"),
        (HEAD.replace("dir", "glue") + "    config: {aws_region: x}\n", "unknown key `aws_region`; write `region`"),
        (HEAD.replace("dir", "iceberg") + "    config: {uri: 'http://x'}\n", "unknown key `uri`; write `endpoint`"),
        (HEAD.replace("dir", "rest") + "    config: {}\n", "`uri` is missing: the address of the server\n"),
        (
            HEAD + "    tables: {a: {schema: [{name: e, type: decimal128(10, 2)}]}}\n",
            "inside `{…}`, a type that has a comma must be quoted",
        ),
        (HEAD + "    tables: {a: {description: x}}\n", "expected `properties: {description: …}`"),
        (HEAD + "    tables: {a: {comment: x}}\n", "`comment` in table lake/a; expected `properties: {comment: …}`"),
        (
            HEAD
            + "    config: {root: ./l}\n    suppress: [{rule: orphans, match: 'a/**', until: 2099-01-01, reason: x}]\n",
            "did you mean `orphan`?",
        ),
        (HEAD + "    mirror: {from: zzz}\n", "is `zzz`, which is not a catalog of this manifest"),
        ("catalogs: {lake: {impl: memory}}\n", "if another manifest includes this file, give that one"),
    ],
)
def test_a_manifest(folder: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    (folder / "lancens.yaml").write_text(text)
    ran = lancens(capsys, "validate")
    assert ran.code == 1
    assert said in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "--no-color"), "--no-color: set the environment variable NO_COLOR=1"),
        (("plan", "-target=a"), "-target: write `--select"),
        (("plan", "--auto-approve"), "other commands change nothing"),
        (("plan", "-var", "a=b"), "-var: write `--var`"),
        (("plan", "--env", "prod"), "--var-file prod.vars.yaml"),
        (("-chdir=prod", "plan"), "name the manifest or its folder as an argument: `lancens plan PATH`"),
        (("apply", ""), "the argument after apply is empty"),
        (("plan", "-o", ""), "the argument after -o is empty"),
        (("audit", "--out="), "--out is empty"),
        (("plan", "--select", "a.b"), "a glob begins with the catalog: CATALOG/a/b, or `**/a/b`"),
        (("plan", "--select", "lake/no/a"), "did you mean `lake/a`?"),
        (("audit", "--config", "./lake"), "expected `key=value`, such as `root=./lake`"),
        (("plan", "-o", "lancens.yaml"), "must end in .json: pass -o lancens.json"),
        (("plan", "-o", "tfplan"), "must end in .json: pass -o tfplan.json"),
        (("plan", "-o", "no/such/p.txt"), "pass -o no/such/p.json"),
        (("plan", "--select", "lake.b.c"), "`lake/b/c`, or CATALOG/lake/b/c"),
        (("plan", "lake/b"), "`--select lake/b` takes the address of a table"),
        (("show", "lake.b"), "an address is CATALOG/NAMESPACE/TABLE"),
        (("apply", "no.json"), "no.json does not exist; `lancens plan -o no.json` saves a plan there"),
        (("apply", "-o", "p.json"), "-o: write `--format json` for JSON"),
        (("-v",), "`lancens --version` prints the version"),
        (("plan", "--set", "a=b"), "write `--var NAME=VALUE`"),
        (("rollback",), "apply the manifest of an older commit"),
        (("plan", "--target-dir", "out"), "lancens builds nothing in this folder"),
        (("apply", "--continue-on-error"), "one failure stops only what depends on it"),
        (("list", "--select", "lake/**"), "`lancens list 'CATALOG/**'`"),
        (("import", "--root", "./lake"), "as `--config KEY=VALUE` beside `--impl`"),
        (("audit", "-o", "report"), "-o: write `--out`"),
        (("list", "lake.a"), "addresses begin with a catalog: lake"),
        (("import", "aws_glue_table.x", "id"), "`aws_glue_table.x` is no manifest. `lancens import --select CATALOG/"),
        (("import", "module.a.aws_glue_table.x[0]"), "`lancens apply --adopt` marks it as managed"),
        (("import", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("plan", "--select", "Lake/**"), "did you mean `lake/**`?"),
        (("plan", "--allow-env", "-n", "--select", "lake/no"), "`lake/no` matches no namespace"),
        (("plan", "-o", "json"), "pass -o json.json; `--format json` prints JSON"),
        (("completion",), "Choose from: bash, zsh, fish"),
        (("plan", "--var-file", "list.yaml"), "expected a block of keys such as `region:"),
        (("plan", "--var-file", "unused.yaml", "--var", "b=1"), "variable `b` is defined, but nothing uses it"),
        (("plan", "binary.json"), "is not a manifest, whose name ends in .yaml or .yml"),
        (("show", "lancens.yaml"), "is a manifest, not a saved plan"),
        (("show", "binary.json"), "is not a saved plan"),
        (("apply", "binary.json"), "is not a saved plan"),
        (("apply", "--format", "json"), "give --auto-approve"),
        (("apply", "unread.yaml", "--format", "json"), "give --auto-approve"),
        (("plan", "-o", "p.json", "--profile", "no/such/profile.json"), "there is no folder no/such"),
        (("list", "--owned", "--unmanaged"), "pass one of --owned, --unmanaged"),
        (("plann",), "did you mean `plan`?"),
        (("plan", "nowhere.yaml"), "nowhere.yaml"),
        (("show", "nowhere.json"), "nowhere.json"),
        (("plan", "saved.json"), "`lancens apply saved.json`"),
        (("import", "--config", "secret-without-equals"), "key=value"),
        (("import", "--impl", "dirr"), "dir"),
        (("apply", "plan.json", "--adopt"), "applied unchanged"),
    ],
)
def test_a_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    (folder / "binary.json").write_bytes(b"\xfe\xff\x00")
    (folder / "list.yaml").write_text("- a\n")
    (folder / "unused.yaml").write_text("a: 1\n")
    ran = lancens(capsys, *arguments)
    assert ran.code == 1
    assert said in ran.err
    assert "secret-without" not in ran.err
    there = sorted(path.name for path in folder.iterdir())
    assert there == ["binary.json", "lancens.yaml", "list.yaml", "unused.yaml"]


def test_no_variable_of_the_environment_can_be_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "validate", "--allow-env", "").code == 0
    assert lancens(capsys, "validate", "--allow-env=").code == 0


def test_a_variable_without_a_text_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lancens.yaml").write_text(HEAD + "    config: {root: '${var:where}'}\n")
    ran = lancens(capsys, "plan", "--var", "where=")
    assert (ran.code, "config: `root`: `${var:where}` is empty; give it a value" in ran.err) == (1, True)


def test_another_name_of_the_manifest_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lancens.yaml").rename(folder / "lancens.yml")
    (folder / "dev.vars.yaml").write_text("a: 1\n")
    assert "name a manifest, such as lancens.yml" in lancens(capsys, "plan").err
    assert lancens(capsys, "plan", "lancens.yml").code == 0


def test_an_unused_key_of_a_file_is_a_warning_with_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "unused.yaml").write_text("# shared\na: 1\n")
    ran = lancens(capsys, "plan", "--var-file", "unused.yaml")
    assert (ran.code, ran.out.count("1 to create")) == (0, 1)
    assert "Warning: unused.yaml:2:1: variable `a`" in ran.err


@pytest.mark.parametrize("variable", ["config: {root: '${var:where}'}", "prune: '${var:where}'"])
def test_a_plan_names_the_variables_that_it_was_planned_with(
    folder: Path, capsys: pytest.CaptureFixture[str], variable: str
) -> None:
    """Of a `config` the values are not part of the manifest, and elsewhere they are."""
    text = MANIFEST.replace("impl: dir\n", f"impl: dir\n    {variable}\n")
    (folder / "lancens.yaml").write_text(text.replace("    config: {root: ./lake}\n", "", "config" in variable))
    values = ("never", "all") if "prune" in variable else ("./dev", "./prod")
    assert lancens(capsys, "plan", "--var", f"where={values[0]}", "-o", "p.json").code == 0
    saved = (folder / "p.json").read_text()
    assert '"where": "' in saved
    refused = lancens(capsys, "apply", "p.json", "--auto-approve", "--var", f"where={values[1]}")
    assert refused.code == 1
    assert "planned with other values of `where`" in refused.err
    assert lancens(capsys, "apply", "p.json", "--auto-approve", "--var", f"where={values[0]}").code == 0


def test_a_run_is_shown_as_text_only(capsys: pytest.CaptureFixture[str]) -> None:
    lancens(capsys, "apply", "--auto-approve")
    run = lancens(capsys, "runs").out.split()[0]
    assert "1 done" in lancens(capsys, "show", run).out
    ran = lancens(capsys, "show", run, "--format", "json")
    assert (ran.code, ran.out) == (1, "")
    assert "a run is shown as text" in ran.err


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b""])
def test_a_port_that_is_no_metastore(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr("reconciler.backends.hive.metastore.PAUSES", (0.0, 0.0))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    one, _ = server.accept()
                except OSError:
                    return
                with one:
                    one.recv(1024)
                    one.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        (folder / "lancens.yaml").write_text(
            f"version: 1\nname: shop\ncatalogs: {{lake: {{impl: hive3, config: {{uri: 'thrift://127.0.0.1:{port}'}}}}}}\n"
        )
        ran = lancens(capsys, "plan")
    assert ran.code == 1
    assert "is `uri` the metastore's Thrift port" in ran.err


@pytest.mark.parametrize(("root", "hint"), [("./nowhere", ""), ("./lake-$STAGE", "`${env:NAME}`")])
def test_a_root_that_does_not_exist_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], root: str, hint: str
) -> None:
    (folder / "lancens.yaml").write_text(MANIFEST.replace("./lake", root))
    ran = lancens(capsys, "plan")
    assert ran.code == 0
    assert "does not exist" in ran.err
    assert hint in ran.err


@pytest.mark.parametrize("command", ["plan", "import", "list"])
@pytest.mark.parametrize("root", ["${env:LAKE_ROOT}", "${env:LAKE_ROOT}/../other"])
def test_a_root_of_the_environment_is_named_by_its_variable(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: str, command: str
) -> None:
    monkeypatch.setenv("LAKE_ROOT", str(folder / "hidden"))
    (folder / "lancens.yaml").write_text(MANIFEST.replace("./lake", f'"{root}"'))
    ran = lancens(capsys, command)
    assert f"the root {root} does not exist" in ran.err
    (folder / "hidden").mkdir()
    (folder / "other").mkdir()
    again = lancens(capsys, command)
    assert str(folder) not in ran.out + ran.err + again.out + again.err


def test_the_python_interface_names_what_it_expected() -> None:
    manifest = reconciler.load("lancens.yaml")
    plan = reconciler.plan(manifest)
    with pytest.raises(TypeError, match="expected a manifest"):
        reconciler.plan("lancens.yaml")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list of globs"):
        reconciler.plan(manifest, select="lake/a")
    with pytest.raises(TypeError, match="expected a plan"):
        reconciler.apply(manifest, plan)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a path"):
        reconciler.load({"version": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected one of text, json"):
        render(plan, "yaml")


def test_quiet_prints_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    planned = lancens(capsys, "plan", "--quiet")
    assert (planned.out.count("\n"), planned.err) == (1, "")
    assert planned.out.startswith("Plan: 1 to create")
    applied = lancens(capsys, "apply", "--quiet", "--auto-approve")
    assert applied.err == ""
    assert applied.out.splitlines()[-1].startswith("Applied 1 of 1 change")
    assert lancens(capsys, "audit", "--engine", "local", "--quiet").err == ""
    assert lancens(capsys, "inventory", "--engine", "local", "--quiet").err == ""


def test_an_option_after_two_dashes_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "validate", "--", "--quiet").err.startswith("--quiet: cannot be read: No such file")


def test_force_color_colours_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in lancens(capsys, "plan").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in lancens(capsys, "plan").out


def test_validate_reports_in_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = json.loads(lancens(capsys, "validate", "--format", "json").out)
    assert good == {"valid": True, "name": "shop", "catalogs": 1, "namespaces": 0, "tables": 1}
    (folder / "lancens.yaml").write_text(MANIFEST.replace("schema", "schemaa"))
    bad = lancens(capsys, "validate", "--format", "json")
    assert bad.code == 1
    [error] = json.loads(bad.out)["errors"]
    assert (error["file"], error["line"], error["column"]) == ("lancens.yaml", 7, 18)


def test_apply_reports_each_event_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    ran = lancens(capsys, "apply", "--auto-approve", "--format", "json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert [event["event"] for event in events] == ["started", "ended", "summary"]
    assert events[1]["status"] == "done"
    assert (events[2]["ok"], events[2]["done"]) == (True, 1)
    [nothing_to_do] = lancens(capsys, "apply", "--auto-approve", "--format", "json").out.splitlines()
    assert json.loads(nothing_to_do) == {**events[2], "done": 0, "journal": ""}


def test_junit_fails_for_what_is_blocked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lancens(capsys, "apply", "--auto-approve")
    (folder / "lancens.yaml").write_text(MANIFEST.replace("int64", "int32").replace("{a:", "{b: {}, a:"))
    ran = lancens(capsys, "plan", "--format", "junit")
    assert ran.code == 3
    [suite] = ElementTree.fromstring(ran.out.encode())  # noqa: S314 - our own
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("lake", "2", "1")
    assert [case.get("name") for case in suite] == ["blocked lake/a", "declare lake/b"]


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_renamed_column_is_shown_without_quotes(folder: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    lancens(capsys, "apply", "--auto-approve")
    renamed = MANIFEST.replace("schema: [{name: x,", "evolve: additive, schema: [{name: y, renamed_from: x,")
    (folder / "lancens.yaml").write_text(renamed)
    shown = html.unescape(lancens(capsys, "plan", "--format", form).out)
    assert "x int64 -> y int64" in shown
    assert '"x int64' not in shown


def test_a_catalog_that_is_not_selected_needs_no_credentials(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lancens.yaml").write_text(
        MANIFEST + '  prod: {impl: rest, config: {uri: "${env:NOT_SET}"}, tables: {b: {}}}\n'
    )
    ran = lancens(capsys, "plan", "--select", "lake/**")
    assert (ran.code, "create" in ran.out) == (0, True), ran.err
