"""``lancens plan``."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.metrics import RunMetrics, metrics_option
from reconciler.cli.options import PlanFlags, PlanView, engine_options, plan_flags, plan_view_options
from reconciler.cli.planning import BLOCKED, plan_and_show
from reconciler.cli.results import check_folder, check_plan_file, print_progress, write_result
from reconciler.model import display

if TYPE_CHECKING:
    from reconciler.pipeline.session import SparkOptions


@click.command("plan", cls=GroupedCommand)
@plan_flags
@plan_view_options
@click.option("-o", "--out", metavar="FILE", help="Save the plan, for `lancens apply FILE`. `-` is stdout.")
@click.option(
    "--against", metavar="REVISION", help="Show apart what the manifest of this git revision, such as main, plans too."
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there are changes.")
@click.option("--profile", metavar="FILE", help="Write the duration of each stage and catalog as JSON.")
@metrics_option
@engine_options("Compare in this process, or on Spark for catalogs too large for it. The plan is the same.")
def command(
    flags: PlanFlags,
    view: PlanView,
    out: str | None,
    against: str | None,
    detailed_exitcode: bool,
    profile: str | None,
    run: RunMetrics,
    spark: SparkOptions | None,
) -> None:
    """Show what apply would change. Nothing is changed.

    Exit 3 if an object is blocked: it cannot be planned before the cause is fixed.

    MANIFEST is a file, several, or a folder; the default is lancens.yaml.

    \b
    Examples:
      lancens plan
      lancens plan prod.yaml --select 'lake/features/**'
      lancens plan -o plan.json && lancens apply plan.json
      lancens plan --against origin/main --format markdown > comment.md
      lancens plan fleet/ --engine spark --master 'local[8]' -o plan.json
    """
    if out == "-":
        if view.form not in ("text", "json"):
            raise click.UsageError(f"-o - prints the plan as it is saved: leave --format {view.form} out")
        view, out = replace(view, form="json"), None
    if out is not None:
        check_plan_file(out)
    if profile is not None:
        check_folder(profile)
    if spark is not None and profile is not None:
        raise click.UsageError("--profile is for --engine local; Spark's own UI shows each stage")
    if spark is not None and against is not None:
        raise click.UsageError("--against is for --engine local")
    plan = plan_and_show(run, flags, view, spark=spark, profile_path=profile, against=against)
    if out is not None:
        write_result(plan.to_json(), out, private=True)
        skipping = ["--skip-blocked"] if plan.blocked else []
        command = flags.source.next_command(["lancens", "apply", out, *skipping], plan)
        rest = f", and leaves {display.count(len(plan.blocked), 'blocked object')} unchanged" if skipping else ""
        print_progress(display.message(f"Saved to {out}; `{command}` applies exactly this plan{rest}."))
    if plan.blocked:
        sys.exit(BLOCKED)
    if detailed_exitcode and not plan.is_empty:
        sys.exit(2)
