"""How a step ended, and where that is written: outputs, summary, and the files of the artifact.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-output-parameter
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.action.failures import FailureReason
from reconciler.planner.plan import Plan, Summary

_COUNTS = ("create", "declare", "register", "update", "move", "deregister", "drop")


@dataclass(slots=True)
class StepEnd:
    """The end of a step.

    ``exit_code`` is what the command line would end with (2: there are changes); the step itself fails where there is
    a ``failure``. ``page`` is Markdown, ``appendix`` more of it for the summary alone, ``results`` what became of each
    change of an apply, ``report`` the folder of an audit's report.
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
        """Return the outcome as the file behind the output ``json`` holds it."""
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


def write_outputs(outcome: StepEnd, folder: Path, environment: Mapping[str, str]) -> None:
    """Write the files of the artifact into ``folder``, which is made, and hand the outputs to the runner."""
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
        # Of a plan that there is twice, the artifact is the other one's as well.
        "artifact": "" if outcome.failure is FailureReason.DUPLICATE_PLAN else f"lancens-{folder.name}",
        "folder": str(folder),
        "report": str(outcome.report or ""),
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
    target = environment.get("GITHUB_OUTPUT")
    if target:
        with Path(target).open("a", encoding="utf-8") as opened:
            opened.writelines(_assignment(name, value) for name, value in outputs.items())


def _assignment(name: str, value: str) -> str:
    """Return the lines that set one output; no value can end them early."""
    delimiter = secrets.token_hex(16)
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def append_summary(page: str, environment: Mapping[str, str]) -> None:
    """Add ``page`` to the summary of the step."""
    target = environment.get("GITHUB_STEP_SUMMARY")
    if target:
        with Path(target).open("a", encoding="utf-8", errors="backslashreplace") as opened:
            opened.write(f"{page}\n")
