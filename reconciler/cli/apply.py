"""``lancens apply``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from reconciler.applier.report import ApplyReport
from reconciler.cli.confirming import confirm_and_run, print_summary
from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.metrics import RunMetrics, metrics_option
from reconciler.cli.options import (
    PlanFlags,
    PlanView,
    format_option,
    journal_option,
    plan_flags,
    text_view_options,
)
from reconciler.cli.planning import BLOCKED, load_and_plan, print_plan, removal_notes
from reconciler.cli.saved_plans import load_manifest_of, saved_plan, saved_plan_paths
from reconciler.model import display
from reconciler.model.errors import LancensError

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.planner.plan import Plan

_BLOCKED = (
    "Some objects are blocked, so nothing was changed. Fix them and plan again, or apply the rest with --skip-blocked."
)


@click.command("apply", cls=GroupedCommand)
@plan_flags
@text_view_options
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@journal_option
@click.option("--skip-blocked", is_flag=True, help="Apply the rest if some objects are blocked.")
@click.option("--expect-digest", metavar="SHA", help="Apply the saved plan with this digest, or nothing.")
@format_option("How to report: text, or a JSON object for each event.")
@metrics_option
def command(
    flags: PlanFlags,
    view: PlanView,
    auto_approve: bool,
    journal: str,
    skip_blocked: bool,
    expect_digest: str | None,
    form: str,
    run: RunMetrics,
) -> None:
    """Make the catalogs what the manifest says, or apply a saved plan.

    MANIFEST may be a plan saved by `lancens plan -o plan.json`: it is applied as it was reviewed, or refused if an
    object that it touches has changed. The plan is shown and confirmed first.

    \b
    Examples:
      lancens apply
      lancens apply plan.json --auto-approve
      lancens apply --select 'lake/features/**'
    """
    from reconciler.operations.apply import apply

    if form == "json" and not auto_approve:
        raise click.UsageError("--format json answers no question: give --auto-approve")
    plan, manifest = _read_or_make_plan(flags, expect_digest, run)
    if form == "text":
        notes = {} if view.summary else removal_notes(flags, plan, manifest)
        print_plan(plan, view, source=flags.source, notes=notes)
    if plan.blocked and not skip_blocked:
        click.echo(_BLOCKED, err=True)
        sys.exit(BLOCKED)
    if plan.is_empty:
        if form == "json":
            print_summary(ApplyReport((), journal=""), plan.manifest)
        return
    if not flags.allow_mass_removal:
        from reconciler.planner.plan import check_removals

        check_removals(plan)

    def run_changes(**callbacks: Any) -> ApplyReport:
        run.report = apply(
            plan,
            manifest,
            journal=journal,
            allow_mass_removal=flags.allow_mass_removal,
            skip_blocked=skip_blocked,
            parallelism=flags.parallelism,
            profile=run.profile,
            **callbacks,
        )
        return run.report

    confirm_and_run(plan, run_changes, auto_approve=auto_approve, form=form)


def _read_or_make_plan(flags: PlanFlags, expected: str | None, run: RunMetrics) -> tuple[Plan, Manifest]:
    """Return the saved plan or, without one, a new plan, and the plan's manifest.

    Raises:
        LancensError: the digest of the saved plan is not ``expected``.
        UsageError: options would change the saved plan, or ``expected`` is set without one.
    """
    changes_plan = flags.select or flags.exclude or flags.adopt or flags.take_over or flags.recreate_lost
    if changes_plan and saved_plan_paths(flags.source):
        raise click.UsageError(
            "a saved plan is applied unchanged: leave --select, --exclude, --adopt, --take-over and --recreate-lost out"
        )
    saved = saved_plan(flags.source)
    if saved is None:
        if expected is not None:
            raise click.UsageError(
                "--expect-digest goes with a saved plan: lancens apply plan.json --expect-digest SHA"
            )
        return load_and_plan(run, flags)
    path, plan = saved
    run.plan, run.manifest = plan, plan.manifest.name
    if expected is not None and plan.digest() != expected.lower():
        reason = f"{path} has digest {plan.digest()}, expected {expected}: it is not the approved plan"
        raise LancensError(display.message(f"{reason}. Nothing was changed."))
    return plan, load_manifest_of(plan, path, flags.source)
