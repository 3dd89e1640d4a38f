"""A checkout that plants modules, commands and settings: nothing of it runs, and no fork gets to an installer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.action.runner import Ran, Repository
from tests.action.step import MANIFEST
from tests.planted_modules import imported, plant
from tests.servers.github_api import GitHubApi

_COMMANDS = (
    *("bash", "cat", "cp", "dirname", "env", "git", "id", "java", "ldconfig", "ls", "mkdir", "mv", "node", "pip"),
    *("python", "python3", "rm", "sh", "tar", "uname", "uv", "zstd"),
)
_BROKEN_INDEX = "index-url = http://127.0.0.1:1/planted\n"
_SETTINGS = {
    "pip.conf": f"[global]\n{_BROKEN_INDEX}",
    "uv.toml": _BROKEN_INDEX.replace("= ", '= "').replace("\n", '"\n'),
    "setup.cfg": f"[easy_install]\n{_BROKEN_INDEX}",
    "pyproject.toml": "this is not TOML",
    ".python-version": "2.7.18\n",
    "pyvenv.cfg": "home = /nowhere\n",
}


# A step before the Action that opens every door a workflow can open.
_CARELESS = r"""
      - shell: /bin/bash -e {0}
        run: |
          /bin/ln -s "$GITHUB_WORKSPACE" "$RUNNER_TEMP/link"
          printf '%s\n' "$GITHUB_WORKSPACE" "$RUNNER_TEMP/link" >> "$GITHUB_PATH"
          {
            for name in cd printf pwd read type; do
              echo "BASH_FUNC_$name%%=() { builtin echo $name >> $PLANTED_LOG; builtin $name \"\$@\"; }"
            done
            echo "BASH_ENV=$GITHUB_WORKSPACE/uname"
            echo "ENV=$GITHUB_WORKSPACE/uname"
            echo "PIP_CONFIG_FILE=$GITHUB_WORKSPACE/pip.conf"
            echo "PYTHONPATH=$GITHUB_WORKSPACE"
            echo "UV_CONFIG_FILE=$GITHUB_WORKSPACE/uv.toml"
          } >> "$GITHUB_ENV"

"""


def workflows(repository: Repository, install: str) -> None:
    """Write the example workflows with that step."""
    repository.workflows(install)
    for path in (repository.path / ".github/workflows").iterdir():
        text = path.read_text()
        before = text.index("      - ", text.index("actions/checkout"))
        path.write_text(f"{text[:before].rstrip()}\n{_CARELESS}{text[before:]}")


@pytest.fixture
def planted(repository: Repository) -> Path:
    """Return the log of a repository that is nothing but harm, on the path of a careless workflow."""
    log = plant(repository.path)
    for name in _COMMANDS:
        command = repository.path / name
        command.write_text(f"#!/bin/sh\necho {name} >> {log}\nexit 1\n")
        command.chmod(0o755)
    for name, text in _SETTINGS.items():
        (repository.path / name).write_text(text)
    # Relative, the variables lead into whatever folder a command is started in.
    repository.environment |= {
        "PLANTED_LOG": str(log),
        "PATH": f".:{Path(sys.executable).parent}:{os.environ['PATH']}:",
        "PIP_CONFIG_FILE": "pip.conf",
        "PYTHONPATH": ".",
        "PYTHONSTARTUP": "sitecustomize.py",
    }
    workflows(repository, "extras: ''")
    return log


def test_the_action_runs_nothing_of_the_checkout(repository: Repository, api: GitHubApi, planted: Path) -> None:
    repository.package()
    repository.environment["PIP_NO_COMPILE"] = "no"  # a switch that pip reads the other way round: most is not run
    for is_installed in (False, True):
        ran = repository.pull_request(7, MANIFEST)
        assert imported(planted) == []
        assert ran.ok, ran.log
        assert ("lancens is installed already" in ran.printed) is is_installed
        assert ran.output("to-create") == "2"
        assert "the cache of GitHub is not used" in ran.log
    assert "lancens approves" in api.comments_on(7)[0]
    assert not (repository.folder / "saved").exists()


_SETTING_UP = """\
on: [push]
jobs:
  one:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683
{before}
      - uses: acme/lancens@v1
        with: {{preinstalled: 'true', python-version: '3.12', comment: never}}
