"""``lancens validate``."""

from __future__ import annotations

import click

from reconciler.cli.options import load_manifest, manifest_arguments, say, variables_option


@click.command("validate")
@manifest_arguments
@variables_option
def command(manifests: tuple[str, ...], variables: dict[str, str]) -> None:
    """Check manifests without reading any catalog.

    All errors of all files are printed at once, each as file:line:column. What ${env:…} and ${file:…} stand for is not
    looked up, so this runs where there are no credentials.

    \b
    Examples:
      lancens validate
      lancens validate prod.yaml --var region=eu
    """
    manifest = load_manifest(manifests, variables, checking=True)
    blocks = [catalog.desired for catalog in manifest.catalogs.values()]
    namespaces = sum(len(block.namespaces) for block in blocks)
    tables = sum(len(block.tables) for block in blocks)
    counts = ((len(blocks), "catalog"), (namespaces, "namespace"), (tables, "table"))
    said = ", ".join(f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    say(f"{manifest.name} is valid: {said}.")
