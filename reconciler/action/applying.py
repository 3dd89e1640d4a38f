"""The command `apply`: carry out exactly the plan that a pull request showed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

from reconciler.action.api import GitHubError
from reconciler.action.applied_commits import check_not_superseded, set_commit_status
from reconciler.action.approval import (
    Approval,
    marker_prefix,
    options_digest,
    read_approval,
    read_origin,
    services_digest,
)
from reconciler.action.comments import Comment, find_comments, is_untouched
from reconciler.action.context import PullRequest
from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError, StepOutcome
from reconciler.action.pages import applied_page, compare_plans, opening_line, plan_summary
from reconciler.action.workflow import annotate, verbatim
from reconciler.applier.report import ApplyReport, ChangeResult, Event, Status, result_line, summary_line
from reconciler.applier.stopping import stop_on_signals
from reconciler.model import display
from reconciler.model.errors import PlanFileError, StalePlanError
from reconciler.operations.apply import apply as apply_to_catalogs
from reconciler.output.wording import target_line
from reconciler.planner.plan import Plan, check_blocked

_OTHER_OPTIONS = "one of the inputs `select`, `exclude`, `adopt`, `take-over` or `recreate-lost`"
_WITHOUT_REVIEW = "To apply without a review, run with `require-approved-plan: false`."


def apply(job: Job) -> StepOutcome:
    """Apply the approved plan, ``plan-file``, or without approval the current plan.

    Raises:
        RefusedError: no plan was approved, or another one, or a newer commit was applied.
        BlockedError: an object is blocked, and `skip-blocked` is not set.
    """
    pull_request = job.context.unmerged
    if pull_request is not None and job.inputs.require_approved_plan:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"pull request {pull_request.number} is not merged; apply runs after the merge, or with "
            "`require-approved-plan: false` on the manifest of a preview",
        )
    outcome = _apply_saved_plan(job) if job.inputs.plan_file else _apply_current_plan(job)
    if pull_request is not None and pull_request.is_open and outcome.plan is not None and not outcome.failure:
        outcome.page += f"\n\n{opening_line(outcome.plan, job.key)}"
    return outcome


def _apply_current_plan(job: Job) -> StepOutcome:
    current = job.plan()
    if current.is_empty and (not current.blocked or job.inputs.skip_blocked):
        if job.inputs.require_approved_plan:
            _check_same_options(job, current)
        set_commit_status(job, current, "success")
        return StepOutcome(page=plan_summary(current), plan=current)
    if not job.inputs.skip_blocked:
        check_blocked(current)
    if job.inputs.require_approved_plan:
        return _apply_plan(job, _approved_plan(job, current))
    return _apply_plan(job, current)


# ---- approval --------------------------------------------------------------------------------------------------------


def _find_approval(job: Job) -> tuple[PullRequest, Approval]:
    """Return the merged pull request, and the approval in its comment.

    Raises:
        RefusedError: no plan was approved.
    """
    pull_request = job.merged_pull_request
    if pull_request is None:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"no merged pull request made commit {job.context.sha[:12]} of {job.context.branch}, so no plan was "
            f"approved. {_WITHOUT_REVIEW}",
        )
    if len(job.merged_pull_requests) > 1:
        numbers = " and ".join(str(merged.number) for merged in job.merged_pull_requests)
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"commit {job.context.sha[:12]} merged pull requests {numbers}, so the approved plan is unknown. Nothing "
            f"was changed. {_WITHOUT_REVIEW}",
        )
    return pull_request, _approval_of(job, pull_request)


def _check_saved_plan(job: Job, saved: Plan) -> None:
    """Check that ``saved`` has the expected digest, or else the approved one.

    Raises:
        RefusedError: it has another digest, or no plan was approved.
    """
    digest, expected = saved.digest(), job.inputs.expect_digest
    source = "input `expect-digest`"
    if not expected and job.inputs.require_approved_plan:
        pull_request, approval = _find_approval(job)
        expected, source = approval.plan_digest, f"pull request {pull_request.number}"
    if expected and digest != expected:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"plan-file {display.printable(job.inputs.plan_file)} has digest {digest[:12]}, and {source} approves "
            f"{expected[:12]}. Nothing was changed. Give the artifact of the run that commented.",
        )


def _approved_plan(job: Job, current: Plan) -> Plan:
    """Return ``current`` with the approved versions of data, if it was approved.

    Raises:
        RefusedError: it differs, or no plan was approved.
    """
    pull_request, approval = _find_approval(job)
    if approval.covers(current):
        return approval.with_approved_data(current)
    if current.manifest.digest != approval.manifest_digest:
        names = approval.plan.manifest.differing_variables(current.manifest) if approval.plan else []
        cause = f"the value of {', '.join(f'`{name}`' for name in names)}" if names else "the manifest"
    elif options_digest(current) != approval.options_digest:
        cause = _OTHER_OPTIONS
    elif services_digest(current) != approval.services_digest:
        cause = "which service or root a catalog's `config` stands for, by the environment, a variable or a file,"
    else:
        cause = "what the catalogs hold"
    raise _plan_changed_error(pull_request, approval, current, cause)


def _check_same_options(job: Job, current: Plan) -> None:
    """Check that an empty plan was made with the options of the approved one.

    Raises:
        RefusedError: it was not, so some approved changes may not have been planned.
    """
    pull_request = job.merged_pull_request
    comment = None if pull_request is None else _find_plan_comment(job, pull_request)
    approval = read_approval(comment.body) if comment else None
    if pull_request is not None and approval is not None and approval.options_digest != options_digest(current):
        raise _plan_changed_error(pull_request, approval, current, _OTHER_OPTIONS)


def _plan_changed_error(pull_request: PullRequest, approval: Approval, current: Plan, cause: str) -> RefusedError:
    """Return the error that ``cause`` has changed since ``approval``."""
    return RefusedError(
        FailureReason.PLAN_CHANGED,
        f"the plan is not the one that pull request {pull_request.number} showed (plan {approval.plan_digest[:12]} of "
        f"commit {approval.commit[:12]}): {cause} has changed since. Nothing was changed. Plan again in a new pull "
        "request.",
        compare_plans(approval.plan, current),
    )


def _find_plan_comment(job: Job, pull_request: PullRequest) -> Comment | None:
    """Return the comment on the plan of the merged commit.

    Without one, it is the newest comment on a plan with this key, or None.

    Raises:
        RefusedError: several comments show a plan of that commit.
    """
    comments = [*find_comments(job.github, pull_request.number, marker_prefix("plan", job.key.digest))]
    origins = [(comment, read_origin(comment.body)) for comment in comments]
    of_head = [comment for comment, origin in origins if origin is not None and origin.commit == pull_request.head]
    if len(of_head) > 1:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"no approved plan: {', '.join(comment.url for comment in of_head)} each show a plan of {job.key} so the "
            f"approved one is unknown. Nothing was changed. Give each its own input `label`. {_WITHOUT_REVIEW}",
        )
    return next(iter(of_head or comments[-1:]), None)


def _approval_of(job: Job, pull_request: PullRequest) -> Approval:
    """Return the approval in the comment on ``pull_request``.

    Raises:
        RefusedError: there is none, somebody else has edited the comment, or it approves another commit.
    """
    comment = _find_plan_comment(job, pull_request)
    approval = read_approval(comment.body) if comment else None
    if comment is None:
        reason = (
            f"pull request {pull_request.number} has no comment by {job.github.login} that shows a plan of {job.key} "
            "and plan and apply need the same manifest, variables and label"
        )
    elif approval is None:
        reason = f"the comment on pull request {pull_request.number} approves nothing: it was cut, or planning failed"
    elif not is_untouched(job.github, comment):
        reason = f"the comment on pull request {pull_request.number} was edited by someone else"
    elif approval.commit != pull_request.head:
        reason = (
            f"the comment on pull request {pull_request.number} shows the plan of commit {approval.commit[:12]}, and "
            f"what was merged is {pull_request.head[:12]}"
        )
    else:
        return approval
    raise RefusedError(
        FailureReason.NOT_APPROVED, f"no approved plan: {reason}. Nothing was changed. {_WITHOUT_REVIEW}"
    )


# ---- execution -------------------------------------------------------------------------------------------------------


def _apply_saved_plan(job: Job) -> StepOutcome:
    try:
        saved = Plan.from_json(Path(job.inputs.plan_file).read_bytes())
    except OSError as error:
        raise PlanFileError(f"plan-file {display.printable(job.inputs.plan_file)}: {error.strerror}") from None
    job.secrets.check("the plan", saved.to_json())
    _check_saved_plan(job, saved)
    try:
        return _apply_plan(job, saved)
    except StalePlanError as error:
        raise RefusedError(FailureReason.PLAN_CHANGED, str(error), compare_plans(saved, job.plan())) from None


def _apply_plan(job: Job, plan: Plan) -> StepOutcome:
    """Apply ``plan``, record that on the commit, and return the outcome.

    Raises:
        RefusedError: a newer commit was applied.
    """
    check_not_superseded(job, plan)
    stop, manifest = threading.Event(), job.manifest  # loaded before `verbatim`, in which the runner ignores masks
    with verbatim("Apply"), stop_on_signals(stop):
        report = apply_to_catalogs(
            plan,
            manifest,
            journal=job.context.temporary / "lancens-journal",
            allow_mass_removal=job.inputs.allow_mass_removal,
            skip_blocked=job.inputs.skip_blocked,
            parallelism=job.inputs.parallelism,
            on_event=_event_handler(job, plan),
            stop=stop,
        )
        print(summary_line(report, target_line(plan)))
    try:
        set_commit_status(job, plan, "success" if report.ok else "failure")
    except GitHubError as error:  # the status says already that apply has begun
        annotate("warning", str(error), title="lancens: no commit status")
    return _apply_outcome(job, plan, report)


def _event_handler(job: Job, plan: Plan) -> Callable[[Event], None]:
    """Return a function that prints each result.

    It sets the commit status before the first change starts.
    """
    events = count()

    def handle(event: Event) -> None:
        if next(events) == 0:
            set_commit_status(job, plan, "pending")
        if isinstance(event, ChangeResult):
            print(result_line(event), flush=True)

    return handle


def _apply_outcome(job: Job, plan: Plan, report: ApplyReport) -> StepOutcome:
    outcome = StepOutcome(page=applied_page(plan, report), plan=plan)
    outcome.results = [
        {
            "address": result.change.address,
            "action": result.change.action,
            "status": result.status,
            "message": job.secrets.scrub(result.message),
        }
        for result in report.results
    ]
    if not report.ok:
        outcome.exit_code = 130 if report.interrupted else 1
        some_done = report.counts[Status.DONE] or report.counts[Status.ALREADY]
        outcome.failure = FailureReason.PARTIAL_APPLY if some_done else FailureReason.APPLY_FAILED
        outcome.message = summary_line(report, target_line(plan))
        annotate("error", outcome.message, title="lancens: apply")
    return outcome
