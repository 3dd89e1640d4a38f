"""``lancens validate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.options import DEFAULT_MANIFEST, CatalogSource, format_option, manifest_options
from reconciler.cli.results import print_line, write_result
from reconciler.model import display
from reconciler.model.display import count
from reconciler.model.errors import ManifestError, Problem


@click.command("validate", cls=GroupedCommand)
@manifest_options
@click.option(
    "--affected",
    is_flag=True,
    help="The arguments are changed files: check each lancens.yaml in or above their folders, on its own.",
)
@format_option("How to print the result, errors included.")
def command(source: CatalogSource, affected: bool, form: str) -> None:
    """Check manifests without reading any catalog.

    All errors of all files are printed at once, each as file:line:column. ${env:…} and ${file:…} are not resolved, so
    this runs without credentials.

    \b
    Examples:
      lancens validate
      lancens validate prod.yaml --var region=eu
      git diff --name-only main | xargs lancens validate --affected
    """
    sources = [source]
    if affected:
        sources = [replace(source, manifests=(path,)) for path in _manifests_above(source.manifests)]
        if not sources:
            print_line(f"Nothing was checked: no {DEFAULT_MANIFEST} is in or above the folders of the files.", err=True)
    problems: list[Problem] = []
    for each in sources:
        try:
            manifest = each.load(checking=True)
        except ManifestError as error:
            problems += error.problems
            continue
        if form == "json":
            counts = {f"{kind}s": number for kind, number in manifest.counts.items()}
            write_result(display.json_text(json.dumps({"valid": True, "name": manifest.name, **counts})))
            continue
        parts = ", ".join(count(number, kind) for kind, number in manifest.counts.items())
        print_line(f"{manifest.name} is valid: {parts}.")
    if problems and form == "json":
        errors = [asdict(problem) for problem in problems]
        write_result(display.json_text(json.dumps({"valid": False, "errors": errors})))
        sys.exit(1)
    if problems:
        raise ManifestError(problems)


def _manifests_above(paths: Iterable[str]) -> list[str]:
    """Return the default manifests that may include one of ``paths``: includes are beneath the manifest's folder."""
    candidates = {folder / DEFAULT_MANIFEST: None for path in paths for folder in Path(path).parents}
    return [str(path) for path in candidates if path.is_file()]
