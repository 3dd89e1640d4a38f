"""What ``release.yml`` runs on a tag: its own commands, on repositories of this test's, with a stand-in for ``gh``."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]


def steps(job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = JOBS[job]["steps"]
    return found


@dataclass
class Checkout:
    """A clone of a repository of which ``v1.2.0`` is the newest release."""

    folder: Path
    origin: Path

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, version: str) -> str:
        (self.folder / "pyproject.toml").write_text(f'[project]\nname = "lancens"\nversion = "{version}"\n')
        self.git("commit", "--quiet", "--all", "--message", version)
        return self.git("rev-parse", "HEAD")

    def run(self, script: str, tag: str) -> subprocess.CompletedProcess[str]:
        """Run a step as a runner does on a push of ``tag``."""
        environment = {
            **os.environ,
            "GITHUB_REF_NAME": tag,
            "GITHUB_REPOSITORY": "acme/lancens",
            "GITHUB_SHA": self.git("rev-parse", "HEAD"),
            "PATH": f"{self.folder.parent}{os.pathsep}{os.environ['PATH']}",
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout", tmp_path / "origin.git")
    made.folder.mkdir()
    subprocess.run(["git", "init", "--quiet", "--bare", str(made.origin)], check=True)
    made.git("init", "--quiet")
    made.git("remote", "add", "origin", str(made.origin))
    (made.folder / "pyproject.toml").touch()
    made.git("add", "pyproject.toml")
    made.commit("1.2.0")
    made.git("tag", "v1")
    made.git("push", "--quiet", "origin", "main", "v1")
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/released"\n')
    gh.chmod(0o755)
    return made


def test_only_the_tag_of_the_version_on_main_is_released(checkout: Checkout) -> None:
    [check] = [step["run"] for step in steps("test") if step.get("name") == "The tag is the version's, and on main"]
    checkout.commit("1.3.0")
    assert checkout.run(check, "v1.3.0").returncode != 0, "the commit is on no branch of the remote"
    checkout.git("push", "--quiet", "origin", "main")
    assert checkout.run(check, "v1.3.0").returncode == 0
    assert checkout.run(check, "v1.3.1").returncode != 0


def test_the_tag_of_the_major_version_moves_when_all_else_is_done(checkout: Checkout, tmp_path: Path) -> None:
    move = steps("action")[-1]["run"]
    before, newest = checkout.git("rev-parse", "v1"), checkout.commit("1.3.0")
    checkout.git("push", "--quiet", "origin", "main")
    moved = checkout.run(move, "v1.3.0")
    assert moved.returncode == 0, moved.stderr
    assert checkout.git("ls-remote", "origin", "refs/tags/v1").split()[0] == newest != before
    assert (tmp_path / "released").read_text().startswith("release create v1.3.0 --verify-tag")


def test_pages_and_examples_name_the_tag_that_the_next_release_moves(checkout: Checkout) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    before = set(checkout.git("ls-remote", "origin").split())
    assert checkout.run(steps("action")[-1]["run"], f"v{version}").returncode == 0
    [moved] = set(checkout.git("ls-remote", "origin").split()) - before
    tag = moved.removeprefix("refs/tags/")
    assert set(re.findall(r"`(v\d+)`", (ROOT / "docs/releasing.md").read_text())) == {tag}
    used = [ROOT / "docs/github-action.md", *(ROOT / "examples/github").glob("*.yml")]
    assert {tag} == {one for path in used for one in re.findall(r"@RELEASE_COMMIT # (v\d+)\b", path.read_text())}


def test_what_is_published_is_what_was_tested_built_and_attested() -> None:
    assert {job: JOBS[job].get("needs") for job in JOBS} == {
        "test": None,
        "build": "test",
        "publish": "build",
        "action": "publish",
    }
    assert steps("test")[-1]["run"] == "make test PYTHON=python"
    done = [step.get("uses", step.get("run", "")).partition("@")[0] for step in steps("build")[-4:]]
    assert done == ["make dist sbom PYTHON=python", "actions/attest-build-provenance", *["actions/upload-artifact"] * 2]
    attested, kept, listed = (step["with"] for step in steps("build")[-3:])
    assert attested["subject-path"].split() == ["dist/*", "build/sbom/*.cdx.json"]
    assert (kept["path"], listed["path"]) == ("dist/", "build/sbom/"), "PyPI gets no SBOM"
    assert JOBS["build"]["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    fetched, published = steps("publish")
    assert fetched["with"] == {"name": kept["name"], "path": "dist/"}
    assert published["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert JOBS["publish"]["permissions"] == {"id-token": "write"}
