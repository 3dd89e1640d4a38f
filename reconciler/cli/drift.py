"""``lancens drift``."""

from __future__ import annotations

import sys

import click

from reconciler.cli.options import Format, PlanFlags, format_option, full_option, plan_flags
from reconciler.cli.showing import BLOCKED, plan_and_show


@click.command("drift")
@plan_flags
@format_option
@full_option
def command(flags: PlanFlags, form: Format, full: bool) -> None:
    """Tell whether the catalogs still are what the manifest says: exit 0 when they are, 2 when not, 3 when blocked.

    This is `lancens plan --detailed-exitcode`, for a schedule.

    \b
    Examples:
      lancens drift prod.yaml || notify-the-team
      lancens drift --format html > drift.html
    """
    plan = plan_and_show(flags, form, full=full)
    if plan.blocked:
        sys.exit(BLOCKED)
    if not plan.is_empty:
        sys.exit(2)
