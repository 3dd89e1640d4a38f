"""``lancens init``."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.options import DEFAULT_MANIFEST, complete_impl, out_option
from reconciler.cli.results import check_new_manifest, print_line, write_result


@click.command("init")
@click.option(
    "--impl", metavar="IMPL", default="dir", shell_complete=complete_impl, help="The first catalog's implementation."
)
@click.option("--name", metavar="NAME", help="The manifest's name; by default that of this folder.")
@out_option("Write to this file.", default=DEFAULT_MANIFEST)
def command(impl: str, name: str | None, out: str | None) -> None:
    """Write a first manifest, with the keys of its config as comments.

    It is valid and manages nothing yet. No catalog is read.

    \b
    Examples:
      lancens init
      lancens init --impl glue -o prod.yaml
    """
    from reconciler.writing.export import name_from_folder
    from reconciler.writing.starting import first_manifest

    check_new_manifest(out, "init")
    write_result(first_manifest(impl, name_from_folder(name or Path.cwd().name)), out)
    if out is not None:
        print_line(
            f"Wrote {out}. Fill in its `config`; then `lancens import --append {out}` adds what is there.", err=True
        )
