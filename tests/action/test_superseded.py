"""A run of an older commit does not undo what a newer one has applied."""

from __future__ import annotations

import pytest

from tests.action.step import MANIFEST, Step, Workspace
from tests.servers.github_api import GitHubApi

OLDER, NEWER, LATER = "1" * 40, "2" * 40, "3" * 40
WITHOUT = MANIFEST.replace("          events: {}\n", "          events: {absent: true}\n")


@pytest.fixture
def two_merges(workspace: Workspace, api: GitHubApi) -> Workspace:
    """Two pull requests, merged: the older one makes a table that the newer one removes."""
    assert workspace.pull_request(7).code == 0
    api.merge(7, OLDER)
    return workspace


def applied(workspace: Workspace, commit: str, manifest: str = MANIFEST, **inputs: str) -> Step:
    """Check ``commit`` out and apply it."""
    workspace.write(manifest)
    return workspace.push(commit, command="apply", **inputs)


def merge_removal(workspace: Workspace) -> None:
    workspace.write(WITHOUT)
    assert workspace.pull_request(8, head="f" * 40).code == 0
    workspace.api.merge(8, NEWER)


@pytest.mark.parametrize("required", ["true", "false"])
def test_an_older_merge_that_would_undo_a_newer_one_is_refused(two_merges: Workspace, required: str) -> None:
    workspace = two_merges
    assert applied(workspace, OLDER).code == 0
    merge_removal(workspace)
    assert applied(workspace, NEWER, WITHOUT).code == 0
    again = applied(workspace, OLDER, require_approved_plan=required)
    assert (again.code, again.outputs["failure-reason"]) == (1, "superseded"), again.log
    assert f"older than {NEWER[:12]} of main" in again.log
    workspace.write(WITHOUT)
    assert workspace.push(NEWER, command="drift").outputs["has-changes"] == "false"


def test_a_saved_plan_of_an_older_merge_is_refused_as_well(two_merges: Workspace) -> None:
    workspace = two_merges
    planned = workspace.push(OLDER)
    assert applied(workspace, OLDER).code == 0
    merge_removal(workspace)
    assert applied(workspace, NEWER, WITHOUT).code == 0
    given = {"plan_file": planned.outputs["plan-file"], "expect_digest": planned.outputs["plan-sha256"]}
    assert applied(workspace, OLDER, **given).outputs["failure-reason"] == "superseded"


def test_the_first_run_of_the_older_of_two_quick_merges_goes_on(two_merges: Workspace) -> None:
    workspace = two_merges
    workspace.write(MANIFEST.replace("gold", "silver"))
    assert workspace.pull_request(8, head="f" * 40).code == 0
    workspace.api.merge(8, NEWER)
    first = applied(workspace, OLDER)
    assert first.code == 0, first.log


def test_a_newer_merge_that_was_refused_stops_no_run(two_merges: Workspace) -> None:
    workspace = two_merges
    workspace.api.main.append(NEWER)
    assert applied(workspace, NEWER, WITHOUT).outputs["failure-reason"] == "not-approved"
    assert workspace.api.statuses == []
    assert applied(workspace, OLDER).code == 0


def test_a_run_whose_branch_moved_by_a_push_that_runs_nothing_goes_on(two_merges: Workspace) -> None:
    workspace = two_merges
    workspace.api.main += [f"{number:040x}" for number in range(0xA000, 0xA000 + 250)]
    assert applied(workspace, OLDER).code == 0
    assert applied(workspace, OLDER).code == 0


def test_a_newer_commit_with_the_same_manifest_stops_no_run(two_merges: Workspace) -> None:
    workspace = two_merges
    workspace.api.main += [NEWER, *(f"{number:040x}" for number in range(0xA000, 0xA000 + 250))]
    # Part of it, as a cancelled run would have left it.
    part = {"select": "lake/features/users", "require_approved_plan": "false"}
    assert applied(workspace, NEWER, **part).code == 0
    assert applied(workspace, OLDER).code == 0


def test_the_newest_applied_commit_decides(two_merges: Workspace) -> None:
    workspace = two_merges
    workspace.api.main += [NEWER, LATER]
    assert applied(workspace, LATER, WITHOUT, require_approved_plan="false").code == 0
    assert applied(workspace, NEWER, require_approved_plan="false").outputs["failure-reason"] == "superseded"


def test_a_status_that_somebody_else_set_is_not_trusted(two_merges: Workspace) -> None:
    workspace = two_merges
    assert applied(workspace, OLDER).code == 0
    merge_removal(workspace)
    assert applied(workspace, NEWER, WITHOUT).code == 0
    genuine = next(status for status in workspace.api.statuses if status["sha"] == OLDER)
    workspace.api.statuses.append({**genuine, "sha": NEWER, "creator": {"login": "mallory"}})
    again = applied(workspace, OLDER)
    assert again.outputs["failure-reason"] == "superseded"
    assert "mallory" in again.log
    assert "another manifest" not in again.log


def test_a_plan_of_another_key_stops_no_run(two_merges: Workspace) -> None:
    workspace = two_merges
    workspace.api.main.append(NEWER)
    given = {"label": "prod", "require_approved_plan": "false", "select": "lake/features/users"}
    assert applied(workspace, NEWER, MANIFEST.replace("gold", "silver"), **given).code == 0
    # The other label's plan is of the same catalog here: what it changed is what the approval refuses.
    assert applied(workspace, OLDER).outputs["failure-reason"] == "plan-changed"


def test_nothing_is_written_where_the_status_cannot_be_set(two_merges: Workspace, api: GitHubApi) -> None:
    workspace = two_merges
    api.denied.add("statuses")
    refused = applied(workspace, OLDER)
    assert (refused.code, refused.outputs["failure-reason"]) == (1, "github")
    assert "permissions" in refused.log
    assert not (workspace.path / "lake").exists()


def test_the_status_says_how_the_apply_ended(two_merges: Workspace, api: GitHubApi) -> None:
    assert applied(two_merges, OLDER).code == 0
    assert [status["state"] for status in api.statuses] == ["pending", "success"]
    assert {status["sha"] for status in api.statuses} == {OLDER}
    api.fail("POST", "/statuses/", 500, times=9)
    two_merges.write(MANIFEST.replace("gold", "silver"))
    assert applied(two_merges, OLDER).outputs["failure-reason"] == "github"
