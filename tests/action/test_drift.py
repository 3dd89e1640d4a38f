"""Drift on a schedule: one issue, for as long as the catalogs differ from the manifest."""

from __future__ import annotations

import lance
import pyarrow as pa

from tests.action.step import Step, Workspace, many_tables
from tests.servers.github_api import REPOSITORY, GitHubApi


def drift(workspace: Workspace, **inputs: str) -> Step:
    return workspace.event("schedule", {}, command="drift", **inputs)


def states(api: GitHubApi) -> list[str]:
    return [issue["state"] for issue in api.issues]


def test_an_issue_is_opened_updated_and_closed(workspace: Workspace, api: GitHubApi) -> None:
    drifted = drift(workspace)
    assert (drifted.code, drifted.outputs["exit-code"], drifted.outputs["has-changes"]) == (0, "2", "true")
    assert drifted.outputs["comment-url"] == f"https://github.com/{REPOSITORY}/issues/1000"
    [issue] = api.issues
    assert issue["labels"] == ["lancens-drift"]
    assert "3 changes" in issue["title"]
    assert "`features/users`" in issue["body"]

    workspace.edit("          events: {}\n", "")
    assert drift(workspace).outputs["comment-url"] == drifted.outputs["comment-url"]
    assert states(api) == ["open"]
    assert "2 changes" in api.issues[0]["title"]

    workspace.push(command="apply", require_approved_plan="false")
    gone = drift(workspace)
    assert (gone.code, gone.outputs["exit-code"]) == (0, "0")
    assert states(api) == ["closed"]
    assert "again" in api.comments_on(1000)[0]
    assert drift(workspace).outputs["comment-url"] == ""

    workspace.edit("tier: gold", "tier: silver")
    drift(workspace)
    assert states(api) == ["closed", "open"]


def test_a_run_that_sees_the_same_writes_nothing(workspace: Workspace, api: GitHubApi) -> None:
    workspace.environment["GITHUB_RUN_ID"] = "42"
    drift(workspace)
    api.calls.clear()
    drift(workspace)
    assert {call.split()[0] for call in api.calls} <= {"GET", "POST"}
    assert [call for call in api.calls if call.startswith("POST")] == ["POST /graphql"]


def test_labels_and_other_peoples_issues_are_kept_apart(workspace: Workspace, api: GitHubApi) -> None:
    drift(workspace)
    copied = {**api.issues[0], "number": 1001, "user": {"login": "mallory"}}
    api.issues.insert(0, copied)
    drift(workspace, label="staging")
    assert states(api) == ["open", "open", "open"]
    workspace.push(command="apply", require_approved_plan="false")
    drift(workspace)
    assert states(api) == ["open", "closed", "open"]


def test_what_is_selected_has_an_issue_of_its_own(workspace: Workspace, api: GitHubApi) -> None:
    workspace.edit("    namespaces:\n", "    namespaces:\n      other: {tables: {t: {}}}\n")
    workspace.push(command="apply", require_approved_plan="false")
    workspace.edit("tier: gold", "tier: silver")
    for select in ("lake/features/**", "lake/other/**", ""):
        assert drift(workspace, select=select).code == 0
    assert states(api) == ["open", "open"]
    drift(workspace, exclude="lake/other/**")
    assert states(api) == ["open", "open", "open"]
    workspace.edit("tier: silver", "tier: gold")
    drift(workspace, select="lake/features/**")
    assert sorted(states(api)) == ["closed", "open", "open"]


def test_drift_fails_only_where_it_is_asked_to(workspace: Workspace) -> None:
    failed = drift(workspace, fail_on_drift="true")
    assert (failed.code, failed.outputs["failure-reason"], failed.outputs["exit-code"]) == (1, "drift", "2")
    assert drift(workspace, comment="never").code == 0


def test_tables_that_nobody_manages_fail_only_where_that_is_asked_for(workspace: Workspace) -> None:
    assert workspace.push(command="apply", require_approved_plan="false").code == 0
    assert drift(workspace, fail_on_unmanaged="true").code == 0
    lance.write_dataset(pa.table({"id": [1]}), str(workspace.path / "lake/theirs.lance"))
    assert drift(workspace).code == 0
    failed = drift(workspace, fail_on_unmanaged="true")
    assert (failed.code, failed.outputs["failure-reason"], failed.outputs["exit-code"]) == (1, "drift", "2")
    assert "1 table managed by no manifest" in failed.commands("error")[0]


def test_without_an_issue_where_none_is_wanted(workspace: Workspace, api: GitHubApi) -> None:
    drift(workspace, comment="never")
    assert api.issues == []


def test_a_catalog_that_cannot_be_read_leaves_the_issue(workspace: Workspace, api: GitHubApi) -> None:
    workspace.push(command="apply", require_approved_plan="false")
    workspace.edit("tier: gold", "tier: silver")
    drift(workspace)
    before = dict(api.issues[0])
    for version in (workspace.path / "lake/__manifest/_versions").iterdir():
        version.write_bytes(b"no dataset")
    failed = drift(workspace)
    assert failed.outputs["failure-reason"] == "catalog-unreadable"
    assert api.issues == [before]


def test_a_huge_drift_fits_an_issue(workspace: Workspace, api: GitHubApi) -> None:
    workspace.write((workspace.path / "lancens.yaml").read_text() + many_tables(1_000))
    assert drift(workspace).code == 0
    assert "Left out:" in api.issues[0]["body"]


def test_a_title_of_many_manifests_fits_an_issue(workspace: Workspace, api: GitHubApi) -> None:
    names = [f"{letter * 90}.yaml" for letter in "xy"]
    for name in names:
        (workspace.path / name).write_text("version: 1\n")
    drifted = drift(workspace, manifest="\n".join(("lancens.yaml", *names)))
    assert drifted.code == 0, drifted.log
    assert api.issues[0]["title"].endswith("(3 changes)")


def test_an_issue_that_is_denied_says_which_permission(workspace: Workspace, api: GitHubApi) -> None:
    api.denied.add("issues")
    failed = drift(workspace)
    assert failed.outputs["failure-reason"] == "github"
    assert "permissions" in failed.log
