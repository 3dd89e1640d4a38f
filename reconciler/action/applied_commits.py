"""Record applies as commit statuses, so that an older commit cannot undo a newer.

A newer commit counts once its apply has begun. So the first of two queued runs goes on, and a push that applies nothing
stops no run. https://docs.github.com/en/rest/commits/statuses
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import quote

from reconciler.action.context import PullRequest
from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError
from reconciler.planner.plan import Plan

_HISTORY = """query($owner: String!, $name: String!, $branch: String!, $context: String!, $after: String) {
  repository(owner: $owner, name: $name) { object(expression: $branch) { ... on Commit {
    history(first: 100, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes { oid status { context(name: $context) { description creator { login } } } } } } } } }"""


def check_not_superseded(job: Job, plan: Plan) -> None:
    """Check that the newest applied commit of the branch, if newer than this one, had the same manifest.

    Only a status that the token's own user has set proves that. Another user's may name any manifest. Of a pull request
    that is not merged, this commit must be the head.

    Raises:
        RefusedError: a newer commit was applied, and ``plan`` may undo its changes.
    """
    if job.context.unmerged is not None:
        _check_newest_head(job, job.context.unmerged)
        return
    branch = job.context.branch if job.context.pull_request is None else job.context.pull_request.base
    if not branch or not _is_descendant(job, branch):
        return
    for commit, status in _newer_applied_commits(job, branch):
        if _is_descendant(job, commit):  # the newest of them decides
            own, author = job.github.login.removesuffix("[bot]"), _author(status)
            if status["description"] != _description(plan):
                difference = "with another manifest"
            elif author != own:
                difference = f"by {author}, as its status `{_status_context(job)}` says, and not by {own}"
            else:
                return
            raise RefusedError(
                FailureReason.SUPERSEDED,
                f"commit {job.applied_commit[:12]} is older than {commit[:12]} of {branch}, which was applied "
                f"{difference}: applying the older one could undo that. Nothing was changed. To go back, revert the "
                "newer change in a pull request.",
            )


def set_commit_status(job: Job, plan: Plan, state: Literal["pending", "success", "failure"]) -> None:
    """Record that the apply of ``plan`` has begun (`pending`), or how it ended; not of a preview.

    Raises:
        GitHubError: the status cannot be set.
    """
    if job.context.unmerged is not None:
        return
    status = {
        "state": state,
        "context": _status_context(job),
        "description": _description(plan),
        "target_url": job.context.run_url,
    }
    job.github.post(f"/statuses/{job.applied_commit}", status)


def _check_newest_head(job: Job, pull_request: PullRequest) -> None:
    head = job.github.get(f"/pulls/{pull_request.number}")["head"]["sha"]
    if head != pull_request.head:
        raise RefusedError(
            FailureReason.SUPERSEDED,
            f"{pull_request.head[:12]} is no longer the head of pull request {pull_request.number}, {head[:12]} is. "
            "Nothing was changed.",
        )


def _status_context(job: Job) -> str:
    return f"lancens apply ({job.key.label}, {job.key.digest})"


def _description(plan: Plan) -> str:
    return f"manifest {plan.manifest.digest}"


def _author(status: dict[str, Any]) -> str:
    """Return the login of the user that set the status, without the suffix of a bot."""
    # GraphQL names a bot without the suffix that `viewer` gives it.
    return str((status["creator"] or {}).get("login", "a deleted user")).removesuffix("[bot]")


def _is_descendant(job: Job, newer: str) -> bool:
    """Return whether ``newer``, a commit or branch, descends from the commit of this run."""
    comparison = job.github.get(f"/compare/{job.applied_commit}...{quote(newer, safe='')}?per_page=1")
    return bool(comparison["status"] == "ahead")


def _newer_applied_commits(job: Job, branch: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield newer commits whose apply has begun, newest first, and their status."""
    owner, _, name = job.context.repository.partition("/")
    variables, has_next = {"owner": owner, "name": name, "branch": branch, "context": _status_context(job)}, True
    while has_next:
        history = (job.github.graphql(_HISTORY, **variables)["repository"]["object"] or {}).get("history")
        if history is None:  # an annotated tag, to which no commits are added
            return
        for commit in history["nodes"]:
            if commit["oid"] == job.applied_commit:
                return
            status = (commit["status"] or {}).get("context")
            if status:
                yield commit["oid"], status
        has_next, variables["after"] = history["pageInfo"]["hasNextPage"], history["pageInfo"]["endCursor"]
