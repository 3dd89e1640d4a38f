"""Several plans in one pull request: each has a comment, an artifact and an approval of its own, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.action.approval import ConfigChanges
from reconciler.action.job import Job
from tests.action.step import MANIFEST, MERGE, Step, Workspace
from tests.servers.github_api import GitHubApi


@pytest.fixture
def teams(workspace: Workspace) -> Workspace:
    """Two manifests beside each other, each with a catalog of its own."""
    for team in ("ads", "web"):
        (workspace.path / team).mkdir()
        workspace.write(MANIFEST.replace("name: store", f"name: {team}"), f"{team}/lancens.yaml")
    return workspace


def visible(comment: str) -> str:
    return "\n".join(line for line in comment.splitlines() if not line.startswith("<!--"))


def test_two_manifests_have_a_comment_each_and_merge_applies_both(teams: Workspace, api: GitHubApi) -> None:
    planned = [teams.pull_request(manifest=f"{team}/lancens.yaml") for team in ("ads", "web")]
    assert [step.code for step in planned] == [0, 0]
    comments = api.comments_on(7, "plan")
    assert len(comments) == 2
    for team, comment in zip(("ads", "web"), comments, strict=True):
        assert f"`{team}/lancens.yaml` · " in visible(comment)
    assert len({step.outputs["artifact"] for step in planned}) == 2
    assert len({step.outputs["comment-url"] for step in planned}) == 2

    api.merge(7, MERGE)
    for team in ("ads", "web"):
        applied = teams.push(command="apply", manifest=f"{team}/lancens.yaml")
        assert applied.code == 0, applied.log
        assert len(applied.result["results"]) == 3
        assert (teams.path / team / "lake").exists()
    assert len(api.comments_on(7, "apply")) == 2


def test_variables_and_files_of_them_tell_plans_apart_by_their_names(workspace: Workspace, api: GitHubApi) -> None:
    workspace.edit("{root: ./lake}", '{root: "./${var:lake}"}')
    for stage in ("staging", "prod"):
        workspace.write(f"lake: {stage}-lake\n", f"{stage}.yaml")
        assert workspace.pull_request(var_file=f"{stage}.yaml").code == 0
    assert len(api.comments_on(7, "plan")) == 2
    api.merge(7, MERGE)
    for stage in ("staging", "prod"):
        applied = workspace.push(command="apply", var_file=f"{stage}.yaml")
        assert applied.code == 0, applied.log
        assert (workspace.path / f"{stage}-lake").exists()

    by_name = workspace.pull_request(8, variables="lake=third")
    assert by_name.code == 0
    assert "third" not in "".join(visible(body) for body in api.comments_on(8)).partition("```")[0]


def test_the_same_manifest_is_the_same_plan_however_it_is_written(workspace: Workspace, api: GitHubApi) -> None:
    (workspace.path / "deep").mkdir()
    for path in ("lancens.yaml", "./lancens.yaml", "deep/../lancens.yaml", str(workspace.path / "lancens.yaml")):
        assert workspace.pull_request(manifest=path).code == 0
    assert len(api.comments_on(7)) == 1


@pytest.mark.parametrize("told_apart", ["GITHUB_JOB", "GITHUB_WORKFLOW_REF", "GITHUB_ACTION", "LANCENS_MATRIX"])
def test_a_second_plan_with_the_same_key_on_the_same_commit_is_refused(
    workspace: Workspace, api: GitHubApi, told_apart: str
) -> None:
    workspace.environment[told_apart] = "staging"
    assert workspace.pull_request(variables="", label="default").code == 0
    before = api.comments_on(7)
    workspace.environment[told_apart] = "prod"
    second = workspace.pull_request()
    assert (second.code, second.outputs["failure-reason"]) == (1, "duplicate-plan")
    for said in ("lancens.yaml", "issuecomment-1", "`label`"):
        assert said in second.log
    assert api.comments_on(7) == before, "the first one keeps its comment"
    assert second.outputs["artifact"] == "", "and its artifact"
    assert "plan-file" not in second.outputs, "no catalog was read"

    # Either job run again ends as it did, and the label that the error asks for tells them apart.
    assert workspace.pull_request().outputs["failure-reason"] == "duplicate-plan"
    assert workspace.pull_request(label="prod").code == 0
    workspace.environment[told_apart] = "staging"
    assert workspace.pull_request().code == 0
    api.merge(7, MERGE)
    assert workspace.push(command="apply").code == 0
    assert workspace.push(command="apply", label="prod").code == 0


def test_two_steps_of_one_job_with_the_same_key_are_refused_as_well(workspace: Workspace, api: GitHubApi) -> None:
    workspace.environment["GITHUB_RUN_ID"] = "77"
    first = workspace.pull_request()
    before = (api.comments_on(7), Path(first.outputs["plan-file"]).read_bytes())
    workspace.edit("tier: gold", "tier: silver")
    assert workspace.pull_request().outputs["failure-reason"] == "duplicate-plan"
    assert (api.comments_on(7), Path(first.outputs["plan-file"]).read_bytes()) == before
    workspace.environment["GITHUB_RUN_ATTEMPT"] = "2"
    assert workspace.pull_request().code == 0


def test_of_two_plans_at_the_same_moment_none_overwrites_the_other(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[Step] = []

    def meanwhile(job: Job) -> ConfigChanges:
        """Stand between the first look and the writing, and let another job do both of it there."""
        if not others:
            monkeypatch.undo()
            monkeypatch.chdir(workspace.path)
            workspace.environment["GITHUB_JOB"] = "other"
            others.append(workspace.pull_request())
        return ConfigChanges()

    monkeypatch.setattr("reconciler.action.planning.find_config_changes", meanwhile)
    late = workspace.pull_request()
    assert others[0].code == 0
    assert (late.code, late.outputs["failure-reason"]) == (1, "duplicate-plan")
    first, withdrawn = api.comments_on(7)
    assert "lancens approves" in first
    assert "shows another plan of" in withdrawn
    assert "lancens approves" not in withdrawn
    assert "lancens shows" not in withdrawn
    api.merge(7, MERGE)
    assert workspace.push(command="apply").code == 0


def test_the_comment_of_an_older_commit_is_nobodys_rival(workspace: Workspace, api: GitHubApi) -> None:
    assert workspace.pull_request().code == 0
    workspace.environment["GITHUB_JOB"] = "renamed"
    api.pulls[7]["head"]["sha"] = "d" * 40
    workspace.edit("tier: gold", "tier: silver")
    assert workspace.pull_request(head="d" * 40).code == 0
    api.merge(7, MERGE)
    applied = workspace.push(command="apply")
    assert applied.code == 0, applied.log


# ---- what else an approval binds -------------------------------------------------------------------------------------


def test_apply_is_asked_for_what_the_plan_was_asked_for(workspace: Workspace, api: GitHubApi) -> None:
    assert workspace.pull_request(select="lake/features/users", take_over="true").code == 0
    api.merge(7, MERGE)
    for select, take_over in (("", ""), ("lake/features/users", ""), ("", "true")):
        refused = workspace.push(command="apply", select=select, take_over=take_over)
        assert refused.outputs["failure-reason"] == "plan-changed"
        assert "`select`, `exclude`, `adopt`, `take-over` or `recreate-lost`" in refused.log
    assert workspace.push(command="apply", select="lake/features/users", take_over="true").code == 0


def test_an_apply_that_forgets_to_adopt_does_not_pass_for_one_with_nothing_to_do(
    workspace: Workspace, api: GitHubApi
) -> None:
    import lance_namespace

    lake = lance_namespace.connect("dir", {"root": str(workspace.path / "lake")})
    lake.create_namespace(lance_namespace.CreateNamespaceRequest(id=["features"]))
    workspace.write(MANIFEST.partition("        properties")[0] + "        properties: {}\n")
    planned = workspace.pull_request(adopt="true")
    assert planned.outputs["to-update"] == "1", planned.log
    api.merge(7, MERGE)
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "plan-changed", refused.log
    assert workspace.push(command="apply", adopt="true").code == 0
    assert workspace.push(command="apply", adopt="true").outputs["has-changes"] == "false"
