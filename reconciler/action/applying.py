"""The command `apply`: carry out exactly the plan that a pull request showed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from reconciler.action.api import GitHubError
from reconciler.action.applied_commits import check_newest, record
from reconciler.action.approval import Approval, approval_in, marked, options_of, services_of, shown_in
from reconciler.action.comments import Comment, find_comments, is_untouched
from reconciler.action.context import PullRequest
from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError, StepEnd
from reconciler.action.pages import applied_page, difference, plan_summary
from reconciler.action.workflow import annotate, verbatim
from reconciler.applier.report import ApplyReport, ChangeResult, Event, Status, result_line, summary_line
from reconciler.model import display
from reconciler.model.errors import PlanFileError, StalePlanError
from reconciler.operations.apply import apply as carry_out
from reconciler.planner.plan import Plan, check_blocked

_OTHER_OPTIONS = "one of the inputs `select`, `adopt`, `take-over` or `recreate-lost`"
_HOW_ELSE = "To apply without a review, run with `require-approved-plan: false`."


def apply(job: Job) -> StepEnd:
    """Apply the approved plan, ``plan-file``, or without approval the current plan.

    Raises:
        RefusedError: no plan was approved, or another one, or a newer commit was applied.
        BlockedError: an object is blocked, and `skip-blocked` is not set.
    """
    pull_request = job.context.pull_request
    if pull_request is not None and not pull_request.merged:
        raise RefusedError(
            FailureReason.NOT_APPROVED, f"pull request {pull_request.number} is not merged; apply runs after the merge"
        )
    if job.inputs.plan_file:
        return _apply_saved(job)
    now = job.plan()
    if now.is_empty and (not now.blocked or job.inputs.skip_blocked):
        if job.inputs.require_approved_plan:
            _check_asked_for_all(job, now)
        record(job, now, "success")
        return StepEnd(page=plan_summary(now), plan=now)
    if not job.inputs.skip_blocked:
        check_blocked(now)
    return _carry_out(job, _check_approved(job, now) if job.inputs.require_approved_plan else now)


# ---- approval --------------------------------------------------------------------------------------------------------


def _approved(job: Job) -> tuple[PullRequest, Approval]:
    """Return the merged pull request, and the plan that it approved.

    Raises:
        RefusedError: no plan was approved.
    """
    pull_request = job.merged_pull_request
    if pull_request is None:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"no merged pull request made commit {job.context.sha[:12]} of {job.context.branch}, so no plan was "
            f"approved. {_HOW_ELSE}",
        )
    if len(job.merged_pull_requests) > 1:
        numbers = " and ".join(str(merged.number) for merged in job.merged_pull_requests)
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"commit {job.context.sha[:12]} merged pull requests {numbers}, so the approved plan is unknown. Nothing "
            f"was changed. {_HOW_ELSE}",
        )
    return pull_request, _approval(job, pull_request)


def _check_saved(job: Job, saved: Plan) -> None:
    """Check that the digest of ``saved`` is the expected one, or else that of the approved plan.

    Raises:
        RefusedError: it is another one, or no plan was approved.
    """
    digest, expected = saved.digest(), job.inputs.expect_digest
    source = "input `expect-digest`"
    if not expected and job.inputs.require_approved_plan:
        pull_request, approval = _approved(job)
        expected, source = approval.plan_digest, f"pull request {pull_request.number}"
    if expected and digest != expected:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"plan-file {display.printable(job.inputs.plan_file)} has digest {digest[:12]}, and {source} approves "
            f"{expected[:12]}. Nothing was changed. Give the artifact of the run that commented.",
        )


def _check_approved(job: Job, now: Plan) -> Plan:
    """Check that the merged pull request showed every change of ``now``, and return it on the data that was approved.

    Raises:
        RefusedError: it differs, or no plan was approved.
    """
    pull_request, approval = _approved(job)
    if approval.covers(now):
        return approval.bind(now)
    if now.manifest.digest != approval.manifest:
        names = approval.plan.manifest.differing_variables(now.manifest) if approval.plan else []
        moved = f"the value of {', '.join(f'`{name}`' for name in names)}" if names else "the manifest"
    elif options_of(now) != approval.options:
        moved = _OTHER_OPTIONS
    elif services_of(now) != approval.services:
        moved = "which service or root a catalog's `config` stands for, by the environment, a variable or a file,"
    else:
        moved = "what the catalogs hold"
    raise _changed(pull_request, approval, now, moved)


def _check_asked_for_all(job: Job, now: Plan) -> None:
    """Check that ``now``, which is empty, has the options of the approved plan.

    Raises:
        RefusedError: it was not, so approved changes may be left undone.
    """
    pull_request = job.merged_pull_request
    comment = None if pull_request is None else _newest_shown(job, pull_request)
    approval = approval_in(comment.body) if comment else None
    if pull_request is not None and approval is not None and approval.options != options_of(now):
        raise _changed(pull_request, approval, now, _OTHER_OPTIONS)


def _changed(pull_request: PullRequest, approval: Approval, now: Plan, moved: str) -> RefusedError:
    return RefusedError(
        FailureReason.PLAN_CHANGED,
        f"the plan is not the one that pull request {pull_request.number} showed (plan {approval.plan_digest[:12]} of "
        f"commit {approval.commit[:12]}): {moved} has changed since. Nothing was changed. Plan again in a new pull "
        "request.",
        difference(approval.plan, now),
    )


def _newest_shown(job: Job, pull_request: PullRequest) -> Comment | None:
    """Return the comment with the plan of the merged commit, or the newest comment.

    Raises:
        RefusedError: several comments show a plan of that commit.
    """
    comments = [*find_comments(job.github, pull_request.number, marked("plan", job.key.digest))]
    plans = [(comment, shown_in(comment.body)) for comment in comments]
    current = [comment for comment, shown in plans if shown is not None and shown.commit == pull_request.head]
    if len(current) > 1:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"no approved plan: {', '.join(comment.url for comment in current)} each show a plan of {job.key} so the "
            f"approved one is unknown. Nothing was changed. Give each its own input `label`. {_HOW_ELSE}",
        )
    return next(iter(current or comments[-1:]), None)


def _approval(job: Job, pull_request: PullRequest) -> Approval:
    comment = _newest_shown(job, pull_request)
    approval = approval_in(comment.body) if comment else None
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
    raise RefusedError(FailureReason.NOT_APPROVED, f"no approved plan: {reason}. Nothing was changed. {_HOW_ELSE}")


# ---- execution -------------------------------------------------------------------------------------------------------


def _apply_saved(job: Job) -> StepEnd:
    try:
        saved = Plan.from_json(Path(job.inputs.plan_file).read_bytes())
    except OSError as error:
        raise PlanFileError(f"plan-file {display.printable(job.inputs.plan_file)}: {error.strerror}") from None
    job.secrets.check("the plan", saved.to_json())
    _check_saved(job, saved)
    try:
        return _carry_out(job, saved)
    except StalePlanError as error:
        raise RefusedError(FailureReason.PLAN_CHANGED, str(error), difference(saved, job.plan())) from None


def _carry_out(job: Job, plan: Plan) -> StepEnd:
    check_newest(job, plan)
    stop, manifest = threading.Event(), job.manifest  # loaded before `verbatim`, in which the runner ignores masks
    with verbatim("Apply"), _interruptible(stop):
        report = carry_out(
            plan,
            manifest,
            journal=job.context.temporary / "lancens-journal",
            allow_mass_removal=job.inputs.allow_mass_removal,
            skip_blocked=job.inputs.skip_blocked,
            parallelism=job.inputs.parallelism,
            on_event=_reporting(job, plan),
            stop=stop,
        )
        print(summary_line(report))
    try:
        record(job, plan, "success" if report.ok else "failure")
    except GitHubError as error:  # the status says already that apply has begun
        annotate("warning", str(error), title="lancens: no commit status")
    return _outcome(job, plan, report)


def _reporting(job: Job, plan: Plan) -> Callable[[Event], None]:
    """Return what records the commit before the first change starts, and prints each result."""
    events = count()

    def report(event: Event) -> None:
        if next(events) == 0:
            record(job, plan, "pending")
        if isinstance(event, ChangeResult):
            print(result_line(event), flush=True)

    return report


def _outcome(job: Job, plan: Plan, report: ApplyReport) -> StepEnd:
    outcome = StepEnd(page=applied_page(plan, report), plan=plan)
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
        begun = report.counts[Status.DONE] or report.counts[Status.ALREADY]
        outcome.failure = FailureReason.PARTIAL_APPLY if begun else FailureReason.APPLY_FAILED
        outcome.message = summary_line(report)
        annotate("error", outcome.message, title="lancens: apply")
    return outcome


@contextmanager
def _interruptible(stop: threading.Event) -> Iterator[None]:
    """Let a cancelled run finish its current changes: ignore SIGINT and SIGTERM."""

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
