"""A workspace of its own for each test, and the API it talks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.action.runner import Repository
from tests.action.step import MANIFEST, Workspace
from tests.servers.github_api import GitHubApi, github_api
from tests.servers.go_tools import act


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    with github_api() as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path, api: GitHubApi) -> Repository:
    act()
    return Repository(tmp_path / "run", api)


@pytest.fixture
def workspace(
    tmp_path: Path, api: GitHubApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    path = tmp_path / "workspace"
    path.mkdir()
    monkeypatch.chdir(path)
    made = Workspace(path, api, capsys)
    made.write()
    api.files["lancens.yaml"] = MANIFEST.encode()
    return made
