"""``lancens show``."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.options import Format, format_option, full_option, read_plan
from reconciler.cli.showing import print_plan


@click.command("show")
@click.argument("path", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@format_option
@full_option
def command(path: Path, form: Format, full: bool) -> None:
    """Show a saved plan, or what a journal says of an apply. No catalog is read.

    \b
    Examples:
      lancens show plan.json
      lancens show plan.json --format html > plan.html
      lancens show .lancens/2f9c1e.jsonl
    """
    if path.suffix == ".jsonl":
        from reconciler.applier import describe_journal

        click.echo(describe_journal(path))
        return
    print_plan(read_plan(path), form, full=full)
