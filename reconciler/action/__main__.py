"""Run one step of a workflow, and turn every error into its outcome."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from reconciler.action.api import GitHubError
from reconciler.action.applying import apply
from reconciler.action.auditing import audit
from reconciler.action.context import read_context
from reconciler.action.events import Trust
from reconciler.action.inputs import Command, CommentWhen, read_inputs
from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError, StepOutcome, append_summary, reason_of, write_outputs
from reconciler.action.pages import cut_code_block, key_prefix, plan_summary
from reconciler.action.planning import comment_plan, drift, plan, validate, validate_untrusted
from reconciler.action.workflow import annotate, annotate_problems, verbatim
from reconciler.model.errors import LancensError, ManifestError

_COMMANDS: Mapping[Command, Callable[[Job], StepOutcome]] = {
    Command.PLAN: plan,
    Command.APPLY: apply,
    Command.DRIFT: drift,
    Command.AUDIT: audit,
    Command.VALIDATE: validate,
}

_LONGEST_ANNOTATION = 4_000


def run(environment: Mapping[str, str]) -> int:
    """Run the step that ``environment`` describes and return its exit code."""
    folder = Path(environment.get("RUNNER_TEMP", ".")) / "lancens" / "failed"
    try:
        job = Job(read_inputs(environment), read_context(environment), environment)
    except LancensError as error:
        outcome = _annotated_failure(error, str(error))
    else:
        outcome = _run_command(job)
        if outcome.failure is not FailureReason.DUPLICATE_PLAN:
            folder = job.folder
    append_summary(f"{outcome.page}\n{outcome.appendix}", environment)
    write_outputs(outcome, folder, environment)
    return 1 if outcome.failure else 0


def _run_command(job: Job) -> StepOutcome:
    """Run the command of ``job``, and turn every error into an outcome.

    A failure, and any apply, is also commented on the pull request.
    """
    try:
        outcome = _choose_command(job)(job)
    except ManifestError as error:
        problems = [replace(problem, message=job.secrets.scrub(problem.message)) for problem in error.problems]
        annotate_problems(problems, job.inputs.manifest, job.context.workspace)
        outcome = _failure(error, job.secrets.scrub(str(error)))
    except (LancensError, OSError) as error:
        outcome = _annotated_failure(error, job.secrets.scrub(_error_text(error)))
    except Exception as error:  # noqa: BLE001 - the edge: a traceback could show a secret
        text = f"lancens failed: {type(error).__name__}. This is a bug in lancens: run the command line with --debug."
        outcome = _annotated_failure(error, text)
    if outcome.failure and not outcome.page.startswith(job.config_changes.text):
        outcome.page = job.config_changes.text + outcome.page
    if outcome.plan is None and job.current_plan is not None:
        outcome.plan = job.current_plan
        outcome.appendix = plan_summary(job.current_plan)
    outcome.page = job.secrets.scrub(outcome.page)
    has_news = outcome.failure or job.inputs.command is Command.APPLY
    # The comment on a duplicate plan belongs to the step that made the other one.
    without_comment = (FailureReason.GITHUB, FailureReason.DUPLICATE_PLAN)
    if has_news and outcome.failure not in without_comment and job.context.trust is Trust.FULL:
        _comment(job, outcome)
    return outcome


def _choose_command(job: Job) -> Callable[[Job], StepOutcome]:
    """Return the function of the command, or one that only validates.

    An untrusted manifest never reaches a catalog or a secret.

    Raises:
        RefusedError: the event is not trusted, or an untrusted manifest would be applied.
    """
    event = job.context.event
    match job.context.trust:
        case Trust.FULL:
            return _COMMANDS[job.inputs.command]
        case Trust.NONE:
            raise RefusedError(
                FailureReason.REFUSED,
                f"a workflow on `{event}` runs with the repository's secrets, which a manifest from a fork must not "
                "reach: use the event `pull_request` (docs/security.md has the events that are trusted)",
            )
    if job.inputs.command is Command.APPLY:
        raise RefusedError(
            FailureReason.NOT_APPROVED,
            f"on `{event}` "
            + ("with several heads" if job.context.pull_request is None else "of a pull request from a fork")
            + " no plan is shown, so there is no plan to apply",
        )
    return validate_untrusted


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _annotated_failure(error: BaseException, message: str) -> StepOutcome:
    annotate("error", message[:_LONGEST_ANNOTATION], title=f"lancens: {reason_of(error)}")
    return _failure(error, message)


def _failure(error: BaseException, message: str) -> StepOutcome:
    """Print ``message``, and return the outcome of a step that ended with ``error``."""
    reason = reason_of(error)
    with verbatim(f"lancens: {reason}"):
        print(message)
    details = f"\n{error.details}" if isinstance(error, RefusedError) and error.details else ""
    page = f"### lancens: {reason}\n\n{cut_code_block(message.splitlines())}{details}"
    exit_code = 3 if reason is FailureReason.BLOCKED else 1
    return StepOutcome(page=page, exit_code=exit_code, failure=reason, message=message)


def _comment(job: Job, outcome: StepOutcome) -> None:
    """Comment ``outcome`` on the pull request; if GitHub refuses, warn."""
    context = job.context
    signature = f"{key_prefix(job.key)}commit `{context.commit}` · [run]({context.run_url})"
    text = f"\n{outcome.page}\n<sub>{signature}</sub>\n"
    try:
        if job.inputs.command is Command.PLAN:
            outcome.comment_url = comment_plan(job, text, has_news=True)
        elif job.inputs.command is Command.APPLY and job.inputs.comment is not CommentWhen.NEVER:
            pull_request = job.merged_pull_request
            number = None if pull_request is None else pull_request.number
            has_news = bool(outcome.failure or outcome.results)
            outcome.comment_url = job.comment("apply", text, number=number, has_news=has_news)
    except GitHubError as error:
        annotate("warning", str(error), title="lancens: no comment")


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    os.environ.setdefault("LANCE_LOG", "lance=off")  # which pylance reads once, when it is imported
    # Spark is started by shell scripts, and an exported function would stand in for a command there.
    for function in [name for name in os.environ if name.startswith("BASH_FUNC_")]:
        del os.environ[function]
    try:
        sys.exit(run(os.environ))
    except KeyboardInterrupt:
        sys.exit(130)
