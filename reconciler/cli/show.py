"""``lancens show``."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.options import full_option, journal_option, plan_format_option
from reconciler.cli.results import read_plan
from reconciler.cli.showing import print_plan
from reconciler.model.errors import LancensError

_JOURNAL_SUFFIX = ".jsonl"


@click.command("show")
@click.argument("what", metavar="PLAN|RUN")
@plan_format_option
@full_option
@journal_option
@click.option("--manifest", "restore", is_flag=True, help="Print the blocks that restore what the run removed.")
def command(what: str, form: str, full: bool, journal: str, restore: bool) -> None:
    """Show a saved plan, or the journal of an apply. No catalog is read.

    RUN is a run that `lancens runs` lists, or the path of its journal.

    \b
    Examples:
      lancens show plan.json
      lancens show plan.json --format html > plan.html
      lancens show 2f9c1e07
      lancens show 2f9c1e07 --manifest > back.yaml
    """
    path = _path(what, Path(journal))
    if path.suffix == _JOURNAL_SUFFIX:
        from reconciler.applier.journal_reader import describe_journal
        from reconciler.writing.restoring import removed_blocks

        click.echo(removed_blocks(path).rstrip("\n") if restore else describe_journal(path))
    elif restore:
        raise click.UsageError("--manifest goes with a run, not with a plan")
    else:
        print_plan(read_plan(path), form, full=full)


def _path(what: str, journals: Path) -> Path:
    """Return the file of the plan or the run.

    Raises:
        LancensError: no such file exists.
    """
    run = journals / f"{what}{_JOURNAL_SUFFIX}"
    path = run if run.is_file() else Path(what)
    if not path.is_file():
        raise LancensError(f"{what} is neither a file nor a run in {journals}; `lancens runs` lists the runs")
    return path
