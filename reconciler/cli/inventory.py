"""``lancens inventory``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.options import (
    CatalogSource,
    manifest_options,
    out_option,
    parallelism_option,
    print_place_of_work,
    spark_options,
)
from reconciler.cli.results import print_line
from reconciler.model.display import count

if TYPE_CHECKING:
    from reconciler.pipeline.rows import ReadFailure
    from reconciler.pipeline.session import SparkOptions
    from reconciler.pipeline.sinks import Form

_MOST_SHOWN = 10
_SUFFIXES: dict[str, Form] = {".lance": "lance", ".parquet": "parquet", ".json": "json", ".jsonl": "json"}


@click.command("inventory", cls=GroupedCommand)
@manifest_options
@out_option("Write to a file or a Lance dataset; by default, JSON to stdout.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["lance", "parquet", "json"]),
    help="The format; by default, by the suffix of FILE.",
)
@spark_options("Spark reads the catalogs")
@click.option("--partitions", type=click.IntRange(1), default=256, help="The approximate maximum number of tasks.")
@parallelism_option("Requests at once, of each task.")
def command(
    source: CatalogSource,
    out: str | None,
    form: Form | None,
    spark: SparkOptions | None,
    partitions: int,
    parallelism: int,
) -> None:
    """Write every object of the catalogs to one file or dataset.

    It holds a row for each namespace, table and note, and a row for each namespace that says whether its content was
    read, or with which error it failed. Exit 1 if one failed. Values that look like secrets are left out.

    \b
    Examples:
      lancens inventory -o inventory.lance
      lancens inventory prod.yaml -o inventory.parquet --master 'local[4]'
      lancens inventory | jq -r 'select(.kind == "table").location'
    """
    form = form or _format_by_suffix(out)
    if out is None and form != "json":
        raise click.UsageError(f"only JSON can be written to stdout: name a file for {form} with -o")
    from reconciler.pipeline.inventory import write_inventory

    manifest = source.load_existing()
    print_place_of_work()
    inventory = write_inventory(manifest, out, form, spark, partitions=partitions, parallelism=parallelism)
    if out is not None:
        counts = f"{count(inventory.namespaces, 'namespace')}, {count(inventory.tables, 'table')}"
        print_line(f"Wrote {out}: {counts}.", err=True)
    if inventory.unread:
        _print_failures(inventory.unread)
        sys.exit(1)


def _format_by_suffix(out: str | None) -> Form:
    """Return the format by the suffix of the file; JSON for stdout."""
    if out is None:
        return "json"
    form = _SUFFIXES.get(PurePath(out).suffix)
    if form is None:
        raise click.UsageError(f"{out} has none of the suffixes {', '.join(_SUFFIXES)}: pass --format")
    return form


def _print_failures(failures: Sequence[ReadFailure]) -> None:
    """Print the first of the namespaces that could not be read, and the number of all."""
    for failure in failures[:_MOST_SHOWN]:
        message = failure.message
        if message.startswith(f"{failure.catalog} ("):  # the address names the catalog already
            message = message.partition("): ")[2]
        print_line(f"{failure.address}: {message}", err=True)
    hidden = len(failures) - _MOST_SHOWN
    note = f", of which {hidden:,} are not shown" if hidden > 0 else ""
    click.echo(f"Not complete: {count(len(failures), 'namespace')} could not be read{note}.", err=True)
