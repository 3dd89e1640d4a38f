"""A preview of a pull request: the steps of examples/github/preview.yml, from the opening to the end."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
import yaml

import reconciler
from tests.action.step import HEAD, MERGE, Step, Workspace
from tests.servers.github_api import GitHubApi

ROOT = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((ROOT / "examples/github/preview.yml").read_text())
_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")
_LEFT_OUT = ("extras", "allow-hosts")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return an input with the values of its expressions, as the runner writes them."""
    return _EXPRESSION.sub(lambda found: values[found[1]], text)


def run_job(
    workspace: Workspace, name: str, number: int = 7, head: str = HEAD, *, is_pushed: bool = True
) -> list[Step]:
    """Run those steps of a job that are the Action's, as the runner would; a step that fails is the last."""
    values, ran = {"github.event.number": str(number)}, []
    pull = workspace.api.pulls.get(number) or workspace.api.add_pull(number, head)
    if is_pushed:
        pull["head"]["sha"] = head
    for step in WORKFLOW["jobs"][name]["steps"]:
        if not step.get("uses", "").startswith("OWNER/lancens@") or not values.get(step.get("if", ""), "true"):
            continue
        inputs: dict[str, Any] = {
            key.replace("-", "_"): filled(str(value), values)
            for key, value in step["with"].items()
            if key not in _LEFT_OUT
        }
        # What tells comments of one job's steps apart.
        workspace.environment = {"GITHUB_JOB": name, "GITHUB_ACTION": step.get("id") or inputs["manifest"]}
        ran.append(workspace.pull_request(number, head=head, **inputs))
        values |= {f"steps.{step.get('id')}.outputs.{key}": value for key, value in ran[-1].outputs.items()}
        if ran[-1].code:
            break
    return ran


@pytest.fixture
def production(workspace: Workspace) -> Workspace:
    """A checkout of the example, with production's tables in it, of three rows each."""
    (workspace.path / "lancens.yaml").unlink()
    shutil.copytree(ROOT / "examples/preview", workspace.path, dirs_exist_ok=True)
    manifest = reconciler.load("lancens.yaml")
    assert reconciler.apply(reconciler.plan(manifest), manifest).ok
    for name, column in (("users", "country"), ("clicks", "page")):
        rows = pa.table({"user_id": [1, 2, 3], column: ["a", "b", "c"]})
        lance.write_dataset(rows, opened("lake", name).uri, mode="append")
    return workspace


def opened(root: str, name: str) -> Any:
    catalog = reconciler.connect("dir", {"root": root})
    return lance.dataset(namespace_client=catalog, table_id=["features", name])


