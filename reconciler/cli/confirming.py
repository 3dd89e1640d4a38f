"""Confirm a plan, carry it out, show its progress, and exit with its code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from threading import Event as StopSignal
from typing import TYPE_CHECKING

import click

from reconciler.applier.report import ApplyReport, ChangeResult, Status, result_line, summary_line, unreferenced_lines
from reconciler.applier.stopping import stop_on_signals
from reconciler.cli.results import print_line
from reconciler.model import display, locations
from reconciler.model.errors import ApplyError
from reconciler.output.wording import question, target_line
from reconciler.pipeline.progress import is_quiet

if TYPE_CHECKING:
    from reconciler.applier.report import Event
    from reconciler.planner.entries import Change
    from reconciler.planner.plan import ManifestRef, Plan

_STYLES: Mapping[Status, str] = {
    Status.DONE: "green",
    Status.ALREADY: "green",
    Status.KEPT: "yellow",
    Status.FAILED: "red",
    Status.SKIPPED: "yellow",
}


def _confirm(plan: Plan, verb: str) -> None:
    """Ask the user, and return if the answer is `yes`; the question begins with ``verb``.

    Raises:
        ApplyError: the answer was not `yes`, or stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise ApplyError(
            f"stdin is not a terminal: pass --auto-approve to {verb.lower()} without confirmation. Nothing was changed."
        )
    click.echo(question(plan, verb), nl=False, err=True)
    if sys.stdin.readline().strip() != "yes":
        raise ApplyError(f"The answer was not `yes`, so there was no {verb.lower()}. Nothing was changed.")


def confirm_and_run(
    plan: Plan,
    run_changes: Callable[..., ApplyReport],
    *,
    auto_approve: bool,
    verb: str = "Apply",
    form: str = "text",
    plan_form: str = "text",
) -> None:
    """Ask for confirmation, run the changes of ``plan``, and exit if one failed.

    ``run_changes`` is called with ``on_event`` and ``stop``. See :func:`stop_on_signals` for Ctrl-C.

    Args:
        auto_approve: do not ask.
        verb: what the command does, as the question says it.
        form: how to report the results, `text` or `json`.
        plan_form: how the plan was printed; if not as text, stdout holds the plan alone.

    Raises:
        ApplyError: the user did not confirm.
    """
    if not auto_approve:
        _confirm(plan, verb)
    stop = StopSignal()
    with show_progress(len(plan.changes), form) as show_event, stop_on_signals(stop, _print_stopping):
        report = run_changes(on_event=show_event, stop=stop)
    if form == "json":
        print_summary(report, plan.manifest)
    else:
        for line in (summary_line(report, target_line(plan)), *unreferenced_lines(report)):
            print_line(line, err=plan_form != "text")
    if not report.ok:
        sys.exit(130 if stop.is_set() else 1)


@contextmanager
def show_progress(total: int, form: str = "text") -> Iterator[Callable[[Event], None]]:
    """Yield a function that prints an event of a run with ``total`` changes.

    As text, it prints a line for each result to stderr, and on a terminal keeps a bar below them; ``NO_COLOR`` removes
    the colours, not the bar. As JSON, it prints a line for each event to stdout.
    """
    if form == "json":
        yield _print_json
        return
    if is_quiet():
        from reconciler.operations.apply import ignore_event

        yield ignore_event
        return
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":

        def print_result(event: Event) -> None:
            if isinstance(event, ChangeResult):
                click.echo(result_line(event), err=True)

        yield print_result
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    columns = (TextColumn(" "), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("apply", total=total)

        def print_above_bar(event: Event) -> None:
            if isinstance(event, ChangeResult):
                text = Text("\n".join(display.hang(result_line(event), bar.console.width)))
                text.stylize(_STYLES[event.status], 0, len("  ✓"))
                bar.console.print(text, soft_wrap=True, highlight=False)
                bar.advance(task)

        yield print_above_bar


def _print_json(event: Event) -> None:
    if isinstance(event, ChangeResult):
        seconds = round(event.seconds, 3)
        outcome = {"status": event.status.value, "seconds": seconds, "message": event.message, "note": event.note}
        _print_event("ended", **_change_fields(event.change), **outcome)
    else:
        _print_event("started", **_change_fields(event))


def print_summary(report: ApplyReport, manifest: ManifestRef) -> None:
    """Print the number of changes by status, as the last line of JSON."""
    counts = {status.value: report.counts[status] for status in Status}
    shown = {"manifest": manifest.name, "given": dict(manifest.given), "services": dict(manifest.services)}
    clones = {"unreferenced": [*map(locations.redact, report.unreferenced)]} if report.unreferenced else {}
    tags = {"kept_tags": [asdict(kept) for kept in report.kept_tags]} if report.kept_tags else {}
    _print_event("summary", ok=report.ok, journal=report.journal, **shown, **counts, **clones, **tags)


def _change_fields(change: Change) -> Mapping[str, object]:
    return {"action": change.action.value, "address": change.address}


def _print_event(event: str, **fields: object) -> None:
    click.echo(display.json_text(json.dumps({"event": event, **fields})))


def _print_stopping() -> None:
    click.echo("\nStopping: what is in flight is finished, nothing new is started.", err=True)
