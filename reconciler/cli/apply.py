"""``lancens apply``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.carrying_out import carry_out
from reconciler.cli.options import CatalogSource, PlanFlags, full_option, journal_option, plan_flags
from reconciler.cli.results import read_plan
from reconciler.cli.showing import BLOCKED, make_plan, print_plan, what_goes
from reconciler.model.errors import LancensError

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.planner.plan import Plan

_PLAN_SUFFIX = ".json"
_BLOCKED = (
    "Something is blocked, so nothing was changed. Plan again when that is mended, or carry out the rest with "
    "--skip-blocked."
)


@click.command("apply")
@plan_flags
@full_option
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@journal_option
@click.option("--skip-blocked", is_flag=True, help="Carry out the rest where something is blocked.")
def command(flags: PlanFlags, full: bool, auto_approve: bool, journal: str, skip_blocked: bool) -> None:
    """Make the catalogs what the manifest says, or carry out a saved plan.

    MANIFEST may be a plan that `lancens plan -o plan.json` saved: it is carried out as it was reviewed, or refused
    when anything it touches has moved. The plan is shown and confirmed first.

    \b
    Examples:
      lancens apply
      lancens apply plan.json --auto-approve
      lancens apply --select 'lake/features/**'
    """
    from reconciler.operations.apply import apply

    plan, manifest = _plan(flags)
    print_plan(plan, "text", full=full, removed=what_goes(flags, plan, manifest))
    if plan.blocked and not skip_blocked:
        click.echo(_BLOCKED, err=True)
        sys.exit(BLOCKED)
    if plan.is_empty:
        return
    if not flags.allow_mass_removal:
        from reconciler.planner.plan import check_removals

        check_removals(plan)
    run = partial(
        apply,
        plan,
        manifest,
        journal=journal,
        allow_mass_removal=flags.allow_mass_removal,
        skip_blocked=skip_blocked,
        parallelism=flags.parallelism,
    )
    carry_out(plan, run, auto_approve=auto_approve)


def _plan(flags: PlanFlags) -> tuple[Plan, Manifest]:
    """Return the saved plan the arguments name, with the manifest it was made from; otherwise a new plan."""
    named = flags.source.manifests
    saved = [path for path in named if path.endswith(_PLAN_SUFFIX)]
    if not saved:
        manifest = flags.source.load()
        return make_plan(flags, manifest), manifest
    if len(named) > 1:
        raise click.UsageError("apply takes one saved plan, or manifests, not both")
    if flags.select or flags.adopt or flags.take_over:
        raise click.UsageError("a saved plan is carried out as it is: no --select, --adopt or --take-over")
    path = Path(saved[0])
    plan = read_plan(path)
    return plan, _manifest_of(plan, path, flags.source)


def _manifest_of(plan: Plan, path: Path, source: CatalogSource) -> Manifest:
    """Load the manifest again that a saved plan was made from, for the connections.

    A plan names its files as seen from where it was made: that is this folder, or the one the plan lies in.
    """
    from reconciler.operations.manifests import load

    for folder in (Path(), path.parent):
        files = [folder / name for name in plan.manifest.files]
        if files and all(file.exists() for file in files):
            return load(*files, variables=source.variables, policy=source.policy())
    raise LancensError(
        f"{path} was made from {', '.join(plan.manifest.files)}, which is not here; run apply where the plan was made"
    )
