"""``lancens conformance``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import format_option, pairs

if TYPE_CHECKING:
    from reconciler.conformance import ConformanceCheck


@click.command("conformance")
@click.option("--impl", required=True, metavar="IMPL", help="A backend, or the class path of any LanceNamespace.")
@click.option("--config", multiple=True, callback=pairs, metavar="KEY=VALUE", help="How to reach the catalog.")
@click.option("--namespace", metavar="NS$NS", help="An existing namespace to work under.")
@format_option("What is printed.")
def command(impl: str, config: dict[str, str], namespace: str | None, form: str) -> None:
    """Check a catalog against the Lance Namespace operations; prints operation and result.

    Works inside namespaces of its own, which it makes and removes; stderr says what is checked. Exit 1 when a check
    fails; also when none could run, which is told as one error.

    \b
    Examples:
      lancens conformance --impl dir --config root=/tmp/lake
      lancens conformance --impl memory
      lancens conformance --impl lance.namespace.DirectoryNamespace --config root=/tmp/lake
    """
    from reconciler.conformance import run

    def say(check: ConformanceCheck) -> None:
        click.echo(f"{check.operation}: {check.title}", err=True)

    report = run(impl, config, namespace=tuple(namespace.split("$")) if namespace else (), starting=say)
    click.echo(json.dumps(report.document(), indent=2) if form == "json" else report.table())
    if not report.ok:
        sys.exit(1)
