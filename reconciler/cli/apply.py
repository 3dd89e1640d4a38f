"""``lancens apply``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.carrying_out import ask, carry_out
from reconciler.cli.options import (
    PlanFlags,
    full_option,
    journal_option,
    load_manifest,
    plan_flags,
    policy,
    read_plan,
)
from reconciler.cli.showing import BLOCKED, make_plan, print_plan, what_goes
from reconciler.model.errors import LancensError

if TYPE_CHECKING:
    from reconciler.applier import ApplyReport, StopSignal
    from reconciler.cli.progress import Progress
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
    if not auto_approve:
        ask(plan)
    _carry_out(plan, manifest, flags, journal, skip_blocked=skip_blocked)


def _plan(flags: PlanFlags) -> tuple[Plan, Manifest]:
    """Return the saved plan the arguments name, with the manifest it was made from; otherwise a new plan."""
    saved = [path for path in flags.manifests if path.endswith(_PLAN_SUFFIX)]
    if not saved:
        manifest = load_manifest(flags.manifests, flags.variables)
        return make_plan(flags, manifest), manifest
    if len(flags.manifests) > 1:
        raise click.UsageError("apply takes one saved plan, or manifests, not both")
    if flags.select or flags.adopt or flags.take_over:
        raise click.UsageError("a saved plan is carried out as it is: no --select, --adopt or --take-over")
    path = Path(saved[0])
    plan = read_plan(path)
    return plan, _manifest_of(plan, path, flags)


def _manifest_of(plan: Plan, path: Path, flags: PlanFlags) -> Manifest:
    """Load the manifest again that a saved plan was made from, for the connections.

    A plan names its files as seen from where it was made: that is this folder, or the one the plan lies in.
    """
    from reconciler.operations.manifests import load

    for folder in (Path(), path.parent):
        files = [folder / name for name in plan.manifest.files]
        if files and all(file.exists() for file in files):
            return load(*files, variables=flags.variables, policy=policy())
    raise LancensError(
        f"{path} was made from {', '.join(plan.manifest.files)}, which is not here; run apply where the plan was made"
    )


def _carry_out(plan: Plan, manifest: Manifest, flags: PlanFlags, journal: str, *, skip_blocked: bool) -> None:
    from reconciler.operations.apply import apply

    def run(progress: Progress, stop: StopSignal) -> ApplyReport:
        return apply(
            plan,
            manifest,
            journal=journal,
            allow_mass_removal=flags.allow_mass_removal,
            skip_blocked=skip_blocked,
            parallelism=flags.parallelism,
            on_event=progress,
            stop=stop,
        )

    carry_out(plan, run)
