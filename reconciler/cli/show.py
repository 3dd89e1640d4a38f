"""``lancens show``."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.options import full_option, journal_option, plan_format_option
from reconciler.cli.results import read_plan
from reconciler.cli.showing import print_plan
from reconciler.model.errors import LancensError


@click.command("show")
@click.argument("what", metavar="PLAN|RUN")
@plan_format_option
@full_option
@journal_option
@click.option("--manifest", "restore", is_flag=True, help="Print the blocks that restore what the run removed.")
def command(what: str, form: str, full: bool, journal: str, restore: bool) -> None:
    """Show a saved plan, or the journal of an apply. No catalog is read.

    RUN is a run that `lancens runs` lists, or the path or URI of its journal.

    \b
    Examples:
      lancens show plan.json
      lancens show plan.json --format html > plan.html
      lancens show 2f9c1e07
      lancens show 2f9c1e07 --manifest > back.yaml
    """
    from reconciler.applier.journal import SUFFIX, is_uri
    from reconciler.applier.journal_reader import JournalFolder, describe_journal
    from reconciler.writing.restoring import removed_blocks

    path, run = Path(what), what
    if not path.is_file():
        run = JournalFolder(journal).find(what) or ""
    if run.endswith(SUFFIX) or is_uri(run):
        click.echo(removed_blocks(run).rstrip("\n") if restore else describe_journal(run))
        return
    if not run:
        raise LancensError(f"{what} is neither a file nor a run in {journal}; `lancens runs` lists the runs")
    if restore:
        raise click.UsageError("--manifest goes with a run, not with a plan")
    print_plan(read_plan(path), form, full=full)
