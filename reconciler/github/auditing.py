"""The command that hands over to ``lancens audit``, whose report becomes the artifact."""

from __future__ import annotations

import subprocess
import sys

from reconciler.github.failures import FailureReason
from reconciler.github.job import Job
from reconciler.github.outcome import Outcome
from reconciler.github.pages import fenced
from reconciler.github.workflow import annotate, verbatim

__all__ = ["audit"]


def audit(job: Job) -> Outcome:
    """Run the audit in a process of its own, for Spark's sake, with its files in the folder of the artifact."""
    variables = [argument for pair in job.inputs.variables.items() for argument in ("--var", "=".join(pair))]
    command = ["audit", *job.inputs.manifests, *variables, "--out", str(job.folder / "audit")]
    done = subprocess.run(  # noqa: S603 - our own interpreter, and no shell
        [sys.executable, "-I", "-c", "from reconciler.cli import main; main()", *command],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    said, problems = job.secrets.scrub(done.stdout), job.secrets.scrub(done.stderr).strip()
    with verbatim("Audit"):
        print(said, problems, sep="\n")
    if done.returncode == 0:
        return Outcome(page=f"### lancens audit\n\n{fenced(said.splitlines())}")
    message = problems or "the audit failed"
    annotate("error", message, title="lancens: audit")
    page = f"### lancens audit failed\n\n{fenced(message.splitlines())}"
    return Outcome(page=page, exit_code=done.returncode, failure=FailureReason.AUDIT_FAILED, message=message)
