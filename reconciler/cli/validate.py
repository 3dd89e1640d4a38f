"""``lancens validate``."""

from __future__ import annotations

import click

from reconciler.cli.options import CatalogSource, manifest_options
from reconciler.cli.results import say
from reconciler.model.display import count


@click.command("validate")
@manifest_options
def command(source: CatalogSource) -> None:
    """Check manifests without reading any catalog.

    All errors of all files are printed at once, each as file:line:column. ${env:…} and ${file:…} are not resolved, so
    this runs without credentials.

    \b
    Examples:
      lancens validate
      lancens validate prod.yaml --var region=eu
    """
    manifest = source.load(checking=True)
    blocks = [catalog.desired for catalog in manifest.catalogs.values()]
    namespaces = sum(len(block.namespaces) for block in blocks)
    tables = sum(len(block.tables) for block in blocks)
    counts = f"{count(len(blocks), 'catalog')}, {count(namespaces, 'namespace')}, {count(tables, 'table')}"
    say(f"{manifest.name} is valid: {counts}.")
