"""From the pull request to the merge: what was shown is what is applied, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.action.step import HEAD, MERGE, Step, Workspace
from tests.servers.github_api import GitHubApi


def reviewed(workspace: Workspace) -> None:
    """Plan on a pull request and merge it."""
    assert workspace.pull_request().code == 0
    workspace.api.merge(7, MERGE)


def test_the_plan_that_was_shown_is_applied_on_merge(workspace: Workspace, api: GitHubApi) -> None:
    planned = workspace.pull_request()
    assert (planned.code, planned.outputs["exit-code"], planned.outputs["failure-reason"]) == (0, "2", "")
    assert planned.outputs["has-changes"] == "true"
    assert (planned.outputs["to-create"], planned.outputs["to-declare"]) == ("2", "1")
    [comment] = api.comments_on(7)
    assert planned.outputs["plan-sha256"] in comment
    assert HEAD in comment
    assert "Merging applies exactly this plan." in comment
    assert planned.outputs["comment-url"].endswith("/pull/7#issuecomment-1")
    assert not (workspace.path / "lake").exists()

    api.merge(7, MERGE)
    applied = workspace.push(command="apply")
    assert (applied.code, applied.outputs["exit-code"]) == (0, "0"), applied.log
    assert [result["status"] for result in applied.result["results"]] == ["done"] * 3
    assert "3 of 3 done" in api.comments_on(7, "apply")[0]
    assert workspace.push(command="drift").outputs["has-changes"] == "false"


def test_running_apply_again_does_nothing_twice(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    assert workspace.push(command="apply").code == 0
    again = workspace.push(command="apply")
    assert (again.code, again.outputs["has-changes"]) == (0, "false")


def test_a_manifest_that_changed_since_is_refused_with_the_difference(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    workspace.edit("tier: gold", "tier: silver")
    refused = workspace.push(command="apply")
    assert (refused.code, refused.outputs["failure-reason"]) == (1, "plan-changed")
    assert "the manifest has changed since" in refused.log
    [comment] = api.comments_on(7, "apply")
    assert "tier" in comment
    assert "\n- " in comment
    assert "\n+ " in comment
    assert not (workspace.path / "lake").exists()


def test_a_catalog_that_moved_since_is_refused_with_the_difference(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    assert workspace.push(command="apply").code == 0
    workspace.edit("tier: gold", "tier: silver")
    assert workspace.pull_request(8).code == 0
    workspace.edit("tier: silver", "tier: bronze")
    assert workspace.push(command="apply", require_approved_plan="false").code == 0
    workspace.edit("tier: bronze", "tier: silver")
    api.merge(8, MERGE[::-1].replace("b", "d"))
    refused = workspace.push("d" * 40, command="apply")
    assert refused.outputs["failure-reason"] == "plan-changed"
    assert "changed since" in refused.log
    [comment] = api.comments_on(8, "apply")
    assert "gold -> silver" in comment
    assert "bronze -> silver" in comment


def test_what_an_interrupted_apply_left_is_gone_on_with(workspace: Workspace) -> None:
    reviewed(workspace)
    # The first part of the plan, as an apply that was cancelled would have left it.
    begun = workspace.push(command="apply", select="lake/features/users", require_approved_plan="false")
    assert begun.code == 0, begun.log
    resumed = workspace.push(command="apply")
    assert resumed.code == 0, resumed.log
    assert [result["address"] for result in resumed.result["results"]] == ["lake/features/events"]
    assert workspace.push(command="drift").outputs["has-changes"] == "false"


def test_more_than_was_shown_is_refused(workspace: Workspace) -> None:
    reviewed(workspace)
    assert workspace.push(command="apply").code == 0
    workspace.edit("tier: gold", "tier: silver")
    assert workspace.pull_request(8, head="e" * 40).code == 0
    workspace.api.merge(8, "d" * 40)
    # Somebody removes a table by hand: putting it back is something that nobody was shown.
    workspace.edit("          events: {}\n", "          events: {absent: true}\n")
    assert workspace.push(command="apply", select="lake/features/events", require_approved_plan="false").code == 0
    workspace.edit("          events: {absent: true}\n", "          events: {}\n")
    refused = workspace.push("d" * 40, command="apply")
    assert refused.outputs["failure-reason"] == "plan-changed", refused.log


def test_other_tables_that_appear_in_the_catalog_do_not_stop_a_merge(workspace: Workspace) -> None:
    import lance
    import pyarrow as pa

    reviewed(workspace)
    lance.write_dataset(pa.table({"id": [1]}), workspace.path / "lake/elsewhere.lance")
    assert workspace.push(command="apply").code == 0


@pytest.mark.parametrize("since", ["append", "replacement"])
def test_an_approval_outlasts_appends_and_not_another_dataset(workspace: Workspace, api: GitHubApi, since: str) -> None:
    import lance
    import pyarrow as pa

    place = workspace.path / "lake/data/events.lance"
    lance.write_dataset(pa.table({"id": [1]}), place)
    workspace.edit("events: {}", "events: {location: ./lake/data/events.lance}")
    assert workspace.pull_request().outputs["to-register"] == "1"
    api.merge(7, MERGE)
    if since == "replacement":
        shutil.rmtree(place)
    lance.write_dataset(pa.table({"id": [2]}), place, mode="append" if since == "append" else "create")
    applied = workspace.push(command="apply")
    statuses = {result["address"]: result["status"] for result in applied.result["results"]}
    assert statuses.get("lake/features/events") == ("done" if since == "append" else "failed"), applied.log


@pytest.mark.parametrize("root", ["./lake", ".", "../lake", "./${var:stage}/lake"])
def test_a_relative_root_is_the_same_catalog_in_another_workspace(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    workspace.edit("{root: ./lake}", f'{{root: "{root}"}}')
    given = {"variables": "stage=prod" if "var" in root else ""}
    here, there = workspace.path, workspace.path.parent / "another-runner/deeper/workspace"
    assert workspace.push(command="apply", require_approved_plan="false", variables=given["variables"]).code == 0
    workspace.edit("tier: gold", "tier: silver")
    workspace.edit("events: {}", "more: {schema: [{name: id, type: int64}]}")
    planned = workspace.pull_request(variables=given["variables"])
    assert (planned.outputs["to-update"], planned.outputs["to-deregister"]) == ("1", "1")
    assert str(here) not in api.comments_on(7)[0] + planned.summary
    api.merge(7, MERGE)

    there.parent.mkdir(parents=True)
    here.rename(there)
    if root == "../lake":
        (here.parent / "lake").rename(there.parent / "lake")
    workspace.path = there
    monkeypatch.chdir(there)
    applied = workspace.push(command="apply", variables=given["variables"])
    assert applied.code == 0, applied.log
    assert len(applied.result["results"]) == 3
    assert workspace.push(command="drift", variables=given["variables"]).outputs["has-changes"] == "false"


def test_a_saved_plan_is_carried_out_in_another_workspace(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = workspace.pull_request(comment="never")
    workspace.path = workspace.path.rename(workspace.path.with_name("another"))
    monkeypatch.chdir(workspace.path)
    assert workspace.push(command="apply", **saved_in(planned)).code == 0
    assert (workspace.path / "lake").exists()


def test_a_comment_in_the_manifest_does_not_stop_a_merge(workspace: Workspace) -> None:
    reviewed(workspace)
    workspace.write("# moved down\n" + (workspace.path / "lancens.yaml").read_text())
    assert workspace.push(command="apply").code == 0


def test_closing_a_merged_pull_request_applies_as_well(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    closed = workspace.event("pull_request", {"pull_request": api.pulls[7]}, command="apply")
    assert closed.code == 0, closed.log
    assert "3 of 3 done" in api.comments_on(7, "apply")[0]


def test_that_the_comment_fails_takes_nothing_from_an_apply(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    api.denied.add("comments")
    applied = workspace.push(command="apply")
    assert applied.code == 0
    assert len(applied.commands("warning")) == 1
    assert workspace.push(command="drift", comment="never").outputs["has-changes"] == "false"


# ---- without an approval --------------------------------------------------------------------------------------------


def test_a_push_without_a_pull_request_is_refused_unless_it_may(workspace: Workspace) -> None:
    refused = workspace.push(command="apply")
    assert (refused.code, refused.outputs["failure-reason"]) == (1, "not-approved")
    assert "require-approved-plan: false" in refused.log
    assert not (workspace.path / "lake").exists()
    assert workspace.push(command="apply", require_approved_plan="false").code == 0


def test_a_pull_request_that_showed_no_plan_approves_nothing(workspace: Workspace, api: GitHubApi) -> None:
    api.add_pull(7, HEAD, merge_commit=MERGE)
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert "no comment by github-actions[bot]" in refused.log


def test_apply_on_an_open_pull_request_is_refused(workspace: Workspace) -> None:
    workspace.pull_request()
    refused = workspace.pull_request(command="apply")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert "is not merged" in refused.log


def test_a_merge_into_another_branch_approves_nothing(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    api.pulls[7]["base"]["ref"] = "develop"
    assert workspace.push(command="apply").outputs["failure-reason"] == "not-approved"


def test_the_commit_of_a_branch_is_no_merge(workspace: Workspace, api: GitHubApi) -> None:
    workspace.pull_request()
    assert workspace.push(HEAD, command="apply").outputs["failure-reason"] == "not-approved"


@pytest.mark.parametrize("order", [(3, 7), (7, 9)])
@pytest.mark.parametrize("copied", ["a fork's copy", "a pull request that it is stacked on"])
def test_the_approval_is_that_of_the_merge_commits_own_pull_request(
    workspace: Workspace, api: GitHubApi, order: tuple[int, int], copied: str
) -> None:
    """GitHub counts every pull request as merged whose head the merge brings along, and lists it in any order."""
    other = order[0] if order[1] == 7 else order[1]
    stacked = copied != "a fork's copy"
    for number in order:
        if number == other:
            api.add_pull(other, "f" * 40 if stacked else HEAD, merge_commit=MERGE, fork=not stacked)
        else:
            assert workspace.pull_request(7).code == 0
    api.merge(7, MERGE)
    applied = workspace.push(command="apply")
    assert applied.code == 0, applied.log
    assert "3 of 3 done" in api.comments_on(7, "apply")[0]
    assert api.comments_on(other) == []


def test_two_pull_requests_of_one_head_are_refused(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    api.add_pull(8, HEAD, merge_commit=MERGE)
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert "7 and 8" in refused.log
    assert not (workspace.path / "lake").exists()


def test_a_copy_by_a_fork_approves_nothing(workspace: Workspace, api: GitHubApi) -> None:
    assert workspace.pull_request(7).code == 0  # and never merged
    api.add_pull(8, HEAD, merge_commit=MERGE, fork=True)
    assert workspace.push(command="apply").outputs["failure-reason"] == "not-approved"


@pytest.mark.parametrize("author", ["mallory", "github-actions", "other[bot]"])
def test_a_comment_by_anybody_else_approves_nothing(workspace: Workspace, api: GitHubApi, author: str) -> None:
    reviewed(workspace)
    api.comments[0]["user"]["login"] = author
    assert workspace.push(command="apply").outputs["failure-reason"] == "not-approved"


def test_a_comment_that_somebody_edited_approves_nothing(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    api.comments[0]["editor"] = "mallory"
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert "edited by someone else" in refused.log


def test_a_forged_comment_before_ours_changes_nothing(workspace: Workspace, api: GitHubApi) -> None:
    workspace.pull_request()
    forged = api.comments[0]["body"].replace("plan=", "plan=0")
    api.comments.clear()
    for _ in range(120):  # more than a page of them
        api.add_comment(7, forged, login="mallory")
    workspace.pull_request()
    assert len(api.comments) == 121
    api.merge(7, MERGE)
    assert workspace.push(command="apply").code == 0


# ---- saved plans ----------------------------------------------------------------------------------------------------


def saved_in(planned: Step) -> dict[str, str]:
    """Return the inputs that apply the plan of ``planned``, and no other one."""
    return {"plan_file": planned.outputs["plan-file"], "expect_digest": planned.outputs["plan-sha256"]}


@pytest.mark.parametrize("digest", [str.lower, str.upper])
def test_a_saved_plan_with_the_expected_digest_is_applied(workspace: Workspace, digest: Callable[[str], str]) -> None:
    planned = workspace.pull_request(comment="never")
    plan_file, expected = saved_in(planned).values()
    applied = workspace.push(command="apply", plan_file=plan_file, expect_digest=digest(expected))
    assert applied.code == 0, applied.log
    assert applied.outputs["plan-sha256"] == expected


def test_a_saved_plan_that_the_pull_request_showed_is_applied(workspace: Workspace, api: GitHubApi) -> None:
    planned = workspace.pull_request()
    api.merge(7, MERGE)
    applied = workspace.push(command="apply", plan_file=planned.outputs["plan-file"])
    assert applied.code == 0, applied.log


def test_a_saved_plan_that_no_pull_request_showed_is_refused(workspace: Workspace, api: GitHubApi) -> None:
    reviewed(workspace)
    other = workspace.push(command="plan", adopt="true", take_over="true")
    refused = workspace.push(command="apply", plan_file=other.outputs["plan-file"])
    assert (refused.code, refused.outputs["failure-reason"]) == (1, "not-approved"), refused.log
    assert "pull request 7 approves" in refused.log
    for unsure in ({"expect_digest": "0" * 64}, {"expect_digest": "0" * 64, "require_approved_plan": "false"}):
        refused = workspace.push(command="apply", plan_file=other.outputs["plan-file"], **unsure)
        assert refused.outputs["failure-reason"] == "not-approved", refused.log
    assert not (workspace.path / "lake").exists()
    given = {"plan_file": other.outputs["plan-file"], "require_approved_plan": "false"}
    assert workspace.push(command="apply", **given).code == 0


@pytest.mark.parametrize("how", ["unmerged", "edited", "another head", "no comment"])
def test_a_saved_plan_needs_what_any_approval_needs(workspace: Workspace, api: GitHubApi, how: str) -> None:
    planned = workspace.pull_request(comment="never" if how == "no comment" else "changes-only")
    if how != "unmerged":
        api.merge(7, MERGE)
    if how == "edited":
        api.comments[0]["editor"] = "mallory"
    if how == "another head":
        api.pulls[7]["head"]["sha"] = "f" * 40
    refused = workspace.push(command="apply", plan_file=planned.outputs["plan-file"])
    assert refused.outputs["failure-reason"] == "not-approved", refused.log
    assert not (workspace.path / "lake").exists()


def test_a_saved_plan_that_is_stale_is_refused_with_the_difference(workspace: Workspace, api: GitHubApi) -> None:
    planned = workspace.pull_request()
    api.merge(7, MERGE)
    workspace.edit("tier: gold", "tier: silver")
    refused = workspace.push(command="apply", plan_file=planned.outputs["plan-file"])
    assert refused.outputs["failure-reason"] == "plan-changed"
    assert "\n+ " in api.comments_on(7, "apply")[0]


def test_a_plan_file_that_is_not_there_is_one_clear_error(workspace: Workspace) -> None:
    refused = workspace.push(command="apply", plan_file="gone.json")
    assert refused.outputs["failure-reason"] == "invalid-input"
    assert "gone.json: No such file" in refused.log


# ---- failing --------------------------------------------------------------------------------------------------------


def test_an_apply_that_fails_in_part_says_what_and_can_be_run_again(workspace: Workspace, api: GitHubApi) -> None:
    planned = workspace.pull_request()
    api.merge(7, MERGE)
    document = json.loads(Path(planned.outputs["plan-file"]).read_text())
    [location] = [change["after"]["location"] for change in document["changes"] if change["action"] == "create-table"]
    obstacle = Path(location.removeprefix("file://"))
    obstacle.mkdir(parents=True)
    (obstacle / "note.txt").write_text("in the way")

    failed = workspace.push(command="apply", plan_file=planned.outputs["plan-file"])
    assert (failed.code, failed.outputs["failure-reason"], failed.outputs["exit-code"]) == (1, "partial-apply", "1")
    statuses = {result["address"]: result["status"] for result in failed.result["results"]}
    assert statuses["lake/features/users"] == "failed"
    assert statuses["lake/features/events"] == "done"
    assert "2 of 3 done, and not all" in api.comments_on(7, "apply")[0]

    (obstacle / "note.txt").unlink()
    obstacle.rmdir()
    again = workspace.push(command="apply")
    assert again.code == 0, again.log
    assert "1 of 1 done" in api.comments_on(7, "apply")[0]


def test_an_apply_of_which_nothing_succeeds_says_so(workspace: Workspace) -> None:
    first = "lake/features/events"
    assert workspace.push(command="apply", select=first, require_approved_plan="false").code == 0
    planned = workspace.push(command="plan")
    [change] = json.loads(Path(planned.outputs["plan-file"]).read_text())["changes"]
    obstacle = Path(change["after"]["location"].removeprefix("file://"))
    obstacle.mkdir(parents=True)
    (obstacle / "note.txt").write_text("in the way")
    failed = workspace.push(command="apply", **saved_in(planned))
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "apply-failed")


def test_a_cancelled_apply_finishes_what_is_in_flight_and_can_be_gone_on_with(workspace: Workspace) -> None:
    tables = "".join(f"          table_{number:03}: {{properties: {{tier: gold}}}}\n" for number in range(150))
    workspace.write((workspace.path / "lancens.yaml").read_text() + tables)
    reviewed(workspace)
    environment = workspace.environment_of("push", command="apply", parallelism="1")
    with subprocess.Popen(
        [sys.executable, "-I", "-m", "reconciler.action"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as running:
        assert running.stdout is not None
        log = ""
        while "✓" not in log and (line := running.stdout.readline()):
            log += line
        running.send_signal(signal.SIGTERM)
        log += running.stdout.read()
    assert running.returncode == 1, log
    assert "Stopped. Applied" in log
    outputs = Path(environment["GITHUB_OUTPUT"]).read_text()
    assert "partial-apply" in outputs
    assert "\n130\n" in outputs
    resumed = workspace.push(command="apply")
    assert resumed.code == 0, resumed.log
    assert 0 < len(resumed.result["results"]) < 153
    assert workspace.push(command="drift", comment="never").outputs["has-changes"] == "false"


# ---- what an approval binds ------------------------------------------------------------------------------------------


def test_an_approval_for_one_root_does_not_cover_another(workspace: Workspace, api: GitHubApi) -> None:
    workspace.edit("{root: ./lake}", '{root: "${file:root.txt}"}')
    (workspace.path / "root.txt").write_text("./lake\n")
    reviewed(workspace)
    (workspace.path / "root.txt").write_text("./elsewhere\n")
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "plan-changed"
    assert "catalog's `config` stands for" in refused.log
    assert not (workspace.path / "elsewhere").exists()
    (workspace.path / "root.txt").write_text("./lake\n")
    assert workspace.push(command="apply").code == 0


def test_an_approval_for_one_endpoint_of_the_storage_does_not_cover_another(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.edit(
        "{root: ./lake}", '{root: ./lake, storage.endpoint: "${env:ENDPOINT}", storage.secret: "${env:KEY}"}'
    )
    monkeypatch.setenv("ENDPOINT", "https://one.example")
    monkeypatch.setenv("KEY", "who-plans")
    assert workspace.pull_request(environment="ENDPOINT KEY").code == 0
    api.merge(7, MERGE)
    monkeypatch.setenv("KEY", "who-applies")
    monkeypatch.setenv("ENDPOINT", "https://two.example")
    refused = workspace.push(command="apply", environment="ENDPOINT KEY")
    assert refused.outputs["failure-reason"] == "plan-changed"
    monkeypatch.setenv("ENDPOINT", "https://one.example")
    assert workspace.push(command="apply", environment="ENDPOINT KEY").code == 0


def test_an_approval_is_for_the_commit_that_was_planned(workspace: Workspace, api: GitHubApi) -> None:
    assert workspace.pull_request().code == 0
    api.pulls[7]["head"]["sha"] = "d" * 40  # pushed, and merged before it was planned
    api.merge(7, MERGE)
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert "what was merged is dddddddddddd" in refused.log


def test_what_binds_the_services_cannot_be_guessed_from(workspace: Workspace, api: GitHubApi) -> None:
    from hashlib import sha256

    assert workspace.pull_request().code == 0
    [comment] = api.comments_on(7)
    root = str(workspace.path / "lake")
    for guess in (root, f"dir {root}", f"file://{root}"):
        digest = sha256(guess.encode()).hexdigest()
        assert digest[:16] not in comment
