"""``action.yml`` and the example workflows: sound, pinned, and as the documentation and the code say."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from reconciler.action.inputs import Command, CommentWhen, Inputs, read_inputs
from reconciler.action.install import InstallError, install, installation_of, isolated_environment
from reconciler.action.outcome import FailureReason, StepOutcome, write_outputs
from tests.folders import FOLDERS
from tests.servers.go_tools import actionlint

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples/github").glob("*.yml"))
OWN = sorted((ROOT / ".github/workflows").glob("*.yml"))
DOCUMENTATION = (ROOT / "docs/github-action.md").read_text()
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    # It looks at an action only through the workflows that use it, from within a repository.
    workflows = tmp_path / ".github/workflows"
    workflows.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "action.yml").write_text((ROOT / "action.yml").read_text())
    for workflow in (*EXAMPLES, *OWN):
        (workflows / workflow.name).write_text(workflow.read_text().replace("OWNER/lancens@RELEASE_COMMIT", "./"))
    done = subprocess.run([actionlint(), "-color=false"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_actionlint_would_find_a_wrong_input(tmp_path: Path) -> None:
    workflows = tmp_path / ".github/workflows"
    workflows.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "action.yml").write_text((ROOT / "action.yml").read_text())
    text = EXAMPLES[0].read_text().replace("OWNER/lancens@RELEASE_COMMIT", "./").replace("extras:", "extrass:")
    (workflows / "plan.yml").write_text(text)
    done = subprocess.run([actionlint(), "-color=false"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "extrass" in done.stdout


@pytest.mark.parametrize("path", [ROOT / "action.yml", *EXAMPLES, *OWN], ids=lambda path: path.name)
def test_actions_of_others_are_pinned_to_a_commit(path: Path) -> None:
    used = re.findall(r"\buses: *(\S+)", path.read_text())
    assert used
    assert all(re.search(r"@[0-9a-f]{40}$", action) or action == "OWNER/lancens@RELEASE_COMMIT" for action in used)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_limits_the_hosts_that_a_manifest_may_name(path: Path) -> None:
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    ours = [step["with"] for step in steps if step.get("uses", "").startswith("OWNER/lancens@")]
    assert ours
    assert all(inputs.get("allow-hosts") for inputs in ours)


_SHELL = "/bin/bash --noprofile --norc -peo pipefail {0}"


def test_every_step_names_its_shell_by_path_and_reads_no_file_of_the_environment() -> None:
    for step in ACTION["runs"]["steps"]:
        assert {"BASH_ENV": "", "ENV": ""}.items() <= step["env"].items(), step
        assert step.get("shell") == (_SHELL if "run" in step else None)


def test_no_input_is_written_into_a_script() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


def test_every_input_reaches_the_code_and_is_documented() -> None:
    handed = {name for step in ACTION["runs"]["steps"] for name in step.get("env", {})}
    for name in ACTION["inputs"]:
        assert f"INPUT_{name.upper().replace('-', '_')}" in handed or name == "python-version"
        assert f"| `{name}` |" in DOCUMENTATION


def test_the_defaults_of_the_action_are_those_of_the_code() -> None:
    given = {
        f"INPUT_{name.upper().replace('-', '_')}": str(described.get("default", ""))
        for name, described in ACTION["inputs"].items()
        if name != "token"
    }
    assert read_inputs(given) == read_inputs({})


def test_every_output_is_set_and_documented(tmp_path: Path) -> None:
    write_outputs(StepOutcome(page=""), tmp_path / "files", {"GITHUB_OUTPUT": str(tmp_path / "output")})
    written = set(re.findall(r"^([a-z0-9-]+)<<", (tmp_path / "output").read_text(), re.MULTILINE))
    assert set(ACTION["outputs"]) == (written - {"folder"}) | {"plan-file"}
    for name, described in ACTION["outputs"].items():
        # These two are also set by what refuses before anything is installed.
        refusing = ("event", "path") if name in ("exit-code", "failure-reason") else ()
        before = "".join(f"steps.{step}.outputs.{name} || " for step in refusing)
        assert described["value"] == f"${{{{ {before}steps.lancens.outputs.{name} }}}}"
        assert f"`{name}`" in DOCUMENTATION or name.startswith("to-")


def test_everything_that_can_be_said_is_documented() -> None:
    for word in (*Command, *CommentWhen, *get_args(Inputs.model_fields["fail_on"].annotation), *FailureReason):
        assert f"`{word}`" in DOCUMENTATION


def test_make_servers_runs_every_test_that_make_unit_does_not() -> None:
    arguments = [ROOT / argument for run in FOLDERS.values() for argument in run if argument.startswith("tests/")]
    run = [path for argument in arguments for path in ([*argument.rglob("test_*.py")] or [argument])]
    assert {*(ROOT / "tests").rglob("test_*.py")} - {*run} == {*(ROOT / "tests/applier").glob("test_*.py")}


def test_our_own_workflow_has_every_python_that_is_promised() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    promised = {
        text.rpartition(" ")[2] for text in classifiers if text.startswith("Programming Language :: Python :: 3.")
    }
    assert promised <= set(jobs["unit"]["strategy"]["matrix"]["python"])


def test_the_examples_ask_for_the_least_permissions() -> None:
    asked = {example.stem: yaml.safe_load(example.read_text())["permissions"] for example in EXAMPLES}
    read, write = {"contents": "read"}, {"id-token": "write"}
    assert asked == {
        "audit": {**read, "security-events": "write", **write},
        "apply": {**read, "pull-requests": "write", "statuses": "write", **write},
        "monorepo": {**read, "pull-requests": "write", "statuses": "write", **write},
        "promotion": {**read, "pull-requests": "write", "statuses": "write"},
        "preview": {**read, "pull-requests": "write", **write},
        "spark": {**read, "pull-requests": "write"},
        "drift": {**read, "issues": "write", **write},
        "plan": {**read, "pull-requests": "write", **write},
    }


def test_merges_wait_for_each_other() -> None:
    concurrency = yaml.safe_load((ROOT / "examples/github/apply.yml").read_text())["concurrency"]
    assert concurrency == {"group": "lancens-apply", "cancel-in-progress": False}


# ---- what is installed ----------------------------------------------------------------------------------------------


def described(tmp_path: Path, **given: str) -> dict[str, str]:
    """Return the environment in which the step that installs runs."""
    (tmp_path / "tools").mkdir(exist_ok=True)
    own = {"LANCENS_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(tmp_path), "GITHUB_WORKSPACE": "/work/tables"}
    return {**own, "RUNNER_TOOL_CACHE": str(tmp_path / "tools"), **given}


@pytest.mark.parametrize(
    ("engine", "extras", "wanted"),
    [
        ("local", "glue", ("glue",)),
        ("", "", ()),
        ("spark", "", ("spark",)),
        ("spark", "glue", ("glue", "spark")),
    ],
)
def test_what_runs_on_spark_brings_it(engine: str, extras: str, wanted: tuple[str, ...], tmp_path: Path) -> None:
    given = {"INPUT_ENGINE": engine, "INPUT_EXTRAS": extras}
    assert installation_of(described(tmp_path, **given)).extras == wanted


@pytest.mark.parametrize("extras", ["glue]; rm", "--index-url=x", "../glue", "nothing"])
def test_extras_are_those_that_there_are(extras: str, tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"`extras`: .*; there are .*glue"):
        installation_of(described(tmp_path, INPUT_EXTRAS=extras))


def test_what_the_runner_has_is_used_when_asked_for(tmp_path: Path) -> None:
    assert installation_of(described(tmp_path, INPUT_PREINSTALLED="True")).folder is None
    assert installation_of(described(tmp_path, INPUT_PREINSTALLED="false")).folder is not None
    with pytest.raises(InstallError, match="`preinstalled`: expected true or false"):
        installation_of(described(tmp_path, INPUT_PREINSTALLED="1.2.0"))


def test_what_is_installed_is_known_by_all_that_it_is_made_of(tmp_path: Path) -> None:
    place = installation_of(described(tmp_path, INPUT_EXTRAS="hive glue"))
    assert place.folder is not None
    assert place.folder.parent == tmp_path / "tools"
    assert place.wheels == tmp_path / place.key
    assert installation_of(described(tmp_path, INPUT_EXTRAS="glue,hive")) == place
    action = tmp_path / "action"
    for name in ("LICENSE", "README.md", "pyproject.toml", "requirements.lock"):
        action.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, action / name)
    (action / "reconciler").mkdir()
    (action / "reconciler/a.py").write_text("1")
    places = [place, installation_of(described(tmp_path, INPUT_EXTRAS="glue"))]
    for changed in ("reconciler/a.py", "reconciler/b.py", "pyproject.toml"):
        with (action / changed).open("a") as opened:
            opened.write("\n# 2\n")
        places.append(installation_of(described(tmp_path, LANCENS_ACTION_PATH=str(action))))
    lock = (action / "requirements.lock").read_text()
    (action / "requirements.lock").write_text(lock.replace("click==", "click==9."))
    places.append(installation_of(described(tmp_path, LANCENS_ACTION_PATH=str(action))))
    assert len({place.folder for place in places}) == 6
    assert len({place.key for place in places}) == 4, "the downloads depend on the lock alone"


def test_without_a_cache_everything_is_installed_anew_in_a_folder_of_the_job(tmp_path: Path) -> None:
    place = installation_of(described(tmp_path, INPUT_CACHE="false"))
    assert (place.key, place.folder and place.folder.parent, place.wheels.parent) == ("", tmp_path, tmp_path)
    with pytest.raises(InstallError, match="`cache`: expected true or false"):
        installation_of(described(tmp_path, INPUT_CACHE="no"))


def test_the_cache_holds_downloads_only() -> None:
    caching = [step for step in ACTION["runs"]["steps"] if "actions/cache/" in step.get("uses", "")]
    assert [step["with"]["path"] for step in caching] == ["${{ steps.python.outputs.wheels }}"] * 2
    assert all("steps.python.outputs.key != ''" in step["if"] for step in caching)


def test_a_folder_of_tools_in_the_checkout_is_not_used(tmp_path: Path) -> None:
    given = {"GITHUB_WORKSPACE": str(tmp_path), "RUNNER_TEMP": "/elsewhere"}
    assert str(installation_of(described(tmp_path, **given)).folder).startswith("/elsewhere/")
    folder = installation_of(described(tmp_path, RUNNER_TOOL_CACHE="tools")).folder
    assert str(folder).startswith(f"{tmp_path}/lancens-")


def test_what_is_made_is_whole_or_not_there_and_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []

    def run(command: list[str], _environment: object, _doing: str) -> None:
        made.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir()
        if len(made) == fails_at:
            raise InstallError("no network")

    monkeypatch.setattr("reconciler.action.install.run_pip", run)
    environment = described(tmp_path)
    fails_at = 2
    with pytest.raises(InstallError):
        install(installation_of(environment), environment)
    assert not [*(tmp_path / "tools").iterdir()]
    made.clear()
    fails_at = 0
    install(installation_of(environment), environment)
    _venv, download, _locked, own = made
    assert {"download", "--require-hashes", "--no-deps"} <= {*download}
    assert {"--no-build-isolation", "--no-index"} <= {*own}
    assert not Path(own[-1]).is_relative_to(ROOT), "nothing is built in the folder of the Action"
    assert installation_of(environment).is_complete
    made.clear()
    install(installation_of(environment), environment)
    assert made == []


def test_an_installer_gets_no_setting_of_the_workspace_and_every_other_one() -> None:
    kept = {
        "PATH": "/usr/bin",
        "PIP_CERT": "/etc/ssl/ca.pem",
        "PIP_CONFIG_FILE": "/etc/our-pip.conf",
        "PIP_INDEX_URL": "https://pypi.example.com/simple",
    }
    dropped = {
        "GITHUB_WORKSPACE": "/work/tables",
        "HOME": "/work/tables/home",
        "PIP_CONSTRAINT": "/work/tables/constraints.txt",
        "PYTHONHOME": "/work/tables",
        "PYTHONPATH": "/somewhere",
        "PYTHONSTARTUP": "startup.py",
        "UV_CONFIG_FILE": "uv.toml",
    }
    assert isolated_environment({**kept, **dropped}) == {**kept, "PYTHONSAFEPATH": "1"}
    assert "PIP_CONFIG_FILE" not in isolated_environment({**dropped, "PIP_CONFIG_FILE": "pip.conf"})


def test_every_interpreter_is_isolated() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    started = re.findall(r"^.*\"\$(?:\w+_PYTHON|python)\" .*$", "\n".join(scripts), re.MULTILINE)
    started += re.findall(
        r"\[(?:sys\.executable|python), .*",
        "\n".join(p.read_text() for p in (ROOT / "reconciler/action").glob("*.py")),
    )
    assert {line.split('"')[1] for line in started if line.startswith('"')} >= {"$python", "$RUNNER_PYTHON"}
    assert any(line.startswith("[") for line in started)
    assert all(re.search(r"""\s"?-I"?\b""", line) for line in started), started


def test_the_findings_of_an_audit_are_handed_on_even_when_the_step_fails() -> None:
    audit, upload = yaml.safe_load((ROOT / "examples/github/audit.yml").read_text())["jobs"]["audit"]["steps"][-2:]
    assert audit["id"] == "lancens"
    assert upload["if"] == "always() && steps.lancens.outputs.report != ''"
    assert upload["with"]["sarif_file"] == "${{ steps.lancens.outputs.report }}/audit.sarif"


def test_every_line_of_the_comparison_names_a_test_that_there_is() -> None:
    table = DOCUMENTATION.partition("## Beside other actions")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "terraform-github-actions" not in line]
    linked = re.findall(r"/blob/main/(tests/[\w/]+\.py)#(test_\w+)\)", table)
    assert len(linked) >= len(rows) - 1, "whether an account is needed is the only line that no test holds"
    for path, name in linked:
        assert f"def {name}(" in (ROOT / path).read_text(), (path, name)


def test_every_example_is_in_the_documentation_which_says_how_it_is_checked() -> None:
    table = DOCUMENTATION.partition("| workflow | what it shows | checked by |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"examples/github/(\w+)\.yml", table))
    assert listed == {example.stem for example in EXAMPLES}
    tests = (*(ROOT / "tests/action").glob("test_act*.py"), ROOT / "tests/action/runner.py")
    started = set(re.findall(r'"(\w+)"', "".join(path.read_text() for path in tests))) - {"spark"}
    for row in table.splitlines():
        for name in re.findall(r"examples/github/(\w+)\.yml", row):
            assert (name in started) is bool(re.search(r"\| act\b", row))
