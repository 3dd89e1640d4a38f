"""Print annotations, masks and text without commands to the log of a step.

GitHub shows ten annotations of each level in a step. lancens prints at most nine, and the last of them counts those
left out; the tenth is reserved for other messages of the step.

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
        """Print the workflow command that creates the annotation."""
        values = {"file": self.file, "line": str(self.line or ""), "col": str(self.column or ""), "title": self.title}
        properties = ",".join(f"{key}={_escape_property(value)}" for key, value in values.items() if value)
        _print_command(f"::{self.level} {properties}::{_escape_data(self.message)}")


def annotate(level: Level, message: str, *, title: str) -> None:
    """Annotate the run with ``message``, without a file."""
    Annotation(level, title, message).print()


def annotate_plan(plan: Plan, folder: str, workspace: Path) -> None:
    """Annotate the line of the manifest that each change comes from.

    ``folder`` is that of the manifest.
    """
    annotations = []
    for entry in entries_of(plan):
        reason = headline(entry)
        if isinstance(entry, Blocked):
            reason = display.printable(f"{entry.reason}. To do: {entry.remedy}")
        if entry.source is not None:
            message = f"{display.address(entry.catalog, *entry.identifier)}: {reason}"
            file = _path_in_checkout(entry.source.file, folder, workspace)
            annotations.append(
                Annotation(_level_of(entry), f"lancens: {word_of(entry)}", message, file, entry.source.line)
            )
    for level in ("warning", "notice"):
        _print_annotations([annotation for annotation in annotations if annotation.level == level], "changes")


def annotate_problems(problems: Sequence[Problem], manifests: Sequence[str], workspace: Path) -> None:
    """Annotate the line of each error.

    ``manifests`` are the paths that the manifest was loaded from.
    """
    first = Path(manifests[0])
    folder = os.path.realpath(first if first.is_dir() else first.parent)
    annotations = [
        Annotation(
            "error",
            "lancens: the manifest cannot be used",
            display.message(problem.message),
            _path_in_checkout(problem.file, folder, workspace),
            problem.line,
            problem.column,
        )
        for problem in problems
    ]
    _print_annotations(annotations, "errors")


def _level_of(entry: Entry) -> Level:
    if isinstance(entry, Blocked):
        return "warning"
    removes = entry.would.removes if isinstance(entry, Protection) else entry.removes
    return "warning" if removes else "notice"


def _path_in_checkout(file: str, folder: str, workspace: Path) -> str:
    """Return the path of a manifest's file relative to the checkout.

    ``file`` is relative to the current folder if it exists there, otherwise to ``folder``.
    """
    existing = next((path for path in (Path(file), Path(folder, file)) if path.exists()), Path(file))
    return Path(os.path.relpath(os.path.realpath(existing), os.path.realpath(workspace))).as_posix()


def _print_annotations(annotations: Sequence[Annotation], kind: str) -> None:
    """Print as many annotations as GitHub shows, and the number of the others.

    ``kind`` names them in that line, such as `changes`.
    """
    fitting = annotations if len(annotations) <= _MOST_ANNOTATIONS else annotations[: _MOST_ANNOTATIONS - 1]
    for annotation in fitting:
        replace(annotation, message=display.shorten(annotation.message, _LONGEST_ANNOTATION)).print()
    left_out = len(annotations) - len(fitting)
    if left_out:
        annotate(annotations[0].level, f"{left_out:,} more {kind} are in the step's summary", title="lancens")


def mask(secret: str) -> None:
    """Mask ``secret`` in the log.

    Call it outside :func:`verbatim`, in which the runner would print the command, and so the secret. The runner masks
    single lines, so each line of a longer text is masked.
    """
    for line in secret.splitlines():
        if len(line.strip()) >= _SHORTEST_MASK:
            _print_command(f"::add-mask::{_escape_data(line)}")


@contextmanager
def verbatim(title: str) -> Iterator[None]:
    """Print a group whose lines the runner does not read as commands."""
    token = secrets.token_hex(16)
    _print_command(f"::group::{_escape_data(title)}")
    _print_command(f"::stop-commands::{token}")
    try:
        yield
    finally:
        _print_command(f"::{token}::")
        _print_command("::endgroup::")


def _print_command(command: str) -> None:
    print(command, flush=True)


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
