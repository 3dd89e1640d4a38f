"""The outcome of a step: failure reason, outputs, summary and artifact.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-output-parameter
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from reconciler.action.api import GitHubError
from reconciler.action.inputs import InputError
from reconciler.model import errors
from reconciler.planner.plan import Plan, Summary

_COUNTS = ("create", "declare", "register", "update", "move", "deregister", "drop")


class FailureReason(StrEnum):
    """The output ``failure-reason``."""

    INVALID_INPUT = "invalid-input"
    INVALID_MANIFEST = "invalid-manifest"
    CATALOG_UNREADABLE = "catalog-unreadable"
    REFUSED = "refused"
    NOT_APPROVED = "not-approved"
    DUPLICATE_PLAN = "duplicate-plan"
    PLAN_CHANGED = "plan-changed"
    SUPERSEDED = "superseded"
    PARTIAL_APPLY = "partial-apply"
    APPLY_FAILED = "apply-failed"
    BLOCKED = "blocked"
    DRIFT = "drift"
    FINDINGS = "findings"
    AUDIT_FAILED = "audit-failed"
    GITHUB = "github"
    INTERNAL = "internal"


class RefusedError(errors.LancensError):
    """The Action refuses the command; ``details`` is Markdown for the summary."""

    def __init__(self, reason: FailureReason, message: str, details: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.details = details


_REASONS: Sequence[tuple[type[BaseException] | tuple[type[BaseException], ...], FailureReason]] = (
    ((errors.ManifestError, errors.ConfigError), FailureReason.INVALID_MANIFEST),
    (errors.CatalogError, FailureReason.CATALOG_UNREADABLE),
    (errors.BlockedError, FailureReason.BLOCKED),
    (errors.StalePlanError, FailureReason.PLAN_CHANGED),
    ((InputError, errors.SelectionError, errors.MissingExtraError, errors.PlanFileError), FailureReason.INVALID_INPUT),
    (GitHubError, FailureReason.GITHUB),
    (errors.LancensError, FailureReason.REFUSED),
    (BaseException, FailureReason.INTERNAL),
)


def reason_of(error: BaseException) -> FailureReason:
    """Return the reason that classifies ``error``."""
    if isinstance(error, RefusedError):
        return error.reason
    return next(reason for kind, reason in _REASONS if isinstance(error, kind))


@dataclass(slots=True)
class StepOutcome:
    """The outcome of a step, which becomes its summary, outputs and artifact.

    ``exit_code`` is that of the command line (2: there are changes); the step itself fails if there is a ``failure``.
    ``page`` is Markdown for the summary, the artifact and the comment, ``appendix`` Markdown for the summary alone.
    ``results`` are the results of the changes of an apply, ``report`` is the folder of an audit's report.
    """

    page: str
    appendix: str = ""
    plan: Plan | None = None
    exit_code: int = 0
    failure: FailureReason | None = None
    message: str = ""
    comment_url: str = ""
    results: list[Mapping[str, str]] = field(default_factory=list)
    report: Path | None = None

    def document(self) -> dict[str, Any]:
        """Return the content of ``result.json``, the file that the output ``json`` names."""
        summary = Summary() if self.plan is None else self.plan.summary()
        return {
            "exit_code": self.exit_code,
            "failure_reason": self.failure,
            "message": self.message,
            "has_changes": self.plan is not None and not self.plan.is_empty,
            "summary": summary.model_dump(by_alias=True),
            "plan_sha256": "" if self.plan is None else self.plan.digest(),
            "comment_url": self.comment_url,
            "results": self.results,
        }


def write_outputs(outcome: StepOutcome, folder: Path, environment: Mapping[str, str]) -> None:
    """Write the artifact's files into ``folder``, and the outputs of the step."""
    folder.mkdir(parents=True, exist_ok=True)
    document = outcome.document()
    files = {"markdown": folder / "plan.md", "json": folder / "result.json"}
    files["markdown"].write_text(outcome.page, encoding="utf-8", errors="backslashreplace")
    files["json"].write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    outputs = {
        "has-changes": json.dumps(document["has_changes"]),
        "exit-code": str(outcome.exit_code),
        "failure-reason": outcome.failure or "",
        "comment-url": outcome.comment_url,
        "plan-sha256": document["plan_sha256"],
        # The artifact of a duplicate plan belongs to the step that made the other one.
        "artifact": "" if outcome.failure is FailureReason.DUPLICATE_PLAN else f"lancens-{folder.name}",
        "folder": str(folder),
        "report": str(outcome.report or ""),
        "touched": "\n".join(() if outcome.plan is None else _touched(outcome.plan)),
        **{f"to-{word}": str(document["summary"][word]) for word in _COUNTS},
        **{name: str(document["summary"][name]) for name in ("protected", "blocked")},
        **{name: str(path) for name, path in files.items()},
    }
    if outcome.plan is not None:
        from reconciler.output import render

        saved = folder / "plan.json"
        saved.touch(0o600)
        saved.write_bytes(outcome.plan.to_json().encode("utf-8", "surrogatepass"))
        (folder / "plan.html").write_text(render(outcome.plan, "html"), encoding="utf-8", errors="backslashreplace")
        outputs["plan-file"] = str(saved)
    _append("GITHUB_OUTPUT", "".join(_assignment(name, value) for name, value in outputs.items()), environment)


def _touched(plan: Plan) -> list[str]:
    """Return the addresses of the objects that ``plan`` changes, or would if they were not blocked."""
    return sorted({entry.address for entry in (*plan.changes, *plan.waiting, *plan.blocked)})


def _assignment(name: str, value: str) -> str:
    """Return the lines that set one output, with a delimiter that no value can hold."""
    delimiter = secrets.token_hex(16)
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def append_summary(page: str, environment: Mapping[str, str]) -> None:
    """Append ``page`` to the summary of the step."""
    _append("GITHUB_STEP_SUMMARY", f"{page}\n", environment)


def _append(variable: str, text: str, environment: Mapping[str, str]) -> None:
    """Append ``text`` to the file that ``variable`` names, if it is set."""
    target = environment.get(variable)
    if target:
        with Path(target).open("a", encoding="utf-8", errors="backslashreplace") as opened:
            opened.write(text)
