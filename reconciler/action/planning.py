"""The commands that change no catalog: `plan`, `validate` and `drift`."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.action.approval import PlanOrigin, marker, marker_prefix, read_origin
from reconciler.action.comments import Comment, close_issue, find_comments, put_comment, put_issue
from reconciler.action.config_changes import find_config_changes
from reconciler.action.context import PullRequest
from reconciler.action.inputs import CommentWhen, digest_of
from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError, StepOutcome
from reconciler.action.pages import cut_code_block, key_prefix, plan_body, plan_comment, plan_summary, short_code_span
from reconciler.action.workflow import annotate
from reconciler.model import display
from reconciler.model.display import count
from reconciler.planner.plan import Plan, check_removals

_LONGEST_NAME = 120
"""The most characters that the plan's name may take of an issue's title, which GitHub limits to 256."""

_FORK = (
    "This pull request comes from a fork. It gets no secrets, so only the manifest was checked: no catalog was read, "
    "and nothing is approved. To plan it, push its commits to a branch of this repository."
)

_QUEUE = (
    "A merge queue joins the commits of several pull requests, perhaps of forks, so only the manifest was checked: no "
    "catalog was read, and nothing is approved. Plan on the event `pull_request`."
)


def plan(job: Job) -> StepOutcome:
    """Plan, and show the plan in a comment on the pull request.

    Raises:
        RefusedError: another step shows a plan of the same commit and key.
        SafetyError: the plan removes more than the manifest allows.
    """
    pull_request = job.context.pull_request
    if pull_request is not None and job.inputs.comment is not CommentWhen.NEVER:
        _refuse_second_plan(job, pull_request)
    config_changes = job.config_changes = find_config_changes(job)
    plan = job.plan()
    if not job.inputs.allow_mass_removal:
        check_removals(plan)
    outcome = StepOutcome(page=config_changes.text + plan_summary(plan), plan=plan, exit_code=_exit_code(plan))
    if pull_request is not None:
        text = plan_comment(
            plan,
            key=job.key,
            origin=PlanOrigin(pull_request.head, job.context.run_attempt),
            run_url=job.context.run_url,
            removal_notes=job.removal_notes,
            config_changes=config_changes,
        )
        has_news = bool(config_changes.text or plan.blocked) or not plan.is_empty
        outcome.comment_url = comment_plan(job, text, has_news=has_news)
        if outcome.comment_url:
            _withdraw_second_plan(job, pull_request)
    return outcome


def _exit_code(plan: Plan) -> int:
    """Return the exit code of the command line for the plan."""
    return 3 if plan.blocked else 0 if plan.is_empty else 2


def comment_plan(job: Job, text: str, *, has_news: bool) -> str:
    """Comment on the pull request, unless it has a newer commit.

    A rerun of an old job must not overwrite the newest comment.
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
    return job.comment("plan", text, number=pull_request.number, has_news=has_news)


# ---- duplicate plans -------------------------------------------------------------------------------------------------
#
# A merge can apply only one of two plans of a commit. Each step writes its own comment, and the second step is refused.
# Two concurrent steps look again after they have written, so at least one of them sees the other's comment.


def _refuse_second_plan(job: Job, pull_request: PullRequest) -> None:
    """Check that no other step shows a plan of this commit with the key of ``job``.

    Raises:
        RefusedError: another step does.
    """
    # A step runs once in an attempt: if this attempt has written our comment already, an equal step did.
    for comment, origin, is_own in _plan_comments(job, pull_request):
        if not is_own or origin.run_attempt == job.context.run_attempt:
            raise RefusedError(FailureReason.DUPLICATE_PLAN, f"{_duplicate_message(job, comment)} Nothing was read.")


def _withdraw_second_plan(job: Job, pull_request: PullRequest) -> None:
    """Overwrite our comment if another step shows a plan of this commit.

    Raises:
        RefusedError: the comment was overwritten.
    """
    for comment, _, is_own in _plan_comments(job, pull_request):
        if not is_own:
            message = _duplicate_message(job, comment)
            text = f"\n{cut_code_block([message])}\n<sub>{key_prefix(job.key)}</sub>\n"
            put_comment(job.github, pull_request.number, job.marker("plan"), text)
            raise RefusedError(FailureReason.DUPLICATE_PLAN, message)


