"""The command `audit`: audit the catalogs, and add the report to the artifact."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.action.inputs import Inputs
from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, RefusedError, StepOutcome
from reconciler.action.pages import cut_code_block, short_code_span
from reconciler.action.workflow import annotate, verbatim
from reconciler.model import display
from reconciler.model.errors import BackendError, LancensError

if TYPE_CHECKING:
    from reconciler.auditor.audit import AuditOptions
    from reconciler.auditor.document import AuditDocument

_LONGEST_ANNOTATION = 4_000


def audit(job: Job) -> StepOutcome:
    """Audit the catalogs, and write the report into the artifact's folder.

    Raises:
        ManifestError: the manifest cannot be used.
        RefusedError: the report would show a secret of the job; neither it nor the history is written.
    """
    from reconciler.auditor.run import run_audit
    from reconciler.operations.connections import missing_roots
    from reconciler.report.folder import write_report
    from reconciler.report.json import render_json
    from reconciler.report.text import remark_lines, summary_lines

    manifest, inputs = job.manifest, job.inputs  # loaded before `verbatim`, in which the runner ignores masks
    folder = job.folder / "audit"
    shutil.rmtree(folder, ignore_errors=True)  # an earlier step of the job may have written it
    lines: list[str] = []
    problems: list[str] = []

    def report(document: AuditDocument) -> None:
        job.secrets.check("the report", render_json(document))
        folder.mkdir(parents=True)
        write_report(document, folder)
        lines.extend(summary_lines(document))
        problems.extend(remark_lines(document))

    with verbatim("Audit"):
        try:
            problems += missing_roots(manifest)
            spark = None if inputs.engine == "local" else job.spark_options
            failure, message = _audit_failure(run_audit(spark, manifest, _audit_options(inputs), report), inputs)
        except RefusedError:
            raise
        except (LancensError, BackendError) as error:
            failure, message = FailureReason.AUDIT_FAILED, ""
            problems += str(error).splitlines()
        lines, problems = ([display.message(job.secrets.scrub(line)) for line in texts] for texts in (lines, problems))
        print(*lines, *problems, sep="\n", flush=True)
    title = f"lancens audit of {short_code_span(manifest.name)}"
    report_folder = folder if folder.exists() else None
    if failure is None:
        return StepOutcome(page=_page(title, lines), report=report_folder)
    if failure is FailureReason.AUDIT_FAILED:
        message = "\n".join(filter(None, (message, *problems)))
    message = message[:_LONGEST_ANNOTATION]
    annotate("error", message, title=f"lancens: {failure}")
    page = _page(f"{title}: {failure}", [*lines, *problems])
    exit_code = 2 if failure is FailureReason.FINDINGS else 1
    return StepOutcome(page=page, exit_code=exit_code, failure=failure, message=message, report=report_folder)


def _audit_failure(document: AuditDocument, inputs: Inputs) -> tuple[FailureReason | None, str]:
    """Return why the audit fails the step, or None, and the message of the failure."""
    if not document.complete:
        return FailureReason.AUDIT_FAILED, "the audit is incomplete; the report lists what could not be read"
    if document.fails(inputs.fail_on):
        return FailureReason.FINDINGS, f"there are findings of the severity `{inputs.fail_on}` or higher"
    return None, ""


def _audit_options(inputs: Inputs) -> AuditOptions:
    """Return the options of the audit that the inputs of the step set.

    Raises:
        LancensError: there is no such rule, none is left, or ``since-last`` lacks a history.
    """
    from reconciler.auditor.audit import AuditOptions
    from reconciler.auditor.rules import rules_to_apply

    return AuditOptions(
        stale_after=timedelta(days=inputs.stale_after),
        rules=rules_to_apply(inputs.rules or None, inputs.skip_rules),
        parallelism=inputs.parallelism,
        history=inputs.history or None,
        since_last=inputs.since_last,
        exclude=inputs.exclude,
    )


def _page(title: str, lines: list[str]) -> str:
    return f"### {title}\n\n{cut_code_block(lines)}"
