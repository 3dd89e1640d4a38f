"""Apply as it goes: one line a change on stderr, and under them a bar where there is a terminal to draw it on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

import click

from reconciler.applier.report import ChangeResult, Status, result_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from reconciler.applier.report import Event
    from reconciler.planner.plan import Plan


_STYLES: Mapping[Status, str] = {
    Status.DONE: "green",
    Status.ALREADY: "green",
    Status.KEPT: "yellow",
    Status.FAILED: "red",
    Status.SKIPPED: "yellow",
}


class Progress:
    """Shows the events of one apply: a context manager, called with every event.

    Anything but a terminal gets the plain lines. ``NO_COLOR`` takes the colours away, not the bar.
    """

    def __init__(self, plan: Plan) -> None:
        self._total = len(plan.changes)
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._bar = _bar()
            self._bar.add_task("apply", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show ``event``; a start is not worth a line."""
        if isinstance(event, ChangeResult):
            self._show(event)

    def _show(self, result: ChangeResult) -> None:
        line = result_line(result)
        if self._bar is None:
            click.echo(line, err=True)
            return
        from rich.text import Text

        text = Text(line)
        text.stylize(_STYLES[result.status], 0, len("  ✓"))
        self._bar.console.print(text, soft_wrap=True, highlight=False)
        for task in self._bar.task_ids:
            self._bar.advance(task)


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(" "), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Bar(*columns, console=Console(stderr=True))
