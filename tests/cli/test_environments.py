"""One manifest for development, staging and production: what differs stands in a file of variables for each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import reconciler
from reconciler.backends import registry
from reconciler.operations.plan import reference
from tests.cli.running import lancens
from tests.plans import resealed

MANIFEST = """\
version: 1
name: shop
defaults:
  tables: {properties: {environment: "${var:environment}"}}
catalogs:
  lake:
    impl: dir
    config: {root: "${var:root}"}
    namespaces:
      features: {tables: {users: {schema: [{name: id, type: int64}]}}}
"""


@pytest.mark.usefixtures("folder")
def test_three_environments_come_from_one_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("dev", "staging", "prod"):
        Path(f"{name}.vars.yaml").write_text(f"environment: {name}\nroot: ./lakes/{name}\n")

    for name in ("dev", "staging", "prod"):
        variables = ("--var-file", f"{name}.vars.yaml")
        saved = f"{name}.json"
        planned = lancens(capsys, "plan", *variables, "-o", saved, "--detailed-exitcode")
        assert planned.code == 2
        where = f"shop (environment = {name}, root = ./lakes/{name}) on lake (dir, ./lakes/{name})"
        assert planned.out.splitlines()[0] == where
        assert f"`lancens apply {saved} --var-file {name}.vars.yaml`" in planned.err
        others = ("--var-file", "dev.vars.yaml" if name != "dev" else "prod.vars.yaml")
        refused = lancens(capsys, "apply", saved, *others, "--auto-approve")
        assert refused.code == 1, "a plan of one environment is not applied to another"
        assert "other values of `environment`, `root`" in refused.err
        document = json.loads(Path(saved).read_text())
        for part, shown in (("given", dict[str, str]()), ("services", {"lake": "./lakes/other"})):
            edited = {**document, "manifest": {**document["manifest"], part: shown}}
            Path("edited.json").write_text(resealed(edited))
            assert (
                "its first line was edited" in lancens(capsys, "apply", "edited.json", *variables, "--auto-approve").err
            )
        applied = lancens(capsys, "apply", saved, *variables, "--auto-approve")
        assert (applied.code, f"Applied 2 of 2 changes of {where.replace(' on ', ' to ')}: " in applied.out) == (
            0,
            True,
        )
        assert lancens(capsys, "drift", *variables).code == 0
        table = registry.connect("dir", {"root": f"lakes/{name}"}).load_table(("features", "users"))
        assert table.properties["environment"] == name
    assert sorted(path.name for path in Path("lakes").iterdir()) == ["dev", "prod", "staging"]


ELSEWHERE = """\
version: 1
name: shop
catalogs:
  hive:
    impl: hive2
    config:
      uri: "thrift://${var:host}:${env:PORT:-9083}"
      auth_token: "${var:pass}"
      client.timeout: "${var:wait}"
    namespaces: {hive: {properties: {db_password: "${var:word}"}}}
  lake: {impl: dir, config: {root: "../${var:stage}/lake"}}
  rest:
    impl: rest
    config: {uri: "https://${var:user}:${var:word2}@${var:site}/api"}
    namespaces: {web: {properties: {feed: "https://x:${var:word3}@feeds/${var:stage}", to: "${var:link}"}}}
"""


def test_a_plan_says_where_it_is_without_a_secret(tmp_path: Path) -> None:
    """Values that a plan and its apply may have of their own, such as credentials, stand in none of them."""
    path = tmp_path / "lancens.yaml"
    path.write_text(ELSEWHERE)
    (tmp_path / "lancens.vars.yaml").write_text("wait: 5s\nstage: dev\n")
    hidden = {"pass": "hunter2", "word": "hunter3", "user": "me", "word2": "hunter5", "word3": "hunter6"}
    values = {"host": "hms.example.com", "stage": "prod", "site": "a.example", "link": "https://me@b.example", **hidden}
    shown = reference(reconciler.load(path, variables=values))
    expected = {**values, **dict.fromkeys(hidden, "(redacted)"), "link": "https://(redacted)@b.example"}
    assert shown.given == dict(sorted(expected.items()))
    lake = {"lake": "../prod/lake", "rest": "(redacted)"}
    assert shown.services == {"hive": "thrift://hms.example.com:${env:PORT:-9083}", **lake}
    assert shown.is_shown_as(reference(reconciler.load(path, variables={**values, "pass": "hunter4"})))
    assert not shown.is_shown_as(reference(reconciler.load(path, variables={**values, "stage": "dev"})))


NAMED = """\
version: 1
name: "${var:stage}-store"
catalogs:
  account:
    impl: dir
    config: {root: ./lake}
    scope: ["${var:stage}_*", "${var:stage}_*/**"]
    moved: [{from: "${var:stage}_features/people", to: "${var:stage}_features/users"}]
    namespaces:
      "${var:stage}_features": {tables: {users: {}, "t_${var:stage}": {}}}
