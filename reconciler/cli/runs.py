"""``lancens runs``."""

from __future__ import annotations

import click

from reconciler.cli.options import journal_option
from reconciler.cli.results import say


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

    found = list_runs(JournalFolder(journal))
    for line in found:
        say(line)
    if not found:
        say(f"There is no journal in {journal}.", err=True)
