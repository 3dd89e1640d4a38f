"""``lancens validate``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import date

import click

from reconciler.cli.options import CatalogSource, format_option, manifest_options
from reconciler.cli.results import print_line, write_result
from reconciler.model import display
from reconciler.model.display import count
from reconciler.model.errors import ManifestError


@click.command("validate")
@manifest_options
@format_option("How to print the result, errors included.")
def command(source: CatalogSource, form: str) -> None:
    """Check manifests without reading any catalog.

    All errors of all files are printed at once, each as file:line:column. ${env:…} and ${file:…} are not resolved, so
    this runs without credentials.

    \b
    Examples:
      lancens validate
      lancens validate prod.yaml --var region=eu
    """
    try:
        manifest = source.load(checking=True)
        if any(catalog.desired.suppress for catalog in manifest.catalogs.values()):
            from reconciler.auditor.suppressions import Suppressions  # the rules take time to import

            Suppressions.of(manifest, date.today())
    except ManifestError as error:
        if form == "text":
            raise
        errors = [asdict(problem) for problem in error.problems]
        write_result(display.json_text(json.dumps({"valid": False, "errors": errors})))
        sys.exit(1)
    if form == "json":
        counts = {f"{kind}s": number for kind, number in manifest.counts.items()}
        write_result(display.json_text(json.dumps({"valid": True, "name": manifest.name, **counts})))
        return
    print_line(
        f"{manifest.name} is valid: {', '.join(count(number, kind) for kind, number in manifest.counts.items())}."
    )
