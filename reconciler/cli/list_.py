"""``lancens list``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import CatalogSource, complete_address, format_option, parallelism_option, source_options
from reconciler.cli.results import write_result
from reconciler.model import display

if TYPE_CHECKING:
    from reconciler.operations.listing import ListedTable, Which


@click.command("list")
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
    """List the live tables of the catalogs: address, location, owner, mirror and protection.

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
    found, total = list_tables(source.load_existing(globs), globs, which=which, parallelism=parallelism)
    if form == "json":
        write_result(display.json_text(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False)))
        return
    if form == "csv":
        write_result(_csv(found))
        return
    write_result("".join(f"{line}\n" for line in _lines(found)) + f"{len(found):,} of {display.count(total, 'table')}")


def _lines(found: Sequence[ListedTable]) -> list[str]:
    rows = [
        (
            display.address(*one.address.split("/")),
            display.value(one.location or ""),
            display.printable(one.owner or "-"),
            f"mirror of {display.name(one.mirror)}" if one.mirror else "",
            "protected" if one.protect else "",
        )
        for one in found
    ]
    widths = [max(map(display.width_of, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text + " " * (width - display.width_of(text)) for text, width in cells if width).rstrip()
        for cells in (zip(row, widths, strict=True) for row in rows)
    ]


def _csv(found: Sequence[ListedTable]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("address", "location", "owner", "mirror", "protect"))
    for one in found:
        texts = (one.address, one.location or "", one.owner or "", one.mirror or "")
        table.writerow((*map(display.message, texts), str(one.protect).lower()))
    return out.getvalue()
