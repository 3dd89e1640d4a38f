"""``lancens list``."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.options import CatalogSource, complete_address, format_option, parallelism_option, source_options
from reconciler.cli.recent import remember_addresses
from reconciler.cli.results import write_result
from reconciler.model import display
from reconciler.model.json_encoding import encode_json

if TYPE_CHECKING:
    from reconciler.operations.listing import ListedTable, Which


@click.command("list", cls=GroupedCommand)
@click.argument("globs", nargs=-1, metavar="[GLOB]...", shell_complete=complete_address)
@source_options(
    click.option("--manifest", "manifests", multiple=True, metavar="MANIFEST", help="lancens.yaml by default.")
)
@click.option("--owned", is_flag=True, help="Only what this manifest manages.")
@click.option("--unmanaged", is_flag=True, help="Only what no manifest manages.")
@click.option("--blocked", is_flag=True, help="Only what a plan cannot change.")
@format_option("How to print the tables.", ("text", "json", "csv"))
@parallelism_option()
def command(
    globs: tuple[str, ...],
    source: CatalogSource,
    owned: bool,
    unmanaged: bool,
    blocked: bool,
    form: str,
    parallelism: int,
) -> None:
    """List the live tables of the catalogs: address, location, owner, mirror or clone, and protection.

    \b
    Examples:
      lancens list
      lancens list 'prod/ads/**' --owned
      lancens list --unmanaged --format csv > unmanaged.csv
    """
    from reconciler.operations.listing import list_tables

    if owned + unmanaged + blocked > 1:
        raise click.UsageError("pass one of --owned, --unmanaged and --blocked")
    which: Which = "owned" if owned else "unmanaged" if unmanaged else "blocked" if blocked else "all"
    tables, total = list_tables(source.load_existing(globs), globs, which=which, parallelism=parallelism)
    remember_addresses(table.address for table in tables)
    if form == "json":
        write_result(display.json_text(encode_json(tables, 2)))
        return
    if form == "csv":
        write_result(_csv_text(tables))
        return
    lines = _aligned_lines(tables)
    write_result("".join(f"{line}\n" for line in lines) + f"{len(tables):,} of {display.count(total, 'table')}")


def _aligned_lines(tables: Sequence[ListedTable]) -> list[str]:
    """Return a line for each table; a column that is empty in all of them is left out."""
    rows = [
        (
            display.address(*table.address.split("/")),
            display.value(table.location or ""),
            display.printable(table.owner or "-"),
            f"mirror of {display.name(table.mirror)}" if table.mirror else "",
            f"clone of {display.printable(table.clone)}" if table.clone else "",
            "protected" if table.protect else "",
        )
        for table in tables
    ]
    widths = [max(map(display.width_of, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(display.padded(text, width) for text, width in cells if width).rstrip()
        for cells in (zip(row, widths, strict=True) for row in rows)
    ]


def _csv_text(tables: Sequence[ListedTable]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("address", "location", "owner", "mirror", "protect", "clone"))
    for table in tables:
        texts = (table.address, table.location or "", table.owner or "", table.mirror or "")
        protect, clone = str(table.protect).lower(), display.message(table.clone or "")
        writer.writerow((*map(display.message, texts), protect, clone))
    return buffer.getvalue()
