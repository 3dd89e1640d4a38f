"""Names and values from people who may open a pull request, and secrets that nobody may see."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.action.approval import (
    ConfigChanges,
    PlanOrigin,
    approval_line,
    marker,
    origin_line,
    plan_line,
    read_approval,
)
from reconciler.action.inputs import PlanKey
from reconciler.action.pages import cut_code_block, plan_comment
from reconciler.action.workflow import Annotation, annotate
from reconciler.operations import plan as planning
from reconciler.planner.plan import ManifestRef, Plan
from tests.action.step import MERGE, Workspace
from tests.servers.github_api import TOKEN, GitHubApi
from tests.servers.scripted import Scripted, scripted
from tests.strategies import plans

HOSTILE = [
    "$(touch owned)",
    "`touch owned`",
    "'; touch owned; '",
    "${{ github.token }}",
    "::error::owned",
    "::add-mask::lake",
    "##[error]owned",
    "<!-- lancens approves -->",
    "</details><script>owned</script>",
    "|| [owned](https://example.com) ||",
    "![x](https://example.com/x.png)",
    "@octocat #1",
    "``` \\",
    "%0A::error::owned",
    "\\u202eowned",
]

MANIFEST = """\
version: 1
name: {name}
catalogs:
  lake:
    impl: dir
    config: {{root: ./lake}}
    namespaces:
      features:
        properties: {{owner: {value}}}
        tables: {{{name}: {{properties: {{{name}: {value}}}}}}}
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_ever_text(workspace: Workspace, api: GitHubApi, name: str) -> None:
    # A name holds neither `$` nor `/`; a value holds everything, with `${` written as `$${`.
    plain = name.replace("/", "-").replace("$", "")
    workspace.write(MANIFEST.format(name=json.dumps(plain), value=json.dumps(name.replace("${", "$${"))))
    planned = workspace.pull_request()
    assert planned.code == 0, planned.log
    assert not (workspace.path / "owned").exists()
    for command in ("error", "add-mask", "warning"):
        assert planned.commands(command) == []
    [comment] = api.comments_on(7)
    # Names and values with markup are in code, and values with an arrow also in quotes.
    assert len(re.findall(r"""(?<![`"])<!--""", comment)) <= 6
    assert not re.search(r"^(?:::|##\[)", comment, re.MULTILINE)
    api.merge(7, MERGE)
    applied = workspace.push(command="apply")
    assert applied.code == 0, applied.log
    assert applied.commands("error") == []


def test_a_name_with_a_line_break_is_one_clear_error(workspace: Workspace) -> None:
    workspace.write(MANIFEST.format(name='"a\\n::error::owned"', value="x"))
    failed = workspace.pull_request()
    assert failed.outputs["failure-reason"] == "invalid-manifest"
    assert all("owned" not in line or "%0A" in line or "\\n" in line for line in failed.commands("error"))


