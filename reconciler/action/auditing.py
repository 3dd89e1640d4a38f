"""The command `audit`: run ``lancens audit`` and keep its report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reconciler.action.job import Job
from reconciler.action.outcome import FailureReason, StepEnd
from reconciler.action.pages import code, fenced
from reconciler.action.workflow import annotate, verbatim

_LONGEST_ANNOTATION = 4_000
# Command lines are public, and settings of Spark may be secrets.
_PROGRAM = "import json, sys; from reconciler.cli import main; main(json.load(sys.stdin))"
_FINDINGS = 2
"""The exit code of ``lancens audit`` for findings of the severity ``--fail-on`` or higher."""


def audit(job: Job) -> StepEnd:
    """Audit, and add the report to the artifact.

    It runs in a separate process, since Spark takes over its own if it is used.

    Raises:
        ManifestError: the manifest cannot be used.
        RefusedError: the report would show a secret of the job; it is deleted.
    """
    title = f"lancens audit of {code(job.manifest.name)}"  # loading masks its secrets in the log
    folder = job.folder / "audit"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier step of the job
    output, problems, exit_code = _run(job, folder)
    report = folder if (folder / "audit.json").exists() else None
    complete = True
    if report is not None:
        text = (report / "audit.json").read_text(encoding="utf-8")
        complete = json.loads(text)["complete"]
        try:
            job.secrets.check("the report", text)
        except BaseException:
            shutil.rmtree(report)
            raise
    if exit_code == 0:
        return StepEnd(page=_page(title, output), report=report)
    if exit_code == _FINDINGS:
        reason, message = FailureReason.FINDINGS, f"there are findings of the severity `{job.inputs.fail_on}` or higher"
    elif not complete:
        message = "\n".join(("the audit is incomplete; the report lists what could not be read", *problems))
        reason, message = FailureReason.AUDIT_FAILED, message[:_LONGEST_ANNOTATION]
    else:
        reason, message = FailureReason.AUDIT_FAILED, "\n".join(problems)[:_LONGEST_ANNOTATION] or "the audit failed"
    annotate("error", message, title=f"lancens: {reason}")
    page = _page(f"{title}: {reason}", [*output, *problems])
    return StepEnd(page=page, exit_code=exit_code, failure=reason, message=message, report=report)


def _run(job: Job, folder: Path) -> tuple[list[str], list[str], int]:
    """Return the lines of stdout and stderr, and the exit code."""
    inputs = job.inputs
    command = ["audit", *inputs.manifest, "--out", str(folder), "--fail-on", inputs.fail_on]
    command += ["--parallelism", str(inputs.parallelism), "--engine", inputs.engine]
    command += [f"--var-file={path}" for path in inputs.var_file]
    command += [f"--var={name}={value}" for name, value in inputs.variables.items()]
    command += [f"--allow-env={name}" for name in sorted(inputs.environment) or [""]]
    command += [f"--allow-host={host}" for host in inputs.allow_hosts]
    command += [
        f"--{name}" for name, on in (("allow-outside", inputs.allow_outside), ("since-last", inputs.since_last)) if on
    ]
    command += [f"--rule={rule}" for rule in inputs.rules]
    command += [f"--skip-rule={rule}" for rule in inputs.skip_rules]
    command += [f"--spark-conf={key}={value}" for key, value in inputs.spark_conf.items()]
    given = {"history": inputs.history, "master": inputs.master, "stale-after": inputs.stale_after}
    command += [f"--{name}={value}" for name, value in given.items() if value]
    problems: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as given_to,
        tempfile.TemporaryFile("w+", errors="replace") as result,
        verbatim("Audit"),
    ):
        json.dump(command, given_to)
        given_to.seek(0)
        with subprocess.Popen(  # noqa: S603 - our own interpreter, and no shell
            [sys.executable, "-I", "-c", _PROGRAM],
            stdin=given_to,
            stdout=result,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as running:
            for line in running.stderr or ():
                problems.append(job.secrets.scrub(line.rstrip()))
                print(problems[-1], flush=True)
        result.seek(0)
        output = job.secrets.scrub(result.read()).splitlines()
        print(*output, sep="\n", flush=True)
    return output, problems, running.returncode


def _page(title: str, lines: list[str]) -> str:
    return f"### {title}\n\n{fenced(lines)}"
