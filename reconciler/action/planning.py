"""The commands that change no catalog: `plan`, `validate` and `drift`."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.action.approval import PlanOrigin, marked, marker, shown_in
from reconciler.action.comments import Comment, close_issue, find_comments, put_comment, put_issue
from reconciler.action.config_changes import config_changes
from reconciler.action.context import PullRequest
from reconciler.action.inputs import CommentWhen, digest_of
from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError, StepEnd
from reconciler.action.pages import called, code, fenced, plan_body, plan_comment, plan_summary
from reconciler.action.workflow import annotate
from reconciler.model import display
from reconciler.model.display import count
from reconciler.planner.plan import Plan, check_removals

_LONGEST_NAME = 120
"""GitHub refuses an issue whose title is longer than 256 characters."""

_FORK = (
    "This pull request comes from a fork. It gets no secrets, so only the manifest was checked: no catalog was read, "
    "and nothing is approved. To plan it, push its commits to a branch of this repository."
)

_QUEUE = (
    "A merge queue joins the commits of several pull requests, perhaps of forks, so only the manifest was checked: no "
    "catalog was read, and nothing is approved. Plan on the event `pull_request`."
)


def plan(job: Job) -> StepEnd:
    """Plan, and comment on the pull request."""
    pull_request = job.context.pull_request
    if pull_request is not None and job.inputs.comment is not CommentWhen.NEVER:
        _refuse_second_plan(job, pull_request)
    first = job.first = config_changes(job)
    planned = job.plan()
    if not job.inputs.allow_mass_removal:
        check_removals(planned)
    outcome = StepEnd(page=first.text + plan_summary(planned), plan=planned, exit_code=_exit_code(planned))
    if pull_request is not None:
        text = plan_comment(
            planned,
            key=job.key,
            shown=PlanOrigin(pull_request.head, job.context.run),
            run_url=job.context.run_url,
            removed=job.removed,
            first=first,
        )
        worth = bool(first.text or planned.blocked) or not planned.is_empty
        outcome.comment_url = comment_plan(job, text, worth=worth)
        if outcome.comment_url:
            _withdraw_one_of_two(job, pull_request)
    return outcome


def _exit_code(plan: Plan) -> int:
    """Return the exit code of the command line for the plan."""
    return 3 if plan.blocked else 0 if plan.is_empty else 2


def comment_plan(job: Job, text: str, *, worth: bool) -> str:
    """Create or update the comment, unless the pull request has a newer commit.

    So a rerun of an old job does not overwrite the newest comment.
    """
    pull_request = job.context.pull_request
    if pull_request is None or pull_request.from_fork or job.inputs.comment is CommentWhen.NEVER:
        return ""
    head = job.github.get(f"/pulls/{pull_request.number}")["head"]["sha"]
    if head != pull_request.head:
        message = (
            f"{pull_request.head[:12]} is no longer the head of the pull request, {head[:12]} is: "
            "its comment stays as it is"
        )
        annotate("notice", message, title="lancens")
        return ""
    return job.comment("plan", text, number=pull_request.number, worth=worth)


# ---- duplicate plans -------------------------------------------------------------------------------------------------
#
# A merge can apply only one of two plans of a commit. Each step writes its own comment, and the second step is refused.
# Two concurrent steps look again after they have written, so at least one of them sees the other.


def _refuse_second_plan(job: Job, pull_request: PullRequest) -> None:
    """Check that no other step shows a plan of this commit with the key of ``job``.

    Raises:
        RefusedError: another step does.
    """
    # A step runs once an attempt, so an equal step that wrote in this attempt is another one.
    for comment, shown, is_own in _shown_plans(job, pull_request):
        if not is_own or shown.run == job.context.run:
            raise RefusedError(FailureReason.DUPLICATE_PLAN, f"{_duplicate(job, comment)} Nothing was read.")


def _withdraw_one_of_two(job: Job, pull_request: PullRequest) -> None:
    """Withdraw the plan that was just shown if another step shows one.

    Raises:
        RefusedError: it was withdrawn.
    """
    for comment, _, is_own in _shown_plans(job, pull_request):
        if not is_own:
            message = _duplicate(job, comment)
            text = f"\n{fenced([message])}\n<sub>{called(job.key)}</sub>\n"
            put_comment(job.github, pull_request.number, job.marker("plan"), text)
            raise RefusedError(FailureReason.DUPLICATE_PLAN, message)


def _shown_plans(job: Job, pull_request: PullRequest) -> Iterator[tuple[Comment, PlanOrigin, bool]]:
    """Yield the comments with a plan of this commit, and whether each is our own."""
    own_marker = job.marker("plan")
    for comment in find_comments(job.github, pull_request.number, marked("plan", job.key.digest)):
        shown = shown_in(comment.body)
        if shown is not None and shown.commit == pull_request.head:
            yield comment, shown, comment.body.startswith(own_marker)


def _duplicate(job: Job, comment: Comment) -> str:
    return (
        f"{comment.url} shows another plan of {job.key} for this commit, by another job, step or workflow. Merging "
        "could only apply one of them: give each its own input `label`, to plan and to apply alike. If the other one "
        "was renamed or is gone, delete its comment."
    )


# ---- validate and drift ----------------------------------------------------------------------------------------------


def validate(job: Job) -> StepEnd:
    """Check the manifest, without reading a catalog or a secret."""
    manifest = job.manifest
    parts = (count(number, kind) for kind, number in manifest.counts.items())
    return StepEnd(page=f"### lancens: {code(manifest.name)} is valid\n\n{', '.join(parts)}.\n")


def validate_untrusted(job: Job) -> StepEnd:
    """Validate the manifest of an untrusted event, and say why it is not planned."""
    why = _QUEUE if job.context.pull_request is None else _FORK
    annotate("notice", why, title="lancens: validated only")
    outcome = validate(job)
    outcome.page += f"\n{why}\n"
    return outcome


def drift(job: Job) -> StepEnd:
    """Report drift from the committed manifest, and open, update or close its issue."""
    planned = job.plan()
    outcome = StepEnd(page=plan_summary(planned), plan=planned, exit_code=_exit_code(planned))
    if job.inputs.comment is not CommentWhen.NEVER:
        outcome.comment_url = _keep_issue(job, planned)
    unmanaged = sum(catalog.unmanaged_tables for catalog in planned.catalogs)
    if planned.blocked and job.inputs.fail_on_drift:
        outcome.failure, outcome.message = FailureReason.BLOCKED, f"{count(len(planned.blocked), 'object')} blocked"
    elif not planned.is_empty and job.inputs.fail_on_drift:
        outcome.failure, outcome.message = FailureReason.DRIFT, "the catalogs differ from the manifest"
    elif unmanaged and job.inputs.fail_on_unmanaged:
        outcome.exit_code = outcome.exit_code or 2
        outcome.failure, outcome.message = FailureReason.DRIFT, f"{count(unmanaged, 'table')} managed by no manifest"
    if outcome.failure:
        annotate("error", outcome.message, title="lancens: drift")
    return outcome


def _keep_issue(job: Job, plan: Plan) -> str:
    # Workflows with the same `select` share one issue.
    selected = digest_of(sorted(job.inputs.select)) if job.inputs.select else "any"
    first_line, run_url = marker("drift", job.key.digest, selected), job.context.run_url
    if not _exit_code(plan):
        subject = "What `select` names is" if job.inputs.select else "The catalogs are"
        return close_issue(job.github, first_line, f"{subject} what the manifest says again ([run]({run_url})).")
    named = display.shorten(called(job.key).replace("`", ""), _LONGEST_NAME)
    blocked = f", {len(plan.blocked):,} blocked" if plan.blocked else ""
    title = f"lancens: {named}the catalogs differ from the manifest ({count(len(plan.changes), 'change')}{blocked})"
    text = "Applying the manifest would undo this. To keep it instead, put it into the manifest.\n\n"
    return put_issue(job.github, first_line, title, text + plan_body(plan, run_url=run_url))
