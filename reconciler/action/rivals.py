"""Two plans of one commit with one key: of which of them would a merge be?

Each step writes its own comment, so none overwrites another's; the second one to come is refused. Two that run at once
look again after they have written, and then at least one of them sees the other.
"""

from __future__ import annotations

from reconciler.action.approval import marked, marker, shown_in
from reconciler.action.comments import Comment, find_comments, put_comment
from reconciler.action.context import PullRequest
from reconciler.action.failures import FailureReason, RefusedError
from reconciler.action.inputs import CommentWhen
from reconciler.action.job import Job
from reconciler.action.pages import called, fenced


def refuse_a_second_plan(job: Job) -> None:
    """Return when no plan with the key of ``job`` is shown of this commit, but what this step showed in an earlier run.

    Raises:
        RefusedError: one is.
    """
    pull_request = job.context.pull_request
    if pull_request is None or job.inputs.comment is CommentWhen.NEVER:
        return
    for comment in _shown(job, pull_request):
        shown = shown_in(comment.body)
        # A step runs once an attempt: what was shown in this one was shown by another, however alike they are.
        if not _is_own(job, comment) or (shown is not None and shown.run == job.context.run):
            raise RefusedError(FailureReason.DUPLICATE_PLAN, f"{_message(job, comment)} Nothing was read.")


def withdraw_one_of_two(job: Job) -> None:
    """Return when the plan that was just shown is the only one; else take it back.

    Raises:
        RefusedError: it was taken back.
    """
    pull_request = job.context.pull_request
    if pull_request is None:
        return
    for comment in _shown(job, pull_request):
        if not _is_own(job, comment):
            message = _message(job, comment)
            own = marker("plan", job.key.digest, job.context.planner)
            put_comment(job.github, pull_request.number, own, f"\n{fenced([message])}\n<sub>{called(job.key)}</sub>\n")
            raise RefusedError(FailureReason.DUPLICATE_PLAN, message)


def _shown(job: Job, pull_request: PullRequest) -> list[Comment]:
    """Return the comments that show a plan of this commit with the key of ``job``."""
    found = find_comments(job.github, pull_request.number, marked("plan", job.key.digest))
    shown = ((comment, shown_in(comment.body)) for comment in found)
    return [comment for comment, plan in shown if plan is not None and plan.commit == pull_request.head]


def _is_own(job: Job, comment: Comment) -> bool:
    return comment.body.startswith(marker("plan", job.key.digest, job.context.planner))


def _message(job: Job, comment: Comment) -> str:
    return (
        f"{comment.url} shows another plan of {job.key} for this commit, by another job, step or workflow. Merging "
        "could only apply one of them: give each its own input `label`, to plan and to apply alike. If the other one "
        "was renamed or is gone, delete its comment."
    )
