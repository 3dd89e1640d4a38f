"""Several plans in one pull request, run by a real runner: two manifests, a matrix, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.action.runner import Ran, Repository
from tests.servers.github_api import GitHubApi

_TEAM = """\
version: 1
name: {team}
catalogs:
  lake:
    impl: dir
    config: {{root: {root}}}
    namespaces: {{features: {{tables: {{users: {{properties: {{team: {team}}}}}{more}}}}}}}
"""
_STAGES = """\
version: 1
name: store
catalogs:
  lake:
    impl: dir
    config: {root: "${var:root}"}
    namespaces: {features: {tables: {users: {}}}}
"""


@pytest.fixture
def lakes(tmp_path: Path) -> Path:
    made = tmp_path / "lakes"
    made.mkdir()
    return made


def proposed(repository: Repository, api: GitHubApi, number: int, workflow: str, files: dict[str, str]) -> Ran:
    """Propose ``files`` in a pull request, and run a workflow on that."""
    head = repository.commit_files(files)
    pull = api.pulls.get(number) or api.add_pull(number, head)
    pull["head"]["sha"] = head
    return repository.run("pull_request", workflow, {"number": number, "pull_request": pull})


def merged(repository: Repository, api: GitHubApi, number: int, workflow: str) -> Ran:
    api.merge(number, repository.commit_files({}))
    return repository.run("push", workflow)


def test_each_manifest_of_a_monorepo_is_planned_approved_and_applied_on_its_own(
    repository: Repository, api: GitHubApi, lakes: Path
) -> None:
    in_the_way = lakes / "web/taken/note.txt"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("no dataset")
    teams = {
        "ads": _TEAM.format(team="ads", root=lakes / "ads", more=""),
        "web": _TEAM.format(team="web", root=lakes / "web", more=f", taken: {{location: {in_the_way.parent}}}"),
    }
    files = {f"teams/{team}/lancens.yaml": text for team, text in teams.items()}
    planned = proposed(repository, api, 7, "monorepo", files)
    assert planned.ok, planned.log
    comments = {team: body for team in teams for body in api.comments_on(7, "plan") if f"teams/{team}/" in body}
    assert len(comments) == len(api.comments_on(7, "plan")) == 2
    assert all("lancens approves" in body for body in comments.values())
    assert "1 blocked" in comments["web"]
    assert len({path.name for path in (repository.folder / "artifacts").iterdir()}) == 2

    applied = merged(repository, api, 7, "monorepo")
    assert not applied.ok, "something of web is blocked"
    assert "failure-reason=blocked" in applied.log
    assert (lakes / "ads/__manifest").exists(), applied.log
    assert not (lakes / "web/__manifest").exists()


def test_a_matrix_over_stages_is_shown_at_once_and_applied_in_order(
    repository: Repository, api: GitHubApi, lakes: Path
) -> None:
    stages = ("dev", "staging", "prod")
    files = {f"stages/{stage}.yaml": f"root: {lakes / stage}\n" for stage in stages}
    planned = proposed(repository, api, 7, "promotion", {"lancens.yaml": _STAGES, **files})
    assert planned.ok, planned.log
    for stage in stages:
        assert len([body for body in api.comments_on(7, "plan") if f"label `{stage}`" in body]) == 1
    assert merged(repository, api, 7, "promotion").ok
    assert all((lakes / stage / "__manifest").exists() for stage in stages)
    assert len(api.comments_on(7, "apply")) == 3
