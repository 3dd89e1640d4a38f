"""``lancens maintain``."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.carrying_out import carry_out
from reconciler.cli.metrics import RunMetrics, metrics_option
from reconciler.cli.options import (
    CatalogSource,
    engine_options,
    full_option,
    journal_option,
    manifest_options,
    parallelism_option,
    plan_format_option,
    select_option,
)
from reconciler.cli.results import check_plan_file, inform, write_result
from reconciler.cli.saved_plans import manifest_of, plans_in, saved_plan
from reconciler.cli.showing import BLOCKED, print_plan
from reconciler.model import display

if TYPE_CHECKING:
    from reconciler.applier.report import ApplyReport
    from reconciler.manifest import Manifest
    from reconciler.pipeline.session import SparkOptions
    from reconciler.planner.plan import Plan, WorkLimits
    from reconciler.storage import Executors

_SIZE = re.compile(r"(\d{1,15})\s*(?:([KMGT])(iB?|B)?|B)?", re.IGNORECASE)


def _bytes(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    found = _SIZE.fullmatch(text)
    if found is None:
        raise click.BadParameter("expected a number of bytes, such as 500GiB")
    unit = " KMGT".index(found[2].upper()) if found[2] else 0
    thousand = 1000 if (found[3] or "").upper() == "B" else 1024
    return int(found[1]) * int(thousand**unit)


def _moment(_: click.Context, __: click.Parameter, text: str | None) -> datetime | None:
    """Return the next time at which the clock of this machine shows ``text``."""
    if text is None:
        return None
    try:
        asked = datetime.strptime(text, "%H:%M").time()
    except ValueError:
        raise click.BadParameter("expected a time of day, such as 02:00") from None
    now = datetime.now().astimezone()
    then = datetime.combine(now.date(), asked).astimezone()
    return then if then > now else datetime.combine(now.date() + timedelta(days=1), asked).astimezone()


@click.command("maintain")
@manifest_options
@select_option("Look only at what")
@plan_format_option
@full_option
@click.option("-o", "--out", metavar="FILE", help="Save the jobs for `lancens maintain FILE`, and run none.")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the jobs and run none.")
@click.option("--max-bytes", metavar="SIZE", callback=_bytes, help="The most to read and write, such as 500GiB.")
@click.option("--max-tables", metavar="N", type=click.IntRange(1), help="The most tables with jobs.")
@click.option("--until", metavar="HH:MM", callback=_moment, help="Start no job after this time of day.")
@click.option("--detailed-exitcode", is_flag=True, help="With -o or --dry-run: exit 2 when there are jobs.")
@journal_option
@metrics_option
@parallelism_option("Datasets at once.")
@engine_options("Rewrite and index data in this process, or on the executors of Spark.")
def command(
    run: RunMetrics,
    source: CatalogSource,
    select: tuple[str, ...],
    form: str,
    full: bool,
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
    asked = (select, out, (max_bytes, max_tables) != (None, None))
    limits = WorkLimits(max_bytes=max_bytes, max_tables=max_tables)
    plan, manifest = _saved(source, asked) or _planned(source, select, limits, parallelism)
    run.plan, run.manifest = plan, plan.manifest.name
    print_plan(plan, "json" if out == "-" else form, full=full)
    if out is not None and out != "-":
        write_result(plan.to_json(), out, private=True)
        inform(display.message(f"Saved to {out}; `lancens maintain {out}` carries out these jobs."))
    if not plan.is_empty and out is None and not dry_run:

        def carried_out(**watched: Any) -> ApplyReport:
            given: Mapping[str, Any] = {"until": until, "parallelism": parallelism, "executors": executors}
            run.report = maintain(plan, manifest, journal=journal, **given, **watched)
            return run.report

        # Spark starts before its Ctrl-C handler is replaced.
        with _executors(spark) as executors:
            carry_out(plan, carried_out, auto_approve=auto_approve, verb="Maintain", plan_form=form)
    if plan.blocked:
        sys.exit(BLOCKED)
    if detailed_exitcode and not plan.is_empty and (out is not None or dry_run):
        sys.exit(2)


def _executors(spark: SparkOptions | None) -> AbstractContextManager[Executors | None]:
    if spark is None:
        return nullcontext()
    from reconciler.pipeline.upkeep_tasks import executors_of

    return executors_of(spark)


def _saved(source: CatalogSource, asked: tuple[object, ...]) -> tuple[Plan, Manifest] | None:
    """Return the saved jobs that the command was given, with their manifest; None for manifests.

    Raises:
        UsageError: one of ``asked`` is set, which would change them.
    """
    if any(asked) and plans_in(source):
        raise click.UsageError("saved jobs are carried out unchanged: leave --select, --max-… and -o out")
    saved = saved_plan(source, jobs=True)
    if saved is None:
        return None
    path, plan = saved
    return plan, manifest_of(plan, path, source)


def _planned(
    source: CatalogSource, select: tuple[str, ...], limits: WorkLimits, parallelism: int
) -> tuple[Plan, Manifest]:
    """Return the jobs that the manifests need now."""
    from reconciler.operations.maintain import plan_maintenance

    manifest = source.load()
    started = monotonic()
    plan = plan_maintenance(manifest, select=select, limits=limits, parallelism=parallelism)
    looked = sum(catalog.desired_objects for catalog in plan.catalogs)
    inform(f"Looked at {display.count(looked, 'dataset')}  {monotonic() - started:.1f} s")
    return plan, manifest
