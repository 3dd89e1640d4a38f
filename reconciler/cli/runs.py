"""``lancens runs``."""

from __future__ import annotations

import click

from reconciler.cli.options import journal_option
from reconciler.cli.results import print_line
from reconciler.model.display import count
from reconciler.model.errors import PlanFileError


@click.command("runs")
@journal_option
def command(journal: str) -> None:
    """List the journals of past applies, the newest first. No catalog is read.

    \b
    Examples:
      lancens runs
      lancens show 2f9c1e07
    """
    from reconciler.applier.journal_reader import JournalFolder, list_runs

    runs = list_runs(JournalFolder(journal))
    for run in runs:
        print_line(run.line)
    incomplete = sum(not run.is_complete for run in runs)
    if incomplete:
        raise PlanFileError(f"{count(incomplete, 'journal')} of {len(runs):,} incomplete; `lancens show RUN` says more")
    if not runs:
        print_line(f"There is no journal in {journal}.", err=True)
