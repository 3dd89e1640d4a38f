"""Asking before a plan is carried out, and showing how that goes, for the commands that do."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event as StopSignal
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import say
from reconciler.model.display import count
from reconciler.model.errors import ApplyError

if TYPE_CHECKING:
    from reconciler.applier.report import ApplyReport
    from reconciler.cli.progress import Progress
    from reconciler.planner.plan import Plan


def ask(plan: Plan, verb: str = "Apply") -> None:
    """Go on when the user types `yes`; ``verb`` says what is going to happen to the changes.

    Raises:
        ApplyError: the answer is another one, or there is nobody to ask.
    """
    if not sys.stdin.isatty():
        raise ApplyError(
            f"stdin is not a terminal: pass --auto-approve to {verb.lower()} without a question. Nothing was changed."
        )
    catalogs = count(len({change.catalog for change in plan.changes}), "catalog")
    question = f"{verb} {count(len(plan.changes), 'change')} to {catalogs}? Only `yes` is accepted: "
    click.echo(question, nl=False, err=True)
    if sys.stdin.readline().strip() != "yes":
        raise ApplyError(f"The answer was not `yes`, so there was no {verb.lower()}. Nothing was changed.")


def carry_out(plan: Plan, run: Callable[[Progress, StopSignal], ApplyReport]) -> None:
    """Run ``run`` with a progress bar and a stop signal that Ctrl-C sets, and leave with the exit code of what it did.

    The first Ctrl-C finishes what is in flight; the second one ends the program as usual.
    """
    from reconciler.applier.report import summary_line
    from reconciler.cli.progress import Progress

    stop = StopSignal()
    with Progress(plan) as progress, _interruptible(stop):
        report = run(progress, stop)
    say(summary_line(report))
    if not report.ok:
        sys.exit(130 if stop.is_set() else 1)


@contextmanager
def _interruptible(stop: StopSignal) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM finish what is in flight; the second one ends the program as usual."""

    def on_interrupt(_signal: int, _frame: object) -> None:
        stop.set()
        for number, handler in previous.items():
            signal.signal(number, handler)
        click.echo("\nStopping: what is in flight is finished, nothing new is started.", err=True)

    previous = {number: signal.signal(number, on_interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