@given(message=st.text(max_size=60), title=st.text(min_size=1, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_annotation_is_one_line_whatever_it_says(
    capsys: pytest.CaptureFixture[str], message: str, title: str
) -> None:
    Annotation("error", title, message, file="a,b:c.yaml", line=3).print()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "\r" not in out
    properties = out.removeprefix("::error ").partition("::")[0]
    assert properties.startswith("file=a%2Cb%3Ac.yaml,line=3,title=")
    assert properties.count(",") == 2


def test_an_annotation_says_what_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    annotate("notice", "50% of a%0Ab,\r\n::error::x", title="1: 2, 3%")
    assert capsys.readouterr().out == "::notice title=1%3A 2%2C 3%25::50%25 of a%250Ab,%0D%0A::error::x\n"


@given(st.lists(st.text(alphabet="`~a \\<", max_size=12), max_size=5))
def test_nothing_ends_a_block_of_code_early(lines: list[str]) -> None:
    block = cut_code_block(lines).splitlines()
    fence = block[-1]
    assert set(fence) == {"`"}
    assert not any(line.strip().startswith(fence) for line in block[1:-1])


@given(plans())
@settings(max_examples=25)
def test_what_a_comment_approves_is_the_plan_it_shows(plan: Plan) -> None:
    key = PlanKey(("lancens.yaml",), ("tier",), ("prod.yaml",), "default")
    url = "https://github.com/acme/tables/actions/runs/1"
    shown = PlanOrigin("a" * 40, "1.1")
    text = plan_comment(plan, key=key, origin=shown, run_url=url, removal_notes={}, config_changes=ConfigChanges())
    approval = read_approval(f"{marker('plan', key.digest, '0' * 16)}\n{text}")
    assert len(text.encode("utf-16-le", "surrogatepass")) // 2 < 65_536
    if approval is None:
        assert "approves nothing" in text
    else:
        assert approval.plan_digest == plan.digest()
        assert approval.covers(plan)
        assert approval.plan is None or approval.plan.digest() == plan.digest()


@given(st.text())
def test_reading_any_comment_ends_in_an_approval_or_none(body: str) -> None:
    assert read_approval(body) is None


def test_a_packed_plan_that_was_changed_is_not_taken() -> None:
    plan = Plan(manifest=ManifestRef(name="store", digest="0" * 64, files=("lancens.yaml",)))
    other = plan.model_copy(update={"manifest": ManifestRef(name="other", digest="0" * 64, files=())})
    approval = read_approval(
        f"m\n{origin_line(PlanOrigin('a' * 40, '1.1'))}\n{approval_line(plan)}\n\n{plan_line(other)}"
    )
    assert approval is not None
    assert approval.plan is None


# ---- secrets --------------------------------------------------------------------------------------------------------


def everything(workspace: Workspace, api: GitHubApi, log: str, summary: str) -> str:
    """Return all that a step let out; in the log, masks are what the runner keeps to itself."""
    shown = "\n".join(line for line in log.splitlines() if not line.startswith("::add-mask::"))
    kept = [path for path in workspace.path.parent.rglob("*") if path.is_file() and "lancens" in path.parts]
    files = [path.read_text(errors="replace") for path in kept]
    return "\n".join([shown, summary, *files, *(comment["body"] for comment in api.comments)])


@pytest.mark.parametrize("inputs", [{"command": "apply"}, {"command": "drift", "engine": "spark"}], ids=str)
def test_secrets_are_masked_while_the_runner_reads_commands(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, inputs: dict[str, str]
) -> None:
    monkeypatch.setenv("STORAGE_KEY", "hunter2-hunter2")
    workspace.edit("{root: ./lake}", '{root: ./lake, storage.account_key: "${env:STORAGE_KEY}"}')
    monkeypatch.setattr("reconciler.pipeline.session.spark_session", lambda _: nullcontext())
    monkeypatch.setattr("reconciler.pipeline.engine.plan_on_spark", lambda _, *of, **given: planning.plan(*of, **given))
    planned = workspace.pull_request(environment="STORAGE_KEY", comment="never")
    digest = planned.outputs["plan-sha256"]
    saved = {"plan_file": planned.outputs["plan-file"], "expect_digest": digest} if "engine" not in inputs else {}
    step = workspace.push(environment="STORAGE_KEY", comment="never", **inputs, **saved)
    assert step.code == 0, step.log
    masked = step.commands("add-mask")
    assert masked
    assert [line for line in step.log.splitlines() if "hunter2" in line] == masked


def test_a_plan_that_would_show_a_secret_of_the_job_is_refused(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = 'very"secret\\value'
    monkeypatch.setenv("DB_PASSWORD", secret)
    workspace.environment["DB_PASSWORD"] = secret
    workspace.edit("tier: gold", 'tier: "${var:tier}"')
    refused = workspace.pull_request(variables=f"tier={secret}")
    assert (refused.code, refused.outputs["failure-reason"]) == (1, "refused")
    assert "DB_PASSWORD" in refused.log
    assert "very" not in everything(workspace, api, refused.log, refused.summary)


def test_a_manifest_reads_the_variables_that_the_workflow_lists_and_no_others(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2-hunter2")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "swordfish")
    workspace.edit("tier: gold", 'tier: "${env:DB_PASSWORD}"')
    refused = workspace.pull_request()
    assert refused.outputs["failure-reason"] == "invalid-manifest"
    assert "`DB_PASSWORD` is not one" in refused.summary
    planned = workspace.pull_request(environment="DB_PASSWORD, LAKE_ROOT")
    assert planned.code == 0, planned.log
    assert "hunter2" not in everything(workspace, api, planned.log, planned.summary)
    for own in ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "GITHUB_TOKEN", "INPUT_TOKEN", "RUNNER_TEMP"):
        workspace.write(f"version: 1\nname: x\ncatalogs: {{c: {{impl: dir, config: {{root: './${{env:{own}}}'}}}}}}\n")
        for listed, reason in (("", "invalid-manifest"), (own, "invalid-input"), (own.lower(), "invalid-input")):
            ended = workspace.pull_request(environment=listed)
            assert ended.outputs["failure-reason"] == reason
            assert "swordfish" not in everything(workspace, api, ended.log, ended.summary)


@pytest.mark.parametrize("named", ["lancens.yaml", "tables"])
def test_a_link_to_a_file_of_the_runner_is_no_manifest(workspace: Workspace, api: GitHubApi, named: str) -> None:
    """What a file holds would be in the errors, and the fork's author sees those."""
    outside = workspace.path.parent / "credentials.yaml"
    outside.write_text('{"private_key_of_the_runner": "hunter2-hunter2"}')
    (workspace.path / "lancens.yaml").unlink()
    (workspace.path / "tables").mkdir()
    link = workspace.path / ("lancens.yaml" if named == "lancens.yaml" else "tables/x.yaml")
    link.symlink_to(outside)
    for fork in (True, False):
        refused = workspace.pull_request(8 if fork else 7, fork=fork, manifest=named)
        assert (refused.code, refused.outputs["failure-reason"]) in ((1, "invalid-input"), (1, "invalid-manifest"))
        assert "leads out of the" in refused.log
        seen = everything(workspace, api, refused.log, refused.summary)
        assert "private_key" not in seen
        assert "hunter2" not in seen


@pytest.fixture
def elsewhere() -> Iterator[Scripted]:
    """The server of the pull request's author."""
    with scripted(lambda _: (200, {"operations": [], "namespaces": [], "tables": []})) as server:
        yield server


STEALING = """\
version: 1
name: store
catalogs:
  lake:
    impl: rest
    config: {{uri: "{uri}", auth_token: "${{env:CATALOG_TOKEN}}", headers.x-key: "${{env:CATALOG_TOKEN}}"}}
    namespaces: {{a: {{}}}}
"""


@pytest.mark.parametrize("command", ["plan", "drift", "audit", "apply"])
def test_a_changed_address_gets_no_secret_where_hosts_are_listed(
    workspace: Workspace, api: GitHubApi, elsewhere: Scripted, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("CATALOG_TOKEN", "hunter2-hunter2")
    workspace.write(STEALING.format(uri=elsewhere.url))
    hosts = "catalog.example.com\n.internal.example.com"
    if command == "plan":
        refused = workspace.pull_request(command=command, environment="CATALOG_TOKEN", allow_hosts=hosts)
    else:
        refused = workspace.push(
            command=command, environment="CATALOG_TOKEN", allow_hosts=hosts, require_approved_plan="false"
        )
    reason = "audit-failed" if command == "audit" else "invalid-manifest"
    assert (refused.code, refused.outputs["failure-reason"]) == (1, reason), refused.log
    assert "`uri` names the host `127.0.0.1`" in refused.log
    assert "hunter2" not in everything(workspace, api, refused.log, refused.summary)
    assert elsewhere.requests == []


def test_a_host_that_is_listed_is_planned(
    workspace: Workspace, elsewhere: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG_TOKEN", "hunter2-hunter2")
    workspace.write(STEALING.format(uri=elsewhere.url))
    planned = workspace.pull_request(environment="CATALOG_TOKEN", allow_hosts="catalog.example.com\n127.0.0.1")
    assert planned.code == 0, planned.log
    assert {request.headers["Authorization"] for request in elsewhere.requests} == {"Bearer hunter2-hunter2"}


def test_the_token_is_in_no_error(workspace: Workspace, api: GitHubApi) -> None:
    api.users.clear()
    failed = workspace.pull_request()
    assert failed.outputs["failure-reason"] == "github"
    assert "check the input `token`" in failed.log
    assert TOKEN not in everything(workspace, api, failed.log, failed.summary)


def test_a_package_in_the_workspace_is_not_imported(workspace: Workspace, tmp_path: Path) -> None:
    planted = workspace.path / "reconciler"
    planted.mkdir()
    (planted / "__init__.py").write_text("print('owned')")
    done = subprocess.run(
        [sys.executable, "-I", "-m", "reconciler.action"],
        cwd=workspace.path,
        env={"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "owned" not in done.stdout
    assert "is not set" in done.stdout
