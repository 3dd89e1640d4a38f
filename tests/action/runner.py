"""A repository whose workflows are the examples, run by act on this machine, with no containers and no network.

The actions the examples use besides our own are replaced by local ones: those of others cannot be fetched, and none of
them is what is tested.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.servers.github_api import REPOSITORY, TOKEN, GitHubApi
from tests.servers.go_tools import act

__all__ = ["ROOT", "Ran", "Repository"]

ROOT = Path(__file__).parents[2]
_OURS = "acme/lancens@v1"
_INSTALLED = ("action.yml", "reconciler/action/install.py")
"""What the Action is where the runner has lancens already."""
_PACKAGE = ("pyproject.toml", "requirements.lock", "README.md", "LICENSE")
_USES = re.compile(r"uses: *([\w.-]+/[\w.-]+)[\w./-]*@(\w+)")
_LINE = re.compile(r"^\[[^]]*\] +\| (.*)$", re.MULTILINE)

# What stands in for the actions of others; an artifact, or what is handed on to code scanning, is copied to where the
# test can look at it.
_STAND_IN = """\
name: A stand-in of the tests
description: Does nothing, or keeps the artifact
inputs: {name: {default: code-scanning}, path: {default: ""}, sarif_file: {default: ""}}
runs:
  using: composite
  steps:
    - if: inputs.path != '' || inputs.sarif_file != ''
      shell: /bin/bash --noprofile --norc -peo pipefail {0}
      env:
        NAME: ${{ inputs.name }}
        FROM: ${{ inputs.path || inputs.sarif_file }}
      run: /bin/rm -rf "$ARTIFACTS/$NAME" && /bin/cp -r "$FROM" "$ARTIFACTS/$NAME"
"""


# GitHub's cache: a folder beside the repository. As the real action does, it starts the `tar` that PATH leads to.
_RESTORE = """\
name: A stand-in for the cache
description: Unpacks what was saved under the key
inputs: {path: {required: true}, key: {required: true}}
runs:
  using: composite
  steps:
    - shell: /bin/bash --noprofile --norc -eo pipefail {0}
      env: {FOLDER: "${{ inputs.path }}", KEY: "${{ inputs.key }}"}
      run: if [[ -e "$CACHE/$KEY.tar" ]]; then tar -xPf "$CACHE/$KEY.tar"; echo "restored $KEY"; fi
"""
_SAVE = _RESTORE.replace("Unpacks what was saved", "Saves").replace(
    'if [[ -e "$CACHE/$KEY.tar" ]]; then tar -xPf "$CACHE/$KEY.tar"; echo "restored $KEY"; fi',
    '/bin/mkdir -p "$CACHE" && tar -cPf "$CACHE/$KEY.tar" "$FOLDER"',
)
# As the real one does where it has to fetch a Python, it starts the `bash` that PATH leads to.
_SETUP = """\
name: A stand-in for setup-python
description: Names the runner's own Python
inputs: {python-version: {required: true}}
outputs: {python-path: {value: "${{ steps.found.outputs.python }}"}}
runs:
  using: composite
  steps:
    - id: found
      shell: bash --noprofile --norc -eo pipefail {0}
      run: echo "python=$THE_PYTHON" >> "$GITHUB_OUTPUT"
"""
_STAND_INS = {"other": _STAND_IN, "other/upload-sarif": _STAND_IN, "setup-python": _SETUP}
_STAND_INS |= {"cache/restore": _RESTORE, "cache/save": _SAVE}


@dataclass(frozen=True)
class Ran:
    """One run of a workflow: everything act printed, and whether the job succeeded."""

    ok: bool
    log: str

    @property
    def printed(self) -> str:
        """What the steps printed, without act's own words."""
        return "\n".join(_LINE.findall(self.log))

    def output(self, name: str) -> str:
        """Return an output of the Action."""
        found = re.findall(rf"::set-output:: {name}=(.*)", self.log)
        return found[-1].strip() if found else ""


