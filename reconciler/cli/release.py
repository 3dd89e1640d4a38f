"""``lancens release``."""

from __future__ import annotations

from functools import partial

import click

from reconciler.cli.confirming import confirm_and_run
from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.options import (
    CatalogSource,
    PlanView,
    complete_address,
    journal_option,
    parallelism_option,
    source_options,
)
from reconciler.cli.planning import print_plan


@click.command("release", cls=GroupedCommand)
@click.argument("globs", nargs=-1, required=True, metavar="GLOB...", shell_complete=complete_address)
@source_options(
    click.option(
        "--manifest", "manifests", multiple=True, metavar="MANIFEST", help="Whose marks; lancens.yaml by default."
    )
)
@click.option("--protected", is_flag=True, help="Release protected objects too.")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@journal_option
@parallelism_option()
def command(
    globs: tuple[str, ...],
    source: CatalogSource,
    protected: bool,
    auto_approve: bool,
    journal: str,
    parallelism: int,
) -> None:
    """Remove the ownership marks of lancens from objects that match GLOB, so that no manifest manages them.

    Entries, their other properties and their data stay unchanged. A block that names such an object claims it again
    with its next change; without a block, it is never pruned.

    \b
    Examples:
      lancens release 'lake/features/**'
      lancens release prod/analytics/clicks --manifest prod.yaml --auto-approve
    """
    from reconciler.operations.release import plan_release, release

    manifest = source.load()
    plan = plan_release(manifest, globs, protected=protected, parallelism=parallelism)
    print_plan(plan, PlanView(full=True))
    if not plan.is_empty:
        run_changes = partial(release, plan, manifest, journal=journal, parallelism=parallelism)
        confirm_and_run(plan, run_changes, auto_approve=auto_approve, verb="Release")
