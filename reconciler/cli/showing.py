"""Making plans and printing them, for the commands that do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import PlanFlags, load_manifest, wants_color, write_result
from reconciler.model import display

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.operations.profile import Profile
    from reconciler.planner.entries import Key
    from reconciler.planner.plan import Plan
    from reconciler.spark.session import SparkOptions


BLOCKED = 3
"""The exit code of a plan that could not plan everything, of its `apply` and of `drift`."""


@contextmanager
def _reading(manifest: Manifest) -> Iterator[None]:
    """Show on a terminal's stderr that catalogs are being read."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    names = ", ".join(
        f"{display.name(name)} ({display.name(catalog.impl)})" for name, catalog in sorted(manifest.catalogs.items())
    )
    with Console(stderr=True).status(Text(f"Reading {names} …")):
        yield


def make_plan(flags: PlanFlags, manifest: Manifest, profile: Profile | None = None) -> Plan:
    """Return the plan, saying on stderr what was read; thresholds are not looked at yet.

    ``profile`` gets what each stage took.
    """
    from reconciler.operations.plan import plan

    with _timed() as told, _reading(manifest):
        made = plan(
            manifest,
            select=flags.select,
            adopt=flags.adopt,
            take_over=flags.take_over,
            allow_mass_removal=True,
            parallelism=flags.parallelism,
            profile=profile,
        )
        told.append(made)
    return made


def _make_plan_on_spark(flags: PlanFlags, manifest: Manifest, options: SparkOptions) -> Plan:
    """Return the plan that :func:`make_plan` returns, made on Spark."""
    from reconciler.spark.engine import plan_on_spark
    from reconciler.spark.session import spark_session

    with _timed() as told, spark_session(options) as spark:
        made = plan_on_spark(
            spark,
            manifest,
            select=flags.select,
            adopt=flags.adopt,
            take_over=flags.take_over,
            allow_mass_removal=True,
            parallelism=flags.parallelism,
        )
        told.append(made)
    return made


@contextmanager
def _timed() -> Iterator[list[Plan]]:
    """Give a list for the plan that is made in the block, and say on stderr what was read for it, and how long."""
    from reconciler.output.wording import read_line

    started, made = monotonic(), list["Plan"]()
    yield made
    for plan in made:
        click.echo(f"{read_line(plan)}  {monotonic() - started:.1f} s", err=True)


def print_plan(plan: Plan, form: str, *, full: bool, removed: Mapping[Key, str] | None = None) -> None:
    """Print ``plan`` to stdout, with what is to be said of the data of tables that are ``removed``."""
    from reconciler.output import render

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    write_result(render(plan, form, color=wants_color(), full=full, width=width, removed=removed))


def what_goes(flags: PlanFlags, plan: Plan, manifest: Manifest) -> Mapping[Key, str]:
    """Return what is to be said of the data of the tables that ``plan`` deregisters."""
    if flags.no_probe:
        return {}
    from reconciler.operations.removed import look_at_removed

    return look_at_removed(plan, manifest, parallelism=flags.parallelism)


def plan_and_show(
    flags: PlanFlags, form: str, *, full: bool, spark: SparkOptions | None = None, profiled: str | None = None
) -> Plan:
    """Load, plan and print; a plan that removes too much is printed and then refused.

    ``profiled`` is the file that is told where the time went.

    Raises:
        SafetyError: too much would be removed.
    """
    from reconciler.operations.profile import Profile
    from reconciler.planner.plan import check_removals

    profile = Profile()
    with profile.stage("manifest"):
        manifest = load_manifest(flags.manifests, flags.variables)
    plan = make_plan(flags, manifest, profile) if spark is None else _make_plan_on_spark(flags, manifest, spark)
    with profile.stage("removed data"):
        removed = {} if form == "json" else what_goes(flags, plan, manifest)
    with profile.stage("output"):
        print_plan(plan, form, full=full, removed=removed)
    if profiled is not None:
        write_result(profile.to_json(), profiled)
    if not flags.allow_mass_removal:
        check_removals(plan)
    return plan
