"""A step of a workflow, run in this process the way ``action.yml`` starts it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reconciler.action.__main__ import run
from tests.servers.github_api import REPOSITORY, TOKEN, GitHubApi

__all__ = ["HEAD", "MANIFEST", "MERGE", "Step", "Workspace", "many_tables"]

HEAD = "a" * 40
MERGE = "b" * 40

MANIFEST = """\
version: 1
name: store
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      features:
        properties: {owner: ml-platform}
        tables:
          users: {schema: [{name: id, type: int64}], properties: {tier: gold}}
          events: {}
"""


def many_tables(number: int) -> str:
    """Return the lines of tables that differ, so that none folds into another."""
    properties = "{{properties: {{tier: gold, number: n{0}}}}}"
    return "".join(f"          table_{at:05}: {properties.format(at)}\n" for at in range(number))


@dataclass(frozen=True)
class Step:
    """What a step left behind."""

    code: int
    log: str
    summary: str
    outputs: Mapping[str, str]

    @property
    def result(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(Path(self.outputs["json"]).read_text())
        return loaded

    def commands(self, name: str) -> list[str]:
        """Return the lines that the runner would act on as the command ``name``."""
        acted: list[str] = []
        stopped: str | None = None
        for line in self.log.splitlines():
            if stopped is not None:
                stopped = None if line == f"::{stopped}::" else stopped
            elif line.startswith("::stop-commands::"):
                stopped = line.removeprefix("::stop-commands::")
            elif line.strip().startswith(f"::{name} ") or line.strip().startswith(f"::{name}::"):
                acted.append(line)
        return acted


@dataclass
class Workspace:
    """A checkout with a manifest, and the events that run the Action in it; ``api.files`` are those of the base."""

    path: Path
    api: GitHubApi
    capture: pytest.CaptureFixture[str]
    environment: dict[str, str] = field(default_factory=dict)
    _runs: int = 0

    def write(self, text: str = MANIFEST, name: str = "lancens.yaml") -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def edit(self, old: str, new: str) -> None:
        text = (self.path / "lancens.yaml").read_text()
        assert old in text
        self.write(text.replace(old, new))

    def pull_request(self, number: int = 7, *, head: str = HEAD, fork: bool = False, **inputs: str) -> Step:
        """Run on the event of a pull request that is open."""
        pull = self.api.pulls.get(number) or self.api.add_pull(number, head, fork=fork)
        document = {**pull, "head": {**pull["head"], "sha": head}}
        given = {"pull_request": document}
        return self.step(self.environment_of("pull_request", given, ref=f"{number}/merge", sha="c" * 40, **inputs))

    def push(self, sha: str = MERGE, branch: str = "main", **inputs: str) -> Step:
        """Run on a push to a branch."""
        return self.step(self.environment_of("push", {}, ref=branch, sha=sha, **inputs))

    def event(self, name: str, document: Mapping[str, Any] | None = None, **inputs: str) -> Step:
        """Run on any event."""
        return self.step(self.environment_of(name, document, **inputs))

    def environment_of(
        self,
        event: str,
        document: Mapping[str, Any] | None = None,
        *,
        ref: str = "main",
        sha: str = MERGE,
        **inputs: str,
    ) -> dict[str, str]:
        """Return the environment in which the runner would start the step."""
        self._runs += 1
        temporary = self.path.parent / f"run{self._runs}"
        temporary.mkdir()
        (temporary / "event.json").write_text(json.dumps(document or {}))
        return {
            "GITHUB_API_URL": self.api.url,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(temporary / "event.json"),
            "GITHUB_OUTPUT": str(temporary / "output"),
            "GITHUB_REF_NAME": ref,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": str(41 + self._runs),
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_SHA": sha,
            "GITHUB_STEP_SUMMARY": str(temporary / "summary"),
            "GITHUB_WORKSPACE": str(self.path),
            "RUNNER_TEMP": str(temporary),
            "INPUT_TOKEN": TOKEN,
            **self.environment,
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
        }

    def step(self, environment: Mapping[str, str]) -> Step:
        """Run in the environment that ``environment_of`` returned, as the runner would."""
        self.capture.readouterr()
        code = run(environment)
        log = "".join(self.capture.readouterr())
        summary, outputs = (_text(Path(environment[name])) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"))
        return Step(code, log, summary, _outputs(outputs))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _outputs(text: str) -> dict[str, str]:
    """Read the outputs as the runner does: name, delimiter, value, delimiter."""
    found = re.findall(r"^([^\n<]+)<<(\S+)\n(.*?)\n\2$", text, re.DOTALL | re.MULTILINE)
    return {name: value for name, _, value in found}
