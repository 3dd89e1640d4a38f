"""``lancens conformance``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import format_option, parse_pairs

if TYPE_CHECKING:
    from reconciler.conformance import ConformanceCheck


@click.command("conformance")
@click.option("--impl", required=True, metavar="IMPL", help="A backend, or the class path of any LanceNamespace.")
@click.option(
    "--config", multiple=True, callback=parse_pairs, metavar="KEY=VALUE", help="The configuration of the catalog."
)
@click.option("--namespace", metavar="NS$NS", help="An existing namespace to work under.")
@format_option("How to print the report.")
def command(impl: str, config: dict[str, str], namespace: str | None, form: str) -> None:
    """Check a catalog against the Lance Namespace operations; prints each operation and its result.

    It works inside namespaces that it creates and removes; stderr names the check that runs. Exit 1 if a check fails,
    or with one error if no check could run.

    \b
    Examples:
      lancens conformance --impl dir --config root=/tmp/lake
      lancens conformance --impl memory
      lancens conformance --impl lance.namespace.DirectoryNamespace --config root=/tmp/lake
    """
    from reconciler.conformance import run

    def print_check(check: ConformanceCheck) -> None:
        click.echo(f"{check.operation}: {check.title}", err=True)

    def warn_of_datasets(location: str) -> None:
        click.echo(f"Warning: the checks write datasets to {location}, and leave them there.", err=True)

    parent = tuple(namespace.split("$")) if namespace else ()
    report = run(impl, config, namespace=parent, starting=print_check, writing=warn_of_datasets)
    click.echo(json.dumps(report.document(), indent=2) if form == "json" else report.table())
    if not report.ok:
        sys.exit(1)
