"""What each event of GitHub may do, from the side of who wants a fork's manifest planned with the secrets of a job.

The table in the code, the one in the documentation and the conditions of ``action.yml`` are held together here.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from reconciler.action.events import EVENTS, Trust, trust_of
from tests.action.runner import ROOT, Ran, Repository
from tests.action.step import HEAD, Workspace
from tests.servers.github_api import REPOSITORY, GitHubApi

UNKNOWN = ["issue_comment", "issues", "discussion", "fork", "watch", "deployment", "check_run", "create", "status", ""]
STEALING = """\
version: 1
name: store
catalogs:
  lake:
    impl: dir
    config: {root: "./${env:LAKE}"}
    tables: {t: {schema: [{name: id, type: int64}], properties: {a: "${env:DB_PASSWORD}", b: "${file:secret.txt}"}}}
"""


QUEUE = "gh-readonly-queue/main/pr-7-" + "e" * 40
QUEUED: dict[str, tuple[str, dict[str, Any]]] = {
    "merge_group": ("merge_group", {}),
    "push": ("push", {"ref": f"refs/heads/{QUEUE}"}),
    "workflow_run": ("workflow_run", {"workflow_run": {"event": "merge_group", "head_branch": "main"}}),
    "workflow_run after a push": ("workflow_run", {"workflow_run": {"event": "push", "head_branch": QUEUE}}),
}
"""The events of GitHub by which a merge queue has its commit looked at."""


def queued(name: str, repository: str = REPOSITORY) -> tuple[str, dict[str, Any]]:
    event, document = QUEUED[name]
    run = document.get("workflow_run")
    return event, {"workflow_run": {**run, "head_repository": {"full_name": repository}}} if run else document


def document_of(event: str, repository: str | None) -> dict[str, Any]:
    """Return what GitHub sends with an event about a commit of ``repository``, None for a fork that is gone."""
    named = None if repository is None else {"full_name": repository}
    if event == "workflow_run":
        return {"workflow_run": {"head_repository": named}}
    if not event.startswith("pull_request"):
        return {}
    head = {"sha": HEAD, "repo": named}
    return {"pull_request": {"number": 7, "head": head, "base": {"ref": "main", "repo": {"full_name": REPOSITORY}}}}


@pytest.mark.parametrize("event", [*EVENTS, *UNKNOWN])
@pytest.mark.parametrize("repository", ["mallory/tables", None])
def test_nothing_of_a_fork_is_resolved_on_any_event(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch, event: str, repository: str | None
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2-hunter2")
    monkeypatch.setenv("LAKE", "stolen")
    workspace.write(STEALING)
    (workspace.path / "secret.txt").write_text("swordfish-swordfish")
    trust = trust_of(event, document_of(event, repository), REPOSITORY)
    if event in ("push", "schedule", "workflow_dispatch", "repository_dispatch", "release"):
        assert trust is Trust.FULL  # it is about no head; only who may write starts it
        return
    for command in ("plan", "drift", "validate", "apply"):
        environment = workspace.event(
            event, document_of(event, repository), command=command, environment="DB_PASSWORD\nLAKE"
        )
        said = f"{environment.log}{environment.summary}{environment.outputs}"
        assert "hunter2" not in said
        assert "swordfish" not in said
        assert "stolen" not in said
        if trust is Trust.NONE:
            assert environment.outputs["failure-reason"] == "refused"
        elif command == "apply":
            assert environment.outputs["failure-reason"] == "not-approved"
        else:
            assert environment.outputs["failure-reason"] == ""
            assert "only the manifest was checked" in environment.summary
    assert not (workspace.path / "stolen").exists()
    assert api.calls == []


@pytest.mark.parametrize("name", QUEUED)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_merge_queue_is_judged_alike_by_each_of_its_events(
    workspace: Workspace, api: GitHubApi, monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    monkeypatch.setenv("LAKE", "stolen")
    workspace.write(STEALING)
    event, document = queued(name)
    ref = "main" if event == "workflow_run" else QUEUE
    environment = workspace.environment_of(
        event, document, ref=ref, command=command, environment="LAKE\nDB_PASSWORD", require_approved_plan="false"
    )
    ended = workspace.step(environment)
    assert ended.outputs["failure-reason"] == ("not-approved" if command == "apply" else "")
    assert ended.outputs["has-changes"] == "false"
    assert not (workspace.path / "stolen").exists()
    assert api.calls == []


def test_a_fork_that_calls_its_branch_a_queues_is_a_fork() -> None:
    for name in ("workflow_run", "workflow_run after a push"):
        event, document = queued(name, "mallory/tables")
        assert trust_of(event, document, REPOSITORY, "main") is Trust.NONE


@pytest.mark.parametrize("event", [event for event in EVENTS if event != "merge_group"])
def test_the_repositorys_own_commits_are_planned(workspace: Workspace, event: str) -> None:
    planned = workspace.event(event, document_of(event, REPOSITORY.upper()), command="plan", comment="never")
    assert planned.outputs["to-create"] == "2", planned.log


@pytest.mark.parametrize(
    "document", [{}, {"pull_request": None}, {"pull_request": {"head": "x"}}, {"pull_request": []}]
)
def test_a_document_that_names_no_head_is_about_a_fork(document: dict[str, Any]) -> None:
    for event in ("pull_request", "pull_request_review", "pull_request_target", "workflow_run"):
        assert trust_of(event, document, REPOSITORY) is not Trust.FULL


def test_the_documentation_has_the_same_table() -> None:
    text = (ROOT / "docs/security.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+)[^|]* \| (\w+)[^|]* \|", text, re.MULTILINE)
    said = {"everything": Trust.FULL, "validated": Trust.VALIDATE, "refused": Trust.NONE}
    assert {event: (said[own], said[fork]) for event, own, fork in rows} == EVENTS


def test_the_action_knows_the_same_events() -> None:
    condition = (ROOT / "action.yml").read_text().partition("- id: event")[2]
    known = re.findall(r"\"(\w+)\"", condition.partition("]')")[0])
    assert set(known) == set(EVENTS)


def ran(
    repository: Repository,
    event: str,
    command: str,
    head: str | None,
    manifest: str = "this: is: not read",
    document: Any = None,
    **inputs: str,
) -> Ran:
    """Run the Action itself on an event about a commit of ``head``; it installs lancens if it is not told otherwise."""
    given = json.dumps({"command": command, **inputs})
    checkout = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683"
    steps = f"steps:\n      - uses: {checkout}\n      - uses: acme/lancens@v1\n        with: {given}\n"
    workflow = repository.path / ".github/workflows/event.yml"
    trigger = "{workflow_run: {workflows: [x]}}" if event == "workflow_run" else f"[{event}]"
    workflow.write_text(f"on: {trigger}\njobs:\n  one:\n    runs-on: ubuntu-latest\n    {steps}")
    repository.commit(manifest)
    return repository.run(event, "event", document_of(event, head) if document is None else document)


_BY_A_FORK = [event for event in EVENTS if trust_of(event, document_of(event, None), REPOSITORY) is not Trust.FULL]


@pytest.mark.parametrize("event", [*_BY_A_FORK, "push", UNKNOWN[0]])
def test_a_real_runner_refuses_what_is_not_trusted_before_anything_is_installed(
    repository: Repository, event: str
) -> None:
    is_trusted = trust_of(event, document_of(event, "mallory/tables"), REPOSITORY) is Trust.FULL
    preinstalled = "true" if is_trusted else "false"
    ended = ran(repository, event, "apply", "mallory/tables", preinstalled=preinstalled)
    assert not ended.ok
    refused = "::error title=lancens: " in ended.log and "install.py" not in ended.log
    assert refused is not is_trusted, ended.log
    if refused:
        own = EVENTS.get(event, (Trust.NONE, Trust.NONE))[1]
        assert ended.output("failure-reason") == ("refused" if own is Trust.NONE else "not-approved")


@pytest.mark.parametrize("name", QUEUED)
def test_a_real_runner_applies_nothing_for_a_merge_queue(repository: Repository, name: str) -> None:
    event, document = queued(name)
    ended = ran(repository, event, "apply", None, document=document, **{"require-approved-plan": "false"})
    assert not ended.ok
    assert "install.py" not in ended.log
    assert ended.output("failure-reason") == "not-approved", ended.log


@pytest.mark.parametrize("event", _BY_A_FORK if os.environ.get("LANCENS_SOAK") else ["pull_request", "workflow_run"])
def test_a_real_runner_looks_nothing_up_for_a_fork(repository: Repository, api: GitHubApi, event: str) -> None:
    repository.environment |= {"DB_PASSWORD": "hunter2-hunter2", "LAKE": "stolen"}
    (repository.path / "secret.txt").write_text("swordfish-swordfish")
    inputs = {"environment": "DB_PASSWORD\nLAKE", "comment": "never"}
    ended = ran(repository, event, "plan", "mallory/tables", STEALING, preinstalled="true", **inputs)
    is_refused = trust_of(event, document_of(event, None), REPOSITORY) is Trust.NONE
    assert ended.ok is not is_refused, ended.log
    assert ended.output("failure-reason") == ("refused" if is_refused else "")
    assert "hunter2" not in ended.log
    assert "swordfish" not in ended.log
    assert not (repository.path / "stolen").exists()
    assert api.calls == []


@pytest.mark.soak
@pytest.mark.parametrize(
    "event", [event for event in EVENTS if os.environ.get("LANCENS_SOAK") or event == "workflow_run"]
)
def test_a_real_runner_plans_what_is_trusted(repository: Repository, event: str) -> None:
    inputs = {"environment": "DB_PASSWORD\nLAKE", "comment": "never"}
    repository.environment |= {"DB_PASSWORD": "hunter2-hunter2", "LAKE": "lake"}
    (repository.path / "secret.txt").write_text("swordfish-swordfish")
    ended = ran(repository, event, "plan", REPOSITORY, STEALING, preinstalled="true", **inputs)
    assert ended.ok, ended.log
    is_planned = trust_of(event, document_of(event, REPOSITORY), REPOSITORY) is Trust.FULL
    assert ended.output("to-create") == ("1" if is_planned else "0")
    assert "hunter2" not in ended.log
    assert "swordfish" not in ended.log


def test_a_real_runner_asks_only_hosts_that_are_listed(repository: Repository) -> None:
    manifest = 'version: 1\nname: x\ncatalogs: {c: {impl: rest, config: {uri: "http://127.0.0.1:9"}}}\n'
    refused = ran(
        repository, "push", "plan", None, manifest, preinstalled="true", **{"allow-hosts": "catalog.example.com"}
    )
    assert refused.output("failure-reason") == "invalid-manifest"
    assert "host `127.0.0.1`" in refused.log
