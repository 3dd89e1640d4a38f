"""``lancens drift``."""

from __future__ import annotations

import sys

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.metrics import RunMetrics, metrics_option
from reconciler.cli.options import PlanFlags, PlanView, plan_flags, plan_view_options
from reconciler.cli.planning import BLOCKED, plan_and_show
from reconciler.cli.results import print_line
from reconciler.model.display import count


@click.command("drift", cls=GroupedCommand)
@plan_flags
@plan_view_options
@metrics_option
@click.option(
    "--fail-on",
    type=click.Choice(["unmanaged"]),
    help="Exit 2 as well if there are tables that no manifest manages.",
)
def command(flags: PlanFlags, view: PlanView, fail_on: str | None, run: RunMetrics) -> None:
    """Report whether the catalogs differ from the manifest: exit 0 if not, 2 if they do, 3 if an object is blocked.

    This is `lancens plan --detailed-exitcode`, for a schedule.

    \b
    Examples:
      lancens drift --fail-on unmanaged
      lancens drift prod.yaml || notify-the-team
      lancens drift --format html > drift.html
    """
    plan = plan_and_show(run, flags, view)
    if plan.blocked:
        sys.exit(BLOCKED)
    unmanaged = sum(catalog.unmanaged_tables for catalog in plan.catalogs) if fail_on == "unmanaged" else 0
    if unmanaged:
        print_line(f"{count(unmanaged, 'table')} managed by no manifest.", err=True)
    if unmanaged or not plan.is_empty:
        sys.exit(2)
