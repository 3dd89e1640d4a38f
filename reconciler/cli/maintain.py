"""``lancens maintain``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.confirming import confirm_and_run
from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.metrics import RunMetrics, metrics_option
from reconciler.cli.options import (
    CatalogSource,
    PlanView,
    engine_options,
    exclude_option,
    journal_option,
    manifest_options,
    parallelism_option,
    plan_view_options,
    select_option,
)
from reconciler.cli.planning import BLOCKED, print_plan
from reconciler.cli.results import check_plan_file, print_progress, write_result
from reconciler.cli.saved_plans import load_manifest_of, saved_plan, saved_plan_paths
from reconciler.model import display
from reconciler.model.figures import parse_size

if TYPE_CHECKING:
    from reconciler.applier.report import ApplyReport
    from reconciler.manifest import Manifest
    from reconciler.pipeline.session import SparkOptions
    from reconciler.planner.plan import Plan
    from reconciler.storage import Executors


def _parse_size(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"expected {error}") from None


def _next_moment(_: click.Context, __: click.Parameter, text: str | None) -> datetime | None:
    """Return the next moment at which the local clock shows ``text``, as in `02:00`."""
    if text is None:
        return None
    try:
        time_of_day = datetime.strptime(text, "%H:%M").time()
    except ValueError:
        raise click.BadParameter("expected a time of day, such as 02:00") from None
    now = datetime.now().astimezone()
    today = datetime.combine(now.date(), time_of_day).astimezone()
    return today if today > now else datetime.combine(now.date() + timedelta(days=1), time_of_day).astimezone()


@click.command("maintain", cls=GroupedCommand)
@manifest_options
@select_option("Look only at what")
@exclude_option
@plan_view_options
@click.option("-o", "--out", metavar="FILE", help="Save the jobs for `lancens maintain FILE`, and run none.")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the jobs and run none.")
@click.option("--max-bytes", metavar="SIZE", callback=_parse_size, help="The most to read and write, such as 500GiB.")
@click.option("--max-tables", metavar="N", type=click.IntRange(1), help="The most tables with jobs.")
@click.option("--until", metavar="HH:MM", callback=_next_moment, help="Start no job after this time of day.")
@click.option("--detailed-exitcode", is_flag=True, help="With -o or --dry-run: exit 2 when there are jobs.")
@journal_option
@metrics_option
@parallelism_option("Datasets at once.")
@engine_options("Rewrite and index data in this process, or on the executors of Spark.")
def command(
    run: RunMetrics,
    source: CatalogSource,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    view: PlanView,
    out: str | None,
    auto_approve: bool,
    dry_run: bool,
    max_bytes: int | None,
    max_tables: int | None,
    until: datetime | None,
    detailed_exitcode: bool,
    journal: str,
    parallelism: int,
    spark: SparkOptions | None,
) -> None:
    """Compact datasets, and build and update their indices, as `maintain` in their blocks says.

    The jobs are shown with their costs and confirmed first. Rows stay equal. No index is dropped or replaced, and no
    version or file is removed.

    MANIFEST may be a plan saved with `-o`: its jobs are carried out as they were reviewed, as far as they are needed.

    \b
    Examples:
      lancens maintain --dry-run
      lancens maintain --select 'lake/ads/**' --max-bytes 500GiB --until 02:00 --auto-approve
      lancens maintain -o jobs.json && lancens maintain jobs.json
      lancens maintain --engine spark --master spark://host:7077
    """
    from reconciler.operations.maintain import maintain
    from reconciler.planner.plan import WorkLimits

    if out is not None and out != "-":
        check_plan_file(out)
    limits = WorkLimits(max_bytes=max_bytes, max_tables=max_tables)
    options: Mapping[str, Any] = {"select": select, "exclude": exclude, "limits": limits}
    changes_jobs = bool(select or exclude or out or limits != WorkLimits())
    plan, manifest = _saved_jobs(source, changes_jobs=changes_jobs) or _plan_jobs(source, options, parallelism)
    run.plan, run.manifest = plan, plan.manifest.name
    print_plan(plan, replace(view, form="json") if out == "-" else view, source=source)
    if out is not None and out != "-":
        write_result(plan.to_json(), out, private=True)
        command = source.next_command(["lancens", "maintain", out], plan)
        print_progress(display.message(f"Saved to {out}; `{command}` carries out these jobs."))
    if not plan.is_empty and out is None and not dry_run:

        def run_jobs(**callbacks: Any) -> ApplyReport:
            options: Mapping[str, Any] = {"until": until, "parallelism": parallelism, "executors": executors}
            run.report = maintain(plan, manifest, journal=journal, **options, **callbacks)
            return run.report

        # Spark starts before its Ctrl-C handler is replaced.
        with _executors(spark, plan) as executors:
            confirm_and_run(plan, run_jobs, auto_approve=auto_approve, verb="Maintain", plan_form=view.form)
    if plan.blocked:
        sys.exit(BLOCKED)
    if detailed_exitcode and not plan.is_empty and (out is not None or dry_run):
        sys.exit(2)


def _executors(spark: SparkOptions | None, plan: Plan) -> AbstractContextManager[Executors | None]:
    """Open the executors of Spark; yield None to work in this process, as small jobs do not pay its start."""
    if spark is None:
        return nullcontext()
    from reconciler.pipeline.upkeep_tasks import executors_of, pays_start

    if pays_start([change.job for change in plan.changes if change.job is not None], spark):
        return executors_of(spark)
    print_progress("This process does these small jobs: starting Spark would take longer.")
    return nullcontext()


def _saved_jobs(source: CatalogSource, *, changes_jobs: bool) -> tuple[Plan, Manifest] | None:
    """Return the saved plan and its manifest, or None if the command got manifests.

    Raises:
        UsageError: other options would change the saved jobs.
    """
    if changes_jobs and saved_plan_paths(source):
        raise click.UsageError("saved jobs are carried out unchanged: leave --select, --exclude, --max-… and -o out")
    saved = saved_plan(source, jobs=True)
    if saved is None:
        return None
    path, plan = saved
    return plan, load_manifest_of(plan, path, source)


def _plan_jobs(source: CatalogSource, options: Mapping[str, Any], parallelism: int) -> tuple[Plan, Manifest]:
    """Return a plan of the jobs that the manifest needs now, and the manifest."""
    from reconciler.operations.maintain import plan_maintenance

    manifest = source.load()
    started = monotonic()
    plan = plan_maintenance(manifest, **options, parallelism=parallelism)
    datasets = sum(catalog.desired_objects for catalog in plan.catalogs)
    print_progress(f"Looked at {display.count(datasets, 'dataset')}  {monotonic() - started:.1f} s")
    return plan, manifest
