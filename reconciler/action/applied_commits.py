"""The commit status that apply leaves, which keeps the run of an older commit from undoing a newer one.

A newer commit counts once an apply has begun on it. So the first of two queued runs goes on, and a push that applies
nothing stops no run. https://docs.github.com/en/rest/commits/statuses
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import quote

from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError
from reconciler.planner.plan import Plan

_HISTORY = """query($owner: String!, $name: String!, $branch: String!, $context: String!, $after: String) {
  repository(owner: $owner, name: $name) { object(expression: $branch) { ... on Commit {
    history(first: 100, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes { oid status { context(name: $context) { description creator { login } } } } } } } } }"""


def check_newest(job: Job, plan: Plan) -> None:
    """Check that no newer commit of the branch was applied with another manifest than that of ``plan``.

    Raises:
        RefusedError: one was, so that this plan may undo it.
    """
    branch = job.context.branch if job.context.pull_request is None else job.context.pull_request.base
    if not branch or not _descends(job, branch):
        return
    for commit, status in _applied(job, branch):
        if _descends(job, commit):
            if (status["description"], _author(status)) != (_description(plan), job.github.login.removesuffix("[bot]")):
                raise RefusedError(
                    FailureReason.SUPERSEDED,
                    f"commit {job.applied_commit[:12]} is older than {commit[:12]} of {branch}, which was applied with "
                    "another manifest: applying the older one could undo that. Nothing was changed. To go back, "
                    "revert the newer change in a pull request.",
                )
            return


def record(job: Job, plan: Plan, state: Literal["pending", "success", "failure"]) -> None:
    """Set the status of the commit: apply has begun on it, or has ended.

    Raises:
        GitHubError: it cannot be set.
    """
    status = {
        "state": state,
        "context": _context(job),
        "description": _description(plan),
        "target_url": job.context.run_url,
    }
    job.github.post(f"/statuses/{job.applied_commit}", status)


def _context(job: Job) -> str:
    return f"lancens apply ({job.key.label}, {job.key.digest})"


def _description(plan: Plan) -> str:
    return f"manifest {plan.manifest.digest}"


def _author(status: dict[str, Any]) -> str:
    # GraphQL names a bot without the suffix that `viewer` gives it.
    return str((status["creator"] or {}).get("login")).removesuffix("[bot]")


def _descends(job: Job, newer: str) -> bool:
    """Return whether ``newer``, a commit or branch, descends from the commit of this run."""
    compared = job.github.get(f"/compare/{job.applied_commit}...{quote(newer, safe='')}?per_page=1")
    return bool(compared["status"] == "ahead")


def _applied(job: Job, branch: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the commits since that of this run on which apply has begun, newest first, with their status."""
    owner, _, name = job.context.repository.partition("/")
    variables, more = {"owner": owner, "name": name, "branch": branch, "context": _context(job)}, True
    while more:
        history = (job.github.graphql(_HISTORY, **variables)["repository"]["object"] or {}).get("history")
        if history is None:  # an annotated tag, which is not a branch that moves on
            return
        for commit in history["nodes"]:
            if commit["oid"] == job.applied_commit:
                return
            status = (commit["status"] or {}).get("context")
            if status:
                yield commit["oid"], status
        more, variables["after"] = history["pageInfo"]["hasNextPage"], history["pageInfo"]["endCursor"]
