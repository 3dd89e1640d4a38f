"""An object that is blocked: shown on the pull request and in drift, and left aside on merge only when asked for."""

from __future__ import annotations

import re

from tests.action.step import MERGE, Workspace
from tests.servers.github_api import GitHubApi


def with_one_blocked(workspace: Workspace) -> None:
    """The manifest wants a table where files of another kind are."""
    odd = workspace.path / "lake" / "odd.lance"
    odd.mkdir(parents=True)
    (odd / "notes.txt").write_text("mine")
    workspace.edit("events: {}", "events: {location: ./lake/odd.lance}")


def test_it_is_shown_and_applied_around_when_asked_to(workspace: Workspace, api: GitHubApi) -> None:
    with_one_blocked(workspace)
    planned = workspace.pull_request()
    assert (planned.code, planned.outputs["exit-code"], planned.outputs["blocked"]) == (0, "3", "1")
    [comment] = api.comments_on(7)
    assert "1 blocked" in comment
    assert "not a Lance dataset" in comment
    said = r"::warning (?=.*file=lancens\.yaml)(?=.*line=12\b).*title=lancens%3A blocked.*::lake/features/events: "
    assert re.search(f"{said}.*To do: .*`probe: false`", planned.log)

    api.merge(7, MERGE)
    refused = workspace.push(command="apply")
    ended = (refused.code, refused.outputs["exit-code"], refused.outputs["failure-reason"])
    assert ended == (1, "3", "blocked"), refused.log
    assert "--skip-blocked" in refused.log
    applied = workspace.push(command="apply", skip_blocked="true")
    assert (applied.code, applied.outputs["failure-reason"]) == (0, ""), applied.log
    assert {result["status"] for result in applied.result["results"]} == {"done"}


def test_drift_keeps_an_issue_while_something_is_blocked(workspace: Workspace, api: GitHubApi) -> None:
    with_one_blocked(workspace)
    assert workspace.push(command="apply", require_approved_plan="false", skip_blocked="true").code == 0
    drifted = workspace.event("schedule", {}, command="drift", fail_on_drift="true")
    assert (drifted.code, drifted.outputs["exit-code"], drifted.outputs["failure-reason"]) == (1, "3", "blocked")
    [issue] = api.issues
    assert (issue["state"], "1 blocked" in issue["title"]) == ("open", True)
