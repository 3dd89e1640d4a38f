"""The log of a step: workflow commands, annotations, and text without effect.

GitHub shows ten annotations of each level a step. One is reserved for other messages of the step, and the last of the
others counts the rest.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands. The runner acts on a line that
begins with ``::`` and on ``##[`` anywhere in a line, so foreign text is printed between ``::stop-commands::TOKEN`` and
``::TOKEN::`` with a random token.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from reconciler.model import display
from reconciler.model.errors import Problem
from reconciler.output.wording import Entry, entries_of, headline, word_of
from reconciler.planner.entries import Blocked, Protection
from reconciler.planner.plan import Plan

Level = Literal["notice", "warning", "error"]

_SHORTEST_MASK = 4
_MOST_ANNOTATIONS = 9
_LONGEST_ANNOTATION = 1_000


@dataclass(frozen=True, slots=True)
class Annotation:
    """A message beside a line of a file, or without a file on the page of the run."""

    level: Level
    title: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def print(self) -> None:
        """Print the workflow command."""
        values = {"file": self.file, "line": str(self.line or ""), "col": str(self.column or ""), "title": self.title}
        properties = ",".join(f"{key}={_property(value)}" for key, value in values.items() if value)
        _print(f"::{self.level} {properties}::{_data(self.message)}")


def annotate(level: Level, message: str, *, title: str) -> None:
    """Show ``message`` on the page of the run."""
    Annotation(level, title, message).print()


def annotate_plan(plan: Plan, folder: str, workspace: Path) -> None:
    """Annotate the line of every change; ``folder`` is the manifest's."""
    annotations = []
    for entry in entries_of(plan):
        reason = headline(entry)
        if isinstance(entry, Blocked):
            reason = display.printable(f"{entry.reason}. To do: {entry.remedy}")
        if entry.source is not None:
            message = f"{display.address(entry.catalog, *entry.identifier)}: {reason}"
            file = _relative(entry.source.file, folder, workspace)
            annotations.append(
                Annotation(_level(entry), f"lancens: {word_of(entry)}", message, file, entry.source.line)
            )
    for level in ("warning", "notice"):
        _print_all([annotation for annotation in annotations if annotation.level == level], "changes")


def annotate_problems(problems: Sequence[Problem], manifests: Sequence[str], workspace: Path) -> None:
    """Annotate the line of every error in the manifest at ``manifests``."""
    first = Path(manifests[0])
    folder = os.path.realpath(first if first.is_dir() else first.parent)
    annotations = [
        Annotation(
            "error",
            "lancens: the manifest cannot be used",
            display.message(problem.message),
            _relative(problem.file, folder, workspace),
            problem.line,
            problem.column,
        )
        for problem in problems
    ]
    _print_all(annotations, "errors")


def _level(entry: Entry) -> Level:
    if isinstance(entry, Blocked):
        return "warning"
    removes = entry.would.removes if isinstance(entry, Protection) else entry.removes
    return "warning" if removes else "notice"


def _relative(file: str, folder: str, workspace: Path) -> str:
    """Return the path of a manifest's file relative to the checkout.

    It is relative to the current folder, or else to the manifest's.
    """
    existing = next((path for path in (Path(file), Path(folder, file)) if path.exists()), Path(file))
    return Path(os.path.relpath(os.path.realpath(existing), os.path.realpath(workspace))).as_posix()


def _print_all(annotations: Sequence[Annotation], kind: str) -> None:
    fitting = annotations if len(annotations) <= _MOST_ANNOTATIONS else annotations[: _MOST_ANNOTATIONS - 1]
    for annotation in fitting:
        replace(annotation, message=display.shorten(annotation.message, _LONGEST_ANNOTATION)).print()
    left_out = len(annotations) - len(fitting)
    if left_out:
        annotate(annotations[0].level, f"{left_out:,} more {kind} are in the step's summary", title="lancens")


def mask(secret: str) -> None:
    """Mask ``secret`` in the log; outside of :func:`verbatim`, the runner does not print this command.

    The runner masks single lines, so each line of a longer text is masked.
    """
    for line in secret.splitlines():
        if len(line.strip()) >= _SHORTEST_MASK:
            _print(f"::add-mask::{_data(line)}")


@contextmanager
def verbatim(title: str) -> Iterator[None]:
    """Print a group whose lines the runner does not read as commands."""
    token = secrets.token_hex(16)
    _print(f"::group::{_data(title)}")
    _print(f"::stop-commands::{token}")
    try:
        yield
    finally:
        _print(f"::{token}::")
        _print("::endgroup::")


def _print(command: str) -> None:
    print(command, flush=True)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