"""


def set_up(repository: Repository, before: str) -> Ran:
    """Run a workflow that asks for a Python of its own."""
    (repository.path / ".github/workflows/one.yml").write_text(_SETTING_UP.format(before=before))
    repository.commit(MANIFEST)
    return repository.run("push", "one")


def test_a_python_is_set_up_only_where_its_tools_are_not_the_checkouts(repository: Repository, planted: Path) -> None:
    """The real action starts what PATH leads to, and no step can take a folder off the PATH of another action."""
    refused = set_up(repository, _CARELESS)
    assert imported(planted) == []
    assert not refused.ok
    assert refused.output("failure-reason") == "invalid-input", refused.log
    assert "leave this input out" in refused.log


def test_a_python_that_was_set_up_runs_lancens(repository: Repository) -> None:
    ran = set_up(repository, "")
    assert ran.ok, ran.log
    assert ran.output("python-path") == ran.output("python") == sys.executable


def test_an_audit_runs_nothing_of_the_checkout(repository: Repository, planted: Path) -> None:
    workflows(repository, "preinstalled: true")
    repository.commit(MANIFEST)
    ran = repository.run("workflow_dispatch", "audit")
    assert imported(planted) == []
    assert ran.output("report"), ran.log


def untrusted(repository: Repository, api: GitHubApi, event: str, workflow: str, *, deleted: bool = False) -> Ran:
    """Run a workflow on an event about a fork, whose workflow sets up a Python and installs lancens."""
    path = repository.path / f".github/workflows/{workflow}.yml"
    text = path.read_text().replace("extras: ''", "python-version: '3.12'")
    head, _, rest = text.partition("\non:\n")
    trigger = "\non: {workflow_run: {workflows: [x]}}\n" if event == "workflow_run" else f"\non: [{event}]\n"
    path.write_text(head + trigger + rest[rest.index("\npermissions:") :])
    commit = repository.commit("this: is: not read")
    pull = api.add_pull(7, commit, fork=True)
    if deleted:
        pull["head"]["repo"] = None
    run: dict[str, Any] = {"head_repository": pull["head"]["repo"], "event": "pull_request", "head_sha": commit}
    document = {"workflow_run": run} if event == "workflow_run" else {"number": 7, "pull_request": pull}
    return repository.run(event, workflow, document)


@pytest.mark.parametrize(
    ("event", "workflow", "reason", "deleted"),
    [
        ("pull_request_target", "plan", "refused", False),
        ("pull_request_target", "apply", "refused", True),
        ("workflow_run", "plan", "refused", True),
        ("workflow_run", "apply", "refused", False),
        ("pull_request", "apply", "not-approved", False),
    ],
)
def test_an_untrusted_event_is_refused_before_anything_is_set_up(
    repository: Repository, api: GitHubApi, planted: Path, event: str, workflow: str, reason: str, deleted: bool
) -> None:
    refused = untrusted(repository, api, event, workflow, deleted=deleted)
    assert not refused.ok, refused.log
    assert refused.output("failure-reason") == reason, refused.log
    assert refused.output("exit-code") == "1"
    assert "::error title=lancens: " in refused.log
    assert imported(planted) == []
    assert api.calls == []
    for sign in ("install.py", "Main actions/setup-python", "::set-output:: python="):
        assert sign not in refused.log, refused.log
    assert not [*repository.folder.rglob(f"lancens-{'?' * 32}")]


@pytest.mark.parametrize(
    "command",
    [
        ["plan", "--format", "html"],
        ["import"],
        ["apply", "--auto-approve"],
        ["conformance", "--help"],
        ["serve", "--help"],
    ],
    ids=" ".join,
)
def test_the_command_line_runs_nothing_of_the_folder_it_is_used_in(tmp_path: Path, command: list[str]) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    log = plant(folder)
    (folder / "lancens.yaml").write_text(MANIFEST)
    lancens = Path(sys.executable).with_name("lancens")
    done = subprocess.run([lancens, *command], cwd=folder, capture_output=True, text=True, check=False)
    assert imported(log) == []
    assert done.returncode in (0, 2), done.stderr
