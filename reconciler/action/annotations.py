"""What is wrong and what would change, beside the lines of the manifest that say so.

GitHub shows ten annotations of each level a step. One is left for what else the step has to say, and the last of the
others counts the rest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.action.workflow import Level, annotate
from reconciler.model import display
from reconciler.model.errors import Problem
from reconciler.output.wording import Entry, entries_of, headline, word_of
from reconciler.planner.entries import Blocked, Protection
from reconciler.planner.plan import Plan

_MOST = 9
_LONGEST = 1_000


@dataclass(frozen=True, slots=True)
class _Annotation:
    level: Level
    title: str
    message: str
    file: str
    line: int
    column: int = 0


def annotate_plan(plan: Plan, folder: str, workspace: Path) -> None:
    """Put every change beside its line; ``folder`` is the manifest's."""
    annotations = [
        _Annotation(
            _level(entry),
            f"lancens: {word_of(entry)}",
            f"{display.address(entry.catalog, *entry.identifier)}: {_said(entry)}",
            _relative(entry.source.file, folder, workspace),
            entry.source.line,
        )
        for entry in entries_of(plan)
        if entry.source is not None
    ]
    for level in ("warning", "notice"):
        _print([annotation for annotation in annotations if annotation.level == level], "changes")


def annotate_problems(problems: Sequence[Problem], manifests: Sequence[str], workspace: Path) -> None:
    """Put every fault of a manifest beside its line; ``manifests`` are the paths it was loaded from."""
    first = Path(manifests[0])
    folder = os.path.realpath(first if first.is_dir() else first.parent)
    annotations = [
        _Annotation(
            "error",
            "lancens: the manifest cannot be used",
            display.message(problem.message),
            _relative(problem.file, folder, workspace),
            problem.line,
            problem.column,
        )
        for problem in problems
    ]
    _print(annotations, "errors")


def _level(entry: Entry) -> Level:
    if isinstance(entry, Blocked):
        return "warning"
    removes = entry.would.removes if isinstance(entry, Protection) else entry.action.removes
    return "warning" if removes else "notice"


def _said(entry: Entry) -> str:
    if isinstance(entry, Blocked):
        return display.printable(f"{entry.reason}. To do: {entry.remedy}")
    return headline(entry)


def _relative(file: str, folder: str, workspace: Path) -> str:
    """Return a manifest's file as GitHub wants it, from the top of the checkout.

    It is looked for from the current folder, then from the manifest's.
    """
    found = next((path for path in (Path(file), Path(folder, file)) if path.exists()), Path(file))
    return Path(os.path.relpath(os.path.realpath(found), os.path.realpath(workspace))).as_posix()


def _print(annotations: Sequence[_Annotation], what: str) -> None:
    fitting = annotations if len(annotations) <= _MOST else annotations[: _MOST - 1]
    for one in fitting:
        message = display.shorten(one.message, _LONGEST)
        annotate(one.level, message, title=one.title, file=one.file, line=one.line, column=one.column)
    rest = len(annotations) - len(fitting)
    if rest:
        annotate(annotations[0].level, f"{rest:,} more {what} are in the step's summary", title="lancens")
