"""The run of a step: its repository, commit, event and pull request.

https://docs.github.com/en/actions/reference/workflows-and-actions/variables
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.action.events import Trust, trust_of
from reconciler.action.inputs import InputError, digest_of


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request.

    ``head`` is the commit that it proposes, ``base`` the target branch, ``base_commit`` the commit of that branch.
    A closed one is not ``is_open``, merged or not.
    """

    number: int
    head: str
    base: str
    from_fork: bool = False
    merged: bool = False
    merge_commit: str | None = None
    base_commit: str = ""
    is_open: bool = False

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PullRequest:
        """Return the pull request in a document of GitHub's REST API or of an event."""
        head, base = document["head"], document["base"]
        head_repository = (head.get("repo") or {}).get("full_name")
        base_repository = (base.get("repo") or {}).get("full_name")
        return cls(
            number=int(document["number"]),
            head=str(head["sha"]),
            base=str(base["ref"]),
            # The repository of a head is null once the fork is deleted.
            from_fork=head_repository is None or head_repository != base_repository,
            merged=bool(document.get("merged") or document.get("merged_at")),
            merge_commit=document.get("merge_commit_sha"),
            base_commit=str(base.get("sha") or base["ref"]),
            is_open=document.get("state") == "open",
        )


@dataclass(frozen=True, slots=True)
class StepContext:
    """What GitHub says of the running step.

    ``trust`` is what the step may do, ``branch`` the pushed branch, ``step_digest`` identifies the step in its
    repository, ``run_attempt`` is the run and its attempt as ``RUN.ATTEMPT``, ``pull_request`` that of the event.
    """

    event: str
    repository: str
    sha: str
    branch: str
    workspace: Path
    temporary: Path
    api_url: str
    graphql_url: str
    run_url: str
    trust: Trust
    step_digest: str
    run_attempt: str
    pull_request: PullRequest | None = None

    @property
    def unmerged(self) -> PullRequest | None:
        """The pull request of the event if it is not merged: its manifest is that of a preview."""
        return None if self.pull_request is None or self.pull_request.merged else self.pull_request

    @property
    def commit(self) -> str:
        """The head of the pull request, else the commit that is checked out."""
        return self.pull_request.head if self.pull_request else self.sha


def read_context(environment: Mapping[str, str]) -> StepContext:
    """Return the context that the runner describes in ``environment``.

    Raises:
        InputError: this is not a step of a workflow, or the event cannot be read.
    """
    try:
        event = environment["GITHUB_EVENT_NAME"]
        repository = environment["GITHUB_REPOSITORY"]
        sha = environment["GITHUB_SHA"]
        workspace, temporary = Path(environment["GITHUB_WORKSPACE"]), Path(environment["RUNNER_TEMP"])
    except KeyError as error:
        raise InputError(f"this is not a step of a workflow: {error.args[0]} is not set") from None
    server = environment.get("GITHUB_SERVER_URL", "https://github.com")
    api = environment.get("GITHUB_API_URL", "https://api.github.com")
    branch = environment.get("GITHUB_REF_NAME", "")
    document = _read_event(environment.get("GITHUB_EVENT_PATH", ""))
    return StepContext(
        event=event,
        repository=repository,
        sha=sha,
        branch=branch,
        workspace=workspace,
        temporary=temporary,
        api_url=api,
        graphql_url=environment.get("GITHUB_GRAPHQL_URL", f"{api}/graphql"),
        run_url=f"{server}/{repository}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}",
        trust=trust_of(event, document, repository, branch),
        step_digest=_digest_step(environment),
        run_attempt=f"{environment.get('GITHUB_RUN_ID', '')}.{environment.get('GITHUB_RUN_ATTEMPT', '')}",
        pull_request=_pull_request(event, document),
    )


def _read_event(path: str) -> Mapping[str, Any]:
    """Return the JSON object that describes the event; empty if it cannot be read."""
    try:
        document = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _pull_request(event: str, document: Mapping[str, Any]) -> PullRequest | None:
    """Return the pull request of the event; None if the event is about something else.

    Raises:
        InputError: the event should have a pull request but has none that can be read.
    """
    if not event.startswith("pull_request"):
        return None
    try:
        return PullRequest.of(document["pull_request"])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InputError(f"the event `{event}` has no readable pull request; see GITHUB_EVENT_PATH") from None


def _digest_step(environment: Mapping[str, str]) -> str:
    """Return a digest of the workflow, the job with its matrix, and the step."""
    workflow = environment.get("GITHUB_WORKFLOW_REF", "").partition("@")[0] or environment.get("GITHUB_WORKFLOW", "")
    names = (environment.get(name, "") for name in ("GITHUB_JOB", "LANCENS_MATRIX", "GITHUB_ACTION"))
    return digest_of([workflow, *names])
