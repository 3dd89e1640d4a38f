"""``lancens conformance``."""

from __future__ import annotations

import sys

import click

from reconciler.cli.options import pairs


@click.command("conformance")
@click.option("--impl", required=True, metavar="IMPL", help="The backend to check.")
@click.option("--config", multiple=True, callback=pairs, metavar="KEY=VALUE", help="How to reach the catalog.")
@click.option("--namespace", default="", metavar="NS$NS", help="An existing namespace to work under.")
def command(impl: str, config: dict[str, str], namespace: str) -> None:
    """Check a catalog against the Lance Namespace operations; prints operation and result.

    Works inside namespaces of its own, which it makes and removes. Exit 1 when a check fails.

    \b
    Examples:
      lancens conformance --impl dir --config root=/tmp/lake
      lancens conformance --impl memory
    """
    from reconciler.conformance import run

    report = run(impl, config, namespace=tuple(namespace.split("$")) if namespace else ())
    click.echo(report.table())
    if not report.ok:
        sys.exit(1)