"""


def test_two_environments_share_one_catalog_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lancens.yaml").write_text(NAMED)
    Path("lancens.vars.yaml").write_text("stage: dev\n")
    for stage in ((), ("--var", "stage=prod")):
        assert lancens(capsys, "apply", *stage, "--auto-approve").code == 0
        assert lancens(capsys, "drift", *stage).code == 0, "neither environment sees the other's tables"
    found = registry.connect("dir", {"root": "lake"}).scan().tables
    assert sorted("/".join(name) for name in found) == [
        "dev_features/t_dev",
        "dev_features/users",
        "prod_features/t_prod",
        "prod_features/users",
    ]
    assert found["prod_features", "users"].properties["lancens.managed-by"] == "prod-store/account"

    backend = registry.connect("dir", {"root": "lake"})
    backend.insert_table(("dev_features", "made"), str(tmp_path / "lake" / "made.lance"), {})
    assert lancens(capsys, "import", "--append", "lancens.yaml").code == 0
    assert "${var:stage}_features" in Path("lancens.yaml").read_text()
    assert Path("lancens.yaml").read_text().count("_features:") == 0, "the block is found below its placeholder"
    assert lancens(capsys, "drift", "--fail-on", "unmanaged").code == 0


SHARED = """\
version: 1
name: shop
catalogs:
  lake:
    impl: dir
    config: {root: "./${var:stage}"}
    tables:
      users: {location: "./${var:stage}/data-${var:stage}/users.lance", properties: {env: "${var:stage}", tier: dev}}
"""


def test_what_is_appended_has_the_variables_of_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lancens.yaml").write_text(SHARED)
    Path("lancens.vars.yaml").write_text("stage: dev\n")
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    backend = registry.connect("dir", {"root": "dev"})
    backend.insert_table(("made",), str(tmp_path / "dev/data-dev/made.lance"), {"env": "dev", "name": "dev"})
    assert lancens(capsys, "import", "--append", "lancens.yaml").code == 0
    [block] = Path("lancens.yaml").read_text().split("made:")[1:]
    assert 'env: "${var:stage}"' in block
    assert "name: dev" in block, "an equal value of another key is no variable"
    assert "${var:stage}/data-${var:stage}/made.lance" in block
    assert lancens(capsys, "drift").code == 0


@pytest.mark.usefixtures("folder")
def test_an_unused_key_of_a_file_is_a_warning_and_an_unused_option_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("prod.vars.yaml").write_text("environment: prod\nroot: ./lake\nregoin: eu\n")
    planned = lancens(capsys, "plan", "--var-file", "prod.vars.yaml")
    assert planned.code == 0
    assert "Warning: prod.vars.yaml:3:1: variable" in planned.err
    assert "regoin" not in lancens(capsys, "plan", "--var-file", "prod.vars.yaml", "--quiet").err
    refused = lancens(capsys, "plan", "--var-file", "prod.vars.yaml", "--var", "rot=x")
    assert refused.code == 1
    assert "did you mean `root`?" in refused.err


def test_the_next_command_holds_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lancens.yaml").write_text(
        'version: 1\nname: "${var:stage}"\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n'
        '    namespaces: {shop: {properties: {db_password: "${var:word}"}}}\n'
    )
    Path("lancens.vars.yaml").write_text("word: hunter2\n")
    for word, shown in (("hunter2", ""), ("hunter3", " --var word=…")):
        values = ("--var", "stage=dev", "--var", f"word={word}")
        planned = lancens(capsys, "plan", *values, "-o", "plan.json").err
        assert f"`lancens apply plan.json --var stage=dev{shown.replace('word=…', repr('word=…'))}`" in planned
        assert word not in planned


RENAMED = """\
version: 1
name: "${var:stage}-store"
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    scope: ["${var:stage}_*", "${var:stage}_*/**"]
    namespaces:
      "${var:stage}_old": {tables: {users: {schema: [{name: id, type: int64}], protect: true}}}
      "${var:stage}_web": {tables: {"t_${var:stage}": {schema: [{name: id, type: int64}]}}}
"""


def test_advice_on_a_rename_fits_every_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lancens.yaml").write_text(RENAMED)
    stages = [("--var", f"stage={stage}") for stage in ("dev", "test", "prod")]
    for stage in stages:
        assert lancens(capsys, "apply", *stage, "--auto-approve").code == 0
    before = {table.location for table in registry.connect("dir", {"root": "lake"}).scan().tables.values()}
    text = RENAMED.replace("_old", "_new").replace('"t_${', '"u_${').replace("protect: true", "protect: false")
    Path("lancens.yaml").write_text(text)
    printed = lancens(capsys, "plan", *stages[0], "--allow-mass-removal").out
    lines = re.findall(r"moved: \[(.*)\]", printed)
    assert len(lines) == 2, printed
    Path("lancens.yaml").write_text(
        text.replace("    namespaces:", f"    moved: [{', '.join(lines)}]\n    namespaces:")
    )
    for stage in stages:
        assert lancens(capsys, "apply", *stage, "--auto-approve").code == 0
        drift = lancens(capsys, "drift", *stage)
        assert drift.code == 0
        assert "Notes" not in drift.out, (
            "the line serves the environments that are still to come, and leads to the data"
        )
    assert {table.location for table in registry.connect("dir", {"root": "lake"}).scan().tables.values()} == before