def _plan_comments(job: Job, pull_request: PullRequest) -> Iterator[tuple[Comment, PlanOrigin, bool]]:
    """Yield comments on plans of this commit, their origin, and if they are ours."""
    own_marker = job.marker("plan")
    for comment in find_comments(job.github, pull_request.number, marker_prefix("plan", job.key.digest)):
        origin = read_origin(comment.body)
        if origin is not None and origin.commit == pull_request.head:
            yield comment, origin, comment.body.startswith(own_marker)


def _duplicate_message(job: Job, comment: Comment) -> str:
    return (
        f"{comment.url} shows another plan of {job.key} for this commit, by another job, step or workflow. Merging "
        "could only apply one of them: give each its own input `label`, to plan and to apply alike. If the other one "
        "was renamed or is gone, delete its comment."
    )


# ---- validate and drift ----------------------------------------------------------------------------------------------


def validate(job: Job) -> StepOutcome:
    """Check the manifest, without reading a catalog or a secret."""
    manifest = job.manifest
    parts = (count(number, kind) for kind, number in manifest.counts.items())
    return StepOutcome(page=f"### lancens: {short_code_span(manifest.name)} is valid\n\n{', '.join(parts)}.\n")


def validate_untrusted(job: Job) -> StepOutcome:
    """Validate the manifest of an untrusted event, and say why it is not planned."""
    reason = _QUEUE if job.context.pull_request is None else _FORK
    annotate("notice", reason, title="lancens: validated only")
    outcome = validate(job)
    outcome.page += f"\n{reason}\n"
    return outcome


def drift(job: Job) -> StepOutcome:
    """Report drift from the manifest, and open, update or close its issue."""
    plan = job.plan()
    outcome = StepOutcome(page=plan_summary(plan), plan=plan, exit_code=_exit_code(plan))
    if job.inputs.comment is not CommentWhen.NEVER:
        outcome.comment_url = _update_issue(job, plan)
    unmanaged = sum(catalog.unmanaged_tables for catalog in plan.catalogs)
    if plan.blocked and job.inputs.fail_on_drift:
        outcome.failure, outcome.message = FailureReason.BLOCKED, f"{count(len(plan.blocked), 'object')} blocked"
    elif not plan.is_empty and job.inputs.fail_on_drift:
        outcome.failure, outcome.message = FailureReason.DRIFT, "the catalogs differ from the manifest"
    elif unmanaged and job.inputs.fail_on_unmanaged:
        outcome.exit_code = outcome.exit_code or 2
        outcome.failure, outcome.message = FailureReason.DRIFT, f"{count(unmanaged, 'table')} managed by no manifest"
    if outcome.failure:
        annotate("error", outcome.message, title="lancens: drift")
    return outcome


def _update_issue(job: Job, plan: Plan) -> str:
    """Open or update the issue if ``plan`` has drift, otherwise close it.

    Return its address, which is empty without an issue. Workflows with the same `select` and `exclude` share one issue.
    """
    globs = [sorted(globs) for globs in (job.inputs.select, job.inputs.exclude) if globs]
    selection = digest_of([globs, bool(job.inputs.select)]) if globs else "any"
    first_line, run_url = marker("drift", job.key.digest, selection), job.context.run_url
    if not _exit_code(plan):
        subject = "What `select` and `exclude` leave is" if globs else "The catalogs are"
        return close_issue(job.github, first_line, f"{subject} what the manifest says again ([run]({run_url})).")
    prefix = display.shorten(key_prefix(job.key).replace("`", ""), _LONGEST_NAME)
    blocked = f", {len(plan.blocked):,} blocked" if plan.blocked else ""
    title = f"lancens: {prefix}the catalogs differ from the manifest ({count(len(plan.changes), 'change')}{blocked})"
    text = "Applying the manifest would undo this. To keep it instead, put it into the manifest.\n\n"
    return put_issue(job.github, first_line, title, text + plan_body(plan, run_url=run_url))