@dataclass
class Repository:
    """A git repository with a manifest and the example workflows."""

    folder: Path
    api: GitHubApi
    environment: dict[str, str] = field(default_factory=dict)
    runs: int = 0

    def __post_init__(self) -> None:
        for name in ("repository/.github/workflows", "action", "artifacts"):
            (self.folder / name).mkdir(parents=True)
        for action, text in _STAND_INS.items():
            (self.folder / "stand-in" / action).mkdir(parents=True, exist_ok=True)
            (self.folder / "stand-in" / action / "action.yml").write_text(text)
        for name in _INSTALLED:
            (self.folder / "action" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / "action" / name)
        self._git("init", "--quiet", "--initial-branch", "main")
        self._git("remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")
        self.workflows("preinstalled: true")

    @property
    def path(self) -> Path:
        return self.folder / "repository"

    def package(self) -> None:
        """Put what lancens is built from beside the Action, so that it can install itself."""
        for name in _PACKAGE:
            shutil.copy(ROOT / name, self.folder / "action" / name)
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "reconciler", self.folder / "action/reconciler", ignore=without, dirs_exist_ok=True)

    def artifact(self, name: str) -> Path:
        """Return where an artifact was kept."""
        return self.folder / "artifacts" / name

    def workflows(self, install: str) -> None:
        """Write the example workflows; ``install`` is what replaces their `extras`."""
        for example in (ROOT / "examples/github").glob("*.yml"):
            text = example.read_text().replace("OWNER/lancens@RELEASE_COMMIT # v0", _OURS)
            text = text.replace("extras: glue", install).replace("allow-hosts: my-lake", "allow-hosts: 127.0.0.1")
            (self.path / ".github/workflows" / example.name).write_text(text)

    def commit(self, manifest: str) -> str:
        """Commit ``manifest`` and return the commit's SHA."""
        return self.commit_files({"lancens.yaml": manifest})

    def commit_files(self, files: Mapping[str, str]) -> str:
        """Commit files with their texts and return the commit's SHA."""
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self._git("rev-parse", "HEAD")

    def pull_request(self, number: int, manifest: str) -> Ran:
        """Propose ``manifest`` in a pull request, and run what that starts."""
        head = self.commit(manifest)
        pull = self.api.pulls.get(number) or self.api.add_pull(number, head)
        pull["head"]["sha"] = head
        return self.run("pull_request", "plan", {"number": number, "pull_request": pull})

    def merge(self, number: int, manifest: str | None = None) -> Ran:
        """Merge a pull request, perhaps together with another change, and run what that starts."""
        text = (self.path / "lancens.yaml").read_text() if manifest is None else manifest
        self.api.merge(number, self.commit(text))
        return self.run("push", "apply")

    def run(self, event: str, workflow: str, document: Mapping[str, Any] | None = None) -> Ran:
        """Run one workflow."""
        self.runs += 1
        stand_ins = self.folder / "stand-in"
        path = self.folder / "event.json"
        path.write_text(json.dumps(document or {}))
        variables = {
            "GITHUB_API_URL": self.api.url,
            "GITHUB_GRAPHQL_URL": f"{self.api.url}/graphql",
            "ARTIFACTS": str(self.folder / "artifacts"),
            "CACHE": str(self.folder / "saved"),
            "THE_PYTHON": sys.executable,
            "GITHUB_RUN_ID": str(self.runs),
            **self.environment,
        }
        command = [str(act()), event, "--workflows", f".github/workflows/{workflow}.yml", "--eventpath", str(path)]
        command += [
            "--platform",
            "ubuntu-latest=-self-hosted",
            "--no-cache-server",
            "--secret",
            f"GITHUB_TOKEN={TOKEN}",
        ]
        command += ["--local-repository", f"{_OURS}={self.folder / 'action'}"]
        for action in self._others():
            named = stand_ins / action.partition("@")[0].removeprefix("actions/")
            command += ["--local-repository", f"{action}={named if named.exists() else stand_ins / 'other'}"]
        for name, value in variables.items():
            command += ["--env", f"{name}={value}"]
        environment = {
            **os.environ,
            # The runner's python3 is the one that runs the tests; act keeps its files where the test's are.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache/pip"),
        }
        done = subprocess.run(
            command, cwd=self.path, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
        return Ran(done.returncode == 0, done.stdout + done.stderr)

    def _others(self) -> set[str]:
        """Return the repository and commit of every action that is not ours and that act does not bring itself."""
        texts = [(ROOT / "action.yml").read_text(), *(path.read_text() for path in self.path.rglob("*.yml"))]
        used = {f"{repository}@{commit}" for text in texts for repository, commit in _USES.findall(text)}
        return {action for action in used if action != _OURS and not action.startswith("actions/checkout@")}

    def _git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
        done = subprocess.run(["git", *identity, *arguments], cwd=self.path, capture_output=True, text=True, check=True)
        return done.stdout.strip()
