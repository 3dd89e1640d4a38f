"""Make plans and print them, for every command that plans."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from reconciler.cli.metrics import RunMetrics
from reconciler.cli.options import CatalogSource, PlanFlags, PlanView
from reconciler.cli.recent import remember_addresses
from reconciler.cli.results import print_progress, write_result
from reconciler.model import display
from reconciler.model.names import address
from reconciler.pipeline.progress import is_quiet

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.operations.profile import Profile
    from reconciler.pipeline.session import SparkOptions
    from reconciler.planner.entries import Key
    from reconciler.planner.plan import Plan


BLOCKED = 3
"""The exit code of `plan`, `apply` and `drift` if an object is blocked."""


def load_and_plan(
    run: RunMetrics, flags: PlanFlags, *, spark: SparkOptions | None = None, against: str | None = None
) -> tuple[Plan, Manifest]:
    """Load the manifest, and return its plan and the manifest; ``against`` is a git revision of an earlier one.

    The caller must check how much the plan removes. A line on stderr says how much was read. ``run`` receives the plan
    and, unless it is made on ``spark``, the duration of each stage.
    """
    from reconciler.operations.connections import missing_roots
    from reconciler.operations.plan import shared_options
    from reconciler.output.wording import read_line

    with run.profile.stage("manifest"):
        manifest = flags.source.load()
    run.manifest = manifest.name
    started = monotonic()
    earlier = {} if against is None else {"against": flags.source.load_at(against)}
    with _planning_function(manifest, run.profile, spark) as make_plan:
        plan = run.plan = make_plan(manifest, **shared_options(flags), **earlier)
    remember_addresses(address(entry.catalog, entry.identifier) for entry in plan.entries)
    print_progress(f"{read_line(plan)}  {monotonic() - started:.1f} s")
    for missing in missing_roots(manifest, [catalog.name for catalog in plan.catalogs if catalog.impl == "dir"]):
        print_progress(f"{missing} The first change creates it.")
    return plan, manifest


@contextmanager
def _planning_function(
    manifest: Manifest, profile: Profile, spark: SparkOptions | None
) -> Iterator[Callable[..., Plan]]:
    """Yield ``reconciler.plan``, or its counterpart on Spark.

    Meanwhile, a terminal shows that catalogs are being read.
    """
    if spark is not None:
        from reconciler.pipeline.engine import plan_on_spark
        from reconciler.pipeline.session import spark_session

        with spark_session(spark) as session:
            yield partial(plan_on_spark, session)
        return
    from reconciler.operations.plan import plan

    if not sys.stderr.isatty():
        yield partial(plan, profile=profile)
        return
    from rich.console import Console
    from rich.text import Text

    names = ", ".join(
        f"{display.name(name)} ({display.name(catalog.impl)})" for name, catalog in sorted(manifest.catalogs.items())
    )
    with Console(stderr=True).status(Text(f"Reading {names} …")):
        yield partial(plan, profile=profile)


def print_plan(
    plan: Plan, view: PlanView, *, source: CatalogSource | None = None, notes: Mapping[Key, str] | None = None
) -> None:
    """Print ``plan``; with ``--quiet``, only the last line of text.

    Commands in it get the options of ``source`` that they need. ``notes`` are about the data of tables that the plan
    deregisters. A terminal gets colour; NO_COLOR and
    FORCE_COLOR in the environment change that (https://no-color.org).
    """
    from reconciler.output import render

    terminal = sys.stdout.isatty()
    supported = os.environ.get("FORCE_COLOR") or (terminal and os.environ.get("TERM") != "dumb")
    color = bool(supported) and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size().columns if terminal else None
    complete = None if source is None else partial(source.complete_command, plan=plan)
    text = render(
        plan,
        view.form,
        color=color,
        full=view.full,
        summary=view.summary,
        width=width,
        removed=notes,
        complete=complete,
    )
    write_result(text.splitlines()[-1] if view.form == "text" and is_quiet() else text, color=color)


def removal_notes(flags: PlanFlags, plan: Plan, manifest: Manifest) -> Mapping[Key, str]:
    """Return notes on the data of tables that ``plan`` deregisters.

    With ``--no-probe``, there are none.
    """
    if flags.no_probe:
        return {}
    from reconciler.operations.plan import describe_removed

    return describe_removed(plan, manifest, parallelism=flags.parallelism)


def plan_and_show(
    run: RunMetrics,
    flags: PlanFlags,
    view: PlanView,
    *,
    spark: SparkOptions | None = None,
    profile_path: str | None = None,
    against: str | None = None,
) -> Plan:
    """Load the manifest, plan, print the plan, and then check how much it removes.

    The duration of each stage is written to ``profile_path``.

    Raises:
        SafetyError: the plan removes too much.
    """
    from reconciler.planner.plan import check_removals

    plan, manifest = load_and_plan(run, flags, spark=spark, against=against)
    profile = run.profile
    with profile.stage("removed data"):
        notes = {} if view.form == "json" or view.summary else removal_notes(flags, plan, manifest)
    with profile.stage("output"):
        print_plan(plan, view, source=flags.source, notes=notes)
    if profile_path is not None:
        write_result(profile.to_json(), profile_path)
    if not flags.allow_mass_removal:
        check_removals(plan)
    return plan
