"""What a pull request is shown, and what it is kept from seeing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.action.step import HEAD, MANIFEST, MERGE, Workspace, many_tables
from tests.servers.github_api import GitHubApi

LIMIT = 65_536


# ---- one comment a label, kept up to date ---------------------------------------------------------------------------


def test_the_comment_is_updated_in_place(workspace: Workspace, api: GitHubApi) -> None:
    first = workspace.pull_request()
    before = api.comments_on(7)
    workspace.edit("tier: gold", "tier: silver")
    second = workspace.pull_request()
    after = api.comments_on(7)
    assert len(before) == len(after) == 1
    assert before != after
    assert first.outputs["comment-url"] == second.outputs["comment-url"]


def test_running_the_same_job_again_says_the_same(workspace: Workspace, api: GitHubApi) -> None:
    first = workspace.pull_request()
    [before] = api.comments_on(7)
    again = workspace.pull_request()
    assert again.code == 0
    assert api.comments_on(7) == [before.replace("run=42.1", "run=43.1").replace("runs/42", "runs/43")]
    assert (first.summary, first.outputs["plan-sha256"]) == (again.summary, again.outputs["plan-sha256"])


def test_running_the_job_of_an_older_commit_again_leaves_the_comment(workspace: Workspace, api: GitHubApi) -> None:
    workspace.pull_request()
    before = api.comments_on(7)
    workspace.edit("tier: gold", "tier: silver")
    old = workspace.pull_request(head="e" * 40)
    assert old.code == 0
    assert "no longer the head" in old.log
    workspace.write("not: [a manifest")
    assert workspace.pull_request(head="e" * 40).code == 1
    assert api.comments_on(7) == before


def test_each_label_has_a_comment(workspace: Workspace, api: GitHubApi) -> None:
    for label in ("prod", "staging", "prod"):
        workspace.pull_request(label=label)
    prod, staging = api.comments_on(7)
    assert "label `prod` · " in prod
    assert "label `staging` · " in staging


def test_comments_only_where_wanted(workspace: Workspace, api: GitHubApi) -> None:
    workspace.push(command="apply", require_approved_plan="false", comment="never")
    workspace.pull_request()
    assert api.comments_on(7) == [], "there are no changes to comment on"
    workspace.pull_request(comment="always")
    assert "no changes" in api.comments_on(7)[0]
    workspace.edit("tier: gold", "tier: silver")
    workspace.pull_request(8, comment="never")
    assert api.comments_on(8) == []


def test_a_comment_about_changes_is_updated_when_they_are_gone(workspace: Workspace, api: GitHubApi) -> None:
    workspace.pull_request()
    workspace.push(command="apply", require_approved_plan="false")
    workspace.pull_request()
    [comment] = api.comments_on(7)
    assert "no changes" in comment


def test_off_a_pull_request_plan_needs_no_token(workspace: Workspace, api: GitHubApi) -> None:
    planned = workspace.push(command="plan", token="")
    assert (planned.code, planned.outputs["exit-code"]) == (0, "2")
    assert "| `+` | `features/users` |" in planned.summary
    assert api.calls == []


def test_a_comment_that_is_denied_says_which_permission(workspace: Workspace, api: GitHubApi) -> None:
    api.denied.add("comments")
    failed = workspace.pull_request()
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "github")
    assert "Resource not accessible by integration" in failed.log
    assert "permissions" in failed.log
    assert Path(failed.outputs["plan-file"]).exists(), "the plan was made nevertheless"


# ---- a plan longer than a comment -----------------------------------------------------------------------------------


def test_a_huge_plan_is_cut_and_approves_nothing(workspace: Workspace, api: GitHubApi) -> None:
    workspace.write(MANIFEST + many_tables(1_000))
    planned = workspace.pull_request()
    assert planned.code == 0, planned.log
    [comment] = api.comments_on(7)
    assert len(comment.encode("utf-16-le")) // 2 <= LIMIT
    assert "Left out:" in comment
    assert "approves nothing" in comment
    assert "/actions/runs/42)" in comment
    assert "lancens approves" not in comment
    assert len(json.loads(Path(planned.outputs["plan-file"]).read_text())["changes"]) == 1_003
    api.merge(7, MERGE)
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert "it was cut" in refused.log


@pytest.mark.parametrize("tables", [150, 240, 270, 300, 330, 360, 420])
def test_a_plan_about_as_long_as_a_comment_still_fits(workspace: Workspace, api: GitHubApi, tables: int) -> None:
    workspace.write(MANIFEST + many_tables(tables))
    assert workspace.pull_request().code == 0
    [comment] = api.comments_on(7)
    assert ("Left out:" in comment) != ("lancens approves" in comment)
    assert ("Left out:" in comment) == ("approves nothing" in comment)


def test_a_plan_too_large_to_be_kept_in_the_comment_is_still_approved(workspace: Workspace, api: GitHubApi) -> None:
    # Columns with random-looking names: long to pack, short to show.
    import hashlib

    names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(600)]
    columns = ", ".join(f"{{name: c{name}, type: int64}}" for name in names)
    workspace.write(MANIFEST.replace("{name: id, type: int64}", columns))
    workspace.pull_request()
    [comment] = api.comments_on(7)
    assert "lancens approves" in comment
    assert "plan.json" not in comment.splitlines()[-1]
    api.merge(7, MERGE)
    workspace.edit("tier: gold", "tier: silver")
    refused = workspace.push(command="apply")
    assert refused.outputs["failure-reason"] == "plan-changed"
    assert "too large for its comment" in api.comments_on(7, "apply")[0]
    workspace.edit("tier: silver", "tier: gold")
    assert workspace.push(command="apply").code == 0


# ---- annotations ----------------------------------------------------------------------------------------------------


def test_changes_are_annotated_at_their_lines(workspace: Workspace) -> None:
    nested = workspace.path / "deep"
    nested.mkdir()
    (nested / "store.yaml").write_text(MANIFEST)
    planned = workspace.push(command="plan", manifest="deep/store.yaml")
    notices = planned.commands("notice")
    assert [notice for notice in notices if "file=deep/store.yaml,line=11," in notice and "users" in notice], notices


def test_fewer_annotations_than_github_shows_and_the_rest_counted(workspace: Workspace) -> None:
    workspace.write(MANIFEST + many_tables(40))
    notices = workspace.push(command="plan").commands("notice")
    assert len(notices) == 9
    assert "35 more changes" in notices[-1]


def test_removals_are_warnings(workspace: Workspace) -> None:
    workspace.push(command="apply", require_approved_plan="false")
    workspace.edit("          events: {}\n", "          events: {absent: true}\n")
    [warning] = workspace.push(command="plan").commands("warning")
    assert "line=12" in warning
    assert "deregister" in warning


def test_every_fault_of_a_manifest_is_annotated_and_commented(workspace: Workspace, api: GitHubApi) -> None:
    workspace.pull_request()
    workspace.edit("tier: gold}", "tier: gold}, propertys: {}")
    failed = workspace.pull_request()
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "invalid-manifest")
    [error] = failed.commands("error")
    assert "file=lancens.yaml,line=11,col=80," in error
    assert "unknown key `propertys`" in error
    [comment] = api.comments_on(7)
    assert "unknown key `propertys`" in comment
    assert "lancens approves" not in comment
    api.merge(7, MERGE)
    assert workspace.push(command="apply").outputs["failure-reason"] == "invalid-manifest"


def test_a_hundred_faults_are_as_many_annotations_as_github_shows(workspace: Workspace) -> None:
    workspace.write(MANIFEST + "".join(f"          t{number}: {{protct: true}}\n" for number in range(100)))
    failed = workspace.push(command="validate")
    assert len(failed.commands("error")) == 9
    assert "92 more errors" in failed.commands("error")[-1]
    assert failed.summary.count("unknown key") == 100


# ---- catalogs that cannot be read, plans that are refused -----------------------------------------------------------


def test_an_unreadable_catalog_is_no_plan(workspace: Workspace, api: GitHubApi) -> None:
    workspace.push(command="apply", require_approved_plan="false")
    workspace.edit("tier: gold", "tier: silver")
    workspace.pull_request()
    for version in (workspace.path / "lake/__manifest/_versions").iterdir():
        version.write_bytes(b"no dataset")
    failed = workspace.pull_request()
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "catalog-unreadable"), failed.log
    [comment] = api.comments_on(7)
    assert "lancens approves" not in comment
    assert "catalog-unreadable" in comment


def test_mass_removal_is_shown_and_refused(workspace: Workspace, api: GitHubApi) -> None:
    assert workspace.push(command="apply", require_approved_plan="false").code == 0
    workspace.write("version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n")
    for refused in (workspace.push(command="apply", require_approved_plan="false"), workspace.pull_request()):
        assert (refused.code, refused.outputs["failure-reason"]) == (1, "refused")
        assert refused.outputs["to-deregister"] == "2"
    assert "features/users" in refused.summary
    assert workspace.pull_request(allow_mass_removal="true").code == 0


# ---- how catalogs are reached ---------------------------------------------------------------------------------------


def test_a_change_of_config_is_shown_before_everything_else(workspace: Workspace, api: GitHubApi) -> None:
    assert workspace.pull_request().code == 0
    [comment] = api.comments_on(7)
    assert "How catalogs are reached" not in comment
    (workspace.path / "more.yaml").write_text("catalogs: {other: {impl: memory, config: {name: x}}}\n")
    workspace.edit("{root: ./lake}", "{root: ./elsewhere, storage.aws_secret_access_key: hunter2-hunter2}")
    workspace.edit("name: store", "name: store\ninclude: [more.yaml]")
    planned = workspace.pull_request()
    [comment] = api.comments_on(7)
    for page in (comment, planned.summary):
        assert "-   root: ./lake\n+   root: ./elsewhere\n" in page
        assert "+   storage.aws_secret_access_key: (redacted)" in page
        assert "! catalog other, which is new\n+   impl: memory\n+   name: x\n" in page
        assert page.index("How catalogs are reached") < page.index("features")
        assert "hunter2" not in page
    assert "Merging applies exactly this plan." in comment


def test_a_config_that_changes_in_an_included_file_is_shown_as_well(workspace: Workspace, api: GitHubApi) -> None:
    whole = (workspace.path / "lancens.yaml").read_text()
    head, _, tail = whole.partition("    config: {root: ./lake}\n")
    part = "catalogs: {lake: {config: {root: ./lake}}}\n"
    workspace.write(head.replace("name: store", "name: store\ninclude: [part.yaml]") + tail)
    workspace.write(part, "part.yaml")
    api.files = {path.name: path.read_bytes() for path in workspace.path.glob("*.yaml")}
    assert "How catalogs are reached" not in workspace.pull_request().summary
    workspace.write(part.replace("./lake", '"${env:ROOT:-./x}"'), "part.yaml")
    assert "-   root: ./lake\n+   root: ${env:ROOT:-./x}\n" in workspace.pull_request(environment="ROOT").summary


def test_a_variable_that_says_where_catalogs_are_is_shown_when_its_file_changes(
    workspace: Workspace, api: GitHubApi
) -> None:
    workspace.edit("{root: ./lake}", '{root: "./${var:lake}", storage.token: "${var:key}"}')
    workspace.edit("tier: gold", 'tier: "${var:tier}"')
    workspace.write("lake: one\ntier: gold\nkey: hunter2-hunter2\n", "prod.yaml")
    api.files = {path.name: path.read_bytes() for path in workspace.path.glob("*.yaml")}
    assert "How catalogs are reached" not in workspace.pull_request(var_file="prod.yaml").summary
    workspace.write("lake: two\ntier: silver\nkey: swordfish-swordfish\n", "prod.yaml")
    summary = workspace.pull_request(var_file="prod.yaml").summary
    assert (
        "! the variables in prod.yaml\n-   key: (redacted)\n+   key: (redacted)\n-   lake: one\n+   lake: two\n"
        in summary
    )
    assert "hunter2" not in summary + api.comments_on(7)[0]
    assert "swordfish" not in summary + api.comments_on(7)[0]
    del api.files["prod.yaml"]
    assert "prod.yaml, which is new\n" in workspace.pull_request(var_file="prod.yaml").summary


def test_a_base_that_cannot_be_read_makes_every_config_new(workspace: Workspace, api: GitHubApi) -> None:
    api.files = {}
    assert "so every `config` counts as new" in workspace.pull_request().summary
    api.files["lancens.yaml"] = b"version: 2\n"
    assert "errors in it" in workspace.pull_request().summary
    api.denied.add("contents")
    planned = workspace.pull_request()
    assert planned.code == 0
    assert "base of the pull request" in planned.summary
    assert "+   root: ./lake" not in planned.summary


def test_a_value_forges_no_line_and_hides_nothing(workspace: Workspace, api: GitHubApi) -> None:
    forged = "x\n-   root: s3://safe\n+   root: ./lake\u202e"
    config = {"root": "./lake", "storage.user_agent": forged, "storage.a\n! catalog safe": "y"}
    workspace.edit("{root: ./lake}", json.dumps(config))
    for page in (workspace.pull_request().summary, api.comments_on(7)[0]):
        block = page.partition("```diff")[2].partition("```")[0]
        assert "storage.user_agent" in block
        assert "\\n" in block
        assert "\u202e" not in block
        assert not re.search(r"^[-+] +root:|^! catalog safe", block, re.MULTILINE)


def test_a_long_value_hides_no_other_catalog_and_nothing_is_approved(workspace: Workspace, api: GitHubApi) -> None:
    more = {"catalogs": {"other": {"impl": "memory", "config": {"name": "elsewhere"}}}}
    (workspace.path / "more.yaml").write_text(json.dumps(more))
    workspace.edit("{root: ./lake}", "{root: ./lake, storage.user_agent: " + "x" * 21_000 + "}")
    workspace.edit("name: store", "name: store\ninclude: [more.yaml]")
    planned = workspace.pull_request()
    assert planned.code == 0
    [comment] = api.comments_on(7)
    for page in (comment, planned.summary):
        assert "! catalog other, which is new\n+   impl: memory\n+   name: elsewhere\n" in page
        assert "! catalog lake\n+   storage.user_agent: xxx" in page
    assert "approves nothing" in comment
    assert "lancens approves" not in comment
    assert "Merging applies" not in comment


def test_more_catalogs_than_can_be_named_approve_nothing(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.action.config_changes._LONGEST_BLOCK", 100)
    more = {"catalogs": {f"other{number}": {"impl": "memory", "config": {"name": str(number)}} for number in range(9)}}
    (workspace.path / "more.yaml").write_text(json.dumps(more))
    workspace.edit("name: store", "name: store\ninclude: [more.yaml]")
    assert workspace.pull_request().code == 0
    [comment] = api.comments_on(7)
    assert "more lines" in comment
    assert "lancens approves" not in comment


def test_a_file_behind_a_placeholder_that_changes_is_shown(workspace: Workspace, api: GitHubApi) -> None:
    workspace.edit("{root: ./lake}", "{root: ./lake, storage.user_agent: '${file:keys/agent}'}")
    (workspace.path / "keys").mkdir()
    agent = workspace.path / "keys/agent"
    agent.write_text("hunter2-hunter2\n")
    api.files = {"lancens.yaml": (workspace.path / "lancens.yaml").read_bytes(), "keys/agent": agent.read_bytes()}
    assert "How catalogs are reached" not in workspace.pull_request().summary
    agent.write_text("swordfish-swordfish\n")
    shown = workspace.pull_request().summary + api.comments_on(7)[0]
    assert "! catalog lake\n!   storage.user_agent: the content of the file `keys/agent` changes\n" in shown
    assert "swordfish" not in shown
    assert "hunter2" not in shown
    agent.unlink()
    (workspace.path / "keys/other").write_text("swordfish-swordfish\n")
    agent.symlink_to("other")
    assert "file `keys/agent` changes" in workspace.pull_request().summary
    del api.files["keys/agent"]
    assert "file `keys/agent` changes" in workspace.pull_request().summary


def test_so_is_a_file_that_an_option_of_storage_names(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace.path)
    workspace.edit("{root: ./lake}", "{root: ./lake, storage.google_application_credentials: key.json}")
    key = workspace.path / "key.json"
    key.write_text("{}")
    api.files = {"lancens.yaml": (workspace.path / "lancens.yaml").read_bytes(), "key.json": b"{}"}
    assert "How catalogs are reached" not in workspace.pull_request().summary
    key.write_text('{"token_url": "https://evil.example.net"}')
    assert "file `key.json` changes" in workspace.pull_request().summary


# ---- forks ----------------------------------------------------------------------------------------------------------


def test_a_pull_request_from_a_fork_is_validated_only_and_told_so(workspace: Workspace, api: GitHubApi) -> None:
    validated = workspace.pull_request(fork=True)
    assert validated.code == 0
    assert "comes from a fork" in validated.summary
    assert "comes from a fork" in validated.commands("notice")[0]
    assert validated.outputs["plan-sha256"] == ""
    assert api.calls == []
    workspace.write("version: 1\nname: store\ncatalogs: {lake: {impl: dirr}}\n")
    assert workspace.pull_request(fork=True).outputs["failure-reason"] == "invalid-manifest"
    assert api.calls == []


@pytest.mark.parametrize("command", ["plan", "apply", "drift", "audit", "validate"])
def test_a_fork_on_pull_request_target_is_refused(workspace: Workspace, api: GitHubApi, command: str) -> None:
    pull = api.add_pull(7, HEAD, fork=True)
    refused = workspace.event("pull_request_target", {"pull_request": pull}, command=command)
    assert refused.outputs["failure-reason"] == "refused"
    assert "use the event `pull_request`" in refused.log


def test_the_head_of_a_deleted_fork_is_a_fork(workspace: Workspace, api: GitHubApi) -> None:
    pull = api.add_pull(7, HEAD)
    pull["head"]["repo"] = None
    assert "comes from a fork" in workspace.event("pull_request", {"pull_request": pull}).summary


@pytest.mark.parametrize("command", ["drift", "audit"])
def test_no_command_reads_a_catalog_for_a_fork(workspace: Workspace, api: GitHubApi, command: str) -> None:
    validated = workspace.pull_request(fork=True, command=command)
    assert validated.code == 0
    assert "comes from a fork" in validated.summary
    assert api.issues == []


def test_nothing_from_a_fork_is_applied(workspace: Workspace, api: GitHubApi) -> None:
    pull = api.add_pull(7, HEAD, fork=True, merge_commit=MERGE)
    refused = workspace.event("pull_request", {"pull_request": pull}, command="apply", require_approved_plan="false")
    assert refused.outputs["failure-reason"] == "not-approved"
    assert not (workspace.path / "lake").exists()


def test_the_data_of_what_goes_is_looked_at_unless_it_is_not_to_be(workspace: Workspace, api: GitHubApi) -> None:
    workspace.edit("events: {}", "events: {schema: [{name: id, type: int64}]}")
    assert workspace.push(command="apply", require_approved_plan="false").code == 0
    workspace.edit("events: {schema: [{name: id, type: int64}]}", "events: {absent: true}")
    assert "0 rows, last written " in workspace.push(command="plan").log
    planned = workspace.pull_request(no_probe="true")
    assert planned.outputs["to-deregister"] == "1"
    assert "last written" not in planned.log + planned.summary + api.comments_on(7)[0]


def test_a_changed_config_is_shown_first_also_where_there_is_no_plan(workspace: Workspace) -> None:
    """An attacker's service may answer anything."""
    workspace.edit("{root: ./lake}", "{root: s3://elsewhere/lake, storage.aws_endpoint: 'https://127.0.0.1:9'}")
    ran = workspace.pull_request()
    assert ran.code == 1
    [comment] = workspace.api.comments_on(7)
    for page in (comment, ran.summary):
        assert page.index("How catalogs are reached") < page.index("### lancens: ")
        assert "s3://elsewhere/lake" in page


def test_the_changes_of_the_pull_request_come_before_those_that_were_pending(
    workspace: Workspace, api: GitHubApi
) -> None:
    (workspace.path / "variables").mkdir()
    workspace.write(MANIFEST.replace("tier: gold", 'tier: "${var:tier}"'))
    workspace.write("tier: gold\n", "variables/prod.values")
    api.files = {name: (workspace.path / name).read_bytes() for name in ("lancens.yaml", "variables/prod.values")}
    workspace.write("tier: silver\n", "variables/prod.values")
    workspace.edit("events: {}", "events: {}\n          clicks: {}")
    assert workspace.pull_request(var_file="variables/prod.values").code == 0
    own, _, pending = api.comments_on(7)[0].partition("#### `lake` (dir), pending before this change")
    rows = [set(re.findall(r"^\| `\+` \| `([^`]+)`", part, re.MULTILINE)) for part in (own, pending)]
    assert rows == [{"features/clicks", "features/users"}, {"features", "features/events"}]
    assert "Merging applies exactly this plan." in pending
