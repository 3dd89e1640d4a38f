"""``lancens audit``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from reconciler.auditor.records import FEW_TABLES, ROUNDS, FailOn
from reconciler.auditor.rules import LIMITS, RULES, rules_to_apply
from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.metrics import RunMetrics, metrics_option
from reconciler.cli.options import (
    CatalogSource,
    catalog_options,
    exclude_option,
    parallelism_option,
    print_place_of_work,
    spark_options,
)
from reconciler.cli.results import print_line
from reconciler.model.errors import LancensError
from reconciler.storage import Depth

if TYPE_CHECKING:
    from reconciler.auditor.document import AuditDocument
    from reconciler.pipeline.session import SparkOptions

_RULE = click.Choice(list(RULES))
_LIMIT_NAMES = [name.replace("_", "-") for name in LIMITS]


def _parse_limits(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    """Return the thresholds that ``--limit`` sets, by their names in :data:`LIMITS`.

    Raises:
        click.BadParameter: a name is unknown, or a value is not a whole number.
    """
    limits: dict[str, int] = {}
    for text in texts:
        name, _equals, number = text.partition("=")
        if name not in _LIMIT_NAMES:
            raise click.BadParameter(f"'{name}' is not one of {', '.join(map(repr, _LIMIT_NAMES))}")
        if not (number.isascii() and number.isdecimal()):
            raise click.BadParameter(f"'{text}': expected a whole number from 0, as in {name}=100")
        limits[name.replace("-", "_")] = int(number)
    return limits


@click.command("audit", cls=GroupedCommand, epilog=f"Rules: {', '.join(RULES)}.")
@catalog_options("Audit a catalog that no manifest describes.")
@exclude_option
@click.option("--out", metavar="DIR", help="Write the report here: HTML, JSON, SARIF, JUnit and Parquet.")
@click.option("--history", metavar="URI", help="Append the run to this Lance dataset; the report shows the trend.")
@click.option(
    "--since-last",
    is_flag=True,
    help="Look in storage only at datasets with a new version since the last run in --history, and at a share of the "
    f"others, all of them in {ROUNDS} runs.",
)
@click.option(
    "--stale-after",
    type=click.IntRange(1, 36_500),
    default=180,
    metavar="DAYS",
    help="A last commit older than this makes a table stale.",
)
@click.option(
    "--depth",
    type=click.Choice([depth.value for depth in Depth]),
    default=Depth.FILES.value,
    help="Read the latest version of each dataset (quick), also list its files (files), also read the ends of data and "
    "index files (footers), or also read all rows (rows).",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    callback=_parse_limits,
    help=f"A threshold of the rules: {', '.join(_LIMIT_NAMES)}. Can be repeated.",
)
@click.option("--rule", "rules", multiple=True, type=_RULE, metavar="RULE", help="Run this rule only. Can be repeated.")
@click.option("--skip-rule", "skipped", multiple=True, type=_RULE, metavar="RULE", help="Leave this rule out.")
@click.option(
    "--fail-on",
    type=click.Choice(get_args(FailOn)),
    default="never",
    help="Exit 2 if there is a finding of this severity or higher, or an unreadable table with its rules left out.",
)
@metrics_option
@spark_options(f"This process checks up to {FEW_TABLES:,} tables, Spark checks more")
@parallelism_option("Requests to a catalog at once, of each task.")
def command(
    source: CatalogSource,
    exclude: tuple[str, ...],
    out: str | None,
    history: str | None,
    since_last: bool,
    stale_after: int,
    depth: str,
    limits: Mapping[str, int],
    rules: tuple[str, ...],
    skipped: tuple[str, ...],
    fail_on: FailOn,
    spark: SparkOptions | None,
    parallelism: int,
    run: RunMetrics,
) -> None:
    """Check every table and its data, and report each finding with a remedy. Nothing is changed.

    It runs in this process, or on Spark (--engine) with many tables. Exit 1 if something could not be read. With
    --impl it needs no manifest, and leaves out the rules that compare with one. Without --out it prints the most
    severe findings.

    \b
    Examples:
      lancens audit --impl hive3 --config uri=thrift://metastore:9083
      lancens audit --out report
      lancens audit prod.yaml --out report --history s3://ops/audits.lance --since-last --fail-on error
      lancens audit prod.yaml --out report --rule orphan --rule dangling
    """
    from reconciler.auditor.audit import AuditOptions
    from reconciler.auditor.run import run_audit

    options = AuditOptions(
        stale_after=timedelta(days=stale_after),
        depth=Depth(depth),
        limits=limits,
        rules=rules_to_apply(rules or None, skipped, has_manifest=source.impl is None),
        parallelism=parallelism,
        history=history,
        since_last=since_last,
        exclude=exclude,
    )
    manifest = source.load_existing()
    run.manifest = manifest.name if source.impl is None else "no manifest"  # no label holds a location
    folder = None if out is None else _create_folder(out)
    print_place_of_work()

    def report(document: AuditDocument) -> None:
        run.document = document
        if folder is not None:
            from reconciler.report.folder import write_report

            write_report(document, folder)
        _print_summary(document, folder)

    document = run_audit(spark, manifest, options, report)
    sys.exit(1 if not document.complete else 2 if document.fails(fail_on) else 0)


def _create_folder(out: str) -> Path:
    """Create and return the report's folder, before the audit rather than after it.

    Raises:
        LancensError: the folder cannot be created.
    """
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LancensError(f"{out} cannot be created: {error.strerror}; name a folder with --out") from None
    return folder


def _print_summary(document: AuditDocument, folder: Path | None) -> None:
    """Print the result, and where the report is.

    Without ``folder``, there is no report, and the most severe findings are printed.
    """
    from reconciler.report.text import remark_lines, summary_lines, worst_lines

    details = worst_lines(document) if folder is None else [f"Report: {folder / 'audit.html'}"]
    for line in (*summary_lines(document), *details):
        print_line(line)
    for line in remark_lines(document):
        print_line(line, err=True)