def files(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def edit(old: str, new: str) -> None:
    text = Path("tables.yaml").read_text()
    assert text.count(old) == 1
    Path("tables.yaml").write_text(text.replace(old, new))


COUNTRY = "- {name: country, type: string}\n"
AGE = f"{COUNTRY}              - {{name: age, type: int32}}\n"


def test_the_life_of_a_pull_request(production: Workspace, api: GitHubApi) -> None:
    before = files("lake")
    edit(COUNTRY, AGE)
    edit("tier: gold", "tier: silver")
    planned, applied = run_job(production, "preview")
    assert planned.outputs["touched"] == "lake/features/users"
    assert applied.code == 0, applied.log
    assert [(result["address"], result["action"]) for result in applied.result["results"]] == [
        ("lake/features", "create-namespace"),
        ("lake/features/users", "create-table"),
    ]
    [comment] = api.comments_on(7)
    assert "2 of 2 done" in comment
    assert "Open it: `lancens serve preview.yaml --var pr=7`" in comment
    users = opened("previews/7", "users")
    assert (users.schema.names, users.count_rows()) == (["user_id", "country", "age"], 3)
    assert api.statuses == []

    # A push adds a table and takes another one out; what somebody wrote into the preview stays.
    lance.write_dataset(
        pa.table({"user_id": [4], "country": ["d"], "age": [1]}).cast(users.schema), users.uri, mode="append"
    )
    clicks = Path("tables.yaml").read_text().partition("          clicks:")[2]
    edit(f"          clicks:{clicks}", "          orders: {schema: [{name: id, type: int64}]}\n")
    planned, applied = run_job(production, "preview", head="2" * 40)
    assert planned.outputs["touched"].splitlines() == [
        f"lake/features/{name}" for name in ("clicks", "orders", "users")
    ]
    assert [result["address"] for result in applied.result["results"]] == [
        "lake/features/clicks",
        "lake/features/orders",
    ]
    assert (opened("previews/7", "users").count_rows(), opened("previews/7", "clicks").count_rows()) == (4, 3)
    assert len(api.comments_on(7)) == 1

    assert files("lake") == before
    api.pulls[7]["state"] = "closed"
    [ended] = run_job(production, "end", head="2" * 40)
    assert ended.code == 0, ended.log
    assert ended.outputs["to-deregister"] == "3"
    [_, end] = api.comments_on(7)
    assert len(re.findall(r"data stays at .*previews/7/", end)) == 3
    assert "2 clones have no entry any more" in end
    assert "Open it" not in end
    assert opened("lake", "users").count_rows() == 3
    assert files("lake") == before


def test_a_renamed_table_has_its_rows_in_the_preview(production: Workspace) -> None:
    edit("          users:\n", "          people:\n")
    edit("  lake:\n", "  lake:\n    moved: [{from: features/users, to: features/people}]\n")
    planned, applied = run_job(production, "preview")
    assert (planned.outputs["touched"], applied.code) == ("lake/features/people", 0), applied.log
    assert opened("previews/7", "people").count_rows() == 3


def test_two_pull_requests_do_not_meet(production: Workspace) -> None:
    edit("tier: gold", "tier: silver")
    for number in (7, 8):
        assert run_job(production, "preview", number)[-1].code == 0
    assert run_job(production, "end", 7)[-1].outputs["to-deregister"] == "1"
    assert opened("previews/8", "users").count_rows() == 3


def test_a_merge_ends_the_preview_too(production: Workspace, api: GitHubApi) -> None:
    edit("tier: gold", "tier: silver")
    run_job(production, "preview")
    api.merge(7, MERGE)
    [ended] = run_job(production, "end")
    assert (ended.code, ended.outputs["to-deregister"]) == (0, "1"), ended.log


def test_a_pull_request_that_touches_no_table_gets_no_preview(production: Workspace) -> None:
    [planned] = run_job(production, "preview")
    assert planned.outputs["touched"] == ""
    assert not Path("previews").exists()


def test_a_change_that_the_rows_do_not_allow_is_told_on_the_pull_request(production: Workspace, api: GitHubApi) -> None:
    edit(COUNTRY, "- {name: country, type: int64}\n")
    _, applied = run_job(production, "preview")
    assert applied.outputs["failure-reason"] == "blocked"
    [comment] = api.comments_on(7)
    assert "lake/features/users" in comment
    assert "country" in comment


def test_the_run_of_an_older_push_changes_nothing(production: Workspace, api: GitHubApi) -> None:
    edit("tier: gold", "tier: silver")
    api.add_pull(7, "2" * 40)
    _, applied = run_job(production, "preview", is_pushed=False)
    assert applied.outputs["failure-reason"] == "superseded"
    assert not Path("previews").exists()


def test_a_fork_gets_no_preview(production: Workspace, api: GitHubApi) -> None:
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert all(own in job["if"].split(" && ") for job in WORKFLOW["jobs"].values())
    edit("tier: gold", "tier: silver")
    api.add_pull(7, HEAD, fork=True)
    assert run_job(production, "preview")[0].outputs["touched"] == ""
    for step in ("preview.yaml", "preview-end.yaml"):
        refused = production.pull_request(
            command="apply", manifest=step, variables="pr=7", require_approved_plan="false", select="lake/**"
        )
        assert refused.outputs["failure-reason"] == "not-approved"
    assert not Path("previews").exists()
    assert api.comments_on(7) == []


def test_the_comment_shows_no_secret(production: Workspace, api: GitHubApi) -> None:
    for name in ("preview.yaml", "preview-end.yaml"):
        text = Path(name).read_text()
        Path(name).write_text(text.replace("config: {root", 'config: {storage.token: "${var:api_token}", root'))
    edit("tier: gold", "tier: silver")
    api.add_pull(7, HEAD)
    applied = production.pull_request(
        command="apply",
        require_approved_plan="false",
        manifest="preview.yaml",
        variables="pr=7\napi_token=hunter2-hunter2",
        comment="always",
    )
    assert applied.code == 0, applied.log
    [comment] = api.comments_on(7)
    assert "--var pr=7`" in comment
    assert "hunter2" not in comment


def test_without_the_input_nothing_is_applied_before_the_merge(production: Workspace) -> None:
    refused = production.pull_request(command="apply", manifest="preview.yaml", variables="pr=7")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert "is not merged" in refused.log
